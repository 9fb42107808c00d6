"""Quantiles by permute-and-flip over public candidates, and intervals around them.

*Rows.* A row counts as the candidate nearest to it, the smaller one of two that are equally near; what is beyond all
candidates counts as the outermost. That depends on the row and on public numbers alone: it costs nothing.

*Utility.* Let q = a/b, let n rows count, L of them below a candidate c and M at it or below. Then c is a q-quantile
just if b·L ≤ a·n ≤ b·M, and

    u(c) = −max(b·L − a·n, a·n − b·M)

is at least 0 at each of them and below 0 elsewhere, where many rows are equal too: there it says how many rows of c are
to spare on the nearer side. Some candidate always has a utility of at least 0: a quantile of the rows as they count. A
utility that is cut off at 0 moves no further, but does not tell two neighboring values apart as well. The docstring of
`candidates` has the sensitivity: max(a, b − a) for a row that is added or removed, b for one that is replaced. A null
record does not count, so under REPLACE_SPECIAL a row comes or goes. A unit with k rows moves u k times as far.

*Choice.* Permute-and-flip has at the same ε no larger an expected shortfall of utility than the exponential mechanism,
and down to half of it [MS20]. What it costs is plain ε: the range of its losses is not bounded by ε, as that of the
exponential mechanism is, which therefore costs less where many choices are composed at some δ.

*Interval.* An interval that holds the q-quantiles of the clamped rows with probability 1 − α is two further choices.
For its lower end every row counts as the largest candidate that is at most the row, and the rank looked for is a·n −
R. Let x be the least q-quantile of the rows. It counts as the least q-quantile y ≤ x of what rows count as, and at
least a·n/b of them are at most y: a candidate above y has b·L ≥ a·n, hence utility −R at most. Some candidate has a
utility of at least 0, the outer one if a·n ≤ R. With R ≥ S·ln(2·W/(w·α)) the choice therefore exceeds y, and so x, with
probability at most α/2: the tail in the docstring of `candidates`. The upper end is the same from above. Both ends
and the number between them are accounted for, with a quarter, a quarter and half of ε; that the interval is widened
to hold the number is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import part_of_a_statistic
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.events import ComposedEvent, NeighboringRelation, PrivacyEvent
from ferrodp.mechanisms.selection import PermuteAndFlip
from ferrodp.random import NoiseSource
from ferrodp.statistics._budget import Bounds, Budget, bounds, budget
from ferrodp.statistics._column import Column, Keep, Missing, public_numbers
from ferrodp.statistics._noise import Transformed
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.keys import of_columns as _units
from ferrodp.statistics.parts.exact import passed_rows
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import candidates as _candidates
from ferrodp.statistics.ranks.candidates import Candidates, Listed, Rank, Toward
from ferrodp.statistics.rows.times import clock_of, public_times
from ferrodp.tickets import Ticket

__all__ = ["private_median", "private_quantile", "private_quantiles"]

Doubles = npt.NDArray[np.float64]
_DENOMINATOR = 10**6
_MAX_ROWS = 2**33  # ranks times the denominator stay exact in float64
MAX_CANDIDATES = 10**7
_OF_ENDS = 10**4, 3
"""Candidates of the ends of an interval: the most multiples of a power of ten, and the digits of those of any size."""
_FEWEST_EPSILON = "epsilon must be larger: what it allows is further from the quantile than all rows that fit"


@_arrays.quiet
def private_quantile(
    values: Any,
    quantile: Real,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
    interval_level: Real | None = None,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return one of many public candidates, most likely one near the quantile.

    The choice is ε-differentially private for a unit that contributes at most `max_contributions` rows.

    Parameters
    ----------
    values : array, Series or list, one-dimensional
        Truth values, integers or floats.
    quantile : float
        Between 0 and 1; 0.5 for the median. Taken as the nearest ratio with a denominator up to 10⁶.
    bounds : (float, float)
        The candidates lie between them; a value outside counts as the nearer one, an infinite one too.
    candidates : array of float
        Used instead: public, finite, not taken from the data.
    num_candidates : int, optional
        From 2 to 10⁷: the candidates are so many evenly spaced numbers between the bounds. By default they suit the
        column. Of an array of integers they are the integers between the bounds, if these are at most 10⁴. Otherwise
        they are the multiples of a power of ten, up to 10¹² of them; some thousand round ones weigh more, which is
        accurate in tight bounds and costs few ranks in wide ones.
    interval_level : float, optional
        Between 0 and 1: an interval is released too, which holds the quantile with this probability. It is not free:
        the number gets half of ε, and the ends a quarter each. By default there is no interval.
    missing : {"drop", "zero"}
        By default missing rows (nulls and NaN) have no rank; with "zero" they, and infinite ones, count as 0,
        which `REPLACE_SPECIAL` does not allow: a null record contributes nothing.
    epsilon, max_contributions, unit, keep, neighboring_relation, source, ticket
        As for `private_count`.

    Returns
    -------
    Estimate
        Its value is a float, one of the candidates.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`, or if ε is so small that an interval would span 2³³ rows. Nothing was drawn.

    Notes
    -----
    Every value counts as the candidate nearest to it, the smaller one of two. With q = a/b and n rows, of which L are
    below a candidate and M at it or below, its utility is −max(b·L − a·n, a·n − b·M): an integer that is at least 0
    just where the candidate is a quantile, ties included. A row that is added or removed moves it by at most
    max(a, b − a), one that is replaced by at most b: exact in machine arithmetic. The utilities are about those of
    [Smi11] Algorithm 2, the choice is by permute-and-flip [MS20], which is ε-differentially private and nothing better:
    it has no bounded range. For very many choices composed at a δ, `ExponentialMechanism` with utilities of your own
    may therefore cost less.

    With probability 1 − β the released number is a quantile of its own up to (2·Δ/ε)·ln(m/β)/b ranks, for m candidates
    of equal weight, where Δ is the sensitivity of the utility: for a median, one row a unit and 1000 candidates, up to
    10/ε ranks with 95 percent. Of weighted candidates m is the sum of all weights, divided by that of the quantiles of
    the column as it counts.

    That is a statement in ranks. An interval of values follows from two choices more, which `interval_level` asks for:
    `Estimate.interval` then holds every quantile of the clamped values with at least that probability, for any column,
    as the docstring of `ferrodp.statistics.ranks.quantiles` proves. At a level above the one that was paid for it
    spans the bounds. Its ends lie some 50/ε ranks from the median, for decimals and a level of 0.95.

    References
    ----------
    [MS20] McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially private selection", NeurIPS 2020.
    [Smi11] Smith, "Privacy-preserving statistical estimation with optimal convergence rates", STOC 2011, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_quantile(np.arange(10_000), 0.5, bounds=(0.0, 10_000.0), epsilon=1.0)
    >>> abs(float(estimate) - 5_000.0) < 100.0
    True
    >>> options = {"bounds": (0.0, 10_000.0), "epsilon": 2.0, "interval_level": 0.95}
    >>> lower, upper = private_quantile(np.arange(10_000), 0.5, **options).interval(0.95)
    >>> 4_900.0 < lower <= upper < 5_100.0
    True
    """
    spent = budget(epsilon, 0.0, max_contributions, neighboring_relation, source, ticket)
    spent, bounds, candidates = timed(spent, bounds, candidates)
    spent.check_missing(missing)
    spent = _units.of_units(spent, unit, keep, missing)
    ratio = ratio_of(quantile)
    array = ranked(spent, values, missing)
    points = among(bounds, candidates, num_candidates, array)
    found = sought(spent, ratio, points, interval_level)
    event = composed(found.events)
    rows = passed_rows(lambda: _candidates.ordered(array), lambda: (found.events, points, ratio, interval_level))
    said = spent.says(f"quantile {float(ratio):g}", values, points.ends(True))
    sources = said.sources(*found.events, null_distance=None)
    value, *ends = found.of(rows, iter(sources))
    return spent.estimate(value, None, event, f"quantile {float(ratio):g}", found.law(value, tuple(ends)))


