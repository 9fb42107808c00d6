"""Statistics that are learned from draws: they lean on how the numbers of an output depend on each other."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from ferrodp.audit._events.outputs import Array, Outputs
from ferrodp.audit._events.statistics import Bins, Difference, Frame, Linear, Quadratic, Scores, Statistic, Table

_LEAST_DRAWS = 40
_RIDGE = 1e-10
"""Of a correlation matrix: what is smaller is taken for an error of rounding."""
_BINS, _COARSE, _FINE = 32, 12, 64
_ATOMS = 16
_SCREENED, _PAIRED = 2048, 16_384
"""Draws that screen pairs of numbers for differences that repeat, and for dependence."""
_PAIRS = 8
_REPEATS = 1e-9
"""Differences that are so near, in standard deviations, are equal."""
_BY_CHANCE = 16.0
"""Standard deviations of a χ² statistic, above its mean, of bins that are no noise: 4, squared."""


def differences(one: Outputs, other: Outputs) -> list[Statistic]:
    """Return differences and sums of two numbers that repeat more often than the numbers themselves."""
    width = min(one.width, other.width)
    if width < 2 or one.size < _LEAST_DRAWS:
        return []
    found: list[tuple[float, int, int, float, float]] = []
    for side in (one, other):
        columns = np.asarray(side.columns[:width, :_SCREENED], dtype=np.float64)
        columns = np.where(np.isfinite(columns), columns, np.nan)
        with np.errstate(all="ignore"):
            spread = np.nan_to_num(np.fmax.reduce(columns, axis=1) - np.fmin.reduce(columns, axis=1))
        alone = _repeats(columns, _REPEATS * spread)
        for i, sign in itertools.product(range(width - 1), (-1.0, 1.0)):
            steps = _REPEATS * np.minimum(spread[i], spread[i + 1 :])
            often = _repeats(columns[i] + sign * columns[i + 1 :], steps)
            excess = (often + 1.0) / (np.maximum(alone[i], alone[i + 1 :]) + 1.0)
            found += [
                (-float(excess[k]), i, i + 1 + k, sign, float(steps[k]))
                for k in np.flatnonzero((excess > 2.0) & (steps > 0.0)).tolist()
            ]
    places = dict.fromkeys((i, j, sign, 2.0 ** np.ceil(np.log2(step))) for _, i, j, sign, step in sorted(found))
    return [Difference(i, j, sign, step) for i, j, sign, step in list(places)[: 2 * _PAIRS]]


def _repeats(rows: Array, steps: Array) -> Array:
    """Return how many numbers of each row are followed by one that is as good as equal, in rising order."""
    found: Array = (np.diff(np.sort(rows, axis=1), axis=1) <= steps[:, None]).sum(axis=1).astype(np.float64)
    return found


def learned(one: Outputs, other: Outputs) -> list[Statistic]:
    """Return statistics that are fitted to the draws of both sides: outputs with two numbers or more."""
    width = min(one.width, other.width)
    if width < 2 or min(one.size, other.size) < _LEAST_DRAWS:
        return []
    columns = [np.asarray(each.columns[:width], dtype=np.float64) for each in (one, other)]
    frame = Frame.of(*columns)
    vectors = [frame.vectors(each) for each in columns]
    found: list[Statistic] = []
    with np.errstate(all="ignore"):
        found += _linear(vectors, frame)
        found += _quadratic(vectors, frame)
        found += _of_scores(columns)
        found += _tables(columns)
    return found


def _linear(vectors: list[Array], frame: Frame, bins: tuple[Bins, ...] = ()) -> list[Statistic]:
    """Return the best weights if both sides are normal with one covariance."""
    means = [each.mean(axis=1) for each in vectors]
    covariance = 0.5 * (np.atleast_2d(np.cov(vectors[0])) + np.atleast_2d(np.cov(vectors[1])))
    scale = np.sqrt(np.diag(covariance))
    used = scale > 0.0
    if not used.any():
        return []
    weights = np.zeros(len(scale))
    correlation = covariance[np.ix_(used, used)] / np.outer(scale[used], scale[used])
    shift = (means[0] - means[1])[used] / scale[used]
    solved = np.linalg.solve(correlation + _RIDGE * np.eye(int(used.sum())), shift)
    weights[used] = solved / scale[used]
    if not np.isfinite(weights).all() or not weights.any():
        return []
    return [Linear(weights / np.abs(weights).max(), frame, bins)]


def _quadratic(vectors: list[Array], frame: Frame) -> list[Statistic]:
    means, factors = [], []
    for each in vectors:
        covariance = np.atleast_2d(np.cov(each))
        scale = np.sqrt(np.diag(covariance))
        scale[scale == 0.0] = 1.0
        values, rotation = np.linalg.eigh(covariance / np.outer(scale, scale))
        if not np.isfinite(values).all():
            return []
        means.append(each.mean(axis=1))
        factors.append((rotation / np.sqrt(np.maximum(values, _RIDGE))).T / scale)
    return [Quadratic((means[0], means[1]), (factors[0], factors[1]), frame)]


def _edges(both: Array, bins: int) -> Array:
    """Return edges of bins with as many numbers each, and of bins for single values that are frequent."""
    known = np.sort(both[~np.isnan(both)])
    if not known.size:
        return np.zeros(0)
    edges = known[(np.arange(1, bins) * known.size) // bins]
    ends = np.flatnonzero(np.concatenate([known[1:] != known[:-1], [True]]))
    if ends.size < known.size:
        times = np.diff(np.concatenate([[-1], ends]))
        often = np.argsort(-times, kind="stable")[:_ATOMS]
        atoms = known[ends[often[times[often] >= known.size / (4.0 * bins)]]]
        edges = np.concatenate([edges, atoms, np.nextafter(atoms, np.inf)])
    return np.unique(edges)


def _bins(columns: list[Array], bins: int, smoothing: float) -> list[Bins]:
    found = []
    for i in range(columns[0].shape[0]):
        a, b = columns[0][i], columns[1][i]
        found.append(Bins.of(i, a, b, _edges(np.concatenate([a, b]), bins), smoothing))
    return found


def _is_noise(a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> bool:
    """Return whether two rows of counts differ by no more than chance."""
    both = a + b
    used = both > 0
    freedom = max(int(used.sum()) - 1, 1)
    statistic = float((((a - b)[used] ** 2) / both[used]).sum())
    return statistic < float(freedom + np.sqrt(2.0 * freedom * _BY_CHANCE))


def _of_scores(columns: list[Array]) -> list[Statistic]:
    """Return the sum of the scores of all numbers, as if they were independent, and a weighted sum of them."""
    kept = []
    for each in _bins(columns, _BINS, 3.0):
        counts = [np.bincount(each.cells(side[each.index]), minlength=len(each.logs)) for side in columns]
        if not _is_noise(*counts):
            kept.append(each)
    if not kept:
        return []
    bins = tuple(kept)
    scores = [np.stack([each.logs[each.cells(side[each.index])] for each in bins]) for side in columns]
    return [Scores(bins), *(_linear(scores, Frame.of(*scores), bins) if len(bins) > 1 else [])]


def _tables(columns: list[Array]) -> list[Statistic]:
    """Return tables of pairs of numbers: of those that differ most between the sides, beyond what each does alone."""
    some = [each[:, :_PAIRED] for each in columns]
    coarse = _bins(some, _COARSE, 1.0)
    cells = [[each.cells(side[each.index]) for each in coarse] for side in some]
    sizes = [len(each.logs) for each in coarse]
    apart = [_distance(cells[0][i], cells[1][i], sizes[i]) for i in range(len(coarse))]
    ranked = []
    for i, j in itertools.combinations(range(len(coarse)), 2):
        both = _distance(
            cells[0][i] * sizes[j] + cells[0][j], cells[1][i] * sizes[j] + cells[1][j], sizes[i] * sizes[j]
        )
        ranked.append((both - apart[i] - apart[j], both, i, j))
    chosen = dict.fromkeys((i, j) for *_, i, j in sorted(ranked, reverse=True)[:_PAIRS])
    chosen |= dict.fromkeys((i, j) for _, _, i, j in sorted(ranked, key=lambda each: -each[1])[: _PAIRS // 2])
    number = columns[0].shape[1]
    bins = max(min(_FINE, round((number / 20.0) ** 0.5)), 4)
    fine = _bins(columns, bins, 1.0)
    found: list[Statistic] = []
    for i, j in chosen:
        one, other = fine[i], fine[j]
        shape = len(one.logs), len(other.logs)
        a, b = (
            np.bincount(one.cells(side[i]) * shape[1] + other.cells(side[j]), minlength=shape[0] * shape[1])
            for side in columns
        )
        found.append(Table(one, other, np.log((a + 1.0) / (b + 1.0)).reshape(shape)))
    return found


def _distance(one: npt.NDArray[np.intp], other: npt.NDArray[np.intp], size: int) -> float:
    """Return how far the counts of two samples are apart, beyond chance."""
    a, b = np.bincount(one, minlength=size), np.bincount(other, minlength=size)
    both = a + b
    used = both > 0
    return float((((a - b)[used] ** 2) / both[used]).sum()) - float(used.sum()) + 1.0
