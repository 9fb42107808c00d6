"""Where a picture computes its curves: at more points where one of them bends, or two of them cross."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.accounting.curve import Curve

Array: TypeAlias = npt.NDArray[np.float64]

_TOLERANCE = 0.002
"""How far a curve may be from a straight line between its points, as a share of the picture."""
_NARROWEST = 1.0 / 512
"""Width of an interval that is not divided any more, as a share of the picture."""
_ROUNDS = 6


def refined(
    sources: Mapping[str, Callable[[Array], Curve]],
    grid: Array,
    *,
    most: int,
    log_x: bool = False,
    log_y: bool = False,
    floor: float = 0.0,
    whole: bool = False,
) -> dict[str, Curve]:
    """Return all curves at the points of one grid, which is divided until lines between its points are good enough.

    Parameters
    ----------
    sources : mapping of str to callable
        What computes each curve at rising points.
    grid : float64 ndarray
        The first points, rising.
    most : int
        Points at which the grid is not divided any more.
    log_x, log_y : bool
        Whether the axes of the picture are logarithmic.
    floor : float
        The least value that is drawn.
    whole : bool
        Whether points are integers, each of which costs an answer.

    Returns
    -------
    dict of str to Curve
        By the names of the sources.
    """
    curves = {name: source(grid) for name, source in sources.items()}
    for _ in range(_ROUNDS):
        x = next(iter(curves.values()), Curve(grid, grid, grid)).x
        shown = _shares(np.log(np.maximum(x, 1e-300)) if log_x else x)
        heights = _heights([curve.upper for curve in curves.values()], log_y, floor)
        divided = np.flatnonzero(_bent(shown, heights) | _crossed(shown, heights))
        middles = np.sqrt(x[divided] * x[divided + 1]) if log_x else (x[divided] + x[divided + 1]) / 2.0
        if whole:
            middles = np.round(middles)
        new = np.setdiff1d(middles, x)[: max(most - x.size, 0)]
        if not new.size:
            break
        if whole:  # each point costs an answer
            curves = {name: _merged(curve, sources[name](new)) for name, curve in curves.items()}
        else:  # points share what they cost, and bounds that were found together make a smooth line
            together = np.union1d(x, new)
            curves = {name: source(together) for name, source in sources.items()}
    return curves


def _shares(values: Array) -> Array:
    """Return values as shares of the space between the least and the largest."""
    span = values[-1] - values[0] if values.size else 0.0
    shares: Array = (values - values[0]) / span if span > 0.0 else np.zeros_like(values)
    return shares


def _heights(values: list[Array], log: bool, floor: float) -> list[Array]:
    """Return where values are in the picture, as shares of its height; not a number where they are not finite."""
    drawn = [np.where(np.isfinite(each), np.maximum(each, floor), np.nan) for each in values]
    scaled = [np.log(np.maximum(each, 1e-300)) if log else each for each in drawn]
    known = np.concatenate([each[np.isfinite(each)] for each in scaled]) if scaled else np.zeros(0)
    span = float(np.ptp(known)) if known.size else 0.0
    return [(each - known.min()) / span if span > 0.0 else np.where(np.isfinite(each), 0.0, np.nan) for each in scaled]


def _bent(x: Array, heights: list[Array]) -> npt.NDArray[np.bool_]:
    """Return which intervals lie beside a point that is far from the line between its neighbors."""
    found = np.zeros(max(x.size - 1, 0), dtype=bool)
    if x.size < 3:
        return found
    with np.errstate(invalid="ignore", divide="ignore"):
        part = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
        for y in heights:
            off = np.abs(y[1:-1] - (y[:-2] + part * (y[2:] - y[:-2]))) > _TOLERANCE
            found[:-1] |= off
            found[1:] |= off
    wide: npt.NDArray[np.bool_] = found & (np.diff(x) > _NARROWEST)
    return wide


def _crossed(x: Array, heights: list[Array]) -> npt.NDArray[np.bool_]:
    """Return in which intervals two curves exchange their order."""
    found = np.zeros(max(x.size - 1, 0), dtype=bool)
    for one, other in itertools.combinations(heights, 2):
        sign = np.sign(np.nan_to_num(one - other))
        found |= sign[:-1] * sign[1:] < 0.0
    wide: npt.NDArray[np.bool_] = found & (np.diff(x) > _NARROWEST)
    return wide


def _merged(one: Curve, other: Curve) -> Curve:
    x = np.concatenate([one.x, other.x])
    order = np.argsort(x, kind="stable")
    lower, upper = np.concatenate([one.lower, other.lower]), np.concatenate([one.upper, other.upper])
    return Curve(x[order], lower[order], upper[order])
