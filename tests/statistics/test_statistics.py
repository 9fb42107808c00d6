"""Statistics of columns: exact sensitivity, honest noise, accounting, bad input."""

import datetime
import itertools
import math
import operator
import sys
import tracemalloc
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation, PureDpAccountant
from ferrodp.accounting.curves import hockey_stick_epsilon
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.statistics import _budget, _column, counts, moments, sums
from ferrodp.statistics._column import column, read
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import candidates
from ferrodp.statistics.ranks.candidates import Listed, Rank

REPLACE = NeighboringRelation.REPLACE_ONE
numbers = st.one_of(
    st.floats(width=64), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -1e308, 1e308, 0.1])
)
ends = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).filter(
    lambda pair: pair[0] < pair[1] and all(x == 0.0 or abs(x) > 1e-200 for x in pair)
)


def seeded(number):
    return fd.testing.seeded(bytes([number] * 32))


@given(ends, st.lists(numbers, max_size=6), st.lists(numbers, min_size=1, max_size=3), st.lists(numbers, min_size=3))
def test_sums_move_by_no_more_than_their_sensitivity(bounds, rows, joined, others):
    """In integers, so there is no tolerance; any rows may join, or be replaced."""
    grid = sums._grid(*bounds)
    for missing in ("drop", "zero"):

        def total(values, missing=missing):
            return grid.total(column(np.array(values), missing))

        assert abs(total(rows + joined) - total(rows)) <= grid.moved_by(len(joined), replaced=False)
        moved = abs(total(rows + joined) - total(rows + others[: len(joined)]))
        assert moved <= grid.moved_by(len(joined), replaced=True, can_miss=missing == "drop")


def test_the_sensitivity_of_a_sum_is_reached():
    grid = sums._grid(-3.0, 7.0)

    def total(*values):
        return grid.total(column(np.array(values)))

    assert total(1e300) == grid.moved_by(1, replaced=False) == 7 * 2**28
    assert total(1e300) - total(-1e300) == grid.moved_by(1, replaced=True)


def test_a_row_that_may_be_missing_moves_a_sum_by_its_distance_from_zero():
    """Bounds (99, 100): a row that is replaced by a missing one moves the sum by 100, not by 1."""
    grid = sums._grid(99.0, 100.0)
    moved = grid.total(column(np.array([100.0]))) - grid.total(column(np.array([math.nan])))

    assert moved == grid.moved_by(1, replaced=True, can_miss=True) == 100 * grid.moved_by(1, replaced=True)
    keywords = {"bounds": (99.0, 100.0), "epsilon": 1.0, "neighboring_relation": REPLACE}
    whole, dropped = ([100, 99], [100.0, 99.0])
    assert fd.private_sum(np.array(whole), **keywords).event.l1_sensitivity == grid.moved_by(1, replaced=True)
    assert fd.private_sum(np.array(dropped), **keywords).event.l1_sensitivity == moved
    counted = fd.private_sum(np.array(dropped), missing="zero", **keywords)
    assert counted.event.l1_sensitivity == grid.moved_by(1, replaced=True)


def test_rounded_sums_move_by_their_sensitivity_and_no_more():
    """All multisets of up to three of these values, on a grid of which no bound is a multiple.

    A total of about half a step shows why the sensitivity is rounded up.
    """
    grid = sums._grid(-0.3, 0.7)
    part = grid.width_of_part
    values = [-0.3, 0.7, 0.1, part, -part, *(part * (2**21 - 1 - k) for k in range(2)), 5e-324, -1e9]
    totals = {
        rows: grid.total(column(np.array(rows, float)))
        for size in range(4)
        for rows in itertools.combinations_with_replacement(values, size)
    }
    one, two = (
        [
            abs(totals[tuple(sorted((*rows, *more), key=values.index))] - totals[rows])
            for rows in totals
            for more in itertools.combinations_with_replacement(values, joined)
            if len(rows) + joined <= 3
        ]
        for joined in (1, 2)
    )
    swapped = [
        abs(totals[tuple(sorted((*rows, a), key=values.index))] - totals[tuple(sorted((*rows, b), key=values.index))])
        for rows in totals
        if len(rows) < 3
        for a in values
        for b in values
    ]

    assert max(one) == grid.moved_by(1, replaced=False) == math.ceil(Fraction(0.7) / Fraction(grid.width))
    assert max(two) <= grid.moved_by(2, replaced=False)
    assert max(swapped) <= grid.moved_by(1, replaced=True) <= max(swapped) + 1


