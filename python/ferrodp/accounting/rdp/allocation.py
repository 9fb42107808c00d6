"""Rényi curves of random allocation: rounds in which each record takes part in a few of the steps, drawn at random."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Reals
from ferrodp.accounting._laws.allocated import MAX_STEPS, blocks
from ferrodp.accounting._types import Direction

_INVERSE_NOISE_RANGE = (1e-3, 20.0)
"""Outside this range of inverse noise multipliers the answer is that without sampling."""
_DIRECTIONS: dict[str, tuple[Direction, ...]] = {"both": ("remove", "add"), "remove": ("remove",), "add": ("add",)}


def random_allocation_gaussian(
    noise_multiplier: Real,
    num_steps: int,
    orders: Reals,
    *,
    num_selected: int = 1,
    direction: Direction | Literal["both"] = "both",
) -> Any:
    """Return upper bounds on ρ(α) of one round of random allocation with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of a step divided by its L2 sensitivity; finite, > 0. Rounded down.
    num_steps : int
        Steps of the round, T; from 1 to 2⁵³.
    orders : float or array
        α > 1, any real ones.
    num_selected : int
        In how many steps each record takes part; from 0 to `num_steps`.
    direction : {"both", "remove", "add"}
        "remove" if the first of the two datasets has the record, "add" if the second has it, "both" for the larger
        divergence of the two.

    Returns
    -------
    float or float64 ndarray
        In nats, of the shape of the orders.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    "remove", one step of T: E r̄^α as a finite sum ([FS25] Corollary 4.6), exact at integers up to 256; between them
    (α − 1)·ρ(α) is interpolated, being convex ([EH14] Theorem 11 and Corollary 2); beyond, α/2z². "add": an integral
    over Laplace transforms, or α/2z²T + (1 − 1/T)/2z² by the inequality of arithmetic and geometric means, where that
    suffices. Selecting k steps of T is the same as dividing the steps at random into k blocks of ⌊T/k⌋ or ⌈T/k⌉ and
    selecting one step of each, so that rounds with one selected step add up to a bound (compare their Lemma 3.2).

    Examples
    --------
    >>> random_allocation_gaussian(1.0, 10, [2, 8]).round(6).tolist()
    [0.158565, 1.707541]
    """
    z = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    steps, selected = steps_of(num_steps, num_selected)
    asked = _arrays.orders_above_one(orders)
    directions = directions_of(direction)
    found = [rate(z, steps, selected, order, directions) for order in asked.reshape(-1).tolist()]
    return _arrays.shaped(np.array(found, dtype=np.float64), asked.shape)


def is_sampled(z: float) -> bool:
    """Whether the noise is in the range where the distribution of a sampled round is evaluated."""
    return _INVERSE_NOISE_RANGE[0] <= 1.0 / z <= _INVERSE_NOISE_RANGE[1]


def rate(z: float, steps: int, selected: int, order: float, directions: tuple[Direction, ...]) -> float:
    """Return an upper bound on ρ(α) of one round, for checked parameters."""
    unsampled = order / (2.0 * z) / z * (1.0 + 2.0**-50)  # four roundings
    total = 0.0
    for length, times in blocks(steps, selected):
        each = unsampled
        if length > 1 and order < math.inf and is_sampled(z):
            removed = min(_removed_moments(z, length).rate(order), unsampled)
            each = removed if "remove" in directions else 0.0
            if "add" in directions:
                means = (order / length + 1.0 - 1.0 / length) / (2.0 * z) / z * (1.0 + 2.0**-49)
                if means > each:
                    each = max(each, min(means, _added(z, length, order), unsampled))
        total += times * each
    return min(total, selected * unsampled) * (1.0 + 2.0**-51)


@functools.lru_cache(maxsize=4096)
def _added(z: float, length: int, order: float) -> float:
    return _added_moments(z, length).rates([order])[0]


@functools.lru_cache(maxsize=64)
def _removed_moments(z: float, length: int) -> _native.AllocationRemoved:
    return _native.AllocationRemoved(z, length)


@functools.lru_cache(maxsize=64)
def _added_moments(z: float, length: int) -> _native.AllocationMoments:
    return _native.AllocationMoments(inverse(z), length)


def inverse(z: float, *, is_upper: bool = True) -> float:
    """Return 1/z, rounded up, or down for a lower bound on the loss."""
    return math.nextafter(1.0 / z, math.inf if is_upper else 0.0)


def steps_of(num_steps: int, num_selected: int) -> tuple[int, int]:
    """Return how many steps a round has, and in how many of them each record takes part, checked."""
    steps = _validate.count("num_steps", num_steps, maximum=MAX_STEPS)
    return steps, _validate.count("num_selected", num_selected, minimum=0, maximum=steps)


def directions_of(direction: Direction | Literal["both"]) -> tuple[Direction, ...]:
    """Return the directions that are requested."""
    if direction not in _DIRECTIONS:
        raise _validate.out_of_domain("direction", "'both', 'remove' or 'add'", direction)
    return _DIRECTIONS[direction]
