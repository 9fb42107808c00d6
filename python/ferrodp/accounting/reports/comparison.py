"""Comparison of sampling schemes: the ε of the same noise and batch size under each way to form batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.accounting.curves.gaussian import gaussian_epsilon_bounds
from ferrodp.accounting.sampling.allocation import random_allocation_epsilon_bounds
from ferrodp.errors import InvalidParameter
from ferrodp.events import FixedSizeSampledEvent, GaussianEvent, NeighboringRelation, PoissonSampledEvent, PrivacyEvent

_POPULATION = 2**62  # of a dataset so large that the probability is a share of it; the curve depends on the share alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeCost:
    """What one way to form batches costs.

    Attributes
    ----------
    scheme : str
        How batches are formed.
    neighboring_relation : NeighboringRelation
        Which datasets `epsilon` tells apart.
    epsilon : float
        Upper bound on the smallest ε.
    lower : float
        Lower bound on it; 0 where none is known.
    is_bound : bool
        Whether `epsilon` is proven: all rows are. A training loop with another scheme than it claims has no proof.
    remark : str
        What the number supposes.
    """

    scheme: str
    neighboring_relation: NeighboringRelation
    epsilon: float
    lower: float
    is_bound: bool = True
    remark: str = ""

    def __str__(self) -> str:
        relation, kind = self.neighboring_relation.value, "bound" if self.is_bound else "estimate"
        return f"{self.scheme:<16}{relation:<20}ε ≤ {self.epsilon:<10.6g}{kind}  {self.remark}".rstrip()


def compare_sampling_schemes(
    *, noise_multiplier: Real, sampling_probability: Real, count: int, delta: Real
) -> tuple[SchemeCost, ...]:
    """Return what `count` steps of Gaussian noise cost, by how the batches are formed.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the clip norm C of a record, so that rows are about the same noise;
        where a record is replaced the sensitivity is 2C, which is counted. Finite, > 0. Rounded down.
    sampling_probability : float
        Expected batch size divided by the number of records; in (0, 1]. Rounded up.
    count : int
        Number of steps, from 1 to 2⁶³ − 1.
    delta : float
        In (0, 1).

    Returns
    -------
    tuple of SchemeCost
        One for each way to form batches.

        =======================  ====================================================================
        Poisson                  each record joins each batch by a coin of its own
        fixed size (two rows)    each batch is a uniform subset of fixed size; a record is added or
                                 removed, or else replaced
        balls in bins            in each epoch of ⌊1/q⌋ steps, each record is in one, drawn at random
        known order              each record is in one step of each epoch, and which may be known
        all records              no sampling at all
        =======================  ====================================================================

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    Rows are upper bounds: Poisson and fixed size by `PldAccountant`, balls in bins by
    `random_allocation_epsilon_bounds`, the rest exactly. Shuffled batches are none of these: they cost no more than a
    known order, and to account for them as Poisson samples has no proof. Epochs are rounded up.

    Examples
    --------
    >>> rows = compare_sampling_schemes(noise_multiplier=1.0, sampling_probability=0.05, count=100, delta=1e-5)
    >>> print(max(rows, key=lambda row: row.epsilon))
    all records     add_or_remove_one   ε ≤ 91.8173   bound
    """
    z = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    q = _validate.probability("sampling_probability", sampling_probability)
    if not q:
        raise InvalidParameter("sampling_probability must be > 0, got 0.0")
    count = _validate.count("count", count)
    delta = _validate.delta(delta)
    steps = max(1, math.floor(1 / Fraction(q)))  # fewer steps in an epoch are more loss
    epochs = -(-count // steps)
    added, replaced = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
    noise = GaussianEvent(noise_multiplier=z)
    sample = min(math.ceil(Fraction(q) * _POPULATION), _POPULATION)
    subset = FixedSizeSampledEvent(population_size=_POPULATION, sample_size=sample, event=noise)
    halved = GaussianEvent(noise_multiplier=_at_least(z / 2))
    exchanged = FixedSizeSampledEvent(population_size=_POPULATION, sample_size=sample, event=halved)
    poisson = PoissonSampledEvent(sampling_probability=q, event=noise)
    epoch = f"epochs of {steps} steps"
    found = [
        ("Poisson", added, _by_losses(poisson, added, count, delta), ""),
        ("fixed size", added, _by_losses(subset, added, count, delta), ""),
        ("fixed size", replaced, _by_losses(exchanged, replaced, count, delta), "a replaced record moves a sum by 2C"),
        ("balls in bins", added, _in_bins(z, steps, epochs, delta), epoch),
        ("known order", added, _plain(z, epochs, delta), epoch),
        ("all records", added, _plain(z, count, delta), ""),
    ]
    return tuple(
        SchemeCost(scheme=scheme, neighboring_relation=relation, epsilon=upper, lower=lower, remark=remark)
        for scheme, relation, (lower, upper), remark in found
    )


def _by_losses(event: PrivacyEvent, relation: NeighboringRelation, count: int, delta: float) -> Bounds:
    accountant = PldAccountant(neighboring_relation=relation)
    accountant.compose(event, count)
    return accountant.epsilon_bounds(delta)


def _in_bins(z: float, steps: int, epochs: int, delta: float) -> Bounds:
    return random_allocation_epsilon_bounds(
        delta=delta, noise_multiplier=z, num_steps=min(steps, 2**53), num_rounds=epochs
    )


def _plain(z: float, number: int, delta: float) -> Bounds:
    """Return bounds for Gaussian releases without sampling: one with z/√n, the root rounded to either side."""
    root = math.sqrt(number)
    below = gaussian_epsilon_bounds(delta=delta, noise_multiplier=_at_least(z / root * (1.0 - 2.0**-50)))
    above = gaussian_epsilon_bounds(delta=delta, noise_multiplier=_at_least(z / root * (1.0 + 2.0**-50)))
    return Bounds(above.lower, below.upper)


def _at_least(z: float) -> float:
    """Return a noise multiplier > 0: the smallest ones all have an infinite ε."""
    return max(z, math.ulp(0.0))
