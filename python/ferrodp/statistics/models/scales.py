"""Means and variances of many columns in one release, to scale them by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ferrodp._base import _arrays
from ferrodp._base._validate import Real
from ferrodp.events import NeighboringRelation, PrivacyEvent
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget
from ferrodp.statistics._column import Keep
from ferrodp.statistics.models._sums import (
    Floats,
    box_of,
    counted,
    of_all_parts,
    of_units,
    outer_sum,
    pay,
    planned,
    rows_of,
)
from ferrodp.tickets import Ticket

__all__ = ["ColumnScales", "private_scales"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ColumnScales:
    """Means and variances of columns; made by `private_scales`.

    Attributes
    ----------
    count : float
        The noised number of rows, at least 1.
    mean, variance : (d,) ndarray of float64
        Of each column; variances are not negative.
    scale : (d,) ndarray of float64
        What `transform` divides by: the root of each variance, or that of the noise of the variance where that is more,
        at most a quarter of the distance of the bounds. Always positive.
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
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_scales
    >>> scales = private_scales(np.zeros((1_000, 2)), bounds=(-1, 1), epsilon=1.0, delta=1e-6)
    >>> scales.mean.shape, scales.transform(np.zeros((3, 2))).shape
    ((2,), (3, 2))
    """

    count: float
    mean: Floats
    variance: Floats
    scale: Floats
    epsilon: float
    delta: float
    event: PrivacyEvent
    unit: str
    neighboring_relation: NeighboringRelation

    def transform(self, rows: Any) -> Floats:
        """Return rows less the means, divided by `scale`: by no number near 0, however little a column varies.

        Parameters
        ----------
        rows : (n, d) array of numbers
            In the units of the data.

        Returns
        -------
        (n, d) ndarray of float64

        Raises
        ------
        InvalidArray
            If the shape or dtype is not accepted.

        Examples
        --------
        >>> import numpy as np
        >>> from ferrodp.statistics.models import private_scales
        >>> scales = private_scales(np.zeros((1_000, 2)), bounds=(-1, 1), epsilon=1.0, delta=1e-6)
        >>> scales.transform([[0.0, 1.0]]).shape
        (1, 2)
        """
        with np.errstate(all="ignore"):
            found: Floats = (rows_of(rows, width=len(self.mean)) - self.mean) / self.scale
        return found

    def __repr__(self) -> str:
        return f"<ColumnScales of {len(self.mean)} columns; ε={self.epsilon:g}, δ={self.delta:g}>"


@_arrays.quiet
def private_scales(
    rows: Any,
    *,
    bounds: tuple[Any, Any],
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> ColumnScales:
    """Return noised means and variances of many columns, from one release of sums and sums of squares.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    rows, bounds, epsilon, delta, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_moments`.

    Returns
    -------
    ColumnScales
        Of all columns.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The sum of (a, t, t² − ½) over rows, t a row scaled to [−1, 1]: with t² + (t² − ½)² ≤ 5/4 its norm is at most the
    root of a² + 5d/4, to which each row is held in exact arithmetic by `ClippedSum`.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.statistics.models import private_scales
    >>> rows = np.random.default_rng(0).uniform(0, 10, (20_000, 3))
    >>> scales = private_scales(rows, bounds=(0, 10), epsilon=1.0, delta=1e-6)
    >>> bool(np.abs(scales.mean - 5.0).max() < 0.2), bool(np.abs(scales.variance - 100 / 12).max() < 1.0)
    (True, True)
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    values = rows_of(rows, without=unit)
    width = values.shape[1]
    box = box_of(bounds, width)
    spent = of_units(spent, rows, unit, keep)
    scaled, counts = box.scaled(values)
    counts = counted(spent, counts)
    plan = planned(spent, [Fraction(1)])
    constant = 0.5 * math.sqrt(width)
    terms = np.column_stack([np.full(len(scaled), constant), scaled, scaled * scaled - 0.5])
    terms[~counts] = 0.0
    norm = math.sqrt(constant**2 + 1.25 * width)
    total = of_all_parts(
        lambda: outer_sum(counts[:, None].astype(np.float64), terms, norm),
        lambda: (plan, "scales", norm, box, spent.of),
    )
    payment = pay(spent, plan, "means and variances of columns", rows, box, unit)
    noised = payment.release(0, total).ravel()
    count = max(float(noised[0]) / constant, 1.0)
    mean = np.clip(noised[1 : width + 1] / count, -1.0, 1.0)
    squares = np.clip(noised[width + 1 :] / count + 0.5, 0.0, 1.0)
    variance = np.maximum(squares - mean**2, 0.0)
    # a variance below its own noise is as good as unknown
    floor = min(payment.deviation(0, norm) / count, 0.25)
    return ColumnScales(
        count=count,
        mean=box.middle + box.half * mean,
        variance=variance * box.half**2,
        scale=np.sqrt(np.maximum(variance, floor)) * box.half,
        epsilon=spent.epsilon,
        delta=spent.delta,
        event=payment.event,
        unit=spent.unit,
        neighboring_relation=spent.relation,
    )
