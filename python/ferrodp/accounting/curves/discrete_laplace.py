"""The discrete Laplace (two-sided geometric) mechanism on one integer by its own law: δ(ε) and ε(δ).

Noise x has P[x] = tanh(1/2b)·e^{−|x|/b} on the integers. With δ = 0 the answer is that of the continuous law, ε = Δ/b.
"""

from __future__ import annotations

from ferrodp import _native, _validate
from ferrodp._numerics.intervals import Bounds
from ferrodp._validate import Real
from ferrodp.accounting._types import Direction
from ferrodp.accounting.curves.discrete_gaussian import sampled
from ferrodp.accounting.curves.gaussian import real
from ferrodp.accounting.curves.hockey_stick import usable_delta


def discrete_laplace_delta(
    *,
    epsilon: Real,
    scale: Real,
    l1_sensitivity: int = 1,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> float:
    """Return the smallest δ for which a discrete Laplace release of one integer is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; negative ones are on the curve too. Rounded down if it is no float.
    scale : float
        b, in units of the integers; finite, > 0. Rounded down if it is no float.
    l1_sensitivity : int
        How far the integer moves between neighboring datasets; from 1 to 2⁵³.
    sampling_probability : float
        Chance of each record to join a Poisson sample; in (0, 1]. Rounded up if it is no float.
    direction : {"remove", "add"}, optional
        Compare the dataset with the record to the one without, or the other way round; by default the worse of the two.

    Notes
    -----
    The loss takes the values (Δ − 2j)/b, 0 ≤ j ≤ Δ, with masses 1/(1+r), r^j(1−r)/(1+r) and r^Δ/(1+r) for r = e^{−1/b}
    (Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009, for the law).
    Of all moves by at most Δ, that by Δ is the worst, as the law is log-concave.

    Examples
    --------
    >>> print(f"{discrete_laplace_delta(epsilon=0.5, scale=2.0, l1_sensitivity=4):.12f}")
    0.542020018171
    """
    return _delta_bounds(epsilon, scale, l1_sensitivity, sampling_probability, direction).upper


def discrete_laplace_delta_bounds(
    *,
    epsilon: Real,
    scale: Real,
    l1_sensitivity: int = 1,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact δ(ε); see `discrete_laplace_delta`."""
    return _delta_bounds(epsilon, scale, l1_sensitivity, sampling_probability, direction)


def discrete_laplace_epsilon(
    *,
    delta: Real = 0.0,
    scale: Real,
    l1_sensitivity: int = 1,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> float:
    """Return the smallest ε ≥ 0 for which a discrete Laplace release of one integer is (ε, δ)-DP, rounded up.

    The inverse of `discrete_laplace_delta`, certified. `delta` is 0, or at least 1e-300 and below 1.

    Examples
    --------
    >>> print(f"{discrete_laplace_epsilon(scale=2.0, l1_sensitivity=4):.12f}")
    2.000000000000
    """
    return _epsilon_bounds(delta, scale, l1_sensitivity, sampling_probability, direction).upper


def discrete_laplace_epsilon_bounds(
    *,
    delta: Real = 0.0,
    scale: Real,
    l1_sensitivity: int = 1,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact ε(δ); see `discrete_laplace_epsilon`."""
    return _epsilon_bounds(delta, scale, l1_sensitivity, sampling_probability, direction)


def _delta_bounds(epsilon: Real, scale: Real, sensitivity: int, probability: Real, direction: object) -> Bounds:
    specs = sampled(_spec(scale, sensitivity), probability, direction)
    return Bounds(*_native.pair_delta(specs, real("epsilon", epsilon)))


def _epsilon_bounds(delta: Real, scale: Real, sensitivity: int, probability: Real, direction: object) -> Bounds:
    specs = sampled(_spec(scale, sensitivity), probability, direction)
    return Bounds(*_native.pair_epsilon(specs, usable_delta(delta)))


def _spec(scale: Real, sensitivity: int) -> tuple[str, float, float]:
    shift = float(_validate.count("l1_sensitivity", sensitivity, maximum=2**53))
    return "discrete_laplace", _validate.positive("scale", scale, toward="down"), shift
