"""A ledger taken elsewhere: its log written to a file, begun again from one, or moved to another place.

All that a ledger holds follows from its log, so a copy of the log is a copy of the ledger. A copy is verified as any
ledger is (every hash, every sum) before anything is made of it, and what is made continues the same chain of hashes:
heads that were kept as witnesses hold in it.

Two copies that both may be spent are two budgets for one collection of data. *Moving* excludes that: the last record
of the old ledger says that it was moved, and in the same commit its database is told to take no record any more, from
whatever program. Then the new one is made. Killed in between, the same command goes on. *Importing* cannot exclude it:
the file says nothing of what the original did since. So the import is a record of its own, with a reason.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ferrodp.budget import _names
from ferrodp.budget.log import history as _history
from ferrodp.budget.log import records as _records
from ferrodp.budget.log.records import Head
from ferrodp.budget.log.replay import Replay
from ferrodp.budget.stores.base import put_rows
from ferrodp.errors import FerroError, InvalidType, LedgerError

if TYPE_CHECKING:
    from ferrodp.budget.ledger import PrivacyLedger

__all__ = ["import_ledger", "migrate_ledger"]

_HEADER = "ferrodp_ledger"
_OLDEST = 2
"""Format of the exports that have no header: their logs begin with zeros."""
_ZEROS = _records.OLD_START
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_LINE = 2**26
Lines = Iterable[Sequence[Any]]


class Log(NamedTuple):
    """The log of a ledger that is somewhere else."""

    name: str
    start: str
    lines: Callable[[], Lines]
    """Goes through number, text and hash of each record, from the first; may be called again."""


def header(start: str) -> str:
    """Return the first line of an export."""
    return json.dumps({_HEADER: {"format": _records.FORMAT, "start": start}})


def back_up(lines: Iterable[str], path: str | os.PathLike[str], *, force: bool) -> int:
    """Write an export to a file, whole or not at all, and return how many records it has."""
    from ferrodp import files  # not needed by who only charges

    count = -1
    with files.Destination(path, force=force) as destination:

        def write(stream: IO[bytes]) -> None:
            nonlocal count
            with _packed(stream, path) as packed:
                for count, line in enumerate(lines):  # noqa: B007  # the number of the last line
                    packed.write(f"{line}\n".encode())

        destination.commit(write)
    return count


def import_ledger(
    path: str | os.PathLike[str],
    where: str | os.PathLike[str],
    *,
    reason: str,
    witness: Head | str | None = None,
    timeout: float = 60.0,
) -> Head:
    """Begin a ledger from the log that `PrivacyLedger.backup` or `PrivacyLedger.export` wrote, and return its head.

    The new ledger holds the same scopes, charges, tickets and keys; held and armed tickets stay charged. It knows
    nothing of what the original did after the file was written: **stop using the original**, and where it may have
    gone on after the backup, lower the caps by what was spent since. Logs of format 2 (0.1.0) are taken, too.

    Parameters
    ----------
    path : str or PathLike
        The file; one that ends in ``.gz`` is unpacked.
    where : str or PathLike
        Where the new ledger shall be: a file that there is not yet, or ``postgresql://…`` without a ledger.
    reason : str
        Goes into the log of the new ledger.
    witness : Head or str, optional
        A head that the log has to contain: so an older file than expected is refused.
    timeout : float
        For how many seconds to wait for a server.

    Returns
    -------
    Head
        Of the new ledger.

    Raises
    ------
    LedgerError
        If the file is no log, was changed or cut in the middle, does not contain the witness, or there is a ledger in
        that place already. Then no ledger was made, or an empty one, from which the same import goes on.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> with fd.PrivacyLedger.open(f"{folder.name}/budget.db") as ledger:
    ...     ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
    ...     _ = ledger.spend("survey", fd.accounting.LaplaceEvent(noise_multiplier=4.0))
    ...     head = ledger.backup(f"{folder.name}/budget.jsonl.gz")
    >>> place = f"{folder.name}/restored.db"
    >>> _ = fd.budget.import_ledger(f"{folder.name}/budget.jsonl.gz", place, reason="disk failed", witness=head)
    >>> with fd.PrivacyLedger.open(place) as ledger:
    ...     ledger.report("survey").epsilon_charged
    0.25
    >>> folder.cleanup()
    """
    why, expected = _names.reason(reason), None if witness is None else Head.parse(witness)
    file = Path(_path("path", path))
    log = Log(f"file {str(file)!r}", _start_of_file(file), lambda: _records_of_file(file))
    replay = _verified(log, expected)
    return _made(log, replay, where, why, timeout)


def migrate_ledger(
    where: str | os.PathLike[str], to: str | os.PathLike[str], *, reason: str, timeout: float = 60.0
) -> Head:
    """Move a ledger to another place, such as from a file to a server, and return the head of the new one.

    The old ledger stays as it is and can be read, but never takes a record again, from this or any other process; what
    is charged after that is charged to the new one, or refused. Leases and tickets that processes hold are theirs no
    more: they were charged, and stay charged. If this is interrupted, the same call goes on.

    Parameters
    ----------
    where : str or PathLike
        The ledger: a file (also of format 2, that of 0.1.0), or ``postgresql://…`` (as its owner).
    to : str or PathLike
        Where it shall be: a file that there is not yet, or ``postgresql://…`` without a ledger.
    reason : str
        Goes into both logs.
    timeout : float
        For how many seconds to wait for other writers.

    Returns
    -------
    Head
        Of the new ledger.

    Raises
    ------
    LedgerError
        If the old ledger is damaged or was changed, or the new one cannot be made. Then the old ledger may be closed
        already: call this again, or `import_ledger` with its export.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> with fd.PrivacyLedger.open(f"{folder.name}/old.db") as ledger:
    ...     ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
    >>> _ = fd.budget.migrate_ledger(f"{folder.name}/old.db", f"{folder.name}/new.db", reason="a larger disk")
    >>> with fd.PrivacyLedger.open(f"{folder.name}/new.db") as ledger:
    ...     ledger.scopes
    ('survey',)
    >>> folder.cleanup()
    """
    from ferrodp.budget.log import old_format as _old_format

    why = _names.reason(reason)
    old = _old_format.opened(where, timeout)
    if old is not None:
        with contextlib.closing(old):
            log = Log(old.name, _ZEROS, old.lines)
            _verified(log, None)
            old.close_log(why)
            return _made(log, _verified(log, None), to, why, timeout)
    with _opened(where, timeout) as ledger:
        _close(ledger, why)
        store = ledger._store
        log = Log(store.name, store.start, lambda: _history.forward(store))
        return _made(log, _verified(log, None), to, why, timeout)


def _opened(where: object, timeout: float) -> PrivacyLedger:
    from ferrodp.budget.ledger import PrivacyLedger

    return PrivacyLedger.open(where, create=False, timeout=timeout)  # type: ignore[arg-type]  # it checks that


def _close(ledger: PrivacyLedger, reason: str) -> None:
    """Write the last record of a ledger, unless that was done before."""
    with ledger._store.writing() as transaction:
        last = transaction.head.sequence
        if last and _records.parsed(transaction.record_of(last))["kind"] == "move":
            return
        transaction.record("move", reason=reason)
        transaction.close_log()


def _verified(log: Log, witness: Head | None) -> Replay:
    """Read a log whole, and return what follows from it."""
    replay = Replay(Head(0, log.start))
    met = witness is None
    for sequence, text, digest in log.lines():
        try:
            replay.read([(sequence, text, digest)])
        except LedgerError as error:
            raise LedgerError(f"{log.name}: {error}") from error
        met = met or replay.head == witness
    if not met and witness is not None:
        raise LedgerError(
            f"{log.name} does not contain the witness, record {witness.sequence}: it is older, or another"
        )
    return replay


def _made(log: Log, replay: Replay, where: object, reason: str, timeout: float) -> Head:
    """Make a ledger that continues a log which was read."""
    from ferrodp.budget.stores.places import opened_store

    store = opened_store(where, create=True, timeout=timeout, start=log.start)
    try:
        with store.writing() as transaction:
            if transaction.head != Head(0, log.start):
                raise LedgerError(f"{store.name} is there already; choose another place, or remove it if it is empty")
            put_rows(store, _checked(log, replay.head), replay.scope_rows().values(), replay.ticket_rows())
            transaction.head = replay.head
            transaction.record("import", reason=reason)
        return transaction.head
    finally:
        store.close()


def _checked(log: Log, head: Head) -> Lines:
    """Go through a log again, which has to be the same as before."""
    digest, sequence = log.start, 0
    for sequence, text, claimed in log.lines():
        digest = _records.chained(digest, text)
        if digest != claimed:
            break
        yield sequence, text, digest
    if Head(sequence, digest) != head:
        raise LedgerError(f"{log.name} was changed while it was read")


# files


def _path(name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or isinstance(os.fspath(value), bytes):
        raise InvalidType(f"{name} must be a str or a path, got {type(value).__name__}")
    return str(os.fspath(value))


def _packed(stream: IO[bytes], path: str | os.PathLike[str]) -> contextlib.AbstractContextManager[IO[bytes]]:
    if os.fspath(path).endswith(".gz"):
        return gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0)  # type: ignore[return-value]
    return contextlib.nullcontext(stream)


def _lines_of_file(path: Path) -> Iterator[Any]:
    """Go through the JSON values of a file, one a line."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for number in itertools.count(1):
                line = stream.readline(_LONGEST_LINE)
                if not line:
                    return
                if not line.endswith(b"\n"):
                    raise LedgerError(f"file {str(path)!r} ends in the middle of line {number}: it was cut")
                yield json.loads(line)
    except (OSError, EOFError) as error:
        raise LedgerError(f"file {str(path)!r} cannot be read, or was cut: {error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, FerroError):
            raise
        raise LedgerError(
            f"file {str(path)!r} is no log of a ledger: line {number} is not what an export has"
        ) from error


def _start_of_file(path: Path) -> str:
    """Return what stands before the first record of an export."""
    first = next(_lines_of_file(path), None)
    if isinstance(first, dict) and first.keys() == {"record", "hash"}:
        return _ZEROS
    about = first.get(_HEADER) if isinstance(first, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get("start"), str):
        raise _no_log(path, "its first line is not that of an export")
    if about.get("format") not in range(_OLDEST, _records.FORMAT + 1) or not _DIGEST.fullmatch(about["start"]):
        raise _records.other_format(f"file {str(path)!r}", about.get("format"))
    return str(about["start"])


def _records_of_file(path: Path) -> Lines:
    sequence = 0
    for line in _lines_of_file(path):
        if sequence == 0 and isinstance(line, dict) and _HEADER in line:
            continue
        sequence += 1
        if not isinstance(line, dict) or line.keys() != {"record", "hash"} or type(line["record"]) is not str:
            raise _no_log(path, f"record {sequence} is not what an export has")
        yield sequence, line["record"], str(line["hash"])


def _no_log(path: Path, why: str) -> LedgerError:
    return LedgerError(f"file {str(path)!r} is no log of a ledger: {why}")
