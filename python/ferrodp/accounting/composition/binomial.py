"""The loss of k randomized responses on ±ε, summed with a counted error.

The worst (ε, 0)-private mechanism gives the right one of two answers with probability p = e^ε/(1 + e^ε) ([KOV15] proof
of Theorem 3.3). After k of them, of which j were right, the loss is (2j − k)ε, and

    δ(E) = Σ_{j ≥ m} t_j·c_j,   t_j = C(k, j)·p^j·(1 − p)^{k−j},   c_j = 1 − e^{E − (2j−k)ε},

m the first j with (2j − k)ε > E. One t_j, at the anchor, is enclosed in decimals (Stirling's series); the others follow
by ratios, outward from the anchor and as far as they count, and the c_j by c_{j+1} = y·c_j + (1 − y), y = e^{−2ε}. All
terms are positive and nothing is subtracted.

Error budget in units u = 2⁻⁵³, at most n terms away from the anchor. t: a quotient, two products and the rounded e^ε
(2u), 5n in all. c: powers of y, 3n (product, rounded y), their sum n more, two factors 6. Product and sum: 1 + n. That
is below (10n + 10)u to first order, and `slack` allows 11n + 16, which also covers the last sums and their rounding.

Decimals are fast enough here: the optimal ε of up to 10³ equal mechanisms takes 10 ms of one core, of which one δ is a
twentieth (2026-11).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ferrodp._numerics.binomial import log_factorial
from ferrodp._numerics.intervals import ZERO, Interval, arithmetic, exact, float_up, point
from ferrodp.accounting.composition.guarantees import DIGITS

Floats = NDArray[np.float64]
MAX_COUNT = 10**10
"""Larger counts would take too long: some 10⁶ terms here, and √k more."""
_UNIT = 2.0**-53
_UNDERFLOW = 2.0**-1000
"""More than the error of terms below the normal floats; it matters only for ε below 10⁻²⁸⁰."""
_MAX_EPSILON = 600.0
"""For larger ε, the terms below the anchor are left to the bound on what is cut off."""


class Window(NamedTuple):
    """Probabilities t_j/t_anchor for consecutive j from `first` on, and bounds on the sums of those on either side."""

    first: int
    anchor: int
    ratios: Floats
    below: float
    above: float


def window(count: int, epsilon: float, start: int, width: float = 10.0) -> Window:
    """Return the t_j/t_anchor, j ≥ start, within so many standard deviations of the anchor, and bounds on the others.

    The anchor is the mode or, beyond it, `start`.
    """
    mode = _mode(count, epsilon)
    anchor = max(start, mode)
    rate = math.exp(-min(epsilon, _MAX_EPSILON))
    spread = math.sqrt(count * rate) / (1.0 + rate)
    reach = int(width * spread) + 60
    first = anchor if epsilon > _MAX_EPSILON else max(start, anchor - reach)
    last = min(count, anchor + reach)
    e_down, e_up = _exponentials(epsilon)
    down = np.arange(anchor, first, -1, dtype=np.float64)
    up = np.arange(anchor, last, 1, dtype=np.float64)
    falling = np.multiply.accumulate(down / (count + 1.0 - down) * e_down)
    rising = np.multiply.accumulate((count - up) / (up + 1.0) * e_up) if up.size else up
    ratios = np.concatenate([falling[::-1], [1.0], rising])
    below = 0.0 if first == start else _geometric(ratios[0], first / (count + 1 - first) * e_down)
    above = 0.0 if last == count else _geometric(ratios[-1], (count - last) / (last + 1) * e_up)
    return Window(first, anchor, ratios, below, above)


def slack(num_terms: int) -> float:
    """Return the relative error that sums over a window of so many terms stay below: see the module's budget."""
    return (11 * num_terms + 16) * _UNIT * 1.01


