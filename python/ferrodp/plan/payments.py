"""What a run has paid: charges reserved in order, each spent right before the first random bit of its noise.

With a `plan_delta` the whole plan is one charge, (ε, δ) as certified, and a step is a record that costs nothing. Both
are tickets of the ledger: before a step draws, the plan's is armed for good and then its own. So an armed step implies
a price that nobody can give back, and of all processes that go on under one key a single one arms a step: a training
that is killed goes on without being charged again, and releases no step twice.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrodp._base import _fork, _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import PldAccountant
from ferrodp.errors import (
    BudgetExceeded,
    FerroError,
    InvalidParameter,
    ScopeFrozen,
    TicketError,
    UnsupportedEventError,
)
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent, SelfComposedEvent
from ferrodp.plan.clipping import AdaptiveClipping, L1Clipping
from ferrodp.plan.sampling import Charge
from ferrodp.tickets import ReleasedStatistic, Ticket, TicketLedger, TicketState
from ferrodp.tickets.statistic import changed, found_statistic

if TYPE_CHECKING:
    from ferrodp.plan.plan import PrivacyPlan

_NOTHING = ComposedEvent(events=())
"""Recorded for a step that earlier charges cover: it costs nothing, and is not to be released twice."""
_MOST_KINDS = 32
"""Different charges of a plan up to which it is counted how many of them fit."""
_released: dict[str, int] = {}
"""How far each training without a ledger has come in this process, by name: two runs of one state are noticed so."""
_lock = threading.Lock()


class Words(NamedTuple):
    """What the charges of a plan are for, and whom it protects: what a ledger keeps for whoever answers for it."""

    what: str
    steps: str
    num_steps: int
    bounds: str
    unit: str

    @classmethod
    def of(cls, plan: PrivacyPlan) -> Words:
        """Return the words of a plan; of clients its steps are rounds."""
        what, steps = ("federated training", "round") if plan.unit == "client" else ("training", "step")
        # mutant: words-of-a-plan-forget-who-shares-a-vector
        shared = f", of up to {plan.records_per_group} that share a vector" if plan.records_per_group > 1 else ""
        norm, clipping = plan.clipping.initial_norm, plan.clipping
        name = "L1 norm" if isinstance(clipping, L1Clipping) else "L2 norm"
        adapted = " at first, adapted privately" if isinstance(clipping, AdaptiveClipping) else ""
        bounds = f"{name} of each vector at most {norm:g}{adapted}"
        return cls(
            what,
            steps,
            plan.num_steps,
            bounds,
            f"one {plan.unit}{shared}, {changed(plan.neighboring_relation, plan.unit)}",
        )

    def whole(self) -> ReleasedStatistic:
        """Return the words of one charge for all steps."""
        return self._said(f"{self.what}, {_counted(self.num_steps, self.steps)}")

    def part(self, num_steps: int, *, is_free: bool) -> ReleasedStatistic:
        """Return the words of a charge for some steps, or of the record of steps that another charge has paid for."""
        paid = ", paid for by another charge" if is_free else ""
        return self._said(f"{self.what}, {num_steps} of {_counted(self.num_steps, self.steps)}{paid}")

    def _said(self, what: str) -> ReleasedStatistic:
        return found_statistic(what, None, self.bounds, self.unit)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


class Payments:
    """The charges of a plan, and those of them that one run has paid.

    Attributes
    ----------
    name : str
        Of the training: charge i has the key ``name/i`` in the ledger, the whole plan ``name/plan``.
    begun : int
        Number of charges whose noise was drawn, or was about to be.
    plan_delta : float or None
        δ of the one charge for all steps; None if each is charged by itself.
    """

    def __init__(
        self,
        charges: Sequence[Charge],
        relation: NeighboringRelation,
        ledger: TicketLedger | None,
        scope: str | Sequence[str] | None,
        name: str,
        *,
        words: Words,
        event: PrivacyEvent | None = None,
        plan_delta: Real | None = None,
    ) -> None:
        _validate.ledger_and_scope(ledger, scope)
        self.plan_delta = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        if self.plan_delta is not None and ledger is None:
            raise InvalidParameter("plan_delta must be None without a ledger, which the plan is charged to")
        self.name = name
        self.begun = 0
        self._charges, self._relation, self._words = charges, relation, words
        self._starts = list(itertools.accumulate((charge.num_steps for charge in charges), initial=0))
        self._ledger, self._scope = ledger, scope
        self._ticket: Ticket | None = None
        self._was_paid = False  # by a run that died after it had kept the sum that this one releases
        self._whole: Ticket | None = None
        self._whole_event, self._whole_begun = event, False
        self._process = _fork.generation()
        if ledger is not None and scope is not None and self.plan_delta is None:
            events = {charge.event for charge in charges if charge.event is not None}
            for each in itertools.islice(events, 3):
                try:
                    ledger.remaining_count(scope, each)  # refuses an unknown scope, and steps it has no measure for
                except UnsupportedEventError as error:
                    raise UnsupportedEventError(
                        f"{error}; a scope of measure 'pure' takes the plan as one charge: plan_delta=1e-6 of its delta"
                    ) from None

    @property
    def is_ours(self) -> bool:
        """Whether this process made the run, and not a parent of it."""
        return self._process == _fork.generation()

    @property
    def has_ledger(self) -> bool:
        """Whether a ledger pays."""
        return self._ledger is not None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What was charged for noise that was drawn, or was about to be."""
        return tuple(charge.event for charge in self._charges[: self.begun] if charge.event is not None)

    def charge_of(self, step: int) -> int:
        """Return which charge covers a step."""
        starts = self._starts
        # Of starts that grow by 1 at least, this one can only be its own: the charge of one step each.
        if 0 <= step < len(starts) - 1 and starts[step] == step:
            return step
        return bisect.bisect_right(self._starts, step) - 1

    def steps_of(self, charge: int) -> range:
        """Return the steps that a charge covers."""
        return range(self._starts[charge], self._starts[charge + 1])

    def reserve_plan(self) -> None:
        """Reserve the whole plan, if it is charged as one; under a key that was charged before, find that charge.

        Raises
        ------
        BudgetExceeded
            If the plan does not fit. Nothing was charged.
        InvalidParameter
            If a scope takes no stated (ε, δ), or has another neighboring relation.
        """
        if self.plan_delta is not None:
            self._whole = self._whole_ticket()

    def _whole_ticket(self) -> Ticket:
        assert self._ledger is not None
        assert self._scope is not None
        assert self._whole_event is not None
        try:
            ticket = self._reserved(
                self._whole_event, f"{self.name}/plan", self._words.whole(), plan_delta=self.plan_delta
            )
        except ScopeFrozen:
            raise
        except BudgetExceeded as error:
            accountant = PldAccountant(neighboring_relation=self._relation)
            accountant.compose(self._whole_event)
            price = accountant.epsilon(self.plan_delta)  # type: ignore[arg-type]  # there is one
            raise BudgetExceeded(
                f"the plan costs epsilon {price!r} at delta {self.plan_delta!r} as one charge, and no step was begun: "
                f"{error}"
            ) from None
        except UnsupportedEventError as error:
            raise InvalidParameter(
                f"plan_delta must be left out unless the scope has the measure 'pure', which takes a stated (epsilon, "
                f"delta), got {self.plan_delta!r}: {error}"
            ) from None
        return self._checked(ticket)

    def _checked(self, ticket: Ticket) -> Ticket:
        """Return a ticket of the plan's neighboring relation; give back one of another."""
        # mutant: scope-of-another-relation-pays-for-plan
        if ticket.neighboring_relation is not self._relation:
            if ticket.is_new:
                ticket.close()
            here, there = self._relation.name, ticket.neighboring_relation.name
            raise InvalidParameter(f"scope must have the neighboring_relation {here} of the plan, got {there}")
        return ticket

    def _begin_plan(self) -> None:
        """Spend the charge of the whole plan, before the first random bit of its first step."""
        if self._whole_begun:
            return
        ticket = self._whole
        if ticket is None:
            raise FerroError("the plan has no charge any more: its run was closed; go on with another run")
        if ticket.state is TicketState.HELD:
            try:
                ticket.arm()
            except TicketError:  # armed by another process under this key, or given back by somebody
                self._whole = again = self._whole_ticket()
                if again.state is TicketState.HELD:
                    if again.is_new:
                        again.close()
                    raise
        elif self._whole_ticket().state is TicketState.HELD:  # what the ledger says, not what an error left behind
            raise FerroError("the charge of the plan was not recorded: go on with another run under the same key")
        self._whole_begun = True

    def fitting(self, step: int, *, goes_on: bool) -> tuple[int, int] | None:
        """Return how many of the steps from this one on fit into the budget now, and how many there are.

        Of a training that goes on, the first may have been reserved by a run that died: that one is paid for.
        None if all fit, without a ledger, and for plans with more kinds of charges than are worth the count.
        """
        if self._ledger is None or self._scope is None or self.plan_delta is not None or step >= self._starts[-1]:
            return None
        first = self.charge_of(step)
        groups: list[tuple[PrivacyEvent, int]] = []
        for event, same in itertools.groupby(self._charges[first:], key=lambda charge: charge.event or _NOTHING):
            groups.append((event, len(list(same))))
        if len({event for event, _ in groups}) > _MOST_KINDS or len(groups) > 4 * _MOST_KINDS:
            return None
        total = len(self._charges) - first
        if len(groups) == 1:
            fits = min(self._ledger.remaining_count(self._scope, groups[0][0]), total)
        else:
            low, high = 0, total + 1
            while high - low > 1:
                middle = (low + high) // 2
                kept = self._ledger.remaining_count(self._scope, _composed(groups, middle)) > 0
                low, high = (middle, high) if kept else (low, middle)
            fits = low
        if fits < total and goes_on and self._is_held(first):
            fits += 1
        return None if fits == total else (max(self._starts[first + fits] - step, 0), self._starts[-1] - step)

    def _is_held(self, charge: int) -> bool:
        """Whether a charge is reserved already; one that is not stays so."""
        try:
            ticket = self._of_charge(charge)
        except BudgetExceeded:
            return False
        if ticket.is_new:
            ticket.close()
        return ticket.state is TicketState.HELD

    def reserve(self, charge: int, *, anew: bool = False) -> bool:
        """Reserve a charge before its first step; False if it was used before, here or by a run that died.

        With `anew`, one that another run of this training has reserved and not begun is taken from it: what that run
        kept to be drawn under it can be drawn no more.

        Raises
        ------
        BudgetExceeded
            If the ledger does not allow it. Nothing was charged.
        """
        # mutant: covered-step-repeated
        if self._ledger is None or self._scope is None:
            return True
        ticket = self._found(charge)
        # mutant: reservation-shared-by-two-runs-that-keep-sums
        if anew and ticket.state is TicketState.HELD and not ticket.is_new:
            with contextlib.suppress(TicketError):  # armed by the other run in between
                ticket.cancel()
            ticket = self._found(charge)
        # mutant: step-that-was-charged-repeated
        if ticket.state is not TicketState.HELD:
            self.begun = max(self.begun, charge + 1)
            return False
        self._ticket, self._was_paid = ticket, False
        return True

    def take_up(self, charge: int, ticket_id: str | None) -> bool:
        """Find the charge under which a sum was kept; False if it belongs to another run of the training by now.

        A sum and the key of its noise are kept under one ticket, by the one run that reserved it. So if that ticket was
        armed, this noise is what it was armed for, and drawing it again gives the same numbers.
        """
        if self._ledger is None or self._scope is None:
            return ticket_id is None
        ticket = self._found(charge)
        # mutant: kept-sum-released-under-the-charge-of-another
        if ticket.id != ticket_id:
            if ticket.is_new:
                ticket.close()
            return False
        self._ticket, self._was_paid = ticket, ticket.state is not TicketState.HELD
        return True

    @property
    def ticket_id(self) -> str | None:
        """Name of the ticket that is reserved now; None without a ledger."""
        return None if self._ticket is None else self._ticket.id

    def _found(self, charge: int) -> Ticket:
        """Return the ticket of a charge, reserved if there was none."""
        return self._checked(self._of_charge(charge))

    def _of_charge(self, charge: int) -> Ticket:
        words = self._words.part(self._charges[charge].num_steps, is_free=self._recorded(charge) == _NOTHING)
        return self._reserved(self._recorded(charge), self._key(charge), words)

    def _reserved(self, event: PrivacyEvent, key: str, words: ReleasedStatistic, **more: Any) -> Ticket:
        """Reserve a charge with its words; one that was found under its key keeps those that it was recorded with.

        Which charge it is, its key and its event say. Were other words another charge, as for statistics, a training
        that goes on within another `describing` would be refused.
        """
        assert self._ledger is not None
        assert self._scope is not None
        about: dict[str, Any] = {"key": key, "again_ok": True} | more
        try:
            # mutant: charges-of-plans-recorded-without-words
            return self._ledger.reserve(self._scope, event, statistics=words, **about)
        except TicketError:
            # mutant: training-with-other-words-is-another
            return self._ledger.reserve(self._scope, event, **about)

    def _recorded(self, charge: int) -> PrivacyEvent:
        # mutant: steps-of-a-charged-plan-charged-again
        return (None if self.plan_delta is not None else self._charges[charge].event) or _NOTHING

    def _key(self, charge: int) -> str:
        return f"{self.name}/{charge}"

    def go_on(self, step: int) -> int:
        """Return the first step, from this one on, of which the ledger does not know that it was charged and begun.

        Charges are used in their order, whoever runs them: the first that is not is found by halving.
        """
        if self._ledger is None or self._scope is None or step >= self._starts[-1]:
            return step
        low, high = self.charge_of(step), len(self._charges)
        reach = 1
        while low < high:
            middle = min(low + reach, high) - 1
            if self._ledger.key_used(self._scope, self._recorded(middle), key=self._key(middle)):
                self.begun = max(self.begun, middle + 1)
                low, reach = middle + 1, 2 * reach
            else:
                high, reach = middle, max((middle - low + 1) // 2, 1)
        return max(step, self._starts[low])

    def ticket_for(self, step: int) -> Ticket | None:
        """Return the ticket that a release of a step may take with it, or None if `pay` has to be called before it."""
        # mutant: step-of-a-charged-plan-drawn-before-the-plan-is-spent
        if self._ticket is None or self.plan_delta is not None:
            return None
        self.check_process()
        charge = self._charges[self.charge_of(step)]
        return self._ticket if charge.num_steps == 1 and charge.event is not None else None

    def pay(self, step: int) -> None:
        """Spend what pays for a step, right before its first random bit.

        Raises
        ------
        FerroError
            Without a ledger, if another run of this training has released the step in this process; with one, if the
            run was closed in between.
        BudgetExceeded, TicketError
            If the ledger refuses, or failed to record the charge before. Nothing was drawn then.
        """
        self.check_process()
        if self._ledger is None:
            with _lock:
                # mutant: state-restored-twice-releases-twice
                if _released.get(self.name, 0) > step:
                    raise FerroError(f"step {step} was released by another run of this training; go on from its state")
                _released[self.name] = step + 1
        else:
            ticket = self._ticket
            if ticket is None:
                raise FerroError(f"step {step} has no charge any more: its run was closed; go on with another run")
            if self.plan_delta is not None:
                # mutant: plan-that-may-be-given-back-pays
                self._begin_plan()
            if self._was_paid:
                ticket.check_running()
            # mutant: charge-that-was-never-recorded-pays
            elif ticket.state is not TicketState.ARMED:
                ticket.arm()  # refuses a ticket whose record failed: whether it was written is unknown
            else:
                # mutant: frozen-scope-goes-on-within-a-round
                ticket.check_running()
        self.count(step)

    def count(self, step: int) -> None:
        """Count what pays for a step as spent."""
        self.begun = max(self.begun, self.charge_of(step) + 1)

    def finish(self, step: int) -> None:
        """Close the ticket after the last step that it pays for."""
        if self._ticket is not None and step + 1 == self._starts[self.charge_of(step) + 1]:
            self._ticket.close()
            self._ticket = None

    def give_back(self) -> None:
        """Give back what is reserved and was not begun."""
        if self._ticket is not None:
            self._ticket.close()
            self._ticket = None
        if self._whole is not None:
            self._whole.close()  # given back if no step was begun
            self._whole = None

    def resume(self, step: int, begun: int) -> None:
        """Go on before a step of a training that has begun so many charges; refuse what was gone beyond here."""
        with _lock:
            if self._ledger is None and _released.get(self.name, 0) > step:
                raise FerroError(
                    f"state must be the newest: this process has released step {_released[self.name] - 1}, and the "
                    f"state is from before step {step}; with a ledger, what was charged is left out"
                )
        self.begun = begun

    def check_process(self) -> None:
        """Refuse a forked child."""
        # mutant: plan-run-goes-on-in-forked-child
        if self._process != _fork.generation():
            raise FerroError("this run belongs to the parent of this forked process; start another one here")


def _composed(groups: Sequence[tuple[PrivacyEvent, int]], count: int) -> PrivacyEvent:
    """Return the first `count` of these events together."""
    parts: list[PrivacyEvent] = []
    for event, many in groups:
        taken = min(many, count)
        count -= taken
        if taken:
            parts.append(event if taken == 1 else SelfComposedEvent(event=event, count=taken))
    return ComposedEvent(events=tuple(parts))
