"""Quantiles where values are equal, out of bounds or between candidates: what is chosen, how far rows move it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation
from ferrodp.statistics._column import column
from ferrodp.statistics.ranks import candidates, quantiles
from ferrodp.statistics.ranks.candidates import Listed
from ferrodp.testing import record

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
VALUES = (-1.0, 0.0, 0.6, 1.0, 2.0, math.nan)
CANDIDATES = (0.0, 1.0, 2.0)


def seeded(number):
    return fd.testing.seeded(number.to_bytes(32, "big"))


def changed(rows, relation):
    """Every column that differs in one row."""
    for place in range(len(rows)):
        rest = rows[:place] + rows[place + 1 :]
        if relation is ADD:
            yield rest
        others = VALUES if relation is REPLACE else [math.nan] if relation is SPECIAL else []
        yield from ((*rest, new) for new in others)


@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL])
@pytest.mark.parametrize("units_rows", [1, 2])
@pytest.mark.parametrize("kind", ["1/4", "1/2", "9/10", "max", "min"])
def test_no_two_neighbors_are_further_apart_than_declared(kind, units_rows, relation):
    """All columns of up to 4 rows over 6 values, and all that up to two rows of a unit make of them; it is reached."""
    known, sensitivity = {}, None
    options = {"candidates": CANDIDATES, "epsilon": 1.0, "neighboring_relation": relation}

    def utilities(rows):
        nonlocal sensitivity
        rows = tuple(sorted(rows, key=str))
        if rows not in known:
            with record() as log:
                values = np.array(rows, np.float64)
                if kind in ("max", "min"):
                    release = fd.private_max if kind == "max" else fd.private_min
                    release(values, rank=1, max_contributions=units_rows, **options)
                else:
                    fd.private_quantile(values, Fraction(kind), max_contributions=units_rows, **options)
            known[rows], sensitivity = log[0].value, log[0].sensitivity
        return known[rows]

    furthest = 0.0
    for size in (1, 2, 3, 4):
        for rows in itertools.combinations_with_replacement(VALUES, size):
            others = {rows}
            for _ in range(units_rows):
                others = {new for each in others for new in changed(each, relation)}
            furthest = max([furthest, *(np.abs(utilities(rows) - utilities(other)).max() for other in others)])
    assert furthest == sensitivity


@pytest.mark.parametrize(
    ("values", "bounds", "due"),
    [
        (np.full(10**4, 40), (0, 120), 40.0),
        (np.full(10**4, 48.8566), (-90, 90), 48.8566),
        (np.full(10**4, 50.0), (0, 10), 10.0),
        (np.full(10**4, -math.inf), (2.5, 10), 2.5),
        (np.repeat([1, 0], [6000, 4000]), (0, 1), 1.0),
        (np.full(10**4, 36_345.0), (0, 1e9), 36_345.0),
        (np.full(10**4, 7e-5), (0, 1e4), 7e-5),
    ],
)
def test_where_values_are_equal_they_are_released(values, bounds, due):
    """Other candidates are 2000 steps of utility away at least: e^(−1000) each, for 2⁵⁶ copies of them and ε = 1."""
    for release in (fd.private_median, fd.private_max, fd.private_min):
        rank = {} if release is fd.private_median else {"rank": 1000, "num_candidates": None}
        if release is fd.private_median or due not in (48.8566, 36_345.0, 1.0):
            assert release(values, bounds=bounds, epsilon=1.0, **rank).value == due
    grouped = fd.private_group_by({"k": ["a"] * values.size, "x": values}, "k", keys=["a", "b"])
    assert grouped.quantile("x", 0.5, bounds=bounds, epsilon=1.0).value[0] == due
    assert fd.private_quantiles(values, [0.45, 0.5], bounds=bounds, epsilon=2.0).value.tolist() == [due, due]


def test_rows_halfway_between_two_candidates_count_as_the_smaller():
    points = Listed(np.array([2.0, 1.0, 0.0, 1.0]))
    assert points.points.tolist() == [0.0, 1.0, 2.0]
    assert points.steps(np.array([-9.0, 0.5, 0.5, 0.6, 1.5, 9.0])).tolist() == [0, 0, 0, 1, 1, 2]


def test_rows_of_an_end_count_as_candidates_on_its_side():
    points, rows = np.array([0.0, 1.0, 2.0]), np.array([-9.0, 0.0, 0.5, 1.0, 1.5, 2.0, 9.0])
    assert Listed(points, "down").steps(rows).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert Listed(points, "up").steps(rows).tolist() == [0, 0, 1, 1, 2, 2, 2]


def test_candidates_suit_the_type_of_the_column():
    """Of an array of integers they are integers; the elements of a list do not decide on them."""
    for dtype in (np.int8, np.uint64):
        points = quantiles.among((-0.5, 120.2), None, None, column(np.array([1], dtype))).nearest()
        assert points.points.tolist() == list(range(121))
        many = quantiles.among((0, 1e9), None, None, column(np.array([1], dtype))).nearest()
        assert (many.power, many.first, many.last) == (0, 0, 10**9)
    for values in ([1, 2], [1, 2.5], np.array([1.0]), np.array([True])):
        points = quantiles.among((0, 120), None, None, column(values)).nearest()
        assert (points.power, points.first, points.last) == (-9, 0, 120 * 10**9)


@pytest.mark.parametrize(
    "ends", [(0, 1), (-90, 90), (0, 1e9), (-1e300, 1e300), (1e-250, 2e-250), (1.7e12, 1.7e12 + 5), (0.1, 0.1 + 1e-15)]
)
def test_few_candidates_lie_within_the_bounds_and_hold_them(ends):
    for most, digits in ((10_000, 3), (1000, 2)):
        points = candidates.few_between(*map(float, ends), False, most, digits, "down").points
        assert (points[0], points[-1]) == ends
        assert (np.diff(points) > 0).all()
        assert points.size <= 1.2 * most + 2 * 14 * 10**digits + 3


def test_the_rank_of_a_median_is_off_by_no_more_than_its_bound():
    """200 seeds: each is beyond the bound with at most 5 percent, more than 30 of them with less than 1e-6."""
    values = np.sort(np.random.default_rng(5).normal(50.0, 15.0, 500))
    bound = 2.0 / 0.5 * math.log(1001 / 0.05) / 2
    off = 0
    for seed in range(200):
        options = {"bounds": (0, 100), "num_candidates": 1001, "epsilon": 0.5, "source": seeded(seed)}
        found = fd.private_median(values, **options).value
        # what counts as the candidate lies within half a step of it
        lower, upper = np.searchsorted(values, [found - 0.05, found + 0.05])
        off += max(lower - 250, 250 - upper) > bound
    assert off <= 30
