"""Samplings: who takes part in each step, and which event that makes of a step's noise.

The plan draws the indices itself, from the operating system's randomness, by the law that it accounts.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.events import (
    FixedSizeSampledEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
)
from ferrodp.events.base import settle
from ferrodp.plan._record import Part, part_class

_AO = NeighboringRelation.ADD_OR_REMOVE_ONE


class Charge(NamedTuple):
    """What is paid before a step begins, and how many steps it pays for.

    Attributes
    ----------
    event : PrivacyEvent or None
        None where earlier charges cover these steps. A ledger records them all the same, as each is released once.
    num_steps : int
        At least 1.
    """

    event: PrivacyEvent | None
    num_steps: int


class Terms(NamedTuple):
    """What a sampling has to know of a plan.

    Attributes
    ----------
    population_size : int or None
        Public number of units.
    relation : NeighboringRelation
        Which datasets are neighbors.
    null_distance : float
        That of `PoissonSampledEvent`.
    noise : callable
        From the number of a step to the event of its noise, stated for the relation.
    multiplier : callable
        From the number of a step to its noise multiplier.
    constant_from : int or None
        A step from which on the multiplier does not change, if there is one.
    """

    population_size: int | None
    relation: NeighboringRelation
    null_distance: float
    noise: Callable[[int], PrivacyEvent]
    multiplier: Callable[[int], float]
    constant_from: int | None = None


class Sampling(Part, abc.ABC):
    """Base class of samplings.

    Examples
    --------
    >>> from ferrodp.plan import PoissonSampling, Sampling
    >>> isinstance(PoissonSampling(0.01), Sampling), PoissonSampling(0.01).expected_batch_size(1000)
    (True, 10.0)
    """

    __slots__ = ()

    def _check(self, population_size: int | None, relation: NeighboringRelation) -> None:
        """Refuse a plan that this sampling does not suit."""

    @abc.abstractmethod
    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return what the first `num_steps` steps are charged, in order; a charge may reach beyond the last of them."""

    def expected_batch_size(self, population_size: int | None) -> float | None:
        """Return the expected number of units in a step.

        Parameters
        ----------
        population_size : int or None
            Public number of units.

        Returns
        -------
        float or None
            A public number; None if it is not known without the population's.

        Raises
        ------
        InvalidParameter, InvalidType
            If `population_size` is neither None nor an int ≥ 1.
        """
        return self._expected(None if population_size is None else _validate.count("population_size", population_size))

    def event(
        self,
        noise: PrivacyEvent,
        *,
        population_size: int | None = None,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        null_distance: float = 0.5,
    ) -> PrivacyEvent:
        """Return what is charged for one step, or for one round of steps that are charged as a whole.

        Parameters
        ----------
        noise : PrivacyEvent
            What is released about the sample, stated for the relation.
        population_size : int, optional
            Public number of units; needed for samples of fixed size.
        neighboring_relation : NeighboringRelation
            Which datasets are neighbors.
        null_distance : float
            That of `ferrodp.events.PoissonSampledEvent`; ½ for sums of clipped vectors.

        Returns
        -------
        PrivacyEvent
            The noise itself where nothing is sampled.

        Raises
        ------
        InvalidParameter, InvalidType
            If the sampling does not suit the population or the relation.

        Examples
        --------
        >>> from ferrodp.events import GaussianEvent
        >>> PoissonSampling(0.01).event(GaussianEvent(noise_multiplier=1.1)).sampling_probability
        0.01
        """
        self._check(population_size, neighboring_relation)
        terms = Terms(population_size, neighboring_relation, null_distance, lambda _: noise, lambda _: 1.0)
        return self._charges(terms, 1)[0].event or noise

    @abc.abstractmethod
    def _expected(self, population_size: int | None) -> float | None:
        """Return the expected number of units in a step, or None if that is not known."""

    def _needs_population(self, population_size: int | None) -> int:
        if population_size is None:
            raise InvalidParameter(f"population_size must be given for {type(self).__name__}: it is part of the law")
        return population_size

    def _needs_slots(self, relation: NeighboringRelation) -> None:
        if relation is _AO:
            raise InvalidParameter(
                f"neighboring_relation must be REPLACE_SPECIAL or REPLACE_ONE for {type(self).__name__}: a record that "
                "is removed would move others to other batches"
            )


