"""Releases of mechanisms against what they say they cost: hypothesis tests of (ε, δ), and their power.

For any event E, P[M(x) in E] ≤ e^ε P[M(x') in E] + δ. Counts on neighboring inputs give Clopper and Pearson's bounds on
both sides; a lower bound above the upper one refutes the claim. For these mechanisms the worst events are half-lines,
of which 200 are tried. Each bound fails with probability 1e-9, so that a test would raise a false alarm in 4e-7 of all
runs, were its seed fresh; seeds are names, so it passes or fails for ever.
"""

import hashlib
import math

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism

pytestmark = pytest.mark.statistical

DRAWS = 1 << 20
ALPHA = 1e-9

# Mechanism, sensitivity, and the (ε, δ) that it was asked to keep.
MECHANISMS = {
    name: (mechanism.calibrated(**{distance: sensitivity}, epsilon=epsilon, **delta), sensitivity, epsilon, delta)
    for name, mechanism, distance, sensitivity, epsilon, delta in [
        ("gaussian, epsilon 1", GaussianMechanism, "l2_sensitivity", 3.0, 1.0, {"delta": 1e-3}),
        ("gaussian, epsilon 0.1", GaussianMechanism, "l2_sensitivity", 0.5, 0.1, {"delta": 1e-2}),
        ("gaussian, epsilon 4", GaussianMechanism, "l2_sensitivity", 1.0, 4.0, {"delta": 1e-2}),
        ("laplace, epsilon 1", LaplaceMechanism, "l1_sensitivity", 2.0, 1.0, {}),
        ("laplace, epsilon 0.25", LaplaceMechanism, "l1_sensitivity", 1.0, 0.25, {}),
    ]
}


def releases(mechanism, value, name, count=DRAWS):
    source = fd.testing.seeded(hashlib.sha256(f"mechanism {name} {value}".encode()).digest())
    return mechanism.release(np.full(count, value), source=source)


def refuted_delta(name, epsilon):
    """Return the largest δ that is refuted at this ε: the maximum over half-lines of p_low − e^ε p'_high."""
    mechanism, sensitivity, _, _ = MECHANISMS[name]
    thresholds = np.linspace(-4, 6, 200) * mechanism.standard_deviation
    near, far = (np.sort(releases(mechanism, value, name)) for value in (sensitivity, 0.0))
    above, beyond = (DRAWS - np.searchsorted(draws, thresholds, side="right") for draws in (near, far))
    low = np.where(above > 0, stats.beta.ppf(ALPHA, np.maximum(above, 1), DRAWS - above + 1), 0.0)
    high = np.where(beyond < DRAWS, stats.beta.isf(ALPHA, beyond + 1, np.maximum(DRAWS - beyond, 1)), 1.0)
    return float((low - math.exp(epsilon) * high).max())


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_event_refutes_what_a_mechanism_was_calibrated_to(name):
    _, _, epsilon, delta = MECHANISMS[name]

    assert refuted_delta(name, epsilon) <= delta.get("delta", 0.0)


@pytest.mark.parametrize("name", MECHANISMS)
def test_two_thirds_of_what_a_mechanism_was_calibrated_to_are_refuted(name):
    """The power of the test above: a smaller ε is claimed of the very same releases, and found to be false."""
    _, _, epsilon, delta = MECHANISMS[name]

    assert refuted_delta(name, epsilon / 1.5) > delta.get("delta", 0.0)


def test_a_gaussian_mechanism_draws_its_multiplier_times_its_sensitivity():
    mechanism = GaussianMechanism(noise_multiplier=1.7, l2_sensitivity=3.0)
    draws = releases(mechanism, 10.0, "gaussian product")

    assert stats.kstest(draws, stats.norm(10.0, 1.7 * 3.0).cdf).pvalue > ALPHA


def test_a_laplace_mechanism_draws_its_scale():
    mechanism = LaplaceMechanism(scale=1.7, l1_sensitivity=3.0)
    draws = releases(mechanism, 10.0, "laplace scale")

    assert stats.kstest(draws, stats.laplace(10.0, 1.7).cdf).pvalue > ALPHA
