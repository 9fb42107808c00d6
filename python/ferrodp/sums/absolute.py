"""Sums of vectors whose L1 norm is bounded, for Laplace noise: integers on the grid of a `ClippedSum`.

Each vector is clipped to an L1 norm of C and truncated to the grid toward zero, and its integers are added as floats
below 2⁵³, where sums are exact. So neighboring sums are C apart at most in L1 norm, in exact arithmetic and for any
number of vectors. They are checked: Σ|k| ≤ C/g in integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp.clipping import clip_rows
from ferrodp.errors import InvalidArray, InvalidParameter

MOST_VECTORS = 2**22
"""So many fit for any clip norm: each has at most 2³⁰ steps of the grid, and 2⁵³ are exact."""
_FLOATS = 2**53
_ROWS = 2**20
"""About how many coordinates of a batch become integers at a time."""


class L1Sum:
    """A sum of integers whose every vector has an L1 norm of at most C, which becomes floats without rounding."""

    def __init__(self, size: int, clip_norm: float, granularity: float) -> None:
        self._clip_norm, self._granularity = clip_norm, granularity
        self._integers = np.zeros(size)  # whole numbers below 2⁵³, whose sums are exact as floats
        self._bound = math.floor(clip_norm / granularity)  # a power of two: the quotient is exact
        self._most = _FLOATS // (self._bound + 1)
        self.count = 0

    @_arrays.quiet
    def add(self, leaves: list[npt.NDArray[Any]], count: int) -> None:
        """Add vectors that are stacked along the first axis of the arrays that they are made of."""
        if self.count + count > self._most:
            raise InvalidParameter(f"updates must be at most {self._most} for Laplace noise: more could be rounded")
        rows = rows_of(leaves, count)
        height = max(_ROWS // max(rows.shape[1], 1), 1)
        for start in range(0, count, height):
            # mutant: updates-for-laplace-noise-clipped-in-l2
            clipped, _ = clip_rows(rows[start : start + height], clip_norm=self._clip_norm, ord=1)
            units = np.divide(clipped, self._granularity, dtype=np.float64)
            # mutant: updates-for-laplace-noise-rounded-to-nearest
            np.trunc(units, out=units)
            # mutant: update-that-changed-while-it-clipped-added
            if not (np.abs(units).sum(axis=1) <= self._bound).all():
                raise InvalidArray("updates changed while they were added: their norm is not certain")
            self._integers += units.sum(axis=0)
        self.count += count

    def values(self) -> npt.NDArray[np.float64]:
        """Return the sum as floats, exactly."""
        return self._integers * self._granularity  # below 2⁵³ units


def rows_of(leaves: list[npt.NDArray[Any]], count: int) -> npt.NDArray[Any]:
    """Return stacked arrays as one matrix, a row for each entry of their first axis."""
    widths = [leaf.size // count if count else math.prod(leaf.shape[1:]) for leaf in leaves]
    flat = [leaf.reshape(count, width) for leaf, width in zip(leaves, widths, strict=True)]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
