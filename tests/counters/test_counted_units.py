"""Persons in a day's rows: each counts for what was said of one, and nobody displaces another."""

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.counters._units import Limits, identified, placed
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter


def reference(days, each, most, apart, count):
    """Return the counts of all days, person by person, in plain Python."""
    found = np.zeros((len(days), count), np.int64)
    for person in sorted({who for rows in days for who, _ in rows}):
        used, last = 0, None
        for number, rows in enumerate(days):
            own = sorted({place for who, place in rows if who == person and 0 <= place < count})
            if not own:
                continue
            if most is not None and (used == most or (last is not None and number - last < apart)):
                continue
            used, last = used + 1, number
            for place in own[:each]:
                found[number, place] += 1
    return found


def limited(days, each, most, apart, count):
    limits, found = Limits(most, apart), []
    for number, rows in enumerate(days):
        who = identified(np.array([row[0] for row in rows], np.int64), b"k")
        where = placed(np.array([row[1] for row in rows], np.int64), None, count)
        counts, limits = limits.counted(who, where, number, each, count)
        limits = Limits.from_bytes(most, apart, limits.table.tobytes())
        found.append(counts)
    return np.array(found)


@pytest.mark.parametrize(("each", "most", "apart"), [(1, None, 1), (2, None, 1), (1, 2, 1), (2, 3, 2), (5, 1, 1)])
def test_counts_are_those_of_every_person_alone(each, most, apart):
    draw = np.random.default_rng(1)
    for _ in range(60):
        days = [
            [(int(draw.integers(-4, 5)), int(draw.integers(-1, 6))) for _ in range(int(draw.integers(0, 14)))]
            for _ in range(6)
        ]
        np.testing.assert_array_equal(limited(days, each, most, apart, 5), reference(days, each, most, apart, 5))


@pytest.mark.parametrize(("each", "most", "apart"), [(1, None, 1), (3, 2, 2)])
def test_without_a_person_the_counts_differ_by_no_more_than_is_stated(each, most, apart):
    draw = np.random.default_rng(2)
    for _ in range(40):
        days = [[(int(draw.integers(5)), int(draw.integers(6))) for _ in range(12)] for _ in range(7)]
        for person in range(5):
            others = [[row for row in rows if row[0] != person] for rows in days]
            apart_by = limited(days, each, most, apart, 6) - limited(others, each, most, apart, 6)
            taken = np.flatnonzero(apart_by.any(axis=1))
            assert np.all((apart_by >= 0) & (apart_by <= 1))
            assert np.all(apart_by.sum(axis=1) <= each)
            if most is not None:
                assert taken.size <= most
                assert np.all(np.diff(taken) >= apart)


def test_names_of_persons_and_counters_are_texts_or_numbers():
    counter = fd.Counter(noise_multiplier=0.125, max_counters=2, days=3, max_days=2)
    named = counter.start(["b", "a"], source=fd.testing.seeded(bytes(32)))
    numbered = counter.start(2, source=fd.testing.seeded(bytes(32)))
    units, counters = ["x", "x", "y", "é", "y"], ["a", "b", "a", "nobody", "a"]

    by_name = named.release_units(units, counters)
    by_place = numbered.release_units(np.array([1, 1, 2, 3, 2]), np.array([1, 0, 1, 7, 1]))
    again = numbered.release(np.zeros(2, np.int64))

    np.testing.assert_array_equal(by_name, by_place)
    assert again.shape == (2,)
    objects = counter.start(["b", "a"], source=fd.testing.seeded(bytes(32)))
    np.testing.assert_array_equal(objects.release_units(np.array(units, object), np.array(counters, object)), by_name)


def test_a_person_is_the_same_in_a_list_and_in_an_array():
    numbers = [0, 7, -7, 2**63 - 1, -(2**63)]
    texts = ["0", "7", "é", ""]
    for dtype in (np.int64, object):
        np.testing.assert_array_equal(identified(numbers, b"k"), identified(np.array(numbers, dtype), b"k"))
    for dtype in (str, object):
        np.testing.assert_array_equal(identified(texts, b"k"), identified(np.array(texts, dtype), b"k"))
    assert identified([np.int8(-7), 2**64 - 7], b"k").tolist() == [2**64 - 7] * 2
    assert len(set(identified([7, "7", None, 10**400, 0.5], b"k").tolist())) == 5
    assert identified(["a"], b"k") != identified(["a"], b"l")
    assert placed(["a", None, 3, "c"], ["c", "a"], 2).tolist() == [1, -1, -1, 0]
    assert placed([1, None, 3, "c", -1], None, 2).tolist() == [1, -1, -1, -1, -1]


def test_integers_keep_their_identity_in_every_dtype():
    assert identified(np.array([-1, 5], np.int8), b"").tolist() == [2**64 - 1, 5]
    assert identified(np.array([2**64 - 1], np.uint64), b"").tolist() == [2**64 - 1]
    assert placed(np.array([0, 2**63, 3], np.uint64), None, 4).tolist() == [0, -1, 3]


@pytest.mark.parametrize(
    ("units", "counters", "error"),
    [
        (["a"], np.array([0.5]), InvalidArrayType),
        (np.array([0.5]), ["home"], InvalidArrayType),
        (np.array([True]), ["home"], InvalidArrayType),
        ([["a"]], ["home"], InvalidArray),
        (["a"], [["home"]], InvalidArray),
        (["a", "b"], ["home"], InvalidArray),
        (["a"], np.array([0]), InvalidArrayType),
        (np.ma.MaskedArray([1], [True]), ["home"], InvalidArrayType),
    ],
)
def test_rows_of_other_types_and_shapes_are_refused(units, counters, error):
    stream = fd.Counter(noise_multiplier=1.0, days=3).start(["home"])

    with pytest.raises(error):
        stream.release_units(units, counters)
    assert stream.day == 0


def test_rows_need_a_norm_of_one_at_least():
    stream = fd.Counter(noise_multiplier=4.0, l2_sensitivity=0.5, days=3).start(1)

    with pytest.raises(InvalidParameter, match="at least 1"):
        stream.release_units([1], [0])
