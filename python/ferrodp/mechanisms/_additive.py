"""What the additive mechanisms share: their releases, which check everything, copy once and add noise in place.

`RealMechanism` is behind the Gaussian and Laplace mechanisms, `IntegerMechanism` behind their discrete relatives. A
subclass says its law, `_law`, and the standard deviation or scale of its noise, `_noise_scale`.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _public, _validate
from ferrodp._observer import OBSERVER, Norm, drawn_in_place
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import PrivacyEvent
from ferrodp.random import NoiseSource, laws
from ferrodp.random.laws import DEFAULT_BITS, Scale, default_granularity
from ferrodp.random.noise import source_or_default
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import PAYER, payer_of
from ferrodp.tickets.source import source_for
from ferrodp.tickets.statistic import changed, found_statistic

Law = Literal["gaussian", "laplace"]
Floating = TypeVar("Floating", np.float32, np.float64)
Integral = TypeVar("Integral", np.int32, np.int64)
Draw = Callable[[npt.NDArray[Any]], None]
Release = TypeVar("Release", bound=Callable[..., Any])

_SENSITIVITIES: dict[str, tuple[Norm, str]] = {
    "gaussian": ("L2", "l2_sensitivity"),
    "laplace": ("L1", "l1_sensitivity"),
}
"""By law, in which norm neighboring values are compared, and the field that bounds their distance."""

_SCALAR = np.dtype(np.float64)


class RealOptions(TypedDict, total=False):
    """Keywords of a release of real numbers, besides `out`."""

    source: NoiseSource | None
    ticket: Ticket | None
    nonfinite: Literal["zero", "raise"]
    threads: int | None


class IntegerOptions(TypedDict, total=False):
    """Keywords of a release of integers, besides `out`."""

    source: NoiseSource | None
    ticket: Ticket | None
    fixed_time: bool
    threads: int | None


class Mechanism(Protocol):
    """What a release has to know of the mechanism that makes it."""

    @property
    def event(self) -> PrivacyEvent:
        """What one release costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealMechanism(ABC):
    """A mechanism that adds exactly rounded noise to real numbers."""

    guarantee: ClassVar[str] = "exact"
    _law: ClassVar[Law]

    _noise_scale: float = field(init=False, repr=False, compare=False)

    @property
    @abstractmethod
    def event(self) -> PrivacyEvent:
        """What an accountant needs to know about one release."""

    @overload
    def release(
        self, value: float | np.floating[Any] | np.integer[Any], *, out: None = ..., **options: Unpack[RealOptions]
    ) -> float: ...
    @overload
    def release(
        self,
        value: npt.NDArray[Floating],
        *,
        out: npt.NDArray[Floating] | None = ...,
        **options: Unpack[RealOptions],
    ) -> npt.NDArray[Floating]: ...
    @overload
    def release(
        self, value: npt.ArrayLike, *, out: npt.NDArray[Any] | None = ..., **options: Unpack[RealOptions]
    ) -> npt.NDArray[np.floating[Any]]: ...
    def release(self, value: Any, **options: Any) -> Any:
        """Return `value` with exactly rounded noise in every coordinate.

        The privacy loss is incurred by the first random bit, even if the result is discarded. An array is one vector:
        its coordinates share the sensitivity, which is stated in the norm of the mechanism (L2 for Gaussian noise, L1
        for Laplace noise).

        Parameters
        ----------
        value : float or ndarray of float32 or float64
            Any shape, order, stride or byte order; lists of numbers count as float64. Taken as exactly the real numbers
            that its bits denote, and never written to. The caller promises that neighboring datasets give values within
            the sensitivity; a sum computed in floating point keeps that only up to rounding, `ferrodp.ClippedSum`
            exactly.
        out : ndarray, optional
            Where to put the result: writeable, C-contiguous, of the shape and dtype of `value`. May be `value` itself,
            which is then noised in place without further memory; otherwise the two must not overlap.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after all checks, right before the first
            random bit, and counts as spent from then on.
        nonfinite : {"zero", "raise"}
            "raise" refuses values that are not finite. *The error is itself a release about the data that nothing
            accounts for:* use it to debug on data that is not private.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        float or ndarray
            A float for a Python or numpy scalar; otherwise an array of the shape and dtype of `value`: a new one, or
            `out`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted, by its type, dtype, shape or layout alone. Nothing was drawn or written.
        TicketError
            If `ticket` was used or cancelled before. Nothing was drawn or written.
        EntropyError
            If the operating system gives no key; `out` is as it was.

        Notes
        -----
        =================================  =============================================================
        coordinate NaN or infinite         counts as 0
        result beyond the dtype's range    the dtype's largest number of that sign (post-processing)
        integer                            taken exactly, like the equal float; cut to the range of floats
        array of size 0                    an array of size 0; the release counts all the same
        =================================  =============================================================
        """
        # mutant: short-way-for-single-numbers-forgets-open-budget
        # mutant: short-way-for-single-numbers-forgets-ticket
        if not options and type(value) is float and OBSERVER.get() is None and PAYER.get() is None:
            return _native.release_scalar(value, self._law, self._noise_scale, None, None)
        return _release_reals(self, value, **options)


