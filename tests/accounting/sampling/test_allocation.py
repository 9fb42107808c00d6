"""Random allocation: against definitions, by other integrals, and given values."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp import _native, accounting
from ferrodp.accounting import rdp
from ferrodp.accounting.sampling import allocation
from ferrodp.errors import InvalidParameter, InvalidType
from reference import sampling_schemes as reference
from support import vectors


def law(z, steps, spacing, is_upper):
    return _native.AllocationLaw(("gaussian", z), steps, spacing, is_upper, 10**5)


def delta(of, epsilon, direction):
    """Bounds on δ(ε) of a law."""
    spec = ("allocated", of)
    return _native.pair_delta([spec if direction == "remove" else ("reversed", spec)], epsilon)


QUANTITIES = {"rdp_random_allocation_remove", "delta_balls_in_bins_one_epoch", "epsilon_random_allocation_interval"}
ALL_VECTORS = vectors.accounting()
VECTORS = [vector for vector in ALL_VECTORS if vector["quantity"] in QUANTITIES]


def test_there_are_given_values():
    assert len(VECTORS) >= 11


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_given_values(vector):
    inputs, quantity = vector["inputs"], vector["quantity"]
    if quantity == "rdp_random_allocation_remove":
        arguments = (inputs["sigma"], inputs["num_bins"], inputs["alpha"])
        found = float(rdp.random_allocation_gaussian(*arguments, direction="remove"))
        assert found == pytest.approx(vector["expected"], **vector["tolerance"])
    elif quantity == "delta_balls_in_bins_one_epoch":
        bounds = allocation.random_allocation_delta_bounds(
            epsilon=inputs["epsilon"],
            noise_multiplier=inputs["sigma"],
            num_steps=inputs["num_bins"],
            direction=inputs["direction"].lower(),
        )
        assert bounds == pytest.approx((vector["expected"],) * 2, **vector["tolerance"])
    else:
        lower, upper = allocation.random_allocation_epsilon_bounds(
            delta=inputs["delta"],
            noise_multiplier=inputs["sigma"],
            num_steps=inputs["num_steps"],
            num_selected=inputs["num_selected"],
            num_rounds=inputs["num_epochs"],
        )
        assert vector["expected"][0] <= lower <= upper <= vector["expected"][1]


@pytest.mark.parametrize(("z", "steps"), [(1.0, 2), (0.5, 3), (3.0, 4), (40.0, 3)])
def test_moments_count_the_ways_to_choose_steps(z, steps):
    for order in range(2, 7):
        exact = mp.log(reference.allocation_moment(z, steps, order)) / (order - 1)

        found = _native.AllocationRemoved(z, steps).rate(order)

        assert exact <= found <= exact * (1 + 2.0**-51)  # one float up


def test_between_integers_the_curve_is_interpolated_from_above():
    z, steps = 1.0, 2
    with mp.workdps(30):
        root = mp.sqrt(mp.mpf(1) / 2)
        for order in (1.25, 2.5, 5.75):  # E r̄^α, mean and half difference apart
            points = [root * k for k in (-20, -9, -3, 0, 3, 9, 20)]
            inner = mp.quad(lambda d, a=order: mp.npdf(d, 0, root) * mp.cosh(d) ** a, points)
            exact = mp.log(inner * mp.exp(-mp.mpf(order) / 2 + mp.mpf(order) ** 2 / 4)) / (mp.mpf(order) - 1)

            assert exact <= _native.AllocationRemoved(z, steps).rate(order) <= exact * 1.7


@pytest.mark.parametrize("z", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.05, 1.5, 3.25, 20.0])
def test_the_second_direction_with_two_steps(z, order):
    exact = mp.log(reference.two_bins_add_moment(z, order)) / (mp.mpf(order) - 1)

    bound = _native.AllocationMoments(math.nextafter(1 / z, math.inf), 2).rates([order])[0]

    assert exact <= bound
    means = (order / 2 + 0.5) / (2 * z * z)
    assert bound <= exact * (1 + 1e-9) or bound <= means * (1 + 1e-12)


def test_the_second_direction_with_one_step_is_plain_noise():
    assert _native.AllocationMoments(0.5, 1).rates([3.0])[0] == pytest.approx(3 / 8, rel=1e-14)


@pytest.mark.parametrize(("z", "epsilon"), [(1.0, 0.5), (0.5, 4.0), (5.0, 0.1), (0.3, 0.0)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_two_steps_are_an_integral_over_the_plane(z, epsilon, direction):
    exact = reference.two_bins_delta(z, epsilon, direction == "add")

    lower, upper = _native.allocation_two_bins(1 / z, epsilon, direction)

    assert lower <= exact + 1e-15  # what the reference is good for
    assert exact - 1e-15 <= upper
    assert upper - lower <= 1e-11 * exact


@pytest.mark.parametrize(("z", "epsilon"), [(1.0, 0.5), (0.5, 4.0), (5.0, 0.1)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_grid_encloses_two_steps_ever_closer(z, epsilon, direction):
    exact = sum(_native.allocation_two_bins(1 / z, epsilon, direction)) / 2
    gaps = []
    for spacing in (0.04 / z, 0.02 / z, 0.01 / z):
        lower, upper = (delta(law(z, 2, spacing, side), epsilon, direction)[side] for side in (False, True))
        assert lower <= exact * (1 + 1e-11)
        assert exact * (1 - 1e-11) <= upper
        gaps.append(upper - lower)

    assert gaps[2] < gaps[0] / 4  # O(h²): 16 but for the place of a node


@pytest.mark.parametrize("is_upper", [False, True])
def test_masses_are_those_of_a_pair(is_upper):
    first, masses, zero, infinity = law(1.0, 20, 0.01, is_upper).masses()
    losses = (first + np.arange(len(masses))) * 0.01

    assert masses.min() >= 0.0
    # The surplus of an upper law: 20 steps, twice 4·(128 + 16) + 64 and more units over a spacing of 0.01.
    assert zero + masses.sum() == pytest.approx(1.0, abs=1e-8)
    assert infinity + (masses * np.exp(losses)).sum() == pytest.approx(1.0, abs=1e-8)
    if is_upper:  # a lower law keeps its mass but for rounding, to either side: that is within its stated error
        assert masses.sum() > 1.0


@pytest.mark.parametrize(("z", "steps"), [(1.0, 10), (2.0, 37), (0.7, 5)])
def test_moments_and_laws_of_many_steps_enclose_each_other(z, steps):
    """Two ways that share nothing: the finite sum and the Laplace transforms against either law's own moments."""
    orders = [1.5, 3.0, 7.0]
    added = _native.AllocationMoments(1 / z, steps).rates(orders)
    removed = [_native.AllocationRemoved(z, steps).rate(order) for order in (2, 3)]
    enclosing = []
    for is_upper in (False, True):
        first, masses, _, _ = law(z, steps, 0.004, is_upper).masses()
        losses = (first + np.arange(len(masses))) * 0.004
        enclosing.append(
            [math.log((masses * np.exp((1 - order) * losses)).sum()) / (order - 1) for order in orders]
            + [math.log((masses * np.exp(order * losses)).sum()) / (order - 1) for order in (2, 3)]
        )

    for below, value, above in zip(enclosing[0], added + removed, enclosing[1], strict=True):
        # Sums of 6000 masses; then at most 2·10⁻³ between the laws at this spacing.
        assert below <= value * (1 + 1e-9)
        assert value * (1 - 1e-9) <= above
        assert above - below < 1e-2 * value


