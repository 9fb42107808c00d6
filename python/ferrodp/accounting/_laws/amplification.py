"""Amplification by sampling: ln(1 + q(e^ε − 1)), rounded up.

In decimals of 60 digits, which is fast enough for what is asked once per event: 0.3 ms.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ferrodp._numerics.intervals import arithmetic, point
from ferrodp._numerics.rounding import fraction_up

_DIGITS = 60


def amplified(epsilon: Fraction, chance: Fraction) -> Fraction:
    """Return an upper bound on ln(1 + q(e^ε − 1)), to some 50 digits."""
    if not epsilon or not chance:
        return Fraction(0)
    if chance == 1:
        return epsilon
    r = arithmetic(_DIGITS)
    loss, q = r.ratio(epsilon), r.ratio(chance)
    if (float(min(epsilon, Fraction(10**6))) if epsilon > 1 else _log(epsilon)) + _log(chance) > -1.0:
        rest = r.mul(r.sub(point(1), q), r.exp(loss.negated()))
        return min(fraction_up(r.add(loss, r.ln(r.add(q, rest))).upper), epsilon)
    growth = r.mul(q, r.mul(r.one_minus_exp(loss.negated()), r.exp(loss)))  # below 1
    part = r.div(growth, r.add(point(1), growth))
    return min(fraction_up(r.minus_log_one_minus(part).upper), epsilon)


def _log(value: Fraction) -> float:
    """Return approximately ln of a rational > 0, which may be outside the range of floats."""
    return math.log(value.numerator) - math.log(value.denominator)
