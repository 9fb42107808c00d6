"""Moving a ledger: begin one from an exported log, or move one to another place.

Everything a ledger holds follows from its log, so a copy of the log is a copy of the ledger. A copy is verified like
any ledger (every hash, every sum) before a ledger is made of it, which continues the same chain of hashes: heads that
were kept as witnesses are in it.

Two copies that both may be spent are two budgets for the same data. *Moving* excludes that: the last record of the old
ledger says that it was moved, and in the same commit its database is told to refuse every later record, from any
program. Then the new ledger is made. If a move is interrupted, the same command continues it. *Importing* cannot
exclude it: the file does not say what the original did since. So the import is a record of its own, with a reason.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ferrodp import _validate
from ferrodp.budget import _names
from ferrodp.budget.log import checkpoints, exports, history, old_format, records
from ferrodp.budget.log.records import Head
from ferrodp.budget.log.replay import Replay
from ferrodp.budget.stores.base import Store, put_rows
from ferrodp.budget.stores.places import opened_store
from ferrodp.errors import InvalidType, LedgerError

__all__ = ["import_ledger", "migrate_ledger"]

Lines = Iterable[Sequence[Any]]


class Log(NamedTuple):
    """The log of a ledger that is somewhere else."""

    name: str
    start: str
    lines: Callable[[], Lines]
    """Goes through number, text and hash of each record, from the first; may be called again."""


def import_ledger(
    path: str | os.PathLike[str],
    where: str | os.PathLike[str],
    *,
    reason: str,
    witness: Head | str | None = None,
    timeout: float = 60.0,
) -> Head:
    """Begin a ledger from the log that `PrivacyLedger.backup` or `PrivacyLedger.export` wrote.

    The new ledger holds the same scopes, charges, tickets and keys; held and armed tickets stay charged. It does not
    know what the original did after the file was written: **stop using the original**, and if it may have been used
    after the backup, lower the budgets by what was spent since. Logs of format 2 (0.1.0) are accepted, too.

    Parameters
    ----------
    path : str or PathLike
        The file; one that ends in ``.gz`` is decompressed.
    where : str or PathLike
        The place of the new ledger: a file that does not exist yet, or ``postgresql://…`` without a ledger.
    reason : str
        Goes into the log of the new ledger.
    witness : Head or str, optional
        A head that the log has to contain, so that a file older than expected is refused.
    timeout : float
        Seconds to wait for a server.

    Returns
    -------
    Head
        Of the new ledger.

    Raises
    ------
    LedgerError
        If the file is not a log, was changed or truncated, does not contain the witness, or there is a ledger in that
        place already. Then no ledger was made, or an empty one, with which the same import continues.

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
    log = Log(f"file {str(file)!r}", exports.start_of(file), lambda: exports.records_of(file))
    return _made(log, _verified(log, expected), where, why, timeout)


def migrate_ledger(
    where: str | os.PathLike[str], to: str | os.PathLike[str], *, reason: str, timeout: float = 60.0
) -> Head:
    """Move a ledger to another place, such as from a file to a server.

    The old ledger stays as it is and can be read, but never takes a record again, from this or any other process; what
    is charged after that is charged to the new one, or refused. Leases and tickets that processes hold become invalid:
    they were charged, and stay charged. If this is interrupted, the same call continues it.

    Parameters
    ----------
    where : str or PathLike
        The ledger: a file (also of format 2, that of 0.1.0), or ``postgresql://…`` (as its owner).
    to : str or PathLike
        The new place: a file that does not exist yet, or ``postgresql://…`` without a ledger.
    reason : str
        Goes into both logs.
    timeout : float
        Seconds to wait for other writers.

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
    why = _names.reason(reason)
    old = old_format.opened(where, timeout)
    if old is not None:
        with contextlib.closing(old):
            log = Log(old.name, records.OLD_START, old.lines)
            _verified(log)
            old.close_log(why)
            return _made(log, _verified(log), to, why, timeout)
    with _opened(where, timeout) as store:
        _close(store, why)
        log = Log(store.name, store.start, lambda: history.forward(store))
        return _made(log, _verified(log), to, why, timeout)


@contextlib.contextmanager
def _opened(where: object, timeout: float) -> Iterator[Store]:
    """Open the store of a ledger whose log and tables are as they should be."""
    store = opened_store(where, create=False, timeout=_validate.positive("timeout", timeout))
    is_whole = False
    try:
        checkpoints.verified(store, whole=True)
        is_whole = True
        yield store
    finally:
        store.close(trusted=is_whole)


def _close(store: Store, reason: str) -> None:
    """Write the last record of a ledger, unless that was done before."""
    with store.writing() as transaction:
        last = transaction.head.sequence
        if last and records.parsed(transaction.record_of(last))["kind"] == "move":
            return
        transaction.record("move", reason=reason)
        transaction.close_log()


def _verified(log: Log, witness: Head | None = None) -> Replay:
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
        digest = records.chained(digest, text)
        if digest != claimed:
            break
        yield sequence, text, digest
    if Head(sequence, digest) != head:
        raise LedgerError(f"{log.name} was changed while it was read")


def _path(name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or isinstance(os.fspath(value), bytes):
        raise InvalidType(f"{name} must be a str or a path, got {type(value).__name__}")
    return str(os.fspath(value))
