"""Requests to an ASGI application, with any headers: what no well-behaved client would send."""

import asyncio
import json
from dataclasses import dataclass


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()


def request(app, path, *, method="GET", query="", headers=(), host="127.0.0.1:8421", body=b"", client="127.0.0.1"):
    """Send one request and return the whole reply.

    `host` may be None, a body that is None never comes, and headers are sent as they are.
    """
    return asyncio.run(send(app, path, method, query, headers, host, body, client))


async def send(app, path, method="GET", query="", headers=(), host="127.0.0.1:8421", body=b"", client="127.0.0.1"):
    """Send one request; the client stays until the reply is complete."""
    given = [(b"host", host.encode())] if host is not None else []
    given += [(name.lower().encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode(), "headers": given,
        "client": (client, 50_000), "server": ("127.0.0.1", 8421),
    }  # fmt: skip
    waiting = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
    sent = []

    async def receive():
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def keep(message):
        sent.append(message)

    await app(scope, receive, keep)
    start = next(each for each in sent if each["type"] == "http.response.start")
    parts = [each.get("body", b"") for each in sent if each["type"] == "http.response.body"]
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], found, b"".join(parts))
