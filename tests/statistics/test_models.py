"""Models over exact sums: sums of neighbors are as far apart as is charged, and models are those of the moments."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.accounting import GdpAccountant
from ferrodp.errors import BudgetExceeded, InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, GaussianEvent, NeighboringRelation
from ferrodp.statistics import models
from ferrodp.statistics.models import _sums
from ferrodp.statistics.models.clusters import _Mean, shrunk

ADD, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
ROWS = [
    (0.0, 0.0),
    (1.0, 1.0),
    (1.0, -1.0),
    (9.0, -9.0),
    (0.3, 1e308),
    (math.nan, 1.0),
    (math.inf, -1.0),
    (5e-324, -0.0),
]


def seeded():
    return fd.testing.seeded(bytes(32))


def bayes(rows, **options):
    labels = [str(row[0] > 0.5) for row in rows]
    return models.private_naive_bayes(rows, labels, classes=["True", "False"], **options)


RELEASES = {
    "moments": models.private_moments,
    "moments of a stated norm": lambda rows, **o: models.private_moments(rows, clip_norm=0.7, **o),
    "clusters": lambda rows, **o: models.private_clusters(rows, 2, num_rounds=2, seed=0, **o),
    "naive Bayes": bayes,
    "scales": models.private_scales,
}


@pytest.fixture
def released(monkeypatch):
    """Every sum that was about to be released; what comes out does not depend on data, so that runs can be compared."""
    seen = []

    def record(total, multiplier, divisor, source, ticket, distance=1):
        seen.append((total.integers.astype(object), total.clip_norm, total.granularity, multiplier, distance))
        noise = np.random.default_rng(len(seen)).normal(size=total.integers.size)
        return 3.0 * noise

    monkeypatch.setattr(_sums, "release_flat", record)
    return seen


def events_of(event):
    return event.events if isinstance(event, ComposedEvent) else (event,)


@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
@pytest.mark.parametrize("name", RELEASES)
def test_no_neighbor_of_a_small_database_is_further_than_what_is_charged(name, relation, released):
    """All databases of up to two rows of eight, and all their neighbors."""
    runs = {}
    for size in range(3):
        for rows in itertools.combinations_with_replacement(range(len(ROWS)), size):
            released.clear()
            table = np.array([ROWS[i] for i in rows]).reshape(-1, 2)
            model = RELEASES[name](table, bounds=(-1, 1), epsilon=1.0, delta=1e-6, neighboring_relation=relation)
            runs[rows] = list(released)
            event = model.event
            # what is drawn is what is charged
            for (*_, multiplier, distance), one in zip(released, events_of(event), strict=True):
                assert multiplier == one.noise_multiplier * distance
                assert distance == (2 if relation is REPLACE else 1)
    neighbors = 0
    for one, other in itertools.combinations(runs, 2):
        shared = len(one) + len(other) - 2 * sum(min(one.count(i), other.count(i)) for i in set(one))
        if shared != (2 if relation is REPLACE and len(one) == len(other) else 1):
            continue
        neighbors += 1
        for (here, norm, grid, _, distance), (there, *_) in zip(runs[one], runs[other], strict=True):
            moved = sum(int(x) ** 2 for x in (here - there).ravel())
            assert moved <= (distance * Fraction(norm) / Fraction(grid)) ** 2
    assert neighbors > 30


@pytest.mark.parametrize("name", RELEASES)
def test_several_rows_of_a_unit_are_charged(name, released):
    model = RELEASES[name](np.ones((5, 2)), bounds=(-1, 1), epsilon=1.0, delta=1e-6, max_contributions=3)

    assert [distance for *_, distance in released] == [3] * len(released)
    assert model.unit == "whoever contributes up to 3 rows"


UNITS = [("a", 0), ("a", 3), ("a", 5), ("b", 1), ("b", 2), (None, 3)]
"""What a row of a small table may be: whose it is, and which of the rows above."""


def without(table, unit):
    return tuple(row for row in table if row[0] != unit)


def neighbors_by_unit(relation):
    every = [*(table for size in range(4) for table in itertools.product(UNITS, repeat=size))]
    every += [(("a", 3),) * 5, (("a", 0), ("a", 3), ("a", 3), ("a", 3)), (("b", 1), *[("a", 3)] * 4)]
    if relation is ADD:
        return [(table, without(table, "a")) for table in every if table != without(table, "a")]
    few = [table for table in every if table and not without(table, "a")]
    return [
        ((*one, *both), (*other, *both)) for one, other in itertools.combinations(few, 2) for both in [(), UNITS[3:4]]
    ]


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
@pytest.mark.parametrize("name", RELEASES)
def test_a_whole_unit_moves_sums_by_no_more_than_is_charged(name, relation, most, released):
    """Every small table and each without one unit, or with other rows of it: the first rows of a unit count."""
    held = {}

    def run(table):
        if table not in held:
            released.clear()
            rows = np.array([ROWS[place] for _, place in table]).reshape(-1, 2)
            options = {"unit": [owner for owner, _ in table], "keep": "first", "max_contributions": most}
            RELEASES[name](rows, bounds=(-1, 1), epsilon=1.0, delta=1e-6, neighboring_relation=relation, **options)
            held[table] = list(released)
        return held[table]

    for one, other in neighbors_by_unit(ADD if relation is SPECIAL else relation):
        for (here, norm, grid, _, distance), (there, *_) in zip(run(one), run(other), strict=True):
            moved = sum(int(x) ** 2 for x in (here - there).ravel())
            assert distance == most * (2 if relation is REPLACE else 1)
            assert moved <= (distance * Fraction(norm) / Fraction(grid)) ** 2


@pytest.mark.parametrize("name", RELEASES)
def test_rows_of_a_unit_beyond_the_bound_leave_sums_as_they_are(name, released):
    rows = np.array([ROWS[1], ROWS[5], ROWS[1], ROWS[0], ROWS[2]])
    options = {"bounds": (-1, 1), "epsilon": 1.0, "delta": 1e-6, "keep": "first", "max_contributions": 2}
    model = RELEASES[name](rows, unit=["a", "a", "a", "a", "b"], **options)
    whole = list(released)
    released.clear()
    RELEASES[name](rows[[0, 2, 4]], unit=["a", "a", "b"], **options)

    assert model.unit == "one unit, with all of its rows, of which up to 2 count"
    for (here, *_), (there, *_) in zip(whole, released, strict=True):
        assert (here == there).all()


def test_a_random_subset_of_the_rows_of_a_unit_counts():
    rows = np.repeat([[-1.0], [1.0]], 20_000, axis=0)
    options = {"bounds": (-1, 1), "epsilon": 19.0, "delta": 1e-2, "max_contributions": 2, "source": seeded()}
    scales = models.private_scales(rows, unit=np.tile(np.arange(4_000), 10), **options)

    assert scales.count == pytest.approx(8_000, abs=20)
    assert scales.mean == pytest.approx([0.0], abs=0.07)  # 8000 signs: a deviation of 0.011


@pytest.mark.parametrize(("rows", "epsilon"), [(5, 0.1), (1_000, 1.0), (1_000_000, 1.0)])
def test_columns_that_do_not_vary_are_not_divided_by_noise(rows, epsilon):
    """A constant column stays within the root of its noise, and a column that varies keeps its own scale.

    The mean is within twelve deviations of its noise c·σ, and what is divided by is at least √(c·σ): at most 12·√(c·σ).
    """
    table = np.column_stack([np.full(rows, 3.0), np.resize([0.0, 10.0], rows)])
    scales = models.private_scales(table, bounds=(0, 10), epsilon=epsilon, delta=1e-6, source=seeded())
    noise = 5.0 * math.sqrt(3.0) / scales.count / epsilon  # ε above 4.3 deviations of it for δ = 1e-6

    assert (scales.scale > 0.0).all()
    assert (scales.scale >= np.sqrt(scales.variance)).all()
    assert abs(scales.transform(table)[:, 0]).max() <= 12 * math.sqrt(min(noise, 1.0))
    if rows > 10**5:
        assert scales.scale == pytest.approx([0.0, 5.0], abs=0.2)
        assert scales.scale[1] == pytest.approx(math.sqrt(scales.variance[1]))


def test_a_table_names_its_column_of_units():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = {"x": [0.0, 1.0, 2.0, 3.0] * 300, "person": ["a", "b", "c", None] * 300, "y": [2.0] * 1200}
    for frame in (table, pandas.DataFrame(table), polars.DataFrame(table)):
        options = {"bounds": (0, 4), "epsilon": 19.0, "delta": 1e-2, "max_contributions": 100, "source": seeded()}
        scales = models.private_scales(frame, unit="person", **options)

        assert scales.mean.shape == (2,)
        assert scales.count == pytest.approx(300, abs=150)


@pytest.mark.parametrize("name", RELEASES)
def test_a_model_has_the_guarantee_that_was_wanted(name):
    model = RELEASES[name](np.ones((50, 2)), bounds=(-1, 1), epsilon=0.7, delta=1e-6)
    accountant = GdpAccountant()
    accountant.compose(model.event)

    assert 0.69 < accountant.epsilon(1e-6) <= 0.7
    assert (model.epsilon, model.delta) == (0.7, 1e-6)


@settings(max_examples=50, deadline=None)
@given(whole=st.floats(1e-3, 1e3), parts=st.lists(st.integers(1, 20), min_size=2, max_size=6))
def test_shares_of_the_noise_cost_at_most_the_whole(whole, parts):
    fractions = [Fraction(part, sum(parts)) for part in parts]
    found = _sums.shares(whole, fractions)

    total = sum(1 / Fraction(each) ** 2 for each in found)
    assert 1 - Fraction(1, 10**12) <= total * Fraction(whole) ** 2 <= 1


@pytest.mark.parametrize("name", RELEASES)
def test_an_open_budget_pays_once_and_refuses_what_does_not_fit(name):
    rows = np.ones((10, 2))
    with fd.budget(epsilon=1.0, delta=1e-5):
        RELEASES[name](rows, bounds=(-1, 1), epsilon=0.6, delta=1e-6)
        with pytest.raises(BudgetExceeded):
            RELEASES[name](rows, bounds=(-1, 1), epsilon=0.6, delta=1e-6)


@pytest.mark.parametrize("name", RELEASES)
def test_values_never_raise_or_warn(name):
    hard = np.array([math.inf, -math.inf, math.nan, 5e-324, 1.7e308, -1.7e308, 0.0, 1.0])
    for dtype in (np.float16, np.float32, np.float64):
        with np.errstate(all="ignore"):
            rows = hard.astype(dtype).reshape(4, 2)
        with np.errstate(all="raise"):
            RELEASES[name](rows, bounds=(-1e50, 1e50), epsilon=1.0, delta=1e-6)
            RELEASES[name](rows, bounds=(0, 1e-50), epsilon=1.0, delta=1e-6)
            RELEASES[name](rows[:0], bounds=(0, 1), epsilon=1.0, delta=1e-6)


def test_tables_with_nulls_are_read_column_by_column():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    columns = {"x": pandas.Series([1, None, 3] * 500, dtype="Int64"), "y": [2.0, 1.0, math.nan] * 500}
    frames = [
        pandas.DataFrame(columns),
        polars.DataFrame({"x": [1, None, 3] * 500, "y": [2.0, 1.0, math.nan] * 500}),
        {"x": columns["x"], "y": columns["y"]},
    ]
    for frame in frames:
        scales = models.private_scales(frame, bounds=(0, 4), epsilon=19.0, delta=1e-2, source=seeded())

        assert scales.count == pytest.approx(500, abs=10)
        assert scales.mean == pytest.approx([1.0, 2.0], abs=0.1)


def test_regression_and_components_are_those_of_numpy_where_noise_is_small():
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(200_000, 3)) @ [[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.3]]
    target = mixed @ [1.0, -2.0, 0.5] + 3.0 + rng.normal(0.0, 0.1, len(mixed))
    rows = np.column_stack([mixed, target])
    moments = models.private_moments(rows, bounds=(-15, 15), clip_norm=2.0, epsilon=20.0, delta=1e-3, source=seeded())
    solved = np.linalg.lstsq(np.column_stack([mixed, np.ones(len(mixed))]), target, rcond=None)[0]
    model = moments.linear_regression(3)

    assert model.coef == pytest.approx(solved[:3], abs=0.1)
    assert model.intercept == pytest.approx(solved[3], abs=0.05)
    assert model.predict(mixed[:5]) == pytest.approx(target[:5], abs=0.8)
    assert moments.covariance == pytest.approx(np.cov(rows.T), abs=0.1)
    assert moments.correlation == pytest.approx(np.corrcoef(rows.T), abs=0.05)
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    found = moments.principal_components(2)
    assert np.abs(found.components @ vectors[:, ::-1][:, :2]) == pytest.approx(np.eye(2), abs=0.05)
    assert found.explained_variance == pytest.approx(values[::-1][:2], rel=0.05)
    assert found.transform(rows).var(axis=0) == pytest.approx(values[::-1][:2], rel=0.05)
    assert moments.linear_regression(3, features=[1], ridge=0.0).coef == pytest.approx(
        [np.cov(rows.T)[1, 3] / np.cov(rows.T)[1, 1]], abs=0.05
    )
    assert abs(moments.linear_regression(3, ridge=10.0).coef).max() < 0.1


def test_scaled_components_are_those_of_scaled_columns():
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(0.0, 100.0, 50_000), rng.normal(0.0, 0.1, 50_000)])
    options = {"clip_norm": 1.0, "epsilon": 10.0, "delta": 1e-3, "source": seeded()}
    moments = models.private_moments(rows, bounds=([-500, -0.3], [500, 0.3]), **options)

    assert np.abs(moments.principal_components(1).components[0]).argmax() == 0
    assert np.abs(moments.principal_components(1, scale=True).components[0] * [500, 0.3]).argmax() == 1


def test_clusters_find_what_lies_apart():
    rng = np.random.default_rng(2)
    centers = np.array([[1.0, 1.0], [9.0, 1.0], [5.0, 8.0]])
    rows = centers[rng.integers(0, 3, 9_000)] + rng.normal(0.0, 0.5, (9_000, 2))
    for seed in range(5):
        found = models.private_clusters(rows, 3, bounds=(0, 10), epsilon=4.0, delta=1e-6, seed=seed, source=seeded())
        distances = np.linalg.norm(found.centers[:, None] - centers[None], axis=2)

        assert distances.min(axis=0).max() < 0.5
        assert found.sizes.sum() == pytest.approx(9_000, rel=0.1)
        assert np.bincount(found.predict(rows), minlength=3).min() > 2_000


def test_naive_bayes_is_that_of_the_columns_where_noise_is_small():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 100_000)
    rows = rng.normal(size=(100_000, 2)) * [1.0, 2.0] + labels[:, None] * [2.0, -1.0]
    model = models.private_naive_bayes(
        rows, labels, classes=[1, 0], bounds=(-10, 10), clip_norm=1.2, epsilon=20.0, delta=1e-3, source=seeded()
    )

    assert model.classes == (1, 0)
    for place, label in enumerate(model.classes):
        chosen = rows[labels == label]
        assert model.means[place] == pytest.approx(chosen.mean(axis=0), abs=0.05)
        assert model.variances[place] == pytest.approx(chosen.var(axis=0), rel=0.05)
    assert np.mean(np.array(model.predict(rows)) == labels) > 0.84
    assert model.predict([[math.nan, math.nan]]) == [max(model.classes, key=lambda each: np.sum(labels == each))]


REFUSED = [
    ({"delta": 0.0}, "delta must be above 0, got 0: the noise of these sums is Gaussian; for example delta=1e-6"),
    ({"bounds": (1, 0)}, "bounds must be in ascending order"),
    ({"bounds": 3}, r"bounds must be a pair \(lower, upper\)"),
    ({"bounds": ([0, 0, 0], [1, 1, 1])}, "two sequences of 2, the number of columns, got 3"),
    ({"bounds": (0, 1e200)}, "bounds must be at most 1e100"),
    ({"bounds": (0, math.inf)}, "bounds must be finite"),
    ({"epsilon": 0.0}, "epsilon must be"),
    ({"max_contributions": 0}, "max_contributions must be"),
    ({"unit": [1, 2, 3]}, "unit must have an id for each of 4 rows, got 3"),
    ({"unit": "person"}, "unit must be an id for each row where rows are no table, got 'person'; to name a column"),
    ({"unit": [1, 2, 3, 4], "keep": "last"}, 'keep must be "random" or "first"'),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), REFUSED)
@pytest.mark.parametrize("name", RELEASES)
def test_bad_arguments_are_refused_before_anything_is_drawn(name, changed, message, released):
    with pytest.raises((InvalidParameter, InvalidType, InvalidArray), match=message):
        RELEASES[name](np.ones((4, 2)), **{"bounds": (0, 1), "epsilon": 1.0, "delta": 1e-6, **changed})

    assert released == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: models.private_moments(np.ones(3), **o), r"rows must have the shape \(n, d\)"),
        (lambda o: models.private_moments(np.array([["a"]]), **o), "rows must be a matrix of numbers"),
        (lambda o: models.private_moments(np.ones((3, 2)), clip_norm=0, **o), "clip_norm must be"),
        (lambda o: models.private_clusters(np.ones((3, 2)), 0, **o), "num_clusters must be"),
        (lambda o: models.private_clusters(np.ones((3, 2)), 2, num_rounds=0, **o), "num_rounds must be"),
        (lambda o: models.private_scales({"x": [1.0]}, unit="y", **o), "frame must have a column"),
        (lambda o: models.private_scales({"x": [1]}, unit="x", **o), "rows must have a column besides that of units"),
        (lambda o: models.private_naive_bayes(np.ones((2, 2)), [1, 2], classes=[1], **o), "classes must be at least"),
        (lambda o: models.private_naive_bayes(np.ones((3, 2)), [1], classes=[1, 2], **o), "labels must be as many as"),
        (lambda o: models.private_moments(np.ones((3, 2)), **o).linear_regression(2), "target must be"),
        (lambda o: models.private_moments(np.ones((3, 2)), **o).linear_regression(0, features=[0]), "features must be"),
        (lambda o: models.private_moments(np.ones((3, 2)), **o).linear_regression(0, ridge=-1), "ridge must be"),
        (lambda o: models.private_moments(np.ones((3, 2)), **o).principal_components(3), "num_components must be"),
    ],
)  # fmt: skip
def test_other_arguments_are_refused_with_what_is_accepted(call, message):
    with pytest.raises((InvalidParameter, InvalidType, InvalidArray), match=message):
        call({"bounds": (0, 1), "epsilon": 1.0, "delta": 1e-6})


def test_events_are_gaussian_and_of_as_many_sums_as_are_released():
    rows = np.ones((9, 2))
    stated = models.private_moments(rows, bounds=(0, 1), clip_norm=1.0, epsilon=1.0, delta=1e-6).event
    found = models.private_moments(rows, bounds=(0, 1), epsilon=1.0, delta=1e-6).event

    assert isinstance(stated, GaussianEvent)
    assert len(found.events) == 2
    assert models.private_scales(rows, bounds=(0, 1), epsilon=1.0, delta=1e-6).event == stated


def test_centers_that_are_noise_alone_are_at_the_mean_and_exact_ones_stay():
    rng = np.random.default_rng(0)
    centers, mean = rng.uniform(-1, 1, (5, 3)), np.zeros(3)
    squares = (centers**2).sum(axis=1)
    expected = 3 + squares / 0.5**2  # of noise with deviation 1 in sums of one row, with 0.5 as the constant

    assert np.array_equal(shrunk(centers, mean, np.zeros(5), 0.5), centers)
    assert np.array_equal(shrunk(centers, mean, np.full(5, 1e6), 0.5), np.zeros((5, 3)))
    assert np.array_equal(shrunk(np.zeros((2, 3)), mean, np.ones(2), 0.5), np.zeros((2, 3)))
    moved = shrunk(centers, mean, squares / expected, 0.5)  # noise that explains all of the distance: half is taken off
    assert np.allclose(moved, 0.5 * centers, rtol=1e-12)


def test_more_rounds_of_centers_say_more_of_the_mean_of_all_rows():
    """In each round cells add up to the count and sums of all rows; one with many cells has more noise."""
    mean = _Mean(1, 0.5)
    first = mean.with_round(np.array([[2.0, 4.0], [3.0, 2.0]]), 1.0)
    second = mean.with_round(np.array([[5.0, 3.0]]), 1.0)

    assert first.tolist() == [6.0 / 10.0]
    # weights 1/2 and 1: (2.5 + 5)/1.5 = 5 for ten rows, and (3 + 3)/1.5 = 4
    assert second.tolist() == [4.0 / 10.0]
    assert _Mean(1, 0.5).with_round(np.array([[0.1, -4.0]]), 2.0).tolist() == [-1.0]
