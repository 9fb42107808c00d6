"""A local web page to learn DP-SGD with, on which every number is computed by this library when it is shown.

``ferrodp explore`` starts it; the extra is ``pip install "ferrodp[explorer]"``. Importing this package imports no web
framework.
"""

__all__: list[str] = []
