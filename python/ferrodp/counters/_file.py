"""The file of a stream of counters: its secret key, the exact totals after the last day, who was counted how often.

The first page says what the stream is, with its key; it is on disk before anything is paid. After it come two small
pages, for even and odd days: each says where the totals of its day are in the file, and is written when they are there,
on disk. The totals of a day never overwrite those of the day before. So after a crash at any moment the file holds a
whole day: the last one that was committed. What is in the file is secret: as the data, and as the noise.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from ferrodp._base import _fork
from ferrodp.errors import FerroError, InvalidParameter

_MAGIC = b"FerroDP counters\x00\x01\x00\x00\x00\x00\x00\x00"
_PAGE = 4096
_FORMAT, _VERSION = "ferrodp.counter_stream", 1
MOST_NONCE = 2**62


class Day(NamedTuple):
    """A committed day.

    Attributes
    ----------
    number : int
        From 0.
    nonce : int
        By which the ledger knows these counts from others of the same day.
    totals, units : bytes
        Exact totals, and the table of persons.
    """

    number: int
    nonce: int
    totals: bytes
    units: bytes


class StreamFile:
    """An open file of a stream, locked against other processes."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self._path = handle, path
        self._generation = _fork.generation()
        header = self._read_header()
        self.about: dict[str, Any] = header["about"]
        self.name: str = header["name"]
        self.nonce: int = header["nonce"]
        self.key: bytes = bytes.fromhex(header["key"])
        self._region = (0, 0)
        self.last = self._read_last()

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is something of that name."""
        return os.path.lexists(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> StreamFile:
        """Return an existing file, locked."""
        file = Path(path)
        try:
            handle = os.open(file, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            raise InvalidParameter(
                f"file must be one that a stream of counters made, none is at {str(file)!r}"
            ) from None
        try:
            # mutant: two-processes-continue-one-counter-stream
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(handle, file)
        except BlockingIOError:
            os.close(handle)
            raise FerroError(
                f"file {str(file)!r} is open in another stream: one process at a time goes on with it; close that first"
            ) from None
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(handle)
            raise

    @classmethod
    def make(cls, path: str | os.PathLike[str], name: str, about: dict[str, Any]) -> StreamFile:
        """Return a new file with a new key, on disk and locked; or the one that another process made just now."""
        file = Path(path)
        plain = {
            "format": _FORMAT,
            "version": _VERSION,
            "name": name,
            "about": about,
            "nonce": 1 + secrets.randbelow(MOST_NONCE),
            "key": secrets.token_bytes(32).hex(),
        }
        text = json.dumps({**plain, "checksum": _checksum(plain)}).encode()
        head = _MAGIC + len(text).to_bytes(8, "little") + text
        beside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(made, "wb") as stream:
                stream.write(head + bytes(-len(head) % _PAGE + 2 * _PAGE))
                stream.flush()
                os.fsync(stream.fileno())
            # Whole or not at all, and never over another process's.
            with contextlib.suppress(FileExistsError):
                os.link(beside, file)
        finally:
            os.unlink(beside)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return cls.open(file)

    def commit(self, day: int, totals: memoryview, units: bytes) -> int:
        """Put a day's totals on disk for good, and return the nonce by which the ledger will know them."""
        if self._generation != _fork.generation():
            raise FerroError("this stream belongs to the parent of this forked process")
        size = totals.nbytes + len(units)
        begin, used = self._region
        first = self._pages + 2 * _PAGE
        start = first
        if used and begin < first + size:  # the day before is in the way
            start = -(-(begin + used) // _PAGE) * _PAGE
        self._write(totals, start)
        self._write(memoryview(units), start + totals.nbytes)
        # mutant: day-committed-before-its-totals-are-on-disk
        os.fdatasync(self._handle)
        nonce = 1 + secrets.randbelow(MOST_NONCE)
        plain = {"day": day, "nonce": nonce, "start": start, "totals": totals.nbytes, "units": len(units)}
        text = json.dumps({**plain, "checksum": _checksum(plain)}).encode()
        page = len(text).to_bytes(8, "little") + text
        # mutant: days-of-a-counter-stream-share-a-page
        self._write(memoryview(page + bytes(_PAGE - len(page))), self._pages + _PAGE * (day % 2))
        os.fdatasync(self._handle)
        self._region = (start, size)
        return nonce

    def close(self) -> None:
        """Unlock and close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _write(self, data: memoryview, offset: int) -> None:
        rest = data.cast("B")
        while rest:
            done = os.pwrite(self._handle, rest, offset)
            rest, offset = rest[done:], offset + done

    def _read(self, size: int, offset: int) -> bytes:
        parts = []
        while size:
            part = os.pread(self._handle, min(size, 2**30), offset)
            if not part:
                break
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return b"".join(parts)

    def _read_header(self) -> dict[str, Any]:
        head = self._read(len(_MAGIC) + 8, 0)
        size = int.from_bytes(head[len(_MAGIC) :], "little")
        plain = _checked(self._read(size, len(head)) if head.startswith(_MAGIC) and 0 < size < 2**32 else b"")
        if plain is None or plain.get("format") != _FORMAT or plain.get("version") != _VERSION:
            raise InvalidParameter(
                f"file must be one that a stream of counters made, and {str(self._path)!r} is not; name a new file"
            )
        self._pages = -(-(len(head) + size) // _PAGE) * _PAGE
        return plain

    def _read_last(self) -> Day | None:
        found: list[dict[str, Any]] = []
        for slot in range(2):
            page = self._read(_PAGE, self._pages + _PAGE * slot)
            plain = _checked(page[8 : 8 + min(int.from_bytes(page[:8], "little"), _PAGE)])
            if plain is not None:
                found.append(plain)
        if not found:
            return None
        newest = max(found, key=lambda each: int(each["day"]))
        self._region = (newest["start"], newest["totals"] + newest["units"])
        data = self._read(self._region[1], self._region[0])
        if len(data) != self._region[1]:
            raise InvalidParameter(f"file {str(self._path)!r} is cut off: it cannot go on; restore it, or begin anew")
        return Day(newest["day"], newest["nonce"], data[: newest["totals"]], data[newest["totals"] :])


def _checked(text: bytes) -> dict[str, Any] | None:
    """Return plain data whose checksum is right."""
    try:
        plain = json.loads(text)
        return plain if plain.pop("checksum") == _checksum(plain) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _checksum(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