@_arrays.quiet
def _release_reals(
    self: RealMechanism,
    value: object,
    *,
    out: object = None,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
    nonfinite: str = "zero",
    threads: int | None = None,
) -> Any:
    drawn_from = source_of(self, source, ticket)
    if not isinstance(nonfinite, str) or nonfinite not in ("zero", "raise"):
        raise _validate.out_of_domain("nonfinite", '"zero" or "raise"', nonfinite)
    threads = _validate.threads(threads)
    values = _arrays.as_float_array(value, "value")
    target = None if out is None else _arrays.out_target(out, values, source=value)
    if nonfinite == "raise" and not np.isfinite(values).all():
        raise InvalidArray("values must be finite")
    scalar = target is None and issubclass(type(value), (float, int, np.generic))
    # mutant: value-between-two-floats-rounded
    integers = _arrays.long_integers(value)
    if integers:
        exact = np.where(np.isfinite(values), values, 0.0).astype(object)
        for place, integer in integers.items():
            exact.flat[place] = integer
        add: Draw = functools.partial(_add_exactly, integers, self._law, self._noise_scale, drawn_from, threads)
    else:
        exact = None

        def add(array: npt.NDArray[Any]) -> None:
            _native.add_noise(array, self._law, self._noise_scale, None, drawn_from._key(), threads, False)

    noised = _noised(self, values, add, target, dtype=_SCALAR if scalar else values.dtype, exact=exact)
    # mutant: noise-drawn-once-per-row
    return out if out is not None else noised.item() if scalar else noised


_release_reals = _public.suggesting(_release_reals, "release")
RealMechanism.release.__signature__ = inspect.signature(_release_reals)  # type: ignore[attr-defined]


def _briefly(release: Release) -> Release:
    """Give a release of integers a short way for a single one that nothing else is said about."""
    careful = _arrays.quiet(release)

    @functools.wraps(release)
    def released(self: IntegerMechanism, value: object, **options: Any) -> Any:
        # mutant: short-way-for-single-integers-forgets-ticket
        is_plain = not options and type(value) is int and -(2**63) <= value < 2**63
        # mutant: short-way-for-single-integers-forgets-open-budget
        if is_plain and OBSERVER.get() is None and PAYER.get() is None:
            numerator, denominator, draw = laws.discrete(self._law, self.scale, False)
            noised = np.array(value, np.int64)
            if getattr(self, "dimension", 1) == 1:
                draw(noised, self._law, numerator, denominator, None, None)
                return noised.item()
        return careful(self, value, **options)

    return cast(Release, released)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerMechanism(ABC):
    """A mechanism that adds discrete noise to integers."""

    guarantee: ClassVar[str] = "exact"
    _law: ClassVar[Law]

    scale: Scale

    @property
    @abstractmethod
    def event(self) -> PrivacyEvent:
        """What an accountant needs to know about one release."""

    @overload
    def release(self, value: int | np.integer[Any], *, out: None = ..., **options: Unpack[IntegerOptions]) -> int: ...
    @overload
    def release(
        self,
        value: npt.NDArray[Integral],
        *,
        out: npt.NDArray[Integral] | None = ...,
        **options: Unpack[IntegerOptions],
    ) -> npt.NDArray[Integral]: ...
    @overload
    def release(
        self, value: npt.ArrayLike, *, out: npt.NDArray[Any] | None = ..., **options: Unpack[IntegerOptions]
    ) -> npt.NDArray[np.signedinteger[Any]]: ...
    @_briefly
    def release(
        self,
        value: Any,
        *,
        out: Any = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        fixed_time: bool = False,
        threads: int | None = None,
    ) -> Any:
        """Return `value` with discrete noise in every coordinate.

        The privacy loss is incurred by the first random bit, even if the result is discarded. An array is one vector:
        its coordinates share the sensitivity, which is stated in the norm of the mechanism (L2 for discrete Gaussian
        noise, L1 for discrete Laplace noise).

        Parameters
        ----------
        value : int or ndarray of int32 or int64
            Any shape, order, stride or byte order; lists of integers count as int64. The discrete Gaussian mechanism
            takes as many integers as its `dimension`. Never written to. The caller promises that neighboring datasets
            give values within the sensitivity.
        out : ndarray, optional
            Where to put the result: writeable, C-contiguous, of the shape and dtype of `value`. May be `value` itself,
            which is then noised in place without further memory; otherwise the two must not overlap.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after all checks, right before the first
            random bit, and counts as spent from then on.
        fixed_time : bool
            Whether drawing the noise must take a time that does not depend on it; only for σ ≤ 64 (discrete Gaussian)
            or b ≤ 2⁵⁰ (discrete Laplace). The released value has the same distribution, so nothing else about the
            guarantee changes. It takes 5 to 170 times as long: see `NoiseSource.discrete_gaussian`.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        int or ndarray
            An int for a Python or numpy integer; otherwise an array of the shape and dtype of `value`: a new one, or
            `out`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted, by its type, dtype, shape or layout alone. Nothing was drawn or written.
        TicketError
            If `ticket` was used or cancelled before. Nothing was drawn or written.
        EntropyError
            If the operating system gives no key; `out` is as it was.

        Notes
        -----
        =================================  =============================================================
        sum beyond the dtype's range       the dtype's largest or smallest number (post-processing)
        integer beyond int64               counts as the largest or smallest int64
        floats, whole ones too             refused: rounding can move two neighbors further apart
        another number of elements         refused where there is a `dimension`, which decides which curve holds
        =================================  =============================================================
        """
        drawn_from = source_of(self, source, ticket)
        threads = _validate.threads(threads)
        # mutant: releases-forget-that-time-to-fixed
        numerator, denominator, draw = laws.discrete(self._law, self.scale, fixed_time)
        values = _arrays.as_integer_array(value, "value")
        dimension = getattr(self, "dimension", values.size)
        # mutant: releases-of-another-dimension-let-through
        if values.size != dimension:
            raise InvalidArray(
                f"value must have as many elements as dimension={dimension}, got {values.size}; "
                f"make the mechanism with dimension={values.size}"
            )
        target = None if out is None else _arrays.out_target(out, values, source=value, dtypes=_arrays.INTEGERS)

        def add(array: npt.NDArray[Any]) -> None:
            draw(array, self._law, numerator, denominator, drawn_from._key(), threads)

        noised = _noised(self, values, add, target, dtype=values.dtype)
        if out is not None:
            return out
        # mutant: integers-released
        return noised.item() if issubclass(type(value), (int, np.integer)) else noised


