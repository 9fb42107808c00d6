"""Edges of quantile bins: those of the columns alone, what they cost over all small tables, payment, and refusals."""

import datetime
import itertools
import math
from unittest import mock

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import PureDpAccountant
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, NeighboringRelation
from ferrodp.mechanisms import PermuteAndFlip
from ferrodp.statistics import private_quantile_bins
from ferrodp.testing import seeded

ADD_OR_REMOVE, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
SEED = bytes([7] * 32)


def frame_of(rows=5_000):
    rng = np.random.default_rng(5)
    frame = {"age": rng.integers(0, 90, rows), "stay": rng.exponential(3.0, rows), "who": rng.integers(0, 900, rows)}
    frame["stay"][::13] = math.nan
    frame["stay"][5] = math.inf
    return frame


BOUNDS = {"age": (0, 120), "stay": (0, 40)}


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("number", [2, 5])
def test_edges_are_the_quantiles_of_each_column_with_the_same_noise(number, unit):
    frame = frame_of()
    more = {"keep": "first", "max_contributions": 2}
    found = private_quantile_bins(frame, number, bounds=BOUNDS, epsilon=8.0, unit=unit, source=seeded(SEED), **more)
    source = seeded(SEED)
    levels = [place / number for place in range(1, number)]
    owners = None if unit is None else frame[unit]

    assert list(found) == ["age", "stay"]
    for name, ends in BOUNDS.items():
        alone = fd.private_quantiles(frame[name], levels, bounds=ends, epsilon=4.0, unit=owners, source=source, **more)
        assert found[name].value.tolist() == [ends[0], *alone.value.tolist(), ends[1]]
        assert found[name].labels == (0.0, *levels, 1.0)
        assert found[name].event == alone.event
        assert found[name].epsilon == 4.0


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize(("number", "columns"), [(2, 1), (4, 1), (3, 2), (8, 2)])
def test_all_edges_together_cost_what_was_asked_for(number, columns, relation):
    bounds = dict(list(BOUNDS.items())[:columns])
    found = private_quantile_bins(frame_of(), number, bounds=bounds, epsilon=0.7, neighboring_relation=relation)
    accountant = PureDpAccountant(neighboring_relation=relation)
    accountant.compose(found.event)

    assert 0.69 < accountant.epsilon(0.0) <= 0.7
    assert found.epsilon == 0.7
    events = found.event.events if isinstance(found.event, ComposedEvent) else [found.event]
    assert len(events) == columns * (number - 1)


def choices(rows, **options):
    """The mechanisms and utilities of all choices about a table."""
    seen, choose = [], PermuteAndFlip.release_from_runs

    def record(mechanism, utilities, *args, observed, **more):
        seen.append((mechanism, np.asarray(observed)))
        return choose(mechanism, utilities, *args, observed=observed, **more)

    columns = {name: np.array([row[place] for row in rows], float) for place, name in enumerate("ab")}
    options = {"bounds": {"a": (0.0, 2.0), "b": (0.0, 2.0)}, "num_candidates": 5, "epsilon": 1.0} | options
    if (owners := options.pop("owners", None)) is not None:
        options["unit"] = np.array(owners, np.int64)
    with mock.patch.object(PermuteAndFlip, "release_from_runs", record):
        private_quantile_bins(columns, 3, **options)
    return seen


ROWS = list(itertools.product([math.nan, 0.0, 2.0], repeat=2))
OTHERS = [(), ((0.0, 2.0),), ((1.0, 1.0), (math.nan, 0.5))]


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE, REPLACE, SPECIAL])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("with_units", [False, True])
def test_no_unit_of_a_small_table_moves_all_choices_together_further_than_is_charged(with_units, most, relation):
    """A unit has up to two rows of two columns, more than count of a column of units: each neighbor, each relation."""
    mine = [
        rows
        for size in range(3 if with_units else most + 1)
        for rows in itertools.combinations_with_replacement(ROWS, size)
    ]
    furthest = 0.0
    for others in OTHERS:
        made = []
        for rows in mine:
            owners = [*range(1, len(others) + 1), *[0] * len(rows)] if with_units else None
            options = {"owners": owners, "keep": "first", "max_contributions": most, "neighboring_relation": relation}
            made.append(choices([*others, *rows], **options))
        pairs = itertools.product(made, made) if relation is REPLACE else ((made[0], each) for each in made)
        for ones, others_of in pairs:
            cost = 0.0
            for (mechanism, one), (same, other) in zip(ones, others_of, strict=True):
                assert mechanism == same
                moved = one - other
                cost += (moved.max() - moved.min()) / mechanism.scale
            furthest = max(furthest, cost)

    assert furthest <= 1.0 + 1e-9
    assert furthest >= 0.5  # half of a quantile's cost is for what moves both ways, and no row moves all of them so


