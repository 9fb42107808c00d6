"""The sum of a round and its noise: one class for each kind of noise.

Contributions are clipped to C in the norm of the noise, truncated to a grid toward zero and summed as integers, so the
sensitivity is C in exact arithmetic for any number of clients.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays
from ferrodp._base._casting import Casting, casting
from ferrodp._numerics.rounding import product_up
from ferrodp.engine._step import Step
from ferrodp.engine.records import DPConfig, NoiseMechanism
from ferrodp.errors import InvalidArrayType
from ferrodp.events import PrivacyEvent
from ferrodp.mechanisms import DiscreteGaussianMechanism, GaussianMechanism, LaplaceMechanism
from ferrodp.sums import ClippedSum
from ferrodp.sums.absolute import L1Sum
from ferrodp.tickets import Ticket

_LARGEST = 2**62
"""Integers are cut to this, which moves no two values apart, so that their noise has room."""


class RoundSum(Protocol):
    """A sum of clipped contributions that is released once, with noise."""

    @property
    def event(self) -> PrivacyEvent:
        """What the release costs."""

    def add(self, update: object) -> None:
        """Add one contribution, clipped."""

    def add_many(self, updates: object) -> None:
        """Add contributions that are stacked along a first axis, each clipped by itself."""

    def release(self, ticket: Ticket | None, denominator: float | None) -> Any:
        """Return the sum with noise, like the template."""


def sum_for(step: Step, template: object, cast: npt.DTypeLike | None = None, skip: Collection[str] = ()) -> RoundSum:
    """Return an empty sum for a round of this kind, or refuse parameters that no release could have."""
    if cast is not None or skip:
        # mutant: counters-of-a-round-are-summed
        cast_as = casting(template, cast, skip)
        return _CastSum(_sum_for(step, cast_as.template), cast_as)
    try:
        return _sum_for(step, template)
    except InvalidArrayType as error:
        ways = 'cast="float32" makes all arrays one type, and skip=("step",) leaves out what is under such a key'
        raise InvalidArrayType(f"{error}; {ways}") from None


def _sum_for(step: Step, template: object) -> RoundSum:
    total: ClippedSum[Any] = ClippedSum(template, clip_norm=step.config.max_grad_norm)
    if step.config.mechanism is NoiseMechanism.GAUSSIAN:
        return _GaussianSum(step, total)
    return (_LaplaceSum if step.config.mechanism is NoiseMechanism.LAPLACE else _DiscreteSum)(step, total)


@_arrays.quiet
def noised(config: DPConfig, values: npt.NDArray[Any], ticket: Ticket | None) -> npt.NDArray[Any]:
    """Return a vector of floats with noise for a sensitivity of `max_grad_norm`; may use its memory."""
    if config.mechanism is NoiseMechanism.GAUSSIAN:
        gaussian = GaussianMechanism(noise_multiplier=config.noise_multiplier, l2_sensitivity=config.max_grad_norm)
        return gaussian.release(values, out=values, ticket=ticket)
    if config.mechanism is NoiseMechanism.LAPLACE:
        return _laplace(config).release(values, out=values, ticket=ticket)
    return _noised_on_grid(config, values, ticket)


def epsilon_of_noise(config: DPConfig, delta: float) -> float:
    """Return the ε at δ of one release of a single value with this noise."""
    if config.mechanism is NoiseMechanism.GAUSSIAN:
        return GaussianMechanism(noise_multiplier=config.noise_multiplier, l2_sensitivity=config.max_grad_norm).epsilon(
            delta
        )
    if config.mechanism is NoiseMechanism.LAPLACE:
        return _laplace(config).epsilon(delta)
    return _discrete(config, 2**29, 1).epsilon(delta)


def _laplace(config: DPConfig, distance: int = 1) -> LaplaceMechanism:
    """Return Laplace noise of z·C for values that are `distance`·C apart at most."""
    scale = product_up(config.noise_multiplier, config.max_grad_norm)
    return LaplaceMechanism(scale=scale, l1_sensitivity=distance * config.max_grad_norm)


def _discrete(config: DPConfig, units: int, size: int, distance: int = 1) -> DiscreteGaussianMechanism:
    """Return discrete noise of z·units for integers that are `distance`·units apart at most."""
    scale = product_up(config.noise_multiplier, float(units))
    return DiscreteGaussianMechanism(scale=scale, l2_sensitivity=distance * units, dimension=max(size, 1))


def _release(mechanism: DiscreteGaussianMechanism, integers: npt.NDArray[np.int64], ticket: Ticket | None) -> None:
    """Add noise in place; for no integers at all, to one that nobody sees: a release counts all the same."""
    target = integers if integers.size else np.zeros(1, np.int64)
    mechanism.release(target, out=target, ticket=ticket)


class _GaussianSum:
    def __init__(self, step: Step, total: ClippedSum[Any]) -> None:
        self._multiplier = step.config.noise_multiplier
        self._total = total
        self.add, self.add_many = total.add, total.add_many
        self.event = step.noise
        # refuses what the sampler has no grid for, before anything is reserved
        GaussianMechanism(noise_multiplier=self._multiplier, l2_sensitivity=step.config.max_grad_norm)

    def release(self, ticket: Ticket | None, denominator: float | None) -> Any:
        return self._total.release(noise_multiplier=self._multiplier, denominator=denominator, ticket=ticket)


class _DiscreteSum:
    """The integers of the sum with integer noise; only then do they become floats."""

    def __init__(self, step: Step, total: ClippedSum[Any]) -> None:
        self._total = total
        self.add, self.add_many = total.add, total.add_many
        # mutant: discrete-noise-forgets-grid
        units = math.ceil(total.clip_norm / total.granularity)  # a power of two: the quotient is exact
        self._mechanism = _discrete(step.config, units, total._layout.size, step.distance)
        self.event: PrivacyEvent = self._mechanism.event

    @_arrays.quiet
    def release(self, ticket: Ticket | None, denominator: float | None) -> Any:
        integers = self._total._native.snapshot()[1]
        _release(self._mechanism, integers, ticket)
        values = integers * self._total.granularity
        return self._total._layout.split(_as(values, denominator, self._total.dtype))


class _LaplaceSum:
    """A sum of integers whose every contribution has an L1 norm of at most C, which becomes floats without rounding."""

    def __init__(self, step: Step, total: ClippedSum[Any]) -> None:
        self._total = total  # knows what an update looks like; nothing is ever added to it
        self._sum = L1Sum(total._layout.size, total.clip_norm, total.granularity)
        self._mechanism = _laplace(step.config, step.distance)
        self.event: PrivacyEvent = self._mechanism.event

    def add(self, update: object) -> None:
        self._sum.add(self._total._layout.leaves(update, "update"), 1)

    def add_many(self, updates: object) -> None:
        self._sum.add(*self._total._layout.stacked(updates))

    @_arrays.quiet
    def release(self, ticket: Ticket | None, denominator: float | None) -> Any:
        values = self._sum.values()
        self._mechanism.release(values, out=values, ticket=ticket)
        # mutant: denominator-forgotten
        return self._total._layout.split(_as(values, denominator, self._total.dtype))


class _CastSum:
    """A sum of updates of mixed types, cast to one float type and back; keys that are skipped are no part of it."""

    def __init__(self, inner: RoundSum, cast_as: Casting) -> None:
        self._inner, self._cast_as = inner, cast_as
        self.event: PrivacyEvent = inner.event

    def add(self, update: object) -> None:
        self._inner.add(self._cast_as.vector(update))

    def add_many(self, updates: object) -> None:
        stacked = casting(updates, self._cast_as.dtype, self._cast_as.skip)
        # mutant: stacked-updates-of-other-types-cast
        if stacked.dtypes != self._cast_as.dtypes:
            raise InvalidArrayType("updates must have the dtypes of the template, key by key")
        self._inner.add_many(stacked.vector(updates))

    def release(self, ticket: Ticket | None, denominator: float | None) -> Any:
        return self._cast_as.restored(self._inner.release(ticket, denominator))


def _noised_on_grid(config: DPConfig, values: npt.NDArray[Any], ticket: Ticket | None) -> npt.NDArray[Any]:
    """Return floats cut to the grid, with integer noise.

    Cutting toward zero moves each coordinate by less than a unit, so integers of neighbors are no more than C/g + √d
    apart, and the noise is scaled to that: by √d·2⁻²⁹ more at most.
    """
    exponent = math.frexp(config.max_grad_norm)[1] - 30
    # mutant: noise-of-integers-scaled-for-floats
    units = math.ceil(math.ldexp(config.max_grad_norm, -exponent)) + math.isqrt(max(values.size - 1, 0)) + 1
    mechanism = _discrete(config, units, values.size)
    scaled = np.ldexp(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0), -exponent)
    # mutant: floats-cut-to-nearest-integer
    integers = np.clip(np.trunc(scaled), -_LARGEST, _LARGEST).astype(np.int64)
    _release(mechanism, integers, ticket)
    return _as(np.ldexp(integers.astype(np.float64), exponent), None, values.dtype)


def _as(values: npt.NDArray[Any], denominator: float | None, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return noised values, perhaps divided, in a dtype, cut to its range: post-processing."""
    if denominator is not None:
        values = values / denominator
    limit = float(np.finfo(dtype).max)
    cut: npt.NDArray[Any] = np.clip(values, -limit, limit).astype(dtype)
    return cut
