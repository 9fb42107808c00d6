"""Intervals of quantiles, minima and maxima: how often they hold the truth, what they cost, where they span the bounds.

Coverage is exact here, not simulated, where choices are few: the law of an end follows from weights and utilities.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation
from ferrodp.errors import InvalidParameter
from ferrodp.events import ComposedEvent, ParallelEvent
from ferrodp.statistics._budget import budget
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import candidates, quantiles
from ferrodp.statistics.ranks.candidates import Listed, Rank
from ferrodp.testing import record
from reference import selection

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
RATIOS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)]


def seeded(number):
    return fd.testing.seeded(number.to_bytes(32, "big"))


def law(choice, rows):
    """Every step that a choice is among, and its probability."""
    grid = choice.among
    low, high, utilities = grid.runs(Ascending(np.sort(rows)), choice.rank, grid.cap(choice.mechanism))
    steps = np.arange(grid.ends[0], grid.ends[1] + 1)
    of_steps = utilities[np.searchsorted(high, steps)]
    assert all(low[np.searchsorted(high, steps)] <= steps)
    weights = sum(
        copies * (level.up_to(steps) - level.up_to(steps - 1))
        for level, copies in zip(grid.levels, grid.copies, strict=True)
    )
    return steps, selection.permuted(of_steps, choice.mechanism.scale, weights)


def columns():
    """All columns of up to 4 rows over 5 places, and some of many rows."""
    for size in range(1, 5):
        yield from map(np.array, itertools.combinations_with_replacement((-0.5, 0.0, 0.3, 1.0, 2.5), size))
    rng = np.random.default_rng(7)
    yield from (rng.integers(0, 3, 60).astype(float), np.full(200, 0.3), np.repeat([0.0, 2.0], [30, 31]))
    yield from (rng.uniform(-1, 3, 300), np.repeat([0.0, 2.0], [100, 100]))


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("points", [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.5, 2.0, 2.0]], ids=["even", "weighted"])
def test_each_end_misses_the_quantile_with_at_most_half_of_what_is_left(ratio, level, points):
    """Exactly, for every column: 1e-9 covers the rounding of a sum of probabilities."""
    spent = budget(1.0, 0.0, 1, ADD, None, None)
    among = quantiles.among(None, points, None, None)
    _, lower, upper = quantiles.sought(spent, ratio, among, level).choices
    a, b, most = ratio.numerator, ratio.denominator, 0.5 * (1.0 - level) + 1e-9
    for rows in columns():
        held, n = np.clip(rows, 0.0, 2.0), rows.size
        # the q-quantiles: numbers with at least a·n/b rows at or below, and (b − a)·n/b at or above
        low = min(x for x in held if b * (held <= x).sum() >= a * n)
        high = max(x for x in held if b * (held >= x).sum() >= (b - a) * n)
        for choice, missed in ((lower, lambda x, low=low: x > low), (upper, lambda x, high=high: x < high)):
            steps, chances = law(choice, rows)
            assert sum(p for step, p in zip(steps, chances, strict=True) if missed(choice.among.value(step))) <= most


@pytest.mark.parametrize("is_max", [True, False])
@pytest.mark.parametrize("rank", [0, 1, 3, 12])
def test_an_extreme_lies_beyond_all_values_no_more_often_than_its_interval_says(is_max, rank):
    """Exactly: an interval on one side, at the greatest level at which it does not span the bounds."""
    release, points = fd.private_max if is_max else fd.private_min, [0.0, 0.4, 1.0, 2.0]
    spent = budget(1.0, 0.0, 1, ADD, None, None)
    few = Listed(np.array(points), "down" if is_max else "up")
    looked_for = Rank(1, 1, -rank) if is_max else Rank(0, 1, rank)
    choice = quantiles.Choice(few, looked_for, quantiles.mechanism(spent, looked_for))
    least = min(1.0, 5 * math.exp(-rank / choice.mechanism.scale))
    for rows in columns():
        truth = np.clip(rows, 0.0, 2.0).max() if is_max else np.clip(rows, 0.0, 2.0).min()
        steps, chances = law(choice, rows)
        beyond = [(x > truth) if is_max else (x < truth) for x in map(few.value, steps)]
        assert chances[beyond].sum() <= least + 1e-9
    found = release([1.0] * 500, candidates=points, rank=rank, epsilon=1.0)
    assert found.interval(0.999) == (0.0, 2.0)
    if least < 1.0:
        assert found.interval(1.0 - least - 1e-12) == ((found.value, 2.0) if is_max else (0.0, found.value))
        assert found.interval(1.0 - least + 1e-6) == (0.0, 2.0)


COLUMNS = {
    "incomes": (lambda rng: rng.lognormal(10.5, 0.6, 2000), (0, 1e9)),
    "ages": (lambda rng: rng.integers(18, 91, 2000), (0, 120)),
    "ties": (lambda rng: np.repeat([20.0, 40.0], [900, 1100]), (0, 100)),
    "few": (lambda rng: rng.uniform(0, 1, 12), (0, 1)),
    "beyond": (lambda rng: rng.normal(0, 1, 1000), (-0.5, 0.5)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_intervals_hold_the_quantile_at_their_level(name):
    """60 seeds of three quantiles, level 0.9: 6 of 60 may miss, more than 22 with probability below 1e-7 each."""
    make, bounds = COLUMNS[name]
    values = make(np.random.default_rng(3))
    ratios, missed, widths = [0.25, 0.5, 0.9], np.zeros(3), []
    clamped = np.clip(values, *bounds)
    truth = np.quantile(clamped, ratios, method="inverted_cdf"), np.quantile(clamped, ratios, method="higher")
    for seed in range(60):
        found = fd.private_quantiles(
            values, ratios, bounds=bounds, interval_level=0.9, epsilon=3.0, source=seeded(seed)
        )
        lower, upper = found.interval(0.9)
        assert (lower <= found.value).all()
        assert (found.value <= upper).all()
        missed += (lower > truth[0]) | (upper < truth[0])
        widths.append(upper - lower)
    assert (missed <= 22).all()
    if name in ("incomes", "ages"):
        assert (np.median(widths, axis=0)[:2] < 0.35 * np.median(clamped)).all()


def test_intervals_of_groups_hold_the_medians_at_their_level():
    """50 seeds of two groups, level 0.9: 5 of 50 may miss, more than 20 with probability below 1e-7."""
    rng = np.random.default_rng(5)
    frame = {"k": np.repeat(["a", "b"], 1000), "x": np.concatenate([rng.normal(30, 9, 1000), rng.normal(70, 9, 1000)])}
    groups = fd.private_group_by(frame, "k", keys=["a", "b", "c"])
    truth = [np.median(frame["x"][:1000]), np.median(frame["x"][1000:])]
    missed = np.zeros(2)
    for seed in range(50):
        found = groups.median("x", bounds=(0, 100), interval_level=0.9, epsilon=2.0, source=seeded(seed))
        lower, upper = found.interval(0.9)
        missed += (lower[:2] > truth) | (upper[:2] < truth)
    assert (missed <= 20).all()


def test_the_price_of_an_interval_is_a_half_of_epsilon():
    values, among = np.arange(100.0), {"bounds": (0, 100), "epsilon": 2.0}
    parts = fd.private_median(values, interval_level=0.95, **among).event.events
    assert [each.epsilon for each in parts] == [1.0, 0.5, 0.5]
    assert fd.private_median(values, **among).event.epsilon == 2.0
    several = fd.private_quantiles(values, [0.5, 0.9], interval_level=0.95, **among).event.events
    assert sum(Fraction(each.epsilon) for each in several) <= 2
    groups = fd.private_group_by({"k": [0, 1] * 50, "x": values}, "k", keys=[0, 1])
    event = groups.quantiles("x", [0.5, 0.9], interval_level=0.95, **among).event
    assert isinstance(event, ParallelEvent)
    assert all(isinstance(each, ComposedEvent) and len(each.events) == 6 for each in event.events)
    assert sum(Fraction(each.epsilon) for each in event.events[0].events) <= 2
    with fd.budget(epsilon=2.0) as spending:
        fd.private_median(values, bounds=(0, 100), interval_level=0.95, epsilon=1.0)
        groups.median("x", bounds=(0, 100), interval_level=0.95, epsilon=1.0)
    assert sum(each.epsilon for each in spending.report().charges) == pytest.approx(2.0)


def test_what_is_recorded_of_an_interval_moves_by_no_more_than_its_sensitivity():
    """Columns of up to 3 rows over 5 values, one of them removed or replaced; the sensitivity is reached."""
    values = (-1.0, 0.0, 0.6, 2.0, math.nan)
    for relation in (ADD, NeighboringRelation.REPLACE_ONE):
        known, declared = {}, None
        for size in range(4):
            for rows in itertools.combinations_with_replacement(values, size):
                with record() as log:
                    fd.private_quantile(
                        np.array(rows), 0.75, candidates=[0.0, 1.0, 2.0], interval_level=0.5,
                        epsilon=20.0, neighboring_relation=relation,
                    )  # fmt: skip
                known[rows], declared = [entry.value for entry in log], [entry.sensitivity for entry in log]
        furthest = [0.0] * 3
        for rows, there in known.items():
            for place in range(len(rows)):
                rest = rows[:place] + rows[place + 1 :]
                others = (
                    [rest] if relation is ADD else [tuple(sorted((*rest, new), key=values.index)) for new in values]
                )
                for other in others:
                    for i in range(3):
                        furthest[i] = max(furthest[i], np.abs(known[other][i] - there[i]).max())
        assert furthest == declared


def test_an_interval_that_was_not_paid_spans_the_bounds_or_is_refused():
    found = fd.private_median(np.arange(1000.0), bounds=(0, 1e4), interval_level=0.9, epsilon=4.0)
    assert found.interval(0.95) == (0.0, 1e4)
    assert found.interval(0.5) == found.interval(0.9) != (0.0, 1e4)
    assert (2 * found).interval(0.9) == tuple(2 * end for end in found.interval(0.9))
    with pytest.raises(InvalidParameter, match=r"interval_level=0\.95"):
        fd.private_median([1.0], bounds=(0, 1), epsilon=1.0).interval()
    for level in (0.0, 1.0):
        with pytest.raises(InvalidParameter, match="interval_level"):
            fd.private_median([1.0], bounds=(0, 1), interval_level=level, epsilon=1.0)
    with pytest.raises(InvalidParameter, match="epsilon must be larger"):
        fd.private_median([1.0], bounds=(0, 1), interval_level=0.9, epsilon=1e-9)


def test_ends_are_found_in_few_candidates():
    assert candidates.few_between(0.0, 1e9, False, 10**4, 3, "down").points.size < 25_000
    assert candidates.few_between(0.0, 120.0, True, 10**4, 3, "up").points.tolist() == list(range(121))
