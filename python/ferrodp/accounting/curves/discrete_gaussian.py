"""The discrete Gaussian mechanism on one integer by its own law: δ(ε), ε(δ) and the variance of its noise.

Noise x has P[x] ∝ e^{−x²/2σ²} on the integers, or on those from −t to t. Its δ exceeds that of the continuous
Gaussian of the same σ: by 12 % at σ = 1 and ε = 1, and several times where σ is small.
"""

from __future__ import annotations

import math

from ferrodp import _native, _validate
from ferrodp._numerics.intervals import Bounds
from ferrodp._validate import Real
from ferrodp.accounting._solve.dominating_pairs import Spec
from ferrodp.accounting._types import Direction
from ferrodp.accounting.curves.gaussian import real
from ferrodp.accounting.curves.hockey_stick import usable_delta
from ferrodp.errors import InvalidParameter


def discrete_gaussian_delta(
    *,
    epsilon: Real,
    scale: Real,
    l2_sensitivity: int = 1,
    truncation_bound: int | None = None,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> float:
    """Return the smallest δ for which a discrete Gaussian release of one integer is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; negative ones are on the curve too. Rounded down if it is no float.
    scale : float
        σ, in units of the integers; > 0, at most 2⁴⁶, and exactly a float, as δ neither grows nor falls with it.
    l2_sensitivity : int
        How far the integer moves between neighboring datasets; from 1 to 2⁵³.
    truncation_bound : int, optional
        Largest noise t, where the law is cut to −t, …, t (at most 2⁵³); by default it is not cut.
    sampling_probability : float
        Chance of each record to join a Poisson sample; in (0, 1]. Rounded up if it is no float.
    direction : {"remove", "add"}, optional
        Compare the dataset with the record to the one without, or the other way round; by default the worse of the two.

    Notes
    -----
    δ(ε) = P[X > εσ²/Δ − Δ/2] − e^ε·P[X > εσ²/Δ + Δ/2]: Canonne, Kamath, Steinke, "The discrete Gaussian for
    differential privacy", NeurIPS 2020, Theorem 7. Sums of few terms are formed term by term, others by the
    Euler–Maclaurin formula with its remainder bounded; the normalizer by Poisson summation. Of all moves by at most
    Δ, that by Δ is the worst: the law is log-concave, so that tests are thresholds, whose power grows with the move.

    Examples
    --------
    >>> print(f"{discrete_gaussian_delta(epsilon=1.0, scale=1.0):.12f}")
    0.141351339406
    """
    parameters = (scale, l2_sensitivity, truncation_bound, sampling_probability, direction)
    return _delta_bounds(epsilon, *parameters).upper


def discrete_gaussian_delta_bounds(
    *,
    epsilon: Real,
    scale: Real,
    l2_sensitivity: int = 1,
    truncation_bound: int | None = None,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact δ(ε), some 10⁻¹³ apart relatively to P[L > ε]; see `discrete_gaussian_delta`."""
    return _delta_bounds(epsilon, scale, l2_sensitivity, truncation_bound, sampling_probability, direction)


def discrete_gaussian_epsilon(
    *,
    delta: Real,
    scale: Real,
    l2_sensitivity: int = 1,
    truncation_bound: int | None = None,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> float:
    """Return the smallest ε ≥ 0 for which a discrete Gaussian release of one integer is (ε, δ)-DP, rounded up.

    The inverse of `discrete_gaussian_delta`, certified. `delta` is at least 1e-300, below 1.

    Examples
    --------
    >>> print(f"{discrete_gaussian_epsilon(delta=1e-5, scale=4.0):.12f}")
    0.927354147166
    """
    parameters = (scale, l2_sensitivity, truncation_bound, sampling_probability, direction)
    return _epsilon_bounds(delta, *parameters).upper


def discrete_gaussian_epsilon_bounds(
    *,
    delta: Real,
    scale: Real,
    l2_sensitivity: int = 1,
    truncation_bound: int | None = None,
    sampling_probability: Real = 1.0,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the exact ε(δ); see `discrete_gaussian_epsilon`."""
    return _epsilon_bounds(delta, scale, l2_sensitivity, truncation_bound, sampling_probability, direction)


def discrete_gaussian_variance(scale: Real) -> float:
    """Return the variance of discrete Gaussian noise, within 10⁻¹³ relatively; always below σ².

    Parameters
    ----------
    scale : float
        σ, in units of the integers; finite, > 0.

    Notes
    -----
    Σx²e^{−x²/2σ²}/Σe^{−x²/2σ²}, term by term for σ < 0.4; otherwise, by Poisson summation, with θ = Σ e^{−2π²σ²k²}
    over the integers, σ² − 4π²σ⁴·Σk²e^{−2π²σ²k²}/θ (Canonne, Kamath, Steinke, NeurIPS 2020, Section 4).

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


def _delta_bounds(epsilon: Real, *parameters: object) -> Bounds:
    return Bounds(*_native.pair_delta(_specs(*parameters), real("epsilon", epsilon)))


def _epsilon_bounds(delta: Real, *parameters: object) -> Bounds:
    _validate.delta(delta)
    return Bounds(*_native.pair_epsilon(_specs(*parameters), usable_delta(delta)))


def _specs(scale: object, sensitivity: object, cut: object, probability: object, direction: object) -> list[Spec]:
    sigma = _validate.positive("scale", scale)
    if _validate.exact("scale", scale) != sigma:
        raise InvalidParameter(f"scale must be exactly a float, got {_validate.shown(scale)}")
    shift = float(_validate.count("l2_sensitivity", sensitivity, maximum=2**53))
    bound = math.inf if cut is None else float(_validate.count("truncation_bound", cut, minimum=0, maximum=2**53))
    return sampled(("discrete_gaussian", sigma, shift, bound), probability, direction)


def sampled(spec: Spec, probability: object, direction: object) -> list[Spec]:
    """Return the pairs, for the directions asked for, of a Poisson sample of a symmetric pair."""
    q = _validate.probability("sampling_probability", probability)
    if direction is not None and (not isinstance(direction, str) or direction not in ("remove", "add")):
        raise _validate.out_of_domain("direction", '"remove", "add" or None', direction)
    if q == 0.0:
        return [("epsilon_delta", 0.0, 0.0)]
    if q == 1.0:
        return [spec]
    remove: Spec = ("poisson_sampled", q, spec)
    both: dict[str, Spec] = {"remove": remove, "add": ("reversed", remove)}
    return list(both.values()) if direction is None else [both[direction]]
