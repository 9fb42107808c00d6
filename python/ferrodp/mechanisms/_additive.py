"""What the additive mechanisms share: check everything, copy once, add noise in place."""

from __future__ import annotations

import functools
import math
import sys
import warnings
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _native, _validate
from ferrodp._observer import Norm, drawn_in_place
from ferrodp.errors import InvalidArray, InvalidParameter, WeakPrivacyWarning
from ferrodp.events import PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.random.integers import checked_scale
from ferrodp.random.noise import DEFAULT_BITS, default_granularity, source_or_default
from ferrodp.tickets.ticket import source_for

Law = Literal["gaussian", "laplace"]
Nonfinite = Literal["zero", "raise"]
_NORMS: dict[Law, Norm] = {"gaussian": "L2", "laplace": "L1"}

WEAK_EPSILON = 20.0
_SCALAR = np.dtype(np.float64)
_EXPONENTS = range(
    _validate.GRANULARITY_EXPONENTS[0] + max(DEFAULT_BITS.values()),
    _validate.GRANULARITY_EXPONENTS[-1] + min(DEFAULT_BITS.values()) + 1,
)
"""Exponents of the scales whose default grids, for every dtype, lie in the supported range."""


def scalar_grid(name: str, scale: float) -> int:
    """Return the exponent of the grid for scalars, or refuse a scale of noise that has no grid for some dtype."""
    if not (0.0 < scale < math.inf and math.frexp(scale)[1] - 1 in _EXPONENTS):
        accepted = f"at least 2^{_EXPONENTS[0]} and below 2^{_EXPONENTS[-1] + 1}"
        raise InvalidParameter(f"{name} must be {accepted}, got {scale!r}")
    return default_granularity(scale, _SCALAR)


def warn_if_weak(epsilon: object) -> None:
    """Warn the nearest caller outside this package where a guarantee is true and promises next to nothing."""
    if float(epsilon) <= WEAK_EPSILON:  # type: ignore[arg-type]  # checked by the caller
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("ferrodp."):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"epsilon is above {WEAK_EPSILON:g}: one unit can change the probability of an output by a factor "
        "of more than 4e8; the guarantee is true, and weak",
        WeakPrivacyWarning,
        stacklevel=level,
    )


class _Mechanism(Protocol):
    @property
    def event(self) -> PrivacyEvent: ...


def source_of(mechanism: _Mechanism, source: object, ticket: object) -> NoiseSource:
    """Return what one release draws from. The event is worked out only where a ticket has to pay for it."""
    return source_or_default(source) if ticket is None else source_for(source, ticket, mechanism.event)


@_arrays.quiet
def release(
    mechanism: _Mechanism,
    law: Law,
    scale: float,
    value: object,
    *,
    sensitivity: float,
    out: object,
    source: object,
    ticket: object,
    nonfinite: Nonfinite,
    threads: int | None,
) -> Any:
    """Return `value` with noise of the given law and scale; see `GaussianMechanism.release`."""
    drawn_from = source_of(mechanism, source, ticket)
    if not isinstance(nonfinite, str) or nonfinite not in ("zero", "raise"):
        raise _validate.out_of_domain("nonfinite", '"zero" or "raise"', nonfinite)
    threads = _validate.threads(threads)
    values = _arrays.as_float_array(value, "value")
    target = None if out is None else _arrays.out_target(out, values, source=value)
    if nonfinite == "raise" and not np.isfinite(values).all():
        raise InvalidArray("values must be finite")

    def add(array: npt.NDArray[Any]) -> None:
        if law == "gaussian":
            drawn_from.add_gaussian_(array, standard_deviation=scale, threads=threads)
        else:
            drawn_from.add_laplace_(array, scale=scale, threads=threads)

    if target is values:
        drawn_in_place(target, add, mechanism, _NORMS[law], sensitivity)
        return out
    scalar = target is None and issubclass(type(value), (float, int, np.generic))
    _validate.fits_in_memory("value", values.nbytes)
    # noised apart, so that no error can leave `out` holding the bare value
    noised = np.array(values, dtype=np.float64 if scalar else values.dtype, order="C", copy=True)
    # mutant: value-between-two-floats-rounded
    integers = _arrays.long_integers(value)
    if integers:
        exact = np.where(np.isfinite(values), values, 0.0).astype(object)
        for place, integer in integers.items():
            exact.flat[place] = integer
        add = functools.partial(_add_exactly, integers, law, scale, drawn_from, threads)
        drawn_in_place(noised, add, mechanism, _NORMS[law], sensitivity, exact=exact)
    else:
        drawn_in_place(noised, add, mechanism, _NORMS[law], sensitivity)
    if target is not None:
        np.copyto(target, noised)
        return out
    # mutant: noise-drawn-once-per-row
    return float(noised) if scalar else noised


