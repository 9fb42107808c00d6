"""How many rows of a unit should count, found privately.

*The column.* Let each unit be one row of a column: the number of its rows that are present, at most `at_most`. A unit
that is added, with however many rows, adds one row of this column; one that is removed takes one away; one that is
replaced changes one, or adds or takes one where it has no row before or after. The rank r looked for is that of a
maximum which r rows may exceed, whose utility moves by 1 in each of these cases: with a/b = 1 that is b for a row that
is replaced, and max(a, b − a) for one that comes or goes (`candidates`). So the choice by permute-and-flip is
ε-differentially private for a unit with all of its rows, under every neighboring relation, and no row is left out.

*The rank.* Let a sum be released of up to τ rows of each unit, with noise of size τ/ε′. If one row more of each unit
counts, one row less is lost of each unit that has more than τ, and the noise grows by 1/ε′: both errors together are
least where 1/ε′ units have more than τ rows [AKMV19]. A choice with ε cannot tell ranks that lie closer than some
(2/ε)·ln(K) from one another, K the number of candidates; looked for nearer to the top than that, it would often be a
number beyond all units, up to `at_most`. So by default the rank is S·ln(K/0.05), S the scale of the choice, and the
choice is above what every unit has with probability 0.05 at most, by the tail in `candidates`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.events import NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import budget, name_of
from ferrodp.statistics._column import read
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys.contributions import units
from ferrodp.statistics.parts.exact import check_owners, passed_rows
from ferrodp.statistics.ranks import extremes
from ferrodp.statistics.ranks.quantiles import Among
from ferrodp.tickets import Ticket

__all__ = ["private_rows_per_unit"]

_MOST = 2**20


@_arrays.quiet
def private_rows_per_unit(
    unit: Any,
    *,
    at_most: int,
    rank: int | None = None,
    epsilon: Real | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[int]:
    """Return how many rows of a unit should count, for `max_contributions` or `rows_per_unit` of other statistics.

    The choice is ε-differentially private for a unit with all of its rows, however many it has.

    Parameters
    ----------
    unit : array, Series or list, one-dimensional
        Whose each row is, such as a column of customer numbers. A missing id is no unit.
    at_most : int
        From 2 to 2²⁰: the largest number that may be released; public.
    rank : int, optional
        How many units should have more rows: public, ≥ 0. For a count or a sum that is released with ε′ the error is
        least at about 1/ε′. By default as few as the choice can tell from none: about (2/ε)·ln(20·`at_most`).
    epsilon, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is an int from 1 to `at_most`. Its interval, up to `at_most`, holds the largest number of rows of a
        unit, or `at_most` if that is more, with a probability that the rank gives: 0.95 for the default.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    Its cost comes on top of that of the statistic which uses it. A tenth of the budget is often enough: where fewer
    rows of a unit count, all other noise is smaller in proportion; of the units with more rows a part is left out. The
    docstring of `ferrodp.statistics.ranks.rows_of_units` has the proof, and where the error is least [AKMV19].

    References
    ----------
    [AKMV19] Amin, Kulesza, Munoz Medina, Vassilvitskii, "Bounding user contributions: a bias-variance trade-off in
    differential privacy", ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> owner = np.repeat(np.arange(3000), np.arange(3000) % 6 + 1)
    >>> rows = fd.private_rows_per_unit(owner, at_most=1000, epsilon=0.5)
    >>> 5 <= rows.value <= 6
    True
    >>> visits = fd.private_count(owner, unit=owner, max_contributions=rows.value, epsilon=1.0)
    >>> 8_000 < visits.value < 11_000
    True
    """
    spent = budget(epsilon, 0.0, 1, neighboring_relation, source, ticket)
    most = _validate.count("at_most", at_most, minimum=2, maximum=_MOST)
    wanted = None if rank is None else _validate.count("rank", rank, minimum=0, maximum=2**33)
    points = Among(np.arange(1.0, most + 1.0), 1.0, float(most), True)
    if wanted is None:
        wanted = extremes.rank_within(spent, points)
    looked_for = extremes.looked_for(spent, points, True, wanted)
    check_owners(unit)
    owners = units(read(unit, "unit"))
    numbers = np.bincount(owners[owners >= 0])
    # mutant: rows-of-a-unit-are-units-of-their-own
    rows = np.sort(np.minimum(numbers[numbers > 0], most)).astype(np.float64)
    held = passed_rows(lambda: rows, lambda: (looked_for.events, most, wanted))
    spent = spent._replace(words=spent.words._replace(unit=name_of(unit)), whole_units=True)
    spent = spent.says("rows of a unit", None, (1.0, float(most)))
    value, law = looked_for.of(held, iter(spent.sources(*looked_for.events, null_distance=None)))
    return spent.estimate(int(value), None, looked_for.events[0], f"rows of a unit near rank {wanted}", law)
