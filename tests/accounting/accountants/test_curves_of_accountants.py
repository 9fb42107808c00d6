"""Curves: many points in one call, each certified, and as single answers say."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import (
    EpsilonDeltaEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    MomentsAccountant,
    NeighboringRelation,
    NonPrivateEvent,
    PldAccountant,
    PoissonSampledEvent,
    PureDpAccountant,
    RandomAllocationEvent,
    RdpAccountant,
    ZcdpAccountant,
    ZcdpEvent,
)
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


def gaussian(multiplier):
    return GaussianEvent(noise_multiplier=multiplier)


def sampled(probability, event):
    return PoissonSampledEvent(sampling_probability=probability, event=event)


def holding(kind, *events, relation=ADD):
    accountant = kind(neighboring_relation=relation)
    for event, count in events:
        accountant.compose(event, count)
    return accountant


CASES = {
    "gaussians": holding(PldAccountant, (gaussian(20.0), 100)),
    "gaussians, a record replaced": holding(PldAccountant, (gaussian(20.0), 100), relation=REPLACE),
    "faint gaussians": holding(PldAccountant, (gaussian(1e9), 1)),
    "samples of gaussians": holding(PldAccountant, (sampled(0.01, gaussian(1.0)), 1000)),
    "various samples": holding(
        PldAccountant, (sampled(0.01, gaussian(1.0)), 1000), (sampled(0.02, gaussian(1.5)), 300), (gaussian(5.0), 3)
    ),
    "few samples of little noise": holding(PldAccountant, (sampled(0.05, gaussian(0.7)), 10)),
    "one sample": holding(PldAccountant, (sampled(0.1, gaussian(1.0)), 1)),
    "samples of Laplace": holding(PldAccountant, (sampled(0.1, LaplaceEvent(noise_multiplier=1.5)), 200)),
    "Laplace": holding(PldAccountant, (LaplaceEvent(noise_multiplier=10.0), 100)),
    "one Laplace": holding(PldAccountant, (LaplaceEvent(noise_multiplier=1.0), 1)),
    "samples, a record replaced": holding(PldAccountant, (sampled(0.01, gaussian(1.0)), 300), relation=REPLACE),
    "samples of fixed size": holding(
        PldAccountant,
        (FixedSizeSampledEvent(population_size=1000, sample_size=20, event=gaussian(2.0)), 100),
        relation=REPLACE,
    ),
    "no pair of laws": holding(PldAccountant, (ZcdpEvent(rho=0.2), 3)),
    "allocations": holding(
        PldAccountant, (RandomAllocationEvent(num_steps=100, num_selected=1, event=gaussian(1.0)), 2)
    ),
    "Rényi": holding(RdpAccountant, (sampled(0.01, gaussian(1.0)), 1000)),
    "Rényi with failures": holding(
        RdpAccountant, (gaussian(20.0), 100), (EpsilonDeltaEvent(epsilon=0.1, delta=1e-7), 2)
    ),
    "given orders": holding(MomentsAccountant, (sampled(0.01, gaussian(1.0)), 1000)),
    "zCDP": holding(ZcdpAccountant, (gaussian(20.0), 100)),
    "zCDP without Gaussians": holding(ZcdpAccountant, (LaplaceEvent(noise_multiplier=20.0), 100)),
    "GDP": holding(GdpAccountant, (gaussian(20.0), 100)),
    "loud GDP": holding(GdpAccountant, (gaussian(0.001), 100)),
    "pure": holding(PureDpAccountant, (LaplaceEvent(noise_multiplier=3.0), 6)),
}
DELTAS = np.geomspace(0.7, 1e-12, 61)
EPSILONS = np.linspace(0.0, 6.0, 61)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("quantity", ["epsilon", "delta"])
def test_a_curve_holds_what_single_answers_hold(name, quantity):
    """Both are intervals around the same number, so they meet; and no curve rises."""
    accountant = CASES[name]
    points = DELTAS if quantity == "epsilon" else EPSILONS
    curve = getattr(accountant, f"{quantity}_curve")(points)

    assert (curve.lower <= curve.upper).all()
    for index in range(0, len(points), 12):
        alone = getattr(accountant, f"{quantity}_bounds")(float(points[index]))
        assert alone.lower <= curve.upper[index], (name, points[index])
        assert curve.lower[index] <= alone.upper, (name, points[index])


@pytest.mark.parametrize("name", [name for name in CASES if name not in {"no pair of laws", "allocations"}])
@pytest.mark.parametrize("quantity", ["epsilon", "delta"])
def test_a_curve_is_hardly_wider_than_single_answers(name, quantity):
    """As promised: by the width of single answers, or 10⁻⁵ of the value (of ln δ, for Rényi's δ)."""
    accountant = CASES[name]
    points = DELTAS[20:] if quantity == "epsilon" else EPSILONS[:20]
    curve = getattr(accountant, f"{quantity}_curve")(points)

    for index in range(0, len(points), 7):
        lower, upper = getattr(accountant, f"{quantity}_bounds")(float(points[index]))
        width = upper - lower if lower else 0.0
        relative = 2e-5 * max(1.0, -math.log(upper)) if quantity == "delta" and upper > 0.0 else 2e-5
        assert curve.upper[index] <= upper + 2.0 * width + relative * upper, (name, points[index])


@pytest.mark.parametrize("name", ["no pair of laws", "allocations"])
def test_where_answers_cannot_be_shared_chords_lie_above_them(name):
    """24 of 61 are asked for, and the others lie between their neighbors."""
    accountant = CASES[name]
    curve = accountant.epsilon_curve(DELTAS)
    alone = np.array([accountant.epsilon(float(delta)) for delta in DELTAS])

    assert (curve.upper >= np.minimum.accumulate(alone[::-1])[::-1] * (1.0 - 1e-6)).all()
    assert (np.diff(curve.upper) >= 0.0).all()
    assert (curve.upper[1:-1] <= alone[2:] * (1.0 + 1e-6)).all()
    assert np.count_nonzero(np.isclose(curve.upper, alone, rtol=1e-12)) >= 24


@pytest.mark.parametrize("name", ["samples of gaussians", "Laplace", "Rényi", "no pair of laws"])
def test_points_may_come_in_any_order_and_repeat(name):
    accountant = CASES[name]
    points = DELTAS[::4]
    shuffled = np.random.default_rng(5).permutation(np.concatenate([points, points]))
    sorted_curve, curve = accountant.epsilon_curve(points), accountant.epsilon_curve(shuffled)

    assert np.array_equal(shuffled, curve.x)
    for x, lower, upper in zip(*curve, strict=True):
        [index] = np.flatnonzero(points == x)
        assert lower <= sorted_curve.upper[index]
        assert upper >= sorted_curve.lower[index]
        assert upper == pytest.approx(sorted_curve.upper[index], rel=0.1 if name == "no pair of laws" else 1e-3)


@settings(max_examples=25, deadline=None)
@given(
    multiplier=st.floats(0.3, 30.0),
    probability=st.floats(1e-4, 0.9),
    count=st.integers(1, 5000),
    points=st.lists(st.floats(1e-14, 0.999), min_size=1, max_size=12),
)
def test_curves_of_samples_meet_single_answers(multiplier, probability, count, points):
    accountant = holding(PldAccountant, (sampled(probability, gaussian(multiplier)), count))
    curve = accountant.epsilon_curve(points)

    for delta, lower, upper in zip(points, curve.lower, curve.upper, strict=True):
        alone = accountant.epsilon_bounds(delta)
        assert alone.lower <= upper
        assert lower <= alone.upper


def test_a_delta_of_zero_asks_for_the_largest_loss():
    accountant = holding(PldAccountant, (LaplaceEvent(noise_multiplier=2.0), 4))
    curve = accountant.epsilon_curve([0.0, 1e-3, 0.0])

    assert accountant.epsilon_bounds(0.0) == (curve.lower[0], curve.upper[0]) == (curve.lower[2], curve.upper[2])
    assert curve.upper[1] < 2.0
    assert PureDpAccountant().epsilon_curve([0.0]).upper.tolist() == [0.0]


def test_what_costs_nothing_or_everything_has_a_curve():
    empty, told = PldAccountant(), holding(RdpAccountant, (NonPrivateEvent(), 1))

    assert empty.epsilon_curve([0.1, 0.2]).upper.tolist() == [0.0, 0.0]
    assert empty.delta_curve([]).upper.shape == (0,)
    assert told.epsilon_curve([0.1]).lower.tolist() == [math.inf]
    assert told.delta_curve([5.0]).upper.tolist() == [1.0]


def test_points_outside_their_domain_are_refused():
    accountant = CASES["Rényi"]
    for deltas in ([0.0], [1.0], [-0.1], [math.nan]):
        with pytest.raises(InvalidParameter, match="deltas must"):
            accountant.epsilon_curve(deltas)
    with pytest.raises(InvalidParameter, match="epsilons must be finite"):
        accountant.delta_curve([math.inf])
    with pytest.raises(InvalidParameter, match="one-dimensional"):
        accountant.delta_curve([[1.0]])
    with pytest.raises(InvalidType, match="epsilons must hold real numbers"):
        accountant.delta_curve(["x"])
    with pytest.raises(InvalidParameter, match="delta must be 0 or at least"):
        CASES["samples of gaussians"].epsilon_curve([0.1, 1e-310])


@pytest.mark.parametrize("kind", [PldAccountant, RdpAccountant])
def test_a_curve_over_counts_is_that_of_so_many_more_releases(kind):
    step = sampled(0.02, gaussian(1.1))
    accountant = holding(kind, (gaussian(8.0), 2))
    curve = accountant.epsilon_over_counts(step, [100, 0, 400], delta=1e-6)

    for count, lower, upper in zip([100, 0, 400], curve.lower, curve.upper, strict=True):
        after = accountant.copy()
        after.compose(step, count)
        assert after.epsilon_bounds(1e-6) == (lower, upper)
    assert accountant.events == ((gaussian(8.0), 2),)


def test_counts_of_what_cannot_be_bounded_are_refused():
    with pytest.raises(UnsupportedEventError):
        ZcdpAccountant().epsilon_over_counts(sampled(0.1, gaussian(1.0)), [1], delta=1e-5)
    with pytest.raises(InvalidParameter, match="counts"):
        PldAccountant().epsilon_over_counts(gaussian(1.0), [-1], delta=1e-5)


def test_five_hundred_points_cost_less_than_thirty_answers():
    """Measured: 2 to 4 ms against 0.6 ms for one; CPU time, so that load does not matter much."""
    accountant = CASES["samples of gaussians"]

    def seconds(ask):
        times = []
        for _ in range(5):
            start = time.process_time()
            ask()
            times.append(time.process_time() - start)
        return min(times)

    many = seconds(lambda: accountant.epsilon_curve(np.geomspace(1e-10, 0.5, 500)))
    thirty = seconds(lambda: [accountant.epsilon(delta) for delta in np.geomspace(1e-10, 0.5, 30).tolist()])

    assert many < thirty
