"""Contingency tables of several columns: exact integers, discrete Gaussian noise, linear reconstruction."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import Keep, add_counts, column_of
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.marginals.domain import axes_of, cells_of
from ferrodp.statistics.marginals.noise import noise_of
from ferrodp.statistics.marginals.released import Floats, PrivateMarginals
from ferrodp.statistics.marginals.workload import Measured, Set, plan, tables_of
from ferrodp.statistics.parts.exact import passed
from ferrodp.tickets import Ticket

__all__ = ["private_marginals"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
Ints = npt.NDArray[np.int64]


@_arrays.quiet
def private_marginals(
    frame: Any,
    workload: int | Sequence[str | tuple[str, ...]],
    *,
    categories: Mapping[str, Sequence[Any] | npt.NDArray[Any]] | None = None,
    bins: Mapping[str, Sequence[float] | npt.NDArray[Any]] | None = None,
    weights: Mapping[str | tuple[str, ...], Real] | None = None,
    missing: str = "drop",
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> PrivateMarginals:
    r"""Return contingency tables of several columns, measured together with the least total noise, to 1 %.

    All tables together are (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.
    They are unbiased, agree with each other, and the error of each cell is known.

    Parameters
    ----------
    frame : DataFrame, Table or dict of columns
        Of pandas, polars or Arrow, or columns by name, all of one length.
    workload : int, or list of tuples of str
        Which tables are wanted, by their columns; 3 for all tables of three columns. Tables of fewer columns are
        contained. A table has at most 10⁷ cells.
    categories : dict from str to sequence
        Columns with their public values, as for `private_histogram`; at least two each.
    bins : dict from str to sequence of float
        Columns of numbers with the public edges of their bins, as for `private_histogram`.
    weights : dict from tables to float, optional
        How much the squared errors of a table count, from 1e-12 to 1e12; 1 by default. Public.
    missing : {"drop", "category"}
        What becomes of a row with a value that is missing or not public in one of the columns: it counts in no table,
        or in a last cell of that column, labelled None.
    epsilon, max_contributions, source, ticket
        As for `private_count`.
    unit : str, or array, Series or list, optional
        Whose each row is: the name of a column of the frame, or an id a row, as for `private_count`. Then nothing is
        promised: of the rows of each unit that are in a cell, `max_contributions` count.
    keep : {"random", "first"}
        Which rows of a unit count if it has more.
    delta : float
        Above 0 and below 1.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_SPECIAL` a null record is a row that counts in no table.

    Returns
    -------
    PrivateMarginals
        A mapping from the tables to estimates.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The measurement is the residual basis of [XHK23] in its integer form, with noise that is optimal for the total
    squared error of the workload, here as one vector of integers. Its squared L2 sensitivity is a whole number,
    computed exactly: see the page *Tables* of the proofs. The noise is Gaussian, rounded to integers exactly, so ε and
    δ are those of the Gaussian mechanism [BW18, Theorem 8]. From 2¹⁴ times what one row moves, where ε is small or
    `max_contributions` large, it is discrete Gaussian [CKS20]. Noise variances are closed forms; rounding the weights
    of the measurement to whole numbers moves them by less than 2 %.

    All tables of three columns among 15, with 2·10⁷ cells in all, take some seconds, and 16 bytes of memory a cell.

    References
    ----------
    [BW18] Balle, Wang, "Improving the Gaussian mechanism for differential privacy: analytical calibration and optimal
    denoising", ICML 2018.
    [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
    [XHK23] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy marginals under convex loss
    functions", NeurIPS 2023.

    Examples
    --------
    >>> frame = {"age": [31.0, 47.0, 62.0, 18.0] * 100, "region": ["north", "south"] * 200, "ill": [False, True] * 200}
    >>> tables = private_marginals(
    ...     frame, 2, categories={"region": ["north", "south"], "ill": [False, True]}, bins={"age": [0, 40, 120]},
    ...     epsilon=1.0, delta=1e-6,
    ... )
    >>> tables
    <PrivateMarginals: 3 tables of 3 columns; ε=1, δ=1e-06>
    >>> tables["region", "age"].labels[:2], round(tables.standard_error(("region", "age")), 1)
    ((('north', '[0, 40)'), ('north', '[40, 120]')), 5.5)
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    if not spent.delta:
        raise InvalidParameter(
            "delta must be above 0, got 0: the noise of tables is Gaussian; for example delta=1e-6. "
            "For δ = 0 take private_histogram"
        )
    axes = axes_of(categories, bins, missing)
    names, sizes = tuple(axes), tuple(axis.size for axis in axes.values())
    measured = plan(sizes, tables_of(workload, weights, names, sizes))
    _validate.fits_in_memory("workload", 16 * measured.dimension)
    norm = measured.squared_norm
    apart = measured.squared_distance if spent.replaces else norm
    rows = spent.max_contributions
    # mutant: tables-of-several-rows-cost-those-of-one
    noise = noise_of(spent, measured.norm, rows**2 * apart, measured.dimension)
    spent = _units.of_units(spent, column_of(frame, unit) if isinstance(unit, str) else unit, keep)
    cells = cells_of(frame, axes, functools.partial(_units.counted, spent))
    counts = passed(
        lambda: _measure(measured, cells),
        lambda: (
            noise.event,
            names,
            [(axis.labels, axis.edges) for axis in axes.values()],
            measured.weights,
            spent.unit,
        ),
    )
    distance = Fraction(1) if not spent.replaces else _root_up(Fraction(norm, apart))
    said = spent.says(f"{len(measured.workload)} tables", ", ".join(names))
    (drawn_from,) = said.sources(noise.event, null_distance=distance)
    noised = noise.release(counts, drawn_from)
    return PrivateMarginals(
        epsilon=spent.epsilon,
        delta=spent.delta,
        event=noise.event,
        unit=spent.unit,
        neighboring_relation=spent.relation,
        _axes=axes,
        _measured=measured,
        _scale=noise.deviation,
        _tables=_reconstruct(measured, noised),
    )


def _measure(measured: Measured, cells: list[Ints]) -> Ints:
    """Return all measured integers in one vector, exactly."""
    found = np.zeros(measured.dimension, np.int64)
    start = 0
    for of, weight in measured.weights.items():
        shape = tuple(measured.sizes[i] for i in of)
        part = found[start : start + math.prod(shape)]
        start += part.size
        place = np.zeros(cells[0].size, np.int64)
        for i in of:
            place *= measured.sizes[i]
            place += cells[i]
        add_counts(part, place)
        table = part.reshape(shape)
        for axis, size in enumerate(shape):
            margin = table.sum(axis=axis, keepdims=True)
            # mutant: residuals-lack-the-size-of-a-column
            table *= size
            table -= margin
        part *= weight
    return found


def _reconstruct(measured: Measured, noised: Ints | Floats) -> dict[Set, Floats]:
    r"""Return all tables, each in the place of what was measured for it.

    Let y be an unbiased table whose margins are right for all columns before i, wherever their sums are taken. Adding
    (right margin − margin of y)/n along i keeps the earlier ones right, for the margins are consistent, and replaces
    the part of y in the image of J/n on that axis: what remains of the measured noise is :math:`P_S` of it.
    """
    found: dict[Set, Floats] = {}
    start = 0
    for of, weight in measured.weights.items():
        shape = tuple(measured.sizes[i] for i in of)
        part = noised[start : start + math.prod(shape)]
        start += part.size
        real = part.view(np.float64)
        np.multiply(part, 1.0 / (weight * part.size), out=real)
        table = real.reshape(shape)
        for axis, i in enumerate(of):
            right = found[tuple(j for j in of if j != i)]
            table += np.expand_dims((right - table.sum(axis=axis)) / measured.sizes[i], axis)
        found[of] = table
    return found


def _root_up(ratio: Fraction) -> Fraction:
    """Return a number of nine digits or more that is at least the square root."""
    return Fraction(math.isqrt(10**20 * ratio.numerator // ratio.denominator) + 1, 10**10)
