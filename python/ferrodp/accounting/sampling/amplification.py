"""Privacy amplification: what is released about a secret random sample costs less."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from ferrodp import _validate
from ferrodp._numerics.intervals import arithmetic, point
from ferrodp._validate import Real
from ferrodp.accounting.composition.guarantees import Guarantee

__all__ = ["amplify_by_sampling"]

_DIGITS = 60
_SMALLEST = Decimal("1e-400")


def amplify_by_sampling(*, epsilon: Real, delta: Real = 0.0, sampling_probability: Real) -> Guarantee:
    """Return the (ε, δ) of a mechanism that is run on a secret random sample, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of the mechanism about whatever it is given; ε ≥ 0 finite, δ in [0, 1]. Rounded up if they are no
        floats.
    sampling_probability : float
        The chance of each record to be in the sample; in [0, 1]. Rounded up if it is no float.

    Notes
    -----
    ε′ = ln(1 + q·(e^ε − 1)) and δ′ = q·δ: Balle, Barthe, Gaboardi, "Privacy amplification by subsampling", NeurIPS
    2018.

    ===============================  ============================================================
    Poisson sampling                 both guarantees for adding or removing one record (Theorem 8)
    q·n of n, without replacement    both guarantees for replacing one record (Theorem 9)
    ===============================  ============================================================

    They are the best that hold for every mechanism with the given ε; for Gaussian noise an accountant promises far less
    loss.

    Examples
    --------
    >>> amplify_by_sampling(epsilon=0.1, sampling_probability=0.5)
    Guarantee(epsilon=0.051249479513625594, delta=0.0)
    """
    each = Fraction(_validate.non_negative("epsilon", epsilon))
    failure = Fraction(_validate.probability("delta", delta))
    chance = Fraction(_validate.probability("sampling_probability", sampling_probability))
    return Guarantee(_validate.rounded(amplified(each, chance), "up"), _validate.rounded(chance * failure, "up"))


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
    """Return about ln of a rational > 0, whether or not it is in the range of floats."""
    return math.log(value.numerator) - math.log(value.denominator)


def fraction_up(value: Decimal) -> Fraction:
    """Return a rational that is no smaller: the number itself, but never below 10⁻⁴⁰⁰ if it is > 0.

    A decimal may be so small that its denominator would fill the memory.
    """
    return Fraction(max(value, _SMALLEST)) if value > 0 else Fraction(value)