@pytest.mark.parametrize("bounds", [(-0.3, 0.7), (1 / 3, 1e9), (-3e-7, 1e-9)])
def test_a_bound_is_worth_its_integer_of_parts(bounds):
    """So what is cut at a bound is what the sensitivity is computed from: toward zero."""
    grid = sums._grid(*bounds)
    for end in bounds:
        ((steps,), (beyond,)) = grid.quantized(np.array([end]))

        assert (
            int(steps) * 2**22 + int(beyond)
            == grid.parts(end)
            == math.trunc(Fraction(end) / Fraction(grid.width_of_part))
        )


@given(ends, st.lists(numbers, max_size=30))
def test_sums_without_noise_are_within_half_a_step_and_a_part_a_row(bounds, rows):
    """Against fractions: clamped values are added as they are."""
    grid = sums._grid(*bounds)
    clamped = [min(max(Fraction(row), Fraction(bounds[0])), Fraction(bounds[1])) for row in rows if math.isfinite(row)]
    clamped += [Fraction(bounds[row > 0]) for row in rows if math.isinf(row)]
    off = abs(grid.total(column(np.array(rows))) - sum(clamped) / Fraction(grid.width))

    assert off <= Fraction(1, 2) + Fraction(len(rows), 2**22) < sums.SLACK


@given(ends, st.lists(numbers, max_size=30))
def test_sums_of_squares_are_within_their_slack(bounds, rows):
    """Against fractions of the distances from the middle that the definition has."""
    assume(bounds[1] - bounds[0] > 1e-99)
    about = moments.About.of(bounds)
    known = [row for row in rows if not math.isnan(row)]
    distances = [Fraction(min(max(row, bounds[0]), bounds[1])) - Fraction(about.middle) for row in known]
    truths = sum(distances), sum(each**2 - Fraction(about.half) for each in distances)
    found = [sums.whole_steps(halves) for halves in moments._halves(column(np.array(rows)), about)]
    grids = about.distances, about.squares
    off = [abs(a - b / Fraction(grid.width)) for a, b, grid in zip(found, truths, grids, strict=True)]

    assert off[0] <= Fraction(1, 2) + Fraction(len(rows), 2**21)
    assert off[1] <= Fraction(1, 2) + Fraction(len(rows), 2**19)


def rows_that_are_cut_to_nothing(statistic):
    """Return the interval and the truth: 2^23 values of almost a part each, together two steps, which the sum lacks."""
    value, size = math.nextafter(2.0**-52, 0.0), 2**23
    rows = np.broadcast_to(value, size)
    keywords = {"bounds": (-1.0, 1.0), "epsilon": 2.0**34, "source": seeded(3)}
    if statistic == "sum":
        return fd.private_sum(rows, **keywords).interval(0.5), value * size
    if statistic == "mean":
        return fd.private_mean(rows, **keywords).interval(0.5), value
    groups = fd.private_group_by({"g": np.zeros(size, np.int8), "x": rows}, "g", keys=[0])
    if statistic == "sum of a group":
        return groups.sum("x", **keywords)[0].interval(0.5), value * size
    return groups.mean("x", **keywords)[0].interval(0.5), value


@pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")
@pytest.mark.parametrize("statistic", ["sum", "mean", "sum of a group", "mean of a group"])
def test_intervals_know_what_rows_lose_on_the_grid(statistic):
    """The noise is 0 but for a probability of e^-8 a draw, of a fixed seed; without it only the slack is left."""
    (lower, upper), truth = rows_that_are_cut_to_nothing(statistic)

    assert lower <= truth <= upper


@pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")
def test_intervals_hold_sums_of_many_rows_at_little_noise():
    """10^6 rows at ε = 10^4: cut to steps row by row, their sum was twenty standard deviations of the noise too low.

    300 releases; below 0.9 with probability 3e-4 at a coverage of 0.95, and the seed is fixed.
    """
    rows, source = np.random.default_rng(8).uniform(0.0, 100.0, 10**6), seeded(4)
    truth = math.fsum(rows)
    found = [fd.private_sum(rows, bounds=(0, 100), epsilon=1e4, source=source).interval(0.95) for _ in range(300)]

    assert sum(lower <= truth <= upper for lower, upper in found) > 0.9 * 300


@pytest.mark.parametrize("missing", ["drop", "zero"])
def test_missing_rows_are_left_out_or_count_as_zeros(missing):
    rows = np.array([4.0, math.nan, 7.0, math.nan, 1.0, 1.0])
    there = rows[~np.isnan(rows)] if missing == "drop" else np.nan_to_num(rows)
    for release in (
        lambda values: fd.private_count(values, epsilon=1.0, missing=missing, source=seeded(6)),
        lambda values: fd.private_sum(values, bounds=(-1, 5), epsilon=1.0, missing=missing, source=seeded(6)),
        lambda values: fd.private_mean(values, bounds=(-1, 5), epsilon=1.0, missing=missing, source=seeded(6)),
        lambda values: fd.private_quantile(values, 0.4, bounds=(-1, 5), epsilon=1.0, missing=missing, source=seeded(6)),
    ):
        assert release(rows).value == release(there).value


def test_infinite_values_count_as_the_bounds():
    rows, clamped = np.array([math.inf, -math.inf, math.inf, 2.0]), np.array([5.0, -1.0, 5.0, 2.0])
    for release in (
        lambda values: fd.private_count(values, epsilon=1.0, source=seeded(6)),
        lambda values: fd.private_mean(values, bounds=(-1, 5), epsilon=1.0, source=seeded(6)),
    ):
        assert release(rows).value == release(clamped).value


@pytest.mark.parametrize("missing", ["drop", "zero"])
@given(st.lists(numbers, max_size=8), numbers, numbers, st.fractions(0, 1, max_denominator=1000))
def test_utilities_of_quantiles_move_by_no_more_than_their_sensitivity(missing, rows, joined, other, ratio):
    points = np.array([-1e9, -1.0, 0.0, 0.1, 2.0, 1e308])

    def utilities(values):
        among, rank = Listed(points), Rank.of(ratio)
        rows = candidates.ordered(column(np.array(values, np.float64), missing))
        low, high, of_runs = among.runs(Ascending(rows), rank, 10**9)
        found = of_runs[[next(i for i in range(low.size) if low[i] <= c <= high[i]) for c in range(6)]]
        if missing == "drop":
            counted = [value for value in values if not math.isnan(value)]
        else:
            counted = [value if math.isfinite(value) else 0.0 for value in values]
        # as floats, which decide between two candidates: any point would do for the sensitivity
        middles = [Fraction(0.5 * a + 0.5 * b) for a, b in itertools.pairwise(points.tolist())]
        # infinite ones are beyond every middle
        held = [sum(x > 1.7e308 or (x > -1.7e308 and Fraction(x) > m) for m in middles) for x in counted]
        below, above = ([sum(test(x, c) for x in held) for c in range(6)] for test in (operator.lt, operator.gt))
        n, a, b = len(held), ratio.numerator, ratio.denominator
        due = [-max(b * i - a * n, a * n - b * (n - j)) for i, j in zip(below, above, strict=True)]
        assert found.tolist() == due
        assert found.max() >= 0.0
        return found

    moved = np.abs(utilities([*rows, joined]) - utilities(rows)).max()
    assert moved <= max(ratio.numerator, ratio.denominator - ratio.numerator)
    replaced = np.abs(utilities([*rows, joined]) - utilities([*rows, other])).max()
    assert replaced <= ratio.denominator


