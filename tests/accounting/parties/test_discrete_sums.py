"""Sums of discrete Gaussians: bounds on Rényi divergences and ε against convolutions of 30 digits."""

import functools
import math
import random

import mpmath as mp
import numpy as np
import pytest

from ferrodp import accounting as ac
from ferrodp.accounting._distributed import discrete_sums
from ferrodp.accounting._types import Unsupported
from ferrodp.errors import InvalidParameter, UnsupportedEventError

DIGITS = 30
NUM_SETTINGS = 250
"""Laws; eight shift vectors each make the 2000 settings."""


@functools.cache
def exact_law(n, scale):
    """Return P[X = x] from −reach to reach, to 30 digits: squares and products of convolutions."""
    with mp.workdps(DIGITS + 5):
        reach = math.ceil(9 * scale) + 2
        one = [mp.exp(-mp.mpf(x * x) / (2 * mp.mpf(scale) ** 2)) for x in range(-reach, reach + 1)]
        total = mp.fsum(one)
        # whole numbers of 2^-120: their products are exact, and convolutions are products of polynomials
        base = [int(mp.nint(mass / total * 2**120)) for mass in one]
        width = 2 * 120 + 64 + 2 * n.bit_length()

        def times(one, other):
            packed = sum(v << (i * width) for i, v in enumerate(one)) * sum(
                v << (i * width) for i, v in enumerate(other)
            )
            mask = (1 << width) - 1
            return [((packed >> (i * width)) & mask) >> 120 for i in range(len(one) + len(other) - 1)]

        law, power = [1 << 120], base
        for bit in bin(n)[:1:-1]:
            law = times(law, power) if bit == "1" else law
            power = times(power, power)
        middle = len(law) // 2
        most = min(middle, math.ceil(9 * scale * math.sqrt(n)) + 3)
        return np.array([v * 2.0**-120 for v in law[middle - most : middle + most + 1]]), most


def exact_divergence(n, scale, shift, order):
    """Return a lower bound on ρₖ(α), tight to some 10 digits: of the outcomes whose masses have 16 digits."""
    law, most = exact_law(n, scale)
    p, q = np.zeros(2 * most + 1 + shift), np.zeros(2 * most + 1 + shift)
    p[shift:], q[: 2 * most + 1] = law, law
    good = (p > 2.0**-60) & (q > 2.0**-60)
    logs = order * np.log(p[good]) + (1 - order) * np.log(q[good])
    return (logs.max() + math.log(math.fsum(np.exp(logs - logs.max())))) / (order - 1)


def settings():
    draw = random.Random(15)
    for _ in range(NUM_SETTINGS):
        yield draw.randint(2, 40), round(math.exp(draw.uniform(math.log(0.3), math.log(1.5))), 3), draw.randrange(2**30)


def test_no_bound_is_below_the_exact_divergence_of_2000_shift_vectors():
    """The terms that the truth leaves out are not negative, so that it is never above the exact divergence."""
    looked_at = 0
    for n, scale, seed in settings():
        draw = random.Random(seed)
        for _ in range(8):
            vector = [draw.randint(0, 3) for _ in range(draw.randint(1, 6))]
            if not any(vector):
                vector[0] = 1
            squared = sum(k * k for k in vector)
            order = 1.0 + math.exp(draw.uniform(math.log(1e-2), math.log(4.0)))
            exact = math.fsum(exact_divergence(n, scale, k, order) for k in vector if k)
            for dimension in (None, len(vector)):
                curve = discrete_sums.SumCurve(n, scale, squared, dimension)
                bound = float(curve(np.array([order]))[0])
                assert exact <= bound * (1 + 1e-9), (n, scale, vector, order)
                assert bound <= curve.rho * order * (1 + 1e-12)
            looked_at += 1
    assert looked_at == 2000


