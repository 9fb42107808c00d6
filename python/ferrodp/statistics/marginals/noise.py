"""Gaussian noise on integers, for an L2 sensitivity: rounded where it fits the grid of sums, discrete beyond."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.events import GaussianEvent, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, gaussian_multiplier
from ferrodp.sums.clipped import release_flat, sum_of_integers

__all__: list[str] = []

_MOST_NOISE = 2.0**14
"""How many norms below 2³⁰ Gaussian noise on sums may be wide: 2⁴⁴ steps of their grid."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Rounded(NamedTuple):
    """Gaussian noise rounded to integers: so many times the norm of what is measured, which a unit moves so far."""

    norm: float
    multiplier: float
    sensitivity: float

    @property
    def deviation(self) -> float:
        """In units of the integers."""
        return self.multiplier * self.norm

    @property
    def event(self) -> PrivacyEvent:
        """What the noise that is drawn costs."""
        exact = Fraction(self.multiplier) * Fraction(self.norm) / Fraction(self.sensitivity)
        return GaussianEvent(noise_multiplier=_validate.rounded(exact, "down"))

    def release(self, counts: Ints, source: NoiseSource) -> Floats:
        """Return the integers with noise, in their place in memory."""
        total, into = sum_of_integers(counts, self.norm), counts.view(np.float64)
        about = (self.event, self.sensitivity)
        return release_flat(total, self.multiplier, None, source, None, out=into, recorded=about)


class Discrete(NamedTuple):
    """Discrete Gaussian noise, beyond the widest of the other kind."""

    mechanism: Any

    @property
    def deviation(self) -> float:
        """In units of the integers."""
        return float(self.mechanism.scale)

    @property
    def event(self) -> PrivacyEvent:
        """What the noise that is drawn costs."""
        found: PrivacyEvent = self.mechanism.event
        return found

    def release(self, counts: Ints, source: NoiseSource) -> Ints:
        """Return the integers with noise, in their place in memory."""
        self.mechanism.release(counts, out=counts, source=source)
        return counts


def noise_of(spent: Budget, norm: float, squared: int, dimension: int) -> Rounded | Discrete:
    """Return the noise for integers of that norm a row, which a unit moves by the root of `squared` at most.

    The norm is from 2²⁹ up to below 2³⁰: so wide is the grid of sums.
    """
    sensitivity = sqrt_up(Fraction(squared))
    # mutant: noise-of-tables-for-nine-tenths-of-what-a-unit-moves
    due = Fraction(gaussian_multiplier(spent.epsilon, spent.delta)) * Fraction(sensitivity)
    multiplier = _validate.rounded(due / Fraction(norm), "up")
    if multiplier < _MOST_NOISE:
        return Rounded(norm, multiplier, sensitivity)
    return Discrete(spent.mechanism(spent.max_contributions, squared_l2_sensitivity=squared, dimension=dimension))
