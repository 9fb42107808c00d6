"""Private counts and histograms."""

from __future__ import annotations

import datetime
import decimal
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import (
    Column,
    Keep,
    Missing,
    add_counts,
    blocks,
    check_missing,
    public_numbers,
    read,
)
from ferrodp.statistics._foreign import Labels, Numbers, keys_of
from ferrodp.statistics._noise import Additive
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts.exact import passed
from ferrodp.statistics.rows import calendars
from ferrodp.statistics.rows.calendars import CalendarBins
from ferrodp.statistics.rows.times import Clock, clock_of, public_times
from ferrodp.tickets import Ticket

__all__ = ["private_count", "private_histogram"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
MAX_BINS = 10**7
_MAX_ROWS = 2**33


@_arrays.quiet
def private_count(
    values: Any,
    *,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[int]:
    """Return how many values a column has, or how many are true in a column of truth values, with integer noise.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers, floats, strings, categories or times; of numpy, pandas, polars or Arrow. Of truth values
        those that are true are counted, of others the rows; of a list, and of objects, all but None, NaN and False.
    epsilon : float, optional
        Finite, > 0. Rounded down if not exactly representable. To be given, except within a ``ferrodp.budget(…)`` that
        is split into parts, of which the release takes the next.
    delta : float
        In [0, 1). 0 for discrete Laplace noise, otherwise discrete Gaussian.
    max_contributions : int
        The most rows that one unit of privacy may have, which the caller promises, unless `unit` is given; ≥ 1.
    unit : array, Series or list, optional
        Whose each row is: an id a row, of any type that can be hashed. Then nothing is promised: of each unit a random
        subset of `max_contributions` rows counts, and rows without an id do not. Equal ids are one unit.
    keep : {"random", "first"}
        Which rows of a unit count if it has more; the first ones of a table that is sorted by time are all early.
    missing : {"drop", "zero"}
        What becomes of missing rows (nulls and NaN). By default they contribute to nothing, this count included; "zero"
        counts them as rows, and as false; not for lists and objects, which do not say what a missing one stands for.
    neighboring_relation : NeighboringRelation
        `REPLACE_ONE` makes the number of rows public; then only truth values can be counted, and rows of a type that
        can be missing.
    source : NoiseSource, optional
        None, or a seeded source for tests.
    ticket : Ticket, optional
        What pays for the release: see `ferrodp.tickets`. It must have been paid for the `event` of the result, or for
        an `EpsilonDeltaEvent` of this ε and δ, under the same neighboring relation. It is armed after all checks, right
        before the first random bit, and counts as spent from then on.

    Returns
    -------
    Estimate
        Its value is an int, and may be negative.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
        If an argument is not accepted, by its type, dtype or shape alone. Nothing was drawn.
    TicketError
        If `ticket` was used or cancelled before. Nothing was drawn.

    Notes
    -----
    Discrete Laplace noise is that of [GRS09], discrete Gaussian noise that of [CKS20]. The sensitivity is
    `max_contributions`, exactly, under every relation: a row is counted once or not at all, whatever stands in it.

    References
    ----------
    [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
    [GRS09] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009.

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.array([31, 47, 62, 18])
    >>> estimate = private_count(ages >= 40, epsilon=1.0)
    >>> type(estimate.value), round(estimate.standard_error, 2)
    (<class 'int'>, 1.36)
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    drops = check_missing(missing)
    spent = _units.of_units(spent, unit, keep, missing)
    found = _units.labels(spent, values)
    # mutant: list-of-nones-taken-for-numbers
    if not drops and isinstance(found, Labels) and found.is_open:
        raise InvalidParameter(
            f'missing must be "drop" for {found.kind}, where a missing one may stand for a truth value or for a row, '
            'got "zero"; an array says by its dtype what it has'
        )
    exact, can_miss, what = _counter(found, drops)
    if spent.replaces and not can_miss:
        raise InvalidParameter(
            "values must be truth values under REPLACE_ONE, where the number of rows is public, or of a type that can "
            'be missing, with missing="drop"'
        )
    mechanism = spent.mechanism(spent.max_contributions)
    event = mechanism.event
    total = passed(exact, lambda: (event, what, spent.unit))
    (source,) = spent.says(what, values).sources(event, null_distance=Fraction(1))
    released = mechanism.release(total, source=source)
    return spent.estimate(released, mechanism.standard_deviation, event, what, Additive(mechanism))


def _counter(found: Numbers | Labels, drops: bool) -> tuple[Callable[[], int], bool, str]:
    """Return what counts a column, whether the count depends on what is in the rows, and what it is a count of."""
    if isinstance(found, Labels):
        what = "count of values other than False" if found.is_open else "count of values"
        # mutant: missing-row-makes-the-false-ones-count
        return (lambda: int(((found.present() | (not drops)) & ~found.false()).sum())), drops, what
    if found.values.size > _MAX_ROWS:
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    held = Column(found.values, found.nulls, found.can_miss, drops)
    if found.values.dtype == np.bool_:
        return (lambda: sum(int(np.count_nonzero(part)) for part in held.parts())), True, "count of true values"
    # mutant: missing-rows-are-counted-as-rows
    return (lambda: held.size), drops and found.can_miss, "count of values"


@_arrays.quiet
def private_histogram(
    values: Any,
    *,
    epsilon: Real | None = None,
    bins: Sequence[Any] | npt.NDArray[Any] | CalendarBins | None = None,
    categories: Sequence[Any] | npt.NDArray[Any] | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[npt.NDArray[np.int64]]:
    """Return how many rows fall into each public bin or category, with integer noise in every count.

    The whole histogram is (ε, δ)-differentially private: bins are disjoint, so a row moves one of them by one.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats; with `categories` also strings, times and other labels.
    epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_count`.
    bins : sequence of float or times, or CalendarBins
        Public edges in ascending order; bin i holds edges[i] ≤ x < edges[i + 1], the last one its upper edge too. For a
        column of dates, datetimes, durations or times of day, edges of that kind, or `CalendarBins`.
    categories : sequence of numbers, strings or other hashable labels
        Public values, all different, in place of bins; of a type that the column can hold, such as dates for dates.

    Returns
    -------
    Estimate
        Its value is an int64 array, one count a bin or category; counts may be negative. Empty bins are noised too.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    Rows outside all bins, missing ones among them, are not counted, and their number is not released. Sensitivities
    for k = `max_contributions` rows: L1 k and L2 k if a unit is added or removed, or there is only one bin; 2k and √2·k
    if it is replaced ([DMNS06] Section 3).

    References
    ----------
    [DMNS06] Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_histogram(np.array([1.5, 2.5, 2.6, 9.0]), bins=[0, 2, 4, 6], epsilon=1.0)
    >>> estimate.value.shape, estimate.value.dtype
    ((3,), dtype('int64'))
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    check_binning(bins, categories)
    spent = _units.of_units(spent, unit, keep)
    edges, labels = None, None
    count: Callable[[], npt.NDArray[np.int64]]
    if isinstance(bins, CalendarBins):
        held = calendars.places(bins, _units.labels(spent, values), "values")
        size, labels = len(bins.starts), bins.labels
        count = functools.partial(_counted, held, size)
    elif bins is not None:
        clock, edges = timed_edges(bins)
        size = edges.size - 1
        spent = spent._replace(clock=clock)
        count = functools.partial(_binned, edges, _units.numbers(spent, values, "drop").parts())
        edges = edges if clock is None else clock._replace(whole=True).moments(edges)
        spent = spent._replace(clock=None)
    else:
        found = _units.labels(spent, values)
        known = matching(public_labels(categories), found, "categories")
        size, labels = len(known), tuple(known.tolist() if isinstance(known, np.ndarray) else known)
        count = functools.partial(by_category, found, known)
    moved = spent.max_contributions
    # mutant: replaced-row-moves-one-bin
    ends = 2 if spent.replaces and size > 1 else 1  # a row that is replaced leaves a bin and comes to another
    # mutant: rows-of-one-unit-taken-to-fall-into
    mechanism = spent.mechanism(ends * moved, squared_l2_sensitivity=ends * moved**2, dimension=size)
    event = mechanism.event
    counts = passed(count, lambda: (event, edges, labels, spent.unit))
    # a row that comes moves one bin: 1 over 2 of L1, over √2 of L2, which is below 0.7072
    distance = Fraction(1) if ends == 1 else Fraction(1, 2) if not spent.delta else Fraction(7072, 10_000)
    what = "counts by bin" if bins is not None else "counts by category"
    limits = (edges[0], edges[-1]) if isinstance(edges, np.ndarray) and edges.dtype.kind == "f" else None
    (source,) = spent.says(f"{what}, {size} of them", values, limits).sources(event, null_distance=distance)
    # mutant: empty-bins-get-no-noise
    mechanism.release(counts, out=counts, source=source)
    law = Additive(mechanism)
    return spent.estimate(counts, mechanism.standard_deviation, event, what, law, edges=edges, labels=labels)


def check_binning(bins: object, categories: object) -> None:
    """Refuse neither or both of edges and categories."""
    if (bins is None) == (categories is None):
        raise InvalidParameter(
            "exactly one of bins and categories must be given, public both, got "
            f"{'neither' if bins is None else 'both'}: bins=numpy.linspace(low, high, 11) or categories=[...]"
        )


def timed_edges(bins: Any) -> tuple[Clock | None, npt.NDArray[np.float64]]:
    """Return public edges of bins as floats in ascending order, and of what kind of times they are."""
    clock = clock_of(bins)
    return clock, ascending_edges(bins if clock is None else public_times(clock, list(bins), "bins"))


def ascending_edges(bins: Any) -> npt.NDArray[np.float64]:
    """Return public edges of bins as floats in ascending order."""
    edges = public_numbers(bins, "bins", range(2, MAX_BINS + 2), order=" in ascending order").astype(np.float64)
    if np.isnan(edges).any() or not (np.diff(edges) > 0.0).all():
        raise InvalidArray("bins must be in ascending order, all different")
    return edges


Known: TypeAlias = "npt.NDArray[Any] | list[Any]"
"""Public labels: an array of numbers, or a list of whatever can be hashed."""


def public_labels(categories: Any, name: str = "categories") -> Known:
    """Return public categories or keys: an array of numbers, or a list of other labels."""
    given = categories
    if isinstance(given, (str, bytes)):
        raise _validate.wrong_type(name, "a list of categories", given, write=f"[{given!r}]")
    if not isinstance(given, (list, tuple)) and (isinstance(found := read(given, name), Labels)):
        given = found.values.tolist() if found.entries is None else [found.entries[place] for place in found.values]
    if isinstance(given, (list, tuple)) and given and not all(isinstance(each, _NUMBERS) for each in given):
        labels = [str(each) if type(each) is np.str_ else each for each in given]
        keys = list(keys_of(labels))
        if None in keys:
            rule = f"{name} must be numbers, strings or other hashable labels, none of them missing"
            raise InvalidArrayType(f"{rule}; leave None and NaN out")
        if len(set(keys)) != len(keys) or len(keys) > MAX_BINS:
            raise InvalidArray(f"{name} must be all different, at most {MAX_BINS}")
        return labels
    known = public_numbers(given, name, range(1, MAX_BINS + 1), kinds="biuf")
    if np.unique(known).size != known.size or (known.dtype.kind == "f" and not np.isfinite(known).all()):
        raise InvalidArray(f"{name} must be finite and all different")
    return known


_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_OF_KIND: dict[str, tuple[type, ...]] = {
    "numbers": _NUMBERS,
    "strings": (str,),
    "bytes": (bytes,),
    "dates": (datetime.date,),
    "datetimes": (datetime.datetime,),
    "datetimes with a time zone": (datetime.datetime,),
    "durations": (datetime.timedelta,),
    "times": (datetime.time,),
    "decimals": (*_NUMBERS, decimal.Decimal),
}
"""What equals something in a column of a type."""


def matching(known: Known, found: Numbers | Labels, name: str) -> Known:
    """Return public labels as those of a column, or refuse them if its type can hold none of them.

    Labels for a column of float32 are rounded to float32, as its values were.
    """
    if isinstance(found, Numbers):
        held = found.values.dtype
        if not isinstance(known, np.ndarray):
            raise _no_match(name, "numbers" if held.kind != "b" else "truth values", held, known)
        if held.kind == "f" and held.itemsize < 8 and known.dtype.kind == "f":
            # mutant: keys-of-a-float32-column-not-rounded
            known = known.astype(held)
            if np.unique(known).size != known.size:
                raise InvalidArray(f"{name} must be all different as {held}, the dtype of the column")
        return known
    kind = found.kind.removeprefix("categories that are ")
    accepted = _OF_KIND.get(kind)
    if accepted is None:
        return known
    labels = known.tolist() if isinstance(known, np.ndarray) else known
    zoned = {"datetimes": False, "datetimes with a time zone": True}.get(kind)
    for label in labels:
        plain = key.value if hasattr(key := next(keys_of([label])), "value") else key
        fits = isinstance(plain, accepted) and not (kind == "dates" and isinstance(plain, datetime.datetime))
        if not fits or (zoned is not None and (plain.tzinfo is not None) is not zoned):
            raise _no_match(name, found.kind, f"{found.kind}", labels)
    return known


def _no_match(name: str, accepted: str, held: object, known: Known) -> InvalidArrayType:
    kinds = sorted({type(label).__name__ for label in (known.tolist() if isinstance(known, np.ndarray) else known)})
    return InvalidArrayType(
        f"{name} must be {accepted}, as the column has {held}: no row could equal another, got {', '.join(kinds)}"
    )


def by_category(found: Numbers | Labels, known: Known) -> npt.NDArray[np.int64]:
    """Count the rows of each category."""
    counts = np.zeros(len(known), np.int64)
    for part in places(found, known):
        add_counts(counts, part[part >= 0])
    return counts


def places(found: Numbers | Labels, known: Known) -> Iterator[npt.NDArray[np.intp]]:
    """Yield for each row the place of its value among public ones, −1 if it is none of them or missing, in parts."""
    if isinstance(found, Labels):
        yield from found.places(known.tolist() if isinstance(known, np.ndarray) else known)
        return
    assert isinstance(known, np.ndarray)  # `matching` refuses others
    order = np.argsort(known, kind="stable")
    ascending = known[order]
    nulls = None if found.nulls is None else blocks(found.nulls)
    for part in blocks(found.values):
        place = np.minimum(np.searchsorted(ascending, part), ascending.size - 1)
        # mutant: nulls-counted-as-zeros
        equal = ascending[place] == part if nulls is None else (ascending[place] == part) & ~next(nulls)
        yield np.where(equal, order[place], -1)


def placed(found: Numbers | Labels, known: Known) -> npt.NDArray[np.int32]:
    """Return the same as one array, of half the size: there are at most `MAX_BINS` public values."""
    codes, start = np.empty(found.values.size, np.int32), 0
    for part in places(found, known):
        codes[start : start + part.size] = part
        start += part.size
    return codes


def _counted(places: npt.NDArray[np.intp], size: int) -> npt.NDArray[np.int64]:
    """Count the rows of each place."""
    counts = np.zeros(size, np.int64)
    add_counts(counts, places[places >= 0])
    return counts


def _binned(edges: npt.NDArray[np.float64], parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    counts = np.zeros(edges.size - 1, np.int64)
    for part in parts:
        place = bin_places(edges, part)
        add_counts(counts, place[place >= 0])
    return counts


def bin_places(edges: npt.NDArray[np.float64], part: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the bin of each number, −1 for what is outside, NaN among it."""
    place = np.searchsorted(edges, part.astype(np.float64), side="right") - 1
    # mutant: last-bin-lacks-upper-edge
    place[part == edges[-1]] = edges.size - 2
    return np.where(place < edges.size - 1, place, -1)  # NaN sorts behind everything
