"""The contour method brackets the truth, and tightly where it says so."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers

from ferrodp.accounting._solve import contour as _contour
from ferrodp.accounting._solve.contour import ADD, REMOVE, Release
from ferrodp.errors import InvalidParameter
from reference import contour_reference as reference

ONE_STEP = [
    (sigma, q, epsilon)
    for sigma in (0.2, 0.5, 1.0, 4.0, 100.0)
    for q in (1e-6, 1e-3, 0.1, 0.5, 0.999)
    for epsilon in (0.0, 1e-7, 1e-4, 0.01, 0.3, 2.0, 9.0)
]


def contains(bounds, log_delta):
    return bounds.lower <= log_delta <= bounds.upper


@pytest.mark.parametrize("add", [False, True])
def test_one_step_lies_within_the_bounds(add):
    for sigma, q, epsilon in ONE_STEP:
        exact = reference.one_step(epsilon, sigma, q, add)
        found = _contour.by_direction([Release(sigma, q, 1)], "log_delta", [epsilon])[ADD if add else REMOVE][0]

        assert contains(found, mp.log(exact) if exact > 0 else -mp.inf), (sigma, q, epsilon, found, exact)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(("sigma", "q", "epsilon"), [(3.0, 0.01, 0.01), (0.5, 0.5, 3.0)])
def test_two_steps_lie_within_the_bounds(sigma, q, epsilon, add):
    exact = mp.log(reference.two_steps(epsilon, sigma, q, add))
    found = _contour.by_direction([Release(sigma, q, 2)], "log_delta", [epsilon])[ADD if add else REMOVE][0]

    assert contains(found, exact)


ANCHORS = [
    (1.0, 0.01, 1000, 1e-5, 1.8282366665),
    (1.0, 0.01, 1000, 1e-10, 3.2904437509),
    (1.5, 0.04, 2250, 1e-5, 6.7687803934),
    (4.0, 0.01, 10_000, 1e-5, 0.9468668008),
    (1.0, 0.01, 10**5, 1e-5, 25.573107),
]


@pytest.mark.parametrize(("sigma", "q", "count", "delta", "epsilon"), ANCHORS)
def test_known_values_lie_within_narrow_intervals(sigma, q, count, delta, epsilon):
    """The values are rounded to ten digits, the last to eight: half a unit of that is allowed for."""
    [found] = _contour.bounds("epsilon", [Release(sigma, q, count)], [delta])
    half_unit = 0.5e-6 if count == 10**5 else 0.5e-10

    assert found.lower - half_unit <= epsilon <= found.upper + half_unit
    assert found.upper - found.lower <= 1e-8 * found.upper
    assert found.direction == REMOVE


def test_nothing_costs_nothing():
    for releases in ([], [Release(1.0, 0.1, 0)], [Release(1.0, 0.0, 5)]):
        assert _contour.bounds("epsilon", releases, [1e-5])[0][:2] == (0.0, 0.0)
        assert _contour.bounds("log_delta", releases, [0.5])[0][:2] == (-math.inf, -math.inf)


LINES = [  # σ, q, count, ε, whether added, a line for the reference: c, step, nodes
    (1.0, 0.01, 1000, 1.5, False, 4.0, 0.30, 150),
    (1.0, 0.01, 1000, 5.7, False, 6.0, 0.35, 150),  # δ = 1e-18
    (1.0, 0.01, 1000, 1.0, True, 9.0, 0.6, 60),
    (0.7, 0.05, 300, 12.0, False, 0.8, 0.08, 200),
    (4.0, 0.01, 10_000, 0.3, True, 6.0, 0.5, 60),
    (4.0, 0.01, 10_000, 2.9, False, 43.0, 2.4, 60),  # δ = 1e-30
    (2.0, 0.999, 5, 6.0, False, 3.0, 0.25, 60),
    (20.0, 0.3, 50, 0.2, True, 20.0, 2.0, 60),
]


@pytest.mark.parametrize(("sigma", "q", "count", "epsilon", "add", "c", "step", "num_nodes"), LINES)
def test_compositions_lie_within_the_bounds(sigma, q, count, epsilon, add, c, step, num_nodes):
    exact, last = reference.contour(epsilon, [(sigma, q, count)], add, c, step, num_nodes, digits=35, density=0.2)
    found = _contour.by_direction([Release(sigma, q, count)], "log_delta", [epsilon])[ADD if add else REMOVE][0]

    # The reference's own aliasing e^{−2πc/step}/δ, and the last of its decaying terms.
    slack = 2 * math.exp(-2 * math.pi * c / step - float(exact)) + 10 * math.exp(float(last))
    assert slack < 1e-9
    assert found.lower - slack <= exact <= found.upper + slack
    assert found.upper - found.lower < 1e-6


def test_different_releases_are_added_up():
    releases = [(1.0, 0.02, 100), (2.0, 0.3, 7), (1.5, 0.1, 30)]
    exact, last = reference.contour(2.0, releases, False, 3.0, 0.25, 100, digits=35, density=0.2)
    [found] = _contour.bounds("log_delta", [Release(*release) for release in releases], [2.0])

    assert last < -40
    assert found.lower - 1e-9 <= exact <= found.upper + 1e-9  # aliasing of the reference: e^{−75}/δ


@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30])
def test_far_tails_are_reached(delta):
    [found] = _contour.bounds("epsilon", [Release(1.5, 0.04, 2250)], [delta])

    assert 0 < found.lower <= found.upper <= found.lower * (1 + 1e-8)


@pytest.mark.parametrize("count", [10**3, 10**6, 10**9, 10**12])
def test_any_number_of_steps(count):
    """Noise grows with √count, so that ε tends to a Gaussian's: μ² = count·q²·(e^{1/σ²} − 1) ≈ 1."""
    sigma = math.sqrt(count) / 100
    sigma = max(sigma, 3.0)
    q = math.sqrt(1.0 / count / math.expm1(sigma**-2))
    [found] = _contour.bounds("epsilon", [Release(sigma, q, count)], [1e-6])

    assert 4.8 < found.lower <= found.upper < 5.0  # 4.886 for a Gaussian with μ = 1
    assert found.upper - found.lower < 1e-5  # rounding grows with √count


