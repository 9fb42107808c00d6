"""Optimizers of strategies: the least error times sensitivity over a family, for given steps and participations.

What they return is a proposal: sensitivity and error of a strategy are computed from its coefficients, whatever found
them. Coefficients are rounded to few bits, which costs less than 10⁻⁶ of the error, since it is least there, and makes
products exact.
"""

from __future__ import annotations

import functools
import math
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp.correlated import prefix_errors
from ferrodp.correlated.sensitivity import most_participations

Doubles = npt.NDArray[np.float64]
Objective: TypeAlias = Literal["rms", "max"]

_GRID = 2.0**24
"""Coefficients of bands are multiples of its inverse."""
_BITS = 12
"""Significant bits of weights, and of one minus decays."""
_FEW_PARTICIPATIONS = 128
"""Up to which the sensitivity is the sum over all."""
_DIFFERENCE = 1e-4
"""Of logits, for derivatives: their square, and rounding errors divided by them, are below 10⁻⁶."""


def _step_weights(num_steps: int, objective: Objective) -> Doubles:
    """Return how much the square of each coefficient of B's first column counts in the squared error."""
    if objective == "max":  # of a Toeplitz strategy the last step's error is the largest
        return np.ones(num_steps)
    return np.arange(num_steps, 0, -1) / num_steps


@functools.lru_cache(maxsize=64)
def banded_toeplitz(
    num_steps: int, bands: int, participations: int, separation: int, objective: Objective
) -> tuple[float, ...]:
    """Return the non-increasing coefficients of `bands` bands with the least error times sensitivity.

    Over xᵢ = ln(cᵢ/cᵢ₋₁) ≤ 0 by L-BFGS-B, from the square root. With b the series of 1/((1 − x)·c(x)) and e that of
    b/c, the squared error Σⱼ wⱼ·bⱼ² has the derivative −2·Σⱼ wⱼ·bⱼ·eⱼ₋ᵢ by cᵢ.
    """
    if bands == 1:
        return (1.0,)
    weights = _step_weights(num_steps, objective)
    starts = range(0, most_participations(num_steps, participations, separation) * separation, separation)

    def loss(logs: Doubles) -> tuple[float, Doubles]:
        column = np.concatenate([[1.0], np.exp(np.cumsum(logs))])
        inverse = prefix_errors.inverse_series(column, num_steps)
        response = np.cumsum(inverse)
        weighted = weights * response
        squared_error = float(weighted @ response)
        twice = prefix_errors.product(inverse, response, num_steps)
        by_error = -2.0 * prefix_errors.product(weighted[::-1], twice, num_steps)[::-1][:bands]
        total = np.zeros(num_steps)
        for start in starts:
            total[start : start + bands] += column[: num_steps - start]
        squared_sensitivity = float(total @ total)
        by_sensitivity = np.zeros(bands)
        for start in starts:
            piece = total[start : start + bands]
            by_sensitivity[: piece.size] += 2.0 * piece
        slope = (by_error / squared_error + by_sensitivity / squared_sensitivity) * column
        # xᵢ moves cᵢ and all that follow.
        return math.log(squared_error) + math.log(squared_sensitivity), np.cumsum(slope[:0:-1])[::-1]

    from scipy import optimize  # slow to import

    first = square_root(bands)
    # What one step adds to a sum that takes part again and again is better spread out: start from a column that falls.
    found = optimize.minimize(
        loss,
        np.diff(np.log(first)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-30.0, 0.0)] * (bands - 1),
        options={"maxiter": 500, "maxcor": 30, "ftol": 1e-12, "gtol": 1e-9},
    )
    column = np.round(np.exp(np.cumsum(found.x)) * _GRID) / _GRID
    return (1.0, *np.minimum(column, 1.0).tolist())


def square_root(bands: int) -> Doubles:
    """Return the first coefficients of (1 − x)^(−1/2): C·C is the matrix of prefix sums ([FHU23])."""
    j = np.arange(1, bands)
    column: Doubles = np.multiply.accumulate(np.concatenate([[1.0], (2 * j - 1) / (2 * j)]))
    return column


