"""The privacy parameters that all statistics share, and the integer noise that they call for."""

from __future__ import annotations

import datetime
import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import part_of_a_statistic, warn_if_weak
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import (
    ComposedEvent,
    EpsilonDeltaEvent,
    NeighboringRelation,
    ParallelEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    TruncatedPoissonSampledEvent,
)
from ferrodp.events.base import check_relation
from ferrodp.mechanisms.discrete_gaussian import DiscreteGaussianMechanism
from ferrodp.mechanisms.discrete_laplace import DiscreteLaplaceMechanism
from ferrodp.mechanisms.gaussian import GaussianMechanism
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.statistics._column import Keep
from ferrodp.statistics._noise import Law
from ferrodp.statistics.estimate import Estimate, Value
from ferrodp.statistics.parts import exact
from ferrodp.statistics.rows.times import Clock, of_bounds
from ferrodp.tickets import ReleasedStatistic, Ticket
from ferrodp.tickets.payer import PAYER, payer_of
from ferrodp.tickets.payment import covers, parts_of_kind, releases
from ferrodp.tickets.source import checked, source_for, sources_for
from ferrodp.tickets.statistic import found_statistic

Mechanism = DiscreteGaussianMechanism | DiscreteLaplaceMechanism
Times: TypeAlias = (
    tuple[datetime.date, datetime.date]
    | tuple[datetime.timedelta, datetime.timedelta]
    | tuple[datetime.time, datetime.time]
)
Bounds: TypeAlias = tuple[Real, Real] | Times | Estimate[Any]
"""Two numbers, or what `private_bounds` found."""
_OF_RANDOM_SIZE = PoissonSampledEvent, TruncatedPoissonSampledEvent, RandomAllocationEvent
"""Samples of which the number of rows tells whether a row is there."""


class Words(NamedTuple):
    """What is released, in words that parameters and names of columns give; and whose rows are whose."""

    statistic: str = ""
    column: str | None = None
    bounds: str | None = None
    unit: str | None = None
    kept: str = ""
    """Which rows of a unit count, where the budget does not know it."""


def name_of(values: Any) -> str | None:
    """Return what a column calls itself, or what a table calls it that is in partitions; None for an array."""
    named = exact.name_of(values)
    if named is not None:
        return named
    try:
        name = getattr(values, "name", None)
    except Exception:  # of whatever object
        return None
    return name if type(name) is str else None


