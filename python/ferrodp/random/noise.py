"""The noise source: exactly rounded and discrete noise, coins and random bytes, each from a key of its own call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NoReturn, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _public, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidType
from ferrodp.random import laws
from ferrodp.random.laws import LEAST_USUAL, MOST_USUAL, Key, Scale

__all__ = ["NoiseSource"]

Floating = TypeVar("Floating", np.float32, np.float64)
Size: TypeAlias = int | tuple[int, ...]
Law: TypeAlias = Literal["gaussian", "laplace"]
Add = TypeVar("Add", bound=Callable[..., None])

_NDARRAY, _MAX_THREADS = np.ndarray, _validate.MAX_THREADS  # looked up once


class GridOptions(TypedDict, total=False):
    """Keywords of real noise, besides its scale and dtype."""

    granularity: Real | None
    threads: int | None


def _briefly(law: Law, name: str) -> Callable[[Add], Add]:
    """Give the addition of a law's noise, whose scale has this name, a short way for calls with nothing unusual."""

    def decorated(add: Add) -> Add:
        careful = _public.suggesting(add)

        @functools.wraps(careful)
        def added(*args: Any, **options: Any) -> None:
            source, array = args if len(args) == 2 else (None, None)
            scale, threads = options.get(name), options.get("threads")
            if (
                # mutant: short-way-for-arrays-takes-other-sources
                type(source) is NoiseSource
                and type(array) is _NDARRAY
                and array.dtype in _arrays.FLOATS
                # mutant: short-way-for-arrays-takes-other-layouts
                and array.flags.carray
                and type(scale) is float
                and LEAST_USUAL < scale < MOST_USUAL
                and (threads is None or (type(threads) is int and 0 < threads <= _MAX_THREADS))
                # mutant: short-way-for-arrays-passes-over-options
                and (len(options) == 1 or (len(options) == 2 and "threads" in options))
            ):
                return _native.add_noise(array, law, scale, None, None, threads, False)
            return careful(*args, **options)

        return cast(Add, added)

    return decorated


