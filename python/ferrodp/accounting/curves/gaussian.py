"""The Gaussian mechanism in closed form: δ(ε), ε(δ) and the least noise, each rounded in the safe direction.

All functions are about one release of a vector of any dimension with noise N(0, σ²) in each coordinate, σ = noise
multiplier × L2 sensitivity, for the neighboring relation for which that sensitivity was stated. This package's exactly
rounded release is post-processing of it. `ferrodp_accounting::gaussian` has the formulas and proves the direction of
every rounding.
"""

from __future__ import annotations

import math
import sys
from typing import Literal

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds, arithmetic, float_up, point
from ferrodp.accounting._laws import gaussian_curve as curve
from ferrodp.accounting._upper_bounds import upper_end_of
from ferrodp.errors import CalibrationError, InvalidParameter

CalibrationMethod = Literal["analytic", "classical"]


def gaussian_delta_bounds(*, epsilon: Real, noise_multiplier: Real) -> Bounds:
    """Return the two floats next to the exact δ(ε) of one Gaussian release.

    Parameters
    ----------
    epsilon, noise_multiplier : float
        As for `gaussian_delta`.

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
    >>> gaussian_delta_bounds(epsilon=1.0, noise_multiplier=1.0)
    Bounds(lower=0.12693673750664394, upper=0.12693673750664397)
    """
    return curve.delta(_validate.finite("epsilon", epsilon), _checked(noise_multiplier))


@upper_end_of(gaussian_delta_bounds)
def gaussian_delta() -> None:
    """Return the smallest δ for which one Gaussian release is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; the curve is defined for negative ones too. Rounded down if not exactly representable.
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; finite, > 0. Rounded down if not exactly
        representable.

    Returns
    -------
    float
        The smallest float that is no smaller than the exact δ; never 0, because the exact δ never is.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Notes
    -----
    δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) with μ = 1/noise multiplier: [BW18] Theorem 8. Exact, so no bound is better.
    About 0.3 ms.

    Examples
    --------
    >>> gaussian_delta(epsilon=1.0, noise_multiplier=1.0)
    0.12693673750664397
    """


def gaussian_log_delta(*, epsilon: Real, noise_multiplier: Real) -> float:
    """Return ln δ(ε) of one Gaussian release, rounded up, also where δ is below the range of floats.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. Rounded down if not exactly representable.
    noise_multiplier : float
        As for `gaussian_delta`.

    Returns
    -------
    float
        The smallest float that is no smaller than the exact ln δ.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Examples
    --------
    >>> gaussian_log_delta(epsilon=100.0, noise_multiplier=1.0)
    -4960.25455381742
    """
    epsilon = _validate.non_negative("epsilon", epsilon, toward="down")
    return curve.log_delta(epsilon, _checked(noise_multiplier))


def gaussian_epsilon_bounds(*, delta: Real, noise_multiplier: Real) -> Bounds:
    """Return the two floats next to the exact ε(δ) of one Gaussian release.

    Parameters
    ----------
    delta, noise_multiplier : float
        As for `gaussian_epsilon`.

    Returns
    -------
    Bounds
        A float ≤ ε(δ), at least 0, and the smallest float ≥ ε(δ), perhaps infinite.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Examples
    --------
    >>> gaussian_epsilon_bounds(delta=1e-5, noise_multiplier=1.0)
    Bounds(lower=4.37717809568122..., upper=4.377178095681225)
    """
    return curve.epsilon(_validate.delta(delta), _checked(noise_multiplier))


@upper_end_of(gaussian_epsilon_bounds)
def gaussian_epsilon() -> None:
    """Return the smallest ε ≥ 0 for which one Gaussian release is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1); down to the smallest float. Rounded down if not exactly representable.
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; finite, > 0. Rounded down if not exactly
        representable.

    Returns
    -------
    float
        A float for which δ(ε) ≤ `delta` has been proven.

        ==================================  ===========================================
        δ(0) ≤ `delta`                      0.0: total variation is already below it
        exact ε beyond the range of floats  `inf`
        ==================================  ===========================================

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Notes
    -----
    The inverse of `gaussian_delta`.

    Examples
    --------
    >>> gaussian_epsilon(delta=1e-5, noise_multiplier=1.0)
    4.377178095681225
    """


