"""Private k-means: rounds of noised counts and sums of the rows nearest to each center."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import Keep
from ferrodp.statistics.models._sums import (
    Floats,
    box_of,
    counted,
    found_length,
    length_of,
    of_units,
    outer_sum,
    pay,
    planned,
    rows_of,
    shortened,
)
from ferrodp.tickets import Ticket

__all__ = ["Clusters", "private_clusters"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_FOR_LENGTH = Fraction(1, 20)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Clusters:
    """Centers of clusters; made by `private_clusters`.

    Attributes
    ----------
    centers : (k, d) ndarray of float64
        Within the bounds.
    sizes : (k,) ndarray of float64
        Noised numbers of rows nearest to the centers that the last round began with, at least 0.
    epsilon, delta : float
        What they guarantee.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_clusters
    >>> rows = np.repeat([[1.0, 1.0], [9.0, 9.0]], 2_000, axis=0)
    >>> found = private_clusters(rows, 2, bounds=(0, 10), epsilon=2.0, delta=1e-6, seed=0)
    >>> found.predict([[0.0, 0.0]])[0] != found.predict([[10.0, 10.0]])[0]
    np.True_
    """

    centers: Floats
    sizes: Floats
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation
    _middle: Floats
    _half: Floats

    def predict(self, rows: Any) -> npt.NDArray[np.intp]:
        """Return the place of the nearest center of each row, in units of half the distance of the bounds.

        Parameters
        ----------
        rows : (n, d) array of numbers
            In the units of the data; what is not finite counts as the middle of the bounds.

        Returns
        -------
        (n,) ndarray of int

        Raises
        ------
        InvalidArray
            If the shape or dtype is not accepted.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import private_clusters
        >>> rows = np.repeat([[-0.8], [0.8]], 2_000, axis=0)
        >>> found = private_clusters(rows, 2, bounds=(-1, 1), epsilon=1.0, delta=1e-6, seed=0)
        >>> found.predict(found.centers).tolist()
        [0, 1]
        """
        with np.errstate(all="ignore"):
            values = (rows_of(rows, width=self.centers.shape[1]) - self._middle) / self._half
            values = np.clip(np.where(np.isfinite(values), values, 0.0), -1e6, 1e6)
            return nearest(values, (self.centers - self._middle) / self._half)

    def __repr__(self) -> str:
        return f"<Clusters: {len(self.centers)} centers; ε={self.epsilon:g}, δ={self.delta:g}>"


def nearest(rows: Floats, centers: Floats) -> npt.NDArray[np.intp]:
    """Return the place of the nearest center of each row."""
    found = np.empty(len(rows), np.intp)
    squares = 0.5 * np.einsum("ij,ij->i", centers, centers)
    for start in range(0, len(rows), 1 << 14):
        part = rows[start : start + (1 << 14)]
        found[start : start + len(part)] = np.argmin(squares - part @ centers.T, axis=1)
    return found


class _Mean:
    """The mean of all rows, from the cells of all rounds so far: those of a round with few cells have less noise."""

    def __init__(self, width: int, constant: float) -> None:
        self.constant = constant
        self.sums: Floats = np.zeros(1 + width)
        self.weight = 0.0

    def with_round(self, noised: Floats, least: float) -> Floats:
        """Return the mean that is known after one more round; the number of rows counts as at least so many."""
        self.sums = self.sums + noised.sum(axis=0) / len(noised)
        self.weight += 1.0 / len(noised)
        whole = self.sums / self.weight
        found: Floats = np.clip(whole[1:] / max(float(whole[0]) / self.constant, least), -1.0, 1.0)
        return found


def shrunk(centers: Floats, mean: Floats, noise: Floats, constant: float) -> Floats:
    """Return centers that are nearer to the mean of all rows, the more the larger their noise is beside the distance.

    Noise of the variance s² in each coordinate of a sum, and in its size, moves a center by s²(d + ‖c‖²/a²) on average,
    squared and divided by the square of the size. Half of it is taken off the squared distance: James and Stein's
    estimator of one center takes off nearly all, and centers that are too near to one another keep fewer cells apart.
    """
    apart = centers - mean
    squares = np.einsum("ij,ij->i", apart, apart)
    expected = noise * (centers.shape[1] + np.einsum("ij,ij->i", centers, centers) / constant**2)
    kept = np.maximum(squares - 0.5 * expected, 0.0) / np.maximum(squares, 1e-100)
    found: Floats = mean + kept[:, None] * apart
    return found


def _spread(clusters: int, width: int, length: float, rng: np.random.Generator) -> Floats:
    """Return centers far from each other, without a look at the data: the farthest of some random points each time."""
    reach = min(1.0, length / np.sqrt(width))
    points = rng.uniform(-reach, reach, (1 + 30 * clusters, width))
    chosen = [points[0]]
    for _ in range(clusters - 1):
        apart = np.min([((points - each) ** 2).sum(axis=1) for each in chosen], axis=0)
        chosen.append(points[int(apart.argmax())])
    return np.array(chosen)


def _merged(points: Floats, weights: Floats, clusters: int, rng: np.random.Generator) -> Floats:
    """Return so many centers of weighted points: the best of several starts of k-means on what was released."""
    best, least = points[:clusters], np.inf
    for _ in range(20):
        chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
        while len(chosen) < clusters:
            apart = np.min([((points - points[each]) ** 2).sum(axis=1) for each in chosen], axis=0) * weights
            chosen.append(int(rng.choice(len(points), p=apart / apart.sum())) if apart.sum() > 0.0 else chosen[-1])
        centers = points[chosen].copy()
        for _ in range(10):
            place = nearest(points, centers)
            for each in np.unique(place):
                mine = place == each
                centers[each] = np.average(points[mine], axis=0, weights=weights[mine])
        cost = float((weights * ((points - centers[nearest(points, centers)]) ** 2).sum(axis=1)).sum())
        if cost < least:
            best, least = centers, cost
    return best


@_arrays.quiet
def private_clusters(
    rows: Any,
    num_clusters: int,
    *,
    bounds: tuple[Any, Any],
    num_rounds: int = 5,
    clip_norm: Real | None = None,
    seed: int | None = None,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Clusters:
    """Return centers of clusters by rounds of k-means with noised counts and sums.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    rows, bounds, clip_norm, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_moments`.
    num_clusters : int
        k, from 1 to 10000.
    num_rounds : int
        How often counts and sums are released, from 1 to 100; each has an equal share of the budget.
    seed : int, optional
        Of the first centers, which are random points within the bounds: public, and no source of noise.

    Returns
    -------
    Clusters
        The centers after the last round.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    A round is the sum of e ⊗ (a, t) over rows, e the unit vector of the nearest center, t the scaled row and a constant
    [SCLBJ16]. One row adds one such product: it moves the sum by at most √(a² + R²). Each round depends on the
    centers of the one before it, which were released. The first one has four cells for each cluster; k-means with
    several starts on the released cells, weighted by their sizes, merges them, which is post-processing. So is that
    centers are moved toward the mean of all rows, by as much as their noise explains half of their distance from it
    [JS61]: the noise is public, and the mean is what all cells of all rounds say together.

    References
    ----------
    [JS61] James, Stein, "Estimation with quadratic loss", Proc. 4th Berkeley Symposium, 1961.
    [SCLBJ16] Su, Cao, Li, Bertino, Jin, "Differentially private k-means clustering", CODASPY 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_clusters
    >>> rows = np.repeat([[1.0], [9.0]], 5_000, axis=0)
    >>> found = private_clusters(rows, 2, bounds=(0, 10), epsilon=1.0, delta=1e-6, seed=0)
    >>> np.sort(found.centers.ravel()).round().tolist()
    [1.0, 9.0]
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    values = rows_of(rows, without=unit)
    box = box_of(bounds, values.shape[1])
    clusters = _validate.count("num_clusters", num_clusters, maximum=10_000)
    rounds = _validate.count("num_rounds", num_rounds, maximum=100)
    if seed is not None:
        _validate.count("seed", seed, minimum=0)
    length = length_of(clip_norm, values.shape[1])
    for_length = Fraction(0) if length is not None else _FOR_LENGTH
    parts = [for_length] * (length is None) + [(1 - for_length) / rounds] * rounds
    spent = of_units(spent, rows, unit, keep)
    scaled, counts = box.scaled(values)
    counts = counted(spent, counts)
    payment = pay(spent, planned(spent, parts), f"k-means, {clusters} clusters", rows, box, unit)
    if length is None:
        length = found_length(scaled, counts, payment, 0)
    scaled = shortened(scaled, length)
    constant = 0.5 * length
    terms = np.column_stack([np.full(len(scaled), constant), scaled])
    terms[~counts] = 0.0
    rng = np.random.default_rng(seed)
    coarse = clusters if rounds == 1 or clusters > 1000 else 4 * clusters
    centers = _spread(coarse, values.shape[1], length, rng)
    norm = float(np.hypot(constant, length))
    sizes, means = np.zeros(0), _Mean(values.shape[1], constant)
    for number in range(len(parts) - rounds, len(parts)):
        hot = np.zeros((len(scaled), len(centers)))
        hot[np.arange(len(scaled)), nearest(scaled, centers)] = 1.0
        noised = payment.release(number, outer_sum(hot, terms, norm))
        sizes = np.maximum(noised[:, 0] / constant, 0.0)
        # a cell with fewer rows than the noise of their number stays where it is
        deviation = payment.deviation(number, norm)
        least = 2.0 * deviation / constant
        moved = np.clip(noised[:, 1:] / np.maximum(sizes, least)[:, None], -1.0, 1.0)
        centers = np.where((sizes > least)[:, None], moved, centers)
        noise = (deviation / np.maximum(sizes, least)) ** 2
        centers = shrunk(centers, means.with_round(noised, least), noise, constant)
        if len(centers) > clusters:
            order = np.argsort(-sizes, kind="stable")
            kept = order[: max(clusters, int((sizes > least).sum()))]
            centers = _merged(centers[kept], np.maximum(sizes[kept], 1.0), clusters, rng)
    return Clusters(
        centers=box.middle + box.half * centers,
        sizes=sizes,
        epsilon=spent.epsilon,
        delta=spent.delta,
        event=payment.event,
        unit=spent.unit,
        neighboring_relation=spent.relation,
        _middle=box.middle,
        _half=box.half,
    )