def test_one_ticket_pays_for_all_columns(tmp_path):
    frame = frame_of(200)
    with fd.PrivacyLedger.open(tmp_path / "b.db") as ledger:
        ledger.create("a", epsilon=2.0, delta=0.0, measure="pure")
        with ledger.reserve("a", EpsilonDeltaEvent(epsilon=1.0)) as ticket:
            private_quantile_bins(frame, 4, bounds=BOUNDS, epsilon=1.0, ticket=ticket)
        event = private_quantile_bins(frame, 4, bounds=BOUNDS, epsilon=1.0).event
        with ledger.reserve("a", event) as ticket:
            private_quantile_bins(frame, 4, bounds=BOUNDS, epsilon=1.0, ticket=ticket)
        assert ledger.report("a").epsilon_charged == 2.0


def test_edges_of_times_are_times():
    start = datetime.date(2026, 1, 1)
    days = [start + datetime.timedelta(days=row % 100) for row in range(4_000)]
    found = private_quantile_bins(
        {"day": days, "age": np.arange(4_000) % 80},
        4,
        bounds={"day": (start, datetime.date(2026, 5, 1)), "age": (0, 120)},
        epsilon=8.0,
    )
    assert found["day"].value[0] == np.datetime64("2026-01-01")
    assert abs(found["day"].value[2] - np.datetime64("2026-02-20")) < np.timedelta64(4, "D")
    assert abs(found["age"].value[2] - 40.0) < 4.0
    assert found["day"].value.dtype.kind == "M"


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_all_libraries_have_the_same_edges(library):
    module = pytest.importorskip(library)
    frame = frame_of(500)
    table = getattr(module, "table" if library == "pyarrow" else "DataFrame")(frame)
    options = {"bounds": BOUNDS, "epsilon": 4.0, "unit": "who", "keep": "first"}
    found, due = (private_quantile_bins(each, 4, source=seeded(SEED), **options) for each in (table, frame))

    assert [found[name].value.tolist() for name in found] == [due[name].value.tolist() for name in due]
    shown = found.to_frame(library="arrow" if library == "pyarrow" else library)
    assert len(shown) == 5


def test_bad_arguments_are_refused_before_anything_is_drawn():
    frame = frame_of(50) | {"name": ["a"] * 50, "short": [1.0]}
    good = {"num_bins": 3, "bounds": BOUNDS, "epsilon": 1.0}
    with mock.patch.object(PermuteAndFlip, "release_from_runs", side_effect=AssertionError):
        for changed, error, words in [
            ({"num_bins": 1}, InvalidParameter, "num_bins"),
            ({"num_bins": 1001}, InvalidParameter, "num_bins"),
            ({"bounds": (0, 1)}, InvalidType, "bounds must be a dict"),
            ({"bounds": {}}, InvalidParameter, "bounds must name a column"),
            ({"bounds": {"age": (1, 0)}}, InvalidParameter, "bounds must be in ascending order"),
            ({"bounds": {"ages": (0, 1)}}, InvalidParameter, "it has age, stay"),
            ({"bounds": {3: (0, 1)}}, InvalidType, "named by a string"),
            ({"bounds": {"age": (0, 1), "short": (0, 1)}}, InvalidArray, "as many rows"),
            ({"bounds": {"age": None}}, InvalidParameter, "bounds"),
            ({"unit": [1]}, InvalidArray, "as many rows"),
            ({"unit": "whom"}, InvalidParameter, "it has age, stay"),
            ({"keep": "last"}, InvalidParameter, "keep"),
            ({"epsilon": 0.0}, InvalidParameter, "epsilon"),
            ({"num_candidates": 1}, InvalidParameter, "num_candidates"),
            ({"max_contributions": 0}, InvalidParameter, "max_contributions"),
        ]:
            with pytest.raises(error, match=words):
                private_quantile_bins(frame, **good | changed)
        strings = np.array(["a"] * 50)
        with pytest.raises(InvalidArrayType, match="numbers"):
            private_quantile_bins({"name": strings}, 2, bounds={"name": (0, 1)}, epsilon=1.0)