def test_bins_are_those_of_numpy_and_drop_what_is_outside():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(size=1000), [math.nan, math.inf, -math.inf, -1.0, 2.0]])
    edges = np.array([-1.0, -0.5, 0.0, 0.25, 2.0])

    finite = values[np.isfinite(values)]
    assert counts._binned(edges, [values]).tolist() == np.histogram(finite, edges)[0].tolist()
    codes = rng.integers(0, 9, 500)
    assert counts.by_category(read(codes), np.array([7, 2, 5])).tolist() == [(codes == c).sum() for c in (7, 2, 5)]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_counts_and_sums_are_unbiased_with_the_stated_error(delta):
    """400 seeded releases each; the mean of the errors, in standard errors, is normal: false alarm 1e-9."""
    source = seeded(1)
    rows = np.linspace(0.0, 10.0, 101)
    for release, truth in (
        (lambda: fd.private_count(rows > 5.0, epsilon=0.5, delta=delta, source=source), 50),
        (lambda: fd.private_sum(rows, bounds=(0.0, 10.0), epsilon=0.5, delta=delta, source=source), rows.sum()),
    ):
        found = [release() for _ in range(400)]
        errors = (np.array([float(x) for x in found]) - truth) / found[0].standard_error

        assert 2 * stats.norm.sf(abs(errors.mean()) * 20.0) > 1e-9
        # fourth moments of both laws are at most 6: the variance of the mean square is below 5/400
        assert abs((errors**2).mean() - 1.0) < 6.2 * math.sqrt(5 / 400)


def test_the_event_keeps_the_budget():
    rows = np.arange(50.0)
    for delta in (0.0, 1e-6):
        for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE):
            keywords = {"epsilon": 0.7, "delta": delta, "neighboring_relation": relation, "max_contributions": 3}
            for estimate in (
                fd.private_count(rows > 3.0, **keywords),
                fd.private_sum(rows, bounds=(-5.0, 80.0), **keywords),
                fd.private_mean(rows, bounds=(-5.0, 80.0), **keywords),
            ):
                assert (estimate.epsilon, estimate.delta, estimate.neighboring_relation) == (0.7, delta, relation)
                parts = getattr(estimate.event, "events", (estimate.event,))
                for part in parts:
                    if delta:
                        spent = hockey_stick_epsilon(part, delta / len(parts), neighboring_relation=relation).upper
                    else:
                        pure = PureDpAccountant(neighboring_relation=relation)
                        pure.compose(part)
                        spent = pure.epsilon(0.0)
                    assert spent <= 0.7 / len(parts)
                assert "3 rows" in estimate.unit


def test_means_stay_within_the_bounds_and_use_the_public_size():
    rows = np.full(2000, 3.0)
    for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE):
        near = fd.private_mean(rows, bounds=(0.0, 10.0), epsilon=2.0, neighboring_relation=relation, source=seeded(2))
        assert abs(float(near) - 3.0) < 0.2  # forty standard errors of 5/2000
    for seed in range(30):
        wild = fd.private_mean([1.0], bounds=(0.0, 10.0), epsilon=0.01, source=seeded(seed))
        assert 0.0 <= float(wild) <= 10.0
    empty = fd.private_mean([], bounds=(0.0, 10.0), epsilon=20.0, neighboring_relation=REPLACE, source=seeded(5))
    assert abs(float(empty) - 5.0) < 5.0


