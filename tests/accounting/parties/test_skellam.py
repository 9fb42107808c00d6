"""Skellam noise: bounds on Rényi divergences, ρ and ε against Bessel functions of 30 digits."""

import functools
import itertools
import math
import random

import mpmath as mp
import numpy as np
import pytest

from ferrodp import accounting as ac
from ferrodp.accounting._distributed import skellam
from ferrodp.errors import InvalidParameter, UnsupportedEventError

VARIANCES = (0.02, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0, 150.0)


@functools.cache
def exact_law(variance):
    """Return P[X = x] for x ≥ 0 down to 1e-60, and logarithms of them, from Bessel functions."""
    masses, logs = [], []
    with mp.workdps(30):
        while not masses or masses[-1] > 1e-60:
            mass = mp.exp(-mp.mpf(variance)) * mp.besseli(len(masses), mp.mpf(variance))
            masses.append(float(mass))
            logs.append(float(mp.log(mass)))
    return np.array(masses), np.array(logs)


def exact_divergence(variance, shift, order):
    """Return a lower bound on ρₖ(α), tight to some ten digits: what is left out is not negative."""
    _, logs = exact_law(variance)
    x = np.arange(shift - len(logs) + 1, len(logs))
    p, q = logs[np.abs(x - shift)], logs[np.abs(x)]
    terms = order * p + (1 - order) * q
    return (terms.max() + math.log(math.fsum(np.exp(terms - terms.max())))) / (order - 1)


def test_no_bound_is_below_the_exact_divergence_of_2000_shift_vectors():
    draw = random.Random(15)
    looked_at = tight = 0
    for variance in VARIANCES:
        for _ in range(250):
            vector = [draw.randint(0, 3) for _ in range(draw.randint(1, 6))]
            vector[0] = vector[0] or 1
            squared = sum(k * k for k in vector)
            order = draw.choice([2.0, 3.0, 5.0, 1.0 + math.exp(draw.uniform(math.log(1e-2), math.log(5.0)))])
            exact = math.fsum(exact_divergence(variance, k, order) for k in vector if k)
            for dimension in (None, len(vector)):
                curve = skellam.SkellamCurve(variance, squared, dimension)
                bound = float(curve(np.array([order]))[0])
                assert exact <= bound * (1 + 1e-8), (variance, vector, order)
                assert bound <= curve.rho * order * (1 + 1e-12)
            looked_at += 1
            tight += exact > 0.9 * bound
    assert looked_at == 2000
    assert tight > 400


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_one_coordinate_is_exact(variance, shift):
    curve = skellam.SkellamCurve(variance, shift * shift, 1)
    for order in (1.02, 1.5, 2.0, 3.3):
        found = float(curve(np.array([order]))[0])
        if variance < shift:
            continue  # so far out the truth has few digits
        assert found == pytest.approx(exact_divergence(variance, shift, order), rel=1e-7)


@pytest.mark.parametrize("variance", [*VARIANCES, 1e4, 99_999.0, 1.5e5, 1e7, 1e12, 1e200])
def test_the_bend_is_the_second_difference_at_zero(variance):
    with mp.workdps(60):
        exact = 2 * mp.log(mp.besseli(0, variance) / mp.besseli(1, variance)) if variance < 1e5 else None
        if exact is None:  # 1/μ + 1/2μ² + O(1/μ³), asymptotic series of Bessel functions
            exact = 1 / mp.mpf(variance) + 1 / (2 * mp.mpf(variance) ** 2)
        found = skellam.bend(variance)

        assert float(exact) * (1 - 1e-15) <= found <= float(exact) * (1 + 1e-13 + (variance > 1e5) / variance)
        assert found * variance >= 1.0 or variance < 1.0


@pytest.mark.parametrize("variance", VARIANCES)
def test_second_differences_are_largest_at_zero_and_fall(variance):
    """What the bound for vectors rests on; the page on theorems has the proof."""
    _, logs = exact_law(variance)
    second = 2 * logs[1:-1] - logs[:-2] - logs[2:]  # at 1, 2, …
    at_zero = 2 * (logs[0] - logs[1])

    assert (np.append(at_zero, second[:-1]) >= second - 1e-12).all()
    assert skellam.bend(variance) == pytest.approx(at_zero, rel=1e-12)


@pytest.mark.parametrize("variance", [0.5, 3.0, 40.0, 150.0])
def test_the_rate_covers_orders_that_are_no_integers(variance):
    rate = skellam.rate(variance)
    worst = max(exact_divergence(variance, 1, 1 + 1.2**i) / (1 + 1.2**i) for i in range(-30, 8))

    assert worst <= rate
    assert rate <= 0.5 * skellam.bend(variance) * 1.001


def test_the_rate_of_large_variances_has_a_bound_in_closed_form_that_agrees():
    """Where the law is not computed any more, orders between integers cost 0.13 % at most."""
    edge = skellam.MAX_VARIANCE
    last, next_one = skellam.rate(edge), skellam.rate(math.nextafter(edge, math.inf))

    assert last <= next_one <= last * 1.0013
    for variance in (1e6, 1e9, 1e15):
        assert 0.5 / variance < skellam.rate(variance) < 0.5 / variance * (1 + 0.5 / math.sqrt(variance) + 1e-15)


