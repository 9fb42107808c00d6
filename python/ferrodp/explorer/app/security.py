"""What the server refuses before any route sees a request, and the headers that every response carries.

A page that listens on loopback can be reached by every web site that is open in the same browser. What keeps them out:
the Host must be one of this server's names (a foreign one means that a name was rebound), the Origin must be the Host,
requests that other sites start are refused unless a person follows a link, and what changes state needs a token that
only this server's pages hold.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from ferrodp.explorer.app.connections import BODY_SECONDS, network

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY = 4096
MAX_TARGET = 4096
"""Of path and query together."""
TOKEN_HEADER = b"x-ferrodp-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::[0-9]{1,5})?")
_BURST, _PER_SECOND = 120.0, 30.0
_MAX_CLIENTS = 4096
_CODES = {
    400: "bad_request",
    403: "forbidden",
    405: "method",
    408: "too_slow",
    411: "length",
    413: "too_large",
    414: "too_long",
    415: "type",
    429: "too_many",
}


class Refused(Exception):  # noqa: N818  # what happened, not that it is an error
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.remedy = status, message, remedy


def error_body(code: str, message: str, remedy: str = "") -> dict[str, Any]:
    """Return the JSON of an error, the same for all routes."""
    return {"schema": 1, "error": {"code": code, "message": message, "remedy": remedy}}


class Guard:
    """ASGI middleware that refuses what no page of this server sends, and adds the headers of security.

    `hosts` are the names that the Host header may have; None stands for any, as a public server may have any name.
    With `rate_limited`, each client address has a bucket of requests.
    """

    def __init__(self, app: Application, *, token: str, hosts: Iterable[str] | None, rate_limited: bool) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = None if hosts is None else frozenset(hosts)
        self._buckets: OrderedDict[str, tuple[float, float]] | None = OrderedDict() if rate_limited else None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass on a request that may be answered."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            self._check(scope)
            if scope["method"] == "POST":
                try:
                    async with asyncio.timeout(BODY_SECONDS):
                        receive = await _bounded(receive)
                except TimeoutError:
                    raise Refused(408, f"the body must arrive within {BODY_SECONDS:g} seconds") from None
        except Refused as refused:
            await _refuse(refused, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _check(self, scope: Message) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        host = self._host(headers.get(b"host", []))
        if self._buckets is not None:
            self._take(scope)
        if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > MAX_TARGET:
            raise Refused(414, f"path and query must be at most {MAX_TARGET} bytes")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise Refused(405, "the method must be GET, HEAD or POST")
        for origin in headers.get(b"origin", []):
            # mutant: foreign-origin-accepted
            if origin.decode("latin-1").lower() not in (f"http://{host}", f"https://{host}"):
                raise Refused(403, "the Origin must be this server", "open the address that the server printed")
        sites = set(headers.get(b"sec-fetch-site", []))
        followed = scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == [b"navigate"]
        if sites - {b"same-origin", b"none"} and not followed:
            raise Refused(403, "other sites may link to this server, and nothing else")
        if scope["method"] == "POST":
            given = headers.get(TOKEN_HEADER, [b""])
            # mutant: token-not-compared
            if len(given) != 1 or not hmac.compare_digest(given[0], self._token):
                raise Refused(403, "the token of this server is missing", "reload the page")
            if headers.get(b"content-type") != [b"application/json"]:
                raise Refused(415, "the body must be application/json")
            length = headers.get(b"content-length", [b""])
            if len(length) != 1 or not length[0].isdigit():
                raise Refused(411, "Content-Length is missing")
            if len(length[0]) > 9 or int(length[0]) > MAX_BODY:
                raise Refused(413, f"the body must be at most {MAX_BODY} bytes")

    def _host(self, given: list[bytes]) -> str:
        host = given[0].decode("latin-1").lower() if len(given) == 1 else ""
        found = _HOST.fullmatch(host)
        # mutant: foreign-host-accepted
        if found is None or (self._hosts is not None and found["name"] not in self._hosts):
            raise Refused(400, "the Host must be a name of this server", "open the address that the server printed")
        return host

    def _take(self, scope: Message) -> None:
        """Take one request from the bucket of the client's address."""
        assert self._buckets is not None
        client = network((scope.get("client") or ("",))[0])
        now = time.monotonic()
        left, then = self._buckets.pop(client, (_BURST, now))
        left = min(_BURST, left + (now - then) * _PER_SECOND)
        self._buckets[client] = (max(left - 1.0, 0.0), now)
        while len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1.0:
            raise Refused(429, "too many requests", "wait a second")


async def _bounded(receive: Receive) -> Receive:
    """Read a body of bounded size; return a channel that gives it again, then what the client does next."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "the body ended early")
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise Refused(413, f"the body must be at most {MAX_BODY} bytes")
        if not message.get("more_body", False):
            break
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return again


async def _refuse(refused: Refused, send: Send) -> None:
    body = json.dumps(error_body(_CODES.get(refused.status, "refused"), refused.message, refused.remedy)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    if refused.status in (400, 408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
