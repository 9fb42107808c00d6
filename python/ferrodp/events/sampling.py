"""Releases about a random part of the dataset that is kept secret.

What is sampled is one unit of privacy of the neighboring relation. Which unit took part in which release must not be
seen, and batches that are cut from one shuffled list are none of these samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ferrodp import _validate
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events.base import PrivacyEvent, check_inner, exact_float, register, settle

__all__ = [
    "FixedSizeSampledEvent",
    "MixtureOfGaussiansEvent",
    "PoissonSampledEvent",
    "RandomAllocationEvent",
    "TruncatedPoissonSampledEvent",
]

_HALF = Fraction(1, 2)
_SUM_TOLERANCE = Fraction(1, 10**9)  # of probabilities: tells a list of weights from rounded probabilities


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampledEvent(PrivacyEvent):
    """One release about a Poisson sample: each record is in it by a coin of its own.

    Parameters
    ----------
    sampling_probability : float
        Chance of each record; in [0, 1]. Rounded up if it is no float: a larger sample is more loss.
    event : PrivacyEvent
        What is released about the sample. Several releases about the *same* sample are not the same as a sample for
        each: for a training loop write ``SelfComposedEvent(event=PoissonSampledEvent(...), count=...)``.
    null_distance : float
        Under `REPLACE_ONE` only: the largest distance between the result with a record in the sample and without it,
        divided by the sensitivity, which is the distance between the results with one record and with another in its
        place. From ½ to ∞; rounded up if it is no float. See the notes.

    Notes
    -----
    Source of the pairs that dominate it: Zhu, Dong, Wang, "Optimal accounting of differential privacy via
    characteristic function", AISTATS 2022, Theorem 11.

    *Replaced records.* A sample may hold the record or not, so what a record adds to the result counts as well as what
    replacing it changes. The first distance is not bounded by the second one: a sum of values from 99 to 100 moves by
    1 when a record is replaced, and by 100 when it is left out of the sample.

    ==================================================================  =======================================
    sum of contributions clipped to norm C, of sensitivity 2C           `null_distance` ½
    sum of k contributions out of [0, 1], of sensitivity k; a count     1
    sum of values from 99 to 100, of sensitivity 1                      100
    anything that shows the size of the sample, or nothing is known     ∞, the default
    ==================================================================  =======================================

    Up to 1 sampling reduces ε and δ; beyond it reduces δ alone: δ′(ε) = q·δ(ε). The other two relations do not use this
    field, for there the sensitivity is the first distance.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent
    >>> clipped_sum = GaussianEvent(noise_multiplier=0.5)  # noise C about a sum of sensitivity 2C
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=clipped_sum, null_distance=0.5)
    """

    kind: ClassVar[str] = "poisson_sampled"
    unsaid: ClassVar[tuple[str, ...]] = ("null_distance",)
    sampling_probability: float
    event: PrivacyEvent
    null_distance: float = math.inf

    def __post_init__(self) -> None:
        check_inner(self.event)
        probability = _validate.probability("sampling_probability", self.sampling_probability, toward="up")
        settle(self, sampling_probability=probability, null_distance=checked_null_distance(self.null_distance))


def checked_null_distance(value: object) -> float:
    """Return the distance to an absent record's result as a share of the sensitivity, rounded up; see above."""
    if isinstance(value, float) and value == math.inf:
        return math.inf
    number = _validate.exact("null_distance", value)
    if number < _HALF:
        rule = "at least 0.5, or math.inf: two results are at most twice as far apart as each is from none"
        raise _validate.out_of_domain("null_distance", rule, value)
    return _validate.rounded(number, "up")


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizeSampledEvent(PrivacyEvent):
    """One release about a sample of fixed size, drawn uniformly and without replacement.

    Parameters
    ----------
    population_size : int
        Number of records to draw from; from 1 to 2⁶³ − 1. Under `ADD_OR_REMOVE_ONE` the dataset with one record more
        is covered as well.
    sample_size : int
        Number of records drawn; from 0 to `population_size`.
    event : PrivacyEvent
        What is released about the sample. If it is such a sample itself, its `population_size` must be `sample_size`.

    Notes
    -----
    Wang, Balle, Kasiviswanathan, "Subsampled Rényi differential privacy and analytical moments accountant", AISTATS
    2019.
    """

    kind: ClassVar[str] = "fixed_size_sampled"
    population_size: int
    sample_size: int
    event: PrivacyEvent

    def __post_init__(self) -> None:
        check_inner(self.event)
        population = _validate.count("population_size", self.population_size)
        sample = _validate.count("sample_size", self.sample_size, minimum=0)
        if sample > population:
            raise InvalidParameter(f"sample_size must be at most population_size = {population}, got {sample}")
        if isinstance(self.event, FixedSizeSampledEvent) and self.event.population_size != sample:
            inner = self.event.population_size
            raise InvalidParameter(f"a sample of the sample must have population_size = {sample}, got {inner}")
        settle(self, population_size=population, sample_size=sample)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedPoissonSampledEvent(PrivacyEvent):
    """One release about a Poisson sample that is cut to a largest size by dropping records at random.

    Parameters
    ----------
    population_size : int
        Number of records; from 1 to 2⁶³ − 1. Under `ADD_OR_REMOVE_ONE` the dataset with one record more is covered as
        well.
    sampling_probability : float
        Chance of each record before the cut; in [0, 1]. A number that no float denotes is refused.
    truncated_batch_size : int
        Largest size; from 0 to 2⁶³ − 1.
    event : PrivacyEvent
        What is released about the sample.

    Notes
    -----
    Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang, "Scalable DP-SGD: shuffling vs. Poisson subsampling", NeurIPS
    2024; the tight pairs: arXiv 2508.15089.
    """

    kind: ClassVar[str] = "truncated_poisson_sampled"
    population_size: int
    sampling_probability: float
    truncated_batch_size: int
    event: PrivacyEvent

    def __post_init__(self) -> None:
        check_inner(self.event)
        _validate.probability("sampling_probability", self.sampling_probability)
        settle(
            self,
            population_size=_validate.count("population_size", self.population_size),
            sampling_probability=exact_float("sampling_probability", self.sampling_probability, "finite and in [0, 1]")
            + 0.0,
            truncated_batch_size=_validate.count("truncated_batch_size", self.truncated_batch_size, minimum=0),
        )


