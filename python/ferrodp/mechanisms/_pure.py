"""The (ε, δ) curves that pure differential privacy and bounded range imply, and their inverses, rounded up.

*ε₀-differential privacy.* An event has probabilities p and q with q ≥ p·e^−ε₀ and 1 − q ≤ (1 − p)·e^ε₀. So p − e^ε·q is
largest where both are equalities, p = e^ε₀/(1 + e^ε₀) and q = 1/(1 + e^ε₀): δ(ε) = (e^ε₀ − e^ε)/(1 + e^ε₀) for ε ≤ ε₀,
the curve of randomized response on one bit [KOV15].

*η-bounded range.* Losses L lie between t − η and t for some t, and E[e^L] = 1 under the second law, where
δ(ε) = E[(e^L − e^ε)₊]: a mean of a convex function of e^L, which is largest if L is at the two ends alone. That is
(1 − e^(t−η))·(1 − e^(ε−t))/(1 − e^−η), and largest at t = (η + ε)/2: δ(ε) = (1 − e^((ε−η)/2))²/(1 − e^−η) for
0 ≤ ε ≤ η [DDR20].
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from ferrodp._base import _validate
from ferrodp._numerics.intervals import ONE, ZERO, Arithmetic, Interval, exact, float_up, point, tight

_DIGITS = (40, 110)


class Guarantee(NamedTuple):
    """The two curves of a guarantee, as functions of its parameter and of δ or ε."""

    epsilon: Callable[[Fraction, float], float]
    delta: Callable[[Fraction, float], float]


def delta(pure_epsilon: Fraction, epsilon: float) -> float:
    """Return the smallest δ for which ε₀-differential privacy implies (ε, δ), rounded up; `epsilon` ≥ 0."""

    def curve(r: Arithmetic, gap: Interval, decay: Interval) -> Interval:
        # (1 − e^{ε−ε₀})/(1 + e^−ε₀)
        return r.div(r.one_minus_exp(gap), r.add(point(1), decay))

    return _delta(curve, pure_epsilon, epsilon)


def bounded_range_delta(width: Fraction, epsilon: float) -> float:
    """Return the smallest δ for which η-bounded range implies (ε, δ), rounded up; `epsilon` ≥ 0."""

    def curve(r: Arithmetic, gap: Interval, _: Interval) -> Interval:
        # mutant: curve-of-bounded-range-that-of-range-half
        return r.div(r.square(r.one_minus_exp(r.half(gap))), r.one_minus_exp(r.ratio(-width)))

    return _delta(curve, width, epsilon)


def epsilon(pure_epsilon: Fraction, delta: float) -> float:
    """Return the smallest ε ≥ 0 for which ε₀-differential privacy implies (ε, δ), rounded up; `delta` in [0, 1)."""

    def saved(r: Arithmetic, given: Interval, decay: Interval) -> Interval:
        # ε₀ + ln(1 − δ·(1 + e^−ε₀))
        return r.mul(given, r.add(point(1), decay))

    return _epsilon(saved, 1, pure_epsilon, delta)


def bounded_range_epsilon(width: Fraction, delta: float) -> float:
    """Return the smallest ε ≥ 0 for which η-bounded range implies (ε, δ), rounded up; `delta` in [0, 1)."""

    def saved(r: Arithmetic, given: Interval, _: Interval) -> Interval:
        # η + 2·ln(1 − √(δ·(1 − e^−η)))
        return r.sqrt(r.mul(given, r.one_minus_exp(r.ratio(-width))))

    return _epsilon(saved, 2, width, delta)


Curve = Callable[[Arithmetic, Interval, Interval], Interval]


def _delta(curve: Curve, bound: Fraction, epsilon: float) -> float:
    """Return what `curve` makes of ε − ε₀ ≤ 0 and e^−ε₀, rounded up."""
    if Fraction(epsilon) >= bound:
        return 0.0

    def enclose(r: Arithmetic) -> Interval:
        gap = r.ratio(Fraction(epsilon) - bound)
        return curve(r, Interval(gap.lower, min(gap.upper, ZERO)), r.exp(r.ratio(-bound)))

    return min(float_up(tight(enclose, _DIGITS).upper), 1.0)


def _epsilon(saved: Curve, factor: int, bound: Fraction, delta: float) -> float:
    """Return ε₀ + factor·ln(1 − s), s being what `saved` makes of δ and e^−ε₀; 0 where it is negative or not there."""
    if not delta:
        return _validate.rounded(bound, "up")

    def enclose(r: Arithmetic) -> Interval:
        whole = r.ratio(bound)
        share = saved(r, point(exact(delta)), r.exp(r.ratio(-bound)))
        if share.lower >= ONE:
            return point(0)
        if share.upper >= ONE:  # too close to tell with so few digits
            return Interval(ZERO, whole.upper)
        found = r.sub(whole, r.mul(point(factor), r.minus_log_one_minus(share)))
        return Interval(max(found.lower, ZERO), max(found.upper, ZERO))

    return float_up(tight(enclose, _DIGITS).upper)


PURE = Guarantee(epsilon, delta)
BOUNDED_RANGE = Guarantee(bounded_range_epsilon, bounded_range_delta)
