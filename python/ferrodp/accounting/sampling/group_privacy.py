"""Group privacy: what a guarantee for one unit of privacy implies for a group of units."""

from __future__ import annotations

from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import arithmetic, float_up, point
from ferrodp.accounting.composition.guarantees import Guarantee

_DIGITS = 50


def group_privacy(*, epsilon: Real, delta: Real = 0.0, size: int) -> Guarantee:
    """Return the (ε, δ) that every (ε, δ)-private mechanism has for groups, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee for one unit of privacy; ε ≥ 0 finite, δ in [0, 1]. Rounded up if not exactly
        representable.
    size : int
        In how many units, k, two neighbors differ; from 1 to 2⁶³ − 1.

    Returns
    -------
    Guarantee
        kε and δ·(e^{kε} − 1)/(e^ε − 1), at most 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    k steps from one dataset to the other, one unit each (a sharper form of [Vad17] Lemma 2.2). This is true of *every*
    such mechanism. For a known one, state the sensitivity of the group, which gives less: Gaussian noise with
    multiplier z for one unit has multiplier z/k for k units; see `grouped`.

    Examples
    --------
    >>> group_privacy(epsilon=0.5, delta=1e-8, size=3)
    Guarantee(epsilon=1.5, delta=5.367003...e-08)
    """
    each, failure = _validate.non_negative("epsilon", epsilon), _validate.probability("delta", delta)
    number = _validate.count("size", size)
    total = _validate.rounded(number * Fraction(each), "up")
    if not failure or number == 1:
        return Guarantee(total, failure)
    if not each:
        return Guarantee(0.0, min(_validate.rounded(number * Fraction(failure), "up"), 1.0))
    r = arithmetic(_DIGITS)
    if number * Fraction(each) > 10**6:  # (e^{kε} − 1)/(e^ε − 1) ≥ e^{(k−1)ε}, and no δ > 0 is below e^{−745}
        return Guarantee(total, 1.0)
    whole = r.mul(point(number), point(each))
    ratio = r.div(r.one_minus_exp(whole.negated()), r.one_minus_exp(point(-each)))
    factor = r.mul(ratio, r.exp(r.sub(whole, point(each))))
    bound = r.mul(point(failure), factor).upper
    return Guarantee(total, 1.0 if bound >= 1 else float_up(bound))


def group_rho(*, rho: Real, size: int) -> float:
    """Return the ρ that every ρ-zCDP mechanism has for groups, rounded up.

    Parameters
    ----------
    rho : float
        ρ for one unit of privacy; finite, ≥ 0. Rounded up if not exactly representable.
    size : int
        In how many units, k, two neighbors differ; from 1 to 2⁶³ − 1.

    Returns
    -------
    float
        k²ρ ([BS16] Proposition 1.9); `inf` beyond the range of floats.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> group_rho(rho=0.5, size=3)
    4.5
    """
    each, number = Fraction(_validate.non_negative("rho", rho)), _validate.count("size", size)
    return _validate.rounded(number**2 * each, "up")
