"""The discrete Laplace (two-sided geometric) mechanism on one integer, with its exact distribution: δ(ε) and ε(δ).

Noise x has P[x] = tanh(1/2b)·e^{−|x|/b} on the integers. With δ = 0 the answer is that of the continuous law, ε = Δ/b.
"""

from __future__ import annotations

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._laws.dominating_pairs import Spec
from ferrodp.accounting._types import Direction
from ferrodp.accounting._upper_bounds import upper_end_of
from ferrodp.accounting.curves.hockey_stick import sampled_pairs, usable_delta


def discrete_laplace_delta_bounds(
    *,
    epsilon: Real,
    scale: Real,
    l1_sensitivity: int = 1,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact δ(ε) of a discrete Laplace release of one integer.

    Parameters
    ----------
    epsilon, scale, l1_sensitivity, sampling_probability, direction
        As for `discrete_laplace_delta`.

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
    >>> lower, upper = discrete_laplace_delta_bounds(epsilon=0.5, scale=2.0, l1_sensitivity=4)
    >>> 0 <= upper - lower < 1e-12
    True
    """
    specs = sampled_pairs(_pair(scale, l1_sensitivity), sampling_probability, direction)
    return Bounds(*_native.pair_delta(specs, _validate.finite("epsilon", epsilon)))


@upper_end_of(discrete_laplace_delta_bounds)
def discrete_laplace_delta() -> None:
    """Return the smallest δ for which a discrete Laplace release of one integer is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; the curve is defined for negative ones too. Rounded down if not exactly representable.
    scale : float
        b, in units of the integers; finite, > 0. Rounded down if not exactly representable.
    l1_sensitivity : int
        How much the integer may differ between neighboring datasets; from 1 to 2⁵³.
    sampling_probability : float
        Chance of each record to join a Poisson sample; in [0, 1]. Rounded up if not exactly representable.
    direction : {"remove", "add"}, optional
        Compare the dataset with the record to the one without, or the reverse; by default the worse of the two.

    Returns
    -------
    float
        An upper bound on the exact δ.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The loss takes the values (Δ − 2j)/b, 0 ≤ j ≤ Δ, with masses 1/(1+r), r^j(1−r)/(1+r) and r^Δ/(1+r) for r = e^{−1/b}
    (the law: [GRS09]). Of all differences up to Δ, Δ itself is the worst, because the law is log-concave.

    Examples
    --------
    >>> print(f"{discrete_laplace_delta(epsilon=0.5, scale=2.0, l1_sensitivity=4):.12f}")
    0.542020018171
    """


def discrete_laplace_epsilon_bounds(
    *,
    delta: Real = 0.0,
    scale: Real,
    l1_sensitivity: int = 1,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact ε(δ) of a discrete Laplace release of one integer.

    Parameters
    ----------
    delta, scale, l1_sensitivity, sampling_probability, direction
        As for `discrete_laplace_epsilon`.

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
    >>> lower, upper = discrete_laplace_epsilon_bounds(scale=2.0, l1_sensitivity=4)
    >>> 0 <= upper - lower < 1e-12
    True
    """
    specs = sampled_pairs(_pair(scale, l1_sensitivity), sampling_probability, direction)
    return Bounds(*_native.pair_epsilon(specs, usable_delta(delta)))


@upper_end_of(discrete_laplace_epsilon_bounds)
def discrete_laplace_epsilon() -> None:
    """Return the smallest ε ≥ 0 for which a discrete Laplace release of one integer is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    delta : float
        0, or at least 1e-300 and below 1. Rounded down if not exactly representable.
    scale, l1_sensitivity, sampling_probability, direction
        As for `discrete_laplace_delta`.

    Returns
    -------
    float
        The inverse of `discrete_laplace_delta`: δ(ε) ≤ `delta` has been proven for it.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Examples
    --------
    >>> print(f"{discrete_laplace_epsilon(scale=2.0, l1_sensitivity=4):.12f}")
    2.000000000000
    """


def _pair(scale: Real, sensitivity: int) -> Spec:
    shift = _validate.count("l1_sensitivity", sensitivity, maximum=2**53)
    return "discrete_laplace", _validate.positive("scale", scale, toward="down"), shift
