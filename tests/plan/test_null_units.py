"""Adaptive clipping where a unit is replaced by a null unit: what a step shows of a unit, a null unit, and neither."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from ferrodp.accounting import PldAccountant
from ferrodp.events import NeighboringRelation
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    CyclicPoisson,
    FixedSizeSampling,
    FullBatch,
    GivenOrder,
    PoissonSampling,
    PrivacyPlan,
    RandomAllocation,
    _sums,
)
from ferrodp.testing import SeededNoiseSource

RS = NeighboringRelation.REPLACE_SPECIAL
CLIP = 1.0
NULL, SHORT, LONG = 0.0, 0.5, 2.0
SAMPLINGS = [
    PoissonSampling(0.9),
    CyclicPoisson(0.9, num_parts=1),
    RandomAllocation(2),
    FixedSizeSampling(1),
    FullBatch(),
    GivenOrder(batch_size=1),
]


class Counts:
    """Stands for the mechanism of the count: keeps the value and the standard deviation of its noise."""

    def __init__(self, *, noise_multiplier, l2_sensitivity):
        self.deviation = noise_multiplier * l2_sensitivity

    def release(self, value, *, source):
        self.seen.append((value, self.deviation))
        return value


def plan_of(sampling, *, noise=0.5, count=0.6, steps=2, relation=RS):
    return PrivacyPlan(
        population_size=1,
        sampling=sampling,
        num_steps=steps,
        clipping=AdaptiveClipping(CLIP, count_noise_multiplier=count),
        noise=ConstantNoise(noise),
        neighboring_relation=relation,
    )


def center(plan, vectors, monkeypatch):
    """Return by how many standard deviations of its noise these vectors move the sum and the count of a step."""
    Counts.seen = []
    monkeypatch.setattr(_sums, "GaussianMechanism", Counts)
    total = plan.start((1,))._new_sum()
    total.add(np.reshape(vectors, (-1, 1)))
    z = plan.noise.at(0, plan.num_steps)
    total.release(z, 1.0, source=SeededNoiseSource(b"\0" * 32), ticket=None, pay=lambda: None)
    (value, deviation), *_ = Counts.seen
    of_sum = plan.clipping.split(z).sum_noise_multiplier * CLIP
    return float(np.clip(vectors, -CLIP, CLIP).sum()) / of_sum, value / deviation


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda sampling: sampling.kind)
def test_a_null_unit_changes_nothing_about_a_step_that_it_takes_part_in(sampling, monkeypatch):
    """Neither what is released, nor how far a unit moves it beyond what its noise multiplier z says: 1/z."""
    plan = plan_of(sampling)
    for others in ([], [SHORT], [LONG, SHORT, LONG]):
        absent = center(plan, others, monkeypatch)
        assert center(plan, [*others, NULL], monkeypatch) == absent
        for unit in (SHORT, LONG, CLIP, -LONG, math.nan):
            moved = np.subtract(center(plan, [*others, unit], monkeypatch), absent)
            assert np.hypot(*np.nan_to_num(moved)) <= 1.0 / 0.5 + 1e-12  # rounding of the sums of this test


def delta_of_two_steps(chance, unit, null, epsilon):
    """Return a lower bound on δ, up to rounding of 1e-13, for the two steps of a unit and of a null unit.

    Outputs are told apart by cells of a grid only, whose probabilities are exact, and losses are rounded down: both
    lose distinctions and no more.
    """

    def law(point):
        """Return the probabilities of the cells around a center, those beyond the grid at its border."""
        below = [[NormalDist(mean).cdf(edge) for edge in np.arange(-60, 61) / 10] for mean in point]
        return np.outer(*(np.diff([0.0, *side, 1.0]) for side in below))

    absent = law((0.0, 0.0))
    first = (1 - chance) * absent + chance * law(unit)
    second = (1 - chance) * absent + chance * law(null)
    step = 1e-3
    losses = np.floor(np.log(first / second) / step).astype(int)
    masses = np.bincount((losses - losses.min()).ravel(), weights=first.ravel())
    twice = np.fft.irfft(np.fft.rfft(masses, 2 * masses.size) ** 2, 2 * masses.size)
    exact = (np.arange(twice.size) + 2 * losses.min()) * step
    return float((twice * -np.expm1(np.minimum(epsilon - exact, 0.0))).sum())


@pytest.mark.parametrize(
    ("sampling", "noise", "count", "epsilon"),
    [
        (PoissonSampling(0.9), 0.5, 0.6, 0.0),
        (PoissonSampling(0.9), 0.5, 0.6, 0.05),
        (PoissonSampling(0.9), 0.5, 1.0, 0.0),
        (PoissonSampling(0.99), 0.5, 0.6, 0.0),
        (CyclicPoisson(0.9, num_parts=1), 0.5, 0.6, 0.05),
    ],
)
def test_two_steps_of_a_unit_against_a_null_unit_keep_what_the_plan_says(sampling, noise, count, epsilon, monkeypatch):
    plan = plan_of(sampling, noise=noise, count=count)
    accountant = PldAccountant(neighboring_relation=RS)
    accountant.compose(plan.event)
    claimed = accountant.delta_bounds(epsilon).upper
    null = center(plan, [NULL], monkeypatch)
    for unit in (CLIP, LONG):
        moved = center(plan, [unit], monkeypatch)
        for pair in ((moved, null), (null, moved)):
            assert delta_of_two_steps(sampling.probability, *pair, epsilon) <= claimed + 1e-12
