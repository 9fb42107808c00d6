"""Events without a pair of laws: PLD answers by other measures, and never below what is known of the others."""

import math

import pytest

from ferrodp.accounting import (
    ComposedEvent,
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    PureDpAccountant,
    RandomAllocationEvent,
    RdpAccountant,
    RepeatAndSelectEvent,
    TruncatedPoissonSampledEvent,
    ZcdpEvent,
)
from ferrodp.accounting.sampling import random_allocation_delta_bounds, random_allocation_epsilon_bounds

GAUSSIAN, LAPLACE = GaussianEvent(noise_multiplier=2.0), LaplaceEvent(noise_multiplier=4.0)
ALLOCATED = RandomAllocationEvent(num_steps=10, num_selected=1, event=GaussianEvent(noise_multiplier=1.0))
BARE = [
    ZcdpEvent(rho=0.05),
    DiscreteGaussianEvent(scale=8.0, l2_sensitivity=1.5, dimension=3),
    RepeatAndSelectEvent(event=LAPLACE, mean=5.0, shape=1.0),
    PoissonSampledEvent(sampling_probability=0.1, event=ComposedEvent(events=(GAUSSIAN, LAPLACE))),
    ALLOCATED,
]


def told(accountant, *events):
    for event, count in events:
        accountant.compose(event, count)
    return accountant


@pytest.mark.parametrize("event", BARE, ids=lambda event: event.kind)
def test_alone_the_answer_is_no_more_than_the_renyi_one(event):
    pld, rdp = (told(each(), (event, 4)) for each in (PldAccountant, RdpAccountant))

    assert 0.0 < pld.epsilon(1e-6) <= rdp.epsilon(1e-6)
    assert 0.0 < pld.delta(0.25) <= rdp.delta(0.25)
    assert "lower" in pld.explain(1e-6).to_dict()


@pytest.mark.parametrize("event", BARE, ids=lambda event: event.kind)
def test_with_others_the_answer_lies_between_theirs_and_the_sum(event):
    """Truncated samples of Laplace noise have a pair and no Rényi curve, so that only the split of δ is left."""
    others = TruncatedPoissonSampledEvent(
        population_size=100, sampling_probability=0.1, truncated_batch_size=20, event=LAPLACE
    )
    for other in (GAUSSIAN, others):
        alone = told(PldAccountant(), (other, 9))
        both = told(PldAccountant(), (other, 9), (event, 1))
        bounds = both.epsilon_bounds(1e-6)
        assert alone.epsilon_bounds(1e-6).lower <= bounds.lower <= bounds.upper < math.inf
        assert alone.epsilon_bounds(1e-6).upper < bounds.upper
        assert bounds.upper <= alone.epsilon(5e-7) + told(PldAccountant(), (event, 1)).epsilon(5e-7)
        assert both.delta(2.0) < 1.0


def test_random_allocations_alone_have_their_own_laws():
    accountant = told(PldAccountant(), (ALLOCATED, 3))
    rounds = {"noise_multiplier": 1.0, "num_steps": 10, "num_rounds": 3}

    assert accountant.epsilon_bounds(1e-5) == random_allocation_epsilon_bounds(delta=1e-5, **rounds)
    assert accountant.delta_bounds(1.0) == random_allocation_delta_bounds(epsilon=1.0, **rounds)
    assert "convex order" in accountant.explain(1e-5).method


def test_without_delta_only_the_sum_of_pure_costs_is_left():
    accountant = told(PldAccountant(), (RepeatAndSelectEvent(event=LAPLACE, mean=5.0, shape=1.0), 2), (LAPLACE, 1))
    pure = told(PureDpAccountant(), *accountant.events)

    assert accountant.epsilon(0.0) == pure.epsilon(0.0) == 1.75
    assert told(PldAccountant(), (ZcdpEvent(rho=0.05), 1)).epsilon(0.0) == math.inf