def test_the_number_of_rows_of_a_mean_has_noise_of_its_own():
    """By its two releases under the same seed: first the number of rows, then the sum."""
    rows, grid = np.full(5, 9.0), sums._grid(-5.0, 5.0)
    source = seeded(22)
    number = fd.DiscreteLaplaceMechanism.calibrated(epsilon=0.05, l1_sensitivity=2).release(5, source=source)
    moved = grid.moved_by(2, replaced=False)
    noised = fd.DiscreteLaplaceMechanism.calibrated(epsilon=0.05, l1_sensitivity=moved)
    total = noised.release(grid.total(column(rows - 5.0)), source=source) * grid.width
    assert 0.0 < 5.0 + total / number < 10.0  # not cut off, so it shows which number it was divided by

    mean = fd.private_mean(rows, bounds=(0.0, 10.0), epsilon=0.1, max_contributions=2, source=seeded(22))

    assert float(mean) == min(max(5.0 + total / number, 0.0), 10.0)
    of_rows = fd.DiscreteLaplaceMechanism.calibrated(epsilon=0.05, l1_sensitivity=2).standard_deviation
    both = math.hypot(noised.standard_deviation * grid.width, (float(mean) - 5.0) * of_rows)
    assert mean.standard_error == both / number


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE])
def test_the_sensitivity_of_a_histogram_is_the_furthest_its_counts_can_move(relation, rows, delta):
    """By all ways in which the rows of one unit fall into the bins or none, and are replaced or were not there."""
    keywords = {"epsilon": 1.0, "delta": delta, "max_contributions": rows, "neighboring_relation": relation}
    for size, bins in ((2, {"bins": [0, 1, 2]}), (2, {"categories": [0, 1]}), (1, {"bins": [0, 1]})):
        ways = [[fallen.count(b) for b in range(size)] for fallen in itertools.product(range(size + 1), repeat=rows)]
        moves = [np.subtract(a, b) for a in ways for b in (ways if relation is REPLACE else [[0] * size])]
        event = fd.private_histogram([], **bins, **keywords).event
        if delta:
            furthest = max(int(move @ move) for move in moves)
            assert furthest <= Fraction(event.l2_sensitivity) ** 2 < furthest * (1 + Fraction(1, 2**50))
        else:
            assert event.l1_sensitivity == max(int(abs(move).sum()) for move in moves)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_is_said_of_the_noise_does_not_depend_on_the_column(delta):
    spent = {"epsilon": 0.5, "delta": delta}
    said = [
        (
            fd.private_count(rows, **spent),
            fd.private_sum(rows, bounds=(-1.0, 6.5), **spent),
            fd.private_histogram(rows, bins=[0, 1, 2], **spent),
            fd.private_quantile(rows, 0.3, bounds=(-1.0, 6.5), epsilon=0.5),
            fd.private_mean(rows, bounds=(-1.0, 6.5), **spent),  # its error is that of a ratio
        )
        for rows in ([], [0.0], [1e-3, 2e-3], [1e300, math.nan], [-3.0] * 1000)
    ]
    assert len({tuple(estimate.event for estimate in row) for row in said}) == 1
    assert len({tuple(estimate.standard_error for estimate in row[:-1]) for row in said}) == 1


def test_histograms_add_noise_to_empty_bins_too():
    estimate = fd.private_histogram([], bins=np.arange(1001), epsilon=0.1, source=seeded(3))

    assert estimate.value.shape == (1000,)
    assert (estimate.value != 0).mean() > 0.9
    assert np.asarray(estimate).dtype == np.int64


@pytest.mark.parametrize(("quantile", "truth"), [(0.0, 0), (0.25, 2500), (0.5, 5000), (1.0, 10_000)])
def test_quantiles_are_near_the_truth(quantile, truth):
    rows = np.arange(10_001)

    found = fd.private_quantile(rows, quantile, candidates=np.arange(0, 10_001, 50), epsilon=2.0, source=seeded(4))

    assert abs(float(found) - truth) <= 100


def test_pandas_and_polars_columns_are_taken_by_dtype_alone(monkeypatch):
    """Stand-ins with the attributes that are used: neither library is needed."""

    class Series:
        def __init__(self, array, dtype):
            self._array, self.dtype = array, dtype

        def to_numpy(self, copy=False):
            return self._array

        def fill_null(self, value):
            return self

        def null_count(self):
            return 0

    for package, dtype in (("pandas", np.dtype(np.float64)), ("polars", "Float64")):
        kind = type("Series", (Series,), {"__module__": f"{package}.core"})
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
        values = np.array([1.0, 2.0])
        assert column(kind(values, dtype)).values is values
    sparse = type("Series", (Series,), {"__module__": "pandas.core"})
    with pytest.raises(InvalidArrayType, match=r'Sparse.*astype\("float64"\)'):
        column(sparse(np.array([1.0]), types.SimpleNamespace(name="Sparse[int64]")))
    lists = type("Series", (Series,), {"__module__": "polars.series"})
    with pytest.raises(InvalidArrayType, match=r"List.*list\.first\(\)"):
        column(lists(np.array(["a"]), "List(Int64)"))


