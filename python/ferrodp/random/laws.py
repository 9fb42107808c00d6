"""Scales and grids of noise: checked, and turned into what the native code takes, before anything is drawn."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter

Scale: TypeAlias = float | Fraction
"""Of a discrete law: taken as exactly the number it denotes."""
Key: TypeAlias = "bytes | _native.Permit | None"
"""What one call draws from; None stands for a fresh key, a permit for one that a ticket pays for."""

LEAST_USUAL, MOST_USUAL = 1e-200, 1e200
"""Between these, scales are far from the ends of their range, which then need not be looked up."""

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
DEFAULT_BITS = {
    ("gaussian", _SINGLE): 12,
    ("laplace", _SINGLE): 20,
    ("gaussian", _DOUBLE): 32,
    ("laplace", _DOUBLE): 32,
}
"""By law and dtype, how many binary digits of the scale the default grid keeps.

A coarser grid takes nothing from the privacy, for rounding is post-processing; it adds `g²/12` to the variance: with 12
digits at most 5·10⁻⁹ of it. In return Gaussian noise is decided in single precision.
"""


def float_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind not in (_SINGLE, _DOUBLE):
        raise InvalidArrayType(
            f"dtype must be float32 or float64, got {_validate.shown(dtype)}; for example dtype=numpy.float64"
        )
    return kind


def default_granularity(law: str, scale: float, dtype: np.dtype[Any]) -> int:
    """Return the exponent of the grid that is used where none is named."""
    return math.frexp(scale)[1] - 1 - DEFAULT_BITS[law, dtype]


def on_grid(law: str, name: str, scale: object, granularity: object, dtype: np.dtype[Any]) -> tuple[float, int | None]:
    """Return the scale of real noise, and the exponent of its grid: None for the default one."""
    if granularity is None and type(scale) is float and LEAST_USUAL < scale < MOST_USUAL:
        return scale, None
    number = _validate.positive(name, scale)
    width = _validate.granularity(granularity)
    if width is not None:
        return number, math.frexp(width)[1] - 1
    exponent = default_granularity(law, number, dtype)
    if exponent not in _validate.GRANULARITY_EXPONENTS:
        low, high = (_validate.GRANULARITY_EXPONENTS[end] + DEFAULT_BITS[law, dtype] for end in (0, -1))
        raise _validate.out_of_domain(name, f"from 2^{low} to 2^{high + 1} for {dtype}", scale)
    return number, exponent


def discrete(law: str, scale: object, fixed_time: object) -> tuple[int, int, Callable[..., None]]:
    """Return numerator and denominator of the scale of a discrete law, and the native function that adds its noise."""
    numerator, denominator = _validate.discrete_scale("scale", scale)
    if not _validate.truth("fixed_time", fixed_time):
        return numerator, denominator, _native.add_discrete_noise
    largest, shown = (64, "64") if law == "gaussian" else (2**50, "2^50")
    if numerator > largest * denominator:
        law_name = "discrete Gaussian" if law == "gaussian" else "discrete Laplace"
        raise _validate.out_of_domain("scale", f"at most {shown} for {law_name} noise with fixed_time=True", scale)
    return numerator, denominator, _native.add_discrete_noise_in_fixed_time


def toss(gamma: object, size: object, threads: object, key: Callable[[], Key]) -> bool | npt.NDArray[np.bool_]:
    """Return coins that are True with probability e^−γ; see `NoiseSource.bernoulli_exp`."""
    single = isinstance(gamma, (numbers.Real, Decimal, np.generic))
    ratio = _validate.exact("gamma", gamma) if single else Fraction(0)
    if single:
        shape = () if size is None else _validate.size(size, itemsize=1)
        coins = _coins(gamma, ratio, shape)
    else:
        gammas = _arrays.as_float_array(gamma, "gamma")
        if size is not None and _validate.size(size, itemsize=1) != gammas.shape:
            raise InvalidParameter(f"size must be the shape of gamma, {gammas.shape}, or be left out")
        if not (np.isfinite(gammas) & (gammas >= 0.0)).all():
            raise InvalidArray("gamma must be finite and >= 0 everywhere")
        coins = np.array(gammas, dtype=np.float64, order="C", copy=True)
    threads = _validate.threads(threads)
    if coins.dtype == np.uint8:
        _native.toss_coins(coins, ratio.numerator, ratio.denominator, key(), threads)
    else:
        _native.toss_each_coin(coins, key(), threads)
    return bool(coins) if single and size is None else coins.astype(np.bool_)


def _coins(gamma: object, ratio: Fraction, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return coins to toss for one γ: bytes where the ratio is short, otherwise γ itself, once for each coin."""
    if ratio < 0:
        raise _validate.out_of_domain("gamma", "finite and >= 0", gamma)
    if max(ratio.numerator, ratio.denominator) < 2**64:
        return np.empty(shape, np.uint8)
    number = _validate.rounded(ratio, "up")
    if not np.isfinite(number) or Fraction(number) != ratio:
        raise _validate.out_of_domain("gamma", "a float, or a ratio of integers below 2^64", gamma)
    _validate.fits_in_memory("size", 8 * math.prod(shape))
    return np.full(shape, number)
