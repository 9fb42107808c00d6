"""Naive Bayes of categories: exact counts, no neighbor further than is charged, scores that are finite."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.accounting import GdpAccountant, PureDpAccountant
from ferrodp.errors import BudgetExceeded, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import DiscreteLaplaceEvent, GaussianEvent, NeighboringRelation
from ferrodp.mechanisms import DiscreteLaplaceMechanism
from ferrodp.statistics import models
from ferrodp.statistics.marginals import noise
from ferrodp.sums.clipped import integers_flat
from reference import categorical as slow

ADD, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
CLASSES = ["no", "yes"]
CATEGORIES = [["a", "b"], [0, 1, 2]]
RECORDS = [
    *itertools.product(["a", None], [0, 2], ["no", "yes"]),
    ("b", 1, "yes"),
    ("c", 7, "no"),
    ("a", 0, "perhaps"),
    (None, math.nan, None),
]
"""What a row may be: two values and a label, also such as are missing or not public."""


def seeded():
    return fd.testing.seeded(bytes(32))


def fit(records, delta=1e-6, **options):
    rows, labels = [record[:2] for record in records], [record[2] for record in records]
    options = {"classes": CLASSES, "categories": CATEGORIES, "epsilon": 1.0, "delta": delta, **options}
    return models.private_categorical_bayes(rows, labels, **options)


@pytest.fixture
def released(monkeypatch):
    """The integers about to be noised as counts, the noise in units of these, and the sensitivity that it is for."""
    seen = []

    def gaussian(total, multiplier, *args, out, recorded, **options):
        integers = integers_flat(total).astype(object)
        weight = math.isqrt(2**59 // (len(CATEGORIES) + 1))
        assert not (integers % weight).any()
        seen.append((integers // weight, multiplier * total.clip_norm / weight, Fraction(recorded[1]) / weight))
        return np.zeros(integers.size)

    def laplace(mechanism, counts, *, out, source):
        seen.append((counts.astype(object), mechanism.scale, Fraction(mechanism.l1_sensitivity)))
        return counts

    monkeypatch.setattr(noise, "release_flat", gaussian)
    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", laplace)
    return seen


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_counts_are_those_of_the_definition(delta, released):
    for size in range(4):
        for records in itertools.combinations_with_replacement(RECORDS, size):
            released.clear()
            fit(records, delta)
            rows, labels = [record[:2] for record in records], [record[2] for record in records]

            assert released[0][0].tolist() == slow.counts(rows, labels, CLASSES, CATEGORIES)


@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_neighbor_of_a_small_database_is_further_than_what_is_charged(delta, relation, released):
    """All databases of up to two rows of twelve, with all their neighbors; the worst are as far as is charged."""
    held = {}
    for size in range(3):
        for places in itertools.combinations_with_replacement(range(len(RECORDS)), size):
            released.clear()
            fit([RECORDS[place] for place in places], delta, neighboring_relation=relation)
            held[places] = released[0]
    furthest, charged = 0, held[()][2]
    for one, other in itertools.product(held, repeat=2):
        shared = len(one) + len(other) - 2 * sum(min(one.count(i), other.count(i)) for i in set(one))
        if shared != (2 if relation is REPLACE and len(one) == len(other) else 1):
            continue
        moved = held[one][0] - held[other][0]
        distance = sum(int(x) ** 2 for x in moved) if delta else int(abs(moved).sum())
        furthest = max(furthest, distance)
    bound = charged**2 if delta else charged

    assert furthest == (3 if relation is not REPLACE else 6)
    assert furthest <= bound <= furthest * (1 + Fraction(1, 10**8))  # the grid of sums rounds √3 to nine digits


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_is_that_of_the_charge_and_of_as_many_rows_as_a_unit_has(delta, relation, rows, released):
    model = fit([], delta, neighboring_relation=relation, max_contributions=rows)
    _, deviation, sensitivity = released[0]
    least = (2 if relation is REPLACE else 1) * 3 * (rows**2 if delta else rows)

    assert (sensitivity**2 if delta else sensitivity) >= least
    if delta:
        assert isinstance(model.event, GaussianEvent)
        assert Fraction(model.event.noise_multiplier) * sensitivity <= Fraction(deviation) * (1 + Fraction(1, 10**12))
        accountant = GdpAccountant(neighboring_relation=relation)
    else:
        assert isinstance(model.event, DiscreteLaplaceEvent)
        accountant = PureDpAccountant(neighboring_relation=relation)
    accountant.compose(model.event)
    assert 0.99 < accountant.epsilon(delta) <= 1.0
    assert (model.epsilon, model.delta) == (1.0, delta)
    assert model.unit == ("one row" if rows == 1 else f"whoever contributes up to {rows} rows")


UNITS = [("u", 0), ("u", 3), ("u", 10), ("v", 4), ("v", 8), (None, 3)]
"""What a row of a small table may be: whose it is, and which of the records above."""


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_whole_unit_moves_counts_by_no_more_than_is_charged(delta, relation, most, released):
    """Every small table and each without one unit, or with other rows of it: the first rows of a unit count."""
    held = {}

    def run(table):
        if table not in held:
            released.clear()
            more = {"unit": [owner for owner, _ in table], "keep": "first", "max_contributions": most}
            fit([RECORDS[place] for _, place in table], delta, neighboring_relation=relation, **more)
            held[table] = released[0]
        return held[table]

    every = [*(table for size in range(4) for table in itertools.product(UNITS, repeat=size)), (("u", 0),) * 5]
    if relation is REPLACE:
        few = [table for table in every if {owner for owner, _ in table} == {"u"}]
        pairs = [((*a, *c), (*b, *c)) for a, b in itertools.combinations(few, 2) for c in [(), (("v", 4),)]]
    else:
        pairs = [(table, tuple(row for row in table if row[0] != "u")) for table in every]
    for one, other in pairs:
        moved = run(one)[0] - run(other)[0]
        charged = run(one)[2]
        assert sum(int(x) ** 2 for x in moved) <= charged**2 if delta else abs(moved).sum() <= charged


def test_rows_of_a_unit_beyond_the_bound_leave_counts_as_they_are(released):
    records = [RECORDS[0], RECORDS[10], RECORDS[3], RECORDS[0], RECORDS[4]]
    model = fit(records, unit=list("uuuuv"), keep="first", max_contributions=2)
    fit([records[0], records[2], records[4]], unit=list("uuv"), keep="first", max_contributions=2)

    assert released[0][0].tolist() == released[1][0].tolist()
    assert model.unit == "one unit, with all of its rows, of which up to 2 count"


def test_one_entry_does_not_decide_how_others_are_read(released):
    """A list with text among its numbers: numpy would turn all of it into text."""
    fit([("a", 0, "no"), ("b", 1, "no")])
    fit([("a", 0, "no"), ("b", 1, "no"), ("x", "word", "no")])

    moved = released[1][0] - released[0][0]
    assert moved.tolist() == [1] + [0] * 11


@settings(max_examples=60, deadline=None)
@given(
    records=st.lists(st.sampled_from(RECORDS), max_size=8),
    smoothing=st.floats(1e-290, 1e100),
    delta=st.sampled_from([0.0, 1e-6]),
    seed=st.binary(min_size=32, max_size=32),
)
def test_scores_are_those_of_the_definition_and_finite(records, smoothing, delta, seed):
    model = fit(records, delta, epsilon=0.1, source=fd.testing.seeded(seed))
    rows = [record[:2] for record in RECORDS]
    found = model.scores(rows, smoothing=smoothing)

    assert found.shape == (len(rows), 2)
    assert np.isfinite(found).all()
    for row, each in zip(rows, found.tolist(), strict=True):
        expected = slow.scores(row, model.class_counts, model.counts, CATEGORIES, smoothing)
        assert each == pytest.approx(expected, rel=1e-9)
    for extreme in (5e-324, 1e100):
        assert np.isfinite(model.scores(rows, smoothing=extreme)).all()


def test_a_model_of_many_rows_is_that_of_the_counts():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 50_000)
    codes = np.column_stack([(labels + (rng.random(50_000) < 0.2)) % 2, rng.integers(0, 3, 50_000)])
    options = {"classes": [0, 1], "categories": [[0, 1], [0, 1, 2]], "epsilon": 8.0, "source": seeded()}
    for delta in (0.0, 1e-3):
        model = models.private_categorical_bayes(codes, labels, delta=delta, **options)
        exact = np.array(slow.counts(codes.tolist(), labels.tolist(), [0, 1], [[0, 1], [0, 1, 2]]))
        noised = np.concatenate([model.class_counts, *(each.ravel() for each in model.counts)])

        assert [each.shape for each in model.counts] == [(2, 2), (2, 3)]
        assert np.abs(noised - exact).max() < 12 * model.standard_error  # below e⁻¹² a count for either noise
        assert np.mean(np.array(model.predict(codes)) == labels) > 0.79
        assert repr(model).startswith("<CategoricalBayes: 2 classes, 2 columns; ε=8, δ=")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_standard_error_is_that_of_the_noise(delta):
    """10⁵ counts: their variance is within 5 % of the stated one but for 1e-9 (six deviations of 0.0071 at most)."""
    rows = np.zeros((0, 1), np.int64)
    options = {"classes": [0, 1], "categories": [range(50_000)], "epsilon": 1.0, "delta": delta, "source": seeded()}
    model = models.private_categorical_bayes(rows, np.zeros(0, np.int64), **options)

    assert np.var(model.counts[0]) / model.standard_error**2 == pytest.approx(1.0, abs=0.05)


def test_tables_are_read_by_name_in_whatever_order():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"x": ["a", "b", None] * 500, "who": list(range(1500)), "y": [0, 2, 1] * 500}
    labels = ["no", "yes", "no"] * 500
    options = {"classes": CLASSES, "epsilon": 8.0, "delta": 1e-3, "unit": "who"}
    for table in (columns, pandas.DataFrame(columns), polars.DataFrame(columns)):
        for categories in ({"y": [0, 1, 2], "x": ["a", "b"]}, CATEGORIES):
            model = models.private_categorical_bayes(table, labels, categories=categories, source=seeded(), **options)
            one = {"y": [2], "x": ["b"]}

            assert model.columns == (("y", "x") if isinstance(categories, dict) else ("x", "y"))
            assert model.predict(one) == model.predict(polars.DataFrame(one)) == ["yes"]
            assert model.predict([[one[name][0] for name in model.columns]]) == ["yes"]


def test_values_never_raise_or_warn():
    odd = [None, math.nan, math.inf, 10**400, "x", b"x", 3 + 4j, (1, 2), {}, [1], np.datetime64("2020-01-01"), fit]
    with np.errstate(all="raise"):
        for value in odd:
            model = fit([("a", value, "no"), (value, 1, "yes"), ("b", 2, value)])
            assert np.isfinite(model.scores([("a", value), (value, 1)])).all()


def test_an_open_budget_pays_once_and_refuses_what_does_not_fit():
    with fd.budget(epsilon=1.0, delta=1e-5):
        fit(RECORDS, epsilon=0.6)
        with pytest.raises(BudgetExceeded):
            fit(RECORDS, epsilon=0.6)


ROWS, LABELS = [("a", 0), ("b", 1)], ["no", "yes"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"classes": ["no"]}, "classes must be at least two, got 1"),
        ({"classes": ["no", "no"]}, "classes must be all different"),
        ({"categories": [["a", "b"]]}, "rows must have 1 columns, those of categories"),
        ({"categories": [["a", "a"], [0]]}, "categories must be all different"),
        ({"categories": []}, "categories must name a column"),
        ({"categories": "ab"}, "categories must be a dict from names of columns to public values"),
        ({"categories": 3}, "categories must be a dict from names of columns to public values"),
        ({"categories": ["ab", [0]]}, "categories must be a list of categories"),
        ({"categories": {"x": ["a"]}}, "categories must be a sequence of public values for each column where rows"),
        ({"categories": [range(10**6), range(9 * 10**6)]}, "must make at most 10000000 counts, got 20000002"),
        ({"rows": ROWS[:1]}, "labels and columns must be of the same length, got 2 and 1"),
        ({"rows": [("a", 0), ("b",)]}, "rows must have 2 columns"),
        ({"rows": ["ab", "cd"]}, "rows must have 2 columns"),
        ({"rows": np.zeros((2, 3))}, r"rows must have the shape \(n, 2\)"),
        ({"rows": np.zeros((2, 2))}, "categories must be numbers, as the column has float64"),
        ({"rows": {"x": ["a", "b"]}}, "categories must be of 1 columns, as rows have, got 2"),
        ({"rows": {"x": ["a", "b"]}, "categories": {"y": ["a"]}}, "frame must have a column 'y'"),
        ({"rows": {1: ["a", "b"]}, "categories": [["a"]]}, "categories must be of columns with strings as names"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"max_contributions": 0}, "max_contributions must be"),
        ({"unit": "who"}, "unit must be an id for each row where rows are no table"),
        ({"unit": [1]}, "unit must have an id for each of 2 rows, got 1"),
        ({"keep": "last"}, 'keep must be "random" or "first"'),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_before_anything_is_drawn(changed, message, released):
    options = {"rows": ROWS, "labels": LABELS, "classes": CLASSES, "categories": CATEGORIES, "epsilon": 1.0} | changed
    with pytest.raises((InvalidParameter, InvalidType, InvalidArray, InvalidArrayType), match=message):
        models.private_categorical_bayes(**options)

    assert released == []


@pytest.mark.parametrize("smoothing", [0.0, -1.0, math.inf, 1e101, "1"])
def test_smoothing_is_positive_and_not_huge(smoothing):
    with pytest.raises((InvalidParameter, InvalidType), match="smoothing must be"):
        fit(RECORDS).predict(ROWS, smoothing=smoothing)
