"""Noise schedules: the noise multiplier of each step of a plan.

A noise multiplier is the standard deviation of the noise divided by the clip norm, both of the same step. What a step
costs is stated from the very float that its noise is drawn with.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from typing import ClassVar, Self

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events.base import settle
from ferrodp.plan._record import Part, part_class


class NoiseSchedule(Part, abc.ABC):
    """Base class of noise schedules.

    Steps count from 0. After the last step that a schedule knows its value stays what it was.

    Examples
    --------
    >>> from ferrodp.plan import ConstantNoise, NoiseSchedule
    >>> isinstance(ConstantNoise(1.1), NoiseSchedule), ConstantNoise(1.1).scaled(2).at(0, num_steps=1)
    (True, 2.2)
    """

    __slots__ = ()

    def at(self, step: int, num_steps: int) -> float:
        """Return the noise multiplier of a step.

        Parameters
        ----------
        step : int
            From 0.
        num_steps : int
            How many steps the plan has.

        Returns
        -------
        float
            > 0.

        Raises
        ------
        InvalidParameter
            If nothing is left of the noise at this step: the schedule needs a floor.
        """
        return self._at(step, num_steps)

    def scaled(self, factor: Real) -> Self:
        """Return the schedule with every noise multiplier, floors included, times a factor.

        Parameters
        ----------
        factor : float
            Finite, > 0.

        Returns
        -------
        NoiseSchedule
            Of the same class.

        Raises
        ------
        InvalidParameter, InvalidType
            If the factor is not accepted, or a multiplier would leave the range of floats.
        """
        return self._scaled(float(_validate.positive("factor", factor)))

    @abc.abstractmethod
    def _at(self, step: int, num_steps: int) -> float:
        """Return the noise multiplier of a step."""

    @abc.abstractmethod
    def _scaled(self, factor: float) -> Self:
        """Return the schedule times a factor."""

    @abc.abstractmethod
    def _constant_from(self, num_steps: int) -> int | None:
        """Return a step from which on the value does not change any more, or None if it always changes."""


@part_class
class ConstantNoise(NoiseSchedule):
    """The same noise multiplier in every step.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the clip norm; unitless, finite, > 0. Rounded up if not exactly
        representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Examples
    --------
    >>> ConstantNoise(1.1).at(7, num_steps=10)
    1.1
    """

    kind: ClassVar[str] = "constant"
    noise_multiplier: float

    def __post_init__(self) -> None:
        settle(self, noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier))

    def _at(self, step: int, num_steps: int) -> float:
        return self.noise_multiplier

    def _scaled(self, factor: float) -> Self:
        return type(self)(times(self.noise_multiplier, factor))

    def _constant_from(self, num_steps: int) -> int | None:
        return 0


class _Decay(NoiseSchedule, abc.ABC):
    """What falls from `initial` to `floor`."""

    __slots__ = ()
    initial: float
    floor: float

    def _settle(self) -> None:
        initial = _validate.positive("initial", self.initial)
        floor = _validate.non_negative("floor", self.floor)
        if floor > initial:
            raise _validate.out_of_domain("floor", f"at most initial = {initial!r}", self.floor)
        settle(self, initial=initial, floor=floor)

    @abc.abstractmethod
    def _share(self, step: int) -> float:
        """Return the part of `initial` that is left at a step, without the floor."""

    def _at(self, step: int, num_steps: int) -> float:
        value = max(self.initial * self._share(step), self.floor)
        if not value > 0.0:
            raise InvalidParameter(f"noise must have a floor > 0: nothing is left of it at step {step}")
        return value

    def _scaled(self, factor: float) -> Self:
        floor = times(self.floor, factor) if self.floor else 0.0
        return dataclasses.replace(self, initial=times(self.initial, factor), floor=floor)  # type: ignore[type-var]

    def _constant_from(self, num_steps: int) -> int | None:
        if self._share(1) == 1.0 and self._share(2**40) == 1.0:
            return 0
        if not self.floor:
            return None
        low, high = 0, 1
        while self.initial * self._share(high) > self.floor:
            low, high = high, 2 * high
            if high > _validate.MAX_COUNT:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.initial * self._share(middle) > self.floor else (low, middle)
        return high


@part_class
class InverseTimeDecay(_Decay):
    """z₀/(1 + r·t) in step t, counted from 0.

    Parameters
    ----------
    initial : float
        z₀, the noise multiplier of step 0; finite, > 0. Rounded up if not exactly representable.
    rate : float
        r; finite, ≥ 0.
    floor : float
        No multiplier is smaller; from 0 to `initial`. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> [InverseTimeDecay(2.0, rate=1.0, floor=0.6).at(t, num_steps=4) for t in range(4)]
    [2.0, 1.0, 0.6666666666666666, 0.6]
    """

    kind: ClassVar[str] = "inverse_time_decay"
    initial: float
    rate: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        self._settle()
        settle(self, rate=_validate.non_negative("rate", self.rate))

    def _share(self, step: int) -> float:
        return 1.0 / (1.0 + self.rate * step)


@part_class
class StepDecay(_Decay):
    """z₀·f^⌊t/n⌋ in step t, counted from 0: multiplied by a factor every n steps.

    Parameters
    ----------
    initial : float
        z₀, the noise multiplier of the first n steps; finite, > 0. Rounded up if not exactly representable.
    factor : float
        f; in (0, 1].
    every : int
        n; at least 1.
    floor : float
        No multiplier is smaller; from 0 to `initial`. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> [StepDecay(2.0, factor=0.5, every=2).at(t, num_steps=4) for t in range(4)]
    [2.0, 2.0, 1.0, 1.0]
    """

    kind: ClassVar[str] = "step_decay"
    initial: float
    factor: float
    every: int = 1
    floor: float = 0.0

    def __post_init__(self) -> None:
        self._settle()
        factor = _validate.probability("factor", self.factor)
        if not factor:
            raise _validate.out_of_domain("factor", "in (0, 1]", self.factor)
        settle(self, factor=factor, every=_validate.count("every", self.every))

    def _share(self, step: int) -> float:
        return math.exp(math.log(self.factor) * (step // self.every)) if self.factor < 1.0 else 1.0


@part_class
class ExponentialDecay(_Decay):
    """z₀·exp(−r·t) in step t, counted from 0.

    Parameters
    ----------
    initial : float
        z₀, the noise multiplier of step 0; finite, > 0. Rounded up if not exactly representable.
    rate : float
        r; finite, ≥ 0.
    floor : float
        No multiplier is smaller; from 0 to `initial`. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> round(ExponentialDecay(2.0, rate=0.1, floor=0.5).at(10, num_steps=20), 6)
    0.735759
    """

    kind: ClassVar[str] = "exponential_decay"
    initial: float
    rate: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        self._settle()
        settle(self, rate=_validate.non_negative("rate", self.rate))

    def _share(self, step: int) -> float:
        return math.exp(-self.rate * step)


@part_class
class CosineDecay(NoiseSchedule):
    """From `initial` in the first step to `final` in the last along half a cosine.

    Parameters
    ----------
    initial, final : float
        Noise multipliers of the first and of the last step; finite, > 0. Rounded up if not exactly representable.
        `final` may be the larger of the two.
    floor : float
        No multiplier is smaller; from 0. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> [round(CosineDecay(2.0, final=1.0).at(t, num_steps=5), 6) for t in range(5)]
    [2.0, 1.853553, 1.5, 1.146447, 1.0]
    """

    kind: ClassVar[str] = "cosine_decay"
    initial: float
    final: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        settle(
            self,
            initial=_validate.positive("initial", self.initial),
            final=_validate.positive("final", self.final),
            floor=_validate.non_negative("floor", self.floor),
        )

    def _at(self, step: int, num_steps: int) -> float:
        if step >= num_steps - 1:
            return max(self.final if num_steps > 1 else self.initial, self.floor)
        share = 0.5 * (1.0 + math.cos(math.pi * step / (num_steps - 1)))
        return max(self.final + (self.initial - self.final) * share, min(self.initial, self.final), self.floor)

    def _scaled(self, factor: float) -> Self:
        floor = times(self.floor, factor) if self.floor else 0.0
        return type(self)(times(self.initial, factor), times(self.final, factor), floor)

    def _constant_from(self, num_steps: int) -> int | None:
        return max(num_steps - 1, 0)


@part_class
class PiecewiseNoise(NoiseSchedule):
    """Constant between boundaries.

    Parameters
    ----------
    multipliers : tuple of float
        Noise multipliers, each finite and > 0. Rounded up if not exactly representable.
    boundaries : tuple of int
        One fewer: multiplier i + 1 applies from step ``boundaries[i]`` on. Increasing, at least 1.
    floor : float
        No multiplier is smaller; from 0. Rounded up if not exactly representable.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> schedule = PiecewiseNoise((2.0, 1.5, 1.0), boundaries=(10, 20))
    >>> schedule.at(9, num_steps=30), schedule.at(10, num_steps=30), schedule.at(25, num_steps=30)
    (2.0, 1.5, 1.0)
    """

    kind: ClassVar[str] = "piecewise"
    multipliers: tuple[float, ...]
    boundaries: tuple[int, ...]
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name in ("multipliers", "boundaries"):
            if not isinstance(getattr(self, name), (tuple, list)):
                found = type(getattr(self, name)).__name__
                raise InvalidType(f"{name} must be a tuple of numbers, got {found}")
        multipliers = tuple(_validate.positive("multipliers", value) for value in self.multipliers)
        boundaries = tuple(_validate.count("boundaries", value) for value in self.boundaries)
        if len(multipliers) != len(boundaries) + 1:
            found = f"{len(multipliers)} multipliers and {len(boundaries)} boundaries"
            raise InvalidParameter(f"multipliers must be one more than boundaries, got {found}")
        if any(a >= b for a, b in itertools.pairwise(boundaries)):
            raise InvalidParameter("boundaries must be in increasing order and different")
        settle(self, multipliers=multipliers, boundaries=boundaries)
        settle(self, floor=_validate.non_negative("floor", self.floor))

    def _at(self, step: int, num_steps: int) -> float:
        return max(self.multipliers[sum(step >= boundary for boundary in self.boundaries)], self.floor)

    def _scaled(self, factor: float) -> Self:
        floor = times(self.floor, factor) if self.floor else 0.0
        return type(self)(tuple(times(each, factor) for each in self.multipliers), self.boundaries, floor)

    def _constant_from(self, num_steps: int) -> int | None:
        return self.boundaries[-1] if self.boundaries else 0


def times(value: float, factor: float) -> float:
    """Return the product, in the range of floats; which way it rounds is equal, as the cost is stated from it."""
    product = value * factor
    if not 0.0 < product < math.inf:
        raise InvalidParameter(f"factor must leave noise multipliers within the range of floats, got {factor!r}")
    return product