def gaussian_noise_multiplier(*, epsilon: Real, delta: Real, method: CalibrationMethod = "analytic") -> float:
    """Return the least noise multiplier that makes a Gaussian release (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        As for `gaussian_standard_deviation`.
    method : {"analytic", "classical"}
        As for `gaussian_standard_deviation`.

    Returns
    -------
    float
        The same as `gaussian_standard_deviation` for sensitivity 1.

    Raises
    ------
    InvalidParameter, InvalidType, CalibrationError
        As `gaussian_standard_deviation`.

    Examples
    --------
    >>> gaussian_noise_multiplier(epsilon=1.0, delta=1e-5)
    3.730631634815942
    """
    return gaussian_standard_deviation(epsilon=epsilon, delta=delta, l2_sensitivity=1.0, method=method)


def gaussian_standard_deviation(
    *, epsilon: Real, delta: Real, l2_sensitivity: Real, method: CalibrationMethod = "analytic"
) -> float:
    """Return the least standard deviation that makes a Gaussian release (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0; for the classical method > 0 and at most 1. Rounded down if not exactly representable. With ε = 0,
        `delta` bounds the total variation distance.
    delta : float
        In (0, 1). Rounded down if not exactly representable.
    l2_sensitivity : float
        Largest L2 distance between the released vectors of neighboring datasets, in their units; finite, > 0. Rounded
        up if not exactly representable.
    method : {"analytic", "classical"}
        The exact curve, or the textbook formula, which needs more noise.

    Returns
    -------
    float
        In the units of the sensitivity. δ(ε) ≤ `delta` has been proven for it: it is never too small.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type; for the classical method also if ε > 1, where the
        formula is not a theorem: for large ε it gives too little noise.
    CalibrationError
        If the standard deviation is beyond the range of floats.

    Notes
    -----
    "analytic": [BW18] Theorem 8 and Algorithm 1. "classical": σ = Δ·√(2 ln(1.25/δ))/ε, [DR14] Theorem A.1, for ε < 1;
    for ε = 1 by continuity. Its answer too is proven on the exact curve.

    Examples
    --------
    >>> gaussian_standard_deviation(epsilon=1.0, delta=1e-5, l2_sensitivity=0.5)
    1.865315817407971
    >>> gaussian_standard_deviation(epsilon=1.0, delta=1e-5, l2_sensitivity=0.5, method="classical")
    2.422402631302695
    """
    epsilon = _validate.non_negative("epsilon", epsilon, toward="down")
    delta = _validate.delta(delta)
    sensitivity = _validate.positive("l2_sensitivity", l2_sensitivity)
    if not isinstance(method, str) or method not in ("analytic", "classical"):
        raise _validate.out_of_domain("method", '"analytic" or "classical"', method)
    if method == "classical":
        return _classical(epsilon, delta, sensitivity)
    found = _native.gaussian_standard_deviation(epsilon, delta, sensitivity)
    if found == math.inf:
        raise CalibrationError(
            f"no float is the standard deviation for epsilon={epsilon!r} and delta={delta!r}: "
            f"the largest one, {sys.float_info.max!r}, is too little"
        )
    return found


def _classical(epsilon: float, delta: float, sensitivity: float) -> float:
    _validate.positive("epsilon", epsilon)
    if epsilon > 1.0:
        raise InvalidParameter(
            f"epsilon must be at most 1 for the classical method, got {epsilon!r}: its proof needs that, "
            'and for larger epsilon the formula can give too little noise; use method="analytic"'
        )
    r = arithmetic(40)
    logarithm = r.ln(r.div(point(1.25), point(delta)))
    factor = r.sqrt(r.mul(point(2), logarithm))
    sigma = float_up(r.div(r.mul(point(sensitivity), factor), point(epsilon)).upper)
    if not (sigma < math.inf and _native.gaussian_is_enough(sigma, epsilon, delta, sensitivity)):
        raise CalibrationError(f"the classical formula gives {sigma!r}, which is not proven to be enough")
    return sigma


def _checked(noise_multiplier: Real) -> float:
    return _validate.positive("noise_multiplier", noise_multiplier, toward="down")
