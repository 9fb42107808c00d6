"""Tables of counts that were measured together, and what follows from them at no further cost."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.statistics._noise import CutOff, Normal
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.marginals.domain import Axis
from ferrodp.statistics.marginals.workload import Measured, Set, places_of

__all__ = ["PrivateMarginals", "Residual"]

Floats = npt.NDArray[np.float64]


class Residual(NamedTuple):
    """What a table says beyond its margins: its cells less their means along every axis, noised.

    Attributes
    ----------
    values : ndarray of float64
        An axis for each column; sums along each axis are 0.
    deviation : float
        Of the noise: these are the true residuals plus as many independent noises of this deviation as there are cells,
        less *their* means along every axis.

    Examples
    --------
    >>> import ferrodp as fd
    >>> tables = fd.private_marginals({"x": [0, 1, 1]}, 1, categories={"x": [0, 1]}, epsilon=1.0, delta=1e-6)
    >>> residual = tables.residuals()["x",]
    >>> residual.values.shape, round(residual.deviation, 2)
    ((2,), 4.22)
    """

    values: Floats
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PrivateMarginals(Mapping[tuple[str, ...], Estimate[Any]]):
    """Contingency tables that were measured together; made by `private_marginals`.

    A mapping from the tables of the workload to estimates. Every table of fewer columns within one of these can be
    looked up, too. They agree with each other: the sums of a table over a column are the table without that column, up
    to the rounding of floats, unless `nonnegative` was applied.

    Attributes
    ----------
    epsilon, delta : float
        What all of them guarantee together.
    event : PrivacyEvent
        What an accountant composes, once.
    unit : str
        The unit of privacy.
    neighboring_relation : NeighboringRelation
        Which datasets cannot be told apart beyond (ε, δ).

    Examples
    --------
    >>> import ferrodp as fd
    >>> frame = {"sex": ["f", "m"] * 500, "smokes": [True, False, False, False] * 250}
    >>> public = {"sex": ["f", "m"], "smokes": [False, True]}
    >>> tables = fd.private_marginals(frame, 2, categories=public, epsilon=1.0, delta=1e-6)
    >>> tables.table(("sex", "smokes")).shape, list(tables)
    ((2, 2), [('sex', 'smokes')])
    >>> bool(abs(tables.table(("sex", "smokes")).sum(axis=1) - tables.table("sex")).max() < 1e-9)
    True
    >>> tables["sex"].labels, tables["smokes", "sex"].labels[1]
    (('f', 'm'), (False, 'm'))
    """

    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation
    _axes: dict[str, Axis]
    _measured: Measured
    _scale: float
    _tables: dict[Set, Floats]
    _projection: str | None = None

    @property
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The public values of each column, in the order of the tables' cells; None for other values.

        Returns
        -------
        dict of str to tuple
            The columns in the order in which they were declared.
        """
        return {name: tuple(axis.labels) for name, axis in self._axes.items()}

    def table(self, columns: str | tuple[str, ...]) -> Floats:
        """Return a table as an array with an axis for each column.

        Parameters
        ----------
        columns : str or tuple of str
            Names of columns that lie in a table of the workload together, in the order of the axes; an empty tuple for
            the number of rows.

        Returns
        -------
        ndarray of float64
            Unbiased counts, which may be negative and are no whole numbers, or what `nonnegative` made of them.

        Raises
        ------
        InvalidParameter, InvalidType
            If it was not measured.

        Examples
        --------
        >>> import ferrodp as fd
        >>> tables = fd.private_marginals({"x": [0, 1, 1]}, 1, categories={"x": [0, 1]}, epsilon=1.0, delta=1e-6)
        >>> tables.table("x").shape, tables.table(()).shape
        ((2,), ())
        """
        names = (columns,) if isinstance(columns, str) else columns
        place = self._place(names)
        found = self._tables[place]
        if self._projection is not None:
            total = max(float(self._tables[()]), 0.0) if self._projection == "total" else None
            found = _projected(found, total)
        return np.array(found.transpose(self._order(names)))

    def standard_error(self, columns: str | tuple[str, ...]) -> float:
        """Return the standard deviation of the noise of each cell of a table, before `nonnegative`.

        Parameters
        ----------
        columns : str or tuple of str
            As for `table`.

        Returns
        -------
        float
            In rows. It follows from the sizes of the tables alone, and is the same for all cells of a table.

        Raises
        ------
        InvalidParameter, InvalidType
            If it was not measured.

        Examples
        --------
        >>> import ferrodp as fd
        >>> tables = fd.private_marginals({"x": [0, 1, 1]}, 1, categories={"x": [0, 1]}, epsilon=1.0, delta=1e-6)
        >>> round(tables.standard_error("x"), 2)
        4.22
        """
        return math.sqrt(
            self._measured.variance(self._place((columns,) if isinstance(columns, str) else columns), self._scale)
        )

    def residuals(self) -> dict[tuple[str, ...], Residual]:
        """Return what was measured, for other programs: what each table says beyond its margins, noised.

        Residuals of different columns have independent noise; the tables, which are sums of them, share noise.

        Returns
        -------
        dict of tuple of str to Residual
            For each set of columns that was measured, by their names in the order of the axes. Without the number of
            rows, which is ``table(())``.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"x": [0, 1] * 50, "y": [0, 0] * 50}
        >>> tables = fd.private_marginals(frame, 2, categories={"x": [0, 1], "y": [0, 1]}, epsilon=1.0, delta=1e-6)
        >>> found = tables.residuals()
        >>> list(found), abs(found["x", "y"].values.sum(axis=0)).max() < 1e-9
        ([('x',), ('y',), ('x', 'y')], np.True_)
        """
        names, found = list(self._axes), {}
        for of in filter(None, self._measured.weights):
            values = self._tables[of]
            for axis in range(values.ndim):
                # mutant: residuals-for-other-programs-with-margins
                values = values - values.mean(axis=axis, keepdims=True)
            # mutant: residuals-for-other-programs-are-said-to-be-exact
            deviation = self._measured.deviation(of, self._scale)
            found[tuple(names[i] for i in of)] = Residual(values, deviation)
        return found

    def nonnegative(self, *, keep_total: bool = True) -> PrivateMarginals:
        """Return the nearest tables without negative counts. Post-processing: it costs nothing.

        Each table becomes the nearest one by squared distance. Distances to the true table, which is not negative
        either, fall: by much where most cells are empty. Tables do not agree with each other any more, apart from their
        totals. Intervals stay those of the noise, cut off at 0.

        Parameters
        ----------
        keep_total : bool
            Whether each table keeps the noised number of rows as its total. Otherwise negative cells become 0 and the
            total grows.

        Returns
        -------
        PrivateMarginals
            Computed where it is looked up.

        Raises
        ------
        InvalidType
            If `keep_total` is no truth value.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"x": [0] * 100, "y": [0] * 100}
        >>> public = {"x": range(5), "y": range(5)}
        >>> tables = fd.private_marginals(frame, 2, categories=public, epsilon=0.5, delta=1e-6)
        >>> rounded = tables.nonnegative()
        >>> bool((rounded.table(("x", "y")) >= 0.0).all()), rounded["x"].value.shape
        (True, (5,))
        """
        kept = "total" if _validate.truth("keep_total", keep_total) else "cut"
        return dataclasses.replace(self, _projection=kept)

    def __getitem__(self, columns: str | tuple[str, ...]) -> Estimate[Any]:
        wanted = (columns,) if isinstance(columns, str) else columns
        deviation = self.standard_error(wanted)
        value = self.table(wanted).reshape(-1)
        names = " × ".join(wanted)
        labels = [self._axes[name].labels for name in wanted]
        one = labels[0] if len(labels) == 1 else itertools.product(*labels)
        noise, laws = Normal(deviation), None
        if self._projection is not None:
            laws = CutOff(dataclasses.replace(self, _projection=None).table(wanted).reshape(-1), noise)
        return Estimate(
            value=value if wanted else float(value[0]),
            standard_error=deviation,
            epsilon=self.epsilon,
            delta=self.delta,
            event=self.event,
            unit=self.unit,
            neighboring_relation=self.neighboring_relation,
            statistic=f"counts by {names}" if wanted else "count of rows",
            labels=tuple(one) if wanted else None,
            _law=noise if laws is None else None if wanted else laws[0],
            _laws=laws if wanted else None,
        )

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        names = list(self._axes)
        return (tuple(names[i] for i in table) for table in self._measured.workload)

    def __len__(self) -> int:
        return len(self._measured.workload)

    def __contains__(self, columns: object) -> bool:
        try:
            self._place((columns,) if isinstance(columns, str) else columns)
        except (InvalidParameter, TypeError):
            return False
        return True

    def __repr__(self) -> str:
        cost = f"ε={self.epsilon:g}, δ={self.delta:g}"
        return f"<PrivateMarginals: {len(self)} tables of {len(self._axes)} columns; {cost}>"

    def _order(self, columns: tuple[str, ...]) -> list[int]:
        """Return which axis of the stored table each column is."""
        names = list(self._axes)
        place = self._place(columns)
        return [place.index(names.index(name)) for name in columns]

    def _place(self, columns: object) -> Set:
        place = places_of(columns, tuple(self._axes))
        if place not in self._tables:
            raise InvalidParameter(
                f"the columns of a table must be within one table of the workload, got {_validate.shown(columns)}; "
                "measure them together"
            )
        return place


def _projected(table: Floats, total: float | None) -> Floats:
    """Return the nearest table without negative counts, with a given total unless it is None.

    The nearest point of a simplex is max(x − t, 0) for the one t at which the sum is right.
    """
    if total is None:
        return np.maximum(table, 0.0)
    falling = np.sort(table, axis=None)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = int(np.count_nonzero(falling > shifts))
    found: Floats = np.maximum(table - shifts[max(kept, 1) - 1], 0.0)
    return found