@part_class
class PoissonSampling(Sampling):
    """Each unit joins each step independently, with the same probability.

    Parameters
    ----------
    probability : float
        In (0, 1]. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Examples
    --------
    >>> PoissonSampling(0.01).expected_batch_size(60_000)
    600.0
    """

    kind: ClassVar[str] = "poisson"
    probability: float

    def __post_init__(self) -> None:
        settle(self, probability=_positive_probability(self.probability))

    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return one charge a step."""
        return _each(terms, range(num_steps), lambda noise: sampled(terms, self.probability, noise))

    def _expected(self, population_size: int | None) -> float | None:
        return None if population_size is None else self.probability * population_size


@part_class
class FixedSizeSampling(Sampling):
    """A fixed number of units in each step, drawn uniformly and without replacement.

    Parameters
    ----------
    size : int
        At least 1, at most the plan's `population_size`.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Examples
    --------
    >>> FixedSizeSampling(64).expected_batch_size(60_000)
    64.0
    """

    kind: ClassVar[str] = "fixed_size"
    size: int

    def __post_init__(self) -> None:
        settle(self, size=_validate.count("size", self.size))

    def _check(self, population_size: int | None, relation: NeighboringRelation) -> None:
        """Refuse an unknown population, or a smaller one than the sample."""
        if self.size > self._needs_population(population_size):
            raise _validate.out_of_domain("size", f"at most population_size = {population_size}", self.size)

    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return one charge a step."""
        population = self._needs_population(terms.population_size)
        if self.size == population and terms.relation is not _AO:
            return _each(terms, range(num_steps), lambda noise: noise)
        return _each(
            terms,
            range(num_steps),
            lambda noise: FixedSizeSampledEvent(population_size=population, sample_size=self.size, event=noise),
        )

    def _expected(self, population_size: int | None) -> float | None:
        return float(self.size)


@part_class
class RandomAllocation(Sampling):
    """Balls into bins: in each round of `num_steps` steps every unit takes part in `num_selected`, drawn at random.

    A round is charged as a whole before its first step, so its noise must be constant. A round whose last steps lie
    beyond the plan's costs as much as a whole one.

    Parameters
    ----------
    num_steps : int
        Steps of a round, at least 1: the number of batches an epoch has.
    num_selected : int
        In how many of them each unit takes part; from 1 to `num_steps`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> RandomAllocation(100).expected_batch_size(60_000)
    600.0
    """

    kind: ClassVar[str] = "random_allocation"
    num_steps: int
    num_selected: int = 1

    def __post_init__(self) -> None:
        steps = _validate.count("num_steps", self.num_steps, maximum=2**32 - 1)
        settle(self, num_steps=steps, num_selected=_validate.count("num_selected", self.num_selected, maximum=steps))

    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return one charge a round."""
        found = []
        for start in range(0, num_steps, self.num_steps):
            steps = range(start, min(start + self.num_steps, num_steps))
            # mutant: allocation-charged-at-noise-that-changes
            if len({terms.multiplier(step) for step in steps}) > 1:
                raise InvalidParameter(
                    f"noise must be constant within each round of {self.num_steps} steps of a RandomAllocation, which "
                    f"costs what a whole round costs; it changes between the steps {start} and {steps[-1]}"
                )
            found.append(start)
        charges = _each(
            terms,
            found,
            lambda noise: RandomAllocationEvent(num_steps=self.num_steps, num_selected=self.num_selected, event=noise),
        )
        return [Charge(charge.event, self.num_steps) for charge in charges]

    def _expected(self, population_size: int | None) -> float | None:
        return None if population_size is None else population_size * self.num_selected / self.num_steps


@part_class
class CyclicPoisson(Sampling):
    """Poisson samples of one part of the dataset after the other: step t samples units i with i ≡ t mod `num_parts`.

    Parts are fixed by position, so units are replaced, by others or by null units, never removed. A round of
    `num_parts` steps touches each unit once; it is charged before its first step, at the least noise in it.

    Parameters
    ----------
    probability : float
        Chance of each unit of the part to join; in (0, 1]. Rounded up if not exactly representable.
    num_parts : int
        At least 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> CyclicPoisson(0.1, num_parts=10).expected_batch_size(60_000)
    600.0
    """

    kind: ClassVar[str] = "cyclic_poisson"
    probability: float
    num_parts: int

    def __post_init__(self) -> None:
        settle(self, probability=_positive_probability(self.probability))
        settle(self, num_parts=_validate.count("num_parts", self.num_parts))

    def _check(self, population_size: int | None, relation: NeighboringRelation) -> None:
        """Refuse neighbors of different sizes."""
        self._needs_slots(relation)

    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return one charge a round: a unit is in one of its steps at most, at worst in that with the least noise."""
        rounds = (range(start, min(start + self.num_parts, num_steps)) for start in range(0, num_steps, self.num_parts))
        # mutant: cyclic-round-charged-at-its-first-noise
        worst = [min(steps, key=terms.multiplier) for steps in rounds]
        charges = _each(terms, worst, lambda noise: sampled(terms, self.probability, noise))
        return [Charge(charge.event, self.num_parts) for charge in charges]

    def _expected(self, population_size: int | None) -> float | None:
        return None if population_size is None else self.probability * population_size / self.num_parts