@functools.lru_cache(maxsize=64)
def buffered_toeplitz(
    num_steps: int, buffers: int, participations: int, separation: int, objective: Objective
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return decays θ and weights ω of the buffers with the least error times sensitivity, Σωᵢ ≤ 1.

    Over logits of the decays, and weights eᵛⁱ/(1 + Σeᵛʲ), by BFGS from several beginnings.
    """
    from scipy import optimize  # slow to import

    loss = _buffer_loss(num_steps, participations, separation, objective)
    best = None
    for spread in (1.0, 0.6, 1.5):
        slow = np.geomspace(0.5, min(0.4, 2.0 / max(num_steps, 2)) ** min(spread, 1.0), buffers + 1)[:buffers]
        if spread > 1.0:
            slow = np.geomspace(0.3, 1.0 / max(num_steps, 4), buffers)
        share = np.sqrt(slow) * 0.4 / np.sum(np.sqrt(slow))
        free = np.concatenate([np.log((1.0 - slow) / slow), np.log(share / (1.0 - share.sum()))])
        found = optimize.minimize(loss, free, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 400})
        if best is None or found.fun < best.fun:
            best = found
    assert best is not None
    slow, weights = (each[0].tolist() for each in _buffers_of(best.x[np.newaxis]))
    kept = [(max(1.0 - _short(rest), 2.0**-_BITS), _short(weight)) for rest, weight in zip(slow, weights, strict=True)]
    kept.sort(reverse=True)
    for place in range(1, len(kept)):  # few steps need few buffers: the others may have come to the same decay
        if kept[place][0] >= kept[place - 1][0]:
            kept[place] = (kept[place - 1][0] * (1.0 - 2.0**-_BITS), kept[place][1])
    if sum(weight for _, weight in kept) > 1.0:  # rounded up together
        kept = [(decay, weight * (1.0 - 2.0 ** (1 - _BITS))) for decay, weight in kept]
    return tuple(decay for decay, _ in kept), tuple(weight for _, weight in kept)


def _short(value: float) -> float:
    """Return a positive number rounded to `_BITS` significant bits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2.0**_BITS) / 2.0**_BITS, exponent)


def _buffers_of(free: Doubles) -> tuple[Doubles, Doubles]:
    """Return one minus the decays, and the weights, for each row."""
    half = free.shape[1] // 2
    logits = np.clip(free[:, :half], -30.0, 30.0)
    grown = np.exp(np.clip(free[:, half:], -40.0, 40.0))
    return 1.0 / (1.0 + np.exp(logits)), grown / (1.0 + grown.sum(axis=1, keepdims=True))


class _buffer_loss:  # noqa: N801  # a function with what it keeps
    r"""ln of the squared error times the squared sensitivity of buffers, and its derivatives by differences.

    Both are sums of geometric series, so that their cost does not grow with the number of steps.

    *Error.* B's first column is α + Σ βⱼ·λⱼᵗ, with α, βⱼ > 0.

    *Sensitivity* ([KL24] Theorem 2). The sum of the columns 0, b, 2b, … is, r steps after the m-th participation,
    Σᵢ ωᵢ·aₘᵢ·θᵢʳ⁻¹ for 1 ≤ r < b, with aₘᵢ = 1 + θᵢᵇ + … + θᵢᵐᵇ, and 1 + Σᵢ ωᵢ·θᵢᵇ⁻¹·aₘ₋₁,ᵢ for r = 0. After the last
    one r goes on to the end. Of many participations some stand for those around them: the terms change slowly with m.

    What is near 1 is kept as its distance from 1: differences of the loss would be lost in rounding otherwise.
    """

    def __init__(self, num_steps: int, participations: int, separation: int, objective: Objective) -> None:
        self.num_steps = num_steps
        self.count = most_participations(num_steps, participations, separation)
        self.separation = separation
        self.objective = objective
        self.nodes, self.shares = _nodes(self.count - 1)

    def __call__(self, free: Doubles) -> tuple[float, Doubles]:
        moved = _DIFFERENCE * np.identity(free.size)
        found = self.of_many(np.concatenate([free[np.newaxis], free + moved, free - moved]))
        return float(found[0]), (found[1 : free.size + 1] - found[free.size + 1 :]) / (2.0 * _DIFFERENCE)

    def of_many(self, free: Doubles) -> Doubles:
        """Return the losses of the rows of `free`."""
        slow, weights = _buffers_of(free)
        found: Doubles = np.log(self._squared_error(slow, weights)) + np.log(self._squared_sensitivity(slow, weights))
        return found

    def _squared_error(self, slow: Doubles, weights: Doubles) -> Doubles:
        # As in `prefix_errors.inverse_buffers`, of one minus the matrix there.
        root = np.sqrt(weights)
        matrix = root[:, :, np.newaxis] * root[:, np.newaxis, :]
        matrix += slow[:, :, np.newaxis] * np.identity(slow.shape[1])
        rests, vectors = np.linalg.eigh(matrix)
        rests = np.maximum(rests, 1e-300)
        factors = np.einsum("mij,mi->mj", vectors, root) ** 2 / rests
        constant = np.maximum(1.0 - factors.sum(axis=1, keepdims=True), 0.0)
        factors = np.concatenate([factors, constant], axis=1)
        rests = np.concatenate([rests, np.zeros_like(constant)], axis=1)
        series = _ramp if self.objective == "rms" else _geometric
        found: Doubles = np.einsum("mi,mj,mij->m", factors, factors, series(_both(rests), self.num_steps))
        return found

    def _squared_sensitivity(self, slow: Doubles, weights: Doubles) -> Doubles:
        within, apart = _both(slow), self.separation
        last = self.num_steps - (self.count - 1) * apart
        logs = np.log1p(-slow)
        nodes = np.append(self.nodes, self.count)[np.newaxis, :, np.newaxis]
        grown = np.expm1(nodes * (apart * logs)[:, np.newaxis]) / np.expm1(apart * logs)[:, np.newaxis]
        grown *= weights[:, np.newaxis]
        ends, before = grown[:, -1], grown[:, :-1]
        found: Doubles = np.einsum("mi,mj,mij->m", ends, ends, _geometric(within, last - 1)) + 1.0
        pairs = (before * self.shares[:, np.newaxis]).transpose(0, 2, 1) @ before
        found += np.einsum("mij,mij->m", pairs, _geometric(within, apart - 1))
        found += (1.0 + np.einsum("mki,mi->mk", before, np.exp((apart - 1) * logs))) ** 2 @ self.shares
        return found


