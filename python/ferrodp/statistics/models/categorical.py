"""Naive Bayes of categories: exact counts of each class with each value of each column, in one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, budget
from ferrodp.statistics._column import Keep, add_counts, column_of, read
from ferrodp.statistics._foreign import Labels, Numbers
from ferrodp.statistics.counts import Known, matching, placed, public_labels
from ferrodp.statistics.marginals.noise import noise_of
from ferrodp.statistics.models._sums import Floats, counted, is_table, names_without, of_units
from ferrodp.statistics.parts.exact import passed
from ferrodp.tickets import Ticket

__all__ = ["CategoricalBayes", "private_categorical_bayes"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_MAX_COUNTS = 10**7
_MAX_ROWS = 2**32
Categories = Mapping[str, Sequence[Any] | npt.NDArray[Any]] | Sequence[Sequence[Any] | npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CategoricalBayes:
    """A naive Bayes classifier of categories; made by `private_categorical_bayes`.

    Attributes
    ----------
    classes : tuple
        The public classes.
    categories : tuple of d tuples
        The public values of each column.
    columns : tuple of d str, or None
        The names of the columns, where the rows were a table.
    class_counts : (k,) ndarray
        The noised number of rows of each class; unbiased, may be negative.
    counts : tuple of d ndarrays of shape (k, v)
        The noised number of rows of each class with each value of a column; unbiased, may be negative.
    standard_error : float
        The standard deviation of the noise in each of these numbers.
    epsilon, delta : float
        What they guarantee together.
    event : PrivacyEvent
        What an accountant composes.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).

    Examples
    --------
    >>> from ferrodp.statistics.models import private_categorical_bayes
    >>> rows = {"sky": ["clear", "grey"] * 1_000, "wind": ["calm", "storm"] * 1_000}
    >>> model = private_categorical_bayes(
    ...     rows, ["dry", "wet"] * 1_000, classes=["dry", "wet"], epsilon=1.0,
    ...     categories={"sky": ["clear", "grey"], "wind": ["calm", "storm"]},
    ... )
    >>> model.predict({"sky": ["grey", "clear"], "wind": ["storm", None]})
    ['wet', 'dry']
    """

    classes: tuple[Any, ...]
    categories: tuple[tuple[Any, ...], ...]
    columns: tuple[str, ...] | None
    class_counts: Floats
    counts: tuple[Floats, ...]
    standard_error: float
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation

    def scores(self, rows: Any, *, smoothing: Real = 1.0) -> Floats:
        """Return the logarithm of prior times likelihood of each class; finite for whatever row.

        Parameters
        ----------
        rows : table, or (n, d) array or list of rows
            As those of which the model was made. A value that is missing or not public says nothing.
        smoothing : float
            What is added to each count of a value after negative ones became 0; > 0, at most 1e100. Another one costs
            nothing: it is applied to what was released.

        Returns
        -------
        (n, k) ndarray of float64

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If the shape, a dtype or `smoothing` is not accepted.

        Examples
        --------
        >>> from ferrodp.statistics.models import private_categorical_bayes
        >>> rows, labels = [["a"], ["b"]] * 500, [0, 1] * 500
        >>> model = private_categorical_bayes(rows, labels, classes=[0, 1], categories=[["a", "b"]], epsilon=1.0)
        >>> model.scores([["a"], ["c"], [None]], smoothing=1.0).shape
        (3, 2)
        """
        added = smoothing_of(smoothing)
        named = None if self.columns is None or not is_table(rows) else self.columns
        found: Floats | None = None
        sizes = np.maximum(self.class_counts, 1.0)
        for values, known, counts in zip(
            _columns(rows, named, len(self.categories), None), self.categories, self.counts, strict=True
        ):
            held = read(values, "rows")
            codes = placed(held, matching(public_labels(list(known)), held, "categories"))
            if found is None:
                found = np.tile(np.log(sizes / sizes.sum()), (codes.size, 1))
            _check_length(codes.size, len(found))
            smoothed = np.maximum(counts, 0.0) + added
            terms = np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True))
            # a last place for what says nothing
            found += np.column_stack([terms, np.zeros(len(terms))]).T[codes]
        assert found is not None  # there is a column
        return found

    def predict(self, rows: Any, *, smoothing: Real = 1.0) -> list[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        rows, smoothing
            As for `scores`.

        Returns
        -------
        list of length n

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            As for `scores`.

        Examples
        --------
        >>> from ferrodp.statistics.models import private_categorical_bayes
        >>> rows, labels = [["a"], ["b"]] * 500, [0, 1] * 500
        >>> model = private_categorical_bayes(rows, labels, classes=[0, 1], categories=[["a", "b"]], epsilon=1.0)
        >>> model.predict([["a"], ["b"]])
        [0, 1]
        """
        return [self.classes[place] for place in self.scores(rows, smoothing=smoothing).argmax(axis=1)]

    def __repr__(self) -> str:
        cost = f"ε={self.epsilon:g}, δ={self.delta:g}"
        return f"<CategoricalBayes: {len(self.classes)} classes, {len(self.categories)} columns; {cost}>"