def _add_exactly(
    integers: dict[int, int],
    law: Law,
    scale: float,
    source: NoiseSource,
    threads: int | None,
    array: npt.NDArray[np.float64],
) -> None:
    """Add noise to an array in place, and put integers that no float denotes, with theirs, in their places.

    An integer is a multiple of the grid and a rest; only the rest has to do with what its noise is rounded to.
    """
    exponent = default_granularity(scale, _SCALAR)
    width = max(exponent, 0)
    multiples = {place: (integer + (1 << width >> 1)) >> width for place, integer in integers.items()}
    rests = {place: integer - (multiples[place] << width) for place, integer in integers.items()}
    for place in integers:
        array.flat[place] = 0.0
    steps = _native.add_noise_to_integers(array, _arrays.written(rests), law, scale, exponent, source._key(), threads)
    for place, step in zip(sorted(rests), steps, strict=True):
        array.flat[place] = _times_power_of_two((multiples[place] << width - exponent) + step, exponent)


def _times_power_of_two(number: int, exponent: int) -> float:
    """Return the float nearest to number·2^exponent, ties to even; the largest one where it lies beyond."""
    try:
        return float(number << exponent) if exponent >= 0 else number / (1 << -exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, number)


@_arrays.quiet
def release_integers(
    mechanism: _Mechanism,
    law: Law,
    scale: float | Fraction,
    value: object,
    *,
    sensitivity: float,
    dimension: int | None,
    out: object,
    source: object,
    ticket: object,
    fixed_time: bool,
    threads: int | None,
) -> Any:
    """Return `value` with discrete noise of the given law and scale; see `DiscreteGaussianMechanism.release`."""
    drawn_from = source_of(mechanism, source, ticket)
    threads = _validate.threads(threads)
    if fixed_time is not False:
        checked_scale(law, scale, fixed_time)
    values = _arrays.as_integer_array(value, "value")
    # mutant: releases-of-another-dimension-let-through
    if dimension is not None and values.size != dimension:
        raise InvalidArray(f"value must have as many elements as dimension={dimension}, got {values.size}")
    target = None if out is None else _arrays.out_target(out, values, source=value, dtypes=_arrays.INTEGERS)

    def add(array: npt.NDArray[Any]) -> None:
        if law == "gaussian":
            # mutant: releases-forget-that-time-to-fixed
            drawn_from.add_discrete_gaussian_(array, scale=scale, fixed_time=fixed_time, threads=threads)
        else:
            drawn_from.add_discrete_laplace_(array, scale=scale, fixed_time=fixed_time, threads=threads)

    if target is values:
        drawn_in_place(target, add, mechanism, _NORMS[law], sensitivity)
        return out
    _validate.fits_in_memory("value", values.nbytes)
    # mutant: output-holds-bare-integers-before-they
    # noised apart, so that no error can leave `out` holding the bare value
    noised = np.array(values, order="C", copy=True)
    drawn_in_place(noised, add, mechanism, _NORMS[law], sensitivity)
    if target is not None:
        np.copyto(target, noised)
        return out
    # mutant: integers-released
    return int(noised) if issubclass(type(value), (int, np.integer)) else noised


def discrete_scale(value: object) -> float | Fraction:
    """Return the scale of a discrete law as exactly the number it denotes: a float if there is one."""
    scale = Fraction(*_validate.discrete_scale("scale", value))
    nearest = float(scale)
    return nearest if Fraction(nearest) == scale else scale


release_scalar = _native.release_scalar
