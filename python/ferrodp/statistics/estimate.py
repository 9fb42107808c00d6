"""What a private statistic returns: the released value, what it is worth and what it cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ferrodp._base import _html, _validate
from ferrodp._base._pictures import power
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.statistics._noise import Law, Transformed
from ferrodp.statistics._pictures import Rows, draw
from ferrodp.statistics.rows.frames import frame_of
from ferrodp.statistics.rows.times import Clock

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped,unused-ignore]
    from matplotlib.axes import Axes

__all__ = ["Estimate", "Interval"]

Value = TypeVar("Value", covariant=True)
End = TypeVar("End")
Array = npt.NDArray[Any]


class Interval(NamedTuple, Generic[End]):
    """An interval that holds the truth with a stated probability.

    Attributes
    ----------
    lower, upper : float or ndarray
        Its ends; arrays where the estimate is one, with an interval for each number.
    """

    lower: End
    upper: End


class Sample(NamedTuple):
    """Rows that are a sample of a population: how many were released, how far off that may be, and their bounds."""

    rows: Any
    reach: Callable[[float], float]
    bounds: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Estimate(Generic[Value]):
    """A released statistic.

    It converts to the value it holds (`float(x)`, `int(x)`, `round(x, 2)`, `f"{x:.1f}"`, `numpy.asarray(x)`). Sums,
    differences, products and quotients with public numbers are estimates again: that is post-processing, and costs
    nothing. One of several numbers has a length, and can be indexed.

    Attributes
    ----------
    value : int, float or ndarray
        What was released. With bounds that are dates, datetimes, durations or times of day one of these, or an array
        of times of numpy; of dates a mean is a datetime.
    standard_error : float, timedelta or None
        Standard deviation of the noise, in the units of the value: of a ratio such as a mean to first order, the noise
        of the number of rows included. The errors of sampling and clamping are not. None where there is none.
    epsilon, delta : float
        The guarantee that was requested, and holds.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).
    statistic : str
        What was estimated, in words: clamping and missing values are said here.
    edges : ndarray or None
        Of a histogram with bins: their edges, one more than there are bins.
    labels : tuple or None
        Of a histogram with categories, and of groups: what each number belongs to.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> estimate = fd.private_count(np.full(1000, True), epsilon=1.0, source=fd.testing.seeded(bytes(32)))
    >>> estimate, round(100 * estimate / 1000, 1)
    (<Estimate 1000 ± 1.36, count of true values, ε=1>, 100.0)
    """

    value: Value
    standard_error: float | None
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation
    statistic: str = "statistic"
    edges: npt.NDArray[np.float64] | None = None
    labels: tuple[Any, ...] | None = None
    _law: Law | None = field(default=None, kw_only=True)
    _laws: Sequence[Law] | None = field(default=None, kw_only=True)
    _errors: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    _sample: Sample | None = field(default=None, kw_only=True)
    _clock: Clock | None = field(default=None, kw_only=True)

    @overload
    def interval(self: Estimate[npt.NDArray[Any]], level: float = ...) -> Interval[npt.NDArray[np.float64]]: ...
    @overload
    def interval(self: Estimate[float], level: float = ...) -> Interval[float]: ...
    def interval(self, level: float = 0.95) -> Interval[Any]:
        """Return an interval that holds what the statistic is without noise, with probability `level`.

        It follows from the law of the noise, by no normal approximation, and costs nothing. What it holds is the
        statistic *of clamped values*, rounding included: the bias of clamping is not in it, and neither is the error of
        sampling people from a population, which `ferrodp.statistics.population_interval` adds to means. For an array
        each number has an interval of its own; they do not all hold at once with that probability.

        Parameters
        ----------
        level : float
            Between 0 and 1, both excluded.

        Returns
        -------
        Interval
            Its ends. Counts have at least the level: there is no noise between integers.

        Raises
        ------
        InvalidParameter, InvalidType
            If `level` is outside its domain, or the estimate is a choice without an interval: the noise of a choice is
            in ranks. That of a quantile is paid for by `interval_level`, see `private_quantile`.

        Notes
        -----
        For a mean and a variance, ratios of noisy numbers, it is Fieller's interval [Fie54] for the noise's own law;
        that of a variance errs by the square of the mean's error.

        References
        ----------
        [Fie54] Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16, 1954.

        Examples
        --------
        >>> import ferrodp as fd
        >>> estimate = fd.private_count([True] * 1000, epsilon=1.0, source=fd.testing.seeded(bytes(32)))
        >>> estimate.interval(0.95)
        Interval(lower=997.0, upper=1003.0)
        """
        checked = _validate.probability("level", level)
        if not 0.0 < checked < 1.0:
            raise _validate.out_of_domain("level", "between 0 and 1, both excluded", level)
        with np.errstate(all="ignore"):
            return self._interval(checked)

    def _timed(self, clock: Clock) -> Estimate[Any]:
        """Return the same estimate of numbers as one of times."""
        error: Any = self.standard_error
        errors = self._errors
        spans: Any = None if errors is None else np.array([_span(clock, each) for each in errors.tolist()])
        return dataclasses.replace(
            self,
            value=clock.moments(self.value),
            standard_error=None if error is None else clock.span(error),
            _errors=spans,
            _clock=clock,
        )

    def _interval(self, checked: float) -> Interval[Any]:
        """Return the interval of a checked level."""
        if self._clock is None:
            return self._interval_of_numbers(checked)
        plain = dataclasses.replace(self, value=self._clock.plain(self.value), _clock=None)
        lower, upper = plain._interval_of_numbers(checked)
        return Interval(self._clock.moments(lower, "down"), self._clock.moments(upper, "up"))

    def _interval_of_numbers(self, checked: float) -> Interval[Any]:
        if self._laws is not None:
            values: Any = self.value
            ends = [law.interval(one, checked) for law, one in zip(self._laws, values.tolist(), strict=True)]
            return Interval(np.array([end[0] for end in ends], float), np.array([end[1] for end in ends], float))
        if self._law is None:
            raise InvalidParameter(
                f"a {self.statistic} has no interval: its noise decides on ranks, not on values; that of a quantile "
                "takes half of epsilon, for interval_level=0.95"
            )
        lower, upper = self._law.interval(self.value, checked)
        if isinstance(self.value, np.ndarray):
            return Interval(np.asarray(lower, float), np.asarray(upper, float))
        return Interval(float(lower), float(upper))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, for JSON.

        Returns
        -------
        dict
            The value, its standard error, the guarantee, the unit, the relation and the event; edges and labels if
            there are any.

        Examples
        --------
        >>> import ferrodp as fd
        >>> sorted(fd.private_count([1, 2], epsilon=1.0).to_dict())[:3]
        ['delta', 'epsilon', 'event']
        """
        value: Any = self.value
        errors: Any = self._errors
        if self._clock is not None:
            value, errors = _texts(value), None if errors is None else errors / np.timedelta64(1, "s")
        error: Any = self.standard_error
        found: dict[str, Any] = {
            "statistic": self.statistic,
            "value": value.tolist() if isinstance(value, np.ndarray) else value,
            "standard_error": _seconds(error) if errors is None else errors.tolist(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "neighboring_relation": self.neighboring_relation.value,
            "event": self.event.to_dict(),
        }
        if self.edges is not None:
            found["edges"] = self.edges.tolist() if self.edges.dtype.kind == "f" else _texts(self.edges)
        if self.labels is not None:
            found["labels"] = list(self.labels)
        return found

    @overload
    def to_frame(self, level: float = ..., *, library: Literal["pandas"] = ...) -> pandas.DataFrame: ...
    @overload
    def to_frame(self, level: float = ..., *, library: Literal["polars", "arrow"]) -> Any: ...
    def to_frame(self, level: float = 0.95, *, library: str = "pandas") -> Any:
        """Return a table with a row for each number: its label or bin, value, standard error, interval and unit.

        Parameters
        ----------
        level : float
            Of the interval.
        library : {"pandas", "polars", "arrow"}
            Whose table it is.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Columns `value`, `standard_error`, `lower`, `upper`, these two only where there is an interval, and `unit`,
            the unit of privacy in words. Labels or bins are the index of pandas; elsewhere they are columns `label`,
            or `label_0`, `label_1` and so on where they have several parts.

        Raises
        ------
        MissingPackage
            If the library is not installed.
        InvalidParameter
            If `level` is outside its domain, or the library is another one.

        Examples
        --------
        >>> import ferrodp as fd
        >>> estimate = fd.private_histogram([1, 2, 2], categories=[1, 2], epsilon=1.0)
        >>> estimate.to_frame().columns.tolist()
        ['value', 'standard_error', 'lower', 'upper', 'unit']
        """
        columns = {name: np.atleast_1d(values) for name, values in self._columns(level).items()}
        return frame_of(library, self._index(), columns | {"unit": self.unit})

    def plot(self, *, level: float = 0.95, axes: Axes | None = None) -> Axes:
        """Draw each released number with its interval. Needs matplotlib: ``pip install "ferrodp[plot]"``.

        Parameters
        ----------
        level : float
            Of the intervals: each of them holds what it is about with this probability, not all at once.
        axes : matplotlib.axes.Axes, optional
            Where to draw; a new figure if left out.

        Returns
        -------
        matplotlib.axes.Axes
            With the label or bin of each number, and the number as precisely as its noise allows.

        Raises
        ------
        MissingPackage
            If matplotlib is not installed.
        InvalidParameter
            If `level` is outside its domain.

        Examples
        --------
        >>> import ferrodp as fd
        >>> estimate = fd.private_histogram(["a", "b", "b"], categories=["a", "b"], epsilon=1.0)
        >>> [label.get_text() for label in estimate.plot().get_yticklabels()]
        ['a', 'b']
        """
        if self._clock is not None:
            raise InvalidType(
                f"an estimate of {self._clock.kind} is not drawn; to_frame() has its numbers and intervals"
            )
        columns = {name: np.atleast_1d(np.asarray(each)) for name, each in self._columns(level).items()}
        rows = Rows(
            labels=[str(each) for each in self._index()] if isinstance(self.value, np.ndarray) else [""],
            values=columns["value"].astype(np.float64),
            errors=columns["standard_error"].astype(np.float64),
            lower=columns["lower"].astype(np.float64) if "lower" in columns else None,
            upper=columns["upper"].astype(np.float64) if "upper" in columns else None,
        )
        cost = f"ε = {self.epsilon:g}" + (f", δ = {power(self.delta)}" if self.delta else "")
        return draw(rows, level=level, title=f"{self.statistic}\n{cost}, for {self.unit}", axes=axes)

    def _columns(self, level: float) -> dict[str, Any]:
        """Return the columns of a table."""
        value: Any = self.value
        error: Any = self.standard_error if self._errors is None else self._errors
        size = np.atleast_1d(value).size
        errors = np.broadcast_to(np.nan if error is None else error, size)
        found = {"value": value, "standard_error": errors}
        if self._law is not None or self._laws is not None:
            lower, upper = self.interval(level)  # type: ignore[misc]  # of whatever value
            found |= {"lower": lower, "upper": upper}
        else:
            _validate.probability("level", level)
        return found

    def _index(self) -> list[Any]:
        """Return what the rows of a table are called."""
        if self.labels is not None:
            return list(self.labels)
        if self.edges is not None:
            return list(in_words(self.edges))
        size = np.atleast_1d(np.asarray(self.value)).size
        return [self.statistic] if size == 1 and not isinstance(self.value, np.ndarray) else list(range(size))

    def __float__(self) -> float:
        return float(self.value)  # type: ignore[arg-type]  # TypeError for an array of several, as numpy says

    def __int__(self) -> int:
        return int(self.value)  # type: ignore[call-overload,no-any-return]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = np.asarray(self.value, dtype=dtype)
        return array.copy() if copy else array

    @overload
    def __round__(self: Estimate[npt.NDArray[Any]], ndigits: int | None = ...) -> npt.NDArray[Any]: ...
    @overload
    def __round__(self: Estimate[float], ndigits: None = ...) -> int: ...
    @overload
    def __round__(self: Estimate[float], ndigits: int) -> float: ...
    def __round__(self, ndigits: int | None = None) -> Any:
        value: Any = self.value
        return value.round(ndigits or 0) if isinstance(value, np.ndarray) else round(value, ndigits)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self.value)

    def __len__(self: Estimate[npt.NDArray[Any]]) -> int:
        return len(self._several())

    def __bool__(self) -> bool:
        raise InvalidType("an Estimate is neither true nor false; compare its value, as in estimate.value > 0")

    @overload
    def __getitem__(self: Estimate[npt.NDArray[np.int64]], place: int) -> Estimate[int]: ...
    @overload
    def __getitem__(self: Estimate[npt.NDArray[np.float64]], place: int) -> Estimate[float]: ...
    @overload
    def __getitem__(self: Estimate[npt.NDArray[Any]], place: slice) -> Estimate[npt.NDArray[Any]]: ...
    def __getitem__(self: Any, place: Any) -> Any:
        values = self._several()
        if not isinstance(place, (int, np.integer, slice)):
            raise InvalidType(f"an estimate is indexed by a place or a slice, got {type(place).__name__}")
        taken = values[place]
        part = slice(place, place + 1 or None) if not isinstance(place, slice) else place
        one = not isinstance(taken, np.ndarray)
        laws = None if self._laws is None else self._laws[part]
        errors = None if self._errors is None else self._errors[part]
        return dataclasses.replace(
            self,
            value=taken.item() if one else taken,
            standard_error=errors[0].item() if one and errors is not None else self.standard_error,
            edges=None,
            labels=None if self.labels is None else self.labels[part],
            _law=laws[0] if one and laws is not None else self._law,
            _laws=None if one else laws,
            _errors=None if one else errors,
            _sample=None if self._sample is None else self._sample._replace(rows=self._sample.rows[part]),
        )

    def _several(self) -> npt.NDArray[Any]:
        if not isinstance(self.value, np.ndarray):
            raise InvalidType(f"this estimate is one number; use float(estimate), got a {type(self.value).__name__}")
        return self.value

    @overload
    def __add__(self: Estimate[int], other: int) -> Estimate[int]: ...
    @overload
    def __add__(self: Estimate[float], other: float) -> Estimate[float]: ...
    @overload
    def __add__(self: Estimate[npt.NDArray[Any]], other: float) -> Estimate[npt.NDArray[Any]]: ...
    def __add__(self: Any, other: Any) -> Any:
        return self._moved(1, _public_number(other))

    __radd__ = __add__

    @overload
    def __sub__(self: Estimate[int], other: int) -> Estimate[int]: ...
    @overload
    def __sub__(self: Estimate[float], other: float) -> Estimate[float]: ...
    @overload
    def __sub__(self: Estimate[npt.NDArray[Any]], other: float) -> Estimate[npt.NDArray[Any]]: ...
    def __sub__(self: Any, other: Any) -> Any:
        return self._moved(1, -_public_number(other))

    @overload
    def __rsub__(self: Estimate[int], other: int) -> Estimate[int]: ...
    @overload
    def __rsub__(self: Estimate[float], other: float) -> Estimate[float]: ...
    @overload
    def __rsub__(self: Estimate[npt.NDArray[Any]], other: float) -> Estimate[npt.NDArray[Any]]: ...
    def __rsub__(self: Any, other: Any) -> Any:
        return self._moved(-1, _public_number(other))

    @overload
    def __mul__(self: Estimate[int], other: int) -> Estimate[int]: ...
    @overload
    def __mul__(self: Estimate[float], other: float) -> Estimate[float]: ...
    @overload
    def __mul__(self: Estimate[npt.NDArray[Any]], other: float) -> Estimate[npt.NDArray[Any]]: ...
    def __mul__(self: Any, other: Any) -> Any:
        return self._moved(_public_number(other), 0)

    __rmul__ = __mul__

    @overload
    def __truediv__(self: Estimate[float], other: float) -> Estimate[float]: ...
    @overload
    def __truediv__(self: Estimate[npt.NDArray[Any]], other: float) -> Estimate[npt.NDArray[Any]]: ...
    def __truediv__(self: Any, other: Any) -> Any:
        divisor = _public_number(other)
        if divisor == 0:
            raise ZeroDivisionError("an estimate cannot be divided by 0")
        return dataclasses.replace(self._moved(1.0 / divisor, 0), value=self.value / divisor)

    def __neg__(self) -> Estimate[Value]:
        return self._moved(-1, 0)

    def _moved(self, factor: float, shift: float) -> Estimate[Any]:
        """Return `factor` times the estimate plus `shift`, both public."""
        if self._clock is not None:
            raise InvalidType(f"an estimate of {self._clock.kind} has no sums and products; compute with its value")
        value: Any = self.value
        same = factor == 1 and type(factor) is int

        def law(one: Law) -> Law:
            scaled = one if same else one.scaled(factor)
            return scaled.moved(shift) if isinstance(scaled, Transformed) else scaled

        laws = None if self._laws is None else tuple(law(one) for one in self._laws)
        return dataclasses.replace(
            self,
            value=value + shift if same else value * factor + shift,
            standard_error=None if self.standard_error is None else self.standard_error * abs(factor),
            _law=None if self._law is None else law(self._law),
            _laws=laws,
            _errors=None if self._errors is None else self._errors * abs(factor),
            _sample=None,
        )

    def _with(self, value: End, statistic: str, law: Law | None) -> Estimate[End]:
        """Return another number that was made of the released one."""
        return dataclasses.replace(self, value=value, statistic=statistic, _law=law, _sample=None)  # type: ignore[return-value,arg-type]

    def _headline(self) -> str:
        value: Any = self.value
        if isinstance(value, np.ndarray):
            with np.printoptions(threshold=8, edgeitems=3, precision=6):
                shown = str(value).replace("\n", "")
        elif isinstance(value, tuple):
            shown = str(value)
        else:
            shown = f"{value:.8g}" if isinstance(value, float) else str(value)
        if self.standard_error is None:
            return shown
        return f"{shown} ± {self.standard_error}" if self._clock is not None else f"{shown} ± {self.standard_error:.3g}"

    def _guarantee(self) -> str:
        return f"ε={self.epsilon:g}" + (f", δ={self.delta:g}" if self.delta else "")

    def __repr__(self) -> str:
        return f"<Estimate {self._headline()}, {self.statistic}, {self._guarantee()}>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        caption = f"{self.statistic}: {self._guarantee()}, for {self.unit}"
        columns = {name: np.atleast_1d(np.asarray(values)).tolist() for name, values in self._columns(0.95).items()}
        titles = {"standard_error": "standard error", "lower": "95 % from", "upper": "to"}
        header = ["", *(titles.get(name, name) for name in columns)]
        return _html.table(caption, header, zip(self._index(), *columns.values(), strict=True), more="to_frame()")


