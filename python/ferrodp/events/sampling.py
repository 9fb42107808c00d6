"""Releases about a secret random sample of the dataset.

What is sampled is one unit of privacy of the neighboring relation. Which unit took part in which release must stay
secret. Batches cut from one shuffled list are not samples of any of these kinds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import base
from ferrodp.events.base import PrivacyEvent, event_class

_HALF = Fraction(1, 2)
_SUM_TOLERANCE = Fraction(1, 10**9)
"""How far probabilities may add up to something other than 1: enough for rounding, too little for unscaled weights."""


def checked_null_distance(value: object) -> float:
    """Return the distance to the result without a record, as a share of the sensitivity, rounded up.

    See `PoissonSampledEvent`.
    """
    if isinstance(value, float) and value == math.inf:
        return math.inf
    number = _validate.exact("null_distance", value)
    if number < _HALF:
        rule = "at least 0.5, or math.inf: two results are at most twice as far apart as each is from none"
        raise _validate.out_of_domain("null_distance", rule, value)
    return _validate.rounded(number, "up")


@event_class
class PoissonSampledEvent(PrivacyEvent):
    """One release about a Poisson sample: each record joins independently, with the same probability.

    Parameters
    ----------
    sampling_probability : float
        Chance of each record to join; in [0, 1]. Rounded up if not exactly representable: a larger sample is more loss.
    event : PrivacyEvent
        What is released about the sample. Several releases about the *same* sample differ from one sample for each: for
        a training loop write ``SelfComposedEvent(event=PoissonSampledEvent(...), count=...)``.
    null_distance : float
        Used under `REPLACE_ONE` only: the largest distance between the result with a record in the sample and without
        it, divided by the sensitivity, which is the distance between the results with one record and with another in
        its place. From ½ to ∞; rounded up if not exactly representable. See the notes.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The dominating pairs are those of [ZDW22] Theorem 11.

    *Replaced records.* The sample contains the record or not, so both distances count: how much adding a record changes
    the result, and how much replacing it does. The first is not bounded by the second: a sum of values from 99 to 100
    changes by 1 if a record is replaced, and by 100 if it is left out of the sample.

    ==================================================================  =======================================
    sum of contributions clipped to norm C, of sensitivity 2C           `null_distance` ½
    sum of k contributions out of [0, 1], of sensitivity k; a count     1
    sum of values from 99 to 100, of sensitivity 1                      100
    anything that shows the size of the sample, or nothing is known     ∞, the default
    ==================================================================  =======================================

    Up to 1, sampling reduces ε and δ; beyond it reduces δ alone: δ′(ε) = q·δ(ε). The other two relations do not use
    this field, because there the sensitivity is the first distance.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> clipped_sum = GaussianEvent(noise_multiplier=0.5)  # noise C about a sum of sensitivity 2C
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=clipped_sum, null_distance=0.5)
    """

    kind: ClassVar[str] = "poisson_sampled"
    checks: ClassVar[base.Checks] = {
        "event": base.inner_event,
        "sampling_probability": base.PROBABILITY_UP,
        "null_distance": lambda _, value: checked_null_distance(value),
    }
    unsaid: ClassVar[tuple[str, ...]] = ("null_distance",)
    sampling_probability: float
    event: PrivacyEvent
    null_distance: float = math.inf


@event_class
class FixedSizeSampledEvent(PrivacyEvent):
    """One release about a sample of fixed size, drawn uniformly and without replacement.

    Parameters
    ----------
    population_size : int
        Number of records to draw from; from 1 to 2⁶³ − 1. Under `ADD_OR_REMOVE_ONE` the dataset with one more record
        is covered as well.
    sample_size : int
        Number of records drawn; from 0 to `population_size`.
    event : PrivacyEvent
        What is released about the sample. If it is such a sample itself, its `population_size` must be `sample_size`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [WBK19], [BBG18].

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> step = FixedSizeSampledEvent(population_size=60_000, sample_size=256, event=GaussianEvent(noise_multiplier=1.1))
    """

    kind: ClassVar[str] = "fixed_size_sampled"
    checks: ClassVar[base.Checks] = {
        "event": base.inner_event,
        "population_size": base.COUNT_FROM_1,
        "sample_size": base.COUNT_FROM_0,
    }
    population_size: int
    sample_size: int
    event: PrivacyEvent

    def __post_init__(self) -> None:
        PrivacyEvent.__post_init__(self)
        population, sample = self.population_size, self.sample_size
        if sample > population:
            raise InvalidParameter(f"sample_size must be at most population_size = {population}, got {sample}")
        if isinstance(self.event, FixedSizeSampledEvent) and self.event.population_size != sample:
            inner = self.event.population_size
            raise InvalidParameter(f"a sample of the sample must have population_size = {sample}, got {inner}")


@event_class
class TruncatedPoissonSampledEvent(PrivacyEvent):
    """One release about a Poisson sample that is cut to a largest size by dropping records at random.

    Parameters
    ----------
    population_size : int
        Number of records; from 1 to 2⁶³ − 1. Under `ADD_OR_REMOVE_ONE` the dataset with one more record is covered as
        well.
    sampling_probability : float
        Chance of each record to join before the cut; in [0, 1]. A number that is not exactly a float is refused.
    truncated_batch_size : int
        Largest size; from 0 to 2⁶³ − 1.
    event : PrivacyEvent
        What is released about the sample.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [CGKKMSZ24]; the tight pairs are those of arXiv:2508.15089.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> step = TruncatedPoissonSampledEvent(
    ...     population_size=60_000,
    ...     sampling_probability=0.005,
    ...     truncated_batch_size=400,
    ...     event=GaussianEvent(noise_multiplier=1.1),
    ... )
    """

    kind: ClassVar[str] = "truncated_poisson_sampled"
    checks: ClassVar[base.Checks] = {
        "event": base.inner_event,
        "population_size": base.COUNT_FROM_1,
        "sampling_probability": lambda name, value: _exact_probability(name, value),
        "truncated_batch_size": base.COUNT_FROM_0,
    }
    population_size: int
    sampling_probability: float
    truncated_batch_size: int
    event: PrivacyEvent


@event_class
class RandomAllocationEvent(PrivacyEvent):
    """A whole round of steps in which each record takes part in a few, drawn at random: balls into bins.

    Parameters
    ----------
    num_steps : int
        Number of steps of the round; from 1 to 2⁶³ − 1.
    num_selected : int
        In how many of them each record takes part, all choices being equally likely; from 0 to `num_steps`.
    event : PrivacyEvent
        What is released in each step.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [FS25], [CGHKKLMSZ25].

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent
    >>> epoch = RandomAllocationEvent(num_steps=100, num_selected=1, event=GaussianEvent(noise_multiplier=1.1))
    """

    kind: ClassVar[str] = "random_allocation"
    checks: ClassVar[base.Checks] = {
        "event": base.inner_event,
        "num_steps": base.COUNT_FROM_1,
        "num_selected": base.COUNT_FROM_0,
    }
    num_steps: int
    num_selected: int
    event: PrivacyEvent

    def __post_init__(self) -> None:
        PrivacyEvent.__post_init__(self)
        if self.num_selected > self.num_steps:
            rule = f"num_selected must be at most num_steps = {self.num_steps}"
            raise InvalidParameter(f"{rule}, got {self.num_selected}")


@event_class
class MixtureOfGaussiansEvent(PrivacyEvent):
    """One Gaussian release whose sensitivity is random: N(0, z²) against Σᵢ pᵢ·N(sᵢ, z²), in both directions.

    The release about a Poisson sample to which a group of k records may contribute is of this kind, with binomial
    probabilities.

    Parameters
    ----------
    noise_multiplier : float
        z, in the unit of the shifts; finite, > 0. Rounded down if not exactly representable.
    shifts : tuple of float
        sᵢ, at least one, finite, ≥ 0. Rounded up where not exactly representable.
    probabilities : tuple of float
        As many as there are shifts, ≥ 0, each exactly a float. Their exact sum has to be 1 to within 10⁻⁹; the law is
        that of pᵢ divided by the sum.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    [CGST24].

    Examples
    --------
    >>> event = MixtureOfGaussiansEvent(noise_multiplier=2.0, shifts=(0, 1, 2), probabilities=(0.25, 0.5, 0.25))
    >>> event.shifts
    (0.0, 1.0, 2.0)
    """

    kind: ClassVar[str] = "mixture_of_gaussians"
    noise_multiplier: float
    shifts: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("shifts", "probabilities"):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)):
                raise InvalidType(f"{name} must be a tuple or list of numbers, got {type(value).__name__}")
        if not self.shifts or len(self.shifts) != len(self.probabilities):
            found = f"{len(self.shifts)} and {len(self.probabilities)}"
            raise InvalidParameter(f"shifts and probabilities must be of one length, at least 1, got {found}")
        shifts = tuple(base.NON_NEGATIVE_UP("shifts", shift) for shift in self.shifts)
        for probability in self.probabilities:
            _validate.probability("probabilities", probability)
        probabilities = tuple(_exact_probability("probabilities", each) for each in self.probabilities)
        total = sum((Fraction(probability) for probability in probabilities), Fraction(0))
        if abs(total - 1) > _SUM_TOLERANCE:
            raise InvalidParameter(f"probabilities must add up to 1, got {float(total)!r}")
        multiplier = base.POSITIVE_DOWN("noise_multiplier", self.noise_multiplier)
        base.settle(self, noise_multiplier=multiplier, shifts=shifts, probabilities=probabilities)


def _exact_probability(name: str, value: object) -> float:
    """Return a probability that is exactly a float, or refuse."""
    _validate.probability(name, value)
    return base.exact_float(name, value, "finite and in [0, 1]") + 0.0
