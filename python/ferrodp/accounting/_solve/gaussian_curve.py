"""The Gaussian privacy curve δ(ε; μ), enclosed, and its inverses in ε and μ.

For a Gaussian release with noise multiplier z, and for any composition of such releases, neighboring datasets are as
hard to tell apart as N(0, 1) and N(μ, 1): μ = 1/z, and μ² adds up (Dong, Roth, Su, "Gaussian differential privacy",
JRSS B 2022, Theorem 2.7 and Corollary 3.3). The curve is (Balle, Wang, "Improving the Gaussian mechanism for
differential privacy", ICML 2018, Theorem 8)

    δ(ε) = Φ̄(a) − e^ε·Φ̄(b),   a = ε/μ − μ/2,   b = ε/μ + μ/2.

As e^ε·φ(b) = φ(a), this is φ(a)·(M(a) − M(b)) with the Mills ratio M, and

    ∂δ/∂ε = −φ(a)·M(b),   ∂δ/∂μ = φ(a).

δ falls in ε and grows in μ, which is all that the certificates use. Newton's method for ε also stays on the safe side:
ln δ is concave in ε, as δ(ε) = ∫₀^∞ e^{−s}·P[L > ε + s] ds, with a normal loss L, is a marginal of a log-concave
function (Prékopa, "On logarithmic concave measures and functions", 1973).

Decimals are fast enough here: on one core (processor time, 2026-11) δ takes 0.4 ms, ε or a noise multiplier 2.7 ms.
"""

from __future__ import annotations

import functools
from decimal import Decimal
from typing import NamedTuple

from ferrodp._numerics.intervals import (
    ONE,
    ORDINAL_OF_INFINITY,
    ZERO,
    Arithmetic,
    Bounds,
    Interval,
    arithmetic,
    exact,
    first,
    float_of,
    float_up,
    ordinal,
    point,
    tight,
)
from ferrodp._numerics.mills import mills, sqrt_two_pi

DIGITS_OF_MU = 120
"""Digits to which μ² is kept; the evaluation itself never needs more than the last of `_DIGITS`."""
_DIGITS = (40, 64, 110)  # the first is almost always enough; the last covers every cancellation listed in `_curve`
_STEPS = 200  # Newton takes 4 to 12
_TINY_MU = Decimal("1e-12")
_FAR = Decimal(10**10)
_UNKNOWN = Decimal(-(10**6))


class _Curve(NamedTuple):
    """δ = e^exponent · factor, with what the derivatives need: φ(a) = e^exponent · density, M(b) = tail."""

    exponent: Interval
    factor: Interval
    density: Interval
    tail: Interval


@functools.lru_cache(maxsize=1024)
def squared_mu(noise_multiplier: float) -> Interval:
    """Return μ² = 1/z²."""
    r = arithmetic(DIGITS_OF_MU)
    return r.div(point(1), r.square(point(noise_multiplier)))


def _curve(r: Arithmetic, epsilon: Interval, mu_squared: Interval) -> _Curve:
    """Return δ(ε; μ) for ε ≥ 0, μ > 0.

    Digits lost: fewer than 24 in M(a) − M(b) and in 1 − a·M(a) for a < 10¹⁰; fewer than 13 in 1 − …, where δ > 10⁻¹³.
    """
    mu = r.sqrt(mu_squared)
    a = r.div(r.sub(epsilon, r.half(mu_squared)), mu)
    b = r.div(r.add(epsilon, r.half(mu_squared)), mu)
    root = sqrt_two_pi(r)
    exponent = r.half(r.square(a)).negated()
    density = r.div(point(1), root)
    if a.lower > _FAR:
        # 1/(x² + 3) < −M′(x) < 1/(x² + 1), from two convergents of M: a factor that vanishes beside e^{−10²⁰/2}
        slope = Interval(_slope_far(r, b, 3).lower, _slope_far(r, a, 1).upper)
        return _Curve(exponent, r.div(r.mul(mu, slope), root), density, r.div(point(1), b))
    tail = mills(r, b)
    if a.lower < _UNKNOWN and a.upper >= ZERO:
        # for μ beyond 10^(digits): on which side of 0 the difference lies is not known
        return _Curve(point(0), Interval(ZERO, ONE), density, tail)
    if mu.upper < _TINY_MU:
        # ∫ₐᵇ −M′ between the midpoint and the trapezoid rule: −M′ is convex (Hermite and Hadamard)
        middle = r.div(epsilon, mu)
        ends = r.half(r.add(_slope(r, a, mills(r, a)), _slope(r, b, tail)))
        slope = Interval(_slope(r, middle, mills(r, middle)).lower, ends.upper)
        return _Curve(exponent, r.div(r.mul(mu, slope), root), density, tail)
    if a.upper >= ZERO:
        return _Curve(exponent, r.div(r.sub(mills(r, a), tail), root), density, tail)
    density = r.div(r.exp(exponent), root)
    complement = r.mul(density, r.add(mills(r, a.negated()), tail))
    return _Curve(point(0), r.sub(point(1), complement), density, tail)


def _slope(r: Arithmetic, x: Interval, ratio: Interval) -> Interval:
    """Return −M′(x) = 1 − x·M(x)."""
    return r.sub(point(1), r.mul(x, ratio))


def _slope_far(r: Arithmetic, x: Interval, extra: int) -> Interval:
    return r.div(point(1), r.add(r.square(x), point(extra)))


