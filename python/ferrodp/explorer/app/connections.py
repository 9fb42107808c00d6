"""What one address may hold of the server: connections, and the seconds that it takes to send a request."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from typing import Any

MAX_CONNECTIONS = 256
"""Of all addresses together; uvicorn answers 503 beyond."""
MAX_OF_AN_ADDRESS = 64
HEADER_SECONDS = 10.0
BODY_SECONDS = 10.0


def network(host: str) -> str:
    """Return what counts as one client: an IPv4 address, or the 64 bits of an IPv6 one that its network has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def protocol(*, most: int = MAX_OF_AN_ADDRESS, seconds: float = HEADER_SECONDS) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with two limits that it lacks.

    A connection beyond `most` of its address is closed at once, and so is one on which no request has arrived whole,
    up to the end of its header, `seconds` after it was opened or after the last response. Without these, one client
    that sends half a header on as many connections as the server has keeps everybody out.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    open_of: Counter[str] = Counter()

    class Limited(H11Protocol):
        """A connection that counts for its address until it is closed."""

        _network: str | None = None
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            peer = transport.get_extra_info("peername")
            client = network(str(peer[0])) if peer else ""
            # mutant: connections-of-an-address-not-counted
            if open_of[client] >= most:
                transport.abort()
                return
            open_of[client] += 1
            self._network = client
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._network is None:
                return
            open_of[self._network] -= 1
            if not open_of[self._network]:
                del open_of[self._network]
            self._stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._network is not None:
                super().data_received(data)

        def eof_received(self) -> None:
            if self._network is not None:
                super().eof_received()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self.transport.is_closing():
                self._wait()

        def _wait(self) -> None:
            self._stop()
            self._timer = self.loop.call_later(seconds, self._check)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()

        def _check(self) -> None:
            """Close the connection, unless a request is being answered: its response starts the time again."""
            # mutant: half-a-header-waited-for
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Limited
