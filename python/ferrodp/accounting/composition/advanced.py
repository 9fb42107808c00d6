"""Advanced composition: ε grows with the square root of the number of mechanisms, at the price of a small extra δ."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Literal

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Interval, arithmetic, float_up, point
from ferrodp.accounting.composition import guarantees as given
from ferrodp.accounting.composition.basic import sum_of_deltas, sum_of_epsilons
from ferrodp.accounting.composition.guarantees import DIGITS, Guarantee, Guarantees

AdvancedMethod = Literal["kov", "kl", "drv"]
_MAX_FINITE_EXPONENT = 1e6  # e^ε of larger ones is far beyond the range of floats


def compose_advanced(
    guarantees: Guarantees, *, extra_delta: Real, count: int = 1, method: AdvancedMethod = "kov"
) -> Guarantee:
    r"""Return the (ε, δ) of a composition by an advanced composition theorem, rounded up.

    Parameters
    ----------
    guarantees : sequence of (float, float)
        The ε ≥ 0 and δ in [0, 1] of each mechanism; they may differ.
    extra_delta : float
        The δ′ spent for a smaller ε; in (0, 1). It is included in the δ that is returned.
    count : int
        How often the whole list happens; from 0 to 2⁶³ − 1.
    method : {"kov", "kl", "drv"}
        Which theorem; each returns a smaller ε than the next.

    Returns
    -------
    Guarantee
        ε is `inf` where the bound is beyond the range of floats.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    ======  ======================================================  ========================
    "kov"   least of Σεᵢ, "kl" and, for many small εᵢ,              1 − (1 − δ′)·Π(1 − δᵢ)
            M + √(2V·ln(e + √V/δ′))
    "kl"    M + √(2V·ln(1/δ′))                                      1 − (1 − δ′)·Π(1 − δᵢ)
    "drv"   Σεᵢ(e^{εᵢ} − 1) + √(2V·ln(1/δ′))                        δ′ + Σδᵢ
    ======  ======================================================  ========================

    with V = Σεᵢ² and M = Σεᵢ·tanh(εᵢ/2). "kov": [KOV15] Theorem 3.5. "drv": [DRV10] Theorem III.3. "kl" is the latter
    with the exact mean of the privacy loss of the worst pair, randomized response on ±εᵢ ([KOV15] proof of Theorem
    3.3), and Hoeffding's inequality for losses of range 2εᵢ. About 0.2 ms.

    Examples
    --------
    >>> compose_advanced([(0.1, 0.0)], count=100, extra_delta=1e-6)
    Guarantee(epsilon=5.7561055193357324, delta=1e-06)
    >>> compose_advanced([(0.1, 0.0)], count=100, extra_delta=1e-6, method="drv").epsilon
    6.308230950513409
    """
    found = given.counted(guarantees, count)
    extra = _validate.delta(extra_delta, name="extra_delta", toward="up")
    if not isinstance(method, str) or method not in ("kov", "kl", "drv"):
        raise _validate.out_of_domain("method", '"kov", "kl" or "drv"', method)
    epsilon = _epsilon(found, extra, method)
    return Guarantee(epsilon, sum_of_deltas(found, extra) if method == "drv" else _joint_delta(found, extra))


def _epsilon(found: Counter[Guarantee], extra: float, method: AdvancedMethod) -> float:
    r = arithmetic(DIGITS)
    if method == "drv" and any(each.epsilon > _MAX_FINITE_EXPONENT for each in found):
        return math.inf
    mean_of = _overshoot if method == "drv" else given.tanh_of_half
    epsilons = [(times, point(each.epsilon)) for each, times in found.items()]
    mean = given.weighted_sum((times, r.mul(epsilon, mean_of(epsilon))) for times, epsilon in epsilons)
    square = given.weighted_sum((times, r.square(epsilon)) for times, epsilon in epsilons)
    doubled = r.mul(point(2), square)
    logarithm = r.ln(point(extra)).negated()
    bound = r.add(mean, r.sqrt(r.mul(doubled, logarithm))).upper
    if method == "kov":
        argument = r.add(r.exp(point(1)), r.div(r.sqrt(square), point(extra)))
        bound = min(bound, r.add(mean, r.sqrt(r.mul(doubled, r.ln(argument)))).upper)
        return min(float_up(bound), sum_of_epsilons(found))
    return float_up(bound)


def _overshoot(epsilon: Interval) -> Interval:
    """Return e^ε − 1 = (1 − e^{−ε})·e^ε."""
    r = arithmetic(DIGITS)
    return r.mul(r.one_minus_exp(epsilon.negated()), r.exp(epsilon))


def _joint_delta(found: Counter[Guarantee], extra: float) -> float:
    survival = given.exact_survival(found)
    if survival is not None:
        return _validate.rounded(1 - (1 - Fraction(extra)) * survival, "up")
    r = arithmetic(DIGITS)
    exponent = r.add(given.failure(found), r.minus_log_one_minus(point(extra)))
    if not exponent.upper.is_finite():
        return 1.0
    return min(float_up(r.one_minus_exp(exponent.negated()).upper), 1.0)
