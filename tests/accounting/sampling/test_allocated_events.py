"""Random allocations of other than Gaussian steps: both ends, against sums over all outcomes, and what is refused."""

import math

import numpy as np
import pytest

from ferrodp import _native
from ferrodp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PldAccountant,
    RandomAllocationEvent,
    RandomizedResponseEvent,
)
from ferrodp.accounting._laws import allocated as allocated_laws
from ferrodp.accounting._laws.dominating_pairs import allocated_step
from ferrodp.errors import UnsupportedEventError

STEPS = {
    "Laplace": LaplaceEvent(noise_multiplier=1.0),
    "discrete Laplace": DiscreteLaplaceEvent(scale=2.0),
    "discrete Gaussian": DiscreteGaussianEvent(scale=1.0),
    "pure": EpsilonDeltaEvent(epsilon=1.0, delta=0.0),
    "(ε, δ)": EpsilonDeltaEvent(epsilon=1.0, delta=1e-30),
}


def allocated(step, num_steps, num_selected):
    return RandomAllocationEvent(num_steps=num_steps, num_selected=num_selected, event=step)


def bounds(event, count=1, relation=NeighboringRelation.ADD_OR_REMOVE_ONE, **at):
    accountant = PldAccountant(neighboring_relation=relation)
    accountant.compose(event, count)
    return accountant.epsilon_bounds(**at) if "delta" in at else accountant.delta_bounds(**at)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("num_steps", "num_selected"), [(100, 1), (1000, 4), (100_000, 64)])
@pytest.mark.parametrize("delta", [1e-6, 1e-20])
def test_both_ends_are_close(name, num_steps, num_selected, delta):
    found = bounds(allocated(STEPS[name], num_steps, num_selected), delta=delta)

    assert 0.0 < found.lower <= found.upper
    assert found.lower >= 0.985 * found.upper


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.5])
@pytest.mark.parametrize("delta", [1e-12, 1e-20])
def test_rare_values_of_discrete_noise_are_in_the_lower_end(scale, delta):
    """One step of 10⁵: δ is that of a few atoms far above all others, which no gap below them may swallow."""
    found = bounds(allocated(DiscreteGaussianEvent(scale=scale), 100_000, 1), delta=delta)

    assert 0.0 < found.lower <= found.upper
    assert found.lower >= 0.96 * found.upper


@pytest.mark.parametrize("delta", [1e-6, 1e-12, 1e-20])
@pytest.mark.parametrize(
    "step", [GaussianEvent(noise_multiplier=1.0), STEPS["discrete Gaussian"]], ids=["real", "whole"]
)
def test_two_of_a_hundred_steps_are_within_a_per_cent(step, delta):
    found = bounds(allocated(step, 100, 2), delta=delta)

    assert 0.99 * found.upper <= found.lower <= found.upper


