"""Checkpoints: verification from a state that a verified ledger wrote down, instead of from the first record.

A *checkpoint* is a record that has the SHA-256 of a state: of all rows of scopes, and of the tickets that are held or
armed, as they follow from the records before it. The state itself is in a table beside the log. Only a process that has
verified everything before writes one, and it writes what follows from the records, whatever the tables say. So each
checkpoint vouches for those before it, down to the first, which was written after the whole log was verified; verifying
the whole log checks all of them again.

What is compared then: the state with its record, each record after it by the rules, all rows of scopes, and the rows of
all tickets that were held or armed then or began later. Older records and the rows of tickets that had ended by then
are not read. With a witness, the last checkpoint before it is taken: hashes tie the witness to that record.
"""

from __future__ import annotations

import contextlib

from ferrodp.budget import records
from ferrodp.budget._commit import GroupCommit
from ferrodp.budget.log.replay import Replay, replayed
from ferrodp.budget.records import Head
from ferrodp.budget.stores.base import Store, Transaction
from ferrodp.errors import LedgerDamaged, LedgerError

RECORDS_APART = 5000
"""Between two checkpoints, at least: so many are verified in some hundredths of a second."""
_RECORDS_AN_ENTRY = 10
"""And for each entry of a state: so all states together stay small beside the log."""
_RECORDS_MEANWHILE = 1000


def verified(store: Store, *, whole: bool, witness: Head | None = None) -> Replay:
    """Verify a ledger, wholly or from the last checkpoint, that before the witness if there is one.

    Raises
    ------
    LedgerError
        Where the log, or a table, is not as it should be.
    """
    replay = None if whole else _resumed(store, witness)
    store.check(structure=replay is None)
    replay = replayed(store, replay)
    if not replay.head.sequence:
        with store.reading() as transaction:
            if transaction.is_pending():
                raise LedgerError(f"{store.name} {records.STILL_PENDING}")
    return replay


def _resumed(store: Store, witness: Head | None) -> Replay | None:
    """Return a replay that goes on from the last checkpoint, or None if there is none."""
    with store.reading() as transaction:
        # mutant: checkpoints-that-witness-does-not-cover
        kept = transaction.state_at(transaction.read_head.sequence if witness is None else witness.sequence)
        if kept is None:
            return None
        sequence, state = kept
        before, rows = transaction.hash_of(sequence - 1), transaction.records(sequence - 1, 1)
    number, text, digest = rows[0] if rows else (None, "", None)
    # mutant: record-that-keeps-state-not-tied-to-one
    if before is None or number != sequence or records.chained(before, text) != digest:
        raise LedgerDamaged(f"record {sequence} of the log, which keeps a state, was changed or removed")
    body = records.parsed(text)
    if (body.get("kind"), body.get("sequence"), body.get("state")) != (
        "checkpoint",
        sequence,
        # mutant: state-believed-whatever-record-says
        records.digest(state),
    ):
        raise LedgerDamaged(f"the state kept with record {sequence} of the log is another one")
    try:
        return Replay(Head(sequence, digest), state)
    except (LookupError, TypeError, ValueError) as error:
        raise LedgerDamaged(
            f"the state kept with record {sequence} of the log is not what this version writes"
        ) from error


def keep(commits: GroupCommit, replay: Replay) -> None:
    """Write a checkpoint if it will save others much work. It changes nothing else, so it may fail."""
    if _is_due(replay):
        with contextlib.suppress(LedgerError):
            commits.run(lambda transaction: write(transaction, replay))


def _is_due(replay: Replay) -> bool:
    return not replay.is_moved and replay.head.sequence - replay.kept >= max(
        RECORDS_APART, _RECORDS_AN_ENTRY * replay.size
    )


def write(transaction: Transaction, replay: Replay) -> None:
    """Write down the state that follows from the records, once those are read that came in between."""
    meanwhile = transaction.read_head.sequence - replay.head.sequence
    if transaction.head != transaction.read_head or not 0 <= meanwhile <= _RECORDS_MEANWHILE:
        return
    kept = replay.kept
    replay.read(transaction.records(replay.head.sequence, _RECORDS_MEANWHILE))
    if replay.head == transaction.head and replay.kept == kept:  # else another process was faster
        state = replay.state()
        transaction.put_state(transaction.record("checkpoint", state=records.digest(state)), state)