@_arrays.quiet
def private_quantiles(
    values: Any,
    quantiles: Sequence[Real],
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
    interval_level: Real | None = None,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[npt.NDArray[np.float64]]:
    """Return candidates near several quantiles, in ascending order where the quantiles are.

    Each is a choice with an equal share of ε; sorting them is post-processing.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, interval_level, epsilon, max_contributions, unit, keep, missing
        As for `private_quantile`.
    neighboring_relation, source, ticket
        As for `private_quantile`.
    quantiles : sequence of float
        From 1 to 1000 numbers between 0 and 1, in ascending order.

    Returns
    -------
    Estimate
        Its value is a float64 array, one candidate a quantile; its labels are the quantiles. With `interval_level` each
        has an interval of its own.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = private_quantiles(np.arange(10_000), [0.25, 0.5, 0.75], bounds=(0.0, 10_000.0), epsilon=3.0)
    >>> [abs(value - due) < 300.0 for value, due in zip(estimate.value.tolist(), [2500, 5000, 7500], strict=True)]
    [True, True, True]
    """
    spent = budget(epsilon, 0.0, max_contributions, neighboring_relation, source, ticket)
    spent, bounds, candidates = timed(spent, bounds, candidates)
    spent.check_missing(missing)
    spent = _units.of_units(spent, unit, keep, missing)
    ratios = ratios_of(quantiles)
    array = ranked(spent, values, missing)
    points = among(bounds, candidates, num_candidates, array)
    # mutant: quantiles-with-the-whole-budget-each
    share = spent.share(1, len(ratios))
    found = [sought(share, ratio, points, interval_level) for ratio in ratios]
    event = composed([event for each in found for event in each.events])
    rows = passed_rows(lambda: _candidates.ordered(array), lambda: (event, points, ratios, interval_level))
    levels = ", ".join(f"{float(ratio):g}" for ratio in ratios)
    said = spent.says(f"quantiles {levels}", values, points.ends(True))
    drawn = iter(said.sources(*[event for each in found for event in each.events], null_distance=None))
    chosen = [each.of(rows, drawn) for each in found]
    values = np.sort(np.array([each[0] for each in chosen]))
    return spent.estimate(
        values,
        None,
        event,
        "quantiles",
        labels=tuple(float(ratio) for ratio in ratios),
        _laws=laws(found, values, [each[1:] for each in chosen]),
    )


def private_median(
    values: Any,
    *,
    bounds: Bounds | None = None,
    candidates: npt.ArrayLike | None = None,
    num_candidates: int | None = None,
    interval_level: Real | None = None,
    epsilon: Real | None = None,
    max_contributions: int = 1,
    unit: Any = None,
    keep: Keep = "random",
    missing: Missing = "drop",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    source: NoiseSource | None = None,
    ticket: Ticket | None = None,
) -> Estimate[float]:
    """Return a candidate near the median: the quantile 0.5.

    Parameters
    ----------
    values, bounds, candidates, num_candidates, interval_level, epsilon, max_contributions, unit, keep, missing
        As for `private_quantile`.
    neighboring_relation, source, ticket
        As for `private_quantile`.

    Returns
    -------
    Estimate
        As for `private_quantile`.

    Raises
    ------
    InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
        As for `private_count`. Nothing was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> abs(float(private_median(np.arange(10_000), bounds=(0.0, 10_000.0), epsilon=1.0)) - 5_000.0) < 100.0
    True
    """
    return private_quantile(
        values,
        0.5,
        bounds=bounds,
        candidates=candidates,
        num_candidates=num_candidates,
        interval_level=interval_level,
        epsilon=epsilon,
        max_contributions=max_contributions,
        unit=unit,
        keep=keep,
        missing=missing,
        neighboring_relation=neighboring_relation,
        source=source,
        ticket=ticket,
    )


class Among(NamedTuple):
    """The public numbers that a choice is among: listed, or between two bounds."""

    points: Doubles | None
    lower: float
    upper: float
    whole: bool

    def nearest(self, weight: float | None = None) -> Candidates:
        """Return the candidates of a quantile, or others whose finest level has this weight."""
        if self.points is not None:
            return Listed(self.points)
        return _candidates.between(self.lower, self.upper, self.whole, weight)

    def ends(self, upward: bool) -> tuple[float, float]:
        """Return the bounds, in ascending order or the other way round."""
        return (self.lower, self.upper) if upward else (self.upper, self.lower)

    def between(self, lower: float, upper: float) -> Among:
        """Return those between two of them, or all if the two are one."""
        if lower == upper:
            return self
        listed = None if self.points is None else self.points[(self.points >= lower) & (self.points <= upper)]
        return Among(listed, lower, upper, self.whole)

    def few(self, toward: Toward, most: int, digits: int) -> Listed:
        """Return few of them, and an outer one: those of the end of an interval, or of an extreme."""
        if self.points is not None:
            return Listed(self.points, toward)
        return _candidates.few_between(self.lower, self.upper, self.whole, most, digits, toward)


class Choice(NamedTuple):
    """One choice: among what, of which rank, by which mechanism."""

    among: Candidates
    rank: Rank
    mechanism: PermuteAndFlip

    def of(self, rows: Ascending, source: NoiseSource) -> float:
        """Return what is chosen."""
        return self.among.choose(rows, self.rank, self.mechanism, source)


class Sought(NamedTuple):
    """A quantile, and with a level the ends of its interval."""

    choices: list[Choice]
    level: float | None
    outermost: tuple[float, float]

    @property
    def events(self) -> list[PrivacyEvent]:
        """What the choices cost, one after another."""
        return [each.mechanism.event for each in self.choices]

    def of(self, rows: Ascending, sources: Iterator[NoiseSource]) -> tuple[float, ...]:
        """Return the number, and the ends of its interval."""
        return tuple(choice.of(rows, next(sources)) for choice in self.choices)

    def law(self, value: float, ends: tuple[float, ...]) -> Transformed | None:
        """Return what the interval of a released number follows from."""
        if self.level is None:
            return None
        return Transformed(_interval(self.level, (min(ends[0], value), max(ends[1], value)), self.outermost))


def _interval(
    paid: float, ends: tuple[float, float], outermost: tuple[float, float]
) -> Callable[[float], tuple[float, float]]:
    """Return what an interval holds at a level: between the ends up to the one that was paid for."""
    # mutant: interval-at-a-level-that-was-not-paid
    return lambda level: ends if level <= paid else outermost


def sought(spent: Budget, ratio: Fraction, among: Among, level: Real | None) -> Sought:
    """Return the choices that a quantile takes."""
    rank, outermost = Rank.of(ratio), (among.lower, among.upper)
    if level is None:
        return Sought([Choice(among.nearest(), rank, mechanism(spent, rank))], None, outermost)
    checked = level_of(level)
    # mutant: interval-of-a-quantile-is-free
    half, quarter = spent.share(1, 2), spent.share(1, 4)
    chosen, outside = [Choice(among.nearest(), rank, mechanism(half, rank))], 0.5 * (1.0 - checked)
    # mutant: ends-of-an-interval-taken-for-monotonic
    of_ends = mechanism(quarter, Rank.of(ratio, 1))
    for toward, sign in (("down", -1), ("up", 1)):
        few = among.few(toward, *_OF_ENDS)  # type: ignore[arg-type]  # of the literals above
        shift = few.reach(of_ends, outside)
        if shift > ratio.denominator * _MAX_ROWS:
            raise InvalidParameter(_FEWEST_EPSILON)
        # mutant: ends-of-an-interval-at-the-quantile
        chosen.append(Choice(few, Rank.of(ratio, sign * shift), of_ends))
    return Sought(chosen, checked, outermost)


def laws(found: Sequence[Sought], values: Doubles, ends: Sequence[tuple[float, ...]]) -> tuple[Transformed, ...] | None:
    """Return what the intervals of several numbers follow from, or None."""
    made = [each.law(value, pair) for each, value, pair in zip(found, values.tolist(), ends, strict=True)]
    return None if None in made else tuple(law for law in made if law is not None)


def composed(events: Sequence[PrivacyEvent]) -> PrivacyEvent:
    """Return what releases about the same rows cost together."""
    return events[0] if len(events) == 1 else ComposedEvent(events=tuple(events))


def level_of(level: Real) -> float:
    """Return the level of an interval."""
    checked = _validate.probability("interval_level", level)
    if not 0.0 < checked < 1.0:
        raise _validate.out_of_domain("interval_level", "between 0 and 1, both excluded", level)
    return checked


def mechanism(spent: Budget, rank: Rank) -> PermuteAndFlip:
    """Return the mechanism that chooses by the distance from a rank."""
    # Rows of a unit that are replaced may move utilities both ways, if there are two of them.
    monotonic = rank.is_outermost and not (spent.replaces and spent.max_contributions > 1)
    with part_of_a_statistic():
        return PermuteAndFlip.calibrated(
            epsilon=spent.epsilon,
            sensitivity=rank.moved(spent.replaces) * spent.max_contributions,
            monotonic=monotonic,
        )


def timed(spent: Budget, bounds: Any, candidates: Any) -> tuple[Budget, Any, Any]:
    """Return the budget that knows of what kind bounds and candidates are if they are times, and these as numbers."""
    if candidates is not None and (clock := clock_of(candidates)) is not None:
        spent = spent._replace(clock=clock._replace(whole=True))
        return spent, bounds, public_times(clock, list(candidates), "candidates")
    return *spent.timed(bounds, whole=True), candidates


def ranked(spent: Budget, values: object, missing: object) -> Column:
    """Return a column whose ranks are looked for."""
    return not_too_long(_units.numbers(spent, values, missing))


def not_too_long(array: Column) -> Column:
    """Return the same column, or refuse one whose ranks would not be exact."""
    if array.values.size > _MAX_ROWS:
        raise InvalidParameter(f"values must be at most {_MAX_ROWS} rows")
    return array


def ratio_of(quantile: object) -> Fraction:
    """Return a quantile as a ratio of integers."""
    _validate.probability("quantile", quantile)
    return Fraction(_validate.exact("quantile", quantile)).limit_denominator(_DENOMINATOR)


def ratios_of(quantiles: Any) -> list[Fraction]:
    """Return several quantiles in ascending order as ratios of integers."""
    if not isinstance(quantiles, (list, tuple, np.ndarray)) or not 1 <= len(quantiles) <= 1000:
        got = (
            f"{len(quantiles)} of them"
            if isinstance(quantiles, (list, tuple, np.ndarray))
            else type(quantiles).__name__
        )
        raise InvalidParameter(
            f"quantiles must be a sequence of 1 to 1000 numbers between 0 and 1, got {got}; write [0.25, 0.5, 0.75]"
        )
    ratios = [ratio_of(each) for each in quantiles]
    if sorted(ratios) != ratios:
        raise InvalidParameter("quantiles must be in ascending order")
    return ratios


def among(ends: object, candidates: Any, number: Any, array: Column) -> Among:
    """Return the public numbers to choose among; of the column only its dtype decides on them."""
    if (ends is None) == (candidates is None):
        raise InvalidParameter(
            f"exactly one of bounds and candidates must be given, got {'neither' if ends is None else 'both'}: "
            "bounds=(0, 100) or candidates=[...]"
        )
    if ends is None:
        points = public_numbers(candidates, "candidates", range(1, MAX_CANDIDATES + 1)).astype(np.float64)
        if not np.isfinite(points).all():
            raise InvalidArray("candidates must be finite")
        return Among(points, float(points.min()), float(points.max()), False)
    lower, upper = bounds(ends)
    if number is None:
        return Among(None, lower, upper, array.values.dtype.kind in "iu")
    count = _validate.count("num_candidates", number, minimum=2, maximum=MAX_CANDIDATES)
    return Among(np.linspace(lower, upper, count), lower, upper, False)
