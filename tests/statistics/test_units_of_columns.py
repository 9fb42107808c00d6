"""Statistics of columns with `unit=`: a whole unit moves them by no more than what is charged, whatever it holds."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.accounting import ComposedEvent, NeighboringRelation
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, ExponentialMechanism, PermuteAndFlip

pytestmark = pytest.mark.filterwarnings("ignore::ferrodp.errors.WeakPrivacyWarning")  # where counts are compared
NAN = math.nan
RELATIONS = [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE]
ROWS = [("a", 0.0), ("a", 9.0), ("a", NAN), ("b", 4.0), (None, 9.0)]
"""What a row of a small table may be: whose it is, and its value."""
BOUNDED = {"bounds": (1.0, 7.0)}
STATISTICS = {
    "count": fd.private_count,
    "distinct": fd.private_distinct,
    "sum": lambda rows, **k: fd.private_sum(rows, **BOUNDED, **k),
    "mean": lambda rows, **k: fd.private_mean(rows, **BOUNDED, **k),
    "variance": lambda rows, **k: fd.private_variance(rows, **BOUNDED, **k),
    "deviation": lambda rows, **k: fd.private_standard_deviation(rows, **BOUNDED, **k),
    "bins": lambda rows, **k: fd.private_histogram(rows, bins=[0, 4, 9], **k),
    "categories": lambda rows, **k: fd.private_histogram(rows, categories=[0.0, 4.0, 9.0], **k),
    "bounds": fd.private_bounds,
    "median": lambda rows, **k: fd.private_median(rows, candidates=[0, 2, 4, 9], **k),
    "quantiles": lambda rows, **k: fd.private_quantiles(rows, [0.2, 0.9], candidates=[0, 2, 4, 9], **k),
    "maximum": lambda rows, **k: fd.private_max(rows, candidates=[0, 2, 4, 9], rank=1, **k),
    "minimum": lambda rows, **k: fd.private_min(rows, candidates=[0, 2, 4, 9], rank=1, **k),
    "top": lambda rows, **k: fd.private_top(rows, 1, categories=[0.0, 4.0, 9.0], **k),
}
BY_CHOICE = ("median", "quantiles", "maximum", "minimum", "top")


@pytest.fixture
def released(monkeypatch):
    """Every mechanism that released something, and what it released, before noise."""
    seen = []

    def recorded(kind):
        release = kind.release

        def record(mechanism, value, **options):
            seen.append((mechanism, [int(each) for each in np.asarray(value, object).ravel().tolist()]))
            return release(mechanism, value, **options)

        monkeypatch.setattr(kind, "release", record)

    for kind in (DiscreteGaussianMechanism, DiscreteLaplaceMechanism, ExponentialMechanism):
        recorded(kind)
    choose = PermuteAndFlip.release_from_runs

    def record(mechanism, utilities, *args, observed, **options):
        seen.append((mechanism, observed.tolist()))
        return choose(mechanism, utilities, *args, observed=observed, **options)

    monkeypatch.setattr(PermuteAndFlip, "release_from_runs", record)
    return seen


def loss(ones, others):
    """The pure ε of what was released, and the squared sensitivities of Gaussian noise in units of its scale."""
    pure, squares = 0.0, 0.0
    for (mechanism, one), (same, other) in zip(ones, others, strict=True):
        assert mechanism == same
        moved = [abs(a - b) for a, b in zip(one, other, strict=True)]
        if isinstance(mechanism, DiscreteLaplaceMechanism):
            pure += sum(moved) / float(mechanism.scale)
        elif isinstance(mechanism, DiscreteGaussianMechanism):
            squares += sum(each**2 for each in moved) / float(mechanism.scale) ** 2
        elif isinstance(mechanism, PermuteAndFlip):
            # the noise of one candidate against the largest of the others
            moved = [a - b for a, b in zip(one, other, strict=True)]
            pure += (max(moved) - min(moved)) / mechanism.scale
        else:
            logs = [np.array(each) / mechanism.scale for each in (one, other)]
            logs = [each - np.logaddexp.reduce(each) for each in logs]
            pure += float(np.abs(logs[0] - logs[1]).max())
    return pure, squares


def charged(event):
    """The squared sensitivities of Gaussian noise that the event states."""
    events = event.events if isinstance(event, ComposedEvent) else [event]
    return sum((float(each.l2_sensitivity) / float(each.scale)) ** 2 for each in events)


def without(table, unit):
    return [row for row in table if row[0] != unit]


def tables(may_miss):
    """All tables of up to three rows, and longer ones in which a unit has up to five."""
    rows = [row for row in ROWS if may_miss or row[1] == row[1]]
    for size in range(4):
        yield from itertools.product(rows, repeat=size)
    yield from itertools.product([row for row in rows if row[0] == "a"], repeat=4)
    yield from [(("a", 9.0),) * 5, (("b", 4.0), *[("a", 0.0)] * 4)]
    if may_miss:
        yield (("a", NAN), *[("a", 9.0)] * 4)


def pairs_of_neighbors(relation, may_miss):
    every = list(tables(may_miss))
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return [(table, without(table, "a")) for table in every if table != tuple(without(table, "a"))]
    of_a = [table for table in every if all(row[0] == "a" for row in table)]
    rest = [[], [("b", 4.0)]]
    few = [table for table in of_a if len(table) in (0, 1, 2, 5)] + [table for table in of_a if len(table) > 2][::9]
    return [([*one, *both], [*other, *both]) for one, other in itertools.combinations(few, 2) for both in rest]


@pytest.mark.parametrize("relation", RELATIONS, ids=[each.name for each in RELATIONS])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("name", STATISTICS)
def test_a_whole_unit_moves_a_statistic_by_no_more_than_is_charged(name, dtype, relation, released):
    """Every small table and each without one unit, or with other rows of it: the first rows of a unit count."""
    held = {}

    def run(table, most, delta):
        key = tuple(map(repr, table)), most, delta
        if key not in held:
            released.clear()
            options = {} if name in BY_CHOICE else {"delta": delta}
            owners, rows = [row[0] for row in table], np.array([row[1] for row in table], dtype)
            estimate = STATISTICS[name](
                rows, unit=owners, keep="first", max_contributions=most, epsilon=1.0, neighboring_relation=relation,
                **options,
            )  # fmt: skip
            assert released
            held[key] = list(released), estimate.event
        return held[key]

    for most, delta in [(1, 0.0), (2, 1e-6)] if name not in BY_CHOICE else [(1, 0.0), (2, 0.0)]:
        for one, other in pairs_of_neighbors(relation, dtype is np.float64):
            (ones, event), (others, same) = run(one, most, delta), run(other, most, delta)

            assert event == same
            # choices of a second round, and counts of what was chosen, depend on the choice: the first one is compared
            pairs = (ones[:1], others[:1]) if name == "top" else (ones, others)
            pure, squares = loss(*pairs)
            assert pure <= 1.0 + 1e-9, (one, other, most)
            assert not squares or squares <= charged(event) * (1.0 + 1e-9), (one, other, most)


@pytest.mark.parametrize("unit", [["a"] * 60 + ["b"] * 2 + [None] * 5, [1.0] * 60 + [2.0] * 2 + [NAN] * 5])
def test_so_many_rows_of_each_unit_count_and_none_without_one(unit):
    rows = np.ones(67)
    count = fd.private_count(rows, unit=unit, max_contributions=3, epsilon=1e9)
    total = fd.private_sum(rows, unit=unit, max_contributions=3, bounds=(0, 1), epsilon=1e9)

    assert count.value == 5
    assert float(total) == pytest.approx(5.0, abs=1e-4)
    assert count.statistic == "count of values, of at most 3 rows a unit"
    assert count.unit == "one unit, with all of its rows, of which up to 3 count"
    assert "at most 1 row a unit" in fd.private_count(rows, unit=unit, epsilon=1e9).statistic


def test_missing_rows_take_no_place_of_those_that_count():
    rows = np.array([NAN] * 50 + [5.0, 5.0])
    frame = {"list": [None] * 50 + ["x", "x"], "objects": np.array([None] * 50 + ["x", "x"], object)}

    assert fd.private_count(rows, unit=[7] * 52, max_contributions=2, epsilon=1e9).value == 2
    for held in frame.values():
        found = fd.private_histogram(held, categories=["x"], unit=[7] * 52, max_contributions=2, epsilon=1e9)
        assert found.value.tolist() == [2]
    truths = np.array([True, False, None, False], object)
    found = fd.private_histogram(truths, categories=[True, False], unit=[7] * 4, max_contributions=3, epsilon=1e9)
    assert found.value.tolist() == [1, 2]


def test_each_row_of_a_unit_counts_as_often_as_another():
    """Which one of five rows: a χ² test at 1e-6."""
    values, unit = np.arange(5.0).tolist() * 4000, np.repeat(np.arange(4000), 5)
    found = fd.private_histogram(values, categories=[0.0, 1.0, 2.0, 3.0, 4.0], unit=unit, epsilon=1e9)

    assert found.value.sum() == 4000
    assert stats.chisquare(found.value).pvalue > 1e-6
    first = fd.private_histogram(values, categories=[0.0, 1.0, 2.0, 3.0, 4.0], unit=unit, keep="first", epsilon=1e9)
    assert first.value.tolist() == [4000, 0, 0, 0, 0]


def test_so_many_different_values_of_a_unit_count_in_however_many_rows():
    values, unit = ["x"] * 9 + ["y", "z", "x", None], ["a"] * 11 + ["b", "b"]

    assert fd.private_distinct(values, unit=unit, max_contributions=2, keep="first", epsilon=1e9).value == 2
    found = {fd.private_distinct(values, unit=unit, max_contributions=1, epsilon=1e9).value for _ in range(60)}
    assert found == {1, 2}  # of "a" one of three, and "x" of "b"
    every = fd.private_distinct(values, unit=unit, max_contributions=3, epsilon=1e9)
    assert (every.value, every.statistic) == (3, "number of different values, of at most 3 different values a unit")


def test_columns_of_every_library_have_units():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    ids, rows = ["a", "a", "b", None], ["x", "x", "y", "x"]
    for column in (list, np.array, pandas.Series, polars.Series, arrow.array):
        options = {"categories": ["x", "y"], "epsilon": 1e9, "unit": column(ids)}
        assert fd.private_histogram(column(rows), **options).value.tolist() == [1, 1]
    held = pandas.Series(rows, dtype="category")
    assert fd.private_histogram(held, categories=["x", "y"], unit=ids, epsilon=1e9).value.tolist() == [1, 1]


def test_bad_units_are_refused_before_anything_is_drawn():
    with pytest.raises(InvalidArray, match="unit must have an id for each of 3 rows, got 2"):
        fd.private_count([1, 2, 3], unit=["a", "b"], epsilon=1.0)
    with pytest.raises(InvalidArray, match="unit must have an id for each of 3 rows, got 2"):
        fd.private_distinct([1, 2, 3], unit=["a", "b"], epsilon=1.0)
    with pytest.raises(InvalidParameter, match='missing must be "drop" with unit'):
        fd.private_sum([1.0], unit=["a"], bounds=(0, 1), missing="zero", epsilon=1.0)
    with pytest.raises(InvalidParameter, match='keep must be "random" or "first"'):
        fd.private_sum([1.0], unit=["a"], bounds=(0, 1), keep="last", epsilon=1.0)


def test_a_release_of_units_is_paid_for_like_any_other():
    with fd.budget(epsilon=1.0) as spending:
        fd.private_mean(np.ones(9), unit=[1] * 9, max_contributions=2, bounds=(0, 1), epsilon=0.25)
        fd.private_distinct([1, 2], unit=[1, 2], epsilon=0.5)

    assert spending.report().epsilon_spent == 0.75