@part_class
class FullBatch(Sampling):
    """Every unit takes part in every step.

    Examples
    --------
    >>> FullBatch().expected_batch_size(1000)
    1000.0
    """

    kind: ClassVar[str] = "full_batch"

    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return one charge a step."""
        return _each(terms, range(num_steps), lambda noise: noise)

    def _expected(self, population_size: int | None) -> float | None:
        return None if population_size is None else float(population_size)


@part_class
class GivenOrder(Sampling):
    """Batches that somebody else cuts: a shuffling or sequential loader. Nothing is amplified.

    A shuffle is not a Poisson sample and must not be accounted as one. What can be said without knowing the loader is
    that a unit takes part in some of the steps; each of them costs what it costs without sampling. Units are replaced,
    by others or by null units: a removed one would move all that follow it to other batches.

    Parameters
    ----------
    batch_size : int
        Largest number of units in a step, the public denominator; at least 1.
    max_participations : int, optional
        In how many steps of the plan a unit takes part at most: the number of epochs, for a loader that gives every
        unit once an epoch. The caller promises it. By default a unit may be in every step.
    min_separation : int
        Least difference between the numbers of two steps that a unit takes part in, at least 1; the caller promises it.
        It makes `CorrelatedNoise` cheaper: a loader that repeats one order has the number of steps of an epoch, one
        that shuffles anew has 1. Independent noise costs the same whatever it is.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    A unit in k of T steps costs no more than the k steps with the least noise together; the k-th of them is charged
    before step k, and nothing after that, so that what was charged covers every unit at any time.

    The promise is about the whole plan, whatever happens to the process. A training that goes on after a kill goes on
    with the batches that come after those of the steps left out. A loader that starts anew, or shuffles anew in the
    middle of an epoch, gives some units once more: let it go on with a whole epoch, or promise one participation more
    for each time that it may start again.

    Examples
    --------
    >>> GivenOrder(batch_size=64, max_participations=3).expected_batch_size(None)
    64.0
    """

    kind: ClassVar[str] = "given_order"
    unsaid: ClassVar[tuple[str, ...]] = ("min_separation",)
    batch_size: int
    max_participations: int | None = None
    min_separation: int = 1

    def __post_init__(self) -> None:
        settle(self, batch_size=_validate.count("batch_size", self.batch_size))
        if self.max_participations is not None:
            settle(self, max_participations=_validate.count("max_participations", self.max_participations))
        settle(self, min_separation=_validate.count("min_separation", self.min_separation))

    def _check(self, population_size: int | None, relation: NeighboringRelation) -> None:
        """Refuse neighbors of different sizes."""
        self._needs_slots(relation)

    def _charges(self, terms: Terms, num_steps: int) -> Sequence[Charge]:
        """Return one charge for each participation, the least noise first, and free steps after that."""
        most = num_steps if self.max_participations is None else min(self.max_participations, num_steps)
        # mutant: given-order-charges-the-most-noise
        worst = sorted(range(num_steps), key=terms.multiplier)[:most]
        return _each(terms, worst, lambda noise: noise) + [Charge(None, 1)] * (num_steps - most)

    def _expected(self, population_size: int | None) -> float | None:
        return float(self.batch_size)


def sampled(terms: Terms, probability: float, noise: PrivacyEvent) -> PrivacyEvent:
    """Return the event of noise about a Poisson sample."""
    if probability == 1.0:
        return noise
    distance = terms.null_distance if terms.relation is NeighboringRelation.REPLACE_ONE else math.inf
    return PoissonSampledEvent(sampling_probability=probability, event=noise, null_distance=distance)


def _each(terms: Terms, steps: Iterable[int], event_of: Callable[[PrivacyEvent], PrivacyEvent]) -> list[Charge]:
    """Return a charge for each of the steps; steps of equal noise share one event."""
    made: dict[float, Charge] = {}
    found: list[Charge] = []
    for step in steps:
        multiplier = terms.multiplier(step)
        charge = made.get(multiplier)
        if charge is None:
            charge = made[multiplier] = Charge(event_of(terms.noise(step)), 1)
        # mutant: noise-that-still-changes-taken-for-constant
        if isinstance(steps, range) and terms.constant_from is not None and step >= terms.constant_from:
            return found + [charge] * (len(steps) - len(found))
        found.append(charge)
    return found


def _positive_probability(value: object) -> float:
    chance = _validate.probability("probability", value)
    if not chance:
        raise _validate.out_of_domain("probability", "in (0, 1]", value)
    return chance
