"""Tickets: the right to one release, paid for before anything is drawn.

A ledger issues a ticket once its cost is recorded. The ticket is *held* until a release takes it; at the first random
bit it is *armed*, and from then on its cost is spent, even if the release fails. The native code arms it, after all
checks and before it asks for a key.
"""

from __future__ import annotations

import enum
import functools
import threading
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn, Protocol, Self

from ferrodp import _native
from ferrodp._base import _fork
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType, TicketError
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.tickets.payment import covers, releases
from ferrodp.tickets.statistic import ReleasedStatistic

__all__ = ["Bookkeeper", "Ticket", "TicketState"]


class TicketState(enum.Enum):
    """The state of a ticket. Only held tickets can be cancelled; the cost of armed ones is spent."""

    HELD = "held"
    ARMED = "armed"
    SPENT = "spent"
    CANCELLED = "cancelled"


class Bookkeeper(Protocol):
    """Keeps the record of a ticket. Called with the ticket's lock held: it may read the ticket, not use it."""

    def arm(self, ticket: Ticket) -> None:
        """Record that random bits are about to be drawn, durably; `TicketError` if the ticket is not held.

        The record has the `Ticket.statistics`, too, if that of the charge has none. `BudgetExceeded` means that nothing
        was recorded, and the ticket is still held.
        """

    def proceed(self, ticket: Ticket) -> None:
        """Return if another release of an armed ticket may begin; `BudgetExceeded` if a scope of it is frozen."""

    def cancel(self, ticket: Ticket) -> None:
        """Record that the ticket will never be used, and give its cost back."""

    def finish(self, ticket: Ticket) -> None:
        """Note that the release is done."""


