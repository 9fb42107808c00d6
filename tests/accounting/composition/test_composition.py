"""Composition theorems: optimal within its bounds, below the advanced, below the basic one."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import Guarantee, compose_advanced, compose_basic, compose_optimal, zcdp_epsilon
from ferrodp.accounting.composition import (
    compose_optimal_bounds,
    compose_optimal_delta,
    compose_optimal_delta_bounds,
    optimal_epsilon_per_query,
)
from ferrodp.errors import InvalidParameter, InvalidType
from reference import composition as reference
from support.exact_numbers import ends
from support.native_testing import testing

epsilons = st.floats(min_value=1e-3, max_value=2.0)
deltas = st.sampled_from([0.0, 1e-12, 1e-6, 1e-3])


def test_basic_composition_is_exact_and_rounded_up():
    total = compose_basic([(0.1, 1e-9), (0.2, 0.0)], count=10**6)

    exact = 10**6 * (Fraction(0.1) + Fraction(0.2)), 10**6 * Fraction(1e-9)
    assert Fraction(math.nextafter(total.epsilon, 0.0)) < exact[0] <= Fraction(total.epsilon)
    assert Fraction(math.nextafter(total.delta, 0.0)) < exact[1] <= Fraction(total.delta)


def test_nothing_costs_nothing():
    for compose in (compose_basic, lambda g, count=1: compose_optimal(g, delta=0.0, count=count)):
        assert compose([]) == (0.0, 0.0)
        assert compose([(1.0, 0.1)], count=0) == (0.0, 0.0)
        assert compose([(0.0, 0.0)], count=7) == (0.0, 0.0)
    assert compose_advanced([], extra_delta=1e-6) == (0.0, 1e-6)
    assert compose_optimal_delta([], epsilon=0.0) == 0.0


@pytest.mark.parametrize(
    ("epsilon", "count", "total"),
    [(1.0, 30, 22.5), (1.0, 1000, 700.0), (0.1, 7, 0.35), (0.1, 7, 0.0), (2.0, 10, 19.0), (1e-3, 100, 0.0),
     (50.0, 4, 120.0), (0.3, 200, 59.9), (0.3, 200, 60.0), (3.0, 1, 1.0), (800.0, 3, 700.0), (0.3, 200, 17.7)],
)  # fmt: skip
def test_equal_mechanisms_are_enclosed(epsilon, count, total):
    """Width: twice the allowance, 11n + 16 units, for at most 250 terms, and no less than the roundings of δ."""
    bounds = compose_optimal_delta_bounds([(epsilon, 0.0)], epsilon=total, count=count)

    exact = reference.pure_delta(epsilon, count, total)
    assert mp.mpf(bounds.lower) <= exact <= mp.mpf(bounds.upper)
    assert bounds.upper - bounds.lower <= 2.1 * (11 * 250 + 16) * 2.0**-53 * bounds.upper


@given(st.lists(st.tuples(epsilons, deltas), min_size=1, max_size=6), st.floats(min_value=0.0, max_value=1.2))
@settings(max_examples=40)
def test_different_mechanisms_are_enclosed(guarantees, part):
    total = part * sum(epsilon for epsilon, _ in guarantees)
    bounds = compose_optimal_delta_bounds(guarantees, epsilon=total)

    exact = reference.delta(guarantees, total)
    assert mp.mpf(bounds.lower) <= exact <= mp.mpf(bounds.upper)


@pytest.mark.parametrize("count", [1, 3])
def test_the_grid_is_above_by_the_second_order_of_its_step(count):
    """Splitting a loss between nodes adds at most e^h·h²/4 of variance; δ moves by less than half of that here."""
    epsilons = (0.11234, 0.2213, 0.512)
    guarantees = [(epsilon, 0.0) for epsilon in epsilons for _ in range(count)]
    step = 2 * count * sum(epsilons) / 2**15  # the range of losses in 2¹⁵ parts

    for total in (0.0, 0.1, 0.4, 0.7):
        exact = reference.delta(guarantees, total)
        bounds = compose_optimal_delta_bounds(guarantees, epsilon=total)
        assert bounds.lower <= exact <= bounds.upper
        assert bounds.upper - float(exact) <= 3 * count * step**2 / 4 + 1e-14


def test_commensurable_epsilons_leave_nothing_but_rounding():
    guarantees = [(0.1, 0.0), (0.2, 0.0), (0.5, 0.0), (0.3, 0.0)]

    bounds = compose_optimal_delta_bounds(guarantees, epsilon=0.45)
    exact = float(reference.delta(guarantees, 0.45))

    assert bounds.lower <= exact <= bounds.upper
    assert bounds.upper - exact <= 1e-10 * exact  # the grid is within 10⁻¹² of the ε; four groups, a slope below 10
    assert exact - bounds.lower <= 1e-6 * exact  # the step below keeps 26 bits


@given(epsilons, st.integers(min_value=1, max_value=60), st.sampled_from([1e-12, 1e-6, 1e-2, 0.3]))
@settings(max_examples=40)
def test_epsilon_is_the_inverse(epsilon, count, delta):
    bounds = compose_optimal_bounds([(epsilon, 0.0)], delta=delta, count=count)

    exact = reference.epsilon(lambda e: reference.pure_delta(epsilon, count, e), delta, count * epsilon)
    assert bounds.lower <= exact <= bounds.upper
    assert compose_optimal_delta([(epsilon, 0.0)], epsilon=bounds.upper, count=count) <= delta
    assert bounds.upper - bounds.lower <= 1e-9 * bounds.upper


@given(
    st.lists(st.tuples(epsilons, deltas), min_size=1, max_size=4),
    st.integers(min_value=1, max_value=500),
    st.sampled_from([1e-9, 1e-5, 1e-2]),
)
@settings(max_examples=40)
def test_each_theorem_promises_no_less_than_the_next(guarantees, count, extra):
    kov, kl, drv = (
        compose_advanced(guarantees, extra_delta=extra, count=count, method=method) for method in ("kov", "kl", "drv")
    )
    basic = compose_basic(guarantees, count=count)

    if kov.delta < 1.0:
        lower, upper = compose_optimal_bounds(guarantees, delta=kov.delta, count=count)
        assert lower <= kov.epsilon
        assert upper <= kov.epsilon * 1.01 or len(guarantees) > 1
    assert kov.epsilon <= kl.epsilon <= drv.epsilon
    assert kov.epsilon <= basic.epsilon
    assert kov.delta <= drv.delta


@given(st.lists(st.tuples(epsilons, deltas), min_size=1, max_size=5), st.tuples(epsilons, deltas), st.floats(0.0, 5.0))
@settings(max_examples=40)
def test_one_more_mechanism_never_costs_less(guarantees, extra, total):
    before = compose_optimal_delta_bounds(guarantees, epsilon=total)
    after = compose_optimal_delta_bounds([*guarantees, extra], epsilon=total)

    assert before.lower <= after.upper


@given(st.permutations([(0.1, 0.0), (0.7, 1e-6), (0.1, 1e-3), (0.25, 0.0)]))
@settings(max_examples=10)
def test_the_order_does_not_matter(guarantees):
    expected = compose_optimal_bounds(sorted(guarantees), delta=0.01)

    assert compose_optimal_bounds(guarantees, delta=0.01) == expected
    assert compose_optimal_bounds(guarantees[:2] * 3, delta=0.01) == compose_optimal_bounds(
        guarantees[:2], delta=0.01, count=3
    )


def test_large_counts_do_not_overflow():
    """The limit is the Gaussian mechanism with μ = ε·√k = 1 (Dong, Roth, Su 2022, Theorem 3.5)."""
    values = [compose_optimal_bounds([(count**-0.5, 0.0)], delta=1e-6, count=count) for count in (10**4, 10**6, 10**9)]

    for (_, low), (high, _) in itertools.pairwise(values):
        assert low < high < 4.8961  # δ of the Gaussian mechanism with multiplier 1 at 4.8961 is below 10⁻⁶
    assert compose_optimal([(700.0, 0.0)], delta=0.0, count=700).epsilon == 490000.0
    assert 480000.0 < compose_optimal([(700.0, 0.0)], delta=1e-9, count=700).epsilon <= 490000.0


def test_beyond_the_largest_count_the_bound_is_still_a_bound():
    count = 10 * 10**10  # ten times the largest of which the terms are added up
    epsilon = count**-0.5
    bounds = compose_optimal_bounds([(epsilon, 0.0)], delta=1e-6, count=count)

    nearest = compose_optimal_bounds([(10**-4.5, 0.0)], delta=1e-6, count=10**9)  # the same limit
    assert bounds.lower < nearest.lower < bounds.upper
    assert bounds.upper <= zcdp_epsilon(rho=0.5000001, delta=1e-6)
    huge = compose_optimal([(1e-300, 0.0)], delta=1e-6, count=2**63 - 1)
    assert huge.epsilon == 0.0


def test_a_delta_that_is_surely_lost_leaves_no_epsilon():
    assert compose_optimal([(1.0, 1e-6)], delta=1e-7) == Guarantee(math.inf, 1e-7)
    assert compose_optimal([(1.0, 1e-6)], delta=1e-6) == Guarantee(1.0, 1e-6)
    assert compose_optimal([(1.0, 1.0)], delta=0.5).epsilon == math.inf
    assert compose_optimal_delta([(1.0, 1.0)], epsilon=3.0) == 1.0
    assert compose_basic([(1.0, 0.7)], count=2) == (2.0, 1.0)
    assert compose_optimal([(1.0, 1e-6)], delta=1e-6, count=2).epsilon == math.inf


def test_the_failures_of_many_are_joined():
    """δ = 1 − (1 − δ₀)^k beyond Σε: exactly, whether by rationals or by logarithms."""
    for count in (3, 10**5):
        bounds = compose_optimal_delta_bounds([(0.1, 1e-7)], epsilon=0.1 * count + 1.0, count=count)
        with mp.workdps(60):
            exact = -mp.expm1(count * mp.log1p(-mp.mpf(1e-7)))
        assert bounds.lower <= exact <= bounds.upper
        assert bounds.upper - bounds.lower <= 2 * math.ulp(bounds.upper)


def test_a_listed_epsilon_is_the_next_above_the_optimum():
    optimum = compose_optimal([(1.0, 0.001)], delta=0.06, count=30).epsilon
    listed = compose_optimal([(1.0, 0.001)], delta=0.06, count=30, on_grid=True).epsilon

    assert listed - 2.0 < optimum <= listed == 22.0
    assert compose_optimal([(0.3, 0.0)], delta=1e-3, count=1, on_grid=True).epsilon == 0.3
    with pytest.raises(InvalidParameter, match="all equal"):
        compose_optimal([(1.0, 0.0), (2.0, 0.0)], delta=0.1, on_grid=True)


@given(st.integers(min_value=1, max_value=300), st.floats(0.1, 10.0), st.sampled_from([0.0, 1e-9, 1e-3]))
@settings(max_examples=15)
def test_epsilon_per_query_is_the_largest(count, epsilon, delta):
    each = optimal_epsilon_per_query(epsilon=epsilon, delta=delta, count=count)

    assert compose_optimal_delta([(each, 0.0)], epsilon=epsilon, count=count) <= delta
    more = compose_optimal_delta_bounds([(each * (1.0 + 1e-6), 0.0)], epsilon=epsilon, count=count)
    assert more.upper > delta


def test_parameters_are_checked():
    for wrong in (((1.0,),), (1.0, 2.0), ((1.0, 0.0, 0.0),), ("ab",)):
        with pytest.raises(InvalidType, match="pairs"):
            compose_basic(wrong)
    with pytest.raises(InvalidType, match="sequence"):
        compose_basic("ab")
    for pair in ((-1.0, 0.0), (1.0, 1.5), (math.nan, 0.0), (1.0, -1e-9), (math.inf, 0.0)):
        with pytest.raises(InvalidParameter):
            compose_optimal([pair], delta=0.1)
    for keywords in ({"delta": 1.0}, {"delta": -0.1}, {"delta": 0.1, "count": -1}, {"delta": 0.1, "count": 2**63}):
        with pytest.raises(InvalidParameter):
            compose_optimal([(1.0, 0.0)], **keywords)
    with pytest.raises(InvalidParameter, match="method"):
        compose_advanced([(1.0, 0.0)], extra_delta=1e-6, method="best")
    with pytest.raises(InvalidParameter, match="extra_delta"):
        compose_advanced([(1.0, 0.0)], extra_delta=0.0)
    with pytest.raises(InvalidParameter, match="alone"):
        optimal_epsilon_per_query(epsilon=1.0, delta=1e-6, count=10, delta_per_query=1e-6)


def test_without_the_counted_error_a_bound_would_fail():
    """The allowance for roundings matters: without it, some of the bounds miss the truth."""
    cases = [(0.1 + i / 97, 40 + i, 3.0 + i / 7) for i in range(20)]

    def holds(epsilon, count, total, counted):
        lower, upper = ends(testing.certified_equal_responses(count, epsilon, total, counted))
        return lower <= reference.pure_delta(epsilon, count, total) <= upper

    assert all(holds(*case, True) for case in cases)
    assert not all(holds(*case, False) for case in cases)
