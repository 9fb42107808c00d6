"""Contingency tables: exact integers with the stated sensitivity, the least noise, the best linear reconstruction."""

import collections
import datetime
import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import DiscreteGaussianEvent, GaussianEvent, NeighboringRelation
from ferrodp.statistics.marginals import noise
from ferrodp.statistics.marginals.release import _reconstruct
from ferrodp.statistics.marginals.workload import plan, subsets
from ferrodp.sums.clipped import integers_flat, release_flat
from reference import marginals as slow

Released = collections.namedtuple("Released", ["integers", "norm", "multiplier", "sensitivity"])
ADD, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
SIZES = [(2, 2), (2, 3), (3, 2, 2), (2, 4, 3)]


def frame_of(rows, count):
    """Rows as columns of integers; a row that counts nowhere has a value that is not public."""
    cells = [row if row is not None else (0,) * (count - 1) + (-7,) for row in rows]
    return {f"c{i}": np.array([cell[i] for cell in cells], np.int64) for i in range(count)}


def tables_of(rows, sizes, workload, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, **options}
    public = {f"c{i}": range(n) for i, n in enumerate(sizes)}
    return fd.private_marginals(frame_of(rows, len(sizes)), workload, categories=public, **options)


@pytest.fixture
def released(monkeypatch):
    """The integers about to be noised, how far one row moves them, the noise in these, and how far a unit does."""
    seen = []

    def record(total, multiplier, *args, recorded, **options):
        seen.append(Released(integers_flat(total), total.clip_norm, multiplier, recorded[1]))
        return release_flat(total, multiplier, *args, recorded=recorded, **options)

    monkeypatch.setattr(noise, "release_flat", record)
    return seen


def workloads(sizes):
    names = [f"c{i}" for i in range(len(sizes))]
    return [1, 2, [tuple(names)], [(names[0],), tuple(names[1:])]]


CASES = [(sizes, workload) for sizes in SIZES for workload in workloads(sizes)]


@pytest.mark.parametrize(("sizes", "workload"), CASES)
def test_what_is_measured_is_what_the_matrices_say(sizes, workload, released):
    rows = list(np.random.default_rng(1).permutation(slow.records(sizes)[1:] * 3)[:20])
    tables = tables_of([*map(tuple, rows), None], sizes, workload)

    expected = slow.strategy(sizes, tables._measured.weights) @ slow.histogram(sizes, map(tuple, rows))
    assert released[0].integers.tolist() == expected.tolist()


@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
@pytest.mark.parametrize(("sizes", "workload"), CASES)
def test_no_neighbor_of_a_small_database_is_further_than_what_is_charged(sizes, workload, relation, released):
    """All databases of up to two rows, and for several rows a unit the worst pair of them."""
    tables = tables_of([], sizes, workload, neighboring_relation=relation)
    matrix = slow.strategy(sizes, tables._measured.weights)
    drawn = released[0]
    columns = {row: matrix @ slow.histogram(sizes, [row]) for row in slow.records(sizes)}
    furthest = 0
    for one, other in itertools.product(columns, repeat=2):
        if (relation is not REPLACE) and None not in (one, other):
            continue  # a row comes, or becomes a null record
        furthest = max(furthest, sum(int(x) ** 2 for x in columns[one] - columns[other]))

    charged = Fraction(drawn.sensitivity) ** 2
    assert furthest <= charged
    assert relation is REPLACE or furthest >= charged * (1 - 1e-12)
    assert relation is not REPLACE or furthest >= charged / 2
    # The event is of no more noise than is drawn, and the noise no less than ε and δ need.
    assert isinstance(tables.event, GaussianEvent)
    assert Fraction(tables.event.noise_multiplier) * Fraction(drawn.sensitivity) <= Fraction(drawn.multiplier) * (
        Fraction(drawn.norm)
    )
    accountant = fd.accounting.GdpAccountant()
    accountant.compose(tables.event)
    assert accountant.epsilon(1e-6) <= 1.0
    # The code itself, on neighbors: no row's integers depend on the other row.
    records = slow.records(sizes)
    other = records[-1]
    for one in records:
        released.clear()
        for rows in ([other, one], [other]):
            tables_of(rows, sizes, workload, neighboring_relation=relation)
        moved = released[0].integers.astype(object) - released[1].integers.astype(object)
        assert moved.tolist() == columns[one].tolist()


