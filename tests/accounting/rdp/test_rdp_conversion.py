"""From Rényi divergences to (ε, δ): the theorems at 50 digits, and the safe side."""

import math
import random

import mpmath as mp
import numpy as np
import pytest

from ferrodp.accounting import rdp_to_delta, rdp_to_epsilon
from ferrodp.accounting.rdp import rdp_to_log_delta
from ferrodp.errors import InvalidParameter, InvalidType
from reference import rdp_reference as reference

SOURCE = random.Random(4)
CASES = [
    (1 + 10 ** SOURCE.uniform(-4, 8), 10 ** SOURCE.uniform(-6, 3), 10 ** SOURCE.uniform(-300, -0.01))
    for _ in range(300)
]


def terms(order, rho, delta):
    """The size of what is added and subtracted; 24 units of it are the stated error."""
    return rho + (math.log(order) - math.log(delta)) / (order - 1) + math.log1p(1 / (order - 1))


def test_epsilon_is_just_above_the_theorem():
    with mp.workdps(50):
        for order, rho, delta in CASES:
            exact = reference.epsilon(order, rho, delta)
            found = rdp_to_epsilon(order, rho, delta=delta)

            assert exact <= found.value <= exact + 60 * 2.0**-53 * terms(order, rho, delta)
            assert found.order == order


def test_log_delta_is_just_above_the_theorem():
    with mp.workdps(50):
        for order, rho, _ in CASES:
            epsilon = rho + 10 ** SOURCE.uniform(-3, 1)
            exact = reference.log_delta(order, rho, mp.mpf(epsilon))
            size = (order - 1) * (rho + epsilon + 40) + math.log(order)

            assert exact <= rdp_to_log_delta(order, rho, epsilon=epsilon).value <= exact + 60 * 2.0**-53 * size


def test_epsilon_and_delta_are_inverse():
    for order, rho, delta in CASES:
        epsilon = rdp_to_epsilon(order, rho, delta=delta).value
        if epsilon > 0:
            again = rdp_to_delta(order, rho, epsilon=epsilon).value
            assert again <= delta * (1 + (order - 1) * 1e-13 * (1 + terms(order, rho, delta)))


def test_the_classical_conversion_is_never_smaller():
    with mp.workdps(50):
        for order, rho, delta in CASES:
            classical = rdp_to_epsilon(order, rho, delta=delta, conversion="classical").value
            exact = mp.mpf(rho) - mp.log(mp.mpf(delta)) / (mp.mpf(order) - 1)

            assert exact <= classical <= exact * (1 + 1e-14)
            assert rdp_to_epsilon(order, rho, delta=delta).value <= classical * (1 + 1e-14)


@pytest.mark.parametrize("divergence", [0.0, 1e-12, 1e-3, 0.5, 3.0, 40.0])
def test_the_divergence_of_order_one_bounds_the_total_variation(divergence):
    exact = min(math.sqrt(divergence / 2), math.sqrt(-math.expm1(-divergence)))

    assert rdp_to_delta(1.0, divergence, epsilon=0.0).value == pytest.approx(exact, rel=1e-14)
    assert rdp_to_epsilon(1.0, divergence, delta=min(exact * (1 + 1e-12) + 1e-12, 1 - 1e-12)).value in (0.0, math.inf)
    if 0 < exact < 0.99:
        assert rdp_to_epsilon(1.0, divergence, delta=exact * (1 + 1e-12)).value == 0.0
        assert rdp_to_epsilon(1.0, divergence, delta=exact * (1 - 1e-12)).value == math.inf


@pytest.mark.parametrize("mean", [0.01, 0.1, 1.0])
def test_the_bound_on_the_total_variation_holds_for_gaussians(mean):
    """N(0, 1) and N(μ, 1): κ = μ²/2, and the distance is erf(μ/√8)."""
    assert rdp_to_delta(1.0, mean**2 / 2, epsilon=0.0).value >= math.erf(mean / math.sqrt(8))


def test_the_largest_loss_needs_no_delta():
    assert rdp_to_epsilon([2.0, math.inf], [0.3, 0.7], delta=1e-200).value == 0.7
    assert rdp_to_delta([2.0, math.inf], [0.3, 0.7], epsilon=0.7).value == 0.0
    assert rdp_to_log_delta(math.inf, 0.7, epsilon=0.7).value == -math.inf


def test_nothing_follows_from_an_infinite_divergence():
    assert rdp_to_epsilon([2.0, 3.0], math.inf, delta=0.1).value == math.inf
    assert rdp_to_delta([2.0, 3.0], math.inf, epsilon=5.0).value == 1.0


def test_results_are_never_negative():
    assert rdp_to_epsilon(2.0, 0.0, delta=0.9).value == 0.0
    assert rdp_to_delta(1e8, 0.0, epsilon=1e300).value > 0.0
    assert rdp_to_log_delta(1.0001, 50.0, epsilon=0.0).value == 0.0


def test_the_best_order_is_taken():
    orders = np.array([2.0, 8.0, 32.0, 128.0])

    found = rdp_to_epsilon(orders, orders / 200, delta=1e-5)

    assert found.value == min(rdp_to_epsilon(order, order / 200, delta=1e-5).value for order in orders)
    assert found.rho == found.order / 200


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_delta_out_of_its_domain(delta):
    with pytest.raises(InvalidParameter, match="delta"):
        rdp_to_epsilon(2.0, 0.1, delta=delta)


def test_other_parameters_out_of_their_domain():
    for rho in (-1e-9, math.nan):
        with pytest.raises(InvalidParameter, match="rho"):
            rdp_to_epsilon(2.0, rho, delta=0.1)
    with pytest.raises(InvalidParameter, match="conversion"):
        rdp_to_epsilon(2.0, 0.1, delta=0.1, conversion="best")
    with pytest.raises(InvalidParameter, match="orders"):
        rdp_to_epsilon([], [], delta=0.1)
    with pytest.raises(InvalidType, match="rho"):
        rdp_to_epsilon(2.0, None, delta=0.1)
