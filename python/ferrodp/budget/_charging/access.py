"""One process's access to a ledger: its store, the queue of its writers, and notes of releases that are done.

Parts of a ledger that read or write hold this object and nothing else. In a forked child it refuses everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from ferrodp._base import _fork
from ferrodp.budget._charging import rules as _rules
from ferrodp.budget._commit import GroupCommit
from ferrodp.budget.stores.base import INHERITED, Store, Transaction
from ferrodp.budget.stores.rows import Slot
from ferrodp.errors import LedgerError

_Result = TypeVar("_Result")


class Access:
    """Transactions on a store: reads, group commits, and connections for what takes long."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.commits = GroupCommit(store)
        self.finished: list[str] = []
        """Tickets whose releases are done; the next change writes that down."""
        self._process = _fork.generation()

    def run(
        self, work: Callable[[Transaction], _Result], *, key: Slot | None = None, ticket: str | None = None
    ) -> _Result:
        """Return what `work` returns, as soon as its changes are durable; see `GroupCommit.run`."""
        self._check_process()

        finished = self.finished

        def with_notes(transaction: Transaction) -> _Result:
            result = work(transaction)
            if len(finished) > 1:
                transaction.look_up([], list(finished))
            while finished:
                _rules.finish(transaction, finished.pop())
            return result

        return self.commits.run(with_notes, key=key, ticket=ticket)

    def flush(self) -> None:
        """Write down which releases are done."""
        if self.finished:
            self.run(lambda _: None)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Yield a transaction that sees one moment; writers of this process wait for its end."""
        self._check_process()
        with self.commits.excluded(), self.store.reading() as transaction:
            yield transaction

    @contextlib.contextmanager
    def beside(self) -> Iterator[Store]:
        """Yield a connection of its own for what takes long, so that writers do not wait."""
        self._check_process()
        store = self.store.beside()
        try:
            # mutant: long-reading-keeps-handle
            yield store
        finally:
            store.close()

    def close(self) -> None:
        """Write down which releases are done, and close the store. Does nothing in a forked child."""
        if self._process != _fork.generation():
            return
        with contextlib.suppress(LedgerError):
            self.flush()
        with self.commits.excluded():
            self.store.close()

    def _check_process(self) -> None:
        if self._process != _fork.generation():
            raise LedgerError(f"{self.store.name} {INHERITED}")