class Budget(NamedTuple):
    """What is protected, how well, and where the noise comes from."""

    epsilon: float
    delta: float
    max_contributions: int
    relation: NeighboringRelation
    source: NoiseSource
    ticket: Ticket | None
    owners: npt.NDArray[np.intp] | None = None
    """The place of the unit of each row, −1 for a row without one; None if the caller promises how many it has."""
    keep: Keep = "random"
    of: str = ""
    """Which rows count, in words."""
    clock: Clock | None = None
    """What kind of times the rows and the result are, where bounds are times."""
    words: Words = Words()
    """What is released, for the record of its charge."""
    whole_units: bool = False
    """Whether each unit is protected with all of its rows, of which none is left out."""

    @property
    def unit(self) -> str:
        """The unit of privacy, in words."""
        rows = self.max_contributions
        if self.whole_units:
            return "one unit, with all of its rows"
        if self.owners is not None:
            return f"one unit, with all of its rows, of which up to {rows} count{'s' * (rows == 1)}"
        return "one row" if rows == 1 else f"whoever contributes up to {rows} rows"

    @property
    def replaces(self) -> bool:
        """Whether neighboring datasets differ in the content of rows, not in their number."""
        return self.relation is NeighboringRelation.REPLACE_ONE

    def timed(self, ends: Any, *, whole: bool = False) -> tuple[Budget, Any]:
        """Return the budget that knows what kind of times bounds are, and them as numbers."""
        clock, numbers = of_bounds(ends)
        return (self if clock is None else self._replace(clock=clock._replace(whole=whole))), numbers

    def between(self, lower: float, upper: float) -> str:
        """Return bounds in words."""
        return f"[{lower:g}, {upper:g}]" if self.clock is None else self.clock.between(lower, upper)

    def says(self, statistic: str, column: Any = None, ends: tuple[float, float] | None = None) -> Budget:
        """Return the budget that knows what is released: of a column or a name of one, within bounds."""
        name = column if isinstance(column, str) else None if column is None else name_of(column)
        bounds = None if ends is None else self.between(*ends)
        return self._replace(words=self.words._replace(statistic=statistic, column=name, bounds=bounds))

    def check_missing(self, missing: object) -> None:
        """Refuse missing rows that count as zeros where a row may become a null record, which contributes nothing.

        A zero is as far from other values as any row, so the record would have to be taken for a replaced one.
        """
        # mutant: null-record-counts-as-zero-and-as-nothing
        if missing == "zero" and self.relation is NeighboringRelation.REPLACE_SPECIAL:
            raise InvalidParameter(
                'missing must be "drop" under REPLACE_SPECIAL, where a null record contributes nothing, got "zero"; '
                "to count missing rows as zeros use REPLACE_ONE"
            )

    def share(self, part: int, whole: int) -> Budget:
        """Return the same with so many parts of ε and δ, rounded down: all of them together keep the budget."""
        # mutant: shares-of-a-budget-rounded-up
        shares = (_validate.rounded(Fraction(total) * part / whole, "down") for total in (self.epsilon, self.delta))
        epsilon, delta = shares
        return self._replace(epsilon=epsilon, delta=delta)

    def sources(
        self, *events: PrivacyEvent, null_distance: Fraction | None, event: PrivacyEvent | None = None
    ) -> list[NoiseSource]:
        """Return a source for each of the releases that together are the statistic and have the requested (ε, δ).

        A ticket, or else the open budget, pays for their events, or for that (ε, δ): then it is one payment for all of
        them. `event` is what they cost together, unless that is their composition. `null_distance` is
        how far the statistic moves if a unit is added or removed, divided by how far it moves if one is replaced; None
        if a missing unit shows in other ways too, such as in the number of rows.
        """
        exact.check_source()
        warn_if_weak(self.epsilon)
        payer = payer_of(self.source) if self.ticket is None else None
        if self.ticket is None and payer is None:
            return [self.source] * len(events)
        pays = checked(self.source, self.ticket) if payer is None else payer
        relation = pays.neighboring_relation
        # mutant: statistic-does-not-ask-which-neighbors
        if relation is not self.relation:
            whose = "the ticket" if payer is None else "the open budget"
            rule = f"neighboring_relation must be that of {whose}, {relation.name}, got {self.relation.name}"
            raise InvalidParameter(rule)
        asked = EpsilonDeltaEvent(epsilon=self.epsilon, delta=self.delta)
        ticket = self.ticket
        if payer is not None:
            whole = events[0] if len(events) == 1 else ComposedEvent(events=events)
            ticket = payer.ticket(whole if event is None else event, asked)
        held = checked(self.source, ticket)
        said = self._said
        self._check_samples(held, math.inf if null_distance is None else null_distance)
        self._check_groups(held, event, (*events, asked))
        # A part of the price of disjoint groups is no payment for all of them, though a choice costs just that ε.
        # mutant: part-of-disjoint-groups-pays-for-all
        disjoint = isinstance(event, ParallelEvent) and parts_of_kind(held.event, ParallelEvent)
        if not disjoint and held.pays_for(asked):
            return [source_for(self.source, held, asked, said)] * len(events)
        return sources_for(self.source, held, events, said)

    @property
    def _said(self) -> ReleasedStatistic:
        """What is released, for the record of its charge."""
        words, unit = self.words, self.unit
        if words.unit is not None:
            whose = f"one unit of {words.unit}"
            # groups know the rows of a unit by themselves
            unit = (
                f"{whose}, with all of its rows{words.kept}"
                if self.owners is None
                else unit.replace("one unit", whose, 1)
            )
        return found_statistic(words.statistic, words.column, words.bounds, unit)

    def _check_samples(self, ticket: Ticket, null_distance: Fraction | float) -> None:
        """Refuse a ticket for a sample of random size whose cost supposes what the statistic does not keep.

        Under REPLACE_ONE that is how far a result is from one without the record; under REPLACE_SPECIAL, that a null
        record leaves a result as it is: here it is a row like any other.
        """
        if self.relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
            return
        # mutant: null-row-shows-in-a-sample-of-random-size
        if self.relation is NeighboringRelation.REPLACE_SPECIAL and parts_of_kind(ticket.event, *_OF_RANDOM_SIZE):
            raise InvalidParameter(
                "ticket must be for no Poisson sample and no random allocation under REPLACE_SPECIAL: null rows are "
                "rows; use ADD_OR_REMOVE_ONE"
            )
        samples = parts_of_kind(ticket.event, PoissonSampledEvent)
        if not samples or self.relation is NeighboringRelation.REPLACE_SPECIAL:
            return
        closest = min(sample.null_distance for sample in samples)
        # mutant: column-sum-paid-for-by-any-sample
        if null_distance > closest:
            needed = "math.inf, its default" if null_distance == math.inf else f"at least {float(null_distance):.6g}"
            raise InvalidParameter(
                f"ticket must be for a Poisson sample whose null_distance is {needed}, got {closest!r}: so much may "
                "this statistic tell of a missing record"
            )

    @staticmethod
    def _check_groups(ticket: Ticket, whole: PrivacyEvent | None, events: tuple[PrivacyEvent, ...]) -> None:
        """Refuse a ticket for releases about disjoint groups, unless those of this statistic are just these.

        Its price is that of one group, so that several releases about the same rows would cost more.
        """
        for parallel in parts_of_kind(ticket.event, ParallelEvent):
            parts = {part for each in parallel.events for part in releases(each)}
            # mutant: releases-about-one-column-paid-as-if-about-disjoint-groups
            if parallel != whole and any(covers(part, event) for part in parts for event in events):
                raise InvalidParameter(
                    "ticket must be for the event of the result, got one for a ParallelEvent, which pays for releases "
                    "about disjoint groups: these are about the same rows"
                )

    def mechanism(
        self, l1_sensitivity: int, squared_l2_sensitivity: int | None = None, dimension: int = 1
    ) -> Mechanism:
        """Return the mechanism for integers: discrete Laplace for δ = 0, discrete Gaussian otherwise."""
        squared = l1_sensitivity**2 if squared_l2_sensitivity is None else squared_l2_sensitivity
        return _calibrated(self.epsilon, self.delta, l1_sensitivity, squared, dimension)

    def estimate(
        self,
        value: Value,  # type: ignore[misc]  # covariant: an Estimate is immutable
        standard_error: float | None,
        event: PrivacyEvent,
        statistic: str,
        law: Law | None = None,
        **more: Any,
    ) -> Estimate[Value]:
        """Return a released value with what it cost, and the law of its noise."""
        found = Estimate(
            statistic=statistic + self.of,
            _law=law,
            **more,
            value=value,
            standard_error=standard_error,
            epsilon=self.epsilon,
            delta=self.delta,
            event=event,
            unit=self.unit,
            neighboring_relation=self.relation,
        )
        return found if self.clock is None else found._timed(self.clock)


