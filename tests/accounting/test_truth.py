"""Certified intervals hold what was computed to thirty digits by other means, and are as narrow as promised.

`tests/vectors/compositions.json` has compositions of Poisson-sampled Gaussians; other mechanisms are summed exactly
here, by `reference.finite_truth`. Truths are correct to 25 digits at least, bounds are doubles: nothing is tolerated
but that.
"""

import math
import statistics
from functools import cache, partial

import mpmath as mp
import pytest

from ferrodp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RdpAccountant,
)
from reference import finite_truth
from support import vectors

TRUTHS = vectors.compositions()
IDS = [row["id"] for row in TRUTHS]
DIGITS = 25


def sampled(event, q):
    return PoissonSampledEvent(sampling_probability=q, event=event)


def accountant_of(row, kind=PldAccountant):
    accountant = kind()
    for sigma, q, count in row["events"]:
        accountant.compose(sampled(GaussianEvent(noise_multiplier=sigma), q), count)
    return accountant


def worse(values):
    return max(mp.mpf(text) for text in values.values())


def holds(bounds, truth):
    """Say whether lower ≤ truth ≤ upper, to the digits of the truth."""
    with mp.workdps(40):
        unknown = truth * mp.mpf(10) ** -DIGITS
        return mp.mpf(bounds.lower) <= truth + unknown and truth - unknown <= mp.mpf(bounds.upper)


@cache
def epsilon_bounds(index):
    return accountant_of(TRUTHS[index]).epsilon_bounds(TRUTHS[index]["delta"])


def width(bounds):
    """Return the relative width of an interval; where ε is below 10⁻⁶, that of an absolute 10⁻⁶ counts."""
    return (bounds.upper - bounds.lower) / max(bounds.upper, 1e-6) if bounds.upper else 0.0


def test_there_are_truths_of_every_kind():
    kinds = {row["id"].split("-")[0] for row in TRUTHS}

    assert kinds >= {"anchor", "tail", "long", "corner", "flat", "mixed"}
    assert len(TRUTHS) >= 61


def test_truths_are_the_same_in_both_directions_at_zero():
    """δ(0) is the total variation distance: a check of the table itself."""
    for row in TRUTHS:
        if row["at"] == 0.0:
            remove, add = (mp.mpf(row["delta_at"][direction]) for direction in ("remove", "add"))
            assert abs(remove - add) <= mp.mpf("1e-20") * add, row["id"]


@pytest.mark.parametrize("index", range(len(TRUTHS)), ids=IDS)
def test_the_true_epsilon_is_in_its_interval(index):
    bounds = epsilon_bounds(index)

    assert 0.0 <= bounds.lower <= bounds.upper
    assert holds(bounds, worse(TRUTHS[index]["epsilon"])), bounds


@pytest.mark.parametrize("row", TRUTHS, ids=IDS)
def test_the_true_delta_is_in_its_interval(row):
    bounds = accountant_of(row).delta_bounds(row["at"])

    assert 0.0 <= bounds.lower <= bounds.upper <= 1.0
    assert holds(bounds, worse(row["delta_at"])), bounds


@pytest.mark.parametrize("row", TRUTHS, ids=IDS)
def test_renyi_orders_never_promise_too_much(row):
    assert mp.mpf(accountant_of(row, RdpAccountant).epsilon(row["delta"])) >= worse(row["epsilon"])


def test_intervals_are_narrow():
    """Where δ is at least 1e-30, as promised; below, contours may not converge and grids be coarse."""
    widths = {index: width(epsilon_bounds(index)) for index in range(len(TRUTHS))}
    promised = sorted(widths[index] for index in widths if TRUTHS[index]["delta"] >= 1e-30)

    assert all(each <= 0.3 for each in widths.values())  # not so for an infinite one, whose width is no number
    assert statistics.median(promised) <= 1e-4
    assert promised[math.ceil(0.99 * len(promised)) - 1] <= 0.01


@pytest.mark.parametrize("index", [i for i in range(len(TRUTHS)) if IDS[i].startswith("anchor")])
def test_intervals_are_very_narrow_where_many_steps_take_part(index):
    assert width(epsilon_bounds(index)) <= 1e-6


