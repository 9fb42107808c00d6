"""Groups of rows, units with several rows, keys found in the data, variance; and neighbors of all of them, replayed."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.accounting import EpsilonDeltaEvent, NeighboringRelation, ParallelEvent, PureDpAccountant
from ferrodp.errors import InvalidArrayType, InvalidParameter, InvalidType, TicketError, WeakPrivacyWarning
from ferrodp.statistics._budget import budget
from ferrodp.statistics.keys.contributions import contribution
from ferrodp.testing import record, replay

REPLACE = NeighboringRelation.REPLACE_ONE
KEYS = ["a", "b", "c"]
FRAME = {
    "key": ["a", "b", None, "a", "d", "c", "a", "b"],
    "value": [1.0, math.nan, 3.0, 4.0, 5.0, math.inf, None, -9.0],
    "unit": [1, 1, 2, 2, 2, 3, None, 1],
}


def seeded(number=1):
    return fd.testing.seeded(bytes([number] * 32))


def taken(frame, rows):
    return {name: [column[row] for row in rows] for name, column in frame.items()}


def test_groups_are_those_of_a_loop_over_the_rows():
    """By the releases with next to no noise: rows without a key, a known key, a unit or a value are left out."""
    found = fd.private_group_by(FRAME, "key", keys=KEYS)
    keywords = {"epsilon": 20.0, "source": seeded()}
    assert abs(found.count(**keywords).value - [3, 2, 1]).max() <= 2
    assert abs(found.count("value", **keywords).value - [2, 1, 1]).max() <= 2
    assert abs(found.sum("value", bounds=(-2, 8), **keywords).value - [5.0, -2.0, 8.0]).max() < 4.0
    bounded = fd.private_group_by(FRAME, "key", keys=KEYS, unit="unit", rows_per_unit=2, keep="first")
    assert bounded._codes.tolist() == [0, 1, -1, 0, -1, 2, -1, -1]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_all_libraries_have_the_same_groups(library):
    module = pytest.importorskip(library)
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[library]
    frame = getattr(module, make)(FRAME)
    for keywords in ({}, {"unit": "unit", "rows_per_unit": 2, "keep": "first"}):
        found, due = (fd.private_group_by(table, "key", keys=KEYS, **keywords) for table in (frame, FRAME))
        for statistic in (
            lambda each: each.count(epsilon=1.0, source=seeded()),
            lambda each: each.count("value", epsilon=1.0, delta=1e-6, source=seeded()),
            lambda each: each.sum("value", bounds=(-2, 8), epsilon=1.0, source=seeded()),
            lambda each: each.mean("value", bounds=(-2, 8), epsilon=1.0, source=seeded()),
            lambda each: each.quantile("value", 0.5, bounds=(-2, 8), epsilon=1.0, source=seeded()),
            lambda each: each.max("value", bounds=(-2, 8), epsilon=1.0, source=seeded()),
        ):
            assert statistic(found).value.tolist() == statistic(due).value.tolist()
    with pytest.raises(InvalidParameter, match=r"'keys'; it has key, value, unit"):
        fd.private_group_by(frame, "keys", keys=KEYS)
    with pytest.raises(InvalidArrayType, match="convert it"):
        fd.private_group_by(frame, "value", keys=[1, 2]).sum("key", bounds=(0, 1), epsilon=1.0)


def every_statistic(frame, unit, rows, relation, delta):
    """Release everything about a table, as a user would."""
    keywords = {"epsilon": 1.0, "delta": delta, "neighboring_relation": relation}
    found = fd.private_group_by(frame, "key", keys=KEYS, unit=unit, rows_per_unit=rows, keep="first")
    results = [
        found.count(**keywords),
        found.count("value", **keywords),
        found.sum("value", bounds=(-2, 8), **keywords),
        found.mean("value", bounds=(-2, 9), **keywords),
        found.distinct("value", **keywords),
        found.bounds("value", magnitudes=(0.5, 8), **keywords),
        found.top("value", 2, categories=[1.0, 3.0, 7.5], epsilon=1.0, neighboring_relation=relation),
    ]
    if relation is not REPLACE:
        results.append(found.quantile("value", 0.25, bounds=(-2, 8), num_candidates=9, epsilon=1.0))
        results.append(found.max("value", bounds=(-2, 8), num_candidates=9, epsilon=1.0))
        results.append(found.min("value", bounds=(-2, 8), rank=2, epsilon=1.0))
    if unit is None:
        column, key = frame["value"], frame["key"]
        keywords["max_contributions"] = rows
        results += [
            fd.private_count(column, **keywords),
            fd.private_count(key, **keywords),
            fd.private_sum(column, bounds=(3, 8), **keywords),
            fd.private_mean(column, bounds=(3, 8), **keywords),
            fd.private_variance(column, bounds=(-2, 8), **keywords),
            fd.private_histogram(key, categories=KEYS, **keywords),
            fd.private_histogram(column, bins=[-10, 0, 3, 8], **keywords),
            fd.private_distinct(column, **keywords),
            fd.private_top(key, 2, categories=KEYS, **{name: keywords[name] for name in keywords if name != "delta"}),
            fd.private_quantile(
                column, 0.3, bounds=(-2, 8), epsilon=1.0, max_contributions=rows, neighboring_relation=relation
            ),
            fd.private_bounds(column, magnitudes=(0.5, 8), **keywords),
            *(
                extreme(
                    column, bounds=(-2, 8), rank=2, epsilon=1.0, max_contributions=rows, neighboring_relation=relation
                )
                for extreme in (fd.private_min, fd.private_max)
            ),
        ]
    return [np.asarray(each).tolist() for each in results]


def some_rows(rng, size, unit=None):
    values = [rng.choice([1.0, -3.0, 7.5, math.nan, math.inf, -math.inf, 3.0, None]) for _ in range(size)]
    keys = rng.choice(np.array([*KEYS, "other", None], object), size)
    return {"key": list(keys), "value": values, "unit": [unit] * size}


def joined(*tables):
    return {name: [value for table in tables for value in table[name]] for name in FRAME}


def with_types(table):
    """A table whose columns have the same types whatever is in them."""
    value = np.array([math.nan if each is None else each for each in table["value"]], np.float64)
    return table | {"value": value, "key": [*table["key"], "other"][: len(table["key"])]}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE])
def test_no_neighbor_moves_a_release_further_than_it_declares(relation, delta):
    """225 pairs of neighbors for each of four settings, 19 statistics without and 8 with units: over 25 000 replays."""
    rng = np.random.default_rng(7)
    replays = 0
    for trial in range(225):
        others = [some_rows(rng, int(rng.integers(0, 4)), unit) for unit in range(3)]
        rows = int(rng.integers(1, 4))
        size = rows if trial % 3 else int(rng.integers(1, 7))  # more rows than count
        mine, again = some_rows(rng, size, 9), some_rows(rng, size, 9)
        for unit in (None, "unit"):
            bound = max(size, rows) if unit is None else rows
            pair = [joined(*others, mine), joined(*others, again) if relation is REPLACE else joined(*others)]
            first, second = (with_types(each) for each in (pair if trial % 2 else pair[::-1]))
            if not first["key"] or not second["key"]:
                continue
            with record() as log:
                there = every_statistic(first, unit, bound, relation, delta)
            with replay(log):
                here = every_statistic(second, unit, bound, relation, delta)
            if relation is not REPLACE:
                assert there == here
            replays += len(log)
    assert 4 * replays > 25_000


@pytest.mark.parametrize("mistake", ["rows of a unit", "clamping"])
def test_such_mistakes_would_be_found(mistake):
    """Without this the replays could pass by looking at nothing."""
    units = {"key": ["a"] * 3, "value": np.array([9.0, 9.0, 9.0]), "unit": [1, 1, 1]}
    none = {name: column[:0] for name, column in units.items()} | {"value": np.zeros(0), "key": []}
    other = {name: [*column, *column] for name, column in units.items()} | {"key": ["b"] * 6, "unit": [2] * 6}

    def release(frame):
        frame = {name: [*frame[name], *other[name]] for name in frame}
        found = fd.private_group_by(frame, "key", keys=KEYS, rows_per_unit=1)
        return found.count(epsilon=1.0) if mistake == "rows of a unit" else found.sum("value", bounds=(0, 3), epsilon=1)

    with record() as log:
        release(units)
    with pytest.raises(AssertionError, match="sensitivity"), replay(log):
        release(none)


def test_quantiles_of_disjoint_groups_cost_as_much_as_one():
    one = fd.private_group_by(FRAME, "key", keys=KEYS).quantile("value", 0.5, bounds=(0, 9), epsilon=0.5)
    assert isinstance(one.event, ParallelEvent)
    assert len(one.event.events) == 3
    accountant = PureDpAccountant()
    accountant.compose(one.event)
    assert accountant.epsilon(0.0) <= 0.5
    several = fd.private_group_by(FRAME, "key", keys=KEYS, rows_per_unit=3)
    assert several.quantile("value", 0.5, bounds=(0, 9), epsilon=0.5).event == EpsilonDeltaEvent(epsilon=0.5)


@pytest.mark.parametrize("rank", [None, 0, 4])
@pytest.mark.parametrize("rows", [1, 3])
def test_extremes_of_groups_are_those_of_their_columns_with_the_same_noise(rows, rank):
    """Group by group, one after another: numbers and intervals, and what they cost together."""
    rng = np.random.default_rng(3)
    frame = {"key": rng.integers(0, 3, 900), "value": rng.gamma(2.0, 5.0, 900)}
    frame["value"][::11] = np.nan
    groups = fd.private_group_by(frame, "key", keys=[0, 1, 2], rows_per_unit=rows)
    options = {"bounds": (0.0, 200.0), "rank": rank, "epsilon": 1.0}
    for of_groups, of_column in ((groups.max, fd.private_max), (groups.min, fd.private_min)):
        found = of_groups("value", source=seeded(), **options)
        source, columns = seeded(), [frame["value"][frame["key"] == key] for key in range(3)]
        alone = [of_column(each, source=source, max_contributions=rows, **options) for each in columns]

        assert found.value.tolist() == [each.value for each in alone]
        assert [tuple(each.interval(0.9)) for each in found] == [tuple(each.interval(0.9)) for each in alone]
        assert found.labels == (0, 1, 2)
        if rows == 1:
            assert found.event == ParallelEvent(events=(alone[0].event,) * 3)
        else:
            assert found.event == EpsilonDeltaEvent(epsilon=1.0)
    with pytest.raises(InvalidParameter, match="rank must be"):
        groups.max("value", bounds=(0, 1), rank=-1, epsilon=1.0)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (5.0, 0.2)])
def test_a_key_of_one_unit_is_released_with_probability_delta_at_most(rows, epsilon, delta):
    """By all ways in which the rows of a unit fall into keys of its own, with the exact law of the noise."""
    threshold = fd.KeyThreshold(epsilon=epsilon, delta=delta)
    least = threshold.threshold(rows)
    law = stats.dlaplace(1.0 / float(threshold._noise(contribution(rows, None, None)).scale))

    def tail(reach):
        return float(law.sf(reach - 1))

    worst = 0.0
    for number in range(1, rows + 1):
        for counts in itertools.combinations_with_replacement(range(1, rows + 1), number):
            if sum(counts) <= rows:
                worst = max(worst, 1.0 - math.prod(1.0 - tail(least - count) for count in counts))
    assert worst <= delta * (1 + 1e-9)
    assert max(tail(least - 1 - rows), rows * tail(least - 2)) > delta or least <= rows + 2  # the least such threshold


def test_keys_are_found_sorted_and_without_a_trace_of_the_order_of_rows():
    frame = {"key": np.array([-0.0] * 300 + [2.0] * 200 + [math.nan] * 200 + [0.0] * 100 + [7.0])}
    found = fd.private_group_by(frame, "key", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-9))
    assert found.keys == (0.0, 2.0)
    assert math.copysign(1.0, found.keys[0]) == 1.0
    assert found.event == EpsilonDeltaEvent(epsilon=1.0, delta=1e-9)
    labels = np.array([1, 1.0, True, "b", None, math.nan] * 100, object)
    for order in (labels, labels[::-1]):
        keys = fd.private_group_by({"key": order}, "key", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-9)).keys
        assert [type(key) for key in keys] == [bool, float, int, str]
    none = fd.private_group_by({"key": ["a"]}, "key", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-9))
    assert none.keys == ()
    with pytest.raises(InvalidParameter, match="no key reached"):
        none.count(epsilon=1.0)


IDS = {
    "one float for all": [2**60 + i for i in range(50)],
    "adjacent": [2**53, 2**53 + 1, np.int64(2**53 + 2), np.uint64(2**64 - 1), 2**64 + 1],
    "strings and numbers": np.array(["7", 7, "7 ", "07"], dtype=object),
    "large unsigned": np.array([2**64 - 1, 2**64 - 2, 2**63], dtype=np.uint64),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_units_with_different_ids_are_different(ids):
    """Were two of them one, a unit that comes would take the place of another: it moved counts by two."""
    frame = {"key": ["a"] * len(ids), "unit": ids}
    for rows in (1, 2):
        counted = fd.private_group_by(frame, "key", keys=["a"], unit="unit", rows_per_unit=rows)
        assert (counted._codes == 0).all()


@pytest.mark.parametrize(
    "ids",
    [
        np.array([7, 7.0, np.int64(7), np.float64(7.0), True, 1, "x", np.str_("x")], dtype=object),
        [7, 7.0, np.int32(7), np.float32(7.0), 1.0, 1, np.uint8(2), 2],
    ],
)
def test_ids_that_are_equal_are_one_unit_whatever_their_types(ids):
    """One person whose id is an int in one row and a float in another must not have twice as many rows."""
    frame = {"key": ["a"] * len(ids), "unit": ids}
    counted = fd.private_group_by(frame, "key", keys=["a"], unit="unit", keep="first")
    assert (counted._codes == 0).tolist() == [True, False, False, False, True, False, True, False]


def test_a_price_for_disjoint_groups_does_not_pay_for_the_same_rows_twice(tmp_path):
    """Three quantiles of a column at the price of one, for instance."""
    values, ends = np.arange(100.0), {"bounds": (0, 100)}
    groups = fd.private_group_by({"key": ["a"] * 50 + ["b"] * 50, "value": values}, "key", keys=["a", "b"])

    def quantile(share, **keywords):
        return groups.quantile("value", share, epsilon=1.0, **ends, **keywords)

    statistics = {
        "quantiles": lambda **keywords: fd.private_quantiles(
            values, [0.25, 0.5, 0.75], epsilon=3.0, **ends, **keywords
        ),
        "mean": lambda **keywords: fd.private_mean(values, epsilon=1.0, **ends, **keywords),
        "count": lambda **keywords: fd.private_count(values, epsilon=1.0, **keywords),
        "means of groups": lambda **keywords: groups.mean("value", epsilon=1.0, **ends, **keywords),
    }
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("a", epsilon=100.0, delta=0.0, measure="pure")
        for statistic in statistics.values():
            event = statistic().event
            parts = getattr(event, "events", (event,))
            for paid in (ParallelEvent(events=parts), ParallelEvent(events=(event, event))):
                with ledger.reserve("a", paid) as ticket, pytest.raises(InvalidParameter, match="about the same rows"):
                    statistic(ticket=ticket)
            with ledger.reserve("a", event) as ticket:
                statistic(ticket=ticket)

        one = quantile(0.25).event
        twice = ledger.reserve("a", ParallelEvent(events=one.events * 2))
        with pytest.raises(InvalidParameter, match="about the same rows"):
            quantile(0.25, ticket=twice)
        with ledger.reserve("a", one) as ticket:
            quantile(0.25, ticket=ticket)
            with pytest.raises(TicketError):
                quantile(0.75, ticket=ticket)


def test_units_count_with_their_first_rows_and_rows_without_unit_do_not():
    frame = {"key": ["a"] * 2000, "unit": [1] * 1000 + [None] * 999 + [2]}
    keys = fd.private_group_by(frame, "key", keys=fd.KeyThreshold(epsilon=5.0, delta=1e-9), unit="unit").keys
    assert keys == ()  # two units
    count = fd.private_group_by(frame, "key", keys=["a"], unit="unit", rows_per_unit=3)
    assert count._codes.tolist().count(0) == 4


def test_bad_arguments_of_groups_are_refused():
    for call, error, name in [
        (lambda: fd.private_group_by(FRAME, 3, keys=KEYS), InvalidType, "string"),
        (lambda: fd.private_group_by([1], "key", keys=KEYS), InvalidType, "frame"),
        (lambda: fd.private_group_by(FRAME, "key", keys=["a", "a"]), ValueError, "keys"),
        (lambda: fd.private_group_by(FRAME, "key", keys=KEYS, rows_per_unit=0), InvalidParameter, "rows_per_unit"),
        (lambda: fd.private_group_by(FRAME, "key", keys=KEYS, ticket=1), InvalidParameter, "ticket"),
        (lambda: fd.private_group_by(FRAME | {"u": [1]}, "key", keys=KEYS, unit="u"), ValueError, "rows"),
        (lambda: fd.private_group_by(FRAME | {"u": [1]}, "key", keys=KEYS).count("u", epsilon=1), ValueError, "rows"),
        (lambda: fd.KeyThreshold(epsilon=1.0, delta=0.0), InvalidParameter, "delta"),
        (lambda: fd.KeyThreshold(epsilon=0.0, delta=0.1), InvalidParameter, "epsilon"),
    ]:
        with pytest.raises(error, match=name):
            call()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_variances_hold_the_truth_as_often_as_they_say(delta):
    """4000 releases: outside 95 ± 1.6 percent with probability 4e-6 at a coverage of exactly 95; fixed seed."""
    rows = np.clip(np.random.default_rng(4).gamma(3.0, 10.0, 20_000), 0.0, 60.0)
    truth, source, held = rows.var(), seeded(5), 0
    for _ in range(4000):
        estimate = fd.private_variance(rows, bounds=(0, 60), epsilon=1.0, delta=delta, source=source)
        lower, upper = estimate.interval(0.95)
        held += lower <= truth <= upper

    assert 0.934 <= held / 4000 <= 0.966


def test_the_sums_of_a_variance_move_by_no_more_than_declared():
    """In integers: all pairs of hard rows."""
    hard = [math.nan, math.inf, -math.inf, 0.0, 5e-324, 1e300, -7.0, 3.1, 0.5, 1.0]
    for lower, upper in ((-7.0, 3.1), (0.0, 1.0), (99.0, 100.0)):
        for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE):
            for pair in itertools.product([[row] for row in hard], [[row] for row in hard]):
                first, second = (np.array([2.0, *each]) for each in pair)
                second = second if relation is REPLACE else np.array([2.0])
                keywords = {"bounds": (lower, upper), "epsilon": 1.0, "neighboring_relation": relation}
                with record() as log:
                    fd.private_variance(first, **keywords)
                with replay(log):
                    fd.private_variance(second, **keywords)
    assert Fraction(log[2].sensitivity) <= 2**32


@pytest.mark.parametrize("epsilon", [1.0])
def test_statistics_of_half_missing_columns_are_those_of_the_present_values(epsilon):
    """100 seeds of 10^5 rows; at level 1 - 1e-9 no interval fails in 10^3 with probability over 1 - 1e-6."""
    rng = np.random.default_rng(3)
    rows = rng.gamma(4.0, 10.0, 100_000)
    rows[rng.random(rows.size) < 0.5] = math.nan
    present = np.clip(rows[~np.isnan(rows)], 0.0, 120.0)
    bins, level = [0, 20, 40, 60, 120], 1 - 1e-9
    truths = np.histogram(rows[~np.isnan(rows)], bins)[0]  # what is beyond the last edge is in no bin
    for seed in range(100):
        keywords = {"epsilon": epsilon, "source": seeded(seed)}
        mean = fd.private_mean(rows, bounds=(0, 120), **keywords).interval(level)
        assert mean.lower <= present.mean() <= mean.upper
        count = fd.private_count(rows, **keywords).interval(level)
        assert count.lower <= present.size <= count.upper
        histogram = fd.private_histogram(rows, bins=bins, **keywords).interval(level)
        assert (histogram.lower <= truths).all()
        assert (truths <= histogram.upper).all()
        for quantile in (0.1, 0.5, 0.9):
            chosen = float(fd.private_quantile(rows, quantile, bounds=(0, 120), **keywords))
            # a candidate is missed by scale · ln(candidates/1e-9) rows, and by those between two candidates
            rows_off = 2.0 / epsilon * math.log(1025 * 1e9) + present.size * 0.004
            rank = np.searchsorted(np.sort(present), chosen)
            assert abs(rank - quantile * present.size) <= rows_off


def test_keys_and_groups_of_a_million_rows_take_no_longer_than_a_few_passes():
    """Time is measured in `benches`; here memory and exactness: sums of 10^6 rows are those of integers."""
    codes, values = np.arange(1_000_000) % 1000, np.linspace(-5.0, 7.0, 1_000_000)
    found = fd.private_group_by({"k": codes, "v": values}, "k", keys=range_array(1000))
    part = found._sum(budget(1.0, 0.0, 1, NeighboringRelation.ADD_OR_REMOVE_ONE, None, None), "v", (-5.0, 6.0))
    parts = np.trunc(np.clip(values, -5.0, 6.0) / part.width * 2**22).astype(np.int64)
    whole, beyond = part.exact()
    assert (whole * 2**22 + beyond).tolist() == [sum(parts[key::1000].tolist()) for key in range(1000)]


def range_array(size):
    return np.arange(size)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_parts_of_a_release_keep_its_budget_together(delta):
    values, frame = np.arange(100.0), {"value": np.arange(100.0), "key": [*"ab"] * 50}
    found = fd.private_group_by(frame, "key", keys=["a", "b"])
    keywords = {"epsilon": 0.7, "delta": delta}
    made = [
        fd.private_variance(values, bounds=(0, 9), **keywords),
        found.mean("value", bounds=(0, 9), **keywords),
        fd.release(frame, groups=found, sums={"value": (0, 9)}, **keywords),
        fd.release(frame, sums={"value": (0, 9)}, **keywords),
    ]
    if not delta:
        made.append(fd.private_quantiles(values, [0.1, 0.5, 0.9], bounds=(0, 9), epsilon=0.7))
    for each in made:
        accountant = PureDpAccountant() if not delta else fd.accounting.PldAccountant()
        accountant.compose(each.event)
        assert accountant.epsilon(delta) <= 0.7


def test_tables_hold_counts_and_sums_of_all_rows_or_of_groups():
    with pytest.warns(WeakPrivacyWarning, match="above 20"):
        table = fd.release(FRAME, sums={"value": (-2, 8)}, epsilon=40.0, source=seeded())
    assert list(table) == ["count", "value"]
    assert abs(table["count"].value - 8).max() <= 2
    assert abs(table["value"].value - (1 + 3 + 4 + 5 + 8 - 2)).max() < 3.0
    found = fd.private_group_by(FRAME, "key", keys=KEYS)
    grouped = fd.release(FRAME, groups=found, count=False, sums={"value": (-2, 8)}, epsilon=20.0, source=seeded())
    assert grouped["value"].labels == ("a", "b", "c")
    assert abs(grouped["value"].value - [5.0, -2.0, 8.0]).max() < 4.0
    with pytest.raises(KeyError, match="the table has value"):
        grouped["values"]
    for call, name in [
        (lambda: fd.release(FRAME, count=False, epsilon=1.0), "count"),
        (lambda: fd.release(FRAME, sums={"count": (0, 1)}, epsilon=1.0), "sums"),
        (lambda: fd.release(dict(FRAME), groups=found, epsilon=1.0), "groups"),
        (lambda: fd.private_quantiles([1.0], [0.5, 0.1], bounds=(0, 1), epsilon=1.0), "ascending"),
        (lambda: fd.private_quantiles([1.0], [], bounds=(0, 1), epsilon=1.0), "quantiles"),
    ]:
        with pytest.raises(InvalidParameter, match=name):
            call()


def test_several_quantiles_are_in_ascending_order_and_near_the_truth():
    wild = [fd.private_quantiles([1.0, 5.0], [0.1, 0.5, 0.9], bounds=(0, 9), epsilon=0.01) for _ in range(30)]
    assert all((np.diff(each.value) >= 0).all() for each in wild)
    near = fd.private_quantiles(np.arange(10_001), [0.1, 0.5, 0.9], bounds=(0, 10_000), epsilon=3.0, source=seeded())
    assert abs(near.value - [1000, 5000, 9000]).max() < 150
    median = fd.private_median(np.arange(10_001), bounds=(0, 10_000), epsilon=1.0, source=seeded())
    assert float(median) == float(
        fd.private_quantile(np.arange(10_001), 0.5, bounds=(0, 10_000), epsilon=1.0, source=seeded())
    )
