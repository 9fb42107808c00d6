"""A run of a plan: steps that are paid for before they begin, one after the other."""

from __future__ import annotations

import json
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NoReturn, Self

import numpy as np

from ferrodp._base import _trees, _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.audit import CanaryReport, audit_canaries
from ferrodp.audit.canaries import LEAST_CANARIES, CanaryMethod
from ferrodp.errors import BudgetExceeded, FerroError, InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, NeighboringRelation, NonPrivateEvent, PrivacyEvent
from ferrodp.plan._canaries import Canaries
from ferrodp.plan._kept import KeptSum, StepKeeper
from ferrodp.plan._noise_file import key_in
from ferrodp.plan._sums import StepSum, grid_of, sum_for
from ferrodp.plan.clipping import AdaptiveClipping, AutomaticClipping, FlatClipping, L1Clipping
from ferrodp.plan.correlated import CorrelatedNoise, StepNoise, check_no_block
from ferrodp.plan.payments import Payments, Words
from ferrodp.plan.sampling import CyclicPoisson, FixedSizeSampling, FullBatch, PoissonSampling, RandomAllocation
from ferrodp.plan.step import PlanStep, Tree
from ferrodp.random import NoiseSource, fixed_size_sample, poisson_sample, random_allocation
from ferrodp.random.noise import source_or_default
from ferrodp.random.samples import Indices
from ferrodp.sums import ClippedSum
from ferrodp.sums.layout import Layout, from_template
from ferrodp.tickets import TicketLedger

if TYPE_CHECKING:
    from ferrodp.plan.plan import PrivacyPlan

__all__ = ["PlanRun"]

_FORMAT = "ferrodp.plan_run"
_VERSION = 1
_FIELDS = {"format", "version", "plan", "run", "next_step", "charged", "clip_norm", "dtype", "template"}