@register
@dataclass(frozen=True, slots=True, kw_only=True)
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

    Notes
    -----
    Feldman, Shenfeld, "Privacy amplification by random allocation", NeurIPS 2025; Chua et al., "Balls-and-bins sampling
    for DP-SGD", AISTATS 2025.
    """

    kind: ClassVar[str] = "random_allocation"
    num_steps: int
    num_selected: int
    event: PrivacyEvent

    def __post_init__(self) -> None:
        check_inner(self.event)
        steps = _validate.count("num_steps", self.num_steps)
        selected = _validate.count("num_selected", self.num_selected, minimum=0)
        if selected > steps:
            raise InvalidParameter(f"num_selected must be at most num_steps = {steps}, got {selected}")
        settle(self, num_steps=steps, num_selected=selected)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfGaussiansEvent(PrivacyEvent):
    """One Gaussian release whose sensitivity is random: N(0, z²) against Σᵢ pᵢ·N(sᵢ, z²), in both directions.

    The release about a Poisson sample to which a group of k records may contribute is of this kind, with binomial
    probabilities.

    Parameters
    ----------
    noise_multiplier : float
        z, in the unit of the shifts; finite, > 0. Rounded down if it is no float.
    shifts : tuple of float
        sᵢ, at least one, finite, ≥ 0. Rounded up where they are no floats.
    probabilities : tuple of float
        As many, ≥ 0, each exactly a float. Their exact sum has to be 1 to 10⁻⁹; the law is that of pᵢ divided by it.

    Notes
    -----
    Choquette-Choo, Ganesh, Steinke, Thakurta, "Privacy amplification for matrix mechanisms", ICLR 2024.
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
        shifts = tuple(_validate.non_negative("shifts", shift, toward="up") for shift in self.shifts)
        for probability in self.probabilities:
            _validate.probability("probabilities", probability)
        probabilities = tuple(
            exact_float("probabilities", each, "finite and in [0, 1]") + 0.0 for each in self.probabilities
        )
        total = sum((Fraction(probability) for probability in probabilities), Fraction(0))
        if abs(total - 1) > _SUM_TOLERANCE:
            raise InvalidParameter(f"probabilities must add up to 1, got {float(total)!r}")
        multiplier = _validate.positive("noise_multiplier", self.noise_multiplier, toward="down")
        settle(self, noise_multiplier=multiplier, shifts=shifts, probabilities=probabilities)
