"""Keys that are found, what they cost, and how much a unit adds to groups: enumerated, replayed, and drawn."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.statistics.keys import selection, union, weighted
from ferrodp.statistics.keys.contributions import Contribution, contribution
from ferrodp.testing import record, replay

LIMITS = [
    (rows, groups, in_group)
    for rows, groups, in_group in itertools.product((None, 1, 2, 3, 5), (None, 1, 2, 3), (None, 1, 2, 3))
    if not (rows is None and groups is None and in_group is not None)
]


def counts_of(limit):
    """All ways in which the rows of a unit fall into groups, as counts above 0."""
    for number in range(1, min(limit.groups, limit.rows) + 1):
        for counts in itertools.combinations_with_replacement(range(1, limit.rows_per_group + 1), number):
            if sum(counts) <= limit.rows:
                yield counts


# what a unit adds


@pytest.mark.parametrize("given", LIMITS)
def test_the_squares_of_a_unit_are_the_largest_that_its_bounds_allow(given):
    limit = contribution(*given)

    assert limit.squared == max(sum(count**2 for count in counts) for counts in counts_of(limit))
    assert limit.rows == max(map(sum, counts_of(limit)))


@pytest.mark.parametrize("given", LIMITS)
@pytest.mark.parametrize("keep", ["random", "first"])
def test_rows_that_count_keep_all_bounds_and_waste_none(given, keep):
    limit = contribution(*given)
    rng = np.random.default_rng(5)
    owners, codes = rng.integers(-1, 6, 200), rng.integers(-1, 7, 200)
    counted = limit.counted(codes, owners, fd.NoiseSource() if keep == "random" else None)

    assert np.isin(counted, [-1, *range(7)]).all()
    assert ((counted == codes) | (counted == -1)).all()
    assert not (counted[owners < 0] >= 0).any()
    for owner in range(6):
        counts = np.bincount(counted[(owners == owner) & (counted >= 0)], minlength=7)
        assert counts.sum() <= limit.rows
        if limit.is_by_group:
            assert (counts > 0).sum() <= limit.groups
            assert counts.max() <= limit.rows_per_group
            there = np.bincount(codes[(owners == owner) & (codes >= 0)], minlength=7)
            kept = sorted(np.minimum(there, limit.rows_per_group))[-limit.groups :]
            assert counts.sum() >= min(limit.rows, min(there[there > 0].min(), limit.rows_per_group)) or not sum(kept)


def test_every_group_of_a_unit_is_as_likely():
    """False alarm 1e-9."""
    frame = {"key": [0, 1, 2, 2, 2, 2], "unit": [1] * 6}
    kept = np.zeros(3, int)
    for _ in range(600):
        groups = fd.private_group_by(frame, "key", keys=[0, 1, 2], unit="unit", groups_per_unit=1)
        kept[groups._codes[groups._codes >= 0][0]] += 1

    assert stats.chisquare(kept).pvalue > 1e-9


def a_table(rng, units, keys=("a", "b", "c")):
    rows = [(unit, keys[int(rng.integers(len(keys)))], float(rng.integers(-3, 9))) for unit in units]
    return {name: [row[at] for row in rows] for at, name in enumerate(("unit", "key", "value"))}


@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("keys", [["a", "b", "c"], ["a"]])
def test_no_unit_with_bounded_groups_moves_a_release_further_than_it_declares(relation, delta, keys):
    rng = np.random.default_rng(11)
    options = {"epsilon": 1.0, "delta": delta, "neighboring_relation": relation}
    replays = 0
    for _ in range(150):
        limit = {"groups_per_unit": int(rng.integers(1, 4)), "rows_per_group": int(rng.integers(1, 4))}
        if rng.integers(2):
            limit["rows_per_unit"] = int(rng.integers(1, 5))
        others = a_table(rng, rng.integers(0, 3, 6).tolist())
        mine, again = a_table(rng, [9] * 8), a_table(rng, [9] * 8)
        again = again if relation is NeighboringRelation.REPLACE_ONE else {name: [] for name in again}

        def statistics(own, others=others, limit=limit):
            table = {name: [*others[name], *own[name]] for name in others}
            table["value"] = np.array(table["value"])
            groups = fd.private_group_by(table, "key", keys=keys, unit="unit", keep="first", **limit)
            return [
                groups.count(**options),
                groups.sum("value", bounds=(-2, 8), **options),
                groups.mean("value", bounds=(-2, 8), **options),
                groups.variance("value", bounds=(-2, 8), **options),
                groups.histogram("value", bins=[-4, 0, 3, 8], **options),
            ]

        with record() as log:
            statistics(mine)
        with replay(log):
            statistics(again)
        replays += len(log)

    assert replays == 150 * 8


def test_a_single_group_that_is_found_is_one_of_a_unit_whatever_the_bound():
    """Of a unit with a row in each of three groups one row is in that group: it needs the noise of one row."""
    frame = {"key": ["a"] * 400, "unit": range(400)}
    found = fd.KeyThreshold(epsilon=2.0, delta=1e-6)
    groups = fd.private_group_by(frame, "key", keys=found, unit="unit", groups_per_unit=3)
    spent = {"epsilon": 1.0, "delta": 1e-6}
    assert groups.keys == ("a",)
    assert groups.count(**spent).standard_error == fd.private_count([1], **spent).standard_error
    assert groups.histogram("key", categories=["a", "b"], **spent).labels == (("a", "a"), ("a", "b"))


def test_bounded_groups_need_the_noise_of_their_l2_norm():
    frame = {"day": np.arange(365), "unit": np.arange(365) % 7}
    groups = fd.private_group_by(frame, "day", keys=np.arange(365), unit="unit", groups_per_unit=200, rows_per_group=2)
    found = groups.count(epsilon=1.0, delta=1e-6)
    mechanism = fd.DiscreteGaussianMechanism.calibrated(
        epsilon=1.0, delta=1e-6, l2_sensitivity=2.0 * math.sqrt(200), dimension=365
    )

    assert found.standard_error == pytest.approx(mechanism.standard_deviation, rel=1e-9)
    assert found.statistic == "counts by group, of at most 2 rows in 200 groups a unit"


# several columns


def test_groups_of_several_columns_are_those_of_a_loop():
    rng = np.random.default_rng(3)
    table = {
        "city": rng.choice(np.array(["A", "B", "C", None], object), 300).tolist(),
        "year": rng.integers(2020, 2024, 300),
        "member": rng.integers(0, 2, 300).astype(bool),
    }
    by = ["city", "year", "member"]
    declared = {"city": ["A", "B"], "year": [2021, 2020], "member": [True, False]}
    product = fd.private_group_by(table, by, keys=declared)
    listed = [("B", 2021, True), ("A", 2022, False), ("C", 2020, True)]
    chosen = fd.private_group_by(table, by, keys=listed)
    found = fd.private_group_by(table, by, keys=fd.KeyThreshold(epsilon=15.0, delta=1e-3))
    rows = list(zip(*(np.asarray(table[name], object).tolist() for name in by), strict=True))

    assert product.keys == tuple(itertools.product(*declared.values()))
    for groups in (product, chosen, found):
        expected = [groups.keys.index(row) if row in groups.keys else -1 for row in rows]
        assert groups._codes.tolist() == expected
    assert chosen.keys == tuple(listed)
    assert found.keys == tuple(sorted(found.keys))
    assert all(None not in key for key in found.keys)


def test_combinations_beyond_64_bits_are_told_apart():
    table = {f"c{i}": np.array([1, 2, 1]) + 0 for i in range(5)} | {"c5": np.array([5, 5, 6])}
    keys = [(1, 1, 1, 1, 1, 6), (2, 2, 2, 2, 2, 5)]
    assert fd.private_group_by(table, list(table), keys=keys)._codes.tolist() == [-1, 1, 0]
    columns = [np.arange(2000) for _ in range(6)]
    wide = {str(i): column for i, column in enumerate(columns)}
    groups = fd.private_group_by(wide, list(wide), keys=[(row,) * 6 for row in range(1999, -1, -1)])
    assert groups._codes.tolist() == list(range(1999, -1, -1))


@pytest.mark.parametrize(
    ("by", "keys", "more", "error", "words"),
    [
        ([], ["a"], {}, InvalidParameter, "by must be a column or several"),
        (["a", "a"], ["a"], {}, InvalidParameter, "all different"),
        (["a", "b"], ["a"], {}, InvalidArrayType, "tuples with a value of each of a, b"),
        (["a", "b"], {"a": [1]}, {}, InvalidParameter, "categories of each of a, b, got those of a"),
        (["a", "b"], {"a": [1], "b": [1]}, {}, InvalidArrayType, r"keys\['b'\] must be strings"),
        (["a", "b"], [(1, "x"), (1, "x")], {}, InvalidArray, "all different"),
        ("a", [1], {"rows_per_group": 2}, InvalidParameter, "groups_per_unit must be given"),
        ("a", [1], {"groups_per_unit": 2**12, "rows_per_group": 2**12}, InvalidParameter, "at most 1048576 rows"),
        ("a", fd.KeySelection(epsilon=1.0, delta=0.1), {"groups_per_unit": 2}, InvalidParameter, "a KeyUnion finds"),
        ("a", fd.KeySelection(epsilon=1.0, delta=0.1), {"rows_per_unit": 2}, InvalidParameter, "must be 1 for a Key"),
    ],
)
def test_what_is_refused_names_what_is_accepted(by, keys, more, error, words):
    table = {"a": np.array([1, 2]), "b": np.array(["x", "y"])}
    with pytest.raises(error, match=words):
        fd.private_group_by(table, by, keys=keys, **more)


# keys by a threshold, and their counts


@pytest.mark.parametrize("given", LIMITS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (5.0, 0.2)])
def test_own_keys_of_a_unit_are_released_with_probability_delta_at_most(given, epsilon, delta):
    """By all ways in which the rows of a unit fall into keys of its own, with the exact law of the noise."""
    limit, rule = contribution(*given), fd.KeyThreshold(epsilon=epsilon, delta=delta)
    law = stats.dlaplace(1.0 / float(rule._noise(limit).scale))
    least = rule._least(limit)

    def chance(least):
        return max(
            1.0 - math.prod(1.0 - float(law.sf(least - count - 1)) for count in counts) for counts in counts_of(limit)
        )

    assert chance(least) <= delta * (1.0 + 1e-9)


def test_counts_of_found_keys_have_the_noise_that_found_them():
    """False alarm 1e-9: 6.2 standard errors of the mean and of the variance of 4000 noises."""
    size, each = 4000, 100
    frame = {"key": np.repeat(np.arange(size), each)}
    groups = fd.private_group_by(frame, "key", keys=fd.KeyThreshold(epsilon=0.5, delta=1e-6))
    found = groups.found_counts
    noise = found.value - each

    assert found.labels == groups.keys == tuple(range(size))
    assert found.event == groups.event == EpsilonDeltaEvent(epsilon=0.5, delta=1e-6)
    assert abs(noise.mean()) < 6.2 * found.standard_error / math.sqrt(size)
    assert noise.var() == pytest.approx(found.standard_error**2, rel=6.2 * math.sqrt(5.0 / size))
    inside = (found.interval(0.9).lower <= each) & (each <= found.interval(0.9).upper)
    assert inside.mean() > 0.9 - 6.2 * math.sqrt(0.09 / size)
    assert found.value.min() >= fd.KeyThreshold(epsilon=0.5, delta=1e-6).threshold(1)


def test_where_groups_of_a_unit_are_bounded_units_are_counted():
    frame = {"key": ["a"] * 900 + ["b"] * 20, "unit": [*np.repeat(np.arange(300), 3).tolist(), *[7] * 20]}
    rule = fd.KeyThreshold(epsilon=5.0, delta=1e-6)
    groups = fd.private_group_by(frame, "key", keys=rule, unit="unit", groups_per_unit=1, rows_per_group=20)

    assert groups.keys == ("a",)
    assert abs(int(groups.found_counts.value[0]) - 300) < 20
    assert groups.found_counts.statistic.startswith("units by group that was found, at least")
    assert (groups._codes >= 0).sum() > 880
    given = fd.private_group_by(frame, "key", keys=["a"], unit="unit")
    assert given.found_counts is None


def test_the_most_frequent_keys_are_the_largest_counts_that_were_released():
    rng = np.random.default_rng(5)
    frame = {"key": np.minimum(rng.zipf(1.4, 20_000), 10**6)}
    groups = fd.private_group_by(frame, "key", keys=fd.KeyThreshold(epsilon=0.5, delta=1e-6))
    counts = dict(zip(groups.keys, groups.found_counts.value.tolist(), strict=True))
    expected = sorted(groups.keys, key=lambda key: (-counts[key], groups.keys.index(key)))

    assert len(expected) > 20
    for number in (1, 7, len(expected), 10**6):
        found = groups.most_frequent(number)
        assert found.labels == tuple(expected[:number])
        assert found.value.tolist() == [counts[key] for key in found.labels]
        assert found.event == groups.found_counts.event
        assert found.standard_error == groups.found_counts.standard_error
        lower, upper = found.interval(0.95)
        assert np.all((lower <= found.value) & (found.value <= upper))


def test_no_keys_have_no_most_frequent_ones_and_other_keys_are_refused():
    nothing = fd.private_group_by({"k": ["a"]}, "k", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-12))

    assert nothing.most_frequent(3).labels == ()
    assert nothing.most_frequent(3).value.size == 0
    with pytest.raises(InvalidParameter, match="number must be"):
        nothing.most_frequent(0)
    with pytest.raises(InvalidParameter, match="KeyThreshold"):
        fd.private_group_by({"k": ["a"]}, "k", keys=["a"]).most_frequent(1)


# the optimal rule for one key a unit


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (2.5, 1e-30), (0.01, 0.3), (30.0, 1e-9)])
def test_probabilities_keep_both_inequalities_exactly_and_are_the_largest(epsilon, delta):
    table = [*selection.probabilities(epsilon, delta), 2**256]
    with mpmath.workdps(150):
        growth, added, one = mpmath.e ** mpmath.mpf(epsilon), mpmath.mpf(delta) * 2**256, mpmath.mpf(2) ** 256
        for here, further in itertools.pairwise(table):
            assert further >= here
            assert mpmath.mpf(further) <= growth * here + added
            assert one - here <= growth * (one - further) + added
        largest = mpmath.mpf(0)
        for here in table[:-1]:
            assert abs(here - largest) <= largest * mpmath.mpf(2) ** -150 + mpmath.mpf(2) ** 60
            largest = min(growth * largest + added, one - (one - largest - added) / growth, one)


def test_a_key_of_86_units_is_kept_half_the_time_where_a_threshold_needs_110():
    rule, threshold = fd.KeySelection(epsilon=0.1, delta=1e-5), fd.KeyThreshold(epsilon=0.1, delta=1e-5)

    assert rule.probability(85) < 0.5 <= rule.probability(86)
    assert rule.probability(10**6) == 1.0
    assert 108 <= threshold.threshold(1) <= 112


class Bits:
    """A source of chosen bytes."""

    def __init__(self, numbers):
        self._bytes = b"".join(number.to_bytes(32, "big") for number in numbers)

    def bytes(self, n):
        assert n == len(self._bytes)
        return self._bytes


def test_a_key_is_released_if_256_bits_are_less_than_its_probability():
    rule = fd.KeySelection(epsilon=0.5, delta=1e-4)
    table = selection.probabilities(0.5, 1e-4)
    counts = np.array([0, 1, 1, 1, 9, 9, 9, len(table), 10**6])
    at = [table[0], table[1] - 1, table[1], table[1] + 1, table[9] - 1, table[9], table[9] + 2**100, 2**256 - 1, 2**255]

    chosen = rule._chosen(counts, Bits(at))
    assert chosen.tolist() == [False, True, False, False, True, False, False, True, True]


def test_keys_are_selected_as_often_as_their_units_say():
    """False alarm 1e-9."""
    rule = fd.KeySelection(epsilon=0.1, delta=1e-5)
    size, each = 3000, 88
    frame = {"key": np.repeat(np.arange(size), 2 * each), "unit": np.repeat(np.arange(size * each), 2)}
    found = fd.private_group_by(frame, "key", keys=rule, unit="unit", groups_per_unit=1, rows_per_group=2)
    law = stats.binom(size, rule.probability(each))

    assert 1e-9 < law.cdf(len(found)) < 1.0 - 1e-9
    assert found.event == EpsilonDeltaEvent(epsilon=0.1, delta=1e-5)


# unions by sums alone; those with coins are in test_key_unions.py


@pytest.fixture
def sums_alone(monkeypatch):
    monkeypatch.setattr(weighted, "MIN_EPSILON", math.inf)
    union.rounds.cache_clear()
    yield
    union.rounds.cache_clear()


@pytest.mark.usefixtures("sums_alone")
@pytest.mark.parametrize("groups", [1, 2, 7, 100])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 0.2)])
def test_rounds_of_a_union_keep_the_budget_and_own_keys_below_it(groups, epsilon, delta):
    made = union.rounds(epsilon, delta, groups)
    half = Fraction(delta) / 2
    whole = fd.GaussianMechanism.calibrated(epsilon=epsilon, delta=float(half), l2_sensitivity=1.0).noise_multiplier

    assert sum(1 / Fraction(each.mechanism.noise_multiplier) ** 2 for each in made) <= 1 / Fraction(whole) ** 2
    for mechanism, threshold in made:
        deviation = mechanism.standard_deviation
        assert mechanism.l2_sensitivity == 2.0**20
        chances = [
            keys * stats.norm.sf((threshold - deviation * 2.0**-20 - math.isqrt(2**40 // keys)) / deviation)
            for keys in range(1, groups + 1)
        ]
        assert max(chances) <= half / len(made)
        assert max(chances) >= half / len(made) * 0.99


def pairs_of(rng, unit, keys, most):
    chosen = rng.choice(keys, int(rng.integers(1, most + 1)), replace=False)
    return {"key": [f"k{each}" for each in chosen], "unit": [unit] * len(chosen)}


@pytest.mark.usefixtures("sums_alone")
def test_no_unit_moves_the_weights_of_a_union_by_more_than_their_norm():
    """Also units of more keys than they may have, of which the first count while a run is recorded."""
    rng = np.random.default_rng(2)
    replays = 0
    for trial in range(60):
        tables = [pairs_of(rng, unit, 6, 6) for unit in range(4)]
        tables.append({"key": [f"k{i}" for i in range(6)], "unit": list(range(10, 16))})  # so that all keys occur
        mine = pairs_of(rng, 9, 6, 6)
        groups = 1 + trial % 6
        rule = fd.KeyUnion(epsilon=1.0, delta=1e-2)

        def found(own, tables=tables, groups=groups, rule=rule):
            table = {name: [each for part in [*tables, *own] for each in part[name]] for name in ("key", "unit")}
            return fd.private_group_by(table, "key", keys=rule, unit="unit", groups_per_unit=groups).keys

        with record() as log:
            there = found([mine])
        with replay(log):
            assert found([]) == there
        replays += len(log)

    assert replays == 180


@pytest.mark.parametrize("number", [1, 4])
def test_own_keys_of_one_unit_are_seldom_found_in_a_union(number):
    """Released with probability δ/2 = 0.1 at most; false alarm 1e-9 of 600 runs."""
    table = {"key": list(range(number)), "unit": [1] * number}
    rule = fd.KeyUnion(epsilon=1.0, delta=0.2)
    runs = [bool(fd.private_group_by(table, "key", keys=rule, unit="unit", groups_per_unit=4).keys) for _ in range(600)]

    assert stats.binom(600, 0.1).sf(sum(runs) - 1) > 1e-9


def test_a_union_finds_many_more_keys_than_a_threshold_where_units_have_many():
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(20_000), 20)
    frame = {"key": np.minimum(rng.zipf(1.3, units.size), 10**9), "unit": units}
    rule, threshold = fd.KeyUnion(epsilon=1.0, delta=1e-6), fd.KeyThreshold(epsilon=1.0, delta=1e-6)
    many = fd.private_group_by(frame, "key", keys=rule, unit="unit", groups_per_unit=20)
    few = fd.private_group_by(frame, "key", keys=threshold, unit="unit", groups_per_unit=20)

    assert len(many) > 1.5 * len(few)
    assert many.found_counts is None
    assert set(many.keys) >= set(few.keys[:5])


@pytest.mark.parametrize("rule", [fd.KeyThreshold, fd.KeySelection, fd.KeyUnion])
@pytest.mark.parametrize("keys", [[], [None], [math.nan, None], ["a"]])
def test_tables_without_rows_or_keys_have_no_groups_and_raise_nothing(rule, keys):
    groups = fd.private_group_by({"k": keys, "u": keys}, "k", keys=rule(epsilon=1.0, delta=1e-9), unit="u")

    assert groups.keys == ()


def test_limits_are_words_in_statistics():
    assert Contribution(6, 3, 2, True).words("person", "first") == ", of the first 2 rows in 3 groups a unit"
    assert Contribution(2, 2, 2).words("person", "random") == ", of at most 2 rows a unit"
    assert Contribution(2, 2, 2).words(None, "random") == ""