@given(
    sigma=floats(0.2, 1000),
    q=floats(1e-6, 1),
    count=integers(1, 10**6),
    log_delta=floats(math.log(1e-15), math.log(0.1)),
)
@settings(max_examples=25)
def test_epsilon_and_delta_agree(sigma, q, count, log_delta):
    """At the upper ε the certified δ does not have to exceed the target; at the lower one it has to reach it."""
    delta = math.exp(log_delta)
    release = [Release(sigma, q, count)]
    [found] = _contour.bounds("epsilon", release, [delta])

    assert 0 <= found.lower <= found.upper
    assert found.upper - found.lower <= max(1e-6, 1e-2 * found.upper)
    assert _contour.bounds("delta", release, [found.upper])[0].lower <= delta * (1 + 1e-12)
    if found.lower > 0:
        assert _contour.bounds("delta", release, [found.lower])[0].upper >= delta * (1 - 1e-12)


def test_the_worse_direction_is_named():
    both = _contour.by_direction([Release(1.0, 0.01, 1000)], "epsilon", [math.log(1e-5)])
    [worst] = _contour.bounds("epsilon", [Release(1.0, 0.01, 1000)], [1e-5])

    assert worst.direction == REMOVE
    assert both[ADD][0].upper < worst.lower == both[REMOVE][0].lower


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_sweep_is_its_single_questions(threads):
    sigmas, counts = np.array([[0.5], [1.0], [30.0]]), np.array([10, 1000])
    lower, upper = _contour.sweep("epsilon", sigmas, 0.01, counts, math.log(1e-5), threads=threads)

    for index in np.ndindex(3, 2):
        release = Release(float(sigmas[index[0], 0]), 0.01, int(counts[index[1]]))
        [single] = _contour.bounds("epsilon", [release], [1e-5])
        assert (single.lower, single.upper) == (lower[index], upper[index])


def test_parameters_outside_their_domain_are_refused():
    for release in (Release(0.0, 0.1, 1), Release(math.nan, 0.1, 1), Release(1.0, 1.1, 1), Release(1.0, math.nan, 1)):
        with pytest.raises(InvalidParameter):
            _contour.bounds("epsilon", [release], [1e-5])


def test_noise_too_small_for_the_method_gets_the_trivial_bounds():
    [found] = _contour.bounds("epsilon", [Release(1e-3, 0.1, 1)], [1e-5])
    assert (found.lower, found.upper) == (0.0, math.inf)
    [found] = _contour.bounds("delta", [Release(1e-3, 0.1, 1)], [1.0])
    assert (found.lower, found.upper) == (0.0, 1.0)