class PlanRun(Generic[Tree]):
    """The steps of a plan, as an iterator. Made by `PrivacyPlan.start`.

    A step is reserved in the ledger before it is handed out; its cost is spent right before its first random bit of
    noise, whatever happens then. Iteration ends after the plan's last step, or before the first step that the ledger's
    budget does not allow; `stopped` says which. Each step has to be released before the next one begins: one whose
    batch is empty, too, since whether it is empty is private.

    With a ledger and a `key`, or a saved `state`, a training that was killed goes on: a step that was charged, and may
    have been released, is not repeated but left out. Without a ledger nothing but this process knows how far a run has
    come; a state that is restored twice in it is refused, in two processes it is not noticed.

    A run belongs to the process that made it, whose threads may use it one after the other. It cannot be copied.

    Parameters
    ----------
    plan, template, ledger, scope, key, plan_delta, source, audit_canaries, noise_file
        As for `PrivacyPlan.start`.

    Attributes
    ----------
    plan : PrivacyPlan
        What is run.
    step_number : int
        Number of the next step, from 0.
    current : PlanStep or None
        The step that was handed out and not yet released.
    clip_norm : float
        Largest L2 norm of a vector in the next step.
    stopped : {None, "finished", "budget"}
        Why iteration ended; None before.
    stop_reason : str or None
        What the ledger said, if it was the budget.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, UnsupportedEventError
        As for `PrivacyPlan.start`.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PlanRun, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=100,
    ...     sampling=PoissonSampling(0.5),
    ...     num_steps=3,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(2.0),
    ... )
    >>> model = np.zeros(4)
    >>> run = plan.start(model)
    >>> for step in run:
    ...     step.add(np.ones((len(step.indices), 4)))
    ...     model -= 0.1 * step.release()
    ...     if step.number == 1:
    ...         state = run.state()
    >>> run.stopped, run.step_number, run.epsilon(1e-5) == plan.epsilon(1e-5)
    ('finished', 3, True)
    >>> run.close()
    >>> PlanRun.from_state(state)
    Traceback (most recent call last):
    ...
    ferrodp.errors.FerroError: state must be the newest: this process has released step 2, and the state is from ...
    """

    __slots__ = (
        "__weakref__", "_allocation", "_canaries", "_clip_norm", "_correlated", "_current", "_expected", "_keep",
        "_kept", "_layout", "_next", "_payments", "_plan", "_source", "_stop_reason", "_stopped",
    )  # fmt: skip

    _canaries: Canaries | None
    _next: int
    _payments: Payments
    _plan_type: ClassVar[type[PrivacyPlan]]
    """Reads the plan of a saved state. Set by the module of plans, which makes runs and therefore needs this one."""

    def __init__(
        self,
        plan: PrivacyPlan,
        template: Any,
        *,
        ledger: TicketLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        source: NoiseSource | None = None,
        audit_canaries: int = 0,
        noise_file: str | os.PathLike[str] | None = None,
    ) -> None:
        canaries = _validate.count("audit_canaries", audit_canaries, minimum=0, maximum=2**24)
        if 0 < canaries < LEAST_CANARIES:
            raise _validate.out_of_domain("audit_canaries", f"0 or at least {LEAST_CANARIES}", audit_canaries)
        if key is not None and (not isinstance(key, str) or not key):
            raise InvalidType(f"key must be a str that is not empty, or None, got {type(key).__name__}")
        if key is not None and ledger is None:
            raise InvalidParameter("key must be None without a ledger: go on from a saved state instead")
        _check_noise(plan, key, noise_file, canaries)
        name = key or secrets.token_hex(16)
        self._begin(plan, _layout(template), ledger, scope, source, name=name, plan_delta=plan_delta)
        if key is not None:
            self._next = min(self._payments.go_on(0), plan.num_steps)
        if isinstance(plan.noise, CorrelatedNoise):
            # mutant: noise-key-not-kept
            kept = None if noise_file is None else key_in(noise_file, name, plan.fingerprint, is_new=not self._next)
            self._draw_with(kept)
        if canaries:
            self._canaries = Canaries(plan, plan.distance, canaries, self._seeded)
        self._foresee(goes_on=key is not None)

    def _foresee(self, *, goes_on: bool) -> None:
        """Reserve a plan that is charged as one; else say how many of the steps fit, where not all do."""
        self._payments.reserve_plan()
        found = self._payments.fitting(self._next, goes_on=goes_on)
        if found is not None:
            warnings.warn(
                f"{found[0]} of {found[1]} steps fit into the budget as it is now, charged one by one: the run will "
                "end before the others. In a scope of measure 'pure', plan_delta charges the whole plan at the price "
                "that plan.epsilon(plan_delta) says",
                stacklevel=_outside(),
            )

    def _begin(
        self,
        plan: PrivacyPlan,
        layout: Layout,
        ledger: TicketLedger | None,
        scope: str | Sequence[str] | None,
        source: NoiseSource | None,
        *,
        name: str,
        plan_delta: Real | None,
    ) -> None:
        self._source = source_or_default(source)
        if ledger is not None and not self._source.is_private:
            raise InvalidParameter("source must be private where a ledger pays; whoever has the seed has the noise")
        self._plan, self._layout = plan, layout
        self._clip_norm, self._expected = plan.clipping.initial_norm, plan.expected_batch_size
        self._next = 0
        self._correlated: StepNoise | None = None
        self._new_sum()  # refuses a template that no step could use
        self._payments = Payments(
            plan.charges(),
            plan.neighboring_relation,
            ledger,
            scope,
            name,
            words=Words.of(plan),
            event=plan.event,
            plan_delta=plan_delta,
        )
        self._canaries = None
        self._keep: Callable[[KeptSum], None] | None = None
        self._kept: KeptSum | None = None
        self._current: PlanStep[Tree] | None = None
        self._allocation: list[Indices] | None = None
        self._stopped: Literal["finished", "budget"] | None = None
        self._stop_reason: str | None = None

    def _draw_with(self, key: bytes | None) -> None:
        """Draw the correlated noise of all steps with this key, or a new one."""
        noise, clipping = self._plan.noise, self._plan.clipping
        assert isinstance(noise, CorrelatedNoise)
        assert isinstance(clipping, (FlatClipping, AutomaticClipping))
        check_no_block(self._source)
        layout, grid = self._layout, grid_of(clipping, self._layout)
        drawn = self._source._key()
        if drawn is not None and not isinstance(drawn, bytes):
            raise InvalidParameter("source must be None with CorrelatedNoise; a ledger pays with ledger= and scope=")
        chosen = key or drawn or secrets.token_bytes(32)
        self._correlated = StepNoise(noise, clipping.clip_norm, grid, layout.size, layout.dtype, chosen)

    @property
    def plan(self) -> PrivacyPlan:
        """What is run."""
        return self._plan

    @property
    def step_number(self) -> int:
        """Number of the next step, from 0."""
        return self._next

    @property
    def current(self) -> PlanStep[Tree] | None:
        """The step that was handed out and not yet released."""
        return self._current

    @property
    def clip_norm(self) -> float:
        """Largest L2 norm of a vector in the next step."""
        return self._clip_norm

    @property
    def stopped(self) -> Literal["finished", "budget"] | None:
        """Why iteration ended; None before."""
        return self._stopped

    @property
    def stop_reason(self) -> str | None:
        """What the ledger said, if it was the budget."""
        return self._stop_reason

    @property
    def event(self) -> PrivacyEvent:
        """What was charged for steps that were released, or whose release began; `NonPrivateEvent` if seeded."""
        # mutant: seeded-run-states-a-cost
        if not self._source.is_private and self._payments.begun:
            return NonPrivateEvent()
        return ComposedEvent(events=self._payments.events)

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of the steps so far, as if their number had been fixed in advance.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            Infinite if the source was seeded.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `PrivacyPlan.epsilon`.
        """
        counted = accountant_maker(accountant, self._plan.neighboring_relation)()
        counted.compose(self.event)
        return counted.epsilon(delta)

    def audit(self, delta: Real, *, method: CanaryMethod = "gaussian", confidence: Real = 0.999) -> CanaryReport:
        """Return what the canaries of this run show of its steps so far, beside the ε that is certified for them.

        Canaries are units of no person, each with a coordinate of its own beside the model. A coin decides whether one
        is included; then it takes part in steps as any unit does, and its vector, far longer than the clip norm, is
        clipped, added and noised with all others. Nothing else depends on canaries: the model has the law that it has
        without them, and the guarantee of the units is the same.

        Parameters
        ----------
        delta : float
            In (0, 1).
        method : {"guesses", "f_dp", "gaussian"}
            As for `ferrodp.audit.audit_canaries`. Scores are logarithms of likelihood ratios; without sampling they
            are normal.
        confidence : float
            With which the bound is right.

        Returns
        -------
        CanaryReport
            Of the claim (ε, δ) for the steps that were charged; that of a private source if the source is seeded.

        Raises
        ------
        FerroError
            If the run has no canaries, no step was released, or one without its canaries.
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     population_size=10,
        ...     sampling=FullBatch(),
        ...     num_steps=4,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(2.0),
        ... )
        >>> run = plan.start(np.zeros(3), audit_canaries=1000)
        >>> for step in run:
        ...     step.add(np.ones((10, 3)))
        ...     _ = step.release()
        >>> report = run.audit(1e-5, confidence=1 - 1e-9)
        >>> report.violation, 0.2 * report.epsilon < report.epsilon_lower_bound <= report.epsilon
        (False, True)
        """
        if self._canaries is None or not self._next:
            raise FerroError("an audit needs canaries, audit_canaries=1000 at the start, and a step that was released")
        if self._canaries.skipped_steps:
            raise FerroError(
                "an audit needs all steps, and one was released in a way that leaves canaries out, such as noise that "
                "clients draw: audit the same plan with audit_canaries=1000 where the trainer draws the noise"
            )
        counted = accountant_maker("pld", self._plan.neighboring_relation)()
        counted.compose(ComposedEvent(events=self._payments.events))
        return audit_canaries(
            self._canaries.scores,
            self._canaries.included,
            epsilon=counted.epsilon(delta),
            delta=delta,
            method=method,
            confidence=confidence,
            claim=f"{self._next} of {self._plan.num_steps} steps of plan {self._plan.fingerprint[:12]}",
        )

    def __iter__(self) -> Iterator[PlanStep[Tree]]:
        return self

    def __next__(self) -> PlanStep[Tree]:
        self._payments.check_process()
        if self._current is not None:
            raise FerroError(
                f"step {self._current.number} must be released before the next one: call its release(), for an empty "
                "or unwanted batch too; where gradients are accumulated, all parts of a batch are added to one step"
            )
        kept, self._kept = self._kept, None
        if kept is not None and self._stopped is None:
            step = self._taken_up(kept)
            if step is not None:
                return step
        while self._stopped is None and self._next < self._plan.num_steps:
            covered = self._payments.steps_of(self._payments.charge_of(self._next))
            # mutant: round-charged-again-at-each-step
            if self._next > covered.start:
                return self._step(self._next - covered.start)
            self._allocation = None
            try:
                anew = self._keep is not None
                if self._payments.reserve(self._payments.charge_of(self._next), anew=anew):
                    return self._step(0)
            except BudgetExceeded as error:
                self._stopped, self._stop_reason = "budget", str(error)
            else:
                self._next = min(covered.stop, self._plan.num_steps)  # charged before, and perhaps released: left out
        self._stopped = self._stopped or "finished"
        raise StopIteration

    def keep_sums(self, keep: Callable[[KeptSum], None], kept: KeptSum | None = None) -> None:
        """Write the sum of each step down before it is paid for, so that no step that was paid for is lost.

        A step draws its noise with the key of its `KeptSum`. A process that dies after that and goes on can release the
        step again: the same numbers, under the same payment. It has to: a sum that is formed anew, under a payment that
        was spent, would be a second release.

        Parameters
        ----------
        keep : callable
            Is given a `KeptSum` before each payment and has to store it durably, where only its owner can read it, in
            place of the one before. What it raises ends the release; nothing was paid or drawn then.
        kept : KeptSum, optional
            The newest that was stored, if its step was not recorded as done: that step is handed out next, complete.

        Raises
        ------
        InvalidParameter
            If the run has canaries, a seeded source, correlated noise that no ledger pays for, or a step that was
            handed out; or if `kept` is not of this run.
        FerroError
            In a forked child.

        Notes
        -----
        `CorrelatedNoise` is drawn with the key of the run, whatever is kept: the noise of a step is the same for each
        sum, and the difference of two of them would be told. A ledger lets a single sum of each step be drawn; without
        one a state that is restored twice would not be noticed.

        Where one charge pays for several steps (`RandomAllocation`, `CyclicPoisson`), the step that was kept is
        released, and the others of that charge are left out, as by `from_state`.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
        >>> plan = PrivacyPlan(
        ...     population_size=2,
        ...     sampling=FullBatch(),
        ...     num_steps=2,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(1.0),
        ... )
        >>> run = plan.start(np.zeros(3))
        >>> stored = []
        >>> run.keep_sums(stored.append)
        >>> step = next(run)
        >>> step.add(np.ones((2, 3)))
        >>> released, state = step.release(), run.state()
        >>> stored
        [<KeptSum of step 0>]
        """
        self._payments.check_process()
        unusual = {
            "audit_canaries": self._canaries is not None,
            # mutant: sums-of-correlated-noise-kept-without-a-ledger
            "CorrelatedNoise unless a ledger pays": self._correlated is not None and not self._payments.has_ledger,
            "L1Clipping": isinstance(self._plan.clipping, L1Clipping),
            "a seeded source": not self._source.is_private,
        }
        for what, is_there in unusual.items():
            if is_there:
                raise InvalidParameter(f"a run that keeps its sums must be without {what}")
        if self._current is not None:
            raise InvalidParameter("sums have to be kept from the first step on that is handed out; call it before")
        if kept is not None:
            if not isinstance(kept, KeptSum) or not 0 <= kept.step < self._plan.num_steps:
                raise InvalidParameter(f"kept must be a KeptSum of a step of the plan, or None, got {kept!r}")
            if len(kept.key) != 32 or set(kept.parts) != set(self._new_sum().parts):
                raise InvalidParameter("kept must be what this run gave to `keep`: its sums are others")
            # mutant: sum-kept-under-other-correlated-noise
            if self._correlated is not None and kept.key != self._correlated.key:
                raise InvalidParameter("kept must be what this run gave to `keep`: its noise is another")
            self._next, self._kept = kept.step, kept
        self._keep = keep

    def _taken_up(self, kept: KeptSum) -> PlanStep[Tree] | None:
        """Return the step of a kept sum; None if its charge belongs to another run by now, or there is no budget."""
        assert self._keep is not None
        try:
            if not self._payments.take_up(self._payments.charge_of(kept.step), kept.ticket):
                return None
        except BudgetExceeded as error:
            self._stopped, self._stop_reason = "budget", str(error)
            return None
        total = self._new_sum()
        for name, part in total.parts.items():
            part.merge(ClippedSum.from_state(kept.parts[name]))
        self._current = step = self._made(None, None, total)
        step._keeper = StepKeeper(self._keep, kept.step, kept.ticket, kept.key, is_kept=True)
        return step

    def _step(self, offset: int) -> PlanStep[Tree]:
        indices = self._draw(offset)
        groups = None
        if self._plan.num_groups is not None and indices is not None:
            drawn = random_allocation(len(indices), self._plan.num_groups, source=self._seeded)
            groups = [indices[members] for members in drawn]
        total = self._new_sum()
        if self._canaries is not None:
            total.signs = self._canaries.participation_signs(self._next, offset)
        self._current = self._made(indices, groups, total)
        if self._keep is not None:
            of_run = None if self._correlated is None else self._correlated.key
            self._current._keeper = StepKeeper(self._keep, self._next, self._payments.ticket_id, of_run)
        return self._current

    def _made(self, indices: Indices | None, groups: list[Indices] | None, total: StepSum) -> PlanStep[Tree]:
        return PlanStep(
            self._plan,
            self._next,
            self._expected,
            indices,
            groups,
            self._layout,
            total,
            self._payments,
            self._source,
            self._done,
        )

    @property
    def _seeded(self) -> NoiseSource | None:
        return None if self._source.is_private else self._source

    def _draw(self, offset: int) -> Indices | None:
        sampling, size, source = self._plan.sampling, self._plan.population_size, self._seeded
        if size is None:
            return None
        if isinstance(sampling, PoissonSampling):
            return poisson_sample(size, sampling.probability, source=source)
        if isinstance(sampling, FixedSizeSampling):
            return fixed_size_sample(size, sampling.size, source=source)
        if isinstance(sampling, RandomAllocation):
            if self._allocation is None:
                self._allocation = random_allocation(size, sampling.num_steps, sampling.num_selected, source=source)
            return self._allocation[offset]
        if isinstance(sampling, CyclicPoisson):
            part = self._next % sampling.num_parts
            members = poisson_sample(len(range(part, size, sampling.num_parts)), sampling.probability, source=source)
            return members * sampling.num_parts + part
        return np.arange(size, dtype=np.int64) if isinstance(sampling, FullBatch) else None

    def _new_sum(self) -> StepSum:
        null_units = self._plan.neighboring_relation is NeighboringRelation.REPLACE_SPECIAL
        # A group has a vector in every step, whoever is in it, and is charged for a vector that is replaced by another.
        alone = self._plan.records_per_group == 1
        total = sum_for(self._plan.clipping, self._layout, self._clip_norm, null_units and alone, self._correlated)
        total.number = self._next
        # mutant: sums-of-steps-recorded-one-norm-apart
        total.distance = self._plan.distance
        return total

    def _done(self, step: PlanStep[Tree], share_within: float | None) -> None:
        """Go on to the next step: called by a step whose noise was drawn, or was about to be."""
        clipping = self._plan.clipping
        if self._canaries is not None:
            self._canaries.add_scores(step.number, step.marks, step.noise_multiplier)
        if share_within is not None and isinstance(clipping, AdaptiveClipping):
            self._clip_norm = clipping.next_norm(self._clip_norm, share_within)
        self._next = step.number + 1
        self._current = None
        self._payments.finish(step.number)
        if self._keep is not None and step.indices is None:
            # mutant: charge-of-several-steps-goes-on-after-a-kept-one
            covered = self._payments.steps_of(self._payments.charge_of(step.number))
            self._next = min(covered.stop, self._plan.num_steps)
        if self._next == self._plan.num_steps:
            self._payments.give_back()  # a round whose last steps lie beyond the plan: spent

    # ending and going on

    def close(self) -> None:
        """End the run: a step that is reserved and was not released is given back to the ledger."""
        self._payments.check_process()
        self._payments.give_back()
        if self._current is not None:
            self._current._close()
        self._current = None
        self._stopped = self._stopped or "finished"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._payments.is_ours:
            self.close()

    def state(self) -> bytes:
        """Return where the run stands, for `from_state`: save it with each checkpoint of the model.

        Holds the plan, the number of the next step, the name of the training and the clip norm, and the canaries of an
        audit with their scores; nothing private, but for `CorrelatedNoise`: then the key of the noise, too, and whoever
        has the state can take the noise away. A step that was handed out and not released begins anew.

        Returns
        -------
        bytes
            JSON, in a format that later versions read.
        """
        plain = {
            "format": _FORMAT,
            "version": _VERSION,
            "plan": json.loads(self._plan.to_json()),
            "run": self._payments.name,
            "next_step": self._next,
            "charged": self._payments.begun,
            "clip_norm": self._clip_norm.hex(),
            "dtype": self._layout.dtype.name,
            "template": _trees.to_plain(self._layout.structure),
        }
        if self._payments.plan_delta is not None:
            plain["plan_delta"] = self._payments.plan_delta.hex()
        if self._canaries is not None:
            plain["canaries"] = self._canaries.to_plain()
        if self._correlated is not None:
            plain["noise_key"] = self._correlated.key.hex()
        return json.dumps(plain).encode()

    @classmethod
    def from_state(
        cls,
        state: bytes,
        template: Any = None,
        *,
        ledger: TicketLedger | None = None,
        scope: str | Sequence[str] | None = None,
        source: NoiseSource | None = None,
    ) -> PlanRun[Any]:
        """Return the run that goes on where a state was saved.

        Parameters
        ----------
        state : bytes
            What `state` returned.
        template : tree, optional
            As for `PrivacyPlan.start`; by default that of the state, with plain dicts, lists and tuples.
        ledger, scope, source
            As for `PrivacyPlan.start`. Steps that the ledger knows to be charged are not repeated. A plan that was
            charged as one, with a `plan_delta`, still is, by the name of the training.

        Returns
        -------
        PlanRun
            A round of random allocation that was under way is left out: who is in its last steps was never saved.

        Raises
        ------
        InvalidParameter, InvalidType
            If the bytes are not a state, or the template is another one.
        FerroError
            Without a ledger: if this process released steps beyond the state.
        """
        plan, plain, layout = _parsed(state, cls._plan_type)
        if template is not None and _layout(template) != layout:
            raise InvalidParameter("template must look like the one that the run was started with")
        run: PlanRun[Any] = cls.__new__(cls)
        planned = float.fromhex(plain["plan_delta"]) if "plan_delta" in plain and ledger is not None else None
        run._begin(plan, layout, ledger, scope, source, name=plain["run"], plan_delta=planned)
        run._payments.resume(plain["next_step"], plain["charged"])
        run._next = plain["next_step"]
        run._clip_norm = float.fromhex(plain["clip_norm"])
        if isinstance(plan.noise, CorrelatedNoise):
            run._draw_with(_noise_key(plain))
        if "canaries" in plain:
            # mutant: canaries-of-a-saved-run-tossed-again
            run._canaries = Canaries.from_plain(plan, plan.distance, plain["canaries"], run._seeded)
            if run._canaries is None:
                raise _malformed("its canaries are none")
        if run._next < plan.num_steps:
            covered = run._payments.steps_of(run._payments.charge_of(run._next))
            # mutant: round-under-way-goes-on-with-another-allocation
            if run._next > covered.start and (ledger is not None or isinstance(plan.sampling, RandomAllocation)):
                run._next = min(covered.stop, plan.num_steps)
        run._next = min(run._payments.go_on(run._next), plan.num_steps)
        run._foresee(goes_on=True)
        return run

    def __repr__(self) -> str:
        return f"<PlanRun, step {self._next} of {self._plan.num_steps}, {self._stopped or 'running'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run cannot be copied or pickled: the copy would release the same steps; see PlanRun.state")


def _outside() -> int:
    """Return the level, for `warnings.warn` in the caller, of the first frame that is not of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ferrodp":
        level, frame = level + 1, frame.f_back
    return level


