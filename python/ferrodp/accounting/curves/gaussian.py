"""The Gaussian mechanism in closed form: δ(ε), ε(δ) and the least noise, each proven on its safe side.

Everything here speaks of one release of a vector of any dimension with noise N(0, σ²) in each coordinate, σ = noise
multiplier × L2 sensitivity, for the neighboring relation in which that sensitivity was stated. The exactly rounded
release of this package is post-processing of it. `_gaussian_curve` has the formulas and proves their direction.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from ferrodp import _validate
from ferrodp._numerics.intervals import (
    ORDINAL_OF_INFINITY,
    Bounds,
    Interval,
    arithmetic,
    exact,
    first,
    float_of,
    float_up,
    ordinal,
    point,
)
from ferrodp._validate import Real
from ferrodp.accounting._solve import gaussian_curve as curve
from ferrodp.errors import CalibrationError, InvalidParameter

CalibrationMethod = Literal["analytic", "classical"]


def gaussian_delta(*, epsilon: Real, noise_multiplier: Real) -> float:
    """Return the smallest δ for which one Gaussian release is (ε, δ)-differentially private, rounded up.

    The result is the smallest float that is no smaller than the exact δ; never 0, as the exact one never is.

    Parameters
    ----------
    epsilon : float
        Any finite number; negative ones are on the curve too. Rounded down if it is no float.
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; finite, > 0. Rounded down if it is no float.

    Notes
    -----
    δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) with μ = 1/noise multiplier: Balle, Wang, "Improving the Gaussian mechanism for
    differential privacy", ICML 2018, Theorem 8. Exact, so there is no better bound. About 0.2 ms.

    Examples
    --------
    >>> gaussian_delta(epsilon=1.0, noise_multiplier=1.0)
    0.12693673750664397
    """
    return gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=noise_multiplier).upper


def gaussian_delta_bounds(*, epsilon: Real, noise_multiplier: Real) -> Bounds:
    """Return the two floats around the exact δ(ε) of one Gaussian release; see `gaussian_delta`."""
    epsilon = real("epsilon", epsilon)
    return curve.delta(exact(epsilon), _squared_mu(noise_multiplier)).floats()


def gaussian_log_delta(*, epsilon: Real, noise_multiplier: Real) -> float:
    """Return ln δ(ε), rounded up: for δ below the range of floats. See `gaussian_delta`; needs ε ≥ 0.

    Examples
    --------
    >>> gaussian_log_delta(epsilon=100.0, noise_multiplier=1.0)
    -4960.25455381742
    """
    epsilon = _validate.non_negative("epsilon", epsilon, toward="down")
    logarithm = curve.log_delta(exact(epsilon), _squared_mu(noise_multiplier))
    assert logarithm is not None, "a noise multiplier is finite"
    return logarithm.floats().upper


def gaussian_epsilon(*, delta: Real, noise_multiplier: Real) -> float:
    """Return the smallest ε ≥ 0 for which one Gaussian release is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1); down to the smallest float. Rounded down if it is no float.
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; finite, > 0. Rounded down if it is no float.

    Notes
    -----
    The inverse of `gaussian_delta`, certified: δ(result) ≤ `delta` was proven for the returned float.

    ==================================  =======================================
    δ(0) ≤ `delta`                      0.0: total variation is already below it
    exact ε beyond the range of floats  `inf`
    ==================================  =======================================

    Examples
    --------
    >>> gaussian_epsilon(delta=1e-5, noise_multiplier=1.0)
    4.377178095681225
    """
    return gaussian_epsilon_bounds(delta=delta, noise_multiplier=noise_multiplier).upper


def gaussian_epsilon_bounds(*, delta: Real, noise_multiplier: Real) -> Bounds:
    """Return the two floats around the exact ε(δ) of one Gaussian release; see `gaussian_epsilon`."""
    return curve.epsilon(exact(_validate.delta(delta)), _squared_mu(noise_multiplier))


def gaussian_noise_multiplier(*, epsilon: Real, delta: Real, method: CalibrationMethod = "analytic") -> float:
    """Return the least noise multiplier that makes a Gaussian release (ε, δ)-differentially private, rounded up.

    Equal to `gaussian_standard_deviation` for sensitivity 1.

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

    δ(ε) ≤ `delta` was proven for the returned float: it is never too small.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0; for the classical method > 0 and at most 1. Rounded down if it is no float. With ε = 0, `delta`
        bounds the total variation distance.
    delta : float
        In (0, 1). Rounded down if it is no float.
    l2_sensitivity : float
        Largest L2 distance between the released vectors of neighboring datasets, in their units; finite, > 0. Rounded
        up if it is no float.
    method : {"analytic", "classical"}
        The exact curve, or the textbook formula, which asks for more noise.

    Raises
    ------
    InvalidParameter
        If a parameter is out of its domain; for the classical method also if ε > 1, where the formula is no longer a
        theorem: beyond some ε it gives too little noise.
    CalibrationError
        If the standard deviation lies beyond the range of floats.

    Notes
    -----
    "analytic": Balle, Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8 and
    Algorithm 1. "classical": σ = Δ·√(2 ln(1.25/δ))/ε, Dwork, Roth, "The algorithmic foundations of differential
    privacy", 2014, Theorem A.1, for ε < 1; for ε = 1 by continuity. Its answer too is proven on the exact curve.

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
    r = arithmetic(curve.DIGITS_OF_MU)
    proposal = float_up(r.up.divide(exact(sensitivity), curve.largest_mu(exact(delta), exact(epsilon))))
    number = first(
        lambda n: n > 0 and is_enough(float_of(n), epsilon, delta, sensitivity),
        ordinal(proposal),
        0,
        ORDINAL_OF_INFINITY,
    )
    if number == ORDINAL_OF_INFINITY:
        raise CalibrationError(
            f"no float is the standard deviation for epsilon={epsilon!r} and delta={delta!r}: "
            f"the largest one, {sys.float_info.max!r}, is too little"
        )
    return float_of(number)