class Ticket:
    """The right to make the releases of one event, once. Made by a ledger; passed on as ``release(ticket=…)``.

    The cost of a release has to be what the ticket was paid for: the same event, or one inside it (the noise of a
    composed or sampled event), or the same noise with a larger multiplier. Anything else is refused before a bit is
    drawn. The caller promises that samples were drawn as a sampled event states, with its `null_distance`, that the
    releases of a `ParallelEvent` are about disjoint groups, and that a mechanism's sensitivity was stated for the
    ticket's neighboring relation. Sums of `ClippedSum` have a `null_distance` of ½ by construction, and the functions
    of `ferrodp.statistics` refuse a `null_distance` or a `ParallelEvent` that they would violate.

    Releases of different tickets may be interleaved, each chosen after seeing parts of others, including interactive
    ones such as the queries of a sparse vector: the guarantee of a filter for sequential releases holds then, too
    [HSTVVXZ23].

    As a context manager, a ticket that nothing was released with is cancelled at the end of the block.

    A ticket is valid in the process that reserved it, and in any number of threads, of which one can use it. It cannot
    be copied or pickled.

    Attributes
    ----------
    id : str
        Name of the ticket in the ledger.
    key : str or None
        The key it was reserved under.
    scopes : tuple of str
        What it was charged to.
    event : PrivacyEvent
        What was paid for.
    neighboring_relation : NeighboringRelation
        That the cost is stated for.
    is_new : bool
        Whether it was charged by the call that returned it; False if its key had led to it before.
    statistics : tuple of ReleasedStatistic
        What was paid for in words: those it was reserved with, or else those of the release that armed it.

    References
    ----------
    [HSTVVXZ23] Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang, "Concurrent composition for interactive differential
    privacy with adaptive privacy-loss parameters", CCS 2023.

    Examples
    --------
    >>> import tempfile
    >>> import ferrodp as fd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = fd.PrivacyLedger.open(f"{folder.name}/budget.db")
    >>> ledger.create("hospital/ages", epsilon=1.0, delta=0.0, measure="pure")
    >>> mechanism = fd.LaplaceMechanism(scale=4.0, l1_sensitivity=1.0)
    >>> with ledger.reserve("hospital/ages", mechanism.event) as ticket:
    ...     released = mechanism.release(1234.0, ticket=ticket)
    >>> ticket.state, ledger.remaining_count("hospital/ages", mechanism.event)
    (<TicketState.SPENT: 'spent'>, 3)
    >>> ticket = ledger.reserve("hospital/ages", mechanism.event)
    >>> ticket.pays_for(mechanism.event), len(ticket.permits([mechanism.event])), type(ticket.permit(mechanism.event))
    (True, 1, <class 'ferrodp._native.Permit'>)
    >>> ticket.cancel()  # nothing was drawn: its cost is given back
    >>> ticket = ledger.reserve("hospital/ages", mechanism.event)
    >>> ticket.arm()  # before code of one's own draws
    >>> ticket.check_running()  # before it goes on
    >>> ticket.close()
    >>> ledger.close()
    >>> folder.cleanup()
    """

    __slots__ = (
        "__weakref__",
        "_about",
        "_began_here",
        "_book",
        "_is_new",
        "_left",
        "_lock",
        "_process",
        "_state",
        "_statistics",
    )

    def __init__(
        self,
        event: PrivacyEvent,
        *,
        id: str,
        key: str | None,
        scopes: tuple[str, ...],
        neighboring_relation: NeighboringRelation,
        state: TicketState = TicketState.HELD,
        is_new: bool = True,
        book: Bookkeeper | None = None,
        statistics: tuple[ReleasedStatistic, ...] = (),
    ) -> None:
        self._about = event, id, key, scopes, neighboring_relation
        self._book = book
        self._is_new = is_new
        self._state = state
        self._began_here = False
        self._statistics = statistics
        self._left: dict[PrivacyEvent, int] | None = None
        self._lock = threading.Lock()
        self._process = _fork.generation()

    @property
    def event(self) -> PrivacyEvent:
        """What was paid for."""
        return self._about[0]

    @property
    def id(self) -> str:
        """Name of the ticket in the ledger."""
        return self._about[1]

    @property
    def key(self) -> str | None:
        """The key it was reserved under."""
        return self._about[2]

    @property
    def scopes(self) -> tuple[str, ...]:
        """What it was charged to."""
        return self._about[3]

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """Neighboring relation that the cost is stated for."""
        return self._about[4]

    @property
    def state(self) -> TicketState:
        """State of the ticket, as far as this process knows."""
        return self._state

    @property
    def is_new(self) -> bool:
        """Whether it was charged by the call that returned it; False if its key had led to it before."""
        return self._is_new

    @property
    def statistics(self) -> tuple[ReleasedStatistic, ...]:
        """What was paid for, in words."""
        return self._statistics

    def pays_for(self, event: PrivacyEvent) -> bool:
        """Return whether a release of this cost is among those that were paid for, made already or not.

        Parameters
        ----------
        event : PrivacyEvent
            What the release costs.

        Returns
        -------
        bool
            True if the ticket was paid for this event, or for one that costs at least as much.

        Raises
        ------
        TicketError
            In a forked child.
        """
        self._check_process()
        with self._lock:
            left = self._counted()
            return event in left or any(covers(part, event) for part in left)

    def permit(self, event: PrivacyEvent) -> _native.Permit:
        """Return what the native code arms before it draws; changes nothing.

        Parameters
        ----------
        event : PrivacyEvent
            What the release costs.

        Returns
        -------
        Permit
            For one release.

        Raises
        ------
        TicketError
            If the ticket was used or cancelled, or in a forked child.
        InvalidParameter
            If it was not paid for such a release.
        """
        return self.permits((event,))[0]

    def permits(
        self, events: Iterable[PrivacyEvent], *, statistic: ReleasedStatistic | None = None
    ) -> list[_native.Permit]:
        """Return permits for several releases, only if the ticket can pay for all of them.

        Parameters
        ----------
        events : iterable of PrivacyEvent
            What the releases cost.
        statistic : ReleasedStatistic, optional
            What they are in words, recorded when the first of them begins, unless the charge was recorded with words.

        Returns
        -------
        list of Permit
            One for each event.

        Raises
        ------
        TicketError, InvalidParameter
            As for `permit`.
        """
        self._check_process()
        with self._lock:
            self._check_usable(whole=False)
            parts: list[PrivacyEvent] = []
            for event in events:
                # mutant: several-releases-promised-one-payment
                parts.append(self._part_for(event, Counter(parts)))
        return [_native.Permit(functools.partial(self._arm, part, statistic)) for part in parts]

    def arm(self, *, statistic: ReleasedStatistic | None = None) -> None:
        """Take the whole ticket for a release by the caller's own code: call it before the first random bit.

        Parameters
        ----------
        statistic : ReleasedStatistic, optional
            What is released, in words, recorded unless the charge was recorded with words.

        Raises
        ------
        TicketError
            If the ticket was used, in part or as a whole, or cancelled, or in a forked child.
        BudgetExceeded
            If a scope that it was charged to is frozen: the ticket is still held.
        InvalidType
            If `statistic` is something else. The ticket is still held.
        """
        if statistic is not None and not isinstance(statistic, ReleasedStatistic):
            raise InvalidType(f"statistic must be a ReleasedStatistic or None, got {type(statistic).__name__}")
        self._arm(None, statistic)

    def cancel(self) -> None:
        """Give the ticket back unused: only while it is held.

        Raises
        ------
        TicketError
            If it was armed: then its cost is spent. Also in a forked child.
        """
        self._check_process()
        with self._lock:
            # mutant: armed-ticket-can-cancelled
            if self._state is not TicketState.HELD:
                self._refuse()
            self._cancel()

    def check_running(self) -> None:
        """Return if what the ticket pays for may continue: a run of many answers asks before each of them.

        Raises
        ------
        BudgetExceeded
            If a scope that the ticket was charged to is frozen.
        """
        if self._book is not None:
            self._book.proceed(self)

    def close(self) -> None:
        """Declare that nothing more will be released with this ticket: it is cancelled if held, otherwise spent."""
        self._check_process()
        with self._lock:
            if self._state is TicketState.HELD:
                self._cancel()
            elif self._state is TicketState.ARMED:
                self._state = TicketState.SPENT
                if self._book is not None:
                    self._book.finish(self)

    def _cancel(self) -> None:
        if self._book is not None:
            self._book.cancel(self)
        self._state = TicketState.CANCELLED

    def _arm(self, part: PrivacyEvent | None, statistic: ReleasedStatistic | None = None) -> None:
        """Take one part of the ticket, or all of it."""
        self._check_process()
        with self._lock:
            self._check_usable(whole=part is None)
            left = self._counted()
            # mutant: armed-twice-allowed
            if part is not None and left[part] < 1:
                self._refuse()
            if self._state is TicketState.HELD:
                # mutant: ticket-whose-record-failed-can-tried-again
                self._state = TicketState.SPENT  # if the record fails or is interrupted, nobody may try again
                said = self._statistics
                # mutant: words-of-a-charge-replaced-by-those-of-a-release
                if statistic is not None and not said:
                    self._statistics = (statistic,)
                if self._book is not None:
                    self._arm_in(self._book, said)
                self._began_here = True
                # mutant: rest-of-composed-ticket-asks-nobody
            elif self._book is not None:
                self._book.proceed(self)
            if part is None:
                left.update(dict.fromkeys(left, 0))
            else:
                left[part] -= 1
            self._state = TicketState.ARMED

    def _arm_in(self, book: Bookkeeper, said: tuple[ReleasedStatistic, ...]) -> None:
        try:
            # mutant: charge-written-after-release
            book.arm(self)
        except BudgetExceeded:  # frozen: for certain nothing was recorded
            self._state, self._statistics = TicketState.HELD, said
            raise

    def _counted(self) -> dict[PrivacyEvent, int]:
        """Return which releases are left, and how many of each. Only with the lock held: else two threads count."""
        if self._left is None:
            self._left = releases(self.event)
        return self._left

    def _part_for(self, event: PrivacyEvent, taken: Counter[PrivacyEvent]) -> PrivacyEvent:
        """Return the cheapest part that pays for `event`, of those that are left and not taken. With the lock held."""
        left = self._counted()
        if left.get(event, 0) > taken[event]:
            return event
        covering = [part for part in left if covers(part, event)]
        if not covering:
            rule = f"ticket must have been paid for this release, {event!r}; it was for {self.event!r}"
            raise InvalidParameter(rule if len(rule) <= 400 else rule[:397] + "...")
        covering = [part for part in covering if left[part] > taken[part]]
        if not covering:
            self._refuse()
        # mutant: cheap-release-takes-dearest-part
        return functools.reduce(lambda best, part: part if covers(best, part) else best, covering)

    def _check_usable(self, *, whole: bool) -> None:
        """Refuse a ticket that is neither held nor, where part of it will do, armed *by this object*.

        One that a ledger handed out as armed began its release elsewhere, perhaps in a process that died: what was
        drawn there is unknown, so nothing is left of it.
        """
        if self._state is TicketState.HELD:
            return
        # mutant: ticket-that-another-process-armed-pays-again
        if whole or self._state is not TicketState.ARMED or not self._began_here:
            self._refuse()

    def _check_process(self) -> None:
        # mutant: ticket-works-in-forked-child
        if self._process != _fork.generation():
            raise TicketError("this ticket belongs to the parent of this forked process; reserve another one here")

    def _refuse(self) -> NoReturn:
        what = "cancelled" if self._state is TicketState.CANCELLED else "used"
        raise TicketError(f"{self!r} was {what}; reserve another one for another release")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # mutant: forked-child-cannot-leave-block-of-parent
        if self._process == _fork.generation():  # a forked child that leaves the block leaves its parent's ticket alone
            self.close()

    def __repr__(self) -> str:
        return f"<Ticket {self.id}, {self._state.value}, for {', '.join(self.scopes)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ticket cannot be copied or pickled: the copy would pay a second time")
