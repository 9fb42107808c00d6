"""Sums with marks: coordinates of canaries beside those of a sum, in the same units, with the same noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base._trees import Branch
from ferrodp.sums.clipped import ClippedSum, GridSum
from ferrodp.sums.layout import Layout

_BEYOND = 1024.0
"""How many clip norms long the vector of a canary is before it is clipped."""


def canary_vector(total: ClippedSum[Any]) -> npt.NDArray[np.int64]:
    """Return what a canary adds to its own coordinate: a long vector, clipped like those of `total`, on its grid.

    The vector of a canary is zero but for one coordinate, so all canaries are clipped alike.
    """
    one: ClippedSum[Any] = ClippedSum((1,), clip_norm=total.clip_norm, stability=total.stability, dtype=total.dtype)
    with np.errstate(over="ignore"):
        length = min(_BEYOND * max(total.clip_norm, total.stability or 0.0), float(np.finfo(total.dtype).max) / 2.0)
    one.add(np.array([length], total.dtype))
    found: npt.NDArray[np.int64] = one.integers
    return found


def marked(total: ClippedSum[Any], signs: npt.NDArray[np.int8]) -> GridSum[list[Any]]:
    """Return the sum of all that `total` holds and of canaries, each of which has a coordinate of its own beside it.

    Parameters
    ----------
    total : ClippedSum
        Not to be released itself any more.
    signs : (m,) ndarray of int8
        For each canary whether it takes part: ±1, in which direction, or 0.

    Returns
    -------
    GridSum
        Released as a list of two: what `total` would be released as, and the coordinates of the canaries. Every row has
        a norm of at most the clip norm, and is zero in one of the two parts.
    """
    count, integers, _ = total._native.snapshot()
    both = np.concatenate([integers, signs.astype(np.int64) * canary_vector(total)])
    size = count + int(np.count_nonzero(signs))
    native = _native.GridSum.from_integers(both, total.clip_norm, total.dtype.name, total.stability, size, None)
    structure = Branch("list", (0, 1), (total._layout.structure, (signs.size,)), list)
    return GridSum(native, Layout(structure, total.dtype), total.clip_norm, total.stability)