def test_several_rows_of_a_unit_move_the_tables_as_far_as_is_charged(released):
    rows = [(0, 0)] * 3
    for data in (rows, []):
        tables_of(data, (2, 3), 2, max_contributions=3)
    moved = released[0].integers.astype(object) - released[1].integers.astype(object)

    assert sum(int(x) ** 2 for x in moved) == pytest.approx(released[0].sensitivity ** 2, rel=1e-12)
    assert sum(int(x) ** 2 for x in moved) <= Fraction(released[0].sensitivity) ** 2
    assert released[0].multiplier * released[0].norm >= released[0].sensitivity


@pytest.mark.parametrize(("rows", "epsilon"), [(1, 1e-5), (2**20, 1.0)])
def test_noise_that_is_too_wide_for_the_grid_of_sums_is_discrete(rows, epsilon):
    """The same reconstruction: a chi-square of 120 cells, of which 6 depend on each other, within 6 deviations."""
    source = fd.testing.seeded(bytes(32))
    squares = 0.0
    for _ in range(20):
        tables = tables_of([(0, 0)] * 5, (2, 3), 2, max_contributions=rows, epsilon=epsilon, source=source)
        assert isinstance(tables.event, DiscreteGaussianEvent)
        squares += ((tables.table(("c0", "c1")) / tables.standard_error(("c0", "c1"))) ** 2).sum()

    assert tables.event.l2_sensitivity == pytest.approx(rows * math.sqrt(tables._measured.squared_norm), rel=1e-12)
    assert squares / 120 == pytest.approx(1.0, abs=6 * math.sqrt(12 / 120))


def test_a_workload_of_more_than_one_measurement_holds_is_refused():
    with pytest.raises(InvalidParameter, match="too many for one measurement; measure some of them at a time"):
        plan((10**7, *[10] * 200), {(0, i): 1.0 for i in range(1, 200)})


def test_a_row_moves_what_is_measured_by_a_norm_of_the_grid_of_sums():
    """From 2²⁹ up to below 2³⁰, so that the grid is 1 and no sum of 2³² rows is beyond 2⁶²."""
    for sizes, workload in CASES:
        measured = tables_of([], sizes, workload)._measured

        assert measured.squared_norm <= Fraction(measured.norm) ** 2
        assert 2.0**29 <= measured.norm < 2.0**30
        assert max(w * measured.cells(of) for of, w in measured.weights.items()) <= 2**31


ROWS_OF_UNITS = [(unit, cell) for unit in "ab" for cell in [(0, 0), (0, 1), (1, 2), None]]


@pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL], ids=lambda each: each.name)
def test_a_whole_unit_moves_the_tables_by_no_more_than_is_charged(relation, released):
    """All tables of up to three rows of two units, and with five rows of one; the first rows of a unit count."""
    held = {}

    def run(rows, most):
        key = (tuple(rows), most)
        if key not in held:
            released.clear()
            owners, cells = [unit for unit, _ in rows], [cell for _, cell in rows]
            tables = tables_of(
                cells, (2, 3), 2, unit=owners, keep="first", max_contributions=most, neighboring_relation=relation
            )
            held[key] = released[0].integers.astype(object), released[0].sensitivity, tables.event
        return held[key]

    small = [rows for size in range(4) for rows in itertools.product(ROWS_OF_UNITS, repeat=size)]
    small += [(("a", (1, 2)),) * 5, (("b", (0, 0)), *[("a", (0, 1))] * 5)]
    furthest = 0
    for most in (1, 2):
        for rows in small:
            others = tuple(row for row in rows if row[0] != "a")
            neighbors = [others]
            if relation is REPLACE:
                neighbors = [(*others, *[("a", cell)] * size) for cell in [(0, 0), (1, 1), None] for size in (0, 1, 4)]
            one, sensitivity, event = run(rows, most)
            for neighbor in neighbors:
                other, same, charged = run(neighbor, most)
                assert (same, charged) == (sensitivity, event)
                moved = sum(int(x) ** 2 for x in one - other)
                assert moved <= Fraction(sensitivity) ** 2
                furthest = max(furthest, moved / sensitivity**2)
    assert furthest > (0.5 if relation is REPLACE else 1.0 - 1e-12)


