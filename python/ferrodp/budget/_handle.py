"""One process's way to a ledger: its store, the queue of its writers, and the end of both."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, TypeVar

from ferrodp import _fork, _validate
from ferrodp.budget import _names
from ferrodp.budget import _rules as _book
from ferrodp.budget._commit import GroupCommit
from ferrodp.budget._sight import Sight
from ferrodp.budget.stores.base import Slot, Store, Transaction
from ferrodp.errors import LedgerError
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_event
from ferrodp.random.noise import refuse_copy

_Result = TypeVar("_Result")


class Handle:
    """What all parts of a `PrivacyLedger` use to read and write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._commits = GroupCommit(store)
        self._process = _fork.generation()
        self._finished: list[str] = []
        self._warm: set[tuple[Any, ...]] = set()
        self._relations: dict[str, NeighboringRelation] = {}
        self._sights: dict[tuple[str, ...], Sight] = {}

    def close(self) -> None:
        """Write down which releases are done, and give the connection back. Held tickets stay reserved."""
        if self._process != _fork.generation():
            return
        with contextlib.suppress(LedgerError):
            if self._finished:
                self._run(lambda _: None)
        with self._commits.excluded():
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PrivacyLedger {self._store.name}>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("an open ledger")

    def _run(
        self, work: Callable[[Transaction], _Result], *, key: Slot | None = None, ticket: str | None = None
    ) -> _Result:
        self._check_process()

        def with_notes(transaction: Transaction) -> _Result:
            result = work(transaction)
            if len(self._finished) > 1:
                transaction.look_up([], list(self._finished))
            while self._finished:
                _book.finish(transaction, self._finished.pop())
            return result

        return self._commits.run(with_notes, key=key, ticket=ticket)

    @contextlib.contextmanager
    def _read(self) -> Iterator[Transaction]:
        self._check_process()
        with self._commits.excluded(), self._store.reading() as transaction:
            yield transaction

    @contextlib.contextmanager
    def _beside(self) -> Iterator[Store]:
        """Yield a connection of its own for what takes long, so that others can go on with that of this handle."""
        self._check_process()
        store = self._store.beside()
        try:
            yield store
        finally:
            store.close()

    def _check_process(self) -> None:
        if self._process != _fork.generation():
            raise LedgerError(f"{self._store.name} was opened by the parent of this process; open it again here")

    def _checked(self, scopes: object, event: object, plan_delta: object) -> tuple[tuple[str, ...], float | None]:
        """Check the arguments of a charge, and compute its price before anyone has to wait for it."""
        names = _names.scopes(scopes)
        check_event("event must be", event)
        planned = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        mark = (names, event, planned)
        if mark not in self._warm:
            with self._read() as transaction:
                rows = _book.charged_scopes(transaction, names)
            self._relations[names[0]] = rows[0].terms.neighboring_relation  # nothing has to be read after the commit
            _book.priced(rows, event, planned)  # type: ignore[arg-type]  # checked above
            if len(self._warm) >= 4096:
                self._warm.clear()
            self._warm.add(mark)
        return names, planned

    def _sight(self, names: tuple[str, ...]) -> Sight:
        """Return what is known of these scopes being frozen."""
        found = self._sights.get(names)
        if found is None:
            if len(self._sights) >= 4096:
                self._sights.clear()
            found = self._sights.setdefault(names, Sight(functools.partial(self._refuse_frozen, names)))
        return found

    def _refuse_frozen(self, names: tuple[str, ...]) -> None:
        with self._read() as transaction:
            _book.refuse_frozen(transaction, names)

    def _relation(self, names: tuple[str, ...]) -> NeighboringRelation:
        """Return the relation of a scope, which never changes."""
        found = self._relations.get(names[0])
        if found is None:
            with self._read() as transaction:
                found = _book.existing(transaction, names[0]).terms.neighboring_relation
            self._relations[names[0]] = found
        return found
