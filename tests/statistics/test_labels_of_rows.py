"""Labels and ids of any hashable type, and which rows of a unit count: each row's class is that row's own."""

import datetime
import itertools
import uuid
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.statistics._column import read
from ferrodp.statistics._foreign import Numbers
from ferrodp.statistics.keys import contributions
from ferrodp.statistics.keys.contributions import rows_that_count, units
from ferrodp.statistics.keys.labels import distinct

DAY = datetime.date(2020, 1, 31)
NOON = datetime.datetime(2020, 1, 31, 12)
UTC = NOON.replace(tzinfo=datetime.UTC)


class Odd:
    """An id whose own code raises, always or when it is compared with another."""

    def __init__(self, how):
        self.how = how

    def __hash__(self):
        if self.how == "hash":
            raise RuntimeError("secret")
        return 7

    def __eq__(self, other):
        if self.how == "always" or (self.how == "others" and other is not self):
            raise RuntimeError("secret")
        return self is other


IDS = {
    "uuid": [uuid.UUID(int=each) for each in range(9)],
    "bytes": [bytes([each]) for each in range(9)],
    "dates": [DAY + datetime.timedelta(each) for each in range(9)],
    "datetimes": [NOON.replace(hour=each) for each in range(9)],
    "zoned": [UTC.replace(hour=each) for each in range(9)],
    "decimals": [Decimal(each) / 3 for each in range(9)],
    "tuples": [("a", each) for each in range(9)],
    "sets": [frozenset([each, "b"]) for each in range(9)],
    "durations": [datetime.timedelta(each) for each in range(9)],
    "datetimes of numpy": [np.datetime64(each, "s") for each in range(9)],
    "mixed": [1, "1", b"1", (1,), frozenset([1]), DAY, NOON, UTC, uuid.UUID(int=1)],
}


@pytest.mark.parametrize("held", ["list", "objects"])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_units_may_have_ids_of_any_hashable_type(ids, held):
    rows = np.empty(18, object)
    rows[:] = [*ids, *ids]
    frame = {"unit": list(rows) if held == "list" else rows, "key": ["a"] * 18}
    one = fd.private_group_by(frame, "key", keys=["a"], unit="unit", keep="first")
    assert (one._codes == 0).tolist() == [True] * 9 + [False] * 9


@pytest.mark.parametrize("ids", [ids for name, ids in IDS.items() if name not in ("sets", "mixed")])
def test_keys_of_any_type_are_found_and_given(ids):
    frame = {"key": ids[:1] * 300 + ids[1:2] * 200 + ids[2:3]}
    found = fd.private_group_by(frame, "key", keys=fd.KeyThreshold(epsilon=5.0, delta=1e-9))
    assert list(found.keys) == [each.item() if isinstance(each, np.generic) else each for each in ids[:2]]
    assert abs(found.count(epsilon=9.0).value - [300, 200]).max() <= 5  # P(|N| > 5) < 1e-19
    given = fd.private_group_by(frame, "key", keys=[ids[1], ids[5]])
    assert abs(given.count(epsilon=9.0).value - [200, 0]).max() <= 5
    assert abs(fd.private_histogram(frame["key"], categories=ids[:1], epsilon=9.0).value - 300).max() <= 5


def test_equal_labels_of_one_type_show_no_trace_of_which_came_first():
    pairs = [
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("-0"), Decimal("0e5")),
        (UTC, UTC.astimezone(datetime.timezone(datetime.timedelta(hours=3)))),
        (NOON, NOON.replace(fold=1)),
        (("a", -0.0), ("a", 0.0)),
    ]
    for pair in pairs:
        shown = []
        for order in (pair, pair[::-1]):
            found = fd.private_group_by({"k": [*order] * 200}, "k", keys=fd.KeyThreshold(epsilon=5.0, delta=1e-9))
            shown.append(repr(found.keys))
        assert shown[0] == shown[1]
    mixed = [1, 1.0, True, "b", DAY, NOON, UTC, (1, "a"), ("a", 1), None, float("nan"), [1], Odd("hash")] * 100
    for order in (mixed, mixed[::-1]):
        found = fd.private_group_by({"k": order}, "k", keys=fd.KeyThreshold(epsilon=5.0, delta=1e-9))
        assert [type(key) for key in found.keys][:2] == [bool, datetime.date]
        assert len(found.keys) == 9