def _layout(template: Any) -> Layout:
    layout = from_template(template, None)
    _trees.check_keys(layout.structure, "template")
    return layout


def _parsed(state: object, plan_type: type[PrivacyPlan]) -> tuple[PrivacyPlan, dict[str, Any], Layout]:
    if not isinstance(state, (bytes, bytearray, memoryview)):
        raise InvalidType(f"state must be bytes, got {type(state).__name__}")
    try:
        plain = json.loads(bytes(state))
    except (ValueError, RecursionError):
        raise _malformed("it is not JSON") from None
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT or plain.get("version") != _VERSION:
        raise _malformed(f"it is not of format {_FORMAT} version {_VERSION}")
    if plain.keys() - {"canaries", "plan_delta", "noise_key"} != _FIELDS:
        raise _malformed("its fields are others")
    plan = plan_type.from_json(json.dumps(plain["plan"]))
    charges = len(plan.charges())
    for name, most in (("next_step", plan.num_steps), ("charged", charges)):
        if type(plain[name]) is not int or not 0 <= plain[name] <= most:
            raise _malformed(f"its {name} is not from 0 to {most}")
    try:
        norm = float.fromhex(plain["clip_norm"])
        planned = float.fromhex(plain.get("plan_delta", "0x1p-1"))
    except (TypeError, ValueError, OverflowError):
        raise _malformed("its clip_norm or plan_delta is no number") from None
    _validate.positive("the state's clip_norm", norm)
    _validate.delta(planned, name="the state's plan_delta")
    if not isinstance(plain["run"], str) or plain["dtype"] not in ("float32", "float64"):
        raise _malformed("its name or dtype is none")
    structure = _trees.from_plain(plain["template"], _malformed)
    return plan, plain, Layout(structure, np.dtype(plain["dtype"]))