def test_three_rounds_of_one_step_are_three_gaussian_releases():
    lower, upper = (law(2.0, 1, 0.002, side).repeated(3, 10**5) for side in (False, True))
    exact = accounting.gaussian_delta(epsilon=0.7, noise_multiplier=2 / math.sqrt(3))

    for direction in ("remove", "add"):
        below, above = delta(lower, 0.7, direction)[0], delta(upper, 0.7, direction)[1]
        assert below <= exact <= above
        assert above - below < 1e-4 * exact


def test_joining_two_laws_is_repeating_one():
    one = law(2.0, 4, 0.01, True)

    assert delta(one.joined(one, 10**5), 0.3, "remove") == delta(one.repeated(2, 10**5), 0.3, "remove")


def test_epsilon_is_the_inverse_of_delta():
    setting = {"noise_multiplier": 1.0, "num_steps": 12, "num_rounds": 2}
    bounds = allocation.random_allocation_epsilon_bounds(delta=1e-5, **setting)

    # Each question has a grid with a tilt of its own.
    assert allocation.random_allocation_delta_bounds(epsilon=bounds.upper, **setting).lower <= 1e-5
    assert allocation.random_allocation_delta_bounds(epsilon=bounds.lower, **setting).upper >= 1e-5
    assert bounds.upper - bounds.lower < 2e-3 * bounds.upper


