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
from scipy import optimize

from ferrodp.correlated import prefix_errors
from ferrodp.correlated.sensitivity import most_participations

Doubles = npt.NDArray[np.float64]
Objective: TypeAlias = Literal["rms", "max"]

_GRID = 2.0**24
"""Coefficients of bands are multiples of its inverse."""
_BITS = 12
"""Significant bits of weights, and of one minus decays."""


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
    loss = _buffer_loss(num_steps, participations, separation, objective)
    best = None
    for spread in (1.0, 0.6, 1.5):
        slow = np.geomspace(0.5, min(0.4, 2.0 / max(num_steps, 2)) ** min(spread, 1.0), buffers + 1)[:buffers]
        if spread > 1.0:
            slow = np.geomspace(0.3, 1.0 / max(num_steps, 4), buffers)
        share = np.sqrt(slow) * 0.4 / np.sum(np.sqrt(slow))
        free = np.concatenate([np.log((1.0 - slow) / slow), np.log(share / (1.0 - share.sum()))])
        found = optimize.minimize(loss, free, method="BFGS", options={"gtol": 1e-7, "maxiter": 400})
        if best is None or found.fun < best.fun:
            best = found
    assert best is not None
    decays, weights = _buffers_of(best.x)
    kept = [
        (max(1.0 - _short(1.0 - decay), 2.0**-_BITS), _short(weight))
        for decay, weight in zip(decays, weights, strict=True)
    ]
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
    half = free.size // 2
    logits = np.clip(free[:half], -30.0, 30.0)
    grown = np.exp(np.clip(free[half:], -40.0, 40.0))
    return 1.0 / (1.0 + np.exp(-logits)), grown / (1.0 + grown.sum())


class _buffer_loss:  # noqa: N801  # a function with what it keeps
    """ln of the squared error times the squared sensitivity of buffers.

    With one participation both are sums of geometric series: B's first column is α + Σ βⱼ·λⱼᵗ, with α, βⱼ > 0.
    """

    def __init__(self, num_steps: int, participations: int, separation: int, objective: Objective) -> None:
        self.num_steps = num_steps
        count = most_participations(num_steps, participations, separation)
        self.starts = range(0, count * separation, separation)
        self.objective = objective
        self.weights = _step_weights(num_steps, objective) if count > 1 else np.ones(0)

    def _of_one(self, decays: Doubles, weights: Doubles) -> float:
        rates, parts = prefix_errors.inverse_buffers(decays.tolist(), weights.tolist())
        factors = parts / (1.0 - rates)
        rates = np.append(rates, 1.0)
        factors = np.append(factors, max(1.0 - factors.sum(), 0.0))
        series = _ramp if self.objective == "rms" else _geometric
        error = np.outer(factors, factors) * series(np.outer(rates, rates), self.num_steps)
        sensitivity = np.outer(weights, weights) * _geometric(np.outer(decays, decays), self.num_steps - 1)
        return math.log(error.sum()) + math.log(1.0 + sensitivity.sum())

    def __call__(self, free: Doubles) -> float:
        decays, weights = _buffers_of(free)
        if len(self.starts) == 1:
            return self._of_one(decays, weights)
        column = buffered_column(decays, weights, self.num_steps)
        response = prefix_errors.of_buffers(decays.tolist(), weights.tolist(), self.num_steps)
        total = np.zeros(self.num_steps)
        for start in self.starts:
            total[start:] += column[: self.num_steps - start]
        error, sensitivity = float(self.weights @ (response * response)), float(total @ total)
        return math.log(error) + math.log(sensitivity)


def _geometric(ratios: Doubles, count: int) -> Doubles:
    """Return Σ xᵗ over t < count, for |x| ≤ 1."""
    rest = np.maximum(1.0 - ratios, 1e-300)
    found: Doubles = np.where(rest < 1e-14, float(count), (1.0 - ratios**count) / rest)
    return found


def _ramp(ratios: Doubles, count: int) -> Doubles:
    """Return Σ (1 − t/count)·xᵗ over t < count, for |x| ≤ 1."""
    rest = np.maximum(1.0 - ratios, 1e-300)
    whole = (1.0 - ratios * _geometric(ratios, count) / count) / rest
    found: Doubles = np.where(rest < 1e-14, 0.5 * (count + 1), whole)
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
