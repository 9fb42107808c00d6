"""Rényi curves of releases about a sample of fixed size, drawn without replacement.

All values are upper bounds on the Rényi divergences in both directions, for all neighboring datasets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_relation

Method = Literal["profile", "ternary_divergence"]
_LARGEST_ORDER = 1024
"""Of the sums of [WBK19]."""


def fixed_size_sampled_gaussian(
    noise_multiplier: Reals,
    sampling_probability: Reals,
    orders: Reals,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    method: Method = "profile",
    threads: int | None = None,
) -> Any:
    """Return upper bounds on ρ(α) of a Gaussian release about a fixed-size sample, for all neighboring datasets.

    The arguments broadcast against each other as numpy arrays do; the result has their common shape.

    Parameters
    ----------
    noise_multiplier : float or array
        Standard deviation of the noise of the sampled sum divided by its L2 sensitivity *in the given relation*: C
        for a norm bound C if one record is added, removed or zeroed, 2C if one is replaced. Finite, > 0.
    sampling_probability : float or array
        Sample size divided by the number of records, of the larger one of the two datasets; in [0, 1].
    orders : float or array
        α > 1, any real one; ∞ gives ∞.
    neighboring_relation : NeighboringRelation
        See the notes.
    method : {"profile", "ternary_divergence"}
        "ternary_divergence" is the older bound of Wang et al., for comparison: for replaced records and orders up to
        1024.
    threads : int, optional
        Largest number of threads; the result does not depend on it.

    Returns
    -------
    float or float64 ndarray
        Upper bounds on ρ(α), in nats; within 10⁻¹² of the bound in the notes, relatively, where α·ρ(α) < 100.

    Raises
    ------
    InvalidParameter
        If a parameter is outside its domain, shapes do not broadcast, or the method does not cover the relation.
    InvalidType
        If a parameter is of another type.

    Notes
    -----
    *Replaced.* A(α) − 1 = E_Q[(u^α − 1)(1 − u^{1−α}); r > 1] with r = dN(1, z²)/dN(0, z²), u = 1 + q(r − 1), ρ = ln
    A/(α − 1): the divergence of the pair with privacy profile δ′(ln(1 + q(e^ε − 1))) = q·δ(ε), which dominates by
    [BBG18] Theorem 9 and [ZDW22] Theorem 10.

    *Added or removed.* Given the rest of the sample and the record that takes the place of the absent one, the two
    distributions are N(0, z²) and (1 − q)·N(0, z²) + q·N(v, z²) with v of length at most 2, in units of the
    sensitivity, and 2 is possible: the curve is that of a Poisson-sampled Gaussian with z/2 ([BEBP24] Theorem 3.1).

    *Zeroed* (`REPLACE_SPECIAL`). A zeroed record is one of the replacements, so the bound for these holds, with z/2.

    The method "ternary_divergence" is [WBK19] Theorem 27; between integers (α − 1)·ρ(α) is interpolated, being convex
    (their Corollary 10). It is 2 to 4 times the default.

    ======  ====================================================================
    q = 0   0
    q = 1   α/2z² if replaced; otherwise the curve for z/2, which is the limit
    ======  ====================================================================

    Examples
    --------
    >>> replaced = NeighboringRelation.REPLACE_ONE
    >>> bounds = fixed_size_sampled_gaussian(1.0, 0.01, [2, 8.5], neighboring_relation=replaced)
    >>> bounds.round(6).tolist()
    [0.000281, 0.001472]
    """
    neighboring_relation = check_relation(neighboring_relation)
    z = _arrays.positive("noise_multiplier", noise_multiplier)
    q = _arrays.probability("sampling_probability", sampling_probability)
    shape, (z, q, places) = _arrays.broadcast(z, q, _arrays.orders_above_one(orders))
    threads = _validate.threads(threads)
    is_added = neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    if neighboring_relation is not NeighboringRelation.REPLACE_ONE:
        z = np.where(z < 1e-300, 0.25, 0.5) * z  # halves are exact, but of the smallest numbers
    if method == "profile":
        if is_added:
            return _arrays.shaped(_native.rdp_poisson_gaussian(z, q, places, threads)[1], shape)
        return _arrays.shaped(_native.rdp_fixed_size_gaussian_replace_one(z, q, places, threads), shape)
    if method != "ternary_divergence":
        raise _validate.out_of_domain("method", "'profile' or 'ternary_divergence'", method)
    if is_added:
        raise InvalidParameter("method must be 'profile' where records are added or removed, got 'ternary_divergence'")
    return _arrays.shaped(_ternary_gaussian(z, q, places), shape)


def _ternary_gaussian(z: Array, q: Array, orders: Array) -> Array:
    _refuse_large(orders)
    found = np.nextafter(orders / (2.0 * z) / z * (1.0 + 2.0**-50), math.inf)  # without sampling
    for multiplier, chance in {*zip(z.tolist(), q.tolist(), strict=True)}:
        chosen = np.flatnonzero((z == multiplier) & (q == chance))
        bounds = _native.rdp_fixed_size_ternary(multiplier, chance, orders[chosen])
        found[chosen] = np.minimum(found[chosen], bounds) if chance else 0.0
    return found


def fixed_size_sampled(
    base_rdp: Callable[[int], float],
    sampling_probability: Real,
    orders: Reals,
    *,
    base_epsilon: Real = math.inf,
) -> Any:
    """Return upper bounds on ρ(α) of any release about a fixed-size sample, one record being replaced.

    Parameters
    ----------
    base_rdp : callable
        Upper bound on the curve ρ(j) of the release itself for a replaced record; asked at the integers 2 ≤ j ≤ ⌈α⌉.
    sampling_probability : float
        Sample size divided by the number of records; in [0, 1].
    orders : float or array
        Any real numbers in (1, 1024].
    base_epsilon : float
        Pure ε of the release itself for a replaced record; infinite if it has none.

    Returns
    -------
    float or float64 ndarray
        Of the shape of the orders.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or the curve returns anything but divergences.

    Notes
    -----
    [WBK19] Theorem 9; between integers by its Corollary 10. `fixed_size_sampled_gaussian` and `fixed_size_sampled_pure`
    are tighter where they apply.

    Examples
    --------
    >>> round(fixed_size_sampled(lambda order: order / 50, 0.01, 4.0), 8)
    3.566e-05
    """
    q = _validate.probability("sampling_probability", sampling_probability)
    infinite = isinstance(base_epsilon, float) and base_epsilon == math.inf
    pure = math.inf if infinite else _validate.non_negative("base_epsilon", base_epsilon)
    asked = _arrays.orders_above_one(orders)
    _refuse_large(asked)
    if not q or not asked.size:
        return _arrays.shaped(np.zeros(asked.size), asked.shape)

    def base(order: int) -> float:
        value = base_rdp(order)
        if isinstance(value, float) and value == math.inf:
            return pure
        return min(_validate.non_negative(f"base_rdp({order})", value), pure)

    divergences = [base(order) for order in range(2, math.ceil(asked.max()) + 1)]
    flat = np.ascontiguousarray(asked).reshape(-1)
    return _arrays.shaped(_native.rdp_fixed_size(divergences, pure, q, flat), asked.shape)


def fixed_size_sampled_pure(epsilon: Reals, sampling_probability: Reals, orders: Reals) -> Any:
    """Return upper bounds on ρ(α) of an ε-DP release about a fixed-size sample, for a replaced record.

    Parameters
    ----------
    epsilon : float or array
        Pure ε of the release itself for a replaced record; finite, ≥ 0.
    sampling_probability : float or array
        Sample size divided by the number of records; in [0, 1].
    orders : float or array
        α > 1, any real one.

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
    A release with pure ε is dominated by randomized response with answers kept with probability e^ε/(1 + e^ε)
    ([KOV15] proof of Theorem 3.3), whose likelihood ratio is above 1 with probability 1/(1 + e^ε) and then e^ε. As in
    `fixed_size_sampled_gaussian` this leaves A − 1 = (u^α − 1)(1 − u^{1−α})/(1 + e^ε) with u = 1 + q(e^ε − 1).

    Examples
    --------
    >>> round(fixed_size_sampled_pure(1.0, 0.01, 2.0), 9)
    0.000157456
    """
    e = _arrays.non_negative("epsilon", epsilon)
    q = _arrays.probability("sampling_probability", sampling_probability)
    shape, (e, q, order) = _arrays.broadcast(e, q, _arrays.orders_above_one(orders))
    found = [_pure(*values) for values in zip(e.tolist(), q.tolist(), order.tolist(), strict=True)]
    return _arrays.shaped(np.array(found, dtype=np.float64), shape)


def _pure(epsilon: float, q: float, order: float) -> float:
    """Return the bound for one triple.

    l = ln u has a relative error of 16 units at most, which the exponents αl and βl turn into factors of relative error
    ≤ 20·(1 + αl) units. The slack allows 40 + 40·αl units in all.
    """
    if not epsilon or not q:
        return 0.0
    if epsilon > 700.0:
        loss = epsilon + math.log(q) + math.log1p((1.0 - q) / q * math.exp(-epsilon)) if q > 1e-300 else epsilon
    else:
        loss = math.log1p(q * math.expm1(epsilon))
    if order == math.inf:
        return min(loss * (1.0 + 1e-14) + 1e-14 * (1.0 if epsilon > 700.0 else 0.0), epsilon)
    up, down = order * loss, (order - 1.0) * loss
    log_share = -epsilon - math.log1p(math.exp(-epsilon))
    log = up + math.log(-math.expm1(-up)) + math.log(-math.expm1(-down)) + log_share if down else -math.inf
    slack = 1e-14 * (1.0 + up + epsilon)
    moment = math.log1p(math.exp(log + slack)) if log < 600.0 else log + slack + math.exp(-600.0)
    return min((moment * (1.0 + 1e-15) + 5e-324) / (order - 1.0) * (1.0 + 1e-15), epsilon)


def _refuse_large(orders: Array) -> None:
    if (orders > _LARGEST_ORDER).any():
        largest = float(orders.max())
        raise _validate.out_of_domain("orders", f"at most {_LARGEST_ORDER} for this bound", largest)
