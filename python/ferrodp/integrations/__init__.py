"""Private training inside other frameworks: one module for each. No other part of the package imports them.

`import ferrodp` does not import these modules, and importing one of them does not import its framework: that happens
in the first call that needs it, which raises `MissingPackage` where the framework is not installed. Each has an extra,
such as ``pip install "ferrodp[torch]"``.
"""

__all__: list[str] = []