def test_units_are_a_column_of_the_frame_or_ids():
    frame = {"c0": [0] * 40, "c1": [1] * 40, "who": ["x"] * 30 + ["y", "z"] * 5}
    public = {"c0": [0, 1], "c1": [0, 1]}
    given = {"categories": public, "epsilon": 19.0, "delta": 1e-6, "source": fd.testing.seeded(bytes(32))}
    by_name = fd.private_marginals(frame, 2, unit="who", max_contributions=2, **given)
    by_id = fd.private_marginals(frame, 2, unit=frame["who"], max_contributions=2, **given)

    for tables in (by_name, by_id):
        assert tables.table(("c0", "c1"))[0, 1] == pytest.approx(6.0, abs=5 * tables.standard_error(("c0", "c1")))
        assert tables.unit == "one unit, with all of its rows, of which up to 2 count"
    with pytest.raises(InvalidArray, match="unit must have an id for each of 40 rows, got 39"):
        fd.private_marginals(frame, 2, unit=frame["who"][1:], **given)


@pytest.mark.parametrize(("sizes", "workload"), CASES)
def test_reconstruction_is_that_of_least_squares_whatever_the_noise(sizes, workload):
    """Least squares of independent noise: the best linear unbiased estimate, by Gauss and Markov."""
    measured = tables_of([], sizes, workload)._measured
    noised = np.random.default_rng(2).integers(-(2**40), 2**40, measured.dimension)
    matrix = slow.strategy(sizes, measured.weights).astype(float)
    solved = np.linalg.pinv(matrix) @ noised
    found = _reconstruct(measured, noised.copy())

    for of, table in found.items():
        expected = slow.margin(sizes, of).astype(float) @ solved
        assert table.ravel() == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(("sizes", "workload"), CASES)
def test_variances_are_those_of_least_squares(sizes, workload):
    tables = tables_of([], sizes, workload)
    inverse = np.linalg.pinv(slow.strategy(sizes, tables._measured.weights).astype(float))
    for names in tables:
        of = tuple(int(name[1:]) for name in names)
        matrix = slow.margin(sizes, of).astype(float) @ inverse * tables._scale
        deviations = np.sqrt((matrix**2).sum(axis=1))

        assert deviations == pytest.approx(np.full(len(deviations), tables.standard_error(names)), rel=1e-9)


@pytest.mark.parametrize(("sizes", "workload"), CASES)
def test_no_linear_mechanism_has_less_total_noise(sizes, workload):
    """The bound of Li and Miklau holds for all of them; weights that are whole numbers cost at most one percent."""
    measured = tables_of([], sizes, workload)._measured
    matrix = np.vstack([slow.margin(sizes, of) for of in measured.workload])
    total = sum(measured.cells(of) * measured.variance(of, 1.0) for of in measured.workload)

    least = slow.least_total_variance(matrix, float(measured.squared_norm))
    assert least * (1 - 1e-9) <= total <= least * 1.01


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=4),
    exponents=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
)
def test_noise_is_within_one_percent_of_the_least_for_weighted_tables(sizes, exponents):
    """The least is (Σ √(v p))² over the squared norm: the closed form of Xiao, He, Zhang and Kifer."""
    places = range(len(sizes))
    workload = dict(zip(subsets(tuple(places)), (10.0**e for e in exponents * 4), strict=False))
    workload.pop((), None)
    measured = plan(tuple(sizes), workload)
    total = sum(weight * measured.cells(of) * measured.variance(of, 1.0) for of, weight in workload.items())

    costs = 0.0
    for of in measured.weights:
        kept = math.prod(1 - 1 / sizes[i] for i in of)
        factor = sum(
            weight * measured.cells(table) / math.prod(sizes[i] ** 2 for i in table if i not in of)
            for table, weight in workload.items()
            if set(of) <= set(table)
        )
        costs += kept * math.sqrt(factor)
    least = costs**2 / measured.squared_norm
    assert least * (1 - 1e-9) <= total <= least * 1.01