def test_what_becomes_of_a_row_of_a_list_does_not_depend_on_the_others():
    """Else one row could change the dtype of all, and with it the bin of every integer that no float denotes."""
    large = 2**53 + 1
    for others in ([], [0.5], [2**63], [-(2**70)], [np.float32(1.0)]):
        array = column([large, 3, *others]).values
        assert array.dtype == np.float64
        assert array[:2].tolist() == [2.0**53, 3.0]
    assert column([]).values.dtype == np.float64
    assert column([large, None]).values[0] == 2.0**53


class Raising:
    def __eq__(self, other):
        raise RuntimeError("secret")

    def __float__(self):
        raise RuntimeError("secret")

    __hash__ = __index__ = __bool__ = __array__ = __len__ = __float__


ELEMENTS = {  # each alone, and what it is as a number
    "number": (2.5, 2.5),
    "integer": (2**53 + 1, 2.0**53),
    "beyond all floats": (-(10**400), -sys.float_info.max),
    "truth": (True, 1.0),
    "of numpy": (np.float32(0.5), 0.5),
    "truth of numpy": (np.False_, 0.0),
    "array without dimension": (np.array(3), 3.0),
    "decimal": (Decimal("1.5"), 1.5),
    "large decimal": (Decimal("-1e999"), -math.inf),
    "fraction": (Fraction(1, 3), 1 / 3),
    "none": (None, math.nan),
    "string": ("2", math.nan),
    "list": ([1.0], math.nan),
    "date": (datetime.date(2020, 1, 1), math.nan),
    "duration": (np.timedelta64(1, "D"), math.nan),
    "complex": (1j, math.nan),
    "masked": (np.ma.masked, math.nan),
    "signaling": (Decimal("sNaN"), math.nan),
    "raising": (Raising(), math.nan),
}


@pytest.mark.parametrize(("element", "number"), ELEMENTS.values(), ids=ELEMENTS)
def test_an_element_of_a_list_is_the_same_number_whatever_stands_beside_it(element, number):
    """No list is refused for one of its elements: the exception would tell of that row."""
    for others in ([], [1.0], [1.0, None], *([other] for other, _ in ELEMENTS.values())):
        found = column([element, *others]).values
        assert found.dtype == np.float64
        assert np.array_equal(found[:1], [number], equal_nan=True)
        for statistic in (fd.private_sum, fd.private_mean, fd.private_variance):
            statistic((*others, element), bounds=(0, 1), epsilon=1.0)
    fd.private_count([element], epsilon=1.0)
    fd.private_histogram([element], categories=["a"], epsilon=1.0)
    fd.private_histogram([element], bins=[0, 1], epsilon=1.0)
    table = {"key": [element] * 3, "value": [element, 1.0, None]}
    for keys in (["a"], [1], fd.KeyThreshold(epsilon=5.0, delta=0.1)):
        groups = fd.private_group_by(table, "key", keys=keys, unit="value")
        if groups.keys:
            groups.mean("value", bounds=(0, 1), epsilon=1.0)
            groups.count("value", epsilon=1.0)
    fd.release(table, sums={"value": (0, 1)}, epsilon=1.0)


def test_any_byte_that_is_not_zero_is_one_truth():
    """Whoever wrote a file may have put anything into it."""
    source, truths = seeded(9), np.full(1000, 255, np.uint8).view(bool)
    noise = int(fd.private_count([], epsilon=1.0, source=seeded(9)))
    for values in (truths, truths[::-1]):
        assert int(fd.private_count(values, epsilon=1.0, source=seeded(9))) == 1000 + noise
    assert abs(float(fd.private_sum(truths, bounds=(0, 5), epsilon=1.0, source=source)) - 1000.0) < 200.0