def _span(clock: Clock, error: float) -> Any:
    return np.timedelta64("NaT", "us") if math.isnan(error) else np.timedelta64(clock.span(error), "us")


def _seconds(error: Any) -> Any:
    """Return a standard error for JSON: that of times in seconds."""
    return error.total_seconds() if hasattr(error, "total_seconds") else error


def _texts(times: Any) -> Any:
    """Return times for JSON: of a duration its seconds."""
    if isinstance(times, np.ndarray):
        return [_texts(each) for each in times.tolist()]
    return times.isoformat() if hasattr(times, "isoformat") else times.total_seconds()


def in_words(edges: npt.NDArray[Any]) -> list[str]:
    """Return what the bins between edges are called."""
    ends = [f"{edge:g}" if isinstance(edge, float) else str(edge) for edge in edges.tolist()]
    closing = [")"] * (len(ends) - 2) + ["]"]
    return [f"[{a}, {b}{c}" for a, b, c in zip(ends, ends[1:], closing, strict=False)]


def _public_number(other: object) -> Any:
    """Return a public number that an estimate is combined with."""
    if isinstance(other, Estimate):
        raise InvalidType(
            "an estimate is combined with a public number, got Estimate; "
            "add their values, as in a.value + b.value: each was paid for"
        )
    if isinstance(other, bool) or not isinstance(other, (int, float, np.integer, np.floating)):
        raise InvalidType(
            f"an estimate is combined with a public number, got {type(other).__name__}; "
            "compute with its value, estimate.value"
        )
    number = other.item() if isinstance(other, np.generic) else other
    if isinstance(number, float) and not math.isfinite(number):
        raise _validate.out_of_domain("the number that an estimate is combined with", "finite", other)
    return number