def test_tables_agree_with_each_other():
    rng = np.random.default_rng(3)
    rows = [tuple(rng.integers(0, (4, 3, 5))) for _ in range(300)]
    tables = tables_of(rows, (4, 3, 5), 3)

    whole = tables.table(("c0", "c1", "c2"))
    for keep in [(), ("c0",), ("c2",), ("c0", "c2"), ("c1", "c2")]:
        summed = whole.sum(axis=tuple(i for i in range(3) if f"c{i}" not in keep))
        assert summed == pytest.approx(tables.table(keep), abs=1e-8)
    assert (tables.table(("c2", "c0")) == tables.table(("c0", "c2")).T).all()


def test_errors_are_normal_with_the_stated_deviation():
    """6000 cells of three kinds of tables; a chi-square of 5999 degrees beyond 6 deviations has probability 2e-9."""
    rng = np.random.default_rng(4)
    sizes, rows = (4, 3, 5), [tuple(rng.integers(0, (4, 3, 5))) for _ in range(300)]
    truth = {
        names: (slow.margin(sizes, tuple(int(n[1:]) for n in names)) @ slow.histogram(sizes, rows)).astype(float)
        for names in [("c0", "c1", "c2"), ("c1",), ("c0", "c2")]
    }
    source = fd.testing.seeded(bytes(32))
    hits = dict.fromkeys(truth, 0)
    squares = dict.fromkeys(truth, 0.0)
    for _ in range(100):
        tables = tables_of(rows, sizes, 3, source=source)
        for names, true in truth.items():
            estimate = tables[names]
            squares[names] += (((estimate.value - true) / estimate.standard_error) ** 2).sum()
            lower, upper = estimate.interval(0.9)
            hits[names] += int(((lower <= true) & (true <= upper)).sum())
    for names, true in truth.items():
        cells = 100 * true.size
        # cells of one table are dependent: their number of degrees of freedom is no less than a quarter of theirs
        assert squares[names] / cells == pytest.approx(1.0, abs=6 * math.sqrt(8 / cells))
        assert hits[names] / cells == pytest.approx(0.9, abs=6 * math.sqrt(4 * 0.09 / cells))


def test_residuals_have_no_margins_and_independent_noise_of_the_stated_deviation():
    """A chi-square beyond 6 deviations has probability below 1e-8, a correlation of 400 pairs beyond 6/√400 2e-9."""
    rng = np.random.default_rng(5)
    sizes, rows = (4, 3, 5), [tuple(rng.integers(0, (4, 3, 5))) for _ in range(300)]
    source = fd.testing.seeded(bytes(32))
    wanted = [("c0",), ("c1",), ("c0", "c1"), ("c0", "c1", "c2")]
    places = {names: tuple(int(n[1:]) for n in names) for names in wanted}
    truth = {
        names: (slow.residual(sizes, of) @ slow.histogram(sizes, rows)).astype(float) / math.prod(sizes[i] for i in of)
        for names, of in places.items()
    }
    squares, first = dict.fromkeys(wanted, 0.0), {names: [] for names in wanted}
    for _ in range(400):
        found = tables_of(rows, sizes, 3, source=source).residuals()
        assert len(found) == 7
        for names in wanted:
            residual = found[names]
            for axis in range(len(names)):
                assert abs(residual.values.sum(axis=axis)).max() < 1e-9
            errors = (residual.values.reshape(-1) - truth[names]) / residual.deviation
            squares[names] += (errors**2).sum()
            first[names].append(errors[0])
    for names in wanted:
        degrees = 400 * math.prod(sizes[i] - 1 for i in places[names])
        assert squares[names] / degrees == pytest.approx(1.0, abs=6 * math.sqrt(2 / degrees))
    correlations = np.corrcoef([first[names] for names in wanted])
    assert abs(correlations - np.eye(4)).max() < 0.3


