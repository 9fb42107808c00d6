"""Audits of noise where rare stages decide often, of values that are unusual, and of digits that few look at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from alarms import CONFIDENCE, function, independence, rates
from scipy.special import ndtr

import ferrodp as fd
from ferrodp.audit import _law_test

SOURCE = fd.NoiseSource()
FINE = 2.0**-43
"""The finest grid for a scale of one: where floats are sure of few samples."""


def real(law: str, n: int, dtype: Any = np.float64, **options: Any) -> np.ndarray:
    scale: dict[str, Any] = {"standard_deviation" if law == "gaussian" else "scale": 1.0}
    return getattr(SOURCE, law)(n, dtype=dtype, **scale, **options)


def added(n: int) -> np.ndarray:
    """Return noise that two threads added to zeros."""
    values = np.zeros(n)
    SOURCE.add_gaussian_(values, standard_deviation=1.0, threads=2)
    return values


def on_a_grid(law: str, granularity: float, dtype: Any = np.float64, draws: int = 1_500_000) -> bool:
    """Whether noise on a grid has the stated law."""
    tails = _law_test.Tails(_law_test.real_events(getattr(_law_test, law), 1.0))
    tails.count(real(law, draws, dtype, granularity=granularity))
    return not tails.hold(1.0 - CONFIDENCE)


def digits(law: str, first: int, draws: int = 200_000) -> bool:
    """Whether the tail beyond a sample has four even binary digits from one on, on the finest grid."""
    size = np.abs(real(law, draws, granularity=FINE))
    beyond = ndtr(-size) if law == "gaussian" else 0.5 * np.exp(-size)
    found = np.floor(beyond * 2.0 ** (first + 3)).astype(np.int64) & 15
    return rates(found, dict.fromkeys(range(16), 1 / 16))


def off_the_grid() -> bool:
    """Whether last bits of what is released tell the value."""
    made = fd.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0)
    return any(
        function(lambda value, n, kind=kind: made.release(np.full(n, value, dtype=kind)), (0.0, 0.3), delta=1e-5)
        for kind in (np.float32, np.float64)
    )


def no_numbers() -> bool:
    """Whether what is no number is released otherwise than a zero, by itself or among others."""
    for dtype in (np.float32, np.float64):
        values = np.zeros(160_000, dtype=dtype)
        values[:64:3] = np.nan
        values[-80_000:] = np.inf
        values[-40_000:] = np.nan
        values[1:64:3] = 100.0
        SOURCE.add_gaussian_(values, standard_deviation=1.0)
        noise = np.delete(values, np.arange(1, 64, 3)).astype(np.float64)
        tails = _law_test.Tails(_law_test.real_events(_law_test.gaussian, 1.0))
        tails.count(noise)
        if not np.isfinite(noise).all() or not tails.hold(1.0 - CONFIDENCE):
            return True
    return False


def fails(audit: Callable[[], bool]) -> bool:
    """Whether an audit raises an alarm, or anything at all."""
    try:
        return audit()
    except BaseException as error:  # also a panic
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return True


def numbers_among_none() -> bool:
    """Whether numbers beside what is no number keep their values, on a grid where many samples are settled later."""
    values = np.full(60_000, 100.3)
    values[::3] = np.nan
    SOURCE.add_gaussian_(values, standard_deviation=1.0, granularity=FINE)
    return bool(np.abs(np.delete(values, np.arange(0, values.size, 3)) - 100.3).max() > 20.0)


def large_values() -> bool:
    """Whether noise leaves large values of single precision as they are more often than the grid of both says."""
    values = np.full(2_000_000, 2.0**11, dtype=np.float32)
    SOURCE.add_gaussian_(values, standard_deviation=1.0, granularity=2.0**-12)
    unmoved = math.erf(2.0**-13 / math.sqrt(2.0))
    return rates(values == 2.0**11, {1: unmoved, 0: 1.0 - unmoved})


def places() -> bool:
    """Whether integers come out where they went in."""
    values = np.arange(20_000) * 1_000_000
    return bool(
        np.abs(
            fd.DiscreteGaussianMechanism(scale=50.0, l2_sensitivity=1, dimension=20_000).release(values) - values
        ).max()
        > 5000
    )


def processes() -> bool:
    """Whether two sources, and a call before and after, draw the same."""
    drawn = [tuple(fd.NoiseSource().gaussian(8, standard_deviation=1.0).tolist()) for _ in range(100)]
    return len(set(drawn)) < 100


AUDITS: dict[str, Callable[[], bool]] = {
    "Gaussian doubles on the finest grid": lambda: on_a_grid("gaussian", FINE),
    "Laplace doubles on the finest grid": lambda: on_a_grid("laplace", FINE),
    "Gaussian floats on a fine grid": lambda: on_a_grid("gaussian", 2.0**-20, np.float32),
    "Laplace floats on a coarse grid": lambda: on_a_grid("laplace", 2.0**-20, np.float32),
    "digits of Gaussian noise": lambda: digits("gaussian", 33),
    "digits of Laplace noise": lambda: digits("laplace", 33),
    "values off the grid": off_the_grid,
    "no numbers": lambda: fails(no_numbers),
    "numbers among others": numbers_among_none,
    "large values": large_values,
    "keys of calls": processes,
    "places of integers": places,
    "Gaussian doubles of two threads": lambda: independence(added, draws=1 << 19),
    "last digits of wide integers": lambda: independence(
        lambda n: SOURCE.discrete_laplace(n, scale=1e14) & 0xFFFFF, draws=1 << 17
    ),
    "last digits of integers": lambda: independence(
        lambda n: SOURCE.discrete_gaussian(n, scale=1e6) & 0xFFFF, draws=1 << 18
    ),
}
