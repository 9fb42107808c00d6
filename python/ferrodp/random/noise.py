"""Noise and random bytes from keys of the operating system."""

from __future__ import annotations

import builtins
import math
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _native, _validate
from ferrodp.errors import InvalidArrayType, InvalidType
from ferrodp.random.integers import IntegerNoise
from ferrodp.random.integers import Scale as Scale

__all__ = ["BitGenerator", "NoiseSource"]


class NoiseSource(IntegerNoise):
    r"""Draw exactly rounded noise; every call takes a fresh 256-bit key from the operating system.

    A source holds no state at all. It may be shared by threads, copied, pickled, inherited by a forked child or revived
    with a cloned machine: no two calls, anywhere, see the same bits, because none of them exist before the call.

    Notes
    -----
    A value :math:`v` becomes :math:`g \cdot \mathrm{round}((v + \sigma Z)/g)`, where :math:`Z` is an ideal real
    Gaussian or Laplace variable and :math:`g` a power of two, the *granularity*. The law is exact: floating point
    proposes, but decides only where a proven error bound says that it cannot be wrong; tails are never cut off. As
    rounding is post-processing, every analysis of the continuous mechanism holds to the letter; the variance grows
    by :math:`g^2/12`. By default :math:`g` is the power of two in
    :math:`(\sigma 2^{-21}, \sigma 2^{-20}]` for float32 and :math:`(\sigma 2^{-33}, \sigma 2^{-32}]` for float64.

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
    >>> import ferrodp as fd
    >>> noise = fd.NoiseSource().gaussian(1000, standard_deviation=2.0)
    >>> noise.shape, noise.dtype
    ((1000,), dtype('float64'))
    """

    __slots__ = ()

    @property
    def is_private(self) -> bool:
        """Whether nobody can know the noise. False for the seeded source of `ferrodp.testing` alone."""
        return True

    def gaussian(
        self,
        size: int | tuple[int, ...],
        *,
        standard_deviation: float,
        granularity: float | None = None,
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
            Before anything is drawn.
        EntropyError
            If the operating system gives no key.
        """
        return self._filled("gaussian", size, "standard_deviation", standard_deviation, granularity, dtype, threads)

    def laplace(
        self,
        size: int | tuple[int, ...],
        *,
        scale: float,
        granularity: float | None = None,
        dtype: npt.DTypeLike = np.float64,
        threads: int | None = None,
    ) -> npt.NDArray[Any]:
        """Return exactly rounded Laplace noise with density `exp(-|x|/scale)/(2 scale)` before rounding.

        Parameters, result and errors are those of `gaussian`.
        """
        return self._filled("laplace", size, "scale", scale, granularity, dtype, threads)

    def add_gaussian_(
        self,
        array: npt.NDArray[Any],
        *,
        standard_deviation: float,
        granularity: float | None = None,
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
            Before anything is drawn or written.
        EntropyError
            If the operating system gives no key; nothing is written.
        """
        self._add("gaussian", array, "standard_deviation", standard_deviation, granularity, threads)

    def add_laplace_(
        self,
        array: npt.NDArray[Any],
        *,
        scale: float,
        granularity: float | None = None,
        threads: int | None = None,
    ) -> None:
        """Add exactly rounded Laplace noise to `array`, in place; see `add_gaussian_`."""
        self._add("laplace", array, "scale", scale, granularity, threads)

    def bytes(self, n: int) -> bytes:
        """Return `n` random bytes, from a key of their own."""
        n = _validate.count("n", n, minimum=0)
        _validate.fits_in_memory("n", n)
        return _native.random_bytes(n, self._key())

    def _key(self) -> builtins.bytes | _native.Permit | None:
        """Return the key for one call; None stands for a fresh one, a permit for one that a ticket pays for."""
        return None

    def _filled(
        self,
        law: str,
        size: object,
        name: str,
        scale: object,
        granularity: object,
        dtype: npt.DTypeLike,
        threads: object,
    ) -> npt.NDArray[Any]:
        kind = float_dtype(dtype)
        shape = _validate.size(size, itemsize=kind.itemsize)
        scale, exponent, threads = _checked(name, scale, granularity, threads, kind)
        out = np.empty(shape, kind)
        _native.add_noise(out, law, scale, exponent, self._key(), threads, True)
        return out

    def _add(self, law: str, array: object, name: str, scale: object, granularity: object, threads: object) -> None:
        target = _arrays.writable_target(array, "array")
        scale, exponent, threads = _checked(name, scale, granularity, threads, target.dtype)
        # mutant: noise-added-natively
        _native.add_noise(target, law, scale, exponent, self._key(), threads, False)


class BitGenerator(_native.BitGenerator):
    """A cryptographic bit generator for numpy: ``numpy.random.Generator(BitGenerator())``.

    Shuffles, samples batches or drives any library that takes a numpy generator, with bits nobody can predict. For
    noise that is released use `NoiseSource`: numpy's distributions are not exact, and this object has state, which
    that one has not.

    Attributes
    ----------
    capsule : PyCapsule
        numpy's `bitgen_t` interface; read-only, and the same one for life.
    lock : threading.Lock
        Held by numpy while it draws; read-only.

    Notes
    -----
    AES-256 in counter mode. Every 4 KB have a key of their own, which the operating system gives and which is wiped
    before the first number is handed out, and numbers are wiped as they are. So the memory of the process, a core
    dump, or what a child inherits tells no number already drawn, and of those to come only the rest of one buffer.
    The buffer is left out of core dumps, and the kernel wipes it in a child: a forked or cloned child draws from a
    key of its own. (Where the system cannot do that, each number is asked of the operating system.) A virtual machine
    that is revived twice from one snapshot repeats at most the rest of a buffer.
    Copies and pickles would repeat the stream and are refused. Should the operating system give no key, the process
    ends: numpy's protocol has no way to report an error.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> rng = np.random.Generator(fd.random.BitGenerator())
    >>> sorted(rng.permutation(3).tolist())
    [0, 1, 2]
    """

    __slots__ = ()

    def __init_subclass__(cls, **_: object) -> NoReturn:
        # numpy keeps the object, not its capsule: a subclass could let go of the capsule while numpy draws from it.
        raise TypeError("BitGenerator cannot be subclassed; hold one instead")

    def __repr__(self) -> str:
        return "<ferrodp.random.BitGenerator>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("a bit generator")


DEFAULT_SOURCE = NoiseSource()
"""What `source=None` means: it has no state, so one serves all."""


def source_or_default(source: object) -> NoiseSource:
    """Return the source that a `source=` argument names."""
    if source is None:
        return DEFAULT_SOURCE
    if not isinstance(source, NoiseSource):
        raise InvalidType(f"source must be a NoiseSource or None, got {type(source).__name__}")
    return source


DEFAULT_BITS = {np.dtype(np.float32): 20, np.dtype(np.float64): 32}
"""By dtype, how many binary digits of the scale the default grid keeps."""


def default_granularity(scale: float, dtype: np.dtype[Any]) -> int:
    """Return the exponent of the grid that is used where none is named."""
    return math.frexp(scale)[1] - 1 - DEFAULT_BITS[dtype]


def _checked(
    name: str, scale: object, granularity: object, threads: object, dtype: np.dtype[Any]
) -> tuple[float, int, int | None]:
    """Return scale, exponent of the grid and threads, or raise before anything is drawn."""
    number = _validate.positive(name, scale, toward="up")
    width = _validate.granularity(granularity)
    if width is not None:
        return number, math.frexp(width)[1] - 1, _validate.threads(threads)
    exponent = default_granularity(number, dtype)
    if exponent not in _validate.GRANULARITY_EXPONENTS:
        low, high = (_validate.GRANULARITY_EXPONENTS[end] + DEFAULT_BITS[dtype] for end in (0, -1))
        raise _validate.out_of_domain(name, f"from 2^{low} to 2^{high + 1} for {dtype}", scale)
    return number, exponent, _validate.threads(threads)


def float_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind not in DEFAULT_BITS:
        raise InvalidArrayType(f"dtype must be float32 or float64, got {_validate.shown(dtype)}")
    return kind


def refuse_copy(what: str) -> NoReturn:
    """Raise, for an object whose copy would repeat its stream."""
    raise TypeError(f"{what} cannot be copied or pickled: the copy would repeat its stream")
