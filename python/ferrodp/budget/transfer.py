"""Moving a ledger: begin one from an exported log, or move one to another place.

Everything a ledger holds follows from its log, so a copy of the log is a copy of the ledger. A copy is verified like
any ledger (every hash, every sum) before a ledger is made of it, which continues the same chain of hashes: heads that
were kept as witnesses are in it.

Two copies that both may be spent are two budgets for the same data. *Importing* cannot exclude them: the file does not
say what the original did since. So the import is a record of its own, with a reason. *Moving* excludes them by three
steps, each one commit:

1. Make the new ledger. It has a random identity, and its database refuses every record: it is *pending*.
2. Write the last record of the old ledger, which names the new one by identity and place. In the same commit the old
   database is told to refuse every later record, from any program.
3. If that record names the new ledger, put the log into it, with a record that repeats its identity, and let it take
   records.

*At most one ledger takes charges.* Step 2 succeeds once, as a closed ledger takes no second record; so one identity is
named for ever. Step 3 is done for that identity only, in the named place only, and only if that ledger is pending,
which it is never again. A ledger whose last record is a move is made pending nowhere, for step 1 comes before it. So if
the destination was renamed, removed or replaced, the same command finds none to fill, and refuses.

*A move goes on.* Interrupted before step 2, the old ledger is as it was, and the same command takes the pending ledger
that was made for it. Interrupted before step 3, the same command does that step. After it, it says that the move is
complete. A move whose pending ledger is lost cannot be completed: an import of the old log takes its place. The same
holds for moves by versions that noted no destination: where their new ledger is, nobody can tell.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ferrodp._base import _validate
from ferrodp.budget import _crash_points, _names, records
from ferrodp.budget.log import checkpoints, exports, history, old_format
from ferrodp.budget.log.replay import Replay
from ferrodp.budget.records import Head
from ferrodp.budget.stores.base import Store, Transaction, put_rows
from ferrodp.budget.stores.opening import opened_store
from ferrodp.errors import InvalidType, LedgerError, LedgerNotFound

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
        The file; one that ends in ``.gz`` is decompressed. Or a ledger of format 2 that was moved, and has no export.
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
    old = old_format.opened(file, timeout)
    if old is not None:
        with contextlib.closing(old):
            if old.last_move() is None:
                raise LedgerError(f"{old.name} still takes records: move it by migrate_ledger")
            log = Log(old.name, records.OLD_START, old.lines)
            return _made(log, _verified(log, expected), where, why, timeout)
    log = Log(f"file {str(file)!r}", exports.start_of(file), lambda: exports.records_of(file))
    return _made(log, _verified(log, expected), where, why, timeout)


def migrate_ledger(
    where: str | os.PathLike[str], to: str | os.PathLike[str], *, reason: str, timeout: float = 60.0
) -> Head:
    """Move a ledger to another place, such as from a file to a server.

    The old ledger stays as it is and can be read, but never takes a record again, from this or any other process; what
    is charged after that is charged to the new one, or refused. Leases and tickets that processes hold become invalid:
    they were charged, and stay charged. If this is interrupted, the same call continues it.

    A ledger is moved once. Its last record names the new ledger; a move to another place is refused, and so is the same
    move once it is complete, whatever became of the new ledger: for one that is lost, there is `import_ledger`.

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
        If the old ledger is damaged, was changed, or was moved already, or the new one cannot be made. If the old one
        is closed by then, the same call goes on; if the new one is lost, `import_ledger` takes the old one's export.

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
    why, seconds = _names.reason(reason), _validate.positive("timeout", timeout)
    old = old_format.opened(where, seconds)
    if old is not None:
        with contextlib.closing(old):
            log = Log(old.name, records.OLD_START, old.lines)
            _verified(log)
            return _moved(_Source(log, old.identity, old.last_move, old.close_log), to, why, seconds)
    with _opened(where, seconds) as store:
        log = Log(store.name, store.start, lambda: history.forward(store))
        source = _Source(log, store.identity, lambda: _last_move(store), lambda *last: _close(store, *last))
        return _moved(source, to, why, seconds)


class _Source(NamedTuple):
    """A ledger that is to be moved."""

    log: Log
    identity: str
    last_move: Callable[[], dict[str, Any] | None]
    """Returns the record of a move that closed it, or None."""
    close: Callable[[str, dict[str, str]], None]
    """Closes it, with a reason and a destination, unless it is closed."""


