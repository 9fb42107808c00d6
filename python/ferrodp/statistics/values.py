"""Which values a column has: how many different ones, and the most frequent of public categories.

*Different values.* Let unit i contribute the set Vᵢ of at most k values. The number of different values is |⋃ Vᵢ|. A
unit that comes adds at most |Vᵢ| ≤ k to the union, however many rows it has; one that goes takes at most k away; one
that is replaced does both, and what comes cancels what goes: the number moves by at most k again. So k is the
sensitivity under every relation. A column of ids of units has k = 1: then it is the number of units.

*Most frequent values.* Let a unit have at most k rows. Each count of a category moves by at most k, and if a unit comes
or goes, all counts move the same way: the choice of one category by the exponential mechanism with ε' then costs ε'
with the monotonic scale k/ε', otherwise with 2k/ε' [MT07]. The next choice is among the categories that are left, which
are those of a number of public ones that were not released before. So m choices with ε/2m each compose to ε/2. This is
peeling [DR19]. The counts of the chosen categories are bins of a histogram, with the other half of ε: a unit moves them
by k in L1, one that is replaced by 2k. Their noise is drawn after the choices, and independent of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import part_of_a_statistic
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.mechanisms.selection import ExponentialMechanism
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Budget, Mechanism, budget
from ferrodp.statistics._column import Keep, read
from ferrodp.statistics._noise import Additive
from ferrodp.statistics.counts import by_category, matching, public_labels
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.keys.contributions import units
from ferrodp.statistics.parts.exact import passed
from ferrodp.statistics.parts.unions import Different, counted_values
from ferrodp.tickets import Ticket

__all__ = ["private_distinct", "private_top"]

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_MOST = 1000
Ints = npt.NDArray[np.int64]


@_arrays.quiet
def private_distinct(
    values: Any,
    *,
    epsilon: Real | None = None,
    delta: Real = 0.0,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[int]:
    """Return how many different values a column has, with integer noise.

    The release is (ε, δ)-differentially private for a unit that contributes at most `max_contributions` different
    values, in any number of rows. Of a column of ids, one a unit, it is the number of units.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, numbers, strings, categories, times or whatever can be hashed; of numpy, pandas, polars or Arrow.
        Missing rows (nulls, NaN), infinite ones of an array and what cannot be hashed are left out. Equal values are
        one, such as 7 and 7.0.
    max_contributions : int
        The most different values that one unit of privacy may have, which the caller promises; ≥ 1. A unit has one id.
    unit : array, Series or list, optional
        Whose each row is, as for `private_count`: then nothing is promised, and so many different values of each unit
        count, in whatever number of rows.
    epsilon, delta, keep, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is an int, and may be negative.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Notes
    -----
    The sensitivity is `max_contributions`, exactly, under every relation: the proof is in the docstring of
    `ferrodp.statistics.values`. Noise as for `private_count`.

    Examples
    --------
    >>> import ferrodp as fd
    >>> visits = {"patient": ["a", "b", "a", "c", None], "clinic": ["north", "north", "south", "north", "south"]}
    >>> estimate = fd.private_distinct(visits["patient"], epsilon=1.0)
    >>> estimate.statistic, round(estimate.standard_error, 2)
    ('number of different values', 1.36)
    """
    spent = budget(epsilon, delta, max_contributions, neighboring_relation, source, ticket)
    spent = _units.of_units(spent, unit, keep)
    spent = spent._replace(of=spent.of.replace("row", "different value"))
    found = read(values)
    # mutant: different-values-of-a-unit-move-by-one
    mechanism = spent.mechanism(spent.max_contributions)
    event = mechanism.event
    places = _units.different(spent, units(found))
    number = counted_values(
        lambda: int(np.unique(places[places >= 0]).size),
        lambda: Different.of(found, places),
        lambda: (event, spent.of, spent.unit),
    )
    (drawn,) = spent.says("number of different values", values).sources(event, null_distance=Fraction(1))
    released = mechanism.release(number, source=drawn)
    what = "number of different values"
    return spent.estimate(released, mechanism.standard_deviation, event, what, Additive(mechanism))


@_arrays.quiet
def private_top(
    values: Any,
    number: int,
    *,
    categories: Any,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    neighboring_relation: NeighboringRelation = _ADD_OR_REMOVE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[Ints]:
    """Return the counts of the most frequent of many public categories, most likely those, in descending order.

    The release is ε-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        As for `private_histogram`.
    number : int
        How many categories are released; from 1 to 1000, and at most as many as there are.
    categories : sequence of numbers, strings, dates or other labels
        Public, all different, of a type that the column can hold. Where they are not public, `private_group_by` with a
        `KeyThreshold` finds the frequent ones: `PrivateGroups.found_counts` has their counts.
    epsilon, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is an int64 array of noised counts in descending order, its labels are the categories. An interval
        holds the count of its category, whichever category that is.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_histogram`. Nothing was drawn.

    Notes
    -----
    Half of ε is shared by `number` choices of the exponential mechanism, each among the categories that are left:
    peeling [DR19]. Its probabilities are exact. The other half noises the counts of what was chosen. With probability
    1 − β no category that was left out has a count that exceeds a chosen one's by more than (2mk/ε)·ln(md/β), for m of
    d categories and k rows a unit, twice that under REPLACE_ONE [MT07]: ten words of 100 000 are right up to 340 rows,
    with 95 percent at ε = 1. The proof of the guarantee is in the docstring of `ferrodp.statistics.values`.

    References
    ----------
    [DR19] Durfee, Rogers, "Practical differentially private top-k selection with pay-what-you-get composition",
    NeurIPS 2019.
    [MT07] McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007.

    Examples
    --------
    >>> import ferrodp as fd
    >>> words = ["the"] * 500 + ["of"] * 300 + ["and"] * 280 + ["sea"]
    >>> fd.private_top(words, 2, categories=["and", "of", "sea", "the", "whale"], epsilon=2.0).labels[0]
    'the'
    """
    spent = budget(epsilon, 0.0, max_contributions, neighboring_relation, source, ticket)
    spent = _units.of_units(spent, unit, keep)
    found = _units.labels(spent, values)
    known = matching(public_labels(categories), found, "categories")
    top = Top.of(spent, number, len(known))
    wanted, event = top.number, ComposedEvent(events=top.events)
    said = spent.says(f"the {wanted} most frequent of {len(known)} public categories", values)
    counts = passed(lambda: by_category(found, known), lambda: (event, known, wanted, spent.unit))
    chosen, released = top.released(counts, iter(said.sources(*event.events, null_distance=None)))
    labels = known.tolist() if isinstance(known, np.ndarray) else known
    what = f"counts of the {wanted} most frequent categories" if wanted > 1 else "count of the most frequent category"
    return spent.estimate(
        released,
        top.noise.standard_deviation,
        event,
        what,
        Additive(top.noise),
        labels=tuple(labels[place] for place in chosen),
    )


class Top(NamedTuple):
    """What chooses the most frequent of some categories one after another, and what noises their counts."""

    number: int
    choice: ExponentialMechanism
    noise: Mechanism

    @classmethod
    def of(cls, spent: Budget, number: Any, size: int, groups: int = 1) -> Top:
        """Return it for so many of `size` categories in each of some disjoint groups."""
        moved, wanted = spent.max_contributions, _validate.count("number", number, maximum=min(size, _MOST))
        # mutant: each-of-several-choices-of-a-top-gets-half
        each_epsilon = spent.share(1, 2 * wanted).epsilon
        # mutant: counts-of-a-replaced-row-move-one-way
        one_way = not spent.replaces
        with part_of_a_statistic():
            choice = ExponentialMechanism.calibrated(epsilon=each_epsilon, sensitivity=moved, monotonic=one_way)
        # mutant: counts-of-a-top-replaced-as-if-removed
        ends = 2 if spent.replaces and wanted * groups > 1 else 1
        return cls(wanted, choice, spent.share(1, 2).mechanism(ends * moved, dimension=wanted))

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the choices about one group cost, and then its counts."""
        return (*[self.choice.event] * self.number, self.noise.event)

    def released(self, counts: Ints, sources: Iterator[NoiseSource]) -> tuple[list[int], Ints]:
        """Return the places of the chosen categories, and their noised counts, in descending order of these."""
        left = np.arange(counts.size)
        chosen = []
        for _ in range(self.number):
            place = self.choice.release(counts[left], source=next(sources))
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        noised = self.noise.release(counts[chosen], source=next(sources))
        order = np.argsort(-noised, kind="stable").tolist()
        return [chosen[place] for place in order], noised[order]