@functools.lru_cache(maxsize=256)
def _calibrated(epsilon: float, delta: float, l1: int, squared_l2: int, dimension: int) -> Mechanism:
    """Return the mechanism; a dashboard asks for the same one again and again."""
    with part_of_a_statistic():
        return _discrete(epsilon, delta, l1, squared_l2, dimension)


@functools.lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the noise multiplier of one Gaussian release with this guarantee."""
    with part_of_a_statistic():
        return GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, l2_sensitivity=1.0).noise_multiplier


def _discrete(epsilon: float, delta: float, l1: int, squared_l2: int, dimension: int) -> Mechanism:
    if not delta:
        return DiscreteLaplaceMechanism.calibrated(epsilon=epsilon, l1_sensitivity=l1)
    root = math.isqrt(squared_l2)
    sensitivity: float = root
    if root * root != squared_l2:
        # mutant: square-root-of-sensitivity-rounded
        sensitivity = math.nextafter(math.sqrt(squared_l2), math.inf)
        while Fraction(sensitivity) ** 2 < squared_l2:
            sensitivity = math.nextafter(sensitivity, math.inf)
    return DiscreteGaussianMechanism.calibrated(
        epsilon=epsilon, delta=delta, l2_sensitivity=sensitivity, dimension=dimension
    )


def budget(
    epsilon: Real | None,
    delta: Real,
    max_contributions: int,
    neighboring_relation: NeighboringRelation,
    source: NoiseSource | None,
    ticket: Ticket | None,
) -> Budget:
    """Check the parameters; an ε that is not given is the share of this release in the open budget."""
    neighboring_relation = check_relation(neighboring_relation)
    payer = PAYER.get() if ticket is None else None
    if payer is None and epsilon is None:
        raise InvalidType(
            "epsilon must be given, got None: only the parts of an open fd.budget(...) have one of their own; "
            "for example epsilon=1.0"
        )
    if payer is not None and epsilon is None:
        epsilon = payer.next_share.epsilon
    elif payer is not None:
        # ten times 0.1 fits into 1: a float is taken as no more than the decimal that it is written as
        epsilon, delta = _as_written("epsilon", epsilon), _as_written("delta", delta)
    return Budget(
        _validate.positive("epsilon", epsilon, toward="down"),
        _validate.delta(delta, zero=True),
        _validate.count("max_contributions", max_contributions, maximum=2**20),
        neighboring_relation,
        source_or_default(source),
        ticket,
    )


def _as_written(name: str, value: Any) -> Any:
    """Return a float as the largest one that is at most its shortest decimal; whatever else it is, as it is."""
    number = _validate.exact(name, value)
    return _validate.rounded(Fraction(repr(value)), "down") if type(value) is float and number else value


def bounds(value: object) -> tuple[float, float]:
    """Return two floats in ascending order, such as those that `private_bounds` found."""
    if isinstance(value, Estimate):
        value = value.value
    if isinstance(value, np.ndarray) and value.shape == (2,):
        value = value.tolist()
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise _validate.out_of_domain("bounds", "a pair (lower, upper)", value, write="(0, 100)")
    lower, upper = (_as_float("bounds", end) for end in value)
    if not lower < upper:
        raise _validate.out_of_domain(
            "bounds", "in ascending order", value, write=f"({upper:g}, {lower:g})" if upper < lower else "(0, 100)"
        )
    return lower, upper


def _as_float(name: str, value: object) -> float:
    number = _validate.exact(name, value)
    nearest = _validate.rounded(number, "down")
    if math.isinf(nearest) or abs(nearest) > 1e300 or 0.0 < abs(nearest) < 1e-250:
        raise _validate.out_of_domain(name, "0 or from 1e-250 to 1e300 in size", value)
    return nearest