@settings(max_examples=12)
@given(st.floats(0.4, 20), st.integers(2, 300), st.floats(1e-9, 1e-2), st.sampled_from(["remove", "add", "both"]))
def test_bounds_are_in_order_and_below_plain_noise(z, steps, delta, direction):
    setting = {"noise_multiplier": z, "num_steps": steps, "direction": direction, "value_discretization_interval": 0.05}

    lower, upper = allocation.random_allocation_epsilon_bounds(delta=delta, **setting)
    more_steps = allocation.random_allocation_epsilon_bounds(delta=delta, **{**setting, "num_steps": 2 * steps})

    assert 0.0 <= lower <= upper <= accounting.gaussian_epsilon(delta=delta, noise_multiplier=z)
    assert more_steps.lower <= upper


def test_several_selected_steps():
    some = allocation.random_allocation_epsilon_bounds(delta=1e-5, noise_multiplier=2.0, num_steps=9, num_selected=2)
    one = allocation.random_allocation_epsilon_bounds(delta=1e-5, noise_multiplier=2.0, num_steps=9)
    all_ = allocation.random_allocation_epsilon_bounds(delta=1e-5, noise_multiplier=2.0, num_steps=9, num_selected=9)

    assert one.upper < some.lower
    assert 0.96 * some.upper <= some.lower <= some.upper
    assert one.upper < some.upper < all_.upper
    assert all_.upper == pytest.approx(accounting.gaussian_epsilon(delta=1e-5, noise_multiplier=2 / 3), rel=1e-14)
    rates = rdp.random_allocation_gaussian(2.0, 9, [2.0, 8.0], num_selected=2)
    blocks = [rdp.random_allocation_gaussian(2.0, length, [2.0, 8.0]) for length in (4, 5)]
    assert rates == pytest.approx(blocks[0] + blocks[1], rel=1e-15)


def test_edges_are_total():
    nothing = {"noise_multiplier": 1.0, "num_steps": 5}
    assert allocation.random_allocation_epsilon_bounds(delta=0.1, **nothing, num_selected=0) == (0.0, 0.0)
    assert allocation.random_allocation_delta_bounds(epsilon=0.1, **nothing, num_rounds=0) == (0.0, 0.0)
    assert float(rdp.random_allocation_gaussian(1.0, 5, 3.0, num_selected=0)) == 0.0
    assert float(rdp.random_allocation_gaussian(1.0, 5, math.inf)) == math.inf
    for z in (1e-3, 1e4):
        lower, upper = allocation.random_allocation_epsilon_bounds(delta=1e-6, noise_multiplier=z, num_steps=5)
        assert 0.0 <= lower <= upper <= accounting.gaussian_epsilon(delta=1e-6, noise_multiplier=z)
    many = allocation.random_allocation_epsilon_bounds(
        delta=1e-6, noise_multiplier=1.0, num_steps=10**9, num_rounds=10**9
    )
    assert 0.0 <= many.lower <= many.upper < math.inf


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"delta": 0.0}, InvalidParameter),
        ({"delta": 1e-301}, InvalidParameter),
        ({"noise_multiplier": 0.0}, InvalidParameter),
        ({"num_steps": 0}, InvalidParameter),
        ({"num_steps": 2.0}, InvalidType),
        ({"num_selected": 6}, InvalidParameter),
        ({"num_rounds": -1}, InvalidParameter),
        ({"direction": "up"}, InvalidParameter),
        ({"value_discretization_interval": 0.0}, InvalidParameter),
        ({"value_discretization_interval": 2.0}, InvalidParameter),
    ],
)
def test_bad_parameters_are_refused(changed, error):
    arguments = {"delta": 1e-5, "noise_multiplier": 1.0, "num_steps": 5, **changed}
    with pytest.raises(error):
        allocation.random_allocation_epsilon_bounds(**arguments)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-20])