@pytest.mark.parametrize("num_steps", [2, 3, 4])
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_couples_of_steps_cost_no_less_than_all_outcomes_say(num_steps, scale):
    values = np.arange(-12, 13)
    without, record = (np.exp(-np.abs(values - at) / scale) for at in (0, 1))
    masses, ratios = without / np.sum(np.exp(-np.abs(np.arange(-200, 201)) / scale)), record / without
    mass, mean = np.ones(1), (np.zeros(1), np.zeros(1))
    for _ in range(num_steps):
        # Sums, and sums of products, of all outcomes so far.
        mass = np.outer(mass, masses).ravel()
        mean = (np.add.outer(mean[0], ratios).ravel(), (mean[1][:, None] + np.outer(mean[0], ratios)).ravel())
    ratio = mean[1] / math.comb(num_steps, 2)
    step = allocated_step(
        allocated(DiscreteLaplaceEvent(scale=scale), num_steps, 2), NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    law = ("allocated", _native.AllocationCouples(step, num_steps, 40_000).law(2.0**-8, 40_000))
    for epsilon in (0.0, 0.3, 1.0, 1.5):
        exact = [
            float(np.sum(mass * np.maximum(ratio - math.exp(epsilon), 0.0))),
            float(np.sum(mass * np.maximum(1.0 - math.exp(epsilon) * ratio, 0.0))),
        ]
        for truth, spec in zip(exact, (law, ("reversed", law)), strict=True):
            upper = _native.pair_delta([spec], epsilon)[1]
            # Outcomes beyond ±12 are left out of the sum.
            assert truth * (1 - 1e-12) <= upper <= 1.1 * truth + 2e-3


@pytest.mark.parametrize("selected", [2, 3, 4, 7])
def test_selected_steps_in_twos_are_between_the_count_and_the_releases_without_an_allocation(selected):
    step = ("gaussian", 0.7)
    law = allocated_laws._couples(step, 60, selected)
    for delta in (1e-6, 1e-12):
        upper = _native.pair_epsilon([law, ("reversed", law)], delta)[1]
        count = max(
            _native.allocation_counted_lower(step, (60, selected, 1), direction, "epsilon", delta)
            for direction in ("remove", "add")
        )
        several = PldAccountant()
        several.compose(GaussianEvent(noise_multiplier=0.7), selected)
        assert 0.9 * upper <= count <= upper <= several.epsilon(delta)


def exact_delta(epsilon_of_step, num_steps, num_selected, epsilon, direction):
    """Of the worst steps that are ε₀-private: the count of high answers is all that matters."""
    likely = 1 / (1 + math.exp(-epsilon_of_step))
    total = 0.0
    for high in range(num_steps + 1):
        mass = math.comb(num_steps, high) * (1 - likely) ** high * likely ** (num_steps - high)
        ways = [
            math.comb(high, both) * math.comb(num_steps - high, num_selected - both) for both in range(num_selected + 1)
        ]
        ratio = sum(way * math.exp(epsilon_of_step * (2 * both - num_selected)) for both, way in enumerate(ways))
        ratio /= math.comb(num_steps, num_selected)
        total += mass * max(ratio - math.exp(epsilon) if direction == "remove" else 1 - math.exp(epsilon) * ratio, 0.0)
    return total


@pytest.mark.parametrize(("num_steps", "num_selected"), [(12, 1), (12, 3), (40, 2)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_private_steps_are_enclosed_by_their_ends(num_steps, num_selected, epsilon):
    exact = max(exact_delta(1.0, num_steps, num_selected, epsilon, direction) for direction in ("remove", "add"))

    found = bounds(allocated(STEPS["pure"], num_steps, num_selected), epsilon=epsilon)

    assert found.lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= found.upper
    assert found.lower >= 0.99 * exact  # the count is sufficient for answers of two values


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_count_never_exceeds_the_truth_of_one_step(direction):
    for num_steps in (2, 5, 30):
        for epsilon in (0.0, 0.2, 0.6):
            exact = exact_delta(1.0, num_steps, 1, epsilon, direction)
            spec = ("epsilon_delta", 1.0, 0.0)
            found = _native.allocation_counted_lower(spec, (num_steps, 1, 1), direction, "delta", epsilon)
            assert found <= exact * (1 + 1e-12)


def test_rounds_compose_with_other_events():
    rounds = allocated(STEPS["Laplace"], 50, 2)
    accountant = PldAccountant()
    accountant.compose(rounds, 5)
    alone = accountant.epsilon_bounds(1e-6)
    accountant.compose(GaussianEvent(noise_multiplier=3.0))
    together = accountant.epsilon_bounds(1e-6)

    assert 0.96 * alone.upper <= alone.lower <= alone.upper < together.upper < alone.upper + 1.6
    assert together.lower <= together.upper


def test_rounds_cost_no_more_than_their_releases_without_the_allocation():
    for step in STEPS.values():
        several = PldAccountant()
        several.compose(step, 3)
        assert bounds(allocated(step, 9, 3), delta=1e-6).lower <= several.epsilon(1e-6)


@pytest.mark.parametrize(
    ("step", "relation"),
    [
        (STEPS["Laplace"], NeighboringRelation.REPLACE_ONE),
        (STEPS["pure"], NeighboringRelation.REPLACE_SPECIAL),
        (STEPS["pure"], NeighboringRelation.REPLACE_ONE),
        (ExponentialMechanismEvent(epsilon=1.0), NeighboringRelation.ADD_OR_REMOVE_ONE),
        (RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2), NeighboringRelation.REPLACE_SPECIAL),
        (
            MixtureOfGaussiansEvent(noise_multiplier=1.0, shifts=(0.0, 1.0), probabilities=(0.5, 0.5)),
            NeighboringRelation.ADD_OR_REMOVE_ONE,
        ),
    ],
)
def test_what_is_not_proven_is_refused(step, relation):
    accountant = PldAccountant(neighboring_relation=relation)
    with pytest.raises(UnsupportedEventError):
        accountant.compose(allocated(step, 9, 2))
    assert accountant.events == ()
