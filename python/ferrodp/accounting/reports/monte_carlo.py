"""Bounds from samples of a privacy loss. Nothing is drawn here.

The samples have to be independent draws of the loss under its first law, made for this purpose with randomness that is
not the release's. A bound holds with a stated confidence, which is not a δ: `verified_delta` is the δ that includes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import ZERO, Interval, arithmetic, exact, float_up, point
from ferrodp.errors import InvalidArray, InvalidParameter

_DIGITS = 50
_STEPS = 64
_MAX_SAMPLES = 10**10
_MEAN_ERROR = 2.0**-40
"""Bound on the relative error of a mean: expm1 of numpy within 2⁻⁴⁴, additions in pairs within 2⁻⁴⁷."""


def estimate_delta_from_losses(losses: ArrayLike, *, epsilon: Real, counts: ArrayLike | None = None) -> float:
    """Return the mean of (1 − e^{ε−L})₊ over samples of the loss L: an unbiased estimate of δ(ε), not a bound.

    Parameters
    ----------
    losses : array of float
        Samples of ln dP/dQ under P; +∞ is allowed.
    epsilon : float
        Any finite number.
    counts : array of int, optional
        How often each loss was seen; once, if not given.

    Returns
    -------
    float
        In [0, 1]. Not rounded in any direction.

    Raises
    ------
    InvalidArray, InvalidParameter, InvalidType
        If the arrays are empty, not one-dimensional or of different sizes, or hold values outside their domain.

    Examples
    --------
    >>> from ferrodp.accounting.reports import estimate_delta_from_losses
    >>> round(estimate_delta_from_losses([1.0, 3.0 + 0.6931471805599453], epsilon=3.0), 6)
    0.25
    """
    values = np.asarray(losses, dtype=np.float64)
    weights = np.ones(values.shape) if counts is None else np.asarray(counts, dtype=np.float64)
    if values.ndim != 1 or not values.size or weights.shape != values.shape:
        raise InvalidArray("losses must be a one-dimensional array with at least one loss, and counts like it")
    if np.isnan(values).any() or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InvalidParameter("losses must not be nan, and counts must be >= 0 with one > 0")
    at = float(_validate.exact("epsilon", epsilon))
    excess = -np.expm1(np.minimum(at - values, 0.0))
    return min(float(np.sum(weights * excess) / np.sum(weights)), 1.0)


def mean_upper_bound(*, mean: Real, num_samples: int, confidence: Real) -> float:
    """Return an upper bound on the expectation of numbers in [0, 1] from the mean of independent samples, rounded up.

    Parameters
    ----------
    mean : float
        The mean of the samples, as `estimate_delta_from_losses` returns it; in [0, 1]. 2⁻⁴⁰ of it is added
        to cover its rounding error.
    num_samples : int
        How many; at least 1.
    confidence : float
        The probability with which the bound may fail is 1 − `confidence`; in (0, 1).

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    The p with KL(mean‖p) = ln(1/β)/n, β = 1 − confidence: Hoeffding, "Probability inequalities for sums of bounded
    random variables", JASA 1963, Theorem 1. It needs n of the order of 1/δ; for less, sample where losses are large.

    Examples
    --------
    >>> from ferrodp.accounting.reports import mean_upper_bound
    >>> mean_upper_bound(mean=0.0, num_samples=10**6, confidence=0.99) <= 4.61e-6
    True
    """
    average = min(_validate.probability("mean", mean) * (1.0 + _MEAN_ERROR), 1.0)
    samples = _validate.count("num_samples", num_samples)
    r = arithmetic(_DIGITS)
    goal = r.div(r.ln(_failure(confidence)).negated(), point(samples))
    return _least(lambda p: _divergence(average, point(p)).lower >= goal.upper, average)


def binomial_upper_bound(*, hits: int, num_samples: int, confidence: Real) -> float:
    """Return an upper bound on a probability from how often an event was seen, rounded up: Clopper and Pearson's.

    Parameters
    ----------
    hits : int
        In how many samples it was seen; from 0 to `num_samples`.
    num_samples : int
        How many independent samples there were; from 1 to 10¹⁰.
    confidence : float
        The probability with which the bound may fail is 1 − `confidence`; in (0, 1).

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    A p with P[Binomial(n, p) ≤ hits] ≤ 1 − confidence, proven with the error of the sum counted: Clopper, Pearson, "The
    use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 1934.

    Examples
    --------
    >>> from ferrodp.accounting.reports import binomial_upper_bound
    >>> binomial_upper_bound(hits=0, num_samples=1, confidence=0.9) <= 0.9 * (1 + 1e-12)
    True
    """
    samples = _validate.count("num_samples", num_samples, maximum=_MAX_SAMPLES)
    seen = _validate.count("hits", hits, minimum=0, maximum=samples)
    allowed = _failure(confidence).lower
    if seen == samples:
        return 1.0
    return _least(lambda p: _native.binomial_at_most(seen, samples, p) <= allowed, seen / samples)


def verification_failure_probability(*, num_samples: int, tau: Real, delta: Real) -> float:
    """Return a bound on the chance that a mechanism whose δ exceeds τ·`delta` passes a test for `delta`, rounded up.

    The test: the mean of `num_samples` independent values in [0, 1], whose expectation is the δ of the mechanism at
    some ε, is at most `delta`.

    Parameters
    ----------
    num_samples : int
        How many; at least 1.
    tau : float
        At least 1. Rounded down if not exactly representable.
    delta : float
        In (0, 1). Rounded up if not exactly representable.

    Returns
    -------
    float
        0.0 if τ·`delta` ≥ 1: no mechanism has such a δ.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    e^{−n·KL(δ‖τδ)}: Hoeffding 1963, Theorem 1; in this use: Wang, Mahloujifar, Wu, Jia, Mittal, "A randomized approach
    to tight privacy accounting", NeurIPS 2023.

    Examples
    --------
    >>> from ferrodp.accounting.reports import verification_failure_probability
    >>> verification_failure_probability(num_samples=6, tau=2.0, delta=0.25) <= 0.4562
    True
    """
    samples = _validate.count("num_samples", num_samples)
    factor, limit = _tau(tau), _validate.delta(delta, toward="up")
    r = arithmetic(_DIGITS)
    if exact(factor) * exact(limit) >= 1:
        return 0.0
    exponent = r.mul(point(samples), _divergence(limit, r.mul(point(factor), point(limit))))
    return min(float_up(r.exp(Interval(-exponent.upper, -max(exponent.lower, ZERO))).upper), 1.0)


def verified_delta(*, num_samples: int, tau: Real, delta: Real) -> float:
    """Return the δ of a mechanism that is run only after it passed a test for `delta`, rounded up.

    Parameters
    ----------
    num_samples, tau, delta
        As for `verification_failure_probability`.

    Returns
    -------
    float
        In (0, 1].

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    τδ + (1 − τδ)·F with F = `verification_failure_probability`: its δ is at most τ·`delta`, or it passed by chance.

    Examples
    --------
    >>> from ferrodp.accounting.reports import verified_delta
    >>> verified_delta(num_samples=10**8, tau=1.5, delta=1e-5)
    1.5...e-05
    """
    failure = verification_failure_probability(num_samples=num_samples, tau=tau, delta=delta)
    r = arithmetic(_DIGITS)
    share = r.mul(point(_tau(tau)), point(_validate.delta(delta, toward="up")))
    if share.upper >= 1:
        return 1.0
    return min(float_up(r.add(share, r.mul(r.sub(point(1), share), point(failure))).upper), 1.0)


def _tau(tau: Real) -> float:
    factor = _validate.positive("tau", tau, toward="down")
    if factor < 1.0:
        raise _validate.out_of_domain("tau", "finite and >= 1", tau)
    return factor


def _failure(confidence: Real) -> Interval:
    """Return 1 − confidence, exactly."""
    number = exact(_validate.delta(confidence, name="confidence", toward="up"))
    return arithmetic(1100).sub(point(1), point(number))


def _divergence(q: float, p: Interval) -> Interval:
    """Return KL(q‖p) = q·ln(q/p) + (1 − q)·ln((1 − q)/(1 − p)) for 0 ≤ q ≤ p < 1; ∞ where p = 1 > q."""
    r = arithmetic(_DIGITS)
    first = r.mul(point(q), r.sub(r.ln(point(q)), r.ln(p))) if q else point(0)
    if q == 1.0:
        return first
    if p.upper >= 1:
        return Interval(Decimal("Infinity"), Decimal("Infinity"))
    # −ln(1 − p) without cancellation for small p
    second = r.sub(r.minus_log_one_minus(p), r.minus_log_one_minus(point(q)))
    return r.add(first, r.mul(r.sub(point(1), point(q)), second))


def _least(holds: Callable[[float], bool], low: float) -> float:
    """Return a number up to 1 for which `holds`, about the least above `low`, by bisection in the logarithm near 0."""
    high = 1.0
    for _ in range(_STEPS * 4):
        middle = math.sqrt(low * high) if low > 0.0 else high / 1024.0
        if not low < middle < high or high - low <= 1e-13 * high or high < 1e-300:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