def _noise_key(plain: dict[str, Any]) -> bytes:
    try:
        key = bytes.fromhex(plain["noise_key"])
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) != 32:
        raise _malformed("the key of its noise is missing")
    return key


def _check_noise(
    plan: PrivacyPlan, key: str | None, noise_file: str | os.PathLike[str] | None, num_canaries: int
) -> None:
    """Refuse a file where no key has to be kept, and a run that could not go on with the same noise."""
    # mutant: canaries-beside-laplace-noise
    if num_canaries and isinstance(plan.clipping, L1Clipping):
        raise InvalidParameter("audit_canaries must be 0 with L1Clipping: their scores are for Gaussian noise")
    if not isinstance(plan.noise, CorrelatedNoise):
        if noise_file is not None:
            raise InvalidParameter("noise_file must be None: only CorrelatedNoise has a key that outlives a step")
        return
    if num_canaries:
        raise InvalidParameter("audit_canaries must be 0 with CorrelatedNoise: their scores are for independent noise")
    if (key is None) != (noise_file is None):
        raise InvalidParameter(
            "key and noise_file must be given together with CorrelatedNoise: a training that goes on has to draw the "
            "same noise; for example key='training', noise_file='training.noise'"
        )
    if noise_file is not None and not isinstance(noise_file, (str, os.PathLike)):
        raise InvalidType(f"noise_file must be a path or None, got {type(noise_file).__name__}")


def _malformed(reason: str) -> InvalidParameter:
    return InvalidParameter(f"state must be what PlanRun.state() returned, and is not: {reason}")