def _noised(
    mechanism: RealMechanism | IntegerMechanism,
    values: npt.NDArray[Any],
    add: Draw,
    target: npt.NDArray[Any] | None,
    *,
    dtype: np.dtype[Any],
    exact: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return `values` with noise, in `target` if there is one; `exact` is what floats stand for."""
    norm, bound = _SENSITIVITIES[mechanism._law]
    sensitivity = getattr(mechanism, bound)
    if target is values:
        drawn_in_place(target, add, mechanism, norm, sensitivity)
        return target
    _validate.fits_in_memory("value", values.nbytes)
    # mutant: output-holds-bare-integers-before-they
    # noised apart, so that no error can leave `out` holding the bare value
    noised = np.array(values, dtype=dtype, order="C", copy=True)
    drawn_in_place(noised, add, mechanism, norm, sensitivity, exact=exact)
    if target is not None:
        np.copyto(target, noised)
    return noised


def _add_exactly(
    integers: dict[int, int],
    law: Law,
    scale: float,
    source: NoiseSource,
    threads: int | None,
    array: npt.NDArray[np.float64],
) -> None:
    """Add noise to an array in place, and put integers that no float denotes, with theirs, in their places.

    An integer is a multiple of the grid and a remainder; only the remainder decides how its noise is rounded.
    """
    exponent = default_granularity(law, scale, _SCALAR)
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


def source_of(
    mechanism: Mechanism,
    source: object,
    ticket: object,
    what: tuple[str, str | None, str | None] = ("values", None, None),
) -> NoiseSource:
    """Return what one release draws from. The event is computed only where somebody has to pay for it.

    What is released, what a unit of it is called and its bounds, if they are known, are for the record of the charge.
    """
    drawn_from = source_or_default(source)
    if ticket is None:
        payer = payer_of(drawn_from)
        if payer is None:
            return drawn_from
        ticket = payer.ticket(mechanism.event)
    released, unit, bounds = what
    # mutant: answers-recorded-without-their-unit
    if unit and isinstance(ticket, Ticket):
        unit = f"one {unit}, {changed(ticket.neighboring_relation, unit)}"
    words = found_statistic(f"{released} by a {type(mechanism).__name__}", bounds=bounds, unit=unit)
    return source_for(drawn_from, ticket, mechanism.event, words)


def check_grid(law: Law, name: str, scale: float) -> None:
    """Refuse a scale of noise whose default grid, for some dtype, is not in the supported range."""
    bits = [number for (of, _), number in DEFAULT_BITS.items() if of == law]
    least, beyond = _validate.GRANULARITY_EXPONENTS[0] + max(bits), _validate.GRANULARITY_EXPONENTS[-1] + min(bits) + 1
    if not (0.0 < scale < math.inf and least <= math.frexp(scale)[1] - 1 < beyond):
        accepted = f"at least 2^{least} and below 2^{beyond}"
        raise InvalidParameter(f"{name} must be {accepted}, got {scale!r}")


def discrete_scale(value: object) -> float | Fraction:
    """Return the scale of a discrete law as exactly the number it denotes: a float if there is one."""
    scale = Fraction(*_validate.discrete_scale("scale", value))
    nearest = float(scale)
    return nearest if Fraction(nearest) == scale else scale
