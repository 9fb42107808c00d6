"""Trainings: each in a process of its own that ends with the page, streamed as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from typing import Any

from ferrodp.explorer.app.security import Message, Receive, Refused, Send

COMMANDS = ("pause", "resume", "step")
MAX_SECONDS = 900.0
"""From the start to the end of a training, pauses included."""
_KEEP_ALIVE = 10.0
_LINE_LIMIT = 4 * 2**20
_BUSY = Refused(503, "too many trainings are running", "Close another page that trains, or wait a moment.")


class Trainings:
    """The processes that train, at most `most` at a time, and one more that waits to be used.

    A process that waits has imported what takes long; it is started with the server and after each that was used.
    """

    def __init__(self, *, most: int, most_per_client: int, repeats: int) -> None:
        self._most, self._most_per_client, self._repeats = most, most_per_client, repeats
        self._running: dict[str, tuple[str, asyncio.subprocess.Process]] = {}
        self._spare: asyncio.Task[asyncio.subprocess.Process] | None = None

    def prepare(self) -> None:
        """Start the process that waits, if there is none."""
        if self._spare is None:
            self._spare = asyncio.create_task(_started())

    async def close(self) -> None:
        """End all processes."""
        for _, process in list(self._running.values()):
            await _ended(process)
        if self._spare is not None:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await _ended(await self._spare)
            self._spare = None

    def begin(self, client: str) -> str:
        """Return the name of a new training, or refuse: called before anything is awaited, so the count is exact."""
        mine = sum(owner == client for owner, _ in self._running.values())
        if len(self._running) >= self._most or mine >= self._most_per_client:
            raise _BUSY
        name = secrets.token_urlsafe(16)
        self._running[name] = (client, _NOTHING)
        return name

    def command(self, name: str, command: str) -> bool:
        """Pass on a command; return whether there is such a training."""
        found = self._running.get(name)
        if found is None or command not in COMMANDS or found[1] is _NOTHING or found[1].stdin is None:
            return False
        with contextlib.suppress(OSError):
            found[1].stdin.write(f"{command}\n".encode())
        return True

    async def stream(self, name: str, asked: Mapping[str, str], mode: str, receive: Receive, send: Send) -> None:
        """Run the training `name` and send what it says, until it ends or the page is closed."""
        client, _ = self._running[name]
        process: asyncio.subprocess.Process | None = None
        try:
            process = await self._taken()
            self._running[name] = (client, process)
            settings = {**asked, "mode": mode, "repeats": str(self._repeats)}
            assert process.stdin is not None
            process.stdin.write((json.dumps(settings) + "\n").encode())
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await _event(send, json.dumps({"type": "started", "name": name}))
            pumped = asyncio.create_task(_pump(process, send))
            left = asyncio.create_task(_left(receive))
            try:
                await asyncio.wait((pumped, left), timeout=MAX_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Its output ends first: before Python 3.12, wait_for may lose a cancellation, and reading would go on.
                await asyncio.shield(_ended(process))
                for task in (pumped, left):
                    task.cancel()
                await asyncio.gather(pumped, left, return_exceptions=True)
            if not left.done() or left.cancelled():
                with contextlib.suppress(OSError):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._running.pop(name, None)
            if process is not None:
                await asyncio.shield(_ended(process))

    async def _taken(self) -> asyncio.subprocess.Process:
        """Return a process that is ready, and let the next one start."""
        spare, self._spare = self._spare, None
        process = await (spare if spare is not None else _started())
        if process.returncode is not None:  # ended while it waited
            process = await _started()
        self.prepare()
        return process


_NOTHING: Any = None


async def _started() -> asyncio.subprocess.Process:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ferrodp.explorer.model.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | threads,
        start_new_session=True,
        limit=_LINE_LIMIT,
    )
    assert process.stdout is not None
    await process.stdout.readline()  # "ready"
    return process


async def _ended(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def _pump(process: asyncio.subprocess.Process, send: Send) -> None:
    """Send each line as an event; where none comes for long, a comment that finds out whether somebody listens."""
    assert process.stdout is not None
    said = time.monotonic()
    while True:
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _KEEP_ALIVE)
        except TimeoutError:
            await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
            continue
        if not line:
            return
        await _event(send, line.decode().strip())
        if time.monotonic() - said > 0.05:
            await asyncio.sleep(0)
            said = time.monotonic()


async def _event(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})


async def _left(receive: Receive) -> None:
    """Return when the page is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Stream:
    """A response that streams a training; an ASGI application, as Starlette's own does not notice a closed page."""

    def __init__(self, trainings: Trainings, name: str, asked: Mapping[str, str], mode: str) -> None:
        self._arguments = (name, asked, mode)
        self._trainings = trainings

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send the stream."""
        await self._trainings.stream(*self._arguments, receive, send)
