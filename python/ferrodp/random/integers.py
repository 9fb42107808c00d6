"""Integer noise and exact coins: the part of `NoiseSource` whose output is no float."""

from __future__ import annotations

import builtins
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _native, _validate
from ferrodp._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter

Scale: TypeAlias = float | Fraction
"""Of a discrete law: taken as exactly the number it denotes."""


class IntegerNoise:
    """What `NoiseSource` draws that is an integer or a bool."""

    __slots__ = ()

    def _key(self) -> builtins.bytes | _native.Permit | None:
        """Return the key for one call; None stands for a fresh one, a permit for one that a ticket pays for."""
        return None

    def discrete_gaussian(
        self, size: int | tuple[int, ...], *, scale: Scale, fixed_time: bool = False, threads: int | None = None
    ) -> npt.NDArray[np.int64]:
        r"""Return discrete Gaussian noise: integers with weights :math:`e^{-n^2/2\sigma^2}`, exactly.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        scale : float or Fraction
            σ, in integer units; from 0.01 to 2^57. Taken exactly: 0.1 is the float, `Fraction(1, 10)` one tenth.
        fixed_time : bool
            Whether the number of random bits, the instructions and the addresses used must not depend on the noise.
            The law is the same, the noise of a seed another. Only for σ ≤ 64, or b ≤ 2^50 (discrete Laplace); see the
            notes for what it costs.
        threads : int, optional
            By default one for small work and up to eight for large. The result does not depend on it.

        Returns
        -------
        ndarray of int64
            Of shape `size`. A draw beyond the range of int64 (probability below e^-2000; e^(-2^63/b) for discrete
            Laplace noise, which is e^-64 at the largest scale) becomes its largest or smallest number.

        Raises
        ------
        InvalidParameter, InvalidType, MemoryError
            Before anything is drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        Rejection from an envelope of dyadic probabilities; acceptance is decided by as many random digits as it takes,
        so that the law is exact over all integers. It is the law of Canonne, Kamath, Steinke, "The discrete Gaussian
        for differential privacy", NeurIPS 2020, Definition 1. Its variance is close to σ² for σ ≥ 1 and smaller below.

        In fixed time every sample is inverted with the whole of a table read: about 13·σ comparisons of 127 random
        digits for a Gaussian one, 15 + 2·log₂ b for a Laplace one, each with digits of its own. That takes some 5 times
        as long at σ = 1, 35 times at 10 and 170 times at 64; 10 to 30 times for Laplace noise.

        Examples
        --------
        >>> import ferrodp as fd
        >>> noise = fd.NoiseSource().discrete_gaussian(1000, scale=3.0)
        >>> noise.shape, noise.dtype
        ((1000,), dtype('int64'))
        """
        return self._filled_discrete("gaussian", size, scale, fixed_time, threads)

    def discrete_laplace(
        self, size: int | tuple[int, ...], *, scale: Scale, fixed_time: bool = False, threads: int | None = None
    ) -> npt.NDArray[np.int64]:
        r"""Return discrete Laplace noise: integers with weights :math:`e^{-|n|/b}`, exactly.

        `scale` is b; parameters, result and errors are those of `discrete_gaussian`. The law is also known as the
        two-sided geometric one (Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy
        mechanisms", STOC 2009).
        """
        return self._filled_discrete("laplace", size, scale, fixed_time, threads)

    def add_discrete_gaussian_(
        self, array: npt.NDArray[Any], *, scale: Scale, fixed_time: bool = False, threads: int | None = None
    ) -> None:
        """Add discrete Gaussian noise to `array`, in place; sums beyond the range of its dtype are cut to it.

        Parameters
        ----------
        array : ndarray of int32 or int64
            Writeable, C-contiguous, any shape.
        scale, fixed_time, threads
            As for `discrete_gaussian`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            Before anything is drawn or written.
        EntropyError
            If the operating system gives no key; nothing is written.
        """
        self._add_discrete("gaussian", array, scale, fixed_time, threads)

    def add_discrete_laplace_(
        self, array: npt.NDArray[Any], *, scale: Scale, fixed_time: bool = False, threads: int | None = None
    ) -> None:
        """Add discrete Laplace noise to `array`, in place; see `add_discrete_gaussian_`."""
        self._add_discrete("laplace", array, scale, fixed_time, threads)

    @overload
    def bernoulli_exp(self, gamma: Real, size: None = ..., *, threads: int | None = ...) -> bool: ...
    @overload
    def bernoulli_exp(
        self, gamma: Real | npt.ArrayLike, size: int | tuple[int, ...] | None = ..., *, threads: int | None = ...
    ) -> Any: ...
    @_arrays.quiet
    def bernoulli_exp(
        self, gamma: Real | npt.ArrayLike, size: int | tuple[int, ...] | None = None, *, threads: int | None = None
    ) -> Any:
        r"""Toss coins that are True with probability :math:`e^{-\gamma}`, exactly.

        Parameters
        ----------
        gamma : float, Fraction or array
            γ ≥ 0, finite. A number is taken exactly: 0.1 is the float, `Fraction(1, 10)` one tenth, of integers below
            2^64. Of an array of float32 or float64 each element has a coin of its own.
        size : int or tuple of int, optional
            Shape of the result for a single γ; one coin if left out. For an array it has to be the array's shape.
        threads : int, optional
            By default one for small work and up to eight for large. The result does not depend on it.

        Returns
        -------
        bool or ndarray of bool
            A bool for a single γ without `size`.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType, MemoryError
            Before anything is drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        A uniform number is compared with :math:`e^{-\gamma}`, of which as many digits are computed as it takes: 64 all
        but always. The law is that of Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
        NeurIPS 2020, Algorithm 1. How long a call takes can depend on the outcome.

        Examples
        --------
        >>> import ferrodp as fd
        >>> fd.NoiseSource().bernoulli_exp(0.0), fd.NoiseSource().bernoulli_exp(1e6)
        (True, False)
        >>> fd.NoiseSource().bernoulli_exp([0.0, 1e6, 0.0])
        array([ True, False,  True])
        """
        if isinstance(gamma, (numbers.Real, Decimal, np.generic)):
            return self._tossed(gamma, size, threads)
        gammas = _arrays.as_float_array(gamma, "gamma")
        if size is not None and _validate.size(size, itemsize=1) != gammas.shape:
            raise InvalidParameter(f"size must be the shape of gamma, {gammas.shape}, or be left out")
        threads = _validate.threads(threads)
        if not (np.isfinite(gammas) & (gammas >= 0.0)).all():
            raise InvalidArray("gamma must be finite and >= 0 everywhere")
        coins = np.array(gammas, dtype=np.float64, order="C", copy=True)
        _native.toss_each_coin(coins, self._key(), threads)
        return coins.astype(np.bool_)

    def _tossed(self, gamma: object, size: object, threads: object) -> Any:
        shape = () if size is None else _validate.size(size, itemsize=1)
        ratio = _validate.exact("gamma", gamma)
        if ratio < 0:
            raise _validate.out_of_domain("gamma", "finite and >= 0", gamma)
        threads = _validate.threads(threads)
        if max(ratio.numerator, ratio.denominator) < 2**64:
            coins = np.empty(shape, np.uint8)
            _native.toss_coins(coins, ratio.numerator, ratio.denominator, self._key(), threads)
        else:
            number = _validate.rounded(ratio, "up")
            if not np.isfinite(number) or Fraction(number) != ratio:
                raise _validate.out_of_domain("gamma", "a float, or a ratio of integers below 2^64", gamma)
            _validate.fits_in_memory("size", 8 * int(np.prod(shape, dtype=object)))
            gammas = np.full(shape, number)
            _native.toss_each_coin(gammas, self._key(), threads)
            coins = gammas
        return bool(coins) if size is None else coins.astype(np.bool_)

    def _filled_discrete(
        self, law: str, size: object, scale: object, fixed_time: object, threads: object
    ) -> npt.NDArray[np.int64]:
        shape = _validate.size(size, itemsize=8)
        numerator, denominator, add = checked_scale(law, scale, fixed_time)
        threads = _validate.threads(threads)
        out = np.zeros(shape, np.int64)
        add(out, law, numerator, denominator, self._key(), threads)
        return out

    def _add_discrete(self, law: str, array: object, scale: object, fixed_time: object, threads: object) -> None:
        target = _arrays.writable_target(array, "array", dtypes=_arrays.INTEGERS)
        numerator, denominator, add = checked_scale(law, scale, fixed_time)
        threads = _validate.threads(threads)
        add(target, law, numerator, denominator, self._key(), threads)


def checked_scale(law: str, scale: object, fixed_time: object) -> tuple[int, int, Callable[..., None]]:
    """Return numerator and denominator of the scale, and what adds such noise, in fixed time or not."""
    numerator, denominator = _validate.discrete_scale("scale", scale)
    if type(fixed_time) is not bool:
        raise _validate.out_of_domain("fixed_time", "True or False", fixed_time)
    if not fixed_time:
        return numerator, denominator, _native.add_discrete_noise
    largest, shown = (64, "64") if law == "gaussian" else (2**50, "2^50")
    if numerator > largest * denominator:
        law_name = "discrete Gaussian" if law == "gaussian" else "discrete Laplace"
        raise _validate.out_of_domain("scale", f"at most {shown} for {law_name} noise with fixed_time=True", scale)
    return numerator, denominator, _native.add_discrete_noise_in_fixed_time