def _nodes(count: int) -> tuple[Doubles, Doubles]:
    """Return numbers out of 1 … `count`, and weights with which a smooth function's sum over them is that over all."""
    if count <= _FEW_PARTICIPATIONS:
        return np.arange(1.0, count + 1.0), np.ones(count)
    first = np.arange(1.0, _FEW_PARTICIPATIONS + 1.0)
    far = np.arange(math.log(_FEW_PARTICIPATIONS), math.log(count), 1.0 / _FEW_PARTICIPATIONS)[1:]
    nodes = np.concatenate([first, np.unique(np.round(np.exp(far)))])
    nodes = np.append(nodes[nodes < count], float(count))
    gaps = np.diff(nodes)
    # A sum over the numbers from one node to the next is the mean of both ends times the gap, and half of the ends.
    shares = np.ones(nodes.size)
    shares[:-1] += 0.5 * (gaps - 1.0)
    shares[1:] += 0.5 * (gaps - 1.0)
    return nodes, shares


def _both(rests: Doubles) -> Doubles:
    """Return 1 − (1 − rᵢ)·(1 − rⱼ) for each row of `rests`."""
    first, second = rests[:, :, np.newaxis], rests[:, np.newaxis, :]
    found: Doubles = first + second - first * second
    return found


def _geometric(rests: Doubles, count: int) -> Doubles:
    """Return Σ (1 − r)ᵗ over t < count, for 0 ≤ r ≤ 2."""
    kept = np.maximum(rests, 1e-300)
    ratios = 1.0 - rests
    shrunk = np.where(ratios > 0.5, -np.expm1(count * np.log1p(-np.minimum(rests, 0.5))), 1.0 - ratios**count)
    found: Doubles = np.where(rests < 1e-14, float(count), shrunk / kept)
    return found


def _ramp(rests: Doubles, count: int) -> Doubles:
    """Return Σ (1 − t/count)·(1 − r)ᵗ over t < count, for 0 ≤ r ≤ 2."""
    kept = np.maximum(rests, 1e-300)
    whole = (1.0 - (1.0 - rests) * _geometric(rests, count) / count) / kept
    found: Doubles = np.where(rests < 1e-14, 0.5 * (count + 1), whole)
    return found


def buffered_column(decays: Doubles, weights: Doubles, num_steps: int) -> Doubles:
    """Return c₀ = 1 and cₜ = Σᵢ ωᵢ·θᵢᵗ⁻¹: after t roundings of each power, one product and n − 1 sums."""
    powers = np.ones((decays.size, num_steps))
    powers[:, 1:2] = weights[:, np.newaxis]
    powers[:, 2:] = decays[:, np.newaxis]
    powers = np.multiply.accumulate(powers, axis=1)
    column: Doubles = powers.sum(axis=0)
    column[0] = 1.0
    return column
