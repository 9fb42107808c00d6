"""Stretches of outputs that occur twice, wherever they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_LOOKED_AT = 1000


def length_for(size: int, collision: float, failure: float) -> int:
    """Return the least power of two k, so that any stretch of k occurs twice with probability `failure` at most.

    Two stretches that share no element are equal with probability ``collision**k``, for outputs that are independent
    and of one law, and there are fewer than ``size**2 / 2`` pairs.
    """
    if collision >= 1.0:
        return size
    needed = math.log(size * (size / 2.0) / failure) / -math.log(collision)
    return min(int(2 ** math.ceil(math.log2(max(needed, 1.0)))), size)


def repeated(x: npt.NDArray[Any], length: int) -> tuple[int, int] | None:
    """Return where a stretch of so many elements is that occurs again, and where; they share no element."""
    if 2 * length > x.size:
        return None
    hashes = np.unique(x, return_inverse=True)[1].reshape(-1).astype(np.uint64)
    width = 1
    while width < length:  # a hash of twice as many from two
        hashes = _mixed(hashes[:-width], hashes[width:])
        width *= 2
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1], [True]]))
    for group in np.flatnonzero(np.diff(begins) > 1)[:_LOOKED_AT].tolist():
        one, other = int(order[begins[group]]), int(order[begins[group + 1] - 1])  # the first and the last of a group
        if other - one >= length and np.array_equal(x[one : one + length], x[other : other + length]):
            return one, other
    return None


def _mixed(one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    found = (one * _MIX[0]) ^ (one >> np.uint64(31))
    found = (found + other) * _MIX[1]
    return found ^ (found >> np.uint64(29))