@given(
    table=st.lists(st.floats(-50, 50), min_size=2, max_size=12),
    total=st.floats(0, 100),
)
def test_the_nearest_table_is_that_of_bisection(table, total):
    from ferrodp.statistics.marginals.released import _projected

    found = _projected(np.array(table), total)

    assert (found >= 0.0).all()
    assert found.sum() == pytest.approx(total, abs=1e-9)
    assert found == pytest.approx(slow.nearest_with_total(np.array(table), total), abs=1e-7)


def test_tables_without_negative_cells_keep_total_and_coverage():
    rows = [(0, 0, 0)] * 200 + [(1, 2, 3)] * 5
    truth = slow.histogram((4, 5, 6), rows).astype(float)
    source = fd.testing.seeded(bytes(32))
    held, errors = 0, np.zeros(2)
    for _ in range(50):
        tables = tables_of(rows, (4, 5, 6), 3, source=source)
        cut = tables.nonnegative()
        estimate = cut["c0", "c1", "c2"]
        assert (estimate.value >= 0.0).all()
        assert estimate.value.sum() == pytest.approx(max(tables.table(()), 0.0))
        assert (tables.nonnegative(keep_total=False)["c0"].value == np.maximum(tables.table("c0"), 0.0)).all()
        lower, upper = estimate.interval(0.9)
        held += int(((lower <= truth) & (truth <= upper)).sum())
        assert 0.0 <= lower.min() <= upper.max()
        assert estimate[3].interval() == tuple(end[3] for end in estimate.interval())
        errors += [np.abs(each.table(("c0", "c1", "c2")).ravel() - truth).sum() for each in (tables, cut)]

    # of an empty cell, only an upper end below 0 misses: 5 % of 118 of the 120 cells
    expected = (118 * 0.95 + 2 * 0.9) / 120
    assert held / (50 * truth.size) == pytest.approx(expected, abs=6 * math.sqrt(4 * 0.05 / (50 * truth.size)))
    assert errors[1] < 0.6 * errors[0]


def test_rows_with_other_values_count_nowhere_or_in_a_cell_of_their_own():
    frame = {"a": ["x", "y", None, "z"] * 50, "b": [1.0, math.nan, 2.0, 9.0] * 50}
    options = {"categories": {"a": ["x", "y"]}, "bins": {"b": [0.0, 1.5, 3.0]}, "epsilon": 50.0, "delta": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dropped = fd.private_marginals(frame, 2, **options)
        kept = fd.private_marginals(frame, 2, missing="category", **options)

    assert dropped.table(("a", "b")).round() == pytest.approx(np.array([[50.0, 0.0], [0.0, 0.0]]), abs=3)
    assert kept["a"].labels == ("x", "y", None)
    assert kept["b"].labels == ("[0, 1.5)", "[1.5, 3]", None)
    expected = np.array([[50.0, 0, 0], [0, 0, 50], [0, 50, 50]])
    assert kept.table(("a", "b")) == pytest.approx(expected, abs=4)


def test_nulls_of_integers_fall_into_no_bin():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": pandas.array([1, None, 3] * 40, "Int64"), "y": [True, True, False] * 40})
    tables = fd.private_marginals(
        frame, 2, categories={"y": [False, True]}, bins={"x": [0, 2, 4]}, epsilon=19.0, delta=1e-6
    )

    assert tables.table("x") == pytest.approx([40.0, 40.0], abs=4)
    assert tables.table("y") == pytest.approx([40.0, 40.0], abs=4)


def test_columns_of_every_kind_are_read_as_in_histograms():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    days = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]
    columns = {
        "day": [days[0], days[1]] * 30,
        "kind": ["u", "v", "v"] * 20,
        "flag": [True, False, True, True] * 15,
        "size": list(range(60)),
    }
    public = {"day": days, "kind": ["u", "v"], "flag": [False, True]}
    for frame in (pandas.DataFrame(columns).astype({"kind": "category"}), polars.DataFrame(columns)):
        given = {"categories": public, "bins": {"size": [0, 30, 59]}, "source": fd.testing.seeded(bytes(32))}
        tables = fd.private_marginals(frame, 4, **given, epsilon=19.0, delta=1e-6)
        assert tables.table("flag") == pytest.approx([15.0, 45.0], abs=3)
        assert tables.table(("size", "day")) == pytest.approx(np.full((2, 2), 15.0), abs=4)
        assert tables["day"].to_frame().index.tolist() == days