def test_parts_of_a_column_add_up(monkeypatch):
    """The same numbers whether the parts are longer than the column or have seven rows."""
    rows = np.random.default_rng(5).normal(size=1000)
    found = []
    for length in (1 << 16, 7):
        monkeypatch.setattr(_column, "_ROWS", length)
        found.append(
            [
                fd.private_sum(rows, bounds=(-1.0, 2.0), epsilon=1.0, source=seeded(7)).value,
                fd.private_mean(rows, bounds=(-1.0, 2.0), epsilon=1.0, source=seeded(7)).value,
                *fd.private_histogram(rows, bins=[-1, 0, 0.5], epsilon=1.0, source=seeded(7)).value,
                *fd.private_histogram(rows.round(), categories=[1, 0], epsilon=1.0, source=seeded(7)).value,
                fd.private_quantile(rows, 0.7, bounds=(-3, 3), epsilon=1.0, source=seeded(7)).value,
                fd.private_quantile(rows, 0.7, candidates=[0.5, -1, 0.5, 0.6], epsilon=9.0, source=seeded(7)).value,
            ]
        )
    assert found[0] == found[1]


def test_rows_that_share_their_memory_need_none_of_their_own():
    """2^26 rows, half a gigabyte of floats, of which there is one."""
    tracemalloc.start()
    fd.private_sum(np.broadcast_to(1.5, 1 << 26), bounds=(0, 1), epsilon=1.0)
    fd.private_histogram(np.broadcast_to(np.int8(3), 1 << 24), categories=[3], epsilon=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_nulls_are_in_no_bin_whatever_fills_them():
    """A stand-in for a column of polars, of which two rows are null."""

    class Series:
        __module__ = "polars.series"
        dtype = "Int64"

        def __init__(self, array):
            self._array = np.asarray(array)

        def is_null(self):
            return Series(self._array < 0)

        def null_count(self):
            return int((self._array < 0).sum())

        def fill_null(self, value):
            return Series(np.where(self._array < 0, value, self._array))

        def to_numpy(self):
            return self._array

    rows = Series([3, -1, 0, 3, -1])
    for keywords in ({"categories": [0, 3]}, {"bins": [-1, 1, 4]}):
        found = fd.private_histogram(rows, epsilon=1.0, source=seeded(6), **keywords).value
        without = fd.private_histogram([3, 0, 3], epsilon=1.0, source=seeded(6), **keywords).value
        assert found.tolist() == without.tolist()
    for missing, others in (("drop", np.array([3, 0, 3])), ("zero", np.array([3, 0, 0, 3, 0]))):
        keywords = {"epsilon": 1.0, "missing": missing}
        for release in (fd.private_count, lambda values, **more: fd.private_sum(values, bounds=(0, 9), **more)):
            found, due = (release(values, source=seeded(6), **keywords) for values in (rows, others))
            assert found.value == due.value


def test_other_things_of_those_libraries_are_refused_by_name():
    frame = type("DataFrame", (), {"__module__": "pandas.core.frame", "dtype": [2**40 + 1]})
    unnamed = type("Series", (), {"__module__": 5})
    for values in (frame(), unnamed()):
        with pytest.raises(InvalidArrayType) as caught:
            column(values)
        assert str(2**40 + 1) not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [np.array(["a"]), np.array([object()]), np.array([1 + 2j]), np.array(["2020-01-01"], "M8[D]"), "abc", None, 3.0],
)
def test_other_columns_are_refused(values):
    with pytest.raises((InvalidArrayType, InvalidArray)):
        fd.private_sum(values, bounds=(0.0, 1.0), epsilon=1.0)