class NoiseSource:
    r"""Draw exactly rounded noise; every call takes a fresh 256-bit key from the operating system.

    A source is stateless. It may be shared by threads, copied, pickled, inherited by a forked child or restored with a
    cloned machine: no two calls, anywhere, see the same bits, because none of them exist before the call.

    Notes
    -----
    A value :math:`v` becomes :math:`g \cdot \mathrm{round}((v + \sigma Z)/g)`, where :math:`Z` is an ideal real
    Gaussian or Laplace variable and :math:`g` a power of two, the *granularity*. The law is exact: floating point
    proposes, but decides only where a proven error bound shows that it cannot be wrong; tails are never cut off. As
    rounding is post-processing, every analysis of the continuous mechanism applies unchanged; the variance grows by
    :math:`g^2/12`. By default :math:`g` is the power of two in :math:`(\sigma 2^{-k-1}, \sigma 2^{-k}]`, where
    :math:`k` is 32 for float64, 12 for Gaussian noise as float32, whose variance grows by at most 5e-9 of itself, and
    20 for Laplace noise as float32.

    The bits are a keystream of AES-256 in counter mode (NIST SP 800-38A), in constant time. After the call neither the
    key nor a word of the keystream is left in memory; for that, a thread needs a stack of 64 KB. Output does not
    depend on the CPU or on the number of threads.

    =============================  ====================================================================
    value                          result
    =============================  ====================================================================
    NaN or infinite                as if it were 0: whether data is finite is data
    beyond the dtype's range       the largest finite number of the dtype (post-processing)
    -0.0                           as 0.0; a released zero is always positive
    empty array                    empty array
    =============================  ====================================================================

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> source = fd.NoiseSource()
    >>> noise = source.gaussian(1000, standard_deviation=2.0)
    >>> noise.shape, noise.dtype
    ((1000,), dtype('float64'))
    >>> source.laplace((2, 3), scale=1.0, dtype=np.float32).dtype
    dtype('float32')
    >>> values = np.array([1.0, 2.0])
    >>> source.add_gaussian_(values, standard_deviation=0.5)
    >>> source.add_laplace_(values, scale=0.5)
    >>> counts = np.array([3, 0, 7])
    >>> source.add_discrete_gaussian_(counts, scale=2.0)
    >>> source.add_discrete_laplace_(counts, scale=2.0)
    >>> counts.dtype, source.discrete_laplace(5, scale=2.0).shape
    (dtype('int64'), (5,))
    >>> len(source.bytes(16))
    16
    """

    __slots__ = ()

    @property
    def is_private(self) -> bool:
        """Whether nobody can know the noise. False only for the seeded source of `ferrodp.testing`."""
        return True

    @overload
    def gaussian(
        self, size: Size, *, standard_deviation: Real, **options: Unpack[GridOptions]
    ) -> npt.NDArray[np.float64]: ...
    @overload
    def gaussian(
        self,
        size: Size,
        *,
        standard_deviation: Real,
        dtype: type[Floating] | np.dtype[Floating],
        **options: Unpack[GridOptions],
    ) -> npt.NDArray[Floating]: ...
    @overload
    def gaussian(
        self, size: Size, *, standard_deviation: Real, dtype: npt.DTypeLike, **options: Unpack[GridOptions]
    ) -> npt.NDArray[np.floating[Any]]: ...
    def gaussian(
        self,
        size: Size,
        *,
        standard_deviation: Real,
        granularity: Real | None = None,
        dtype: npt.DTypeLike = np.float64,
        threads: int | None = None,
    ) -> npt.NDArray[Any]:
        """Return exactly rounded Gaussian noise.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        standard_deviation : float
            Of the noise before rounding; finite, > 0, between 2^-3 and 2^44 times the granularity.
        granularity : float, optional
            Grid width, a power of two.
        dtype : float32 or float64
            Of the result; the grid value is rounded to it once.
        threads : int, optional
            By default one for small work and up to eight for large. The result does not depend on it.

        Returns
        -------
        ndarray
            Of shape `size` and the given dtype.

        Raises
        ------
        InvalidParameter, InvalidType, MemoryError
            If a parameter is not accepted, or the result does not fit in memory. Nothing was drawn.
        EntropyError
            If the operating system gives no key.
        """
        array = _new(size, dtype)
        return self._drawn("gaussian", array, "standard_deviation", standard_deviation, granularity, threads, True)

    @overload
    def laplace(self, size: Size, *, scale: Real, **options: Unpack[GridOptions]) -> npt.NDArray[np.float64]: ...
    @overload
    def laplace(
        self,
        size: Size,
        *,
        scale: Real,
        dtype: type[Floating] | np.dtype[Floating],
        **options: Unpack[GridOptions],
    ) -> npt.NDArray[Floating]: ...
    @overload
    def laplace(
        self, size: Size, *, scale: Real, dtype: npt.DTypeLike, **options: Unpack[GridOptions]
    ) -> npt.NDArray[np.floating[Any]]: ...
    def laplace(
        self,
        size: Size,
        *,
        scale: Real,
        granularity: Real | None = None,
        dtype: npt.DTypeLike = np.float64,
        threads: int | None = None,
    ) -> npt.NDArray[Any]:
        """Return exactly rounded Laplace noise with density `exp(-|x|/scale)/(2 scale)` before rounding.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        scale : float
            Of the noise before rounding; finite, > 0, between 2^-3 and 2^44 times the granularity.
        granularity, dtype, threads
            As for `gaussian`.

        Returns
        -------
        ndarray
            Of shape `size` and the given dtype.

        Raises
        ------
        InvalidParameter, InvalidType, MemoryError
            If a parameter is not accepted, or the result does not fit in memory. Nothing was drawn.
        EntropyError
            If the operating system gives no key.
        """
        return self._drawn("laplace", _new(size, dtype), "scale", scale, granularity, threads, True)

    @_briefly("gaussian", "standard_deviation")
    def add_gaussian_(
        self,
        array: npt.NDArray[Any],
        *,
        standard_deviation: Real,
        granularity: Real | None = None,
        threads: int | None = None,
    ) -> None:
        """Add exactly rounded Gaussian noise to `array`, in place; every value is rounded to the grid together with it.

        Parameters
        ----------
        array : ndarray of float32 or float64
            Writeable, C-contiguous, any shape. Taken as exactly the real numbers that its bits denote.
        standard_deviation, granularity, threads
            As for `gaussian`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted. Nothing was drawn or written.
        EntropyError
            If the operating system gives no key; nothing was written.
        """
        target = _arrays.writable_target(array, "array")
        self._drawn("gaussian", target, "standard_deviation", standard_deviation, granularity, threads, False)

    @_briefly("laplace", "scale")
    def add_laplace_(
        self,
        array: npt.NDArray[Any],
        *,
        scale: Real,
        granularity: Real | None = None,
        threads: int | None = None,
    ) -> None:
        """Add exactly rounded Laplace noise to `array`, in place; every value is rounded to the grid together with it.

        Parameters
        ----------
        array : ndarray of float32 or float64
            Writeable, C-contiguous, any shape. Taken as exactly the real numbers that its bits denote.
        scale, granularity, threads
            As for `laplace`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted. Nothing was drawn or written.
        EntropyError
            If the operating system gives no key; nothing was written.
        """
        self._drawn("laplace", _arrays.writable_target(array, "array"), "scale", scale, granularity, threads, False)

    def discrete_gaussian(
        self, size: Size, *, scale: Scale, fixed_time: bool = False, threads: int | None = None
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
            The distribution is the same; the noise that a seed gives is not. Only for σ ≤ 64, or b ≤ 2^50 (discrete
            Laplace); the notes say what it costs.
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
            If a parameter is not accepted, or the result does not fit in memory. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        The law is that of [CKS20] Definition 1. Rejection from an envelope of dyadic probabilities; acceptance is
        decided by as many random digits as necessary, so the law is exact over all integers. Its variance is close to
        σ² for σ ≥ 1 and smaller below.

        In fixed time every sample is inverted, and the whole table is read: about 13·σ comparisons of 127 random
        digits for a Gaussian sample, 15 + 2·log₂ b for a Laplace one, each with digits of its own. That takes some 5
        times as long at σ = 1, 35 times at 10 and 170 times at 64; 10 to 30 times for Laplace noise.

        References
        ----------
        [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Definition 1.

        Examples
        --------
        >>> import ferrodp as fd
        >>> noise = fd.NoiseSource().discrete_gaussian(1000, scale=3.0)
        >>> noise.shape, noise.dtype
        ((1000,), dtype('int64'))
        """
        return self._drawn_discrete("gaussian", _zeros(size), scale, fixed_time, threads)

    def discrete_laplace(
        self, size: Size, *, scale: Scale, fixed_time: bool = False, threads: int | None = None
    ) -> npt.NDArray[np.int64]:
        r"""Return discrete Laplace (two-sided geometric) noise: integers with weights :math:`e^{-|n|/b}`, exactly.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        scale : float or Fraction
            b, in integer units; from 0.01 to 2^57. Taken exactly.
        fixed_time, threads
            As for `discrete_gaussian`.

        Returns
        -------
        ndarray of int64
            Of shape `size`; see `discrete_gaussian`.

        Raises
        ------
        InvalidParameter, InvalidType, MemoryError
            If a parameter is not accepted, or the result does not fit in memory. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        The law is the two-sided geometric one of [GRS09].

        References
        ----------
        [GRS09] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009.
        """
        return self._drawn_discrete("laplace", _zeros(size), scale, fixed_time, threads)

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
            If an argument is not accepted. Nothing was drawn or written.
        EntropyError
            If the operating system gives no key; nothing was written.
        """
        self._drawn_discrete("gaussian", _integers(array), scale, fixed_time, threads)

    def add_discrete_laplace_(
        self, array: npt.NDArray[Any], *, scale: Scale, fixed_time: bool = False, threads: int | None = None
    ) -> None:
        """Add discrete Laplace noise to `array`, in place; sums beyond the range of its dtype are cut to it.

        Parameters
        ----------
        array : ndarray of int32 or int64
            Writeable, C-contiguous, any shape.
        scale, fixed_time, threads
            As for `discrete_laplace`.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted. Nothing was drawn or written.
        EntropyError
            If the operating system gives no key; nothing was written.
        """
        self._drawn_discrete("laplace", _integers(array), scale, fixed_time, threads)

    @overload
    def bernoulli_exp(self, gamma: Real, size: None = ..., *, threads: int | None = ...) -> bool: ...
    @overload
    def bernoulli_exp(
        self, gamma: npt.ArrayLike, size: Size | None = ..., *, threads: int | None = ...
    ) -> npt.NDArray[np.bool_]: ...
    @overload
    def bernoulli_exp(self, gamma: Real, size: Size, *, threads: int | None = ...) -> npt.NDArray[np.bool_]: ...
    @_arrays.quiet
    def bernoulli_exp(
        self, gamma: Real | npt.ArrayLike, size: Size | None = None, *, threads: int | None = None
    ) -> bool | npt.NDArray[np.bool_]:
        r"""Toss coins that are True with probability :math:`e^{-\gamma}`, exactly.

        Parameters
        ----------
        gamma : float, Fraction or array
            γ ≥ 0, finite. A number is taken exactly: 0.1 is the float, `Fraction(1, 10)` one tenth, of integers below
            2^64. In an array of float32 or float64 each element has a coin of its own.
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
            If an argument is not accepted, or the result does not fit in memory. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        A uniform number is compared with :math:`e^{-\gamma}`, of which as many digits are computed as necessary, rarely
        more than 64. The law is that of [CKS20] Algorithm 1. How long a call takes can depend on the outcome.

        References
        ----------
        [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithm 1.

        Examples
        --------
        >>> import ferrodp as fd
        >>> fd.NoiseSource().bernoulli_exp(0.0), fd.NoiseSource().bernoulli_exp(1e6)
        (True, False)
        >>> fd.NoiseSource().bernoulli_exp([0.0, 1e6, 0.0])
        array([ True, False,  True])
        """
        return laws.toss(gamma, size, threads, self._key)

    def bytes(self, n: int) -> bytes:
        """Return random bytes, from a key of their own.

        Parameters
        ----------
        n : int
            How many; ≥ 0.

        Returns
        -------
        bytes
            Of length `n`.

        Raises
        ------
        InvalidParameter, InvalidType, MemoryError
            If `n` is not accepted. Nothing was drawn.
        EntropyError
            If the operating system gives no key.
        """
        n = _validate.count("n", n, minimum=0)
        _validate.fits_in_memory("n", n)
        return _native.random_bytes(n, self._key())

    def _key(self) -> Key:
        """Return the key for one call: here, None for a fresh one."""
        return None

    def _drawn(
        self,
        law: str,
        array: npt.NDArray[Any],
        name: str,
        scale: object,
        granularity: object,
        threads: object,
        overwrite: bool,
    ) -> npt.NDArray[Any]:
        number, exponent = laws.on_grid(law, name, scale, granularity, array.dtype)
        checked = _validate.threads(threads)
        # mutant: noise-added-natively
        _native.add_noise(array, law, number, exponent, self._key(), checked, overwrite)
        return array

    def _drawn_discrete(
        self, law: str, array: npt.NDArray[Any], scale: object, fixed_time: object, threads: object
    ) -> npt.NDArray[Any]:
        numerator, denominator, add = laws.discrete(law, scale, fixed_time)
        checked = _validate.threads(threads)
        add(array, law, numerator, denominator, self._key(), checked)
        return array


def _new(size: object, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    kind = laws.float_dtype(dtype)
    return np.empty(_validate.size(size, itemsize=kind.itemsize), kind)


def _zeros(size: object) -> npt.NDArray[np.int64]:
    return np.zeros(_validate.size(size, itemsize=8), np.int64)


def _integers(array: object) -> npt.NDArray[Any]:
    return _arrays.writable_target(array, "array", dtypes=_arrays.INTEGERS)


DEFAULT_SOURCE = NoiseSource()
"""What `source=None` means: it is stateless, so one serves all."""


def source_or_default(source: object) -> NoiseSource:
    """Return the source that a `source=` argument names."""
    if source is None:
        return DEFAULT_SOURCE
    if not isinstance(source, NoiseSource):
        raise InvalidType(
            f"source must be a NoiseSource or None, got {type(source).__name__}; "
            "a seed is for tests alone: ferrodp.testing.seeded"
        )
    return source


def refuse_copy(what: str, why: str = "the copy would repeat its stream") -> NoReturn:
    """Raise, for an object whose copy would repeat its stream, or share what only one may hold."""
    raise TypeError(f"{what} cannot be copied or pickled: {why}")