@pytest.mark.parametrize(("z", "steps"), [(1.0, 100), (1.0, 1000), (0.6, 10_000), (5.0, 7)])
def test_both_ends_are_within_one_per_cent_down_to_the_smallest_delta(z, steps, delta):
    bounds = allocation.random_allocation_epsilon_bounds(delta=delta, noise_multiplier=z, num_steps=steps)

    assert 0.99 * bounds.upper <= bounds.lower <= bounds.upper


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-20])
@pytest.mark.parametrize(
    ("z", "steps", "selected"), [(1.0, 1000, 2), (3.0, 100, 10), (1.0, 10_000, 4), (1.0, 100_000, 64)]
)
def test_several_selected_steps_have_both_ends_within_some_per_cent(z, steps, selected, delta):
    found = allocation.random_allocation_epsilon_bounds(
        delta=delta, noise_multiplier=z, num_steps=steps, num_selected=selected
    )

    assert 0.96 * found.upper <= found.lower <= found.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_count_of_gaussian_steps_is_below_an_integral(direction):
    """Two of three steps: the likelihood ratio, averaged over a grid of noise, against the count."""
    z, epsilon = 1.3, 0.4
    points = np.linspace(-9, 9, 181)
    density = np.exp(-(points**2) / 2)
    density /= density.sum()  # the trapezoidal rule of an analytic function: exact to 1e-12 but for the kink
    ratio = np.exp(points / z - 0.5 / z**2)
    a, b, c = ratio[:, None, None], ratio[None, :, None], ratio[None, None, :]
    mean = (a * b + a * c + b * c) / 3
    gain = mean - math.exp(epsilon) if direction == "remove" else 1 - math.exp(epsilon) * mean
    exact = np.einsum("i,j,k,ijk", density, density, density, np.maximum(gain, 0.0), optimize=True)

    lower = _native.allocation_counted_lower(("gaussian", z), (3, 2, 1), direction, "delta", epsilon)

    assert 0.95 * exact < lower < exact * 1.001  # the kink: 1e-3 at a spacing of 0.1 at most


def test_rounds_of_several_selected_steps_have_a_lower_bound():
    setting = {"noise_multiplier": 2.0, "num_steps": 50, "num_selected": 3}
    found = [allocation.random_allocation_epsilon_bounds(delta=1e-6, num_rounds=n, **setting) for n in (1, 7, 40)]

    assert all(0.96 * bounds.upper <= bounds.lower <= bounds.upper for bounds in found)
    assert found[0].upper < found[1].lower < found[1].upper < found[2].lower


@pytest.mark.parametrize("is_upper", [False, True])
def test_steps_of_other_releases_enclose_their_binomial(is_upper):
    """T answers with ratios e^±ε₀: the mean ratio of a round is a binomial count, summed here in full."""
    epsilon, steps = 0.75, 12
    likely = 1 / (1 + math.exp(-epsilon))
    found = _native.AllocationLaw(("epsilon_delta", epsilon, 0.0), steps, 0.001, is_upper, 10**5)
    for at in (0.0, 0.05, 0.2):
        for direction in ("remove", "add"):
            exact = 0.0
            for high in range(steps + 1):
                mass = math.comb(steps, high) * (1 - likely) ** high * likely ** (steps - high)
                ratio = (high * math.exp(epsilon) + (steps - high) * math.exp(-epsilon)) / steps
                gain = ratio - math.exp(at) if direction == "remove" else 1 - math.exp(at) * ratio
                exact += mass * max(gain, 0.0)
            bound = delta(found, at, direction)[is_upper]

            assert bound >= exact * (1 - 1e-12) if is_upper else bound <= exact * (1 + 1e-12)
            assert bound == pytest.approx(exact, rel=0.05)