def is_enough(sigma: float, epsilon: float, delta: float, sensitivity: float) -> bool:
    """Whether noise of standard deviation `sigma` is proven to give (ε, δ)."""
    r = arithmetic(curve.DIGITS_OF_MU)
    mu = r.div(point(sensitivity), point(sigma))
    return curve.delta(exact(epsilon), r.square(mu)).upper <= exact(delta)


def _classical(epsilon: float, delta: float, sensitivity: float) -> float:
    _validate.positive("epsilon", epsilon)
    if epsilon > 1.0:
        raise InvalidParameter(
            f"epsilon must be at most 1 for the classical method, got {epsilon!r}: its proof needs that, "
            'and for larger epsilon the formula can give too little noise; use method="analytic"'
        )
    r = arithmetic(40)
    logarithm = r.ln(r.div(point(Decimal("1.25")), point(delta)))
    factor = r.sqrt(r.mul(point(2), logarithm))
    sigma = float_up(r.div(r.mul(point(sensitivity), factor), point(epsilon)).upper)
    if not (sigma < math.inf and is_enough(sigma, epsilon, delta, sensitivity)):
        raise CalibrationError(f"the classical formula gives {sigma!r}, which is not proven to be enough")
    return sigma


def real(name: str, value: Real) -> float:
    """Return a finite float of any sign, rounded down."""
    rational = _validate.exact(name, value)
    if rational < 0:
        return -_validate.positive(name, -rational, toward="up")
    return _validate.non_negative(name, rational if isinstance(value, Fraction) else value, toward="down")


def _squared_mu(noise_multiplier: Real) -> Interval:
    return curve.squared_mu(_validate.positive("noise_multiplier", noise_multiplier, toward="down"))
