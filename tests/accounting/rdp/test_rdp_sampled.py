"""What the RDP accountant knows about samples and allocations."""

import math

import numpy as np
import pytest

from ferrodp.accounting import (
    EpsilonDeltaEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    RandomAllocationEvent,
    RdpAccountant,
    rdp,
)
from ferrodp.accounting.sampling import random_allocation_epsilon_bounds
from ferrodp.errors import UnsupportedEventError

ADDED, REPLACED, ZEROED = NeighboringRelation
ORDERS = np.array([1.0, 1.5, 2.0, 7.25, 64.0])


def fixed_size(inner, sample=10):
    return FixedSizeSampledEvent(population_size=1000, sample_size=sample, event=inner)


def allocation(inner, steps=20, selected=1):
    return RandomAllocationEvent(num_steps=steps, num_selected=selected, event=inner)


@pytest.mark.parametrize("relation", [ADDED, REPLACED, ZEROED])
def test_a_fixed_size_gaussian_has_the_curve_of_its_relation(relation):
    event = fixed_size(GaussianEvent(noise_multiplier=1.5))

    curve = rdp.curve_of(event, relation)(ORDERS)

    expected = rdp.fixed_size_sampled_gaussian(1.5, 0.01, ORDERS[1:], neighboring_relation=relation)
    assert curve[1:] == pytest.approx(expected, rel=1e-12)
    assert 0.0 < curve[0] <= curve[1]


def test_pure_mechanisms_are_sampled_by_their_epsilon_if_replaced_and_by_their_law_if_added():
    event = fixed_size(LaplaceEvent(noise_multiplier=2.0))

    assert rdp.curve_of(event, REPLACED)(ORDERS[1:]) == pytest.approx(
        rdp.fixed_size_sampled_pure(0.5, 0.01, ORDERS[1:])
    )
    doubled = PoissonSampledEvent(sampling_probability=0.01, event=LaplaceEvent(noise_multiplier=1.0))
    assert rdp.curve_of(event, ADDED)(ORDERS) == pytest.approx(rdp.curve_of(doubled, ADDED)(ORDERS), rel=1e-12)


def test_samples_of_none_cost_nothing():
    for event in (
        fixed_size(GaussianEvent(noise_multiplier=1.0), 0),
        allocation(GaussianEvent(noise_multiplier=1.0), 9, 0),
    ):
        for relation in NeighboringRelation:
            accountant = RdpAccountant(neighboring_relation=relation)
            accountant.compose(event, 10**6)
            assert accountant.epsilon(1e-9) == 0.0


def test_allocation_to_all_steps_is_no_allocation():
    accountant, plain = RdpAccountant(), RdpAccountant()
    accountant.compose(allocation(GaussianEvent(noise_multiplier=3.0), 7, 7))
    plain.compose(GaussianEvent(noise_multiplier=3.0), 7)

    assert plain.epsilon(1e-5) <= accountant.epsilon(1e-5) <= plain.epsilon(1e-5) * (1 + 1e-12)


def test_rounds_of_allocation_agree_with_their_law():
    """A conversion from moments is looser than the law; it must not be tighter."""
    accountant = RdpAccountant()
    accountant.compose(allocation(GaussianEvent(noise_multiplier=1.0)), 3)
    lower, _ = random_allocation_epsilon_bounds(delta=1e-5, noise_multiplier=1.0, num_steps=20, num_rounds=3)

    assert lower <= accountant.epsilon(1e-5) <= 1.3 * lower


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
def test_the_moments_of_a_fixed_size_sample_are_looser_than_its_losses(relation):
    event = fixed_size(GaussianEvent(noise_multiplier=1.0))
    by_moments, by_losses = (accountant(neighboring_relation=relation) for accountant in (RdpAccountant, PldAccountant))
    by_moments.compose(event, 200)
    by_losses.compose(event, 200)

    assert by_losses.epsilon(1e-6) <= by_moments.epsilon(1e-6) <= 1.5 * by_losses.epsilon(1e-6)


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (fixed_size(EpsilonDeltaEvent(epsilon=1.0)), ZEROED),
        (fixed_size(EpsilonDeltaEvent(epsilon=1.0)), ADDED),
        (allocation(LaplaceEvent(noise_multiplier=1.0)), ADDED),
        (allocation(GaussianEvent(noise_multiplier=1.0)), REPLACED),
        (allocation(GaussianEvent(noise_multiplier=1.0), 2**60), ADDED),
    ],
)
def test_what_has_no_curve_is_refused_by_name(event, relation):
    accountant = RdpAccountant(neighboring_relation=relation)

    with pytest.raises(UnsupportedEventError, match="no Rényi curve is known for"):
        accountant.compose(event)
    assert accountant.events == ()


def test_extreme_noise_stays_a_bound():
    curve = rdp.curve_of(fixed_size(GaussianEvent(noise_multiplier=5e-324)), ADDED)(ORDERS)

    assert (curve == math.inf).all()