@pytest.mark.parametrize("n", [2, 3, 10, 40])
@pytest.mark.parametrize("scale", [0.5, 0.6, 0.75, 1.0])
def test_shifts_by_one_in_every_coordinate_are_bounded_within_a_thousandth(n, scale):
    """The worst vector of many coordinates, at orders that conversions use."""
    curve = discrete_sums.SumCurve(n, scale, 4, 4)
    for order in (1.1, 1.5, 2.0, 3.0):
        exact = 4 * exact_divergence(n, scale, 1, order)
        hull = max(4 * exact_divergence(n, scale, 1, order), exact_divergence(n, scale, 2, order))

        assert exact * (1 - 1e-9) <= float(curve(np.array([order]))[0]) <= hull * 1.001


@pytest.mark.parametrize("n", [2, 10, 40])
@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_one_coordinate_is_exact(n, scale, shift):
    curve = discrete_sums.SumCurve(n, scale, shift * shift, 1)
    for order in (1.05, 1.5, 3.0):
        found = float(curve(np.array([order]))[0])
        if found > 1.001 * curve.rho * order or n * scale**2 < shift:
            continue  # so far out the truth above has few digits
        assert found == pytest.approx(exact_divergence(n, scale, shift, order), rel=1.2e-3 if scale == 1.0 else 1e-5)


@pytest.mark.parametrize(("scale", "stated"), [(0.4, 1.98), (0.5, 1.163), (0.6, 1.024), (0.75, 1.0007), (1.0, 1.0)])
def test_the_ratio_of_many_shares_is_that_of_the_variances(scale, stated):
    x = np.arange(-40, 41)
    weights = np.exp(-x * x / (2 * scale * scale))
    of_variances = scale * scale / float((weights * x * x).sum() / weights.sum())

    found = discrete_sums.ratio(1000, scale)

    assert of_variances == pytest.approx(stated, abs=5e-4)
    assert of_variances <= found <= of_variances * 1.0004


def test_few_shares_may_cost_more_than_many():
    """The limit is no bound: ten shares of 0.4 have a larger ratio."""
    assert 2.036 < discrete_sums.ratio(10, 0.4) < 2.038


def test_the_fourier_bound_agrees_with_the_bound_by_orders():
    for n, scale in ((2, 1.2), (7, 1.1), (40, 1.15), (400, 1.2)):
        by_orders = discrete_sums._ratio_by_orders(discrete_sums.law_of(n, scale))
        smooth = discrete_sums._ratio_of_large_shares(n, scale)

        assert smooth > 1.0
        assert by_orders <= smooth * 1.0002
    assert discrete_sums.ratio(10**12, 1.6) < 1.0 + 1e-4
    assert discrete_sums.ratio(10**6, 0.9) < 1.0001


def test_more_shares_than_are_computed_count_as_fewer():
    most = discrete_sums.MAX_SHARES
    fewer, more = (discrete_sums.ratio(n, 0.4) for n in (most, 3 * most))

    assert more == pytest.approx(3 * fewer, rel=1e-12)
    assert more / (3 * most) >= fewer / most


@pytest.mark.parametrize(
    ("n", "scale", "shift", "exact"),
    [
        (10, 0.5, 1, 2.79),
        (10, 1.0, 3, 4.605),
        (100, 0.3, 3, 8.85),
        (100, 0.5, 5, 5.09),
        (100, 1.0, 9, 4.338),
        (1000, 0.5, 14, 4.61),
    ],
)
def test_epsilon_in_one_coordinate_is_that_of_the_convolution(n, scale, shift, exact):
    event = ac.DistributedDiscreteGaussianEvent(share_scale=scale, num_shares=n, l2_sensitivity=shift, dimension=1)
    accountant = ac.PldAccountant()
    accountant.compose(event)

    found = accountant.epsilon(1e-6)

    assert found == pytest.approx(exact, abs=0.006)
    p, q = discrete_sums.masses_of(n, scale, shift)[:2]
    exact_delta = math.fsum(max(a - math.exp(found) * b, 0.0) for a, b in zip(p, q, strict=True))
    assert exact_delta <= 1e-6 * (1 + 1e-6)