def first_above(count: int, epsilon: float, total: float) -> int:
    """Return m, the smallest j ≥ 0 with (2j − count)·epsilon > total, in exact arithmetic."""
    return max(int((Fraction(total) / Fraction(epsilon) + count) // 2) + 1, 0)


def delta(count: int, epsilon: float, total: float) -> Interval:
    """Return δ(total) of `count` ≤ `MAX_COUNT` randomized responses on ±epsilon, for epsilon > 0, total ≥ 0."""
    start = first_above(count, epsilon, total)
    if start > count:
        return point(0)
    terms = window(count, epsilon, start)
    r = arithmetic(DIGITS)
    loss = r.mul(point(2 * terms.first - count), point(epsilon))
    complement = r.one_minus_exp(_not_above_zero(r.sub(point(total), loss)))
    factors = rising_factors(float(complement.upper), r.mul(point(-2), point(epsilon)), terms.ratios.size)
    total_sum = float(np.add.accumulate(terms.ratios * factors)[-1])
    error = slack(terms.ratios.size)
    cut = (terms.below * float(complement.upper) + terms.above) * (1.0 + error)
    width = float_up(r.up.subtract(complement.upper, complement.lower)) * terms.ratios.size
    upper = total_sum * (1.0 + error) + cut + _UNDERFLOW * terms.ratios.size
    lower = total_sum * (1.0 - error) - width - _UNDERFLOW * terms.ratios.size
    scale = r.exp(log_probability(count, epsilon, terms.anchor))
    return r.mul(scale, Interval(exact(max(lower, 0.0)), exact(upper)))


def rising_factors(first: float, step: Interval, size: int) -> Floats:
    """Return c₀ = first and c_{i+1} = y·c_i + (1 − y), y = e^step for a step < 0.

    Their relative error is below (4·size + 8)·2⁻⁵³.
    """
    r = arithmetic(DIGITS)
    y, rest = float(r.exp(step).upper), float(r.one_minus_exp(step).upper)
    powers = np.multiply.accumulate(np.concatenate([[1.0], np.full(size - 1, y)]))
    return np.asarray(first * powers + np.add.accumulate(np.concatenate([[0.0], rest * powers[:-1]])), dtype=np.float64)


def tail(count: int, epsilon: float, start: int) -> Interval:
    """Return P[J ≥ start] = Σ_{j ≥ start} t_j, for `count` ≤ `MAX_COUNT` and ε ≥ 0."""
    if start <= 0:
        return point(1)
    if start > count:
        return point(0)
    terms = window(count, epsilon, start)
    value, error = float(np.add.accumulate(terms.ratios)[-1]), slack(terms.ratios.size)
    upper = (value + terms.below + terms.above) * (1.0 + error)
    r = arithmetic(DIGITS)
    scale = r.exp(log_probability(count, epsilon, terms.anchor))
    return r.mul(scale, Interval(exact(value * (1.0 - error)), exact(upper)))


def log_probability(count: int, epsilon: float, successes: int) -> Interval:
    """Return ln t_j = ln C(k, j) − k·ln(1 + e^{−ε}) − (k − j)ε."""
    r = arithmetic(DIGITS)
    choose = r.sub(log_factorial(count), r.add(log_factorial(successes), log_factorial(count - successes)))
    normalizer = r.mul(point(count), r.ln(r.add(point(1), r.exp(point(-epsilon)))))
    return r.sub(choose, r.add(normalizer, r.mul(point(count - successes), point(epsilon))))


def _mode(count: int, epsilon: float) -> int:
    """Return approximately the likeliest j; the ratios and their bounds hold for any."""
    return min(count, int((count + 1) / (1.0 + math.exp(-min(epsilon, _MAX_EPSILON)))))


def _geometric(term: float, ratio: float) -> float:
    """Return an upper bound on term·(ratio + ratio² + …), as ratios fall outward; ∞ if that does not end."""
    ratio = float(ratio) * (1.0 + 8.0 * _UNIT)
    return math.inf if ratio >= 1.0 else float(term) * ratio / (1.0 - ratio) * (1.0 + 8.0 * _UNIT)


def _exponentials(epsilon: float) -> tuple[float, float]:
    """Return e^{−ε} and e^ε, rounded up, the latter where it is a float."""
    r = arithmetic(DIGITS)
    return float_up(r.exp(point(-epsilon)).upper), float_up(r.exp(point(min(epsilon, _MAX_EPSILON))).upper)


def _not_above_zero(x: Interval) -> Interval:
    return Interval(min(x.lower, ZERO), min(x.upper, ZERO))
