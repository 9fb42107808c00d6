"""Rényi curves ρ(α) of mechanisms: arrays in, arrays out, upper bounds that include rounding errors.

ρ(α) is the largest Rényi divergence of order α between the outputs on neighboring datasets ([Mir17] Definition 4).
Orders are real numbers ≥ 1; 1 is the limit, the Kullback–Leibler divergence, and ∞ the largest privacy loss. Parameters
and orders broadcast against each other as numpy arrays do; scalars alone give a float.

All functions return upper bounds; `poisson_sampled_gaussian_bounds` returns lower bounds beside them. Sensitivities,
and hence noise multipliers, are those for the neighboring relation in question.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.accounting.rdp.rules import above_one, by_public_coin
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_relation
from ferrodp.events.sampling import checked_null_distance


def poisson_sampled_gaussian(
    noise_multiplier: Reals,
    sampling_probability: Reals,
    orders: Reals,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    null_distance: Real = math.inf,
    threads: int | None = None,
) -> Any:
    r"""Return ρ(α) of Gaussian noise on a sum over a Poisson sample, as in a step of DP-SGD.

    Parameters
    ----------
    noise_multiplier : float or array_like
        Standard deviation of the noise divided by the L2 sensitivity; finite, > 0.
    sampling_probability : float or array_like
        Chance of each record to be in the sample; in [0, 1].
    orders : float or array_like
        α ≥ 1, real; 1 and `inf` are allowed.
    neighboring_relation : NeighboringRelation
        `ADD_OR_REMOVE_ONE`; `REPLACE_SPECIAL`, which has the same curve; or `REPLACE_ONE`, where the sensitivity is the
        distance between two records' contributions, twice the clip norm.
    null_distance : float
        That of `PoissonSampledEvent`, under `REPLACE_ONE`: 0.5 for sums of clipped contributions.
    threads : int, optional
        Largest number of threads; the results do not depend on it.

    Returns
    -------
    float or float64 ndarray
        Upper bounds, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Notes
    -----
    With r = 1 − q + q·exp((2x − 1)/2σ²) and x ∼ N(0, σ²), ρ(α) = ln E[r^α]/(α − 1); of the two directions this one is
    the larger at every order ([MTZ19] Theorems 4 and 5, Section 3.3).

    E[r^α] − 1 is a sum of nonnegative terms, by the trapezoid rule, whose aliasing error is bounded *relative to the
    result* by [TW14] Theorem 5.1, or, for large orders, the binomial sum, whose remainder is in [0, 1]. Aliasing,
    truncation and rounding are added. The bound exceeds ρ by less than 10⁻¹² of it for α·(1 + 1/σ²) up to about a
    thousand; beyond that, changing the last bit of σ changes ρ by more, and the excess grows accordingly.

    For `REPLACE_ONE` and a `null_distance` of ½ the pair is (1 − q)N(0, σ²) + qN(±½, σ²), the same two distributions in
    either direction, by the same rule with its own error bounds; up to 1 the curve is that of
    `fixed_size_sampled_gaussian`, and beyond ln(1 + q(e^{(α−1)α/2σ²} − 1))/(α − 1), that of a public sample.

    ====================  =====================================
    q = 0                 0
    q = 1                 α/2σ²
    α = 1                 the Kullback–Leibler divergence
    α = ∞                 ∞, unless q = 0
    too many nodes        the smaller of α/2σ² and Minkowski's inequality, :math:`E[r^α] ≤ (1-q+q e^{(α-1)/2σ²})^α`
    ====================  =====================================

    Cost: an exponential for each of some 70 nodes and each order, sixteen orders at a time, and 5 µs per mechanism. The
    interpreter's lock is released.

    Examples
    --------
    >>> round(poisson_sampled_gaussian(1.0, 0.01, 4.5), 12)
    0.000414927067
    >>> poisson_sampled_gaussian(1.0, 0.01, np.linspace(1.5, 64, 6)).shape
    (6,)
    """
    _, upper = poisson_sampled_gaussian_bounds(
        noise_multiplier,
        sampling_probability,
        orders,
        neighboring_relation=neighboring_relation,
        null_distance=null_distance,
        threads=threads,
    )
    return upper


def poisson_sampled_gaussian_bounds(
    noise_multiplier: Reals,
    sampling_probability: Reals,
    orders: Reals,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    null_distance: Real = math.inf,
    threads: int | None = None,
) -> tuple[Any, Any]:
    """Return lower and upper bounds on ρ(α) of Gaussian noise on a sum over a Poisson sample.

    Parameters
    ----------
    noise_multiplier, sampling_probability, orders, neighboring_relation, null_distance, threads
        As for `poisson_sampled_gaussian`.

    Returns
    -------
    (float or float64 ndarray, float or float64 ndarray)
        Lower and upper bounds, of the shape that the parameters broadcast to. For `REPLACE_ONE` the lower bounds are 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> lower, upper = poisson_sampled_gaussian_bounds(1.0, 0.01, 4.5)
    >>> lower < upper < lower * (1 + 1e-12)
    True
    """
    neighboring_relation = check_relation(neighboring_relation)
    sigmas = _arrays.positive("noise_multiplier", noise_multiplier)
    chances = _arrays.probability("sampling_probability", sampling_probability)
    checked, distance = _validate.threads(threads), checked_null_distance(null_distance)
    if neighboring_relation is NeighboringRelation.REPLACE_ONE:
        shape, upper = _replaced(sigmas, chances, orders, distance, checked)
        lower = np.zeros_like(upper)
    else:
        shape, (sigma, q, places) = _arrays.broadcast(sigmas, chances, _arrays.orders(orders))
        lower, upper = _native.rdp_poisson_gaussian(sigma, q, places, checked)
    return _arrays.shaped(lower, shape), _arrays.shaped(upper, shape)


def _replaced(
    sigmas: Array, chances: Array, orders: Reals, null_distance: float, threads: int | None
) -> tuple[tuple[int, ...], Array]:
    if null_distance == 0.5:
        return _upper("antipodal_gaussian", orders, chances, sigmas)
    shape, (sigma, q, places) = _arrays.broadcast(sigmas, chances, _arrays.orders(orders))
    if null_distance <= 1.0:
        return shape, _native.rdp_fixed_size_gaussian_replace_one(sigma, q, above_one(places), threads)
    _, whole = _upper("gaussian", places, sigma)
    return shape, by_public_coin(whole, q, places)


def gaussian(noise_multiplier: Reals, orders: Reals) -> Any:
    """Return ρ(α) = α/2z² of Gaussian noise ([Mir17] Proposition 7).

    Parameters
    ----------
    noise_multiplier : float or array_like
        z, the standard deviation divided by the L2 sensitivity; finite, > 0.
    orders : float or array_like
        α ≥ 1.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> round(gaussian(2.0, 8), 12)
    1.0
    """
    return _sweep("gaussian", orders, _arrays.positive("noise_multiplier", noise_multiplier))


def laplace(noise_multiplier: Reals, orders: Reals) -> Any:
    """Return ρ(α) of Laplace noise ([Mir17] Proposition 6).

    ln((α·e^{ε₀(α−1)} + (α − 1)·e^{−ε₀α})/(2α − 1))/(α − 1), ε₀ the inverse of the multiplier, computed without
    cancellation at orders near 1, where it becomes ε₀ + e^{−ε₀} − 1. At infinity it is ε₀.

    Parameters
    ----------
    noise_multiplier : float or array_like
        Scale of the noise divided by the L1 sensitivity; finite, > 0.
    orders : float or array_like
        α ≥ 1.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> laplace(1.0, [1, 2, float("inf")]).round(6).tolist()
    [0.367879, 0.619124, 1.0]
    """
    return _sweep("laplace", orders, _arrays.positive("noise_multiplier", noise_multiplier))


def randomized_response(
    noise_parameter: Reals,
    num_buckets: int,
    orders: Reals,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE,
) -> Any:
    """Return ρ(α) of an answer out of k that is drawn uniformly with probability p, and true otherwise.

    Parameters
    ----------
    noise_parameter : float or array_like
        p, in [0, 1].
    num_buckets : int
        k ≥ 2.
    orders : float or array_like
        α ≥ 1.
    neighboring_relation : NeighboringRelation
        `REPLACE_ONE`: two true answers, which also bounds `ADD_OR_REMOVE_ONE`. `REPLACE_SPECIAL`: a true answer against
        none, for which the answer is uniform; the larger of both directions.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Notes
    -----
    The divergence of the two distributions, a sum of at most three terms ([War65]).

    Examples
    --------
    >>> round(randomized_response(0.3, 10, 5), 6)
    3.11317
    """
    neighboring_relation = check_relation(neighboring_relation)
    buckets = float(_validate.count("num_buckets", num_buckets, minimum=2))
    is_special = neighboring_relation is NeighboringRelation.REPLACE_SPECIAL
    tag = "randomized_response_or_uniform" if is_special else "randomized_response"
    parameter = _arrays.probability("noise_parameter", noise_parameter, toward="down")
    return _sweep(tag, orders, parameter, rest=(buckets,))


def discrete_gaussian(scale: Reals, orders: Reals, *, l2_sensitivity: Reals = 1.0, dimension: int = 1) -> Any:
    """Return ρ(α) of discrete Gaussian noise: the exact one in one dimension, αΔ²/2σ² in more.

    Parameters
    ----------
    scale : float or array_like
        σ, in units of the integers; finite, > 0.
    orders : float or array_like
        α ≥ 1.
    l2_sensitivity : float or array_like
        Δ, finite, > 0; in one dimension a whole number.
    dimension : int
        How many coordinates get noise.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Notes
    -----
    [CKS20] Proposition 5: ρ ≤ αΔ²/2σ², with equality where αΔ is an integer.

    Examples
    --------
    >>> round(discrete_gaussian(2.0, 4), 12), bool(discrete_gaussian(0.4, 2.5) < 2.5 / (2 * 0.4**2))
    (0.5, True)
    """
    sigma = _arrays.positive("scale", scale)
    sensitivity = _arrays.positive("l2_sensitivity", l2_sensitivity, toward="up")
    if _validate.count("dimension", dimension) > 1:
        return _sweep("gaussian", orders, np.nextafter(sigma / sensitivity, 0.0))
    if not (sensitivity == np.floor(sensitivity)).all():
        raise InvalidParameter("l2_sensitivity must be a whole number in one dimension")
    return _sweep("discrete_gaussian", orders, sigma, sensitivity, rest=(math.inf,))


def discrete_laplace(scale: Reals, orders: Reals, *, l1_sensitivity: int = 1) -> Any:
    """Return ρ(α) of discrete Laplace (two-sided geometric) noise on integers, the sum over its Δ + 1 losses.

    Parameters
    ----------
    scale : float or array_like
        b of P[x] ∝ exp(−|x|/b), in units of the integers; finite, > 0.
    orders : float or array_like
        α ≥ 1.
    l1_sensitivity : int
        Δ ≥ 1. Beyond 65536 the curve is that of any Δ/b-differentially private mechanism.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> round(discrete_laplace(1.0, 2.0), 6) < 1.0
    True
    """
    sensitivity = _validate.count("l1_sensitivity", l1_sensitivity)
    return _sweep("discrete_laplace", orders, _arrays.positive("scale", scale), rest=(sensitivity,))


def exponential_mechanism(epsilon: Reals, orders: Reals) -> Any:
    """Return a bound on ρ(α) of mechanisms whose privacy loss has a range of at most ε, such as the exponential one.

    min(η − 1 − ln η + (α − 1)ε²/8, ε) with η = ε/(e^ε − 1): [DDR20]; [CR21] Lemmas 3.2 and 3.4.

    Parameters
    ----------
    epsilon : float or array_like
        Width of the range of losses; finite, ≥ 0. That of `ExponentialMechanismEvent`.
    orders : float or array_like
        α ≥ 1.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> round(exponential_mechanism(1.0, 1), 8)
    0.12330156
    """
    return _sweep("exponential_mechanism", orders, _arrays.non_negative("epsilon", epsilon))


def pure(epsilon: Reals, orders: Reals) -> Any:
    """Return the largest ρ(α) that an ε-differentially private mechanism can have: that of binary randomized response.

    Every ε-private pair is dominated by (e^ε, 1)/(1 + e^ε) and its mirror image ([KOV15]).

    Parameters
    ----------
    epsilon : float or array_like
        Finite, ≥ 0.
    orders : float or array_like
        α ≥ 1.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> pure(1.0, [1, 2, float("inf")]).round(6).tolist()
    [0.462117, 0.735326, 1.0]
    """
    return _sweep("epsilon_delta", orders, _arrays.non_negative("epsilon", epsilon), rest=(0.0,))


def zcdp(rho: Reals, orders: Reals) -> Any:
    """Return αρ, the bound of ρ-zero-concentrated differential privacy ([BS16] Definition 1.1).

    Parameters
    ----------
    rho : float or array_like
        Finite, ≥ 0.
    orders : float or array_like
        α ≥ 1.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats, of the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, not a number, or the shapes do not broadcast.

    Examples
    --------
    >>> round(zcdp(0.25, 6), 12)
    1.5
    """
    return _sweep("zcdp", orders, _arrays.non_negative("rho", rho))


def _sweep(tag: str, orders: Reals, *parameters: Array, rest: tuple[Any, ...] = ()) -> Any:
    shape, upper = _upper(tag, orders, *parameters, rest=rest)
    return _arrays.shaped(upper, shape)


def _upper(tag: str, orders: Reals, *parameters: Array, rest: tuple[Any, ...] = ()) -> tuple[tuple[int, ...], Array]:
    """Return the upper bounds of one native curve per combination of parameters."""
    shape, (*columns, places) = _arrays.broadcast(*parameters, _arrays.orders(orders))
    upper = np.empty(places.size)
    if upper.size:
        table = np.stack(columns, axis=1)
        different, which = np.unique(table, axis=0, return_inverse=True)
        which = which.reshape(-1)
        for index, row in enumerate(different):
            chosen = which == index
            curve = _native.RdpCurve((tag, *row.tolist(), *rest))
            upper[chosen] = curve.bounds(np.ascontiguousarray(places[chosen]))[1]
    return shape, upper
