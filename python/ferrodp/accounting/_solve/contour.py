"""Certified δ(ε) and ε(δ) of Poisson-sampled and plain Gaussians by the contour method: native code, wrapped.

The mathematics, with a bound on every error, is written beside the Rust code (`ferrodp-accounting`, module `contour`).
What is composed is given as parallel arrays: noise multipliers, sampling probabilities (1 for plain Gaussians), counts.
The neighboring relation is `ADD_OR_REMOVE_ONE` or `REPLACE_SPECIAL`: both directions are always evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp import _native

REMOVE, ADD = "remove", "add"


@dataclass(frozen=True, slots=True)
class Release:
    """A Gaussian: its noise multiplier, the probability of Poisson sampling (1 for none), how often it happened."""

    noise_multiplier: float
    sampling_probability: float
    count: int


class ContourBounds(NamedTuple):
    """Bounds on a number for one direction, or for the worse of two, and how they were found."""

    lower: float
    upper: float
    direction: str
    """Which one the upper bound belongs to."""
    saddle: float
    """Real part of the contour; 0 if no integral was needed."""
    num_nodes: int
    smoothing: float
    """Width of the smoothing in units of ε; 0 without."""
    log_slack: tuple[float, float, float]
    """Logarithms of what was added relative to δ: rounding and quadrature, truncation, aliasing."""


def bounds(quantity: str, releases: Sequence[Release], points: Sequence[float]) -> list[ContourBounds]:
    """Return bounds over both directions: on "log_delta" (−∞ for δ = 0) or "delta" at each ε ≥ 0, or on "epsilon".

    "epsilon" is the least ε ≥ 0 at each δ in (0, 1), infinite where none is proven.
    """
    at = [math.log(delta) for delta in points] if quantity == "epsilon" else points
    return _bounds(quantity, "worst", releases, at)


def by_direction(releases: Sequence[Release], quantity: str, points: Sequence[float]) -> dict[str, list[ContourBounds]]:
    """Return the bounds of each direction separately: on "log_delta" or "delta" at ε, or on "epsilon" at ln δ."""
    return {direction: _bounds(quantity, direction, releases, points) for direction in (REMOVE, ADD)}


def sweep(
    quantity: str,
    noise_multipliers: npt.ArrayLike,
    sampling_probabilities: npt.ArrayLike,
    counts: npt.ArrayLike,
    points: npt.ArrayLike,
    *,
    threads: int | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return (lower, upper) of compositions of one kind of release each, parameters and points broadcast together.

    `quantity` is "log_delta" or "delta" at ε, or "epsilon" at ln δ; the worse direction is meant. Threads share the
    work; the results do not depend on them.
    """
    sigma, q, count, at = np.broadcast_arrays(noise_multipliers, sampling_probabilities, counts, points)
    rows = _native.contour_sweep(
        quantity,
        np.ascontiguousarray(sigma.ravel(), dtype=np.float64),
        np.ascontiguousarray(q.ravel(), dtype=np.float64),
        np.ascontiguousarray(count.ravel(), dtype=np.uint64),
        np.ascontiguousarray(at.ravel(), dtype=np.float64),
        threads,
    )
    return rows[:, 0].reshape(sigma.shape), rows[:, 1].reshape(sigma.shape)


def curve(
    quantity: str, releases: Sequence[Release], points: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return (lower, upper) over both directions at many points, from contours that they share."""
    at = np.array([math.log(delta) for delta in points.tolist()]) if quantity == "epsilon" else points
    rows = _native.contour_many(quantity, *_columns(releases), at)
    return rows[:, 0].copy(), rows[:, 1].copy()


def _columns(
    releases: Sequence[Release],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    return (
        np.array([release.noise_multiplier for release in releases], dtype=np.float64),
        np.array([release.sampling_probability for release in releases], dtype=np.float64),
        np.array([release.count for release in releases], dtype=np.uint64),
    )


def _bounds(quantity: str, direction: str, releases: Sequence[Release], points: Sequence[float]) -> list[ContourBounds]:
    rows = _native.contour_bounds(
        quantity,
        direction,
        *_columns(releases),
        np.asarray(points, dtype=np.float64),
    )
    return [_named(row) for row in rows.tolist()]


def _named(row: list[float]) -> ContourBounds:
    lower, upper, add, saddle, num_nodes, smoothing, *slack = row
    direction = ADD if add else REMOVE
    return ContourBounds(lower, upper, direction, saddle, int(num_nodes), smoothing, (slack[0], slack[1], slack[2]))
