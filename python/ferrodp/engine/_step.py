"""One round as an accountant sees it: the description from which noise, clipping and cost follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp.engine.records import DPConfig, NoiseMechanism
from ferrodp.engine.sampling import Sampling
from ferrodp.errors import InvalidParameter
from ferrodp.events import DiscreteGaussianEvent, GaussianEvent, LaplaceEvent, NeighboringRelation, PrivacyEvent
from ferrodp.plan import FixedSizeSampling, PoissonSampling
from ferrodp.tickets import ReleasedStatistic
from ferrodp.tickets.statistic import changed, found_statistic

UNITS = 2.0**30
"""Nominal sensitivity of the discrete noise, in units of its grid: what counts is the ratio to its scale."""


@dataclass(frozen=True, slots=True)
class Step:
    """A round of a configuration under one kind of sampling.

    Attributes
    ----------
    config : DPConfig
        Noise and sampling rate.
    population_size, sample_size : int or None
        Of a sample of fixed size; None for Poisson sampling.
    """

    config: DPConfig
    population_size: int | None = None
    sample_size: int | None = None

    @property
    def relation(self) -> NeighboringRelation:
        """Which datasets the cost tells apart."""
        uniform = self.population_size is not None
        return NeighboringRelation.REPLACE_ONE if uniform else NeighboringRelation.ADD_OR_REMOVE_ONE

    @property
    def distance(self) -> int:
        """How many clip norms apart the sums of neighbors can be: a client removed, or replaced by its opposite."""
        # mutant: replacing-client-costs-what-removing-one
        return 1 if self.population_size is None else 2

    @property
    def chance(self) -> Fraction:
        """The chance of a client to be in the sample."""
        if self.population_size is None:
            return Fraction(self.config.sampling_rate)
        return Fraction(self.sample_size or 0, self.population_size)

    @property
    def multiplier(self) -> float:
        """Noise divided by sensitivity: z, or half of it where a client is replaced."""
        multiplier = self.config.noise_multiplier / self.distance
        if Fraction(multiplier) * self.distance > Fraction(self.config.noise_multiplier):  # only below 2⁻¹⁰²¹
            multiplier = math.nextafter(multiplier, 0.0)
        return multiplier

    @property
    def noise(self) -> PrivacyEvent:
        """What is released about the sample, in whatever number of coordinates."""
        if self.config.mechanism is NoiseMechanism.GAUSSIAN:
            return GaussianEvent(noise_multiplier=self.multiplier)
        if self.config.mechanism is NoiseMechanism.LAPLACE:
            return LaplaceEvent(noise_multiplier=self.multiplier)
        scale = _validate.positive("noise_multiplier", self.multiplier * UNITS)
        return DiscreteGaussianEvent(scale=scale, l2_sensitivity=UNITS, dimension=_validate.MAX_COUNT)

    @property
    def event(self) -> PrivacyEvent:
        """What a round costs."""
        return self.sampled(self.noise)

    @property
    def sampling(self) -> PoissonSampling | FixedSizeSampling:
        """Who takes part, as a plan has it."""
        # mutant: sample-of-fixed-size-accounted-as-poisson
        if self.population_size is None:
            return PoissonSampling(self.config.sampling_rate)
        return FixedSizeSampling(self.sample_size or 0)

    def sampled(self, noise: PrivacyEvent) -> PrivacyEvent:
        """Return the event of such noise about a sample."""
        return self.sampling.event(
            noise, population_size=self.population_size, neighboring_relation=self.relation, null_distance=math.inf
        )

    @property
    def words(self) -> ReleasedStatistic:
        """What a round is for, as a ledger keeps it."""
        name = "L1" if self.config.mechanism is NoiseMechanism.LAPLACE else "L2"
        bounds = f"{name} norm of each update at most {self.config.max_grad_norm:g}"
        return found_statistic("a round of training", None, bounds, f"one client, {changed(self.relation, 'client')}")

    def __str__(self) -> str:
        rate = self.config.sampling_rate
        how = "without sampling"
        if self.chance != 1:
            poisson = f"a Poisson sample of rate {rate!r}"
            how = "about " + (poisson if self.population_size is None else "a sample of fixed size")
        return f"{self.config.mechanism.value} noise {how}"


def step_of(config: DPConfig, sampling: Sampling, population_size: int | None) -> Step:
    """Return a round of a configuration; a sample of fixed size has the nearest number of clients, at least one."""
    if sampling is Sampling.POISSON:
        return Step(config)
    if population_size is None:
        raise InvalidParameter("population_size must be given for samples of fixed size")
    sample_size = max(round(Fraction(config.sampling_rate) * population_size), 1)
    # mutant: sample-larger-than-what-accounted
    return Step(config, population_size, min(sample_size, population_size))
