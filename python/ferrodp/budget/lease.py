"""Leases: many releases charged at once, whose tickets are drawn in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import NoReturn, Self

from ferrodp._base import _fork
from ferrodp.errors import TicketError
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random.noise import refuse_copy
from ferrodp.tickets import Ticket

__all__ = ["Lease"]


class _Running:
    """The bookkeeper of a drawn ticket. It was armed with the lease, so it only checks whether a release may begin."""

    __slots__ = ("check",)

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def arm(self, ticket: Ticket) -> None:
        # mutant: drawn-ticket-asks-nobody
        self.check()

    def proceed(self, ticket: Ticket) -> None:
        self.check()

    def cancel(self, ticket: Ticket) -> None:
        """Do nothing: a ticket that was drawn is spent."""

    def finish(self, ticket: Ticket) -> None:
        """Do nothing: the lease is finished as a whole."""


class Lease:
    """Many releases of one event, charged when the lease was made by `PrivacyLedger.lease`.

    `draw` hands out tickets without a commit: a training of a million steps costs two commits. All of it is spent if
    the process ends; `close`, or the end of a `with` block, gives back what was not drawn.

    While a scope that it was charged to is frozen, it hands out no ticket, and tickets that it handed out allow no
    release to begin. It checks the ledger for that, which has to stay open, at most every 0.05 seconds; see
    `PrivacyLedger.freeze`.

    Attributes
    ----------
    id : str
        Name of the lease in the ledger.
    event : PrivacyEvent
        What each ticket pays for.
    scopes : tuple of str
        The scopes that it was charged to.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = fd.PrivacyLedger.open(f"{folder.name}/budget.db")
    >>> ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
    >>> mechanism = fd.LaplaceMechanism(scale=8.0, l1_sensitivity=1.0)
    >>> lease = ledger.lease("survey", mechanism.event, count=3)
    >>> released = mechanism.release(1234.0, ticket=lease.draw())
    >>> lease.remaining
    2
    >>> lease.close()
    >>> ledger.report("survey").epsilon_charged
    0.125
    >>> ledger.close()
    >>> folder.cleanup()
    """

    __slots__ = ("_book", "_end", "_left", "_lock", "_process", "_relation", "event", "id", "scopes")

    def __init__(
        self,
        event: PrivacyEvent,
        *,
        id: str,
        scopes: tuple[str, ...],
        neighboring_relation: NeighboringRelation,
        count: int,
        end: Callable[[str, int], None],
        check: Callable[[], None],
    ) -> None:
        self.id, self.event, self.scopes = id, event, scopes
        self._relation = neighboring_relation
        self._left = count
        self._end: Callable[[str, int], None] | None = end
        self._book = _Running(check)
        self._lock = threading.Lock()
        self._process = _fork.generation()

    @property
    def remaining(self) -> int:
        """How many tickets can still be drawn."""
        return self._left

    def draw(self) -> Ticket:
        """Return a ticket for the next release.

        Returns
        -------
        Ticket

        Raises
        ------
        TicketError
            If the lease is used up or closed, or in a forked child.
        BudgetExceeded
            If a scope that it was charged to is frozen. The lease continues when the scope is thawed.
        LedgerError
            If that cannot be checked, because the ledger was closed or cannot be reached.
        """
        if self._process != _fork.generation():
            self._refuse("belongs to the parent of this forked process")
        ticket = self._next()
        if ticket is None:
            self._refuse("is used up" if self._end is not None else "is closed")
        return ticket

    def __iter__(self) -> Iterator[Ticket]:
        """Draw until nothing is left."""
        while self._process == _fork.generation() and self._left > 0 and (ticket := self._next()) is not None:
            yield ticket

    def _next(self) -> Ticket | None:
        self._book.check()
        with self._lock:
            if self._left <= 0:
                return None
            self._left -= 1
        return Ticket(
            self.event,
            id=self.id,
            key=None,
            scopes=self.scopes,
            neighboring_relation=self._relation,
            book=self._book,
        )

    def close(self) -> None:
        """End the lease and give back what was not drawn. A ticket that was drawn is spent, used or not.

        Raises
        ------
        TicketError
            In a forked child.
        LedgerError
            If the outcome is unknown.
        """
        if self._process != _fork.generation():
            self._refuse("belongs to the parent of this forked process")
        with self._lock:
            end, self._end = self._end, None
            unused, self._left = self._left, 0
        if end is not None:
            end(self.id, unused)

    def _refuse(self, why: str) -> NoReturn:
        raise TicketError(f"lease {self.id} {why}; take another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lease {self.id}: {self._left} left, for {', '.join(self.scopes)}>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("a lease", "two copies would draw the same tickets; take a lease in each process")