def test_matrices_are_refused():
    with pytest.raises(InvalidArray, match="one-dimensional"):
        fd.private_count(np.zeros((2, 2), bool), epsilon=1.0)


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"epsilon": 0.0}, InvalidParameter, "epsilon"),
        ({"epsilon": math.nan}, InvalidParameter, "epsilon"),
        ({"delta": 1.0}, InvalidParameter, "delta"),
        ({"bounds": (1.0, 1.0)}, InvalidParameter, "bounds"),
        ({"bounds": (0.0, math.inf)}, InvalidParameter, "bounds"),
        ({"bounds": (0.0,)}, InvalidParameter, "bounds"),
        ({"bounds": (0.0, 1e-300)}, InvalidParameter, "bounds"),
        ({"bounds": ("0", 1.0)}, InvalidType, "bounds"),
        ({"max_contributions": 0}, InvalidParameter, "max_contributions"),
        ({"max_contributions": 1.5}, InvalidType, "max_contributions"),
        ({"neighboring_relation": 1}, InvalidType, "neighboring_relation"),
        ({"source": 3}, InvalidType, "source"),
        ({"missing": "ignore"}, InvalidParameter, "missing"),
        ({"missing": None}, InvalidParameter, "missing"),
    ],
)
def test_bad_parameters_are_refused_by_name(changes, error, name):
    parameters = {"bounds": (0.0, 1.0), "epsilon": 1.0, **changes}
    for function in (fd.private_sum, fd.private_mean):
        with pytest.raises(error, match=name):
            function([0.5], **parameters)


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"bins": [0, 1], "categories": [0]},
        {"bins": [1, 0]},
        {"bins": [0]},
        {"bins": [0, math.nan, 1]},
        {"categories": [1, 1]},
        {"categories": ["a", 1, "a"]},
        {"categories": ["a", "a"]},
        {"categories": []},
    ],
)
def test_bad_bins_are_refused(keywords):
    with pytest.raises((InvalidParameter, InvalidArray)):
        fd.private_histogram([0.5], epsilon=1.0, **keywords)


class Hostile:
    def __array__(self, *_, **__):
        raise RuntimeError("secret")


@pytest.mark.parametrize(
    "numbers",
    [
        [[1], [2, 3]],
        [Hostile(), 1],
        Hostile(),
        [1, None],
        [1, 2**70],
        [1, "2"],
        np.ma.masked_array([1, 2], [0, 1]),
        {1: 2},
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", ["bins", "categories", "candidates"])
def test_what_is_no_list_of_public_numbers_is_a_type_error(name, numbers):
    def asked():
        if name == "candidates":
            return fd.private_quantile([0.5], 0.5, epsilon=1.0, candidates=numbers)
        return fd.private_histogram(np.array([0.5]), epsilon=1.0, **{name: numbers})

    with pytest.raises(InvalidArrayType, match=f"^{name} must"):
        asked()


def test_row_counts_are_public_under_replacement():
    with pytest.raises(InvalidParameter, match="public"):
        fd.private_count(np.array([1, 2]), epsilon=1.0, neighboring_relation=REPLACE)
    with pytest.raises(InvalidParameter, match="public"):
        fd.private_count(np.array([1.0, 2.0]), epsilon=1.0, missing="zero", neighboring_relation=REPLACE)
    present = fd.private_count([1.0, None, 2.0], epsilon=1.0, neighboring_relation=REPLACE)  # not how many there are
    assert present.event.l1_sensitivity == 1


def test_how_many_rows_are_not_missing_is_paid_for_where_rows_are_replaced():
    """Else the mean would be divided by a number that changes with the row that is replaced."""
    keywords = {"bounds": (0.0, 4.0), "epsilon": 1.0, "neighboring_relation": REPLACE}
    for values, parts in (([1.0, 2.0], 2), (np.array([1.0]), 2), (np.array([1, 2]), 1), (np.array([True]), 1)):
        event = fd.private_mean(values, **keywords).event
        assert len(getattr(event, "events", (event,))) == parts
    assert not hasattr(fd.private_mean([1.0, 2.0], missing="zero", **keywords).event, "events")


@given(st.floats(1e-300, 10.0), st.floats(0.0, 0.9), st.integers(2, 7))
def test_the_shares_of_a_budget_add_up_to_no_more_than_it(epsilon, delta, whole):
    budget = _budget.budget(epsilon, delta, 1, REPLACE, None, None)
    shares = [budget.share(1, whole)] * whole

    assert sum(Fraction(share.epsilon) for share in shares) <= Fraction(epsilon)
    assert sum(Fraction(share.delta) for share in shares) <= Fraction(delta)
    assert shares[0].epsilon >= epsilon / whole * (1 - 2**-50)