def delta(epsilon: Decimal, mu_squared: Interval) -> Interval:
    """Return δ(ε; μ) for real ε and μ ≥ 0, tightly enough for its floats to be the nearest ones."""
    if not mu_squared.upper:
        return point(0) if epsilon >= ZERO else _of_nothing(epsilon)
    if epsilon < ZERO:
        return _reflected(epsilon, mu_squared)

    def enclose(r: Arithmetic) -> Interval:
        curve = _curve(r, point(epsilon), mu_squared)
        return _clamped(r.mul(r.exp(curve.exponent), curve.factor))

    return tight(enclose, _DIGITS)


def log_delta(epsilon: Decimal, mu_squared: Interval) -> Interval | None:
    """Return ln δ(ε; μ) for ε ≥ 0, or None if μ = 0: the logarithm of nothing."""
    if not mu_squared.upper:
        return None

    def enclose(r: Arithmetic) -> Interval:
        curve = _curve(r, point(epsilon), mu_squared)
        if not curve.factor.is_positive():
            return Interval(Decimal("-Infinity"), ZERO)
        logarithm = r.add(curve.exponent, r.ln(curve.factor))
        return Interval(min(logarithm.lower, ZERO), min(logarithm.upper, ZERO))

    return tight(enclose, _DIGITS)


def _of_nothing(epsilon: Decimal) -> Interval:
    """Return δ(ε) = 1 − e^ε for ε < 0 where nothing at all is released."""
    return tight(lambda r: r.one_minus_exp(point(epsilon)), _DIGITS)


def _reflected(epsilon: Decimal, mu_squared: Interval) -> Interval:
    """Return δ(ε) for ε < 0: δ(−|ε|) = 1 − e^{−|ε|} + e^{−|ε|}·δ(|ε|), as the two laws may change places."""
    opposite = delta(epsilon.copy_negate(), mu_squared)

    def enclose(r: Arithmetic) -> Interval:
        return _clamped(r.add(r.one_minus_exp(point(epsilon)), r.mul(r.exp(point(epsilon)), opposite)))

    return tight(enclose, _DIGITS)


def _clamped(x: Interval) -> Interval:
    return Interval(min(max(x.lower, ZERO), ONE), min(max(x.upper, ZERO), ONE))


def epsilon(target: Decimal, mu_squared: Interval) -> Bounds:
    """Return the floats around the smallest ε ≥ 0 with δ(ε; μ) ≤ target, for 0 < target < 1."""
    if not mu_squared.upper or delta(ZERO, mu_squared).upper <= target:
        return Bounds(0.0, 0.0)

    @functools.cache
    def at(number: int) -> Interval:
        return delta(exact(float_of(number)), mu_squared)

    guess = ordinal(float_up(_newton_for_epsilon(target, mu_squared)))
    upper = first(lambda number: at(number).upper <= target, guess, 0, ORDINAL_OF_INFINITY)
    lower = first(lambda number: at(number).lower < target, upper, 0, upper) - 1
    return Bounds(float_of(max(lower, 0)), float_of(upper))


def _newton_for_epsilon(target: Decimal, mu_squared: Interval) -> Decimal:
    """Return ε with ln δ(ε) = ln target to about 30 digits, by Newton's method from the right.

    Starts from ε = μ²/2 + μ·√(2 ln(1/target)), which is enough (Bun, Steinke, "Concentrated differential privacy", TCC
    2016, Proposition 1.3). Proposes; `epsilon` certifies.
    """
    for digits in _DIGITS:
        r = arithmetic(digits)
        context = r.up
        goal = context.ln(target)
        mu = r.sqrt(mu_squared).upper
        spread = context.sqrt(context.multiply(-2, goal))
        x = context.multiply(mu, context.add(context.divide(mu, 2), spread))
        for _ in range(_STEPS):
            curve = _curve(r, point(x), mu_squared)
            if not curve.factor.is_positive():
                break
            excess = context.subtract(goal, context.add(curve.exponent.upper, context.ln(curve.factor.upper)))
            slope = context.divide(context.multiply(curve.density.upper, curve.tail.upper), curve.factor.upper)
            step = context.divide(excess, slope)
            moved = max(context.subtract(x, step), context.divide(x, 1000))
            if _settled(context.subtract(moved, x), x):
                return moved
            x = moved
    return x


def largest_mu(target: Decimal, epsilon: Decimal) -> Decimal:
    """Return about the largest μ with δ(ε; μ) ≤ target, by Newton's method in ln μ. Proposes; callers certify.

    Starts below it, from μ²/2 + μ·√(2 ln(1/target)) ≤ ε or μ ≤ target·√(2π), whichever is more: either is enough.
    """
    for digits in _DIGITS:
        r = arithmetic(digits)
        context = r.down
        goal = context.ln(target)
        spread = context.multiply(-2, goal)
        longer = context.sqrt(context.add(spread, context.multiply(2, epsilon)))
        short = context.divide(context.multiply(2, epsilon), context.add(longer, context.sqrt(spread)))
        mu = max(short, context.multiply(target, sqrt_two_pi(r).lower))
        for _ in range(_STEPS):
            curve = _curve(r, point(epsilon), r.square(point(mu)))
            if not curve.factor.is_positive():
                break
            shortage = context.subtract(goal, context.add(curve.exponent.upper, context.ln(curve.factor.upper)))
            slope = context.divide(context.multiply(mu, curve.density.upper), curve.factor.upper)
            step = context.divide(shortage, slope) if slope else ONE
            moved = context.multiply(mu, context.exp(min(max(step, ONE.copy_negate()), ONE)))
            if _settled(context.subtract(moved, mu), mu):
                return moved
            mu = moved
    return mu


def _settled(step: Decimal, x: Decimal) -> bool:
    """Whether a Newton step was below 10⁻¹⁵ of x, so that the next one would be near 10⁻³⁰ of it."""
    return not step or step.adjusted() < x.adjusted() - 14