def test_pairs_of_laws_are_the_exact_ones_within_their_stated_error():
    for n, scale, shift in ((3, 0.5, 1), (20, 0.35, 2), (40, 1.3, 5)):
        p, q, error = discrete_sums.masses_of(n, scale, shift)
        law, most = exact_law(n, scale)
        middle = max(range(len(q) - 2), key=q.__getitem__)
        for x in range(-most // 2, most // 2):
            assert abs(math.log(q[middle + x] / law[most + x])) <= error
        assert math.fsum(p) == pytest.approx(1.0, abs=1e-11)


def test_granularity_and_sensitivity_count_in_steps_of_the_grid():
    event = ac.DistributedDiscreteGaussianEvent(
        share_scale=0.125, num_shares=20, l2_sensitivity=0.9, granularity=0.25, dimension=1
    )

    assert (event.integer_scale, event.squared_steps) == (0.5, 12)
    same = ac.DistributedDiscreteGaussianEvent(share_scale=0.5, num_shares=20, l2_sensitivity=3.0, dimension=1)
    found = [ac.PldAccountant(), ac.PldAccountant()]
    for accountant, each in zip(found, (event, same), strict=True):
        accountant.compose(each)
    assert found[0].epsilon(1e-6) == found[1].epsilon(1e-6)  # ⌊√12⌋ = 3
    with pytest.raises(InvalidParameter, match="l2_sensitivity must be at least the granularity"):
        ac.DistributedDiscreteGaussianEvent(share_scale=1.0, num_shares=2, l2_sensitivity=0.5)
    with pytest.raises(InvalidParameter, match="share_scale / granularity must be exactly a float"):
        ac.DistributedDiscreteGaussianEvent(share_scale=0.1, num_shares=2, l2_sensitivity=3.0, granularity=0.3)


def test_one_share_is_a_discrete_gaussian():
    event = ac.DistributedDiscreteGaussianEvent(share_scale=0.7, num_shares=1, l2_sensitivity=2.0, dimension=1)
    for kind in (ac.PldAccountant, ac.RdpAccountant, ac.ZcdpAccountant):
        one, other = kind(), kind()
        one.compose(event)
        other.compose(ac.DiscreteGaussianEvent(scale=0.7, l2_sensitivity=2.0))

        assert one.epsilon(1e-5) == pytest.approx(other.epsilon(1e-5), rel=1e-12)


@pytest.mark.parametrize(("n", "scale"), [(3, 0.5), (10, 0.4), (40, 0.6)])
def test_rho_is_no_less_than_the_divergences_are(n, scale):
    """ρ of zCDP bounds ρ(α)/α at every order; it is largest near 1."""
    accountant = ac.ZcdpAccountant()
    accountant.compose(ac.DistributedDiscreteGaussianEvent(share_scale=scale, num_shares=n, l2_sensitivity=1.0))

    exact = max(exact_divergence(n, scale, 1, order) / order for order in (1.001, 1.1, 2.0, 3.0))
    assert exact <= accountant.rho <= exact * 1.002


def test_tiny_shares_are_refused():
    event = ac.DistributedDiscreteGaussianEvent(share_scale=0.2, num_shares=5, l2_sensitivity=1.0)

    assert isinstance(discrete_sums.ratio(5, 0.2), Unsupported)
    for kind in (ac.PldAccountant, ac.RdpAccountant, ac.ZcdpAccountant):
        with pytest.raises(UnsupportedEventError, match="hardly ever"):
            kind().compose(event)


def test_a_wider_error_of_the_law_never_lowers_a_bound(monkeypatch):
    law = discrete_sums.SumLaw(12, 0.5)
    plain = law.divergences(2, np.array([1.01, 1.5, 3.0, 40.0]))
    law.error *= 1e3

    assert (law.divergences(2, np.array([1.01, 1.5, 3.0, 40.0])) >= plain).all()