def test_values_never_raise_or_warn():
    hard = [math.nan, math.inf, -math.inf, 5e-324, -1.7e308, 0.0, 1.0, 2.0]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for dtype in (np.float32, np.float64):
            with np.errstate(all="ignore"):
                column = np.array(hard).astype(dtype)
            fd.private_marginals(
                {"x": column, "y": column},
                2,
                categories={"x": [0.0, 1.0]},
                bins={"y": [0, 1, 2]},
                epsilon=1.0,
                delta=1e-6,
            )


def test_an_open_budget_pays_for_all_tables_at_once():
    with fd.budget(epsilon=1.0, delta=1e-5):
        tables_of([(0, 0)], (2, 3), 2, epsilon=0.5, delta=1e-6)
        tables_of([(0, 0)], (2, 3), 2, epsilon=0.4, delta=1e-6)
        with pytest.raises(fd.errors.BudgetExceeded):
            tables_of([(0, 0)], (2, 3), 2, epsilon=0.4, delta=1e-6)


REFUSED = [
    ({"delta": 0.0}, "delta must be above 0, got 0: .* for example delta=1e-6"),
    ({"workload": 0}, "workload must be an int from 1 to 2, got 0"),
    ({"workload": 3}, "workload must be an int from 1 to 2, got 3"),
    ({"workload": [("a", "c")]}, "a table must be of columns of categories or bins, a, b, got 'c'"),
    ({"workload": [("a", "a")]}, "a table must name different columns"),
    ({"workload": [("a",), ("a",)]}, "different tables of at least one column, got .*twice"),
    ({"workload": [()]}, "at least one column"),
    ({"workload": []}, "workload must be of 1 to 100000 tables, got 0"),
    ({"workload": "ab"}, "workload must be a number of columns"),
    ({"workload": [["a", "b"]]}, "a table is a tuple of names of columns, got list"),
    ({"weights": {("a",): 2.0}}, "weights must be of tables of the workload"),
    ({"weights": {("a", "b"): 1e13}}, "weights must be from 1e-12 to 1e12"),
    ({"weights": [1.0]}, "weights must be a dict"),
    ({"missing": "zero"}, 'missing must be "drop" or "category"'),
    ({"categories": ["a"]}, "categories must be a dict"),
    ({"categories": {"a": ["x"]}}, r'categories\["a"\] must have two cells at least, got 1'),
    ({"categories": {1: [0, 1]}}, "categories must have strings as keys"),
    ({"bins": {"a": [0, 1, 2]}}, "must name different columns"),
    ({"categories": None, "bins": None}, "categories or bins must name a column, got none"),
    ({"categories": {"a": range(4000), "b": range(4000)}}, "at most 10000000 cells"),
    ({"max_contributions": 0}, "max_contributions"),
    ({"categories": {"a": [0, 1], "z": [0, 1]}}, "frame must have a column 'z'"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), REFUSED)
def test_bad_arguments_are_refused_before_anything_is_drawn(changed, message, released):
    given = {"workload": 2, "categories": {"a": [0, 1], "b": [0, 1]}, "epsilon": 1.0, "delta": 1e-6, **changed}
    with pytest.raises((InvalidParameter, InvalidType), match=message):
        fd.private_marginals({"a": [0, 1], "b": [1, 1]}, given.pop("workload"), **given)

    assert released == []


def test_looking_up_what_was_not_measured_is_refused():
    tables = tables_of([], (2, 3, 2), [("c0", "c1"), ("c2",)])

    assert ("c1", "c0") in tables
    assert "c2" in tables
    assert ("c1", "c2") not in tables
    assert 3 not in tables
    assert list(tables) == [("c0", "c1"), ("c2",)]
    assert len(tables) == 2
    with pytest.raises(InvalidParameter, match=r"within one table .*c2.*; measure them together"):
        tables["c1", "c2"]
    assert tables[()].statistic == "count of rows"
    assert tables.columns == {"c0": (0, 1), "c1": (0, 1, 2), "c2": (0, 1)}
