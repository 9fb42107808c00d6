"""Rényi curves of random allocation: rounds in which each record takes part in a few of the steps, drawn at random."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

from ferrodp import _native, _validate
from ferrodp._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Reals
from ferrodp.accounting._types import Direction
from ferrodp.accounting.rdp import allocation_moments as _allocation_moments

_INVERSE_NOISE_RANGE = (1e-3, 20.0)  # of the inverse noise multiplier: beyond, the answer is the one without sampling
_DIRECTIONS: dict[str, tuple[Direction, ...]] = {"both": ("remove", "add"), "remove": ("remove",), "add": ("add",)}
_LARGEST_STEPS = 2**53


def random_allocation_gaussian(
    noise_multiplier: Real,
    num_steps: int,
    orders: Reals,
    *,
    num_selected: int = 1,
    direction: Direction | Literal["both"] = "both",
) -> Any:
    """Return upper bounds on ρ(α) of one round.

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
        "remove" if the first of the two datasets has the record, "add" if the second has it, "both" for the larger one.

    Notes
    -----
    "remove", one step of T: E r̄^α as a finite sum (Feldman, Shenfeld, "Privacy amplification by random allocation",
    NeurIPS 2025, in arXiv:2502.08202v4 Corollary 4.6), exact at integers up to 256; between them (α − 1)·ρ(α) is
    interpolated, being convex (van Erven, Harremoës, "Rényi divergence and Kullback–Leibler divergence", 2014, Theorem
    11 and Corollary 2); beyond, α/2z². "add": an integral over Laplace transforms, or α/2z²T + (1 − 1/T)/2z², from the
    inequality of the arithmetic and the geometric mean, where that is enough. k steps of T are drawn by cutting the
    steps at random into k blocks of ⌊T/k⌋ or ⌈T/k⌉ and one step out of each, so that rounds of one step add up to a
    bound (compare their Lemma 3.2).

    Examples
    --------
    >>> random_allocation_gaussian(1.0, 10, [2, 8]).round(6).tolist()
    [0.158565, 1.707541]
    """
    z = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    steps, selected = steps_of(num_steps, num_selected)
    asked = _arrays.orders(orders)
    if (asked <= 1.0).any():
        raise _validate.out_of_domain("orders", "> 1", 1.0)
    directions = directions_of(direction)
    found = [rate(z, steps, selected, order, directions) for order in asked.reshape(-1).tolist()]
    return _arrays.shaped(np.array(found, dtype=np.float64), asked.shape)


def is_sampled(z: float) -> bool:
    """Return whether the noise is in the range where the law of a sampled round is evaluated."""
    return _INVERSE_NOISE_RANGE[0] <= 1.0 / z <= _INVERSE_NOISE_RANGE[1]


def rate(z: float, steps: int, selected: int, order: float, directions: tuple[Direction, ...]) -> float:
    """Return an upper bound on ρ(α) of one round, for parameters that were checked."""
    unsampled = order / (2.0 * z) / z * (1.0 + 2.0**-50)  # four roundings
    total = 0.0
    for length, times in blocks(steps, selected):
        each = unsampled
        if length > 1 and order < math.inf and is_sampled(z):
            removed = min(_allocation_moments.rate(z, length, order), unsampled)
            each = removed if "remove" in directions else 0.0
            if "add" in directions:
                means = (order / length + 1.0 - 1.0 / length) / (2.0 * z) / z * (1.0 + 2.0**-49)
                if means > each:
                    each = max(each, min(means, _added(z, length, order), unsampled))
        total += times * each
    return min(total, selected * unsampled) * (1.0 + 2.0**-51)


@functools.lru_cache(maxsize=4096)
def _added(z: float, length: int, order: float) -> float:
    return float(_native.allocation_rdp_add(inverse(z), length, [order])[0])


def blocks(steps: int, selected: int) -> list[tuple[int, int]]:
    """Return lengths of blocks and how many there are."""
    if not selected:
        return []
    length, longer = divmod(steps, selected)
    return [(each, times) for each, times in ((length, selected - longer), (length + 1, longer)) if times]


def inverse(z: float, *, is_upper: bool = True) -> float:
    """Return 1/z, rounded to more loss or to less."""
    return math.nextafter(1.0 / z, math.inf if is_upper else 0.0)


def steps_of(num_steps: int, num_selected: int) -> tuple[int, int]:
    """Check how many steps a round has and in how many of them each record takes part."""
    steps = _validate.count("num_steps", num_steps, maximum=_LARGEST_STEPS)
    return steps, _validate.count("num_selected", num_selected, minimum=0, maximum=steps)


def directions_of(direction: Direction | Literal["both"]) -> tuple[Direction, ...]:
    """Return whether the record is added, for each direction that is asked for."""
    if direction not in _DIRECTIONS:
        raise _validate.out_of_domain("direction", "'both', 'remove' or 'add'", direction)
    return _DIRECTIONS[direction]