def _moved(source: _Source, to: object, reason: str, timeout: float) -> Head:
    """Move a ledger that was verified, or go on with its move; see the head of this file."""
    log, closed = source.log, source.last_move()
    if closed is None:
        target = opened_store(to, create=True, timeout=timeout, start=log.start, receives=source.identity)
    else:
        target = _destination(log.name, closed, to, timeout)
    with contextlib.closing(target):
        if closed is None:
            _check_waits(target, source)
        _crash_points.reached("before the move")
        # mutant: ledger-that-was-moved-left-open
        source.close(reason, {"ledger": target.identity, "name": target.name, "place": target.place})
        _check_named(log.name, source.last_move() or {}, target)
        _crash_points.reached("after the move")
        replay = _verified(log)
        with target.writing() as transaction:
            if not transaction.is_pending():
                raise LedgerError(_completed(log.name, target, transaction.hash_of(replay.head.sequence), replay.head))
            transaction.begin_log()
            _fill(target, transaction, log, replay, reason=reason, ledger=target.identity)
        _crash_points.reached("after the import")
        return transaction.head


def _check_waits(target: Store, source: _Source) -> None:
    """Refuse a place with a ledger, unless it was made for this very move, which was interrupted."""
    with target.reading() as transaction:
        is_pending = transaction.is_pending()
    # mutant: place-that-waits-for-another-ledger-taken
    if is_pending and target.start == source.log.start and records.is_for(target.identity, source.identity):
        return
    is_for = "was made for the move of another ledger" if is_pending else "is there already"
    raise LedgerError(f"{target.name} {is_for}; choose another place, or remove it if it is empty")


def _destination(name: str, closed: dict[str, Any], to: object, timeout: float) -> Store:
    """Return the ledger that the record of a move names, which has to be in the place that is given."""
    _check_noted(name, closed)
    try:
        target = opened_store(to, create=False, timeout=timeout)
    except LedgerNotFound as error:
        raise LedgerError(
            f"{name} was moved to {closed['to']['name']}, and there is no ledger in the place that was given. If it "
            f"was moved or renamed since, use it where it is, or put it back. {_LOST}"
        ) from error
    try:
        _check_named(name, closed, target)
    except BaseException:
        target.close()
        raise
    return target


def _check_noted(name: str, closed: dict[str, Any]) -> dict[str, str]:
    """Return what the record of a move says about the destination; refuse one that says nothing."""
    if records.destination_of(closed) is None:
        raise LedgerError(
            f"{name} was moved by a version that did not note the destination: use the ledger there. {_LOST}"
        )
    found: dict[str, str] = closed["to"]
    return found


def _check_named(name: str, closed: dict[str, Any], target: Store) -> None:
    """Refuse every ledger but the one that the record of a move names, and that one in any other place."""
    to = _check_noted(name, closed)
    # mutant: ledger-of-destination-not-compared
    is_named = to["ledger"] == target.identity
    # mutant: place-of-destination-not-compared
    is_there = to["place"] == target.place
    if not (is_named and is_there):
        raise LedgerError(
            f"{name} was moved to {to['name']}, and {target.name} is another ledger, or a copy in another place. "
            f"{_LOST}"
        )


def _completed(name: str, target: Store, found: str | None, head: Head) -> str:
    """Return what is said of a move that needs nothing any more."""
    if found == head.hash:
        return f"{name} was moved to {target.name}, and the move is complete: use the ledger there"
    return f"{name} was moved to {target.name}, which holds the log of another ledger. {_LOST}"


_LOST = (
    "If that is lost, begin a ledger by import_ledger from an export of this one (`ferrodp ledger export`, `import`; "
    "of format 2, from the file itself), with a reason, and lower its budgets by what was spent since"
)


def _last_move(store: Store) -> dict[str, Any] | None:
    """Return the last record of a ledger if it is that of a move, which closed it, else None."""
    with store.reading() as transaction:
        return _move_at_end(transaction)


def _move_at_end(transaction: Transaction) -> dict[str, Any] | None:
    last = transaction.head.sequence
    found = records.parsed(transaction.record_of(last)) if last else {}
    return found if found.get("kind") == "move" else None


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


def _close(store: Store, reason: str, to: dict[str, str]) -> None:
    """Write the last record of a ledger, unless that was done before."""
    with store.writing() as transaction:
        if _move_at_end(transaction) is None:
            transaction.record("move", reason=reason, to=records.plain(to))
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
    with contextlib.closing(store), store.writing() as transaction:
        if transaction.is_pending():
            raise LedgerError(f"{store.name} {records.STILL_PENDING}")
        if transaction.head != Head(0, log.start):
            raise LedgerError(f"{store.name} is there already; choose another place, or remove it if it is empty")
        _fill(store, transaction, log, replay, reason=reason)
    return transaction.head


def _fill(store: Store, transaction: Transaction, log: Log, replay: Replay, **fields: str) -> None:
    """Put a log and what follows from it into a ledger that has no record, with one that says it was imported."""
    put_rows(store, _checked(log, replay.head), replay.scope_rows().values(), replay.ticket_rows())
    transaction.head = replay.head
    transaction.record("import", **fields)


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
