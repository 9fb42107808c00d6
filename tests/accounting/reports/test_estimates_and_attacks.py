"""Trade-off bounds, central limits that are no bounds, Monte Carlo bounds, groups."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp import accounting
from ferrodp.accounting import GaussianEvent, GdpAccountant, gaussian_delta, laplace_delta, trade_off_curve
from ferrodp.accounting.composition import compose_optimal_delta
from ferrodp.accounting.curves import zcdp_delta
from ferrodp.accounting.reports import (
    binomial_upper_bound,
    estimate_central_limit_delta,
    estimate_central_limit_epsilon,
    estimate_central_limit_mu,
    estimate_delta_from_losses,
    explain_central_limit,
    mean_upper_bound,
    membership_advantage,
    true_positive_rate,
    verification_failure_probability,
    verified_delta,
)
from ferrodp.accounting.sampling import group_privacy, group_rho
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from support import vectors

VECTORS = vectors.accounting()


def gaussians(inputs):
    accountant = GdpAccountant()
    for event in inputs.get("events", [{"sigma": inputs.get("sigma"), "count": 1}]):
        accountant.compose(GaussianEvent(noise_multiplier=event["sigma"]), event["count"])
    return accountant


def central_limit(inputs, sampling):
    return estimate_central_limit_mu(
        noise_multiplier=inputs["sigma"], sampling_probability=inputs["q"], count=inputs["steps"], sampling=sampling
    )


COMPUTED = {
    "amplification_pure_dp_subsampling": lambda i: (
        accounting.amplify_by_sampling(epsilon=i["epsilon"], sampling_probability=i["q"]).epsilon
    ),
    "gdp_clt_mu_poisson": lambda i: central_limit(i, "poisson"),
    "gdp_clt_mu_uniform": lambda i: central_limit(i, "uniform"),
    "monte_carlo_delta_estimate": lambda i: estimate_delta_from_losses(
        i["losses"], epsilon=i["epsilon"], counts=i["counts"]
    ),
    "monte_carlo_kl_bound": lambda i: verification_failure_probability(**i),
    "true_positive_rate_bound": lambda i: true_positive_rate(gaussians(i), false_positive_rate=i["fpr"]),
}
COVERED = [vector for vector in VECTORS if vector["quantity"] in COMPUTED]


def test_the_file_still_has_every_quantity():
    assert {vector["quantity"] for vector in COVERED} == set(COMPUTED)


@pytest.mark.parametrize("vector", COVERED, ids=lambda vector: vector["id"])
def test_given_values(vector):
    actual = COMPUTED[vector["quantity"]](vector["inputs"])

    assert actual == pytest.approx(vector["expected"], **{"rel": 0.0, "abs": 0.0, **vector["tolerance"]})


def exact_rate(mu, rate):
    """Φ(Φ⁻¹(x) + μ), of the optimal test between N(0, 1) and N(μ, 1)."""
    with mp.workdps(40):
        quantile = mp.sqrt(2) * mp.erfinv(2 * mp.mpf(rate) - 1)
        return mp.ncdf(quantile + mp.mpf(mu))


@given(st.floats(0.01, 8.0), st.floats(1e-9, 0.999))
@settings(max_examples=30)
def test_the_bound_of_a_gaussian_is_exact_and_above(mu, rate):
    """The best ε is found to 10⁻⁹ of the range or better, and counts squared: 10⁻¹² is ample."""
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=1.0 / mu))
    exact = exact_rate(accountant.mu, rate)

    bound = true_positive_rate(accountant, false_positive_rate=rate)
    below = exact_rate(mu * (1 - 4e-16), rate)  # 1/mu was rounded
    assert bound >= below
    assert bound <= exact + mp.mpf(10) ** -12


@given(st.floats(0.2, 5.0), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=6))
@settings(max_examples=20)
def test_a_trade_off_curve_falls_and_is_convex(noise, rates):
    rates = sorted({*rates, 0.0, 1.0})
    misses = trade_off_curve(lambda e: laplace_delta(epsilon=e, noise_multiplier=noise), rates)

    assert (np.diff(misses) <= 0.0).all()
    assert (misses <= 1.0 - np.array(rates) + 1e-15).all()
    for (a, fa), (b, fb), (c, fc) in itertools.combinations(zip(rates, misses, strict=True), 3):
        assert fb <= (fa * (c - b) + fc * (b - a)) / (c - a) + 1e-9


@given(st.floats(0.2, 5.0), st.floats(0.0, 1.0))
@settings(max_examples=30)
def test_the_laplace_trade_off_is_that_of_two_shifted_laws(noise, rate):
    """Shift 1/b = ε₀ (Dong, Roth, Su 2022, Proposition A.6): the detection rate is at most the bound, and near it."""
    shift = 1.0 / noise
    if rate < 0.5 * math.exp(-shift):
        exact = rate * math.exp(shift)
    elif rate <= 0.5:
        exact = 1.0 - math.exp(-shift) / (4.0 * rate)
    else:
        exact = 1.0 - math.exp(-shift) * (1.0 - rate)
    bound = true_positive_rate(lambda e: laplace_delta(epsilon=e, noise_multiplier=noise), false_positive_rate=rate)

    assert exact - 1e-15 <= bound <= exact + 1e-7


def test_rates_at_the_ends():
    accountant = gaussians({"sigma": 1.0})

    assert true_positive_rate(accountant, false_positive_rate=1.0) == 1.0
    assert true_positive_rate(accountant, false_positive_rate=0.0) < 1e-100
    assert true_positive_rate(lambda e: 0.0, false_positive_rate=0.25) == 0.25
    assert true_positive_rate(lambda e: 1.0, false_positive_rate=0.25) == 1.0
    assert true_positive_rate(lambda e: 0.1, false_positive_rate=0.0) == 0.1
    assert membership_advantage(accountant) == accountant.delta(0.0)
    assert trade_off_curve(accountant, 0.5).shape == ()
    with pytest.raises(InvalidArray):
        trade_off_curve(accountant, [math.nan])
    with pytest.raises(InvalidParameter):
        true_positive_rate(accountant, false_positive_rate=1.1)
    with pytest.raises(InvalidType, match="curve"):
        membership_advantage(3.0)
    with pytest.raises(InvalidParameter, match="delta of curve"):
        membership_advantage(lambda e: math.nan)


def test_the_central_limit_is_an_estimate_and_says_so():
    """Below the truth here: nothing that is asked for a bound may return it."""
    (vector,) = (v for v in VECTORS if v["quantity"] == "gdp_clt_underestimate")
    inputs, expected = vector["inputs"], vector["expected"]
    keywords = {
        "delta": inputs["delta"],
        "noise_multiplier": inputs["sigma"],
        "sampling_probability": inputs["q"],
        "count": inputs["steps"],
    }
    estimate = estimate_central_limit_epsilon(**keywords)

    assert estimate == pytest.approx(expected["gdp_clt_epsilon"], abs=1e-9)
    assert estimate < 0.9 * expected["true_epsilon"]
    answer = explain_central_limit(**keywords)
    assert answer.value == estimate
    assert not answer.is_bound
    assert "estimate" in str(answer)
    assert "upper bound" not in str(answer)
    names = [name for name in accounting.reports.__all__ if "central_limit" in name]
    assert all(name.startswith(("estimate_", "explain_")) for name in names)
    assert not any(
        "central" in name.lower() for cls in (GdpAccountant, accounting.filters.GdpFilter) for name in dir(cls)
    )


def test_the_central_limit_at_the_ends():
    step = {"noise_multiplier": 1.0, "sampling_probability": 0.5}

    assert estimate_central_limit_mu(**step, count=0) == 0.0
    assert estimate_central_limit_mu(noise_multiplier=1.0, sampling_probability=0.0, count=5) == 0.0
    assert estimate_central_limit_mu(noise_multiplier=1e-5, sampling_probability=0.5, count=5) == math.inf
    assert estimate_central_limit_epsilon(delta=1e-5, **step, count=0) == 0.0
    assert estimate_central_limit_delta(epsilon=1.0, **step, count=0) == 0.0
    mu = estimate_central_limit_mu(**step, count=3)
    expected = gaussian_delta(epsilon=1.0, noise_multiplier=1.0 / mu)
    assert estimate_central_limit_delta(epsilon=1.0, **step, count=3) == pytest.approx(expected, rel=1e-14)
    with pytest.raises(InvalidParameter, match="sampling"):
        estimate_central_limit_mu(**step, count=3, sampling="shuffled")


def exact_tail(seen, samples, p):
    with mp.workdps(50):
        return mp.betainc(samples - seen, seen + 1, 0, 1 - mp.mpf(p), regularized=True)


@given(st.integers(1, 400), st.floats(0.0, 1.0), st.sampled_from([0.5, 0.95, 1 - 1e-9]))
@settings(max_examples=60)
def test_binomial_bounds_leave_no_more_than_allowed(samples, part, confidence):
    seen = min(int(part * samples), samples - 1)
    bound = binomial_upper_bound(hits=seen, num_samples=samples, confidence=confidence)

    assert exact_tail(seen, samples, bound) <= 1 - mp.mpf(confidence)
    less = bound * (1 - 1e-9) if bound <= 0.5 else bound - 1e-4 * (1 - bound)  # there 1 − tail cancels
    assert bound > 1.0 - 1e-11 or exact_tail(seen, samples, less) > 1 - mp.mpf(confidence)


@given(st.integers(1, 10**9), st.floats(0.0, 1.0), st.sampled_from([0.5, 0.95, 1 - 1e-9]))
@settings(max_examples=60)
def test_mean_bounds_reach_the_divergence(samples, mean, confidence):
    bound = mean_upper_bound(mean=mean, num_samples=samples, confidence=confidence)

    with mp.workdps(60):
        q, p, goal = mp.mpf(mean), mp.mpf(bound), -mp.log(1 - mp.mpf(confidence)) / samples
        if bound < 1.0:
            reached = (q * mp.log(q / p) if q else 0) + (1 - q) * mp.log((1 - q) / (1 - p))
            assert p >= q
            assert reached >= goal
    assert bound >= mean


def test_a_count_bound_is_tighter_than_one_for_means():
    for hits, samples in ((0, 100), (3, 1000), (10, 10**6)):
        exact = binomial_upper_bound(hits=hits, num_samples=samples, confidence=0.99)
        loose = mean_upper_bound(mean=hits / samples, num_samples=samples, confidence=0.99)
        assert hits / samples < exact <= loose < 3.0 * exact
        assert exact < loose or not hits
    assert binomial_upper_bound(hits=0, num_samples=10**10, confidence=0.99) == pytest.approx(4.60517e-10, rel=1e-5)
    assert binomial_upper_bound(hits=5, num_samples=5, confidence=0.99) == 1.0


def test_verification():
    assert verification_failure_probability(num_samples=5, tau=2.0, delta=0.5) == 0.0  # no δ exceeds 1
    assert verification_failure_probability(num_samples=10**9, tau=2.0, delta=1e-3) == 5e-324
    assert verified_delta(num_samples=1, tau=1.0, delta=0.25) == 1.0
    assert verified_delta(num_samples=10**8, tau=2.0, delta=1e-6) == pytest.approx(2e-6, rel=1e-9)
    for keywords in ({"num_samples": 0, "tau": 2.0, "delta": 0.1}, {"num_samples": 1, "tau": 0.5, "delta": 0.1},
                     {"num_samples": 1, "tau": 2.0, "delta": 0.0}):  # fmt: skip
        with pytest.raises(InvalidParameter):
            verified_delta(**keywords)


def test_losses_are_checked():
    assert estimate_delta_from_losses([math.inf, -5.0], epsilon=0.0) == 0.5
    for losses, counts in (([], None), ([[1.0]], None), ([1.0], [1, 2])):
        with pytest.raises(InvalidArray):
            estimate_delta_from_losses(losses, epsilon=1.0, counts=counts)
    for losses, counts in (([math.nan], None), ([1.0], [0]), ([1.0, 2.0], [2, -1])):
        with pytest.raises(InvalidParameter):
            estimate_delta_from_losses(losses, epsilon=1.0, counts=counts)


@given(st.floats(0.0, 3.0), st.floats(0.0, 1e-3), st.integers(1, 20))
def test_group_privacy_is_the_sum_of_the_steps(epsilon, delta, size):
    total = group_privacy(epsilon=epsilon, delta=delta, size=size)

    with mp.workdps(60):
        exact = mp.mpf(delta) * mp.fsum(mp.exp(i * mp.mpf(epsilon)) for i in range(size))
        assert mp.mpf(total.epsilon) >= size * mp.mpf(epsilon)
        assert min(exact, 1) <= mp.mpf(total.delta) <= exact * (1 + mp.mpf(2) ** -52) + mp.mpf(5e-324)


def test_group_privacy_at_the_ends():
    assert group_privacy(epsilon=1.0, delta=1e-9, size=1) == (1.0, 1e-9)
    assert group_privacy(epsilon=1e6, delta=5e-324, size=2) == (2e6, 1.0)
    assert group_privacy(epsilon=0.0, delta=0.25, size=8) == (0.0, 1.0)
    assert group_privacy(epsilon=1e308, delta=0.0, size=1000).epsilon == math.inf
    assert group_rho(rho=1e308, size=2**62) == math.inf
    one = compose_optimal_delta([(0.5, 0.0)], epsilon=0.2)
    assert one <= zcdp_delta(rho=group_rho(rho=0.125, size=1), epsilon=0.2)
    with pytest.raises(InvalidParameter, match="size"):
        group_privacy(epsilon=1.0, size=0)
