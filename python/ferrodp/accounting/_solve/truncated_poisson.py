"""Poisson samples cut to a largest batch size: what the cut changes, and what a step costs.

Each record joins independently with probability q; if more than B have joined, B of them are kept, drawn uniformly. n
is the number of records of the larger one of two datasets that differ in one record x.

*The distribution, a record being added or removed.* Let M ~ Bin(n − 1, q) be how many others have joined. It does not
depend on x.

- M < B, with probability 1 − p: the batch is the others, and x as well with probability q. The sums differ by x.
- M ≥ B, with probability p: without x, the batch is a uniform B-subset of the others. With x, by symmetry again, it
  is that with probability 1 − q′, and otherwise x and a uniform (B − 1)-subset, where q′ = q·E[B/(M + 1) | M ≥ B] =
  P[Bin(n, q) > B]·B/(n·p). The latter is the former with one record removed and x added: the sums differ by up to
  2C.

Both distributions being mixtures over the same outcomes, hockey-stick divergences are at most (joint convexity)
(1 − p)·δ(z, q) + p·δ(z/2, q′), and A(α) = E_Q[(dP/dQ)^α] at most (1 − p)·A(z, q) + p·A(z/2, q′), the two being those
of Poisson-sampled noise, in either direction.

*A record being zeroed.* The zeroed one takes part like any other, so that the distribution of the batch is unchanged.
If M ≥ B, x or the null record takes the place of another one with probability q′: (1 − q′)μ₀ + q′μ stands against
(1 − q′)μ₀ + q′μ′ with μ at most 2C from either. As for fixed-size samples under replacement, δ(ε) is at most q′ times
that of noise z/2 at ln(1 + (e^ε − 1)/q′), in either direction ([BBG18] Theorem 2).

Sources: [CGKKMSZ24]; arXiv:2508.15089. Tail probabilities are sums of decimals (`_numerics.binomial`, 0.5 ms each), of
which an event needs three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from ferrodp import _native, _validate
from ferrodp._numerics import binomial as _binomial
from ferrodp._numerics.intervals import Bounds, arithmetic
from ferrodp._numerics.rounding import next_up, probability_up
from ferrodp._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array, Reals
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedSample:
    """How a truncated Poisson sample depends on one record: one of two kinds of step happens.

    Attributes
    ----------
    full_probability : Bounds
        p, the chance that the other records fill the batch.
    replaced_probability : float
        q′, the chance that the record then takes the place of another one; rounded up.
    sampling_probability : float
        q, the chance that the record joins otherwise.

    Examples
    --------
    >>> truncated_sample(population_size=4, sampling_probability=0.5, truncated_batch_size=2).sampling_probability
    0.5
    """

    full_probability: Bounds
    replaced_probability: float
    sampling_probability: float


def truncation_probability(*, population_size: int, sampling_probability: Real, truncated_batch_size: int) -> Bounds:
    """Return bounds on P[Bin(n, q) > B], the chance that a sample has to be cut.

    Parameters
    ----------
    population_size : int
        n, from 1 to 2⁶³ − 1.
    sampling_probability : float
        q, in [0, 1]. Rounded up if not exactly representable.
    truncated_batch_size : int
        B, from 0 to 2⁶³ − 1.

    Returns
    -------
    Bounds
        Two adjacent floats, except for very wide distributions.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    Up to 20 000 terms of the tail are added in decimals, from the first on, and a geometric series bounds the rest. The
    relative accuracy does not depend on how small the probability is.

    Examples
    --------
    >>> truncation_probability(population_size=50_000, sampling_probability=0.01, truncated_batch_size=700).upper
    9.108796453048413e-18
    """
    n, q, batch = _parameters(population_size, sampling_probability, truncated_batch_size)
    return _floats(_binomial.at_least(n, q, batch + 1))


def truncation_delta(
    *,
    epsilon: Real,
    population_size: int,
    sampling_probability: Real,
    truncated_batch_size: int,
    count: int = 1,
) -> float:
    """Return what has to be added to δ(ε) of steps with Poisson samples if the samples are cut, rounded up.

    Valid for any release and any neighboring relation; `truncated_poisson_gaussian` is tighter.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0. Rounded up.
    population_size, sampling_probability, truncated_batch_size
        As for `truncation_probability`.
    count : int
        Number of steps, from 0 to 2⁶³ − 1.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    Cutting changes the distribution of a step by P[Bin(n, q) > B] in total variation, on either dataset, so that δ
    grows by (1 + e^ε) times that for each of `count` steps ([CGKKMSZ24] Section 3).

    Examples
    --------
    >>> batch = {"population_size": 50_000, "sampling_probability": 0.01, "truncated_batch_size": 700}
    >>> truncation_delta(epsilon=1.0, **batch, count=1000) < 1e-13
    True
    """
    epsilon = _validate.non_negative("epsilon", epsilon, toward="up")
    count = _validate.count("count", count, minimum=0)
    n, q, batch = _parameters(population_size, sampling_probability, truncated_batch_size)
    if not count:
        return 0.0
    c = arithmetic(40).up
    tail = _binomial.at_least(n, q, batch + 1).upper
    growth = c.add(Decimal(1), c.multiply(c.exp(Decimal(epsilon)), Decimal("1.0000000000000000000000001")))
    added = c.multiply(c.multiply(tail, growth), Decimal(count))
    return 1.0 if added >= 1 else probability_up(added)


def truncated_sample(*, population_size: int, sampling_probability: Real, truncated_batch_size: int) -> TruncatedSample:
    """Return the two kinds of step of which a truncated Poisson sample consists.

    Parameters
    ----------
    population_size, sampling_probability, truncated_batch_size
        As for `truncation_probability`; the size is that of the larger dataset.

    Returns
    -------
    TruncatedSample
        Their probabilities.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    With M ~ Bin(n − 1, q), the batch is full with probability p = P[M ≥ B], and the record then takes the place of
    another one with probability q′ = P[Bin(n, q) > B]·B/(n·p).

    Examples
    --------
    >>> sample = truncated_sample(population_size=4, sampling_probability=0.5, truncated_batch_size=2)
    >>> round(sample.full_probability.upper, 12), round(sample.replaced_probability, 12)
    (0.5, 0.3125)
    """
    n, q, batch = _parameters(population_size, sampling_probability, truncated_batch_size)
    full = _binomial.at_least(n - 1, q, batch)
    replaced = 0.0
    if batch and full.lower > 0:
        c = arithmetic(40).up
        over = c.multiply(_binomial.at_least(n, q, batch + 1).upper, Decimal(batch))
        replaced = min(probability_up(c.divide(c.divide(over, Decimal(n)), full.lower)), q)  # B/(M + 1) < 1
    return TruncatedSample(full_probability=_floats(full), replaced_probability=replaced, sampling_probability=q)


def truncated_poisson_gaussian(
    noise_multiplier: Real,
    population_size: int,
    sampling_probability: Real,
    truncated_batch_size: int,
    orders: Reals,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> Any:
    """Return upper bounds on ρ(α) of a Gaussian release about a truncated Poisson sample.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of the sum divided by the largest norm of a record's contribution; finite, > 0.
        Rounded down.
    population_size, sampling_probability, truncated_batch_size
        As for `truncation_probability`; the size is that of the larger dataset.
    orders : float or array
        α > 1, any real ones.
    neighboring_relation : NeighboringRelation
        `ADD_OR_REMOVE_ONE`, or `REPLACE_SPECIAL`, where the second term below is that of a fixed-size sample under
        replacement.

    Returns
    -------
    float or float64 ndarray
        In nats, of the shape of the orders.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.
    UnsupportedEventError
        For `REPLACE_ONE`, to which `truncation_delta` applies.

    Notes
    -----
    A(α) = (1 − p)·A(z, q) + p·A(z/2, q′), ρ = ln A/(α − 1), by joint convexity of the moments, with p and q′ of
    `truncated_sample`; both terms are those of Poisson-sampled Gaussian noise.

    Examples
    --------
    >>> truncated_poisson_gaussian(1.0, 50_000, 0.01, 700, [2, 16]).round(6).tolist()
    [0.000172, 24.489607]
    """
    z = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    sample = truncated_sample(
        population_size=population_size,
        sampling_probability=sampling_probability,
        truncated_batch_size=truncated_batch_size,
    )
    asked = _arrays.orders_above_one(orders)
    flat = np.ascontiguousarray(asked).reshape(-1)
    joined = _poisson(z, sample.sampling_probability, flat)
    half = math.nextafter(0.5 * z, 0.0)
    if neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        replaced = _poisson(half, sample.replaced_probability, flat)
    elif neighboring_relation is NeighboringRelation.REPLACE_SPECIAL:
        probabilities = np.full(flat.shape, sample.replaced_probability)
        noise = np.full(flat.shape, half)
        replaced = _native.rdp_fixed_size_gaussian_replace_one(noise, probabilities, flat, None).tolist()
    else:
        raise UnsupportedEventError(
            "no Rényi curve is known for a truncated Poisson sample under REPLACE_ONE; account for Poisson samples and "
            "add `truncation_delta` to δ"
        )
    free = 1.0 - sample.full_probability.lower
    weights = (next_up(free) if 0.0 < free < 1.0 else free, sample.full_probability.upper)
    found = [_mixed(rates, weights, order) for *rates, order in zip(joined, replaced, flat.tolist(), strict=True)]
    return _arrays.shaped(np.array(found, dtype=np.float64), asked.shape)


def _mixed(rates: list[float], weights: tuple[float, float], order: float) -> float:
    """Return ln(1 + Σ w·(A − 1))/(α − 1) with A = e^{(α − 1)ρ}, raised by more than its 40 roundings."""
    kept = [(weight, (order - 1.0) * rho) for weight, rho in zip(weights, rates, strict=True) if weight > 0.0 < rho]
    top = max((part for _, part in kept), default=0.0)
    if not kept or top == math.inf:
        return top
    if top < 600.0:
        excess = sum(weight * math.expm1(part) * (1.0 + 2.0**-51 * part) for weight, part in kept)
        log = math.log1p(excess * (1.0 + 2.0**-46))
    else:
        sum_ = sum(weight * math.exp(part - top) for weight, part in kept) + math.exp(-600.0)
        log = top + math.log(sum_) + 2.0**-50 * top
    return min(log / (order - 1.0) * (1.0 + 2.0**-46), max(rates))


def _poisson(z: float, q: float, orders: Array) -> list[float]:
    noise, probabilities = np.full(orders.shape, z), np.full(orders.shape, q)
    upper: list[float] = _native.rdp_poisson_gaussian(noise, probabilities, orders, None)[1].tolist()
    return upper


def _parameters(population_size: int, sampling_probability: Real, truncated_batch_size: int) -> tuple[int, float, int]:
    n = _validate.count("population_size", population_size)
    q = _validate.probability("sampling_probability", sampling_probability)
    return n, q, _validate.count("truncated_batch_size", truncated_batch_size, minimum=0)


def _floats(tail: _binomial.Tail) -> Bounds:
    return Bounds(_validate.rounded(tail.lower, "down"), probability_up(tail.upper))
