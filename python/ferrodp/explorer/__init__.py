"""A local web page for learning DP-SGD. This library computes every number on it when it is shown.

``ferrodp explore`` starts it; the extra is ``pip install "ferrodp[explorer]"``. Importing this package imports no web
framework.

`create_app`
    The ASGI application, for a server of your own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrodp._base import _validate
from ferrodp.errors import InvalidType

__all__ = ["create_app"]


def create_app(*, public: bool = False, hosts: Iterable[str] = ()) -> Any:
    """Return the explorer as an ASGI application. It keeps no data and writes nothing.

    Parameters
    ----------
    public : bool
        Whether others than this machine's user can reach it: then requests are limited for each client address,
        trainings are smaller and fewer, and any Host is accepted unless `hosts` names them.
    hosts : iterable of str
        Further names that the Host header of a request may have, in lower case and without port. A request with
        another one is refused; loopback names are always accepted.

    Returns
    -------
    ASGI application
        A callable for uvicorn and other servers.

    Raises
    ------
    MissingPackage
        If starlette is not installed.
    InvalidType
        If a parameter has another type.

    Examples
    --------
    >>> from ferrodp.explorer import create_app
    >>> app = create_app()  # uvicorn.run(app) serves it
    """
    from ferrodp.explorer.app.application import build

    names = [] if isinstance(hosts, str) else list(hosts)
    if isinstance(hosts, str) or not all(isinstance(name, str) for name in names):
        raise InvalidType("hosts must be an iterable of str")
    return build(public=_validate.truth("public", public), hosts=frozenset(names) or None)
