"""The Gaussian privacy curve δ(ε; μ) of releases whose Σ1/z² = μ² is kept as two decimals, and its inverses.

The crate `ferrodp_accounting::gaussian` has the formulas, and proves the direction of every rounding. What stays in
Python is the sum μ² itself, exact decimals that are written down with an accountant's state: an addition takes 1 µs. In
its place the functions take the noise multiplier z of one release.
"""

from __future__ import annotations

import functools

from ferrodp import _native
from ferrodp._numerics.intervals import Bounds, Interval, arithmetic, point

DIGITS_OF_MU = 120
"""Digits to which μ² is kept; its curve needs at most 110."""


@functools.lru_cache(maxsize=1024)
def squared_mu(noise_multiplier: float) -> Interval:
    """Return μ² = 1/z²."""
    r = arithmetic(DIGITS_OF_MU)
    return r.div(point(1), r.square(point(noise_multiplier)))


def delta(epsilon: float, mu_squared: Interval | float) -> Bounds:
    """Return the floats next to δ(ε; μ), for any real ε and μ ≥ 0."""
    return Bounds(*_native.gaussian_delta(epsilon, mu_squared, False))


def log_delta(epsilon: float, mu_squared: Interval | float) -> float:
    """Return ln δ(ε; μ) for ε ≥ 0, rounded up; −∞ if μ = 0."""
    return _native.gaussian_delta(epsilon, mu_squared, True)[1]


def epsilon(target: float, mu_squared: Interval | float) -> Bounds:
    """Return the floats around the smallest ε ≥ 0 with δ(ε; μ) ≤ target, for 0 < target < 1."""
    return Bounds(*_native.gaussian_epsilon(target, mu_squared))