@_arrays.quiet
def private_categorical_bayes(
    rows: Any,
    labels: Any,
    *,
    classes: Sequence[Any] | npt.NDArray[Any],
    categories: Categories,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> CategoricalBayes:
    """Return a naive Bayes classifier of categories, from noised counts of each class with each value of each column.

    All counts together are (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    rows : table, or (n, d) array or list of rows
        DataFrame, Table or dict of columns, read by their names; or numbers, strings or other labels in rows. A value
        that is missing or not public counts in none of the counts of its column.
    labels : (n,) array, Series or list
        The class of each row. A row with another one counts nowhere.
    classes : sequence of numbers, strings or other hashable labels
        The public classes, at least two.
    categories : dict from str to sequence, or sequence of d sequences
        The public values of columns, as for `private_histogram`: by name, where only these are read of a table; or of
        each column, in order. All classes with all values make at most 10⁷ counts.
    epsilon, max_contributions, keep, source, ticket
        As for `private_count`.
    delta : float
        In [0, 1). 0 for discrete Laplace noise, otherwise Gaussian noise.
    unit : str, or array, Series or list, optional
        Whose each row is: the name of a column of the table, or an id a row. Then nothing is promised: of the rows of
        each unit that have a public class, `max_contributions` count.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_SPECIAL` a null record is a row that counts nowhere.

    Returns
    -------
    CategoricalBayes
        The classifier, with the counts.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    One row adds 1 to the count of its class and to at most one count of each column: d + 1 in L1 norm, and d + 1 in
    squared L2 norm. k rows move the counts by at most k times a row: L1 k(d + 1), squared L2 k²(d + 1). Where a unit is
    replaced, its counts U ≥ 0 give way to V ≥ 0: L1 ‖U‖₁ + ‖V‖₁ ≤ 2k(d + 1), and squared L2 ‖U‖² − 2UV + ‖V‖² ≤
    2k²(d + 1), for UV ≥ 0. All of these are attained. See the page *Models over exact sums* of the proofs.

    For δ = 0 the noise is discrete Laplace for the L1 norm [GRS09]. Otherwise it is Gaussian for the L2 norm, rounded
    to a grid exactly, with ε and δ of [BW18, Theorem 8]; from 2¹⁴ times what one row moves it is discrete Gaussian.
    The model is that of [VSBH13].

    References
    ----------
    [BW18] Balle, Wang, "Improving the Gaussian mechanism for differential privacy: analytical calibration and optimal
    denoising", ICML 2018.
    [GRS09] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009.
    [VSBH13] Vaidya, Shafiq, Basu, Hong, "Differentially private naive Bayes classification", WI-IAT 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_categorical_bayes
    >>> labels = np.repeat(["sick", "well"], 2_000)
    >>> fever = np.where(np.arange(4_000) % 5 > 0, labels == "sick", labels == "well")
    >>> model = private_categorical_bayes(
    ...     {"fever": fever}, labels, classes=["sick", "well"], categories={"fever": [False, True]}, epsilon=1.0
    ... )
    >>> model.predict({"fever": [True, False]}), [counts.shape for counts in model.counts]
    (['sick', 'well'], [(2, 2)])
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    names, public = _public(rows, categories, unit)
    found = read(labels, "labels")
    known = matching(public_labels(classes, "classes"), found, "classes")
    if len(known) < 2:
        raise InvalidParameter(f"classes must be at least two, got {len(known)}")
    of_row = placed(found, known)
    size = len(known) * (1 + sum(map(len, public)))
    if size > _MAX_COUNTS:
        raise InvalidParameter(
            f"classes and categories must make at most {_MAX_COUNTS} counts, got {size}; put rare values into one"
        )
    if of_row.size > _MAX_ROWS:
        raise InvalidParameter(f"rows must be at most {_MAX_ROWS}")
    spent = of_units(spent, rows, unit, keep)
    columns = [
        (held := read(values, "rows"), matching(each, held, "categories"))
        for values, each in zip(_columns(rows, names, len(public), unit), public, strict=True)
    ]
    for held, _ in columns:
        _check_length(held.values.size, of_row.size)
    kept = counted(spent, of_row >= 0)
    noise, weight = _noise(spent, len(public), size)
    counts = passed(
        lambda: _counts(columns, of_row, kept, len(known), size),
        lambda: (noise.event, weight, "categorical naive Bayes", known, [each for _, each in columns], spent.of),
    )
    said = spent.says(f"categorical naive Bayes, {len(known)} classes", None if names is None else ", ".join(names))
    (drawn_from,) = said.sources(noise.event, null_distance=_null_distance(spent))
    counts *= weight
    noised = noise.release(counts, drawn_from) / weight
    ends = np.cumsum([len(known), *(len(known) * len(each) for each in public)])
    sizes, *tables = np.split(noised, ends[:-1])
    return CategoricalBayes(
        classes=_labels(known),
        categories=tuple(map(_labels, public)),
        columns=names,
        class_counts=sizes,
        counts=tuple(each.reshape(len(known), -1) for each in tables),
        standard_error=noise.deviation / weight,
        epsilon=spent.epsilon,
        delta=spent.delta,
        event=noise.event,
        unit=spent.unit,
        neighboring_relation=spent.relation,
    )


def _noise(spent: Budget, width: int, size: int) -> tuple[Any, int]:
    """Return the noise of so many columns, and by what counts are multiplied for it: the grid of sums is fine."""
    rows = spent.max_contributions
    # mutant: replaced-row-leaves-no-class
    ends = 2 if spent.replaces else 1
    # mutant: counts-of-classes-cost-nothing
    moved = width + 1
    if not spent.delta:
        # mutant: counts-of-columns-cost-what-one-costs
        return _Laplace(spent.mechanism(ends * rows * moved)), 1
    weight = math.isqrt(2**59 // moved)
    # mutant: rows-of-a-unit-cost-what-one-costs
    squared = ends * rows**2 * moved * weight**2
    return noise_of(spent, sqrt_up(Fraction(moved * weight**2)), squared, size), weight


class _Laplace(NamedTuple):
    """Discrete Laplace noise on counts."""

    mechanism: Any

    @property
    def deviation(self) -> float:
        """In units of the counts."""
        return float(self.mechanism.standard_deviation)

    @property
    def event(self) -> PrivacyEvent:
        """What the noise costs."""
        found: PrivacyEvent = self.mechanism.event
        return found

    def release(self, counts: npt.NDArray[np.int64], source: NoiseSource) -> npt.NDArray[np.int64]:
        """Return the counts with noise, in their place in memory."""
        self.mechanism.release(counts, out=counts, source=source)
        return counts


def _null_distance(spent: Budget) -> Fraction:
    """Return how far a row that comes moves counts over how far a replaced one does: 1/2 in L1, 1/√2 < 0.7072 in L2."""
    if not spent.replaces:
        return Fraction(1)
    return Fraction(7072, 10_000) if spent.delta else Fraction(1, 2)


def _counts(
    columns: Sequence[tuple[Numbers | Labels, Known]],
    of_row: npt.NDArray[np.int32],
    kept: npt.NDArray[np.bool_],
    classes: int,
    size: int,
) -> npt.NDArray[np.int64]:
    """Return the exact counts: of classes, then of each class with each value of a column, column by column."""
    found = np.zeros(size, np.int64)
    place_of_class = np.where(kept, of_row, -1).astype(np.int64)
    add_counts(found[:classes], place_of_class[kept])
    start = classes
    for held, known in columns:
        codes = placed(held, known)
        there = kept & (codes >= 0)
        table = found[start : start + classes * len(known)]
        add_counts(table, place_of_class[there] * len(known) + codes[there])
        start += table.size
    return found


def _public(rows: Any, categories: object, unit: object) -> tuple[tuple[str, ...] | None, list[Known]]:
    """Return the names of the columns, where rows are a table, and the public values of each."""
    if isinstance(categories, Mapping):
        if not is_table(rows):
            raise InvalidType(
                "categories must be a sequence of public values for each column where rows are no table, got "
                f'{type(categories).__name__}; as in [["f", "m"], [0, 1, 2]]'
            )
        names = list(categories)
        values = list(categories.values())
    else:
        values = _sequences(categories)
        names = list(names_without(rows, unit)) if is_table(rows) else []
        if names and len(names) != len(values):
            raise InvalidArray(
                f"categories must be of {len(names)} columns, as rows have, got {len(values)}; a dict from names of "
                'columns says which are read, as in {"sex": ["f", "m"]}'
            )
    if not values:
        raise InvalidParameter('categories must name a column, got none; as in {"sex": ["f", "m"]}')
    for name in names:
        if not isinstance(name, str):
            raise InvalidType(f"categories must be of columns with strings as names, got {type(name).__name__}")
    return tuple(names) or None, [public_labels(each, "categories") for each in values]


def _sequences(categories: object) -> list[Any]:
    if not isinstance(categories, (list, tuple)):
        raise _validate.wrong_type(
            "categories",
            "a dict from names of columns to public values, or a list with the values of each column",
            categories,
            write='{"sex": ["f", "m"]}',
        )
    return list(categories)


def _columns(rows: Any, names: Sequence[str] | None, width: int, without: object) -> list[Any]:
    """Return the columns of a table by name, or else of a matrix or a list of rows, each entry for itself."""
    if is_table(rows):
        return [column_of(rows, name) for name in (names_without(rows, without) if names is None else names)]
    if isinstance(rows, (list, tuple)):
        if not all(_width(row) == width for row in rows):
            raise InvalidArray(f"rows must have {width} columns, those of categories, in each row")
        # mutant: one-entry-decides-on-the-type-of-all-rows
        return [[row[place] for row in rows] for place in range(width)]
    array = _arrays.base_array(rows, "rows")
    if array.ndim != 2 or array.shape[1] != width:
        raise InvalidArray(f"rows must have the shape (n, {width}), with the columns of categories, got {array.shape}")
    return [np.ascontiguousarray(array[:, place]) for place in range(width)]


def _width(row: object) -> int:
    """Return how many entries a row has; −1 for what is no row."""
    one = isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1)
    return len(row) if one else -1  # type: ignore[arg-type]  # it has a length then


def _check_length(found: int, wanted: int) -> None:
    if found != wanted:
        raise InvalidArray(f"labels and columns must be of the same length, got {wanted} and {found}")


def _labels(known: Known) -> tuple[Any, ...]:
    return tuple(known.tolist() if isinstance(known, np.ndarray) else known)


def smoothing_of(value: object) -> float:
    """Return what is added to each count, checked."""
    checked = _validate.positive("smoothing", value)
    if checked > 1e100:
        raise _validate.out_of_domain("smoothing", "at most 1e100", value, write="1.0")
    return checked
