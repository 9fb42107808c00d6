"""Mistakes in releases with several numbers, as people make them, and the same releases done right.

All noise is discrete Laplace noise on multiples of 2^-10, whose ε is exact, so that no other event than that of the
mistake shows anything. `CASES` has for each name the neighbors, the claimed ε, the mistake and its sound twin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

GRID = 1024
_RNG = np.random.default_rng(20261128)
Release = Callable[[Any, int], Any]


def reseed(seed: int) -> None:
    """Draw from another seed from now on."""
    global _RNG
    _RNG = np.random.default_rng(seed)


def laplace(shape: Any, scale: float = 1.0) -> npt.NDArray[np.float64]:
    """Return noise with P[k·2^-10] proportional to e^(−|k|·2^-10/scale): the difference of two geometric numbers."""
    p = -math.expm1(-1.0 / (scale * GRID))
    return (_RNG.geometric(p, size=shape) - _RNG.geometric(p, size=shape)) / GRID


class Case(NamedTuple):
    neighbors: tuple[Any, Any]
    epsilon: float
    mistake: Release
    twin: Release


def plain(scale: float) -> Release:
    """Return a release of a vector with fresh noise in each number."""
    return lambda value, n: np.asarray(value) + laplace((n, *np.shape(value)), scale)


def once(value: Any, n: int) -> Any:
    return np.asarray(value) + laplace((n, 1))


def once_for_sum_and_count(value: Any, n: int) -> Any:
    return np.asarray(value) + laplace((n, 1), 1.25)


def correlated(value: Any, n: int) -> Any:
    noise = laplace(n)
    return np.asarray(value) + np.stack([noise, noise + laplace(n, 0.125)], axis=1)


def repeated(value: Any, n: int) -> Any:
    noise = laplace((n, 16))
    noise[:, 8:] = noise[:, :8]
    return np.asarray(value) + noise


def subtracted(value: Any, n: int) -> Any:
    noise = laplace(n)
    return np.asarray(value) + np.stack([noise, -noise], axis=1)


def sometimes_repeated(value: Any, n: int) -> Any:
    noise = laplace((n, 6))
    noise[:, 4] = np.where(_RNG.random(n) < 0.03, noise[:, 1], noise[:, 4])
    return np.asarray(value) + noise


def of_one_uniform(value: Any, n: int) -> Any:
    """Two laws from one uniform number, by their inverse distribution functions."""
    noise = laplace(n)
    bent = np.round(GRID * np.sign(noise) * np.sqrt(np.abs(noise))) / GRID
    return np.asarray(value) + np.stack([noise, bent], axis=1)


def above(value: Any, n: int) -> Any:
    threshold = 1.0 + laplace((n, 1), 2.0)
    return (np.asarray(value) + laplace((n, len(value)), 4.0) >= threshold).astype(np.float64)


def first_above(value: Any, n: int) -> Any:
    found = above(value, n)
    return found * (np.cumsum(found, axis=1) == 1)


def few_uniforms(value: Any, n: int) -> Any:
    uniform = (_RNG.integers(1 << 16, size=n) + 1) / (1 << 16)
    noise = _RNG.choice([-1.0, 1.0], size=n) * np.log(uniform)
    return value + np.round(noise * (1 << 30)) / (1 << 30)


_POOL = laplace(1000)


def pooled(value: Any, n: int) -> Any:
    return value + _POOL[_RNG.integers(_POOL.size, size=n)]


def seeded(value: Any, n: int) -> Any:
    rng = np.random.default_rng(round(8 * value) + 77)
    return value + np.round(GRID * rng.laplace(size=256))[_RNG.integers(256, size=n)] / GRID


def scaled_by_data(value: Any, n: int) -> Any:
    return value + laplace(n, 1.0 + value)


def clamped_to_data(value: Any, n: int) -> Any:
    return np.clip(value + laplace(n), 0.0, value)


def clamped(value: Any, n: int) -> Any:
    return np.clip(value + laplace(n), 0.0, 10.0)


def key_of_data(value: Any, n: int) -> Any:
    names = np.array(list(value))
    return names[(np.array([*value.values()]) + laplace((n, len(names)), 2.0)).argmax(axis=1)].tolist()


def key_of_domain(value: Any, n: int) -> Any:
    return key_of_data({name: value.get(name, 0) for name in "abcd"}, n)


def rounded_before(value: Any, n: int) -> Any:
    return np.array([np.round(value[0]), value[1]]) + laplace((n, 2), 0.25)


def rounded_after(value: Any, n: int) -> Any:
    found = np.asarray(value) + laplace((n, 2), 0.25)
    found[:, 0] = np.round(found[:, 0])
    return found


def truncated(value: Any, n: int) -> Any:
    noise = laplace(2 * n)
    return value + noise[np.abs(noise) <= 4.0][:n]


def all_contributions(value: Any, n: int) -> Any:
    return np.asarray(value) + laplace((n, len(value)))


def one_contribution(value: Any, n: int) -> Any:
    kept = np.asarray(value) * (np.cumsum(value) == 1)
    return kept + laplace((n, len(value)))


def top_of_one_noise(value: Any, n: int) -> Any:
    return np.argsort(-(np.asarray(value) + laplace((n, len(value)), 2.0)), axis=1)[:, :3].astype(np.float64)


def top_by_peeling(value: Any, n: int) -> Any:
    left, found = np.tile(np.asarray(value, dtype=np.float64), (n, 1)), []
    for _ in range(3):
        found.append((left + laplace(left.shape, 6.0)).argmax(axis=1))
        left[np.arange(n), found[-1]] = -np.inf
    return np.stack(found, axis=1).astype(np.float64)


ONE = ((0.0, 0.0), (1.0, 0.0))
LANES = (np.zeros(16), np.eye(16)[3])
SIX = (np.zeros(6), np.eye(6)[1])
QUERIES = (np.repeat([0.0, 1.0], 10), np.repeat([1.0, 0.0], 10))
SCORES = (np.repeat([0.0, 1.0], 4), np.repeat([1.0, 0.0], 4))

CASES = {
    "one noise for all numbers": Case((np.zeros(4), np.eye(4)[0]), 1.0, once, plain(1.0)),
    "one noise for a sum and its count": Case(((0.0, 0.0), (0.25, 1.0)), 1.0, once_for_sum_and_count, plain(1.25)),
    "correlated noise": Case(ONE, 1.0, correlated, plain(1.0)),
    "noise of lane i again in lane i + 8": Case(LANES, 1.0, repeated, plain(1.0)),
    "the same noise subtracted": Case(ONE, 1.0, subtracted, plain(1.0)),
    "noise that is sometimes repeated": Case(SIX, 1.0, sometimes_repeated, plain(1.0)),
    "two laws from one uniform number": Case(ONE, 1.0, of_one_uniform, plain(1.0)),
    "an L2 bound where Laplace noise needs L1": Case((np.zeros(16), np.full(16, 0.25)), 1.0, plain(1.0), plain(4.0)),
    "a group clipped record by record and counted once": Case(((0.0,), (4.0,)), 1.0, plain(1.0), plain(4.0)),
    "two releases counted once": Case(((0.0, 0.0), (1.0, 1.0)), 1.0, plain(1.0), plain(2.0)),
    "a budget split into parts that add up to twice": Case((np.zeros(4), np.ones(4)), 1.0, plain(2.0), plain(4.0)),
    "ten steps composed as one": Case((np.zeros(10), np.ones(10)), 1.0, plain(4.0), plain(10.0)),
    "sparse vector without its limit": Case(QUERIES, 1.0, above, first_above),
    "uniform numbers of 16 bits under a logarithm": Case((0.0, 1.0), 1.0, few_uniforms, plain(1.0)),
    "noise from a pool that is used again": Case((0.0, 1.0), 1.0, pooled, plain(1.0)),
    "a seed from the data": Case((0.0, 1.0), 1.0, seeded, plain(1.0)),
    "noise scaled by the data": Case((0.0, 1.0), 1.0, scaled_by_data, plain(1.0)),
    "clamped to bounds from the data": Case((5.0, 6.0), 1.0, clamped_to_data, clamped),
    "keys from the data": Case(({"a": 1, "b": 2}, {"a": 1, "b": 2, "d": 1}), 1.0, key_of_data, key_of_domain),
    "rounded before the noise in one number": Case(((0.375, 0.0), (0.625, 0.0)), 1.0, rounded_before, rounded_after),
    "noise without its tails": Case((0.0, 1.0), 1.0, truncated, plain(1.0)),
    "a histogram with unbounded contributions": Case(
        (np.zeros(10), np.repeat([1.0, 0.0], 5)), 1.0, all_contributions, one_contribution
    ),
    "the largest three by one noise": Case(SCORES, 1.0, top_of_one_noise, top_by_peeling),
}
