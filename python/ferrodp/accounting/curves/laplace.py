"""The Laplace mechanism in closed form: δ(ε), ε(δ) and the least scale, each rounded in the safe direction.

All functions are about one release of a vector with independent Laplace noise of scale b in each coordinate and L1
sensitivity Δ, for the neighboring relation for which Δ was stated; ε₀ = Δ/b. This package's exactly rounded release is
post-processing of it.

For ε from 0 to ε₀, δ(ε) = 1 − e^{(ε − ε₀)/2}, and 0 beyond. In one dimension this is the integral itself. In several it
is the worst case, a shift of one coordinate by all of Δ. Proof: shift one coordinate after the other. The trade-off
functions of these steps compose to a bound for the whole shift (the argument of [DRS22] Theorem 2.14, step for step),
and those of shifts of one log-concave law compose to that of the summed shift, because the optimal tests at every step
are thresholds of the same variable.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import ZERO, Arithmetic, Bounds, Interval, bounds_around, exact, point, tight
from ferrodp.accounting._upper_bounds import upper_end_of
from ferrodp.errors import CalibrationError

_DIGITS = (
    40,
    110,
)  # ε − ε₀ cancels fewer than 33: Δ and ε·b, of 53 and 106 bits, differ by at least 2⁻¹⁰⁶ of themselves


def laplace_delta_bounds(*, epsilon: Real, noise_multiplier: Real) -> Bounds:
    """Return the two floats next to the exact δ(ε) of one Laplace release.

    Parameters
    ----------
    epsilon, noise_multiplier : float
        As for `laplace_delta`.

    Returns
    -------
    Bounds
        The largest float ≤ δ(ε) and the smallest float ≥ δ(ε).

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Examples
    --------
    >>> laplace_delta_bounds(epsilon=1.0, noise_multiplier=1.0)
    Bounds(lower=0.0, upper=0.0)
    """
    multiplier = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    return delta_bounds(_validate.finite("epsilon", epsilon), 1.0, multiplier)


@upper_end_of(laplace_delta_bounds)
def laplace_delta() -> None:
    """Return the smallest δ for which one Laplace release is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; the curve is defined for negative ones too. Rounded down if not exactly representable.
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity; finite, > 0. Rounded down if not exactly representable.

    Returns
    -------
    float
        The smallest float that is no smaller than the exact δ.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Notes
    -----
    ================  ============================
    ε ≥ ε₀            0
    −ε₀ ≤ ε ≤ ε₀      1 − e^{(ε − ε₀)/2}
    ε ≤ −ε₀           1 − e^ε
    ================  ============================

    ε₀ is the inverse of the noise multiplier; the privacy loss stays within [−ε₀, ε₀] ([DMNS06] Proposition 1).

    Examples
    --------
    >>> laplace_delta(epsilon=0.5, noise_multiplier=1.0)
    0.22119921692859515
    >>> laplace_delta(epsilon=1.0, noise_multiplier=1.0)
    0.0
    """


def delta_bounds(epsilon: float, sensitivity: float, scale: float) -> Bounds:
    """Return the floats next to δ(ε) for ε₀ = sensitivity/scale, the ratio taken exactly."""
    if Fraction(epsilon) * Fraction(scale) >= Fraction(sensitivity):
        return Bounds(0.0, 0.0)
    at = exact(epsilon)

    def enclose(r: Arithmetic) -> Interval:
        half = r.half(r.sub(point(at), r.div(point(sensitivity), point(scale))))
        return r.one_minus_exp(Interval(min(half.lower, at), min(half.upper, at, ZERO)))

    return tight(enclose, _DIGITS).floats()


def laplace_epsilon_bounds(*, delta: Real = 0.0, noise_multiplier: Real) -> Bounds:
    """Return the two floats next to the exact ε(δ) of one Laplace release.

    Parameters
    ----------
    delta, noise_multiplier : float
        As for `laplace_epsilon`.

    Returns
    -------
    Bounds
        The largest float ≤ ε(δ) and the smallest float ≥ ε(δ).

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Examples
    --------
    >>> laplace_epsilon_bounds(noise_multiplier=4.0)
    Bounds(lower=0.25, upper=0.25)
    """
    multiplier = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    return epsilon_bounds(_validate.delta(delta, zero=True), 1.0, multiplier)


@upper_end_of(laplace_epsilon_bounds)
def laplace_epsilon() -> None:
    """Return the smallest ε ≥ 0 for which one Laplace release is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    delta : float
        In [0, 1); 0 for pure differential privacy. Rounded down if not exactly representable.
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity; finite, > 0. Rounded down if not exactly representable.

    Returns
    -------
    float
        ε₀ + 2·ln(1 − δ), at least 0: the inverse of `laplace_delta`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Examples
    --------
    >>> laplace_epsilon(noise_multiplier=4.0)
    0.25
    >>> laplace_epsilon(noise_multiplier=4.0, delta=0.01)
    0.22989932829299714
    """


def epsilon_bounds(delta: float, sensitivity: float, scale: float) -> Bounds:
    """Return the floats next to ε(δ) for ε₀ = sensitivity/scale, the ratio taken exactly."""
    if not delta:  # rational, and perhaps exactly a float, which no number of digits would show
        return bounds_around(Fraction(sensitivity) / Fraction(scale))

    def enclose(r: Arithmetic) -> Interval:
        pure = r.div(point(sensitivity), point(scale))
        saved = r.mul(point(2), r.minus_log_one_minus(point(delta)))
        epsilon = r.sub(pure, saved)
        return Interval(max(epsilon.lower, ZERO), max(epsilon.upper, ZERO))

    return tight(enclose, _DIGITS).floats()


def laplace_scale(*, epsilon: Real, delta: Real = 0.0, l1_sensitivity: Real) -> float:
    """Return the least scale that makes a Laplace release (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    epsilon : float
        Finite, > 0. Taken exactly: `Fraction(1, 10)` and `Decimal("0.1")` mean one tenth.
    delta : float
        In [0, 1). Rounded down if not exactly representable.
    l1_sensitivity : float
        Largest L1 distance between the released vectors of neighboring datasets, in their units; finite, > 0. Taken
        exactly.

    Returns
    -------
    float
        Δ/(ε − 2·ln(1 − δ)), in the units of the sensitivity; for δ = 0 the scale Δ/ε of pure differential privacy.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.
    CalibrationError
        If the scale is beyond the range of floats.

    Examples
    --------
    >>> laplace_scale(epsilon=0.1, l1_sensitivity=1.0)
    10.0
    """
    _validate.positive("epsilon", epsilon)
    _validate.positive("l1_sensitivity", l1_sensitivity)
    target = _validate.exact("epsilon", epsilon)
    sensitivity = _validate.exact("l1_sensitivity", l1_sensitivity)
    delta = _validate.delta(delta, zero=True)

    def enclose(r: Arithmetic) -> Interval:
        allowed = r.add(r.ratio(target), r.mul(point(2), r.minus_log_one_minus(point(delta))))
        return r.div(r.ratio(sensitivity), allowed)

    scale = tight(enclose, _DIGITS).floats().upper if delta else _validate.rounded(sensitivity / target, "up")
    if not scale < math.inf:
        raise CalibrationError(f"no float is the scale for epsilon={epsilon!r}: it is beyond what floats can hold")
    return scale