def test_ids_that_are_missing_unhashable_or_raise_are_units_of_nobody_and_never_raise():
    nobody = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), Decimal("NaN"), Decimal("sNaN")]
    nobody += [[1], {}, ([1],), Odd("hash"), Odd("always")]
    assert units(read(nobody)).tolist() == [-1] * len(nobody)
    one, other = Odd("others"), Odd("others")
    assert units(read([one, other, one, 3, nobody[6], 3])).tolist() == [0, 1, 0, 2, -1, 2]


def test_a_row_has_the_same_class_whatever_rows_stand_beside_it():
    pool = [*IDS["mixed"], 1.0, True, np.int8(1), None, [1], Odd("others"), np.datetime64(NOON), ("a", float("nan"))]
    for first, second in itertools.permutations(range(len(pool)), 2):
        alone = units(read([pool[first], pool[second]]))
        beside = units(read([*pool, pool[first], pool[second]]))[-2:]
        assert ((alone < 0) == (beside < 0)).all()
        assert (alone[0] == alone[1]) == (beside[0] == beside[1]) or (alone < 0).any()


def columns_of(name):
    if name == "numpy":
        return lambda rows: np.array([str(row)[:10] for row in rows], "datetime64[D]")
    if name.startswith("pandas"):
        pandas = pytest.importorskip("pandas")
        return (lambda rows: pandas.Series(pandas.to_datetime(rows))) if "64" in name else pandas.Series
    if name.startswith("polars"):
        polars = pytest.importorskip("polars")
        return lambda rows: polars.Series(rows)
    pyarrow = pytest.importorskip("pyarrow")
    return lambda rows: pyarrow.array(rows)


@pytest.mark.parametrize("library", ["numpy", "pandas", "pandas datetime64", "polars", "pyarrow"])
@pytest.mark.parametrize("zone", [False, True])
def test_times_of_all_libraries_are_keys_units_and_categories(library, zone):
    plain = [DAY, DAY + datetime.timedelta(1)] if library == "numpy" else [NOON, NOON + datetime.timedelta(1)]
    if zone and library != "numpy":
        plain = [each.replace(tzinfo=datetime.UTC) for each in plain]
    make = columns_of(library)
    column = make([plain[0]] * 300 + [plain[1]] * 200 + ["NaT" if library == "numpy" else None] * 9)
    frame = {"k": column, "u": column}
    for keys in (plain, fd.KeyThreshold(epsilon=5.0, delta=1e-9)):
        found = fd.private_group_by(frame, "k", keys=keys)
        assert list(found.keys) == plain
        assert abs(found.count(epsilon=9.0).value - [300, 200]).max() <= 5
    one = fd.private_group_by(frame, "k", keys=plain, unit="u")
    assert (one._codes >= 0).sum() == 2
    assert abs(fd.private_histogram(column, categories=plain[1:], epsilon=9.0).value - 200).max() <= 5
    assert abs(int(fd.private_count(column, epsilon=9.0)) - 500) <= 5


@pytest.mark.parametrize("kind", ["binary", "decimal", "date", "time", "duration", "nanoseconds"])
@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_typed_columns_are_labels(kind, library):
    module = pytest.importorskip(library)
    rows = {
        "binary": [b"a", b"b"],
        "decimal": [Decimal("1.50"), Decimal("2.50")],
        "date": [DAY, DAY + datetime.timedelta(1)],
        "time": [datetime.time(1), datetime.time(2)],
        "duration": [datetime.timedelta(1), datetime.timedelta(2)],
        "nanoseconds": [NOON, NOON + datetime.timedelta(1)],
    }[kind]
    rows = [*rows, None] * 100
    if kind == "nanoseconds":
        column = module.Series(rows).dt.cast_time_unit("ns") if library == "polars" else module.array(rows)
        column = column if library == "polars" else column.cast(module.timestamp("ns"))
    else:
        column = module.Series(rows) if library == "polars" else module.array(rows)
    found = fd.private_group_by({"k": column}, "k", keys=rows[:2], unit="k", rows_per_unit=50)
    assert (found._codes >= 0).sum() == 100
    with pytest.raises(InvalidArrayType, match="convert it"):
        fd.private_mean(column, bounds=(0, 1), epsilon=1.0)


