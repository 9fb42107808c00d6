"""Streams of releases with correlated noise, each rounded exactly."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import product_up
from ferrodp.correlated.matrix import BandedMatrix
from ferrodp.correlated.strategy import Strategy
from ferrodp.correlated.toeplitz import BufferedToeplitz
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.random.laws import Key, default_granularity
from ferrodp.random.noise import refuse_copy, source_or_default
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import payer_of
from ferrodp.tickets.source import source_for

__all__ = ["NoiseStream"]

Doubles: TypeAlias = npt.NDArray[np.float64]

_WHOLE = np.dtype(np.int64)


def _parts(strategy: Strategy) -> tuple[str, Doubles, Doubles, int]:
    """Return a strategy as the native code takes it."""
    nothing = np.empty(0)
    if isinstance(strategy, BufferedToeplitz):
        return "buffered", np.array(strategy.decays), np.array(strategy.weights), 0
    if isinstance(strategy, BandedMatrix):
        diagonals = strategy.diagonals()
        rows = np.zeros((strategy.num_steps, len(diagonals)))
        for apart, values in enumerate(diagonals):
            rows[apart:, apart] = values[: strategy.num_steps - apart]
        return "rows", rows.ravel(), nothing, len(diagonals)
    coefficients = getattr(strategy, "coefficients", None)
    if coefficients is None:
        raise InvalidParameter(
            f"strategy must be a matrix with as many rows as steps, got {type(strategy).__name__}, which has a row for "
            "each node; BufferedToeplitz(num_steps=…, buffers=3) has less noise"
        )
    return "banded", np.ascontiguousarray(coefficients()), nothing, 0


def native_stream(
    strategy: Strategy,
    *,
    standard_deviation: float,
    exponent: int,
    length: int,
    key: Key,
    totals: bool = False,
) -> _native.CorrelatedStream:
    """Return a stream of noise on the grid 2^exponent, for so many values a step.

    Parameters
    ----------
    strategy : Strategy
        Any with a square matrix.
    standard_deviation : float
        Of Z, in the units of the values: from 2⁻³ to 2³³ times the grid.
    exponent : int
        Binary logarithm of the grid.
    length : int
        Values of a step.
    key : None, bytes or Permit
        As `NoiseSource._key` gives it: a permit is armed after all checks.
    totals : bool
        Whether step t gets the noise of the sum of steps 0 … t.

    Returns
    -------
    CorrelatedStream
        Before its first step. It counts no steps but its own: who holds it sees to it that there are at most
        those of the strategy.

    Raises
    ------
    InvalidParameter
        If the strategy has no square matrix, or the standard deviation is out of the range of grids.
    TicketError, EntropyError
        If a ticket refuses, or the operating system gives no key.
    """
    kind, numbers, further, width = _parts(strategy)
    return _native.CorrelatedStream(
        kind,  # type: ignore[arg-type]
        numbers,
        further,
        width,
        totals,
        standard_deviation,
        exponent,
        length,
        key,
    )


class NoiseStream:
    r"""Release a vector at each step of a stream, with noise that cancels in sums over steps.

    All releases together are (ε, δ)-differentially private as `event` says, for whatever unit of privacy and
    neighboring relation `l2_sensitivity` was stated in; each vector may depend on earlier releases. The distribution is
    exactly that of the real-valued mechanism, each number rounded to a grid.

    Parameters
    ----------
    strategy : Strategy
        How the noise of steps is correlated; see `ferrodp.correlated`. Any but `Tree`.
    shape : int or tuple of int
        Of each step's vector.
    noise_multiplier : float
        Standard deviation of Z divided by `l2_sensitivity`; unitless, finite, > 0. Rounded up if not exactly
        representable.
    l2_sensitivity : float
        Largest L2 norm of what one unit contributes to the vector of one step; finite, > 0.
    num_participations, min_separation : int
        In how many steps a unit takes part at most, and how far these are apart at least; see `Strategy.sensitivity`.
    dtype : dtype
        float32, float64, or int64, for which the grid is that of the integers.
    granularity : float, optional
        The grid, a power of two; by default 2⁻¹² standard deviations of Z for float32 and 2⁻³² for float64, or less.
    source : NoiseSource, optional
        None, or a seeded source for tests.
    ticket : Ticket, optional
        What pays for the whole stream; it is armed when the stream is made. See `ferrodp.tickets`.

    Attributes
    ----------
    step : int
        Number of the next step, from 0.
    standard_deviation : float
        Of Z, in the units of the values.
    event : PrivacyEvent
        What all steps cost together.
    guarantee : str
        "exact": the law of the outputs is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.
    MemoryError
        If there is no memory for the buffers: 8 bytes a value for each buffer, or each band but the first.
    TicketError
        If `ticket` was used or cancelled before. Nothing was drawn.
    EntropyError
        If the operating system gives no key.

    Notes
    -----
    Step t releases :math:`g\cdot\mathrm{round}((v_t + \sigma w_t)/g)` with :math:`w = C^{-1}Z`. As
    :math:`C(v + \sigma w) = Cv + \sigma Z`, the exact sums are a function of one Gaussian mechanism, adaptively chosen
    vectors included ([DMRST22] Theorem 2.1), and rounding is post-processing. Floating point proposes each output;
    where the proven bound on its error does not show that it is right, the noise is computed again in integers, from
    the keys of all steps, with as many digits as decide.

    The state is one key, and buffers that follow from it. It cannot be copied, pickled or used in a forked child, where
    its noise would serve twice; a process that ends takes the stream with it.

    References
    ----------
    [DMRST22] Denisov, McMahan, Rush, Smith, Thakurta, "Improved differential privacy for SGD via optimal private linear
    operators on adaptive streams", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.correlated import BufferedToeplitz, NoiseStream
    >>> strategy = BufferedToeplitz(num_steps=100, buffers=3)
    >>> stream = NoiseStream(strategy, shape=1000, noise_multiplier=4.0, l2_sensitivity=1.0)
    >>> sums = sum(stream.release(np.zeros(1000)) for _ in range(100))
    >>> bool(np.std(sums) < 20), stream.step  # 40 with independent noise
    (True, 100)
    """

    guarantee: ClassVar[str] = "exact"

    __slots__ = ("_about", "_dtype", "_event", "_exponent", "_native", "_shape", "_strategy", "_ticket")

    def __init__(
        self,
        strategy: Strategy,
        *,
        shape: int | tuple[int, ...],
        noise_multiplier: Real,
        l2_sensitivity: Real,
        num_participations: int = 1,
        min_separation: int = 1,
        dtype: npt.DTypeLike = np.float64,
        granularity: Real | None = None,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        if not isinstance(strategy, Strategy):
            raise InvalidType(
                f"strategy must be a Strategy, got {type(strategy).__name__}; for example "
                "BufferedToeplitz(num_steps=1000, buffers=3)"
            )
        self._strategy, self._dtype = strategy, _stream_dtype(dtype)
        self._shape = _validate.size(shape, name="shape")
        multiplier = _validate.positive("noise_multiplier", noise_multiplier)
        bound = _validate.positive("l2_sensitivity", l2_sensitivity)
        deviation = product_up(multiplier, bound)
        self._exponent = grid_exponent(deviation, granularity, self._dtype)
        self._event = strategy.event(
            noise_multiplier=multiplier, num_participations=num_participations, min_separation=min_separation
        )
        self._about = multiplier, bound, deviation
        drawn_from = source_or_default(source)
        payer = payer_of(drawn_from) if ticket is None else None
        self._ticket = payer.ticket(self._event) if payer is not None else ticket
        key = source_for(source, self._ticket, self._event)._key()
        self._native = native_stream(
            strategy,
            standard_deviation=deviation,
            exponent=self._exponent,
            length=int(np.prod(self._shape, dtype=np.int64)),
            key=key,
        )

    @property
    def strategy(self) -> Strategy:
        """How the noise of steps is correlated."""
        return self._strategy

    @property
    def step(self) -> int:
        """Number of the next step, from 0."""
        return self._native.step

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of Z divided by `l2_sensitivity`."""
        return self._about[0]

    @property
    def l2_sensitivity(self) -> float:
        """Largest norm of what a unit contributes to one step."""
        return self._about[1]

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of Z, in the units of the values."""
        return self._about[2]

    @property
    def granularity(self) -> float:
        """The grid."""
        return 2.0**self._exponent

    @property
    def event(self) -> PrivacyEvent:
        """What all steps cost together."""
        return self._event

    @_arrays.quiet
    def release(self, value: npt.ArrayLike, *, out: npt.NDArray[Any] | None = None, threads: int | None = None) -> Any:
        """Return the vector of the next step with its noise.

        Parameters
        ----------
        value : ndarray
            Of the stream's shape and dtype; taken as exactly the numbers that its bits denote. The caller promises that
            no unit contributes more than `l2_sensitivity`, nor to more steps than was said.
        out : ndarray, optional
            Where to put the result: writeable, C-contiguous, of the same shape and dtype; may be `value` itself.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        ndarray
            A new one, or `out`.

        Raises
        ------
        InvalidArray, InvalidType, InvalidParameter
            If an argument is of another shape or type. Nothing was drawn.
        FerroError
            If all steps were released, in a forked child, or while another thread releases. Nothing was drawn.

        Notes
        -----
        =========================  ======================================================
        value                      counts as
        =========================  ======================================================
        NaN or infinite            0
        result beyond the dtype    the largest or smallest finite number of the dtype
        =========================  ======================================================
        """
        array = stream_array(value, "value", self._shape, self._dtype)
        workers = _validate.threads(threads)
        kinds = (self._dtype,)
        target = None if out is None else _arrays.out_target(out, array, source=value, dtypes=kinds)
        if self._native.step >= self._strategy.num_steps:
            raise FerroError(
                f"this stream is over: it has released its {self._strategy.num_steps} steps; begin another one, which "
                "costs as much again"
            )
        if self._ticket is not None:
            self._ticket.check_running()
        if target is None:
            target = array.copy()
        elif target is not array:
            target[...] = array
        if self._dtype == _WHOLE:
            self._native.add_to_integers(target, 0, workers)
        else:
            self._native.add(target, workers)
        return target

    def __repr__(self) -> str:
        return f"<NoiseStream: step {self.step} of {self._strategy.num_steps}, {self._strategy!r}>"

    def __reduce__(self) -> NoReturn:
        refuse_copy("a stream of correlated noise")


def _stream_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return float32, float64 or int64."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind not in (*_arrays.FLOATS, _WHOLE):
        raise InvalidArrayType(
            f"dtype must be float32, float64 or int64, got {_validate.shown(dtype)}; for example dtype=numpy.float32"
        )
    return kind


def grid_exponent(deviation: float, granularity: Real | None, dtype: np.dtype[Any]) -> int:
    """Return the binary logarithm of the grid."""
    if dtype == _WHOLE:
        if granularity is not None:
            raise InvalidParameter("granularity must be None for dtype int64, whose grid is that of the integers")
        return 0
    width = _validate.granularity(granularity)
    if width is None:
        return default_granularity("gaussian", deviation, dtype)
    return int(np.frexp(width)[1]) - 1


def stream_array(value: object, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return `value` as a C-contiguous array of a stream's shape and dtype."""
    if dtype == _WHOLE:
        array = _arrays.as_integer_array(value, name, dtypes=(_WHOLE,))
    else:
        array = _arrays.as_float_array(value, name, dtypes=(dtype,))
    if array.shape != shape:
        raise InvalidArray(f"{name} must have shape {shape}, got {array.shape}")
    return np.ascontiguousarray(array)
