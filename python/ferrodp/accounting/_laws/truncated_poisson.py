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

Sources: [CGKKMSZ24]; arXiv:2508.15089. `ferrodp_accounting::sampling::truncated` computes probabilities and curves.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Reals
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_relation


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
    Up to 10⁵ terms of the tail are added in 256 bits, from the first on, and a geometric series bounds the rest. The
    relative accuracy does not depend on how small the probability is.

    Examples
    --------
    >>> truncation_probability(population_size=50_000, sampling_probability=0.01, truncated_batch_size=700).upper
    9.108796453048413e-18
    """
    return Bounds(*_sample(*_parameters(population_size, sampling_probability, truncated_batch_size))[0])


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
    sample = _parameters(population_size, sampling_probability, truncated_batch_size)
    return _native.truncated_delta(sample, epsilon, count)


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
    _, full, replaced = _sample(n, q, batch)
    return TruncatedSample(full_probability=Bounds(*full), replaced_probability=replaced, sampling_probability=q)


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
    sample = _parameters(population_size, sampling_probability, truncated_batch_size)
    asked = _arrays.orders_above_one(orders)
    # mutant: truncated-sample-takes-any-relation
    neighboring_relation = check_relation(neighboring_relation)
    if neighboring_relation is NeighboringRelation.REPLACE_ONE:
        raise UnsupportedEventError(
            "no Rényi curve is known for a truncated Poisson sample under REPLACE_ONE; account for Poisson samples and "
            "add `truncation_delta` to δ"
        )
    flat = np.ascontiguousarray(asked).reshape(-1)
    is_zeroed = neighboring_relation is NeighboringRelation.REPLACE_SPECIAL
    return _arrays.shaped(_native.rdp_truncated_poisson_gaussian(sample, z, flat, is_zeroed), asked.shape)


def _parameters(population_size: int, sampling_probability: Real, truncated_batch_size: int) -> tuple[int, float, int]:
    n = _validate.count("population_size", population_size)
    q = _validate.probability("sampling_probability", sampling_probability)
    return n, q, _validate.count("truncated_batch_size", truncated_batch_size, minimum=0)


@functools.lru_cache(maxsize=256)
def _sample(n: int, q: float, batch: int) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Return bounds on the chance of a cut, bounds on p, and q′."""
    return _native.truncated_sample(n, q, batch)