def test_an_integer_order_costs_less_than_the_published_theorem_says():
    """αΔ²/2μ + min(((2α − 1)Δ² + 6Δ₁)/4μ², 3Δ₁/2μ) with the L1 sensitivity Δ₁, for orders up to μ/Δ.

    Agarwal, Kairouz, Liu, "The Skellam mechanism for differentially private federated learning", 2021, Theorem 3.5.
    """
    for variance in (10.0, 100.0, 1e4, 1e6):
        for shift in (1, 3, 10):
            curve = skellam.SkellamCurve(variance, shift * shift, None)
            for order in (2, 3, 8, 20):
                if order * shift > variance:
                    continue  # the other term is the smaller one there
                first = ((2 * order - 1) * shift**2 + 6 * shift) / (4 * variance**2)
                published = order * shift**2 / (2 * variance) + min(first, 3 * shift / (2 * variance))
                assert float(curve(np.array([float(order)]))[0]) <= published


@pytest.mark.parametrize(("variance", "shift"), [(0.5, 1), (3.0, 2), (25.0, 5), (150.0, 12)])
def test_epsilon_in_one_coordinate_is_that_of_the_law(variance, shift):
    accountant = ac.PldAccountant()
    accountant.compose(ac.SkellamEvent(variance=variance, l2_sensitivity=shift, dimension=1))
    masses, _ = exact_law(variance)
    whole = np.concatenate([masses[:0:-1], masses])
    p = np.concatenate([np.zeros(shift), whole])
    q = np.concatenate([whole, np.zeros(shift)])

    found = accountant.epsilon(1e-6)

    exact_delta = math.fsum(np.maximum(p - math.exp(found) * q, 0.0))
    slightly_less = math.fsum(np.maximum(p - math.exp(found - 0.002) * q, 0.0))
    assert exact_delta <= 1e-6 * (1 + 1e-9) < slightly_less
    for kind in (ac.RdpAccountant, ac.ZcdpAccountant):
        looser = kind()
        looser.compose(ac.SkellamEvent(variance=variance, l2_sensitivity=shift, dimension=1))
        assert looser.epsilon(1e-6) >= found - 0.002


def test_pairs_of_laws_are_the_exact_ones_within_their_stated_error():
    for variance, shift in ((0.5, 1), (25.0, 4), (150.0, 9)):
        p, q, error = skellam.masses_of(variance, shift)
        _, logs = exact_law(variance)
        middle = max(range(len(q) - 2), key=q.__getitem__)
        for x in range(-len(logs) // 2, len(logs) // 2):
            assert abs(math.log(q[middle + x]) - logs[abs(x)]) <= error
            assert abs(math.log(p[middle + x]) - logs[abs(x - shift)]) <= error
        assert math.fsum(p) == pytest.approx(1.0, abs=1e-11)
        assert math.fsum(q) == pytest.approx(1.0, abs=1e-11)


def test_units_and_rounding_of_the_event():
    event = ac.SkellamEvent(variance=2.5, l2_sensitivity=0.9, granularity=0.25)

    assert (event.integer_variance, event.squared_steps) == (40.0, 12)
    tenth = ac.SkellamEvent(variance=0.1, l2_sensitivity=3.0, granularity=1.0)
    assert tenth.integer_variance <= 0.1
    with pytest.raises(InvalidParameter, match="l2_sensitivity must be at least the granularity"):
        ac.SkellamEvent(variance=1.0, l2_sensitivity=0.5)
    with pytest.raises(InvalidParameter, match="a float > 0"):
        ac.SkellamEvent(variance=1e-300, l2_sensitivity=1e20, granularity=1e20)


def test_shares_add_up_and_more_noise_never_costs_more():
    found = [
        float(skellam.SkellamCurve(variance, 25, None)(np.array([3.0]))[0])
        for variance in np.geomspace(0.02, 1e8, 40).tolist()
    ]

    assert all(after < before * (1 + 1e-9) for before, after in itertools.pairwise(found))


def test_noise_that_hardly_ever_is_any_is_refused():
    for kind in (ac.PldAccountant, ac.RdpAccountant, ac.ZcdpAccountant):
        with pytest.raises(UnsupportedEventError, match="hardly ever"):
            kind().compose(ac.SkellamEvent(variance=0.005, l2_sensitivity=1.0, dimension=1))
    with pytest.raises(UnsupportedEventError):
        ac.PureDpAccountant().compose(ac.SkellamEvent(variance=10.0, l2_sensitivity=1.0))


def test_each_term_of_the_error_budget_only_adds(monkeypatch):
    orders = np.array([1.01, 1.5, 3.0, 20.0])
    plain = skellam.SkellamLaw(12.0).divergences(2, orders)
    for name, value in (("_LOG_ERROR", 1e-9), ("_RELATIVE_ERROR", 1e-8), ("_REST_LOG", 20.0)):
        with monkeypatch.context() as changed:
            changed.setattr(skellam, name, value)
            wider = skellam.SkellamLaw(12.0).divergences(2, orders)
        assert (wider >= plain * (1 - 1e-13)).all()
        assert (wider > plain).any(), name


def test_a_short_window_is_paid_for():
    """With a hundredth of the noise outside of the sum, the bound still holds."""
    law = skellam.SkellamLaw(12.0)
    exact = exact_divergence(12.0, 2, 1.5)
    law.last = 12
    law.tails = law.tails[:14]

    assert exact < law._divergence(2, 1.5) < math.inf
