"""Exported logs: a header and one JSON line per record, written from a ledger and read back from a file.

An export holds the text of each record exactly as it was hashed, so that a reader can recompute the chain of hashes.
Exports of format 2 (0.1.0) have no header; their chain begins with zeros.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ferrodp.budget import records
from ferrodp.budget.log import history
from ferrodp.budget.records import Head
from ferrodp.budget.stores.base import Store
from ferrodp.errors import FerroError, LedgerDamaged, LedgerError

_HEADER = "ferrodp_ledger"
_OLDEST = 2
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_LINE_BYTES = 2**26


def lines(store: Store) -> Iterator[str]:
    """Yield the lines of an export: the header, then each record that is in the log now."""
    yield json.dumps({_HEADER: {"format": records.FORMAT, "start": store.start}})
    for _, text, digest in history.forward(store):
        yield json.dumps({"record": text, "hash": digest}, ensure_ascii=True)


def write(exported: Iterable[str], path: str | os.PathLike[str], *, force: bool) -> Head:
    """Write an export to a file, complete or not at all; return the head of the log in it."""
    from ferrodp import files  # numpy and the array formats: not needed to charge a ledger

    last = 0, ""

    def write_to(stream: IO[bytes]) -> None:
        nonlocal last
        with _compressed(stream, path) as compressed:
            for last in enumerate(exported):
                compressed.write(f"{last[1]}\n".encode())

    with files.Destination(path, force=force) as destination:
        destination.commit(write_to)
    sequence, final = last[0], json.loads(last[1])
    return Head(sequence, final["hash"] if sequence else final[_HEADER]["start"])


def start_of(path: Path) -> str:
    """Return what stands before the first record of an export."""
    first = next(_values(path), None)
    if isinstance(first, dict) and first.keys() == {"record", "hash"}:
        return records.OLD_START
    about = first.get(_HEADER) if isinstance(first, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get("start"), str):
        raise _no_log(path, "its first line is not that of an export")
    if about.get("format") not in range(_OLDEST, records.FORMAT + 1) or not _DIGEST.fullmatch(about["start"]):
        raise records.other_format(f"file {str(path)!r}", about.get("format"))
    return str(about["start"])


def records_of(path: Path) -> Iterator[Sequence[Any]]:
    """Yield the number, text and claimed hash of each record of an export."""
    values = _values(path)
    first = next(values, None)
    # mutant: header-of-export-anywhere
    begun = () if isinstance(first, dict) and _HEADER in first else (first,)
    for sequence, line in enumerate(itertools.chain(begun, values), 1):
        if not isinstance(line, dict) or line.keys() != {"record", "hash"} or type(line["record"]) is not str:
            raise _no_log(path, f"record {sequence} is not what an export has")
        yield sequence, line["record"], str(line["hash"])


def _compressed(stream: IO[bytes], path: str | os.PathLike[str]) -> contextlib.AbstractContextManager[IO[bytes]]:
    if os.fspath(path).endswith(".gz"):
        return gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0)  # type: ignore[return-value]
    return contextlib.nullcontext(stream)


def _values(path: Path) -> Iterator[Any]:
    """Yield the JSON value of each line of a file."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for number in itertools.count(1):
                line = stream.readline(_MAX_LINE_BYTES)
                if not line:
                    return
                if not line.endswith(b"\n"):
                    raise LedgerDamaged(f"file {str(path)!r} ends in the middle of line {number}: it was cut")
                yield json.loads(line)
    except (OSError, EOFError) as error:
        raise LedgerDamaged(f"file {str(path)!r} cannot be read, or was cut: {error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, FerroError):
            raise
        raise _no_log(path, f"line {number} is not what an export has") from error


def _no_log(path: Path, why: str) -> LedgerError:
    return LedgerDamaged(f"file {str(path)!r} is not the log of a ledger: {why}")