# other mechanisms, whose truths are computed here, when a test asks for them


def laplace_cases():
    for noise_multiplier, count, epsilon in [
        (1.0, 1, 0.5),
        (1.0, 2, 0.7),
        (1.0, 20, 9.0),
        (5.0, 30, 3.0),
        (20.0, 8, 0.1),
    ]:
        truth = partial(finite_truth.laplace, noise_multiplier, count, epsilon)
        yield LaplaceEvent(noise_multiplier=noise_multiplier), count, epsilon, truth
    for noise_multiplier, q, epsilon in [(1.0, 0.5, 0.2), (1.0, 0.5, 0.5), (0.5, 0.1, 1.0), (3.0, 0.9, 0.3)]:
        truth = partial(sampled_laplace_truth, noise_multiplier, q, epsilon)
        yield sampled(LaplaceEvent(noise_multiplier=noise_multiplier), q), 2, epsilon, truth


def sampled_laplace_truth(noise_multiplier, q, epsilon):
    return max(finite_truth.two_sampled_laplace(noise_multiplier, q, epsilon, d) for d in ("remove", "add"))


def discrete_cases():
    for scale, sensitivity, count, epsilon in [(2.0, 3, 2, 1.0), (0.5, 1, 4, 3.0), (7.0, 2, 10, 0.5)]:
        truth = partial(discrete_laplace_truth, scale, sensitivity, count, epsilon)
        yield DiscreteLaplaceEvent(scale=scale, l1_sensitivity=sensitivity), count, epsilon, truth
    for scale, q, count, epsilon in [(1.0, 0.25, 6, 0.5), (0.3, 0.01, 20, 2.0)]:
        truth = partial(sampled_discrete_laplace_truth, scale, q, count, epsilon)
        yield sampled(DiscreteLaplaceEvent(scale=scale), q), count, epsilon, truth
    for sigma, sensitivity, count, epsilon in [(1.0, 1, 1, 1.0), (0.5, 1, 3, 2.0), (2.0, 1, 5, 1.0), (3.0, 2, 2, 0.5)]:
        truth = partial(finite_truth.discrete_gaussian, sigma, sensitivity, count, epsilon)
        yield DiscreteGaussianEvent(scale=sigma, l2_sensitivity=sensitivity), count, epsilon, truth


def discrete_laplace_truth(scale, sensitivity, count, epsilon):
    return finite_truth.delta_of_outcomes(finite_truth.discrete_laplace(scale, sensitivity), count, epsilon)


def sampled_discrete_laplace_truth(scale, q, count, epsilon):
    outcomes = finite_truth.discrete_laplace(scale, 1)
    both = [finite_truth.sampled(outcomes, q, direction) for direction in ("remove", "add")]
    return max(finite_truth.delta_of_outcomes(o, count, epsilon) for o in both)


def response_cases():
    for parameter, buckets, count, epsilon in [(0.3, 10, 5, 2.0), (0.5, 2, 20, 10.0), (0.9, 3, 30, 1.5)]:
        truth = partial(response_truth, parameter, buckets, count, epsilon)
        yield RandomizedResponseEvent(noise_parameter=parameter, num_buckets=buckets), count, epsilon, truth


def response_truth(parameter, buckets, count, epsilon):
    return finite_truth.delta_of_outcomes(finite_truth.randomized_response(parameter, buckets), count, epsilon)


@pytest.mark.parametrize(("event", "count", "epsilon", "truth"), [*laplace_cases(), *discrete_cases()])
def test_mechanisms_that_can_be_summed_exactly(event, count, epsilon, truth):
    accountant = PldAccountant()
    accountant.compose(event, count)
    bounds = accountant.delta_bounds(epsilon)

    assert holds(bounds, truth()), bounds
    assert bounds.upper <= 1.01 * bounds.lower + 1e-12


@pytest.mark.parametrize(("event", "count", "epsilon", "truth"), [*response_cases()])
def test_responses_that_can_be_summed_exactly(event, count, epsilon, truth):
    accountant = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(event, count)
    bounds = accountant.delta_bounds(epsilon)

    assert holds(bounds, truth()), bounds
    assert bounds.upper <= 1.01 * bounds.lower + 1e-12