def categories_of_another_type():
    """Categories of pandas and polars whose dtype says what they are, with labels that it excludes."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    stamps = pandas.Series([pandas.Timestamp(NOON)] * 9)
    return [
        (pandas.Series(["a", "b"] * 9, dtype="category"), [1, 2]),
        (pandas.Series([1, 2] * 9, dtype="category"), ["1"]),
        (stamps.astype("category"), ["2020-01-31"]),
        (stamps.dt.tz_localize("UTC").astype("category"), [NOON]),
        (polars.Series(["a", "b"] * 9, dtype=polars.Categorical), [1, 2]),
        (polars.Series(["a", "b"] * 9, dtype=polars.Enum(["a", "b"])), [DAY]),
    ]


def test_labels_that_no_row_of_the_columns_type_can_equal_are_refused():
    integers, texts, halves = np.array([1, 2] * 50), np.array(["a", "b"] * 50), np.array([0.1, 0.5] * 50, np.float32)
    days = np.array([DAY] * 9, "datetime64[D]")
    for column, labels in [
        (integers, ["1", "2"]),
        (integers == 1, ["True"]),
        (texts, [1, 2]),
        (days, ["2020-01-31"]),
        (days, [NOON]),
        (days.astype("datetime64[us]"), [DAY]),
        (days.astype("datetime64[us]"), [UTC]),
        *categories_of_another_type(),
    ]:
        with pytest.raises(InvalidArrayType, match=r"^categories must be .*no row could equal another"):
            fd.private_histogram(column, categories=labels, epsilon=1.0)
        with pytest.raises(InvalidArrayType, match=r"^keys must be"):
            fd.private_group_by({"k": column}, "k", keys=labels)
    assert abs(fd.private_histogram(halves, categories=[0.1, 0.5], epsilon=9.0).value - 50).max() <= 5
    assert abs(fd.private_histogram(integers == 1, categories=[True, False], epsilon=9.0).value - 50).max() <= 5
    with pytest.raises(InvalidArray, match="as float32"):
        fd.private_histogram(halves, categories=[0.1, 0.1 + 1e-12], epsilon=1.0)


class Coins(fd.NoiseSource):
    """Gives the coins that it is told."""

    def __init__(self, coins):
        self.coins = coins

    def bytes(self, n):
        assert n == 4 * len(self.coins)
        return np.array(self.coins, np.uint32).tobytes()


def test_which_rows_of_a_unit_count_depends_on_its_rows_and_their_coins_alone():
    """400 tables with many equal coins, from which a unit goes: all other rows count as before."""
    rng = np.random.default_rng(1)
    for _ in range(400):
        size, most = int(rng.integers(1, 40)), int(rng.integers(1, 4))
        owners = rng.integers(-1, 5, size).astype(np.intp)
        coins = rng.choice([3, 5, 2**32 - 1], size).astype(np.uint32)
        counted = rows_that_count(owners, most, Coins(coins))
        sizes = [min(int((owners == unit).sum()), most) for unit in range(5)]
        assert [int(counted[owners == unit].sum()) for unit in range(5)] == sizes
        assert not counted[owners < 0].any()
        rest = owners != 2
        ids = np.where(owners[rest] > 2, owners[rest] - 1, owners[rest])  # numbered as without that unit
        assert (rows_that_count(ids, most, Coins(coins[rest])) == counted[rest]).all()


def test_every_subset_of_the_rows_of_a_unit_is_as_likely():
    """All 10 pairs of 5 rows among 20 000 units: chi-squared with 9 degrees, false alarm 1e-9; fixed seed."""
    owners = np.tile(np.arange(20_000), 5).astype(np.intp)
    counted = rows_that_count(owners, 2, fd.testing.seeded(bytes(32))).reshape(5, -1)
    _, observed = np.unique((1 << np.arange(5)) @ counted, return_counts=True)

    assert observed.size == 10
    assert stats.chisquare(observed).pvalue > 1e-9


def test_rows_of_a_unit_are_drawn_anew_replayed_by_a_seed_or_the_first():
    frame = {"k": ["a"] * 60 + ["b"] * 60, "u": [1] * 120}

    def codes(**keywords):
        found = fd.private_group_by(frame, "k", keys=["a", "b"], unit="u", rows_per_unit=20, **keywords)
        return found._codes.tolist()

    assert codes() != codes()  # equal with probability 1/C(120, 20) < 1e-22
    assert codes(source=fd.testing.seeded(bytes(32))) == codes(source=fd.testing.seeded(bytes(32)))
    assert codes(keep="first") == [0] * 20 + [-1] * 100
    for keep in ("last", None, 3):
        with pytest.raises(InvalidParameter, match=r"^keep must be"):
            codes(keep=keep)
    found = fd.private_group_by(frame, "k", keys=["a", "b"], unit="u", rows_per_unit=20)
    assert found.count(epsilon=1.0).statistic == "counts by group, of at most 20 rows a unit"
    assert fd.private_group_by(frame, "k", keys=["a"]).count(epsilon=1.0).statistic == "counts by group"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_standard_errors_are_the_deviations_of_what_is_released(delta):
    """2000 releases of each, fixed seed: 15 percent are six deviations of a deviation at a kurtosis of 6 or less.

    Its relative deviation is √((6 - 1)/4/2000) = 2.5 percent at most, of noises that are normal or Laplace.
    """
    values = np.full(5000, 50.0)
    values[::5] = 250.0
    frame = {"k": np.zeros(5000, np.int64), "v": values}
    keywords = {"bounds": (0, 1000), "epsilon": 1.0, "delta": delta, "source": fd.testing.seeded(bytes(32))}
    groups = fd.private_group_by(frame, "k", keys=[0])
    for release in (
        lambda: fd.private_mean(values, **keywords),
        lambda: fd.private_variance(values, **keywords),
        lambda: fd.private_standard_deviation(values, **keywords),
        lambda: groups.mean("v", **keywords)[0],
    ):
        found = [release() for _ in range(2000)]
        stated = float(np.median([each.standard_error for each in found]))
        assert abs(np.std([float(each) for each in found]) / stated - 1.0) < 0.15


def test_columns_of_arrow_without_rows_are_columns():
    pyarrow = pytest.importorskip("pyarrow")
    types = [pyarrow.date32(), pyarrow.timestamp("us", "UTC"), pyarrow.time64("us"), pyarrow.decimal128(3, 1)]
    for kind in [*types, pyarrow.string(), pyarrow.binary()]:
        for chunks in ([], [pyarrow.array([], kind)]):
            column = pyarrow.chunked_array(chunks, kind)
            assert abs(int(fd.private_count(column, epsilon=19.0))) <= 3


RANGES = {
    "all of a type": lambda low, high: (low, high),
    "few near the lowest": lambda low, high: (low, low + 100),
    "few near the highest": lambda low, high: (high - 100, high),
    "near zero": lambda low, high: (max(low, -5), 120),
}


@pytest.mark.parametrize("size", [3, 999, 1000, 5000])
@pytest.mark.parametrize("ends", RANGES.values(), ids=RANGES.keys())
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
def test_integers_have_the_places_that_a_sort_gives_them(dtype, ends, size):
    """Those near the lowest are found in a table, the others are sorted: the highest of all is among them."""
    rng = np.random.default_rng(size)
    limits = np.iinfo(dtype)
    values = rng.integers(*ends(int(limits.min), int(limits.max)), size, dtype=dtype, endpoint=True)
    for last in (values[-1], limits.max):
        values[-1] = last
        different, places = np.unique(values, return_inverse=True)
        found = distinct(Numbers(values, None, False))

        assert list(found.entries) == different.tolist()
        assert list(found.order) == [("", each) for each in different.tolist()]
        assert np.array_equal(found.codes, places)
        assert np.array_equal(contributions.units(Numbers(values, None, False)), places)


@pytest.mark.parametrize("seed", range(40))
def test_pairs_of_wanted_groups_are_those_of_their_rows_alone(seed):
    """Against a table of pairs in the order of their first rows."""
    rng = np.random.default_rng(seed)
    owners, codes = rng.integers(-1, 5, seed), rng.integers(-1, 6, seed)
    wanted = np.append(rng.random(6) < 0.5, False)
    for groups, (pair_of, firsts) in (
        (codes, contributions.pairs(owners, codes)),
        (
            np.where(wanted[codes], codes, -1),
            contributions.pairs_among(contributions.pairs(owners, codes), codes, wanted),
        ),
    ):
        rows = list(zip(owners.tolist(), groups.tolist(), strict=True))
        known = {}
        expected = [known.setdefault(row, len(known)) if min(row) >= 0 else -1 for row in rows]

        assert pair_of.tolist() == expected
        assert [rows[first] for first in firsts] == list(known)
        assert firsts.tolist() == [rows.index(pair) for pair in known]
