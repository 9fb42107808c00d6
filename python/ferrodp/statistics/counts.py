"""Private counts and histograms."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays
from ferrodp._validate import Real
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import add_counts, column, nullable_column, public_numbers
from ferrodp.statistics.estimate import Estimate
from ferrodp.tickets import Ticket

__all__ = ["private_count", "private_histogram"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
MAX_BINS = 10**7


@_arrays.quiet
def private_count(
    values: Any,
    *,
    epsilon: Real,
    delta: Real = 0.0,
    max_contributions: int = 1,
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[int]:
    """Return how many rows a column has, or how many are true in a column of truth values, with integer noise.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats; numpy, pandas or polars. Only truth values matter, others are counted as rows.
    epsilon : float
        Finite, > 0. Rounded down if not exactly representable.
    delta : float
        In [0, 1). 0 for discrete Laplace noise, otherwise discrete Gaussian.
    max_contributions : int
        The most rows that one unit of privacy may have, which the caller promises; ≥ 1.
    neighboring_relation : NeighboringRelation
        `REPLACE_ONE` makes the number of rows public, so that only truth values can be counted.
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
    `max_contributions`, exactly. Missing truth values count as false, missing numbers as rows.

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
    array = column(values)
    if spent.replaces and array.dtype != np.bool_:
        raise InvalidParameter("values must be truth values under REPLACE_ONE, where the number of rows is public")
    moved = spent.max_contributions
    mechanism = spent.mechanism(moved)
    exact = int(np.count_nonzero(array)) if array.dtype == np.bool_ else array.size
    event = mechanism.event
    (source,) = spent.sources(event, null_distance=Fraction(1))
    return spent.estimate(mechanism.release(exact, source=source), mechanism.standard_deviation, event)


@_arrays.quiet
def private_histogram(
    values: Any,
    *,
    epsilon: Real,
    bins: Sequence[float] | npt.NDArray[Any] | None = None,
    categories: Sequence[Any] | npt.NDArray[Any] | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[npt.NDArray[np.int64]]:
    """Return how many rows fall into each public bin or category, with integer noise in every count.

    The whole histogram is (ε, δ)-differentially private: bins are disjoint, so a row moves one of them by one.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats.
    epsilon, delta, max_contributions, neighboring_relation, source, ticket
        As for `private_count`.
    bins : sequence of float
        Public edges in ascending order; bin i holds edges[i] ≤ x < edges[i + 1], the last one its upper edge too.
    categories : sequence of numbers
        Public values, all different, in place of bins.

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
    Rows outside all bins, NaN and nulls among them, are not counted, and their number is not released. Sensitivities
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
    # mutant: nulls-counted-as-zeros
    parts = nullable_column(values).present()
    if (bins is None) == (categories is None):
        raise InvalidParameter("exactly one of bins and categories must be given")
    if bins is not None:
        edges = _ascending(bins)
        size, count = edges.size - 1, functools.partial(_binned, edges)
    else:
        known = _distinct(categories)
        size, count = known.size, functools.partial(_counted, known)
    moved = spent.max_contributions
    # mutant: replaced-row-moves-one-bin
    ends = 2 if spent.replaces and size > 1 else 1  # a row that is replaced leaves a bin and comes to another
    # mutant: rows-of-one-unit-taken-to-fall-into
    mechanism = spent.mechanism(ends * moved, squared_l2_sensitivity=ends * moved**2, dimension=size)
    counts = count(parts)
    event = mechanism.event
    # a row that comes moves one bin: 1 over 2 of L1, over √2 of L2, which is below 0.7072
    distance = Fraction(1) if ends == 1 else Fraction(1, 2) if not spent.delta else Fraction(7072, 10_000)
    (source,) = spent.sources(event, null_distance=distance)
    # mutant: empty-bins-get-no-noise
    mechanism.release(counts, out=counts, source=source)
    return spent.estimate(counts, mechanism.standard_deviation, event)


def _ascending(bins: Any) -> npt.NDArray[np.float64]:
    edges = public_numbers(bins, "bins", range(2, MAX_BINS + 2), order=" in ascending order").astype(np.float64)
    if np.isnan(edges).any() or not (np.diff(edges) > 0.0).all():
        raise InvalidArray("bins must be in ascending order, all different")
    return edges


def _distinct(categories: Any) -> npt.NDArray[Any]:
    known = public_numbers(categories, "categories", range(1, MAX_BINS + 1), kinds="biuf")
    if np.unique(known).size != known.size or (known.dtype.kind == "f" and not np.isfinite(known).all()):
        raise InvalidArray("categories must be finite and all different")
    return known


def _binned(edges: npt.NDArray[np.float64], parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    counts = np.zeros(edges.size - 1, np.int64)
    for part in parts:
        place = np.searchsorted(edges, part.astype(np.float64), side="right") - 1
        # mutant: last-bin-lacks-upper-edge
        place[part == edges[-1]] = edges.size - 2
        inside = (place >= 0) & (place < edges.size - 1)  # NaN sorts behind everything
        add_counts(counts, place[inside])
    return counts


def _counted(known: npt.NDArray[Any], parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    counts, order = np.zeros(known.size, np.int64), np.argsort(known, kind="stable")
    ascending = known[order]
    for part in parts:
        place = np.minimum(np.searchsorted(ascending, part), ascending.size - 1)
        add_counts(counts, order[place[ascending[place] == part]])
    return counts
