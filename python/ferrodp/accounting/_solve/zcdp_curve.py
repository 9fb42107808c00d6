"""From ρ-zCDP to (ε, δ) and back, each on its safe side.

ρ-zCDP bounds the Rényi divergence of every order α > 1 by αρ (Bun, Steinke, "Concentrated differential privacy", TCC
2016, Definition 1.1). For every α it follows that (Canonne, Kamath, Steinke, "The discrete Gaussian for differential
privacy", NeurIPS 2020, Proposition 12 and Corollary 13)

    δ = e^{(α−1)(αρ−ε)}·(1 − 1/α)^α/(α − 1),

so every α may be tried, and none can be wrong. Here t = α − 1, exactly a float, and u = −ln(1 − 1/α):

    ln δ(t) = t·((1+t)ρ − ε − u) − ln(1+t)             least where (2t+1)ρ − ε − u = 0
    ε(t)    = (1+t)ρ + (ln 1/δ − ln(1+t))/t − u        least where t²ρ + ln(1+t) = ln 1/δ
    ρ(t)    = (ε + u − (ln 1/δ − ln(1+t))/t)/(1+t)     greatest where t²ρ(t) + ln(1+t) = ln 1/δ

Left of each of the three places the derivative has one sign and right of it the other, so that bisection in floats
proposes t; an error in t counts squared. The value at t is enclosed in decimals of 50 digits.

Decimals are fast enough here: a conversion takes 0.3 ms of one core (2026-11).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from ferrodp._numerics.intervals import ONE, ZERO, Interval, arithmetic, exact, float_up, point
from ferrodp._numerics.rounding import fraction_up
from ferrodp.accounting._solve.costs import Cost, with_failure, without_failure

_DIGITS = 50
_DIGITS_OF_RHO = 120
_LIMIT = 690.0
"""|ln t| stays below it, so that t and 1/t are floats."""
_STEPS = 62  # halve 2·690 to below an ulp


def delta(rho: Interval, epsilon: float) -> Decimal:
    """Return an upper bound on δ(ε) for ρ ≥ 0, ε ≥ 0."""
    if not rho.upper:
        return ZERO
    r, rate = arithmetic(_DIGITS), _rate(rho)
    t = _crossing(lambda t: (2.0 * t + 1.0) * rate - epsilon - math.log1p(1.0 / t))
    slope = r.sub(r.sub(r.mul(r.add(point(1), t), rho), point(epsilon)), _gap(t))
    logarithm = r.sub(r.mul(t, slope), r.ln(r.add(point(1), t)))
    return ONE if logarithm.upper >= ZERO else min(r.exp(logarithm).upper, ONE)


def epsilon(rho: Interval, target: float) -> Decimal:
    """Return an upper bound on the ε ≥ 0 that ρ-zCDP implies for 0 < δ < 1."""
    if not rho.upper:
        return ZERO
    r, rate, goal = arithmetic(_DIGITS), _rate(rho), -math.log(target)
    t = _crossing(lambda t: t * t * rate + math.log1p(t) - goal)
    bound = r.sub(r.add(r.mul(r.add(point(1), t), rho), _rest(t, target)), _gap(t))
    return max(bound.upper, ZERO)


def epsilon_of(cost: Cost, target: float) -> float:
    """Return an upper bound on ε at 0 < δ < 1 of a Σρ that holds but for a probability of failure."""
    rest = without_failure(Fraction(target), cost.delta)
    return float_up(epsilon(_interval(cost.amount), rest)) if rest > 0.0 else math.inf


def delta_of(cost: Cost, epsilon: float) -> float:
    """Return an upper bound on δ at ε ≥ 0 of a Σρ that holds but for a probability of failure."""
    return with_failure(fraction_up(delta(_interval(cost.amount), epsilon)), min(cost.delta, Fraction(1)))


def simple_epsilon(rho: Interval, target: float) -> Decimal:
    """Return an upper bound on ρ + 2·√(ρ·ln(1/δ)): Bun, Steinke 2016, Proposition 1.3."""
    r = arithmetic(_DIGITS)
    root = r.sqrt(r.mul(rho, r.ln(point(target)).negated()))
    return r.add(rho, r.mul(point(2), root)).upper


def rho(epsilon: float, target: float) -> Decimal:
    """Return a ρ ≥ 0, within rounding the largest, for which ρ-zCDP implies (ε, δ)."""
    r, goal = arithmetic(_DIGITS), -math.log(target)

    def excess(t: float) -> float:
        left = goal - math.log1p(t)
        return t / (1.0 + t) * (t * (epsilon + math.log1p(1.0 / t)) - left) - left

    t = _crossing(excess)
    bound = r.sub(r.add(point(epsilon), _gap(t)), _rest(t, target))
    return max(r.div(bound, r.add(point(1), t)).lower, ZERO)


def simple_rho(epsilon: float, target: float) -> Decimal:
    """Return (√(ε + ln 1/δ) − √(ln 1/δ))², rounded down: the inverse of `simple_epsilon`."""
    r = arithmetic(_DIGITS)
    goal = r.ln(point(target)).negated()
    longer = r.sqrt(r.add(point(epsilon), goal))
    return r.square(r.div(point(epsilon), r.add(longer, r.sqrt(goal)))).lower


def _interval(rho: Fraction) -> Interval:
    """Return the decimals around a rational."""
    return arithmetic(_DIGITS_OF_RHO).ratio(rho) if rho else point(0)


def _rate(rho: Interval) -> float:
    """Return about ρ, as a float > 0."""
    return max(float(rho.upper), math.ulp(0.0))


def _gap(t: Interval) -> Interval:
    """Return u = −ln(1 − 1/α)."""
    r = arithmetic(_DIGITS)
    return r.minus_log_one_minus(r.div(point(1), r.add(point(1), t)))


def _rest(t: Interval, target: float) -> Interval:
    """Return (ln 1/δ − ln(1+t))/t."""
    r = arithmetic(_DIGITS)
    return r.div(r.sub(r.ln(point(target)).negated(), r.ln(r.add(point(1), t))), t)


def _crossing(function: Callable[[float], float]) -> Interval:
    """Return about where a function of t that is negative first and positive then changes its sign."""
    low, high = -_LIMIT, _LIMIT
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        if function(math.exp(middle)) < 0.0:
            low = middle
        else:
            high = middle
    return point(exact(math.exp(high)))
