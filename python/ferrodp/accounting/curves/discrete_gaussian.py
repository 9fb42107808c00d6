"""The discrete Gaussian mechanism on one integer, with its exact distribution: δ(ε), ε(δ), the variance of its noise.

Noise x has P[x] ∝ e^{−x²/2σ²} on the integers, or on those from −t to t. Its δ exceeds that of the continuous
Gaussian with the same σ: by 12 % at σ = 1 and ε = 1, and several times where σ is small.
"""

from __future__ import annotations

import math

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._laws.dominating_pairs import Spec
from ferrodp.accounting._types import Direction
from ferrodp.accounting._upper_bounds import upper_end_of
from ferrodp.accounting.curves.hockey_stick import sampled_pairs, usable_delta
from ferrodp.errors import InvalidParameter


def discrete_gaussian_delta_bounds(
    *,
    epsilon: Real,
    scale: Real,
    l2_sensitivity: int = 1,
    truncation_bound: int | None = None,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact δ(ε) of a discrete Gaussian release of one integer.

    Parameters
    ----------
    epsilon, scale, l2_sensitivity, truncation_bound, sampling_probability, direction
        As for `discrete_gaussian_delta`.

    Returns
    -------
    Bounds
        They differ by some 10⁻¹³ of P[L > ε], L the privacy loss.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> lower, upper = discrete_gaussian_delta_bounds(epsilon=1.0, scale=1.0)
    >>> 0 < upper - lower < 1e-13
    True
    """
    specs = sampled_pairs(_pair(scale, l2_sensitivity, truncation_bound), sampling_probability, direction)
    return Bounds(*_native.pair_delta(specs, _validate.finite("epsilon", epsilon)))


@upper_end_of(discrete_gaussian_delta_bounds)
def discrete_gaussian_delta() -> None:
    """Return the smallest δ for which a discrete Gaussian release of one integer is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; the curve is defined for negative ones too. Rounded down if not exactly representable.
    scale : float
        σ, in units of the integers; > 0, at most 2⁴⁶, and exactly a float, because δ is not monotone in it.
    l2_sensitivity : int
        How much the integer may differ between neighboring datasets; from 1 to 2⁵³.
    truncation_bound : int, optional
        Largest noise t, where the distribution is cut to −t, …, t (at most 2⁵³); by default it is not cut.
    sampling_probability : float
        Chance of each record to join a Poisson sample; in [0, 1]. Rounded up if not exactly representable.
    direction : {"remove", "add"}, optional
        Compare the dataset with the record to the one without, or the reverse; by default the worse of the two.

    Returns
    -------
    float
        An upper bound, larger than the exact δ by some 10⁻¹³ of P[L > ε], L the privacy loss.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    δ(ε) = P[X > εσ²/Δ − Δ/2] − e^ε·P[X > εσ²/Δ + Δ/2]: [CKS20] Theorem 7. Sums of few terms are added term by term,
    others by the Euler–Maclaurin formula with a bound on its remainder; the normalizer by Poisson summation. Of all
    differences up to Δ, Δ itself is the worst: the distribution is log-concave, so that optimal tests are thresholds,
    whose power grows with the difference.

    Examples
    --------
    >>> print(f"{discrete_gaussian_delta(epsilon=1.0, scale=1.0):.12f}")
    0.141351339406
    """


def discrete_gaussian_epsilon_bounds(
    *,
    delta: Real,
    scale: Real,
    l2_sensitivity: int = 1,
    truncation_bound: int | None = None,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact ε(δ) of a discrete Gaussian release of one integer.

    Parameters
    ----------
    delta, scale, l2_sensitivity, truncation_bound, sampling_probability, direction
        As for `discrete_gaussian_epsilon`.

    Returns
    -------
    Bounds
        Both hold.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> lower, upper = discrete_gaussian_epsilon_bounds(delta=1e-5, scale=4.0)
    >>> 0 <= upper - lower < 1e-8
    True
    """
    _validate.delta(delta)
    specs = sampled_pairs(_pair(scale, l2_sensitivity, truncation_bound), sampling_probability, direction)
    return Bounds(*_native.pair_epsilon(specs, usable_delta(delta)))


@upper_end_of(discrete_gaussian_epsilon_bounds)
def discrete_gaussian_epsilon() -> None:
    """Return the smallest ε ≥ 0 for which a discrete Gaussian release of one integer is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    delta : float
        At least 1e-300, below 1. Rounded down if not exactly representable.
    scale, l2_sensitivity, truncation_bound, sampling_probability, direction
        As for `discrete_gaussian_delta`.

    Returns
    -------
    float
        The inverse of `discrete_gaussian_delta`: δ(ε) ≤ `delta` has been proven for it.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> print(f"{discrete_gaussian_epsilon(delta=1e-5, scale=4.0):.12f}")
    0.927354147166
    """


def discrete_gaussian_variance(scale: Real) -> float:
    """Return the variance of discrete Gaussian noise, which is always below σ².

    Parameters
    ----------
    scale : float
        σ, in units of the integers; finite, > 0.

    Returns
    -------
    float
        Within 10⁻¹³ of the exact variance, relatively.

    Raises
    ------
    InvalidParameter, InvalidType
        If the scale is outside its domain, or not a real number.

    Notes
    -----
    Σx²e^{−x²/2σ²}/Σe^{−x²/2σ²}, term by term for σ < 0.4; otherwise, by Poisson summation, with θ = Σ e^{−2π²σ²k²}
    over the integers, σ² − 4π²σ⁴·Σk²e^{−2π²σ²k²}/θ ([CKS20] Section 4).

    Examples
    --------
    >>> print(f"{discrete_gaussian_variance(0.5):.12f}")
    0.215012675088
    """
    sigma = _validate.positive("scale", scale)
    if sigma < 0.4:
        weights = [(x, math.exp(-0.5 * (x / sigma) ** 2)) for x in range(1, 30)]
        return 2.0 * math.fsum(x * x * weight for x, weight in weights) / (1.0 + 2.0 * math.fsum(w for _, w in weights))
    rate = 2.0 * (math.pi * sigma) ** 2
    terms = [(k, math.exp(-rate * k * k)) for k in range(1, 30)] if rate < 800.0 else []
    theta = 1.0 + 2.0 * math.fsum(weight for _, weight in terms)
    return sigma * sigma * (1.0 - 4.0 * rate * math.fsum(k * k * weight for k, weight in terms) / theta)


def _pair(scale: Real, sensitivity: int, cut: int | None) -> Spec:
    sigma = _validate.positive("scale", scale)
    if _validate.exact("scale", scale) != sigma:
        raise InvalidParameter(f"scale must be exactly a float, got {_validate.shown(scale)}")
    shift = float(_validate.count("l2_sensitivity", sensitivity, maximum=2**53))
    bound = math.inf if cut is None else float(_validate.count("truncation_bound", cut, minimum=0, maximum=2**53))
    return "discrete_gaussian", sigma, shift, bound
