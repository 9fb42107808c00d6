"""Serving the application from the command line."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import webbrowser
from collections.abc import Callable

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.explorer.app import DEFAULT_PORT
from ferrodp.explorer.app.application import build
from ferrodp.explorer.app.connections import MAX_CONNECTIONS, protocol


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def serve(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    public: bool = False,
    browser: bool = True,
    say: Callable[[str], None],
) -> str:
    """Serve until interrupted; return the address.

    Without a port, the usual one is taken or, where that is in use, any other.
    """
    if port is not None:
        _validate.count("port", port, minimum=0, maximum=65_535)
    if not is_loopback(host) and not public:
        raise InvalidParameter(f"host must be a loopback address unless --public is given, got {host!r}")
    try:
        import uvicorn
    except ImportError:
        raise MissingPackage('the explorer needs uvicorn: pip install "ferrodp[explorer]"') from None

    app = build(
        public=public, hosts=None if public or host in ("127.0.0.1", "localhost") else frozenset({_named(host)})
    )
    with _listening(host, port) as listener:
        address = f"http://{_named(host)}:{listener.getsockname()[1]}/"
        say(f"FerroDP explorer: {address}")
        if public:
            say("Public: everybody who can reach this address can use it.")
        say("End it with Ctrl-C.")
        config = uvicorn.Config(
            app, http=protocol(), ws="none", log_level="warning", access_log=False, server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=10, timeout_graceful_shutdown=2, h11_max_incomplete_event_size=16_384, lifespan="on",
        )  # fmt: skip
        if browser:
            threading.Timer(0.3, webbrowser.open, [address]).start()
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    return address


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _listening(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (DEFAULT_PORT, 0) if port is None else (port,):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host.strip("[]"), candidate))
        except OSError:
            listener.close()
            if candidate == (0 if port is None else port):
                raise
            continue
        listener.listen(128)
        return listener
    raise AssertionError("some port is free")
