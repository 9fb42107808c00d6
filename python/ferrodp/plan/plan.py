"""The plan: sampling, clipping, noise and accounting of a training as one immutable value."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from ferrodp._base import _html, _validate
from ferrodp._base._trees import Shape
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import PldAccountant, PrivacyAccountant, calibrate_parameter
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.errors import CalibrationError, InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent, SelfComposedEvent
from ferrodp.events.base import check_relation, settle
from ferrodp.plan._record import check_part, part_of
from ferrodp.plan._sums import admitted_factors, check_multipliers
from ferrodp.plan.clipping import AdaptiveClipping, Clipping, L1Clipping
from ferrodp.plan.correlated import CorrelatedNoise, is_bound
from ferrodp.plan.correlated import charges as correlated_charges
from ferrodp.plan.correlated import check as check_correlated
from ferrodp.plan.forecast import Forecast
from ferrodp.plan.noise import NoiseSchedule
from ferrodp.plan.run import PlanRun
from ferrodp.plan.sampling import Charge, FullBatch, GivenOrder, PoissonSampling, Sampling, Terms
from ferrodp.random import NoiseSource
from ferrodp.sums.absolute import MOST_VECTORS
from ferrodp.tickets import TicketLedger

__all__ = ["PrivacyPlan"]

Tree = TypeVar("Tree")
Key = TypeVar("Key")
Doubles: TypeAlias = npt.NDArray[np.float64]


class StartOptions(TypedDict, total=False):
    """Keywords of `PrivacyPlan.start`, besides the template."""

    ledger: TicketLedger | None
    scope: str | Sequence[str] | None
    key: str | None
    plan_delta: Real | None
    source: NoiseSource | None
    audit_canaries: int
    noise_file: str | os.PathLike[str] | None


_FORMAT = "ferrodp.plan"
_VERSION = 1
_FIELDS = {
    "format", "version", "unit", "population_size", "sampling", "num_steps", "clipping", "noise",
    "neighboring_relation", "records_per_group",
}  # fmt: skip
_MOST_STEPS = 10**7
"""Of one plan: what is charged is listed step by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPlan:
    """One description of a training or of federated rounds, from which noise, clipping, batches and cost all follow.

    A step draws the units that take part, clips the vector of each, sums them exactly and releases the sum once, with
    noise. Anyone who sees all releases of all steps learns no more about a unit than `epsilon(delta)` says. A step and
    a round of federated learning are the same: only the unit differs.

    Plans are values: equal plans compare equal, and nothing about one changes.

    Parameters
    ----------
    unit : {"record", "client"}
        What one vector belongs to, and what the guarantee protects; repeated by reports.
    population_size : int, optional
        Number of units; a public number. Needed to draw samples.
    sampling : Sampling
        Who takes part in a step.
    num_steps : int
        From 1 to 10⁷.
    clipping : Clipping
        How each vector is bounded.
    noise : NoiseSchedule
        Noise multiplier of each step.
    neighboring_relation : NeighboringRelation
        Which datasets the guarantee tells apart. Where units are replaced by others, sums are twice as far apart: that
        is accounted for.
    records_per_group : int
        Above 1, this many units share one vector (a micro-batch): each unit then moves a sum by up to two clip norms,
        and the cost is that of half the noise multiplier.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the parts do not fit together.
    UnsupportedEventError
        If no bound is known for such steps.

    Notes
    -----
    The cost of step t is the event of its noise with exactly the multiplier that it draws with, about its sample;
    the plan is the composition of all steps, none of which is left out. Vectors may depend on what earlier steps
    released. Schedules are fixed in advance; the clip norm of `AdaptiveClipping` is a function of releases.

    Examples
    --------
    >>> import ferrodp as fd
    >>> import numpy as np
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
    >>> plan = fd.PrivacyPlan(
    ...     population_size=1437,
    ...     sampling=PoissonSampling(0.5),
    ...     num_steps=120,
    ...     clipping=FlatClipping(0.1),
    ...     noise=ConstantNoise(1.0),
    ... ).calibrated(epsilon=2.0, delta=1e-5)
    >>> plan.epsilon(1e-5) <= 2.0, round(plan.noise.noise_multiplier, 2)
    (True, 11.01)
    >>> plan.epsilon_bounds(1e-5).lower <= plan.epsilon(1e-5), plan.epsilon_after(60, 1e-5) < plan.epsilon(1e-5)
    (True, True)
    >>> plan.max_steps(epsilon=2.0, delta=1e-5), plan.event_after(120) == plan.event, len(plan.charges())
    (120, True, 120)
    >>> PrivacyPlan.from_json(plan.to_json()) == plan
    True
    >>> plan.forecast(1e-5, num_points=2).steps
    (1, 120)
    >>> run = plan.start({"w": (3,)})
    >>> for step in run:
    ...     step.add({"w": np.ones((len(step.indices), 3))})
    ...     gradient = step.release()
    ...     if step.number == 1:
    ...         break
    >>> run.epsilon(1e-5) < plan.epsilon(1e-5)
    True
    """

    unit: Literal["record", "client"] = "record"
    population_size: int | None = None
    sampling: Sampling
    num_steps: int
    clipping: Clipping
    noise: NoiseSchedule
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    records_per_group: int = 1

    def __post_init__(self) -> None:
        if self.unit not in ("record", "client"):
            raise _validate.out_of_domain("unit", '"record" or "client"', self.unit)
        if self.population_size is not None:
            settle(self, population_size=_validate.count("population_size", self.population_size, maximum=2**62))
        check_part(Sampling, "sampling", self.sampling, "PoissonSampling(0.01)")
        settle(self, num_steps=_validate.count("num_steps", self.num_steps, maximum=_MOST_STEPS))
        check_part(Clipping, "clipping", self.clipping, "FlatClipping(1.0)")
        check_part(NoiseSchedule, "noise", self.noise, "ConstantNoise(1.1)")
        settle(self, neighboring_relation=check_relation(self.neighboring_relation))
        settle(self, records_per_group=_validate.count("records_per_group", self.records_per_group))
        self.sampling._check(self.population_size, self.neighboring_relation)
        if self.records_per_group > 1 and not isinstance(self.sampling, (PoissonSampling, FullBatch, GivenOrder)):
            kind = type(self.sampling).__name__
            raise InvalidParameter(f"records_per_group must be 1 for {kind}; groups are formed in Poisson samples")
        if isinstance(self.clipping, AdaptiveClipping) and self.expected_batch_size is None:
            raise InvalidParameter("population_size must be given for AdaptiveClipping, which divides by a batch size")
        if isinstance(self.noise, CorrelatedNoise):
            check_correlated(self.noise, self)
        if isinstance(self.clipping, L1Clipping) and (self.population_size or 0) > MOST_VECTORS:
            raise InvalidParameter(
                f"population_size must be at most {MOST_VECTORS} with L1Clipping, whose sums are exact up to there, "
                f"got {self.population_size}"
            )
        multipliers = self.noise_multipliers
        check_multipliers(self.clipping, min(multipliers), max(multipliers))
        PldAccountant(neighboring_relation=self.neighboring_relation).compose(self.event, 0)

    # what it costs

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """The noise multiplier of each step."""
        return _multipliers(self.noise, self.num_steps, self.num_steps)

    @property
    def distance(self) -> int:
        """How many clip norms apart the sums of neighbors can be: 2 if a vector can be replaced by another."""
        replaced = self.neighboring_relation is NeighboringRelation.REPLACE_ONE
        # mutant: group-of-records-counted-once
        return 2 if replaced or self.records_per_group > 1 else 1

    @property
    def expected_batch_size(self) -> float | None:
        """Expected number of vectors in a step, which sums are divided by; a public number, or None if not known."""
        expected = self.sampling.expected_batch_size(self.population_size)
        if expected is None or self.records_per_group == 1:
            return expected
        return float(self.num_groups or 1)

    @property
    def num_groups(self) -> int | None:
        """Number of groups in each step, a public number; None without groups, or if the batch size is not known."""
        expected = self.sampling.expected_batch_size(self.population_size)
        if self.records_per_group == 1 or expected is None:
            return None
        return max(math.ceil(expected / self.records_per_group), 1)

    @property
    def event(self) -> PrivacyEvent:
        """What all steps together cost, for accountants and ledgers."""
        return self.event_after(self.num_steps)

    def event_after(self, step: int) -> PrivacyEvent:
        """Return what is charged for the first steps.

        Parameters
        ----------
        step : int
            How many steps were run; ≥ 0. Beyond `num_steps` the schedule goes on, but for `CorrelatedNoise`.

        Returns
        -------
        PrivacyEvent
            Where a round of several steps is charged as a whole, with the whole round.

        Raises
        ------
        InvalidParameter, InvalidType
            If `step` is out of its domain.
        """
        return self._event_of(_validate.count("step", step, minimum=0, maximum=_MOST_STEPS))

    def epsilon(self, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of all steps.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        accountant : str or callable
            As for `ferrodp.accounting.calibrate_noise_multiplier`.

        Returns
        -------
        float
            ε ≥ 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        UnsupportedEventError
            If the accountant has no bound for such steps.
        """
        return self.epsilon_bounds(delta, accountant=accountant).upper

    def epsilon_bounds(self, delta: Real, *, accountant: AccountantChoice = "pld") -> Bounds:
        """Return bounds on the ε of all steps: what is proven, and what is proven to be needed.

        Parameters
        ----------
        delta, accountant
            As for `epsilon`.

        Returns
        -------
        Bounds
            `lower` is 0 where no lower bound is known.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `epsilon`.
        """
        return self._bounds_after(self.num_steps, delta, accountant)

    def _bounds_after(self, step: int, delta: Real, accountant: AccountantChoice) -> Bounds:
        found = self._spent(step, accountant).epsilon_bounds(delta)
        return Bounds(0.0, found.upper) if is_bound(self) else found

    def epsilon_after(self, step: int, delta: Real, *, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of what is charged for the first steps.

        Parameters
        ----------
        step : int
            How many steps were run; from 0 to `num_steps`.
        delta, accountant
            As for `epsilon`.

        Returns
        -------
        float
            Where a round of several steps is charged as a whole, that of the whole round.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `epsilon`.
        """
        step = _validate.count("step", step, minimum=0, maximum=self.num_steps)
        return self._spent(step, accountant).epsilon(delta)

    def max_steps(self, *, epsilon: Real, delta: Real, accountant: AccountantChoice = "pld") -> int:
        """Return the last number of steps that is proven to keep (ε, δ); one more is not.

        Changes nothing, and does not ask what was spent before. Beyond `num_steps` the schedule goes on, but for
        `CorrelatedNoise`, which ends there.

        Parameters
        ----------
        epsilon, delta : float
            The guarantee to keep. Rounded down if not exactly representable.
        accountant : str or callable
            As for `epsilon`.

        Returns
        -------
        int
            0 if not even one step keeps it; 2⁶³ − 1 stands for no limit. At most 10⁷ where noise always changes.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `epsilon`.
        """
        target = _validate.positive("epsilon", epsilon, toward="down")
        checked = _validate.delta(delta)
        ends = isinstance(self.noise, CorrelatedNoise)
        most = self.num_steps if ends else _MOST_STEPS
        if not ends and self._spent(self.num_steps, accountant).epsilon(checked) <= target:
            found = self._beyond(target, checked, accountant)
            if found is not None:
                return found
        low, high = 0, self.num_steps
        while self._kept(high, target, checked, accountant):
            if high >= most:
                return most
            low, high = high, min(2 * high, most)
        while high - low > 1:
            middle = (low + high) // 2
            kept = self._kept(middle, target, checked, accountant)
            low, high = (middle, high) if kept else (low, middle)
        return low

    def calibrated(self, *, epsilon: Real, delta: Real, accountant: AccountantChoice = "pld") -> PrivacyPlan:
        """Return the plan whose noise is scaled by the least factor for which all steps are proven to keep (ε, δ).

        Parameters
        ----------
        epsilon : float
            Finite, > 0. Rounded down if not exactly representable.
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        accountant : str or callable
            As for `epsilon`.

        Returns
        -------
        PrivacyPlan
            Equal but for its noise, and the noise of adaptive clipping's count: all scaled by one factor.

        Raises
        ------
        CalibrationError
            If no factor is proven to be enough.
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `epsilon`.
        """
        target = _validate.positive("epsilon", epsilon, toward="down")
        checked = _validate.delta(delta)
        multipliers = self.noise_multipliers
        least, most = admitted_factors(self.clipping, min(multipliers), max(multipliers))
        if not least < most:
            raise CalibrationError("the plan's noise multipliers span all that sums admit: no factor but 1 is possible")
        # Almost always enough, and quick; a plan of extreme noise needs the rest.
        low = min(max(2.0**-29 / min(multipliers), 1e-6, least), 1.0)
        # mutant: factors-tried-that-no-plan-admits
        high = min(2.0**12 / max(multipliers), 1e6, most)

        def factor_between(low: float, high: float) -> float:
            return calibrate_parameter(
                lambda factor: self._scaled(factor).event,
                target_epsilon=target,
                target_delta=checked,
                bounds=(low, high),
                accountant=lambda: self._accountant(accountant),
            )

        try:
            factor = float(factor_between(*((low, high) if low < high else (least, most))))
        except CalibrationError:
            factor = float(factor_between(least, most))
        scaled = self._scaled(factor)
        while scaled.epsilon(checked, accountant=accountant) > target:  # the same question, in the words of reports
            factor *= 1.0 + 2.0**-40
            scaled = self._scaled(factor)
        return scaled

    def forecast(self, delta: Real, *, num_points: int = 21, accountant: AccountantChoice = "pld") -> Forecast:
        """Return what the plan will cost step by step, and with how much noise: a table, a plot, or JSON.

        Parameters
        ----------
        delta : float
            In (0, 1).
        num_points : int
            At how many steps; at least 2.
        accountant : str or callable
            As for `epsilon`.

        Returns
        -------
        Forecast

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            As for `epsilon`.
        """
        checked = _validate.delta(delta)
        points = _validate.count("num_points", num_points, minimum=2)
        spaced = {1 + round(i * (self.num_steps - 1) / (points - 1)) for i in range(points)}
        steps = tuple(sorted(spaced))
        bounds = [self._bounds_after(step, checked, accountant) for step in steps]
        multipliers = tuple(self.noise.at(step - 1, self.num_steps) for step in steps)
        deviation = math.sqrt(2.0) if isinstance(self.clipping, L1Clipping) else 1.0
        return Forecast(
            unit=self.unit,
            delta=checked,
            neighboring_relation=self.neighboring_relation.value,
            steps=steps,
            epsilon=tuple(each.upper for each in bounds),
            epsilon_lower=tuple(each.lower for each in bounds),
            noise_multiplier=multipliers,
            standard_deviation=tuple(each * self.clipping.initial_norm * deviation for each in multipliers),
            expected_batch_size=self.expected_batch_size,
            notes=self._notes(checked, accountant),
        )

    # running it

    @overload
    def start(self, template: Shape, **options: Unpack[StartOptions]) -> PlanRun[Doubles]: ...
    @overload
    def start(self, template: Mapping[Key, Shape], **options: Unpack[StartOptions]) -> PlanRun[dict[Key, Doubles]]: ...
    @overload
    def start(self, template: Tree, **options: Unpack[StartOptions]) -> PlanRun[Tree]: ...
    def start(
        self,
        template: Any,
        *,
        ledger: TicketLedger | None = None,
        scope: str | Sequence[str] | None = None,
        key: str | None = None,
        plan_delta: Real | None = None,
        source: NoiseSource | None = None,
        audit_canaries: int = 0,
        noise_file: str | os.PathLike[str] | None = None,
    ) -> PlanRun[Any]:
        """Return a run of the plan, to be iterated over: one step after the other, each paid for before it begins.

        With a ledger there are two ways to pay. By default each step is charged by itself, and the run ends where the
        budget does, whatever else is charged besides; where fewer than all steps fit at the start, a warning says how
        many. Such sums are kept in a measure that adds up, so their ε is above that of the plan, and a budget equal to
        the plan's ε ends it early. With `plan_delta` all steps are one charge, ``epsilon(plan_delta)``, before the
        first: then all steps are run.

        Parameters
        ----------
        template : tree of ndarrays, or tree of shapes
            What the vector of one unit looks like, such as the model's gradient: see `ferrodp.ClippedSum`. Shapes stand
            for arrays of float64.
        ledger : PrivacyLedger, optional
            Charged for every step, durably, before the step begins.
        scope : str or sequence of str, optional
            The scopes of the ledger that are charged; needed with a ledger.
        key : str, optional
            Names the training in the ledger. A run started again under the same key goes on after the last step that
            was charged, with a plan that is equal; without a key each run is a new training.
        plan_delta : float, optional
            Charges the whole plan as one (ε, δ): this δ, and the ε that ``epsilon(plan_delta)`` certifies. For scopes
            of measure "pure". A training that is started again under its key, or from a state, is not charged again.
            Closing a run gives the charge back if no step was begun; from then on it is spent, also if the run ends
            early.
        source : NoiseSource, optional
            None, or a seeded source for tests: then nothing is private, which `PlanRun.epsilon` says.
        audit_canaries : int
            How many canaries tell what the run shows of units, such as 1000, or 0 for none: see `PlanRun.audit`. Each
            is one more coordinate of the sums, and changes neither the model nor the guarantee.
        noise_file : path, optional
            With `CorrelatedNoise`: keeps the secret key of its noise, for a training that is started again under its
            `key`, where it has to be given. Made before the first step, readable by its owner alone, and opened
            thereafter. Whoever has it, or a saved state, can take the noise away: keep it like the data, and delete it
            when the training has ended.

        Returns
        -------
        PlanRun

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
            If an argument is not accepted, or the scope has another neighboring relation. Nothing was charged.
        BudgetExceeded
            If the plan, as one charge, does not fit into the budget. Nothing was charged.
        UnsupportedEventError
            If the ledger's scope has no bound for such steps.

        Notes
        -----
        What is charged for a step does not depend on data, nor does the number of steps; only vectors depend on earlier
        releases. So the steps of a plan are an adaptive composition fixed in advance, which is what `PldAccountant`
        bounds, and a run that ends early releases a part of it. Sums of such (ε, δ) are a filter, and plans that run at
        the same time, or are chosen in view of others' results, are covered by it (Haney et al., CCS 2023).

        Examples
        --------
        >>> import tempfile
        >>> import ferrodp as fd
        >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling
        >>> plan = fd.PrivacyPlan(
        ...     population_size=1000,
        ...     sampling=PoissonSampling(0.5),
        ...     num_steps=3,
        ...     clipping=FlatClipping(1.0),
        ...     noise=ConstantNoise(1.0),
        ... ).calibrated(epsilon=2.0, delta=1e-6)
        >>> with tempfile.TemporaryDirectory() as folder, fd.PrivacyLedger.open(f"{folder}/budget.db") as ledger:
        ...     ledger.create("study", epsilon=2.0, delta=1e-6, measure="pure")
        ...     run = plan.start({"w": (3,)}, ledger=ledger, scope="study", key="training", plan_delta=1e-6)
        ...     for step in run:
        ...         step.add({"w": np.ones((len(step.indices), 3))})
        ...         gradient = step.release()
        ...     run.step_number, ledger.report("study").epsilon_charged == run.epsilon(1e-6)
        (3, True)
        """
        return PlanRun(
            self,
            template,
            ledger=ledger,
            scope=scope,
            key=key,
            plan_delta=plan_delta,
            source=source,
            audit_canaries=audit_canaries,
            noise_file=noise_file,
        )

    # as data

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the plan as JSON, which `from_json` reads.

        Parameters
        ----------
        indent : int, optional
            As for `json.dumps`.

        Returns
        -------
        str
            With a format and a version.

        Raises
        ------
        TypeError
            If `indent` is not accepted by `json.dumps`.
        """
        return json.dumps(self._plain(), indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> PrivacyPlan:
        """Return the plan that `to_json` described.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        PrivacyPlan
            Equal to the one that was written.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is not exactly what a plan of this version writes. Nothing is guessed or ignored.
        """
        if not isinstance(text, (str, bytes)):
            raise InvalidType(f"text must be a str of JSON, got {type(text).__name__}; plan.to_json() writes it")
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidParameter(
                f"text must be JSON, got {_validate.shown(text)}: {error}; "
                "plan.to_json() writes it, and a file is read "
                "with Path(name).read_text()"
            ) from None
        if not isinstance(plain, dict):
            raise InvalidType(f"a plan must be a JSON object, got {type(plain).__name__}")
        if plain.get("format") != _FORMAT or type(plain.get("version")) is not int or plain["version"] != _VERSION:
            found = f"{plain.get('format')!r} version {plain.get('version')!r}"
            raise InvalidParameter(
                f"text must be a plan: format {_FORMAT!r} version {_VERSION}, got {found}; plan.to_json() writes it"
            )
        if plain.keys() != _FIELDS:
            wrong = sorted(plain.keys() ^ _FIELDS)
            raise InvalidParameter(f"a plan must have the fields {sorted(_FIELDS)}; missing or unknown: {wrong}")
        relations = {relation.value: relation for relation in NeighboringRelation}
        relation = plain["neighboring_relation"]
        if not isinstance(relation, str) or relation not in relations:
            raise _validate.out_of_domain("neighboring_relation", "one of " + ", ".join(relations), relation)
        return cls(
            unit=plain["unit"],
            population_size=plain["population_size"],
            sampling=part_of(Sampling, "sampling", plain["sampling"]),  # type: ignore[type-abstract]
            num_steps=plain["num_steps"],
            clipping=part_of(Clipping, "clipping", plain["clipping"]),  # type: ignore[type-abstract]
            noise=part_of(NoiseSchedule, "noise", plain["noise"]),  # type: ignore[type-abstract]
            neighboring_relation=relations[relation],
            records_per_group=plain["records_per_group"],
        )

    def _repr_html_(self) -> str:
        known = [
            ("protected", f"one {self.unit}, {self.neighboring_relation.value}"),
            ("units", "not said" if self.population_size is None else self.population_size),
            ("sampling", str(self.sampling)),
            ("steps", self.num_steps),
            ("clipping", str(self.clipping)),
            ("noise", str(self.noise)),
            *([("records in a group", self.records_per_group)] if self.records_per_group > 1 else []),
        ]
        return _html.pairs("PrivacyPlan: epsilon(delta) says what it costs", known)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the plan's JSON, in hexadecimal: equal plans have equal ones."""
        text = json.dumps(self._plain(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def charges(self) -> Sequence[Charge]:
        """Return what is paid for the steps, in order: `Charge` of an event and how many steps it covers.

        Returns
        -------
        sequence of Charge
            Their events together are `event`.
        """
        return self._charges_of(self.num_steps)

    def _plain(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "unit": self.unit,
            "population_size": self.population_size,
            "sampling": self.sampling.to_dict(),
            "num_steps": self.num_steps,
            "clipping": self.clipping.to_dict(),
            "noise": self.noise.to_dict(),
            "neighboring_relation": self.neighboring_relation.value,
            "records_per_group": self.records_per_group,
        }

    def _scaled(self, factor: float) -> PrivacyPlan:
        return dataclasses.replace(self, noise=self.noise.scaled(factor), clipping=self.clipping._scaled(factor))

    def _charges_of(self, num_steps: int) -> Sequence[Charge]:
        return _charges(self, max(num_steps, self.num_steps))

    def _event_of(self, num_steps: int) -> PrivacyEvent:
        """Return the composition of all charges that have to be paid before `num_steps` steps are done."""
        paid: list[tuple[PrivacyEvent, int]] = []
        start = 0
        for charge, same in itertools.groupby(self._charges_of(num_steps)):
            # mutant: last-step-of-a-plan-free
            count = min(len(list(same)), -(-(num_steps - start) // charge.num_steps))
            if count <= 0:
                break
            start += count * charge.num_steps
            if charge.event is None:
                continue
            if paid and paid[-1][0] == charge.event:
                count += paid.pop()[1]
            paid.append((charge.event, count))
        parts = [event if count == 1 else SelfComposedEvent(event=event, count=count) for event, count in paid]
        return parts[0] if len(parts) == 1 else ComposedEvent(events=tuple(parts))

    def _accountant(self, choice: AccountantChoice) -> PrivacyAccountant:
        return accountant_maker(choice, self.neighboring_relation)()

    def _spent(self, num_steps: int, choice: AccountantChoice) -> PrivacyAccountant:
        accountant = self._accountant(choice)
        if num_steps:
            accountant.compose(self._event_of(num_steps))
        return accountant

    def _kept(self, num_steps: int, epsilon: float, delta: float, choice: AccountantChoice) -> bool:
        return self._spent(num_steps, choice).epsilon(delta) <= epsilon

    def _beyond(self, epsilon: float, delta: float, choice: AccountantChoice) -> int | None:
        """Return the last safe number of steps where it lies in the schedule's constant end; None if it is earlier."""
        end = self.noise._constant_from(self.num_steps)
        sorts = (
            isinstance(self.sampling, GivenOrder) and end
        )  # charges of later steps come before those of earlier ones
        if end is None or end > _MOST_STEPS or sorts:
            return None
        prefix = max(end, self.num_steps)
        charges = self._charges_of(prefix)
        done = sum(charge.num_steps for charge in charges)
        # A round that begins in the constant end is charged like all that follow.
        tail = Charge(*self._charges_of(done + charges[-1].num_steps)[len(charges)])
        spent = self._spent(done, choice)
        if spent.epsilon(delta) > epsilon:
            return None
        if tail.event is None:
            return _validate.MAX_COUNT
        more = spent.remaining_count(tail.event, epsilon=epsilon, delta=delta)
        while more and not _holds(spent, tail.event, more, epsilon, delta):
            more -= 1
        return min(done + more * tail.num_steps, _validate.MAX_COUNT)

    def _notes(self, delta: float, choice: AccountantChoice) -> tuple[str, ...]:
        """Return what makes the plan dearer than it need be, each with a number."""
        notes = []
        if isinstance(self.noise, CorrelatedNoise):
            return ()
        if isinstance(self.sampling, GivenOrder) and self.population_size is not None:
            chance = min(self.sampling.batch_size / self.population_size, 1.0)
            other = dataclasses.replace(self, sampling=PoissonSampling(chance)).epsilon(delta, accountant=choice)
            notes.append(f"batches in a given order amplify nothing; Poisson samples of this size: epsilon {other:.4g}")
        if self.records_per_group > 1:
            other = dataclasses.replace(self, records_per_group=1).epsilon(delta, accountant=choice)
            notes.append(
                f"groups of {self.records_per_group} double the sensitivity; a vector for each {self.unit}: "
                f"epsilon {other:.4g}"
            )
        return tuple(notes)


def _holds(spent: PrivacyAccountant, event: PrivacyEvent, count: int, epsilon: float, delta: float) -> bool:
    return not spent.would_exceed(event, epsilon=epsilon, delta=delta, count=count)


@functools.lru_cache(maxsize=64)
def _multipliers(noise: NoiseSchedule, count: int, num_steps: int) -> tuple[float, ...]:
    end = noise._constant_from(num_steps)
    changing = count if end is None else min(end, count)
    last = (noise.at(changing, num_steps),) * (count - changing) if changing < count else ()
    return tuple(noise.at(step, num_steps) for step in range(changing)) + last


@functools.lru_cache(maxsize=64)
def _charges(plan: PrivacyPlan, num_steps: int) -> Sequence[Charge]:
    made: dict[float, PrivacyEvent] = {}

    def multiplier(step: int) -> float:
        return plan.noise.at(step, plan.num_steps)

    def noise(step: int) -> PrivacyEvent:
        value = multiplier(step)
        if value not in made:
            made[value] = plan.clipping._noise_event(value, plan.distance)
        return made[value]

    # A vector that is replaced moves a sum by twice what one that is left out does; a group's moves it as far.
    distance = 0.5 if plan.records_per_group == 1 else 1.0
    if isinstance(plan.clipping, L1Clipping):
        distance = math.inf  # which assumes nothing
    end = plan.noise._constant_from(plan.num_steps)
    terms = Terms(plan.population_size, plan.neighboring_relation, distance, noise, multiplier, end)
    if isinstance(plan.noise, CorrelatedNoise):
        return correlated_charges(plan.noise, plan, terms, num_steps)
    return plan.sampling._charges(terms, num_steps)


PlanRun._plan_type = PrivacyPlan
