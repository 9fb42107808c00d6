"""Different and most frequent values, bounds and standard deviations by group: enumerated, and as of their columns."""

import datetime
import itertools
import math

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, NeighboringRelation, ParallelEvent
from ferrodp.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, ExponentialMechanism

ADD_OR_REMOVE, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
KEYS = ["a", "b"]


def seeded(number=1):
    return fd.testing.seeded(bytes([number] * 32))


@pytest.fixture
def noised(monkeypatch):
    """Every mechanism that noised integers, and these integers."""
    seen = []
    for kind in (DiscreteGaussianMechanism, DiscreteLaplaceMechanism):

        def record(mechanism, value, *, release=kind.release, **options):
            seen.append((mechanism, np.atleast_1d(value).tolist()))
            return release(mechanism, value, **options)

        monkeypatch.setattr(kind, "release", record)
    return seen


# enumeration: databases of a unit with up to three rows, and another one with up to one

CELLS = list(itertools.product(["a", "b"], [1.0, 3.0, None]))
MINE = [rows for number in range(4) for rows in itertools.combinations_with_replacement(CELLS, number)]
OTHERS = [(), *[(cell,) for cell in CELLS], (("a", 1.0), ("b", 3.0))]
LIMITS = [  # of a unit: rows in all, groups, rows of a group
    {"rows_per_unit": 1},
    {"rows_per_unit": 2},
    {"groups_per_unit": 2, "rows_per_group": 1},
    {"groups_per_unit": 1, "rows_per_group": 2},
    {"rows_per_unit": 3, "groups_per_unit": 2, "rows_per_group": 2},
]
NOISED = {
    "count": lambda groups, **pay: groups.count("x", **pay),
    "distinct": lambda groups, **pay: groups.distinct("x", **pay),
    "bounds": lambda groups, **pay: groups.bounds("x", magnitudes=(1.0, 4.0), **pay),
    "histogram": lambda groups, **pay: groups.histogram("x", categories=[1.0, 3.0], **pay),
}


def grouped(mine, others, keys, limit):
    rows = [*((*cell, 9) for cell in mine), *((*cell, who) for who, cell in enumerate(others))]
    key, value, who = zip(*rows, strict=True) if rows else ((), (), ())
    frame = {"key": list(key), "x": np.array([math.nan if x is None else x for x in value]), "who": list(who)}
    return fd.private_group_by(frame, "key", keys=keys, unit="who", keep="first", **limit)


def neighbors(relation, size):
    """Pairs of so many databases of a unit: without it, or with any other one in its place."""
    return itertools.product(range(size), range(size) if relation is REPLACE else [0])


@pytest.mark.parametrize("keys", [KEYS, ["a"]], ids=["two groups", "one group"])
@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("statistic", NOISED)
def test_no_unit_of_a_small_database_moves_integers_of_groups_further_than_is_charged(statistic, limit, keys, noised):
    """All pairs of neighbors: the L1 distance in units of Laplace noise, and that of L2 which Gaussian noise is for."""
    furthest = {}
    for relation, delta in itertools.product((ADD_OR_REMOVE, REPLACE, SPECIAL), (0.0, 1e-6)):
        pay = {"epsilon": 1.0, "delta": delta, "neighboring_relation": relation}
        for others in OTHERS if relation is ADD_OR_REMOVE else OTHERS[::7]:
            found = []
            for mine in MINE:
                noised.clear()
                NOISED[statistic](grouped(mine, others, keys, limit), **pay)
                ((mechanism, integers),) = noised
                found.append(integers)
            table = np.array(found)
            moved = [np.abs(table[one] - table[other]) for one, other in neighbors(relation, len(MINE))]
            far = max(each.sum() if not delta else (each**2).sum() for each in moved)
            allowed = float(mechanism.scale) if not delta else float(mechanism.l2_sensitivity) ** 2
            furthest[relation, delta] = max(furthest.get((relation, delta), 0.0), far / allowed)

    assert max(furthest.values()) <= 1.0 + 1e-12
    # as far as is charged: the charge is no larger than it must be, where units come and go
    most = 3 if statistic != "distinct" or len(keys) == 2 else 2  # there are two values
    if limit.get("rows_per_unit", 0) < most and len(keys) == 2:
        assert furthest[ADD_OR_REMOVE, 0.0] >= 1.0 - 1e-9
        assert furthest[ADD_OR_REMOVE, 1e-6] >= 1.0 - 1e-9


def chosen(script, monkeypatch):
    """Let choices be those of a script: the places among the categories that are left. Return what was chosen among."""
    seen, places = [], iter(script)

    def release(mechanism, utilities, **_):
        place = next(places)
        seen.append((mechanism, np.asarray(utilities, float), place))
        return place

    monkeypatch.setattr(ExponentialMechanism, "release", release)
    return seen


@pytest.mark.parametrize(("number", "limit"), [*((1, each) for each in LIMITS), *((2, each) for each in LIMITS[:4])])
def test_no_unit_of_a_small_database_moves_the_law_of_tops_further_than_is_charged(number, limit, noised, monkeypatch):
    """All outcomes of the choices, with their exact probabilities, and the noise of the counts that they lead to."""
    categories = [1.0, 3.0, 5.0]
    of_group = list(itertools.product(*[range(3), range(2)][:number]))
    units = MINE if number == 1 else MINE[:28]  # of up to two rows
    for relation in (ADD_OR_REMOVE, REPLACE, SPECIAL):
        worst = 0.0
        for outcome in itertools.product(of_group, of_group):
            script = [place for group in outcome for place in group]
            for others in (OTHERS[0], OTHERS[-1])[number - 1 :]:
                logs, counts = [], []
                for mine in units:
                    seen = chosen(script, monkeypatch)
                    noised.clear()
                    groups = grouped(mine, others, KEYS, limit)
                    groups.top("x", number, categories=categories, epsilon=1.0, neighboring_relation=relation)
                    log = 0.0
                    for mechanism, utilities, place in seen:
                        scaled = utilities / mechanism.scale
                        log += scaled[place] - np.logaddexp.reduce(scaled)
                    logs.append(log)
                    counts.append([each / float(law.scale) for law, integers in noised for each in integers])
                chance, table = np.array(logs), np.array(counts)
                for one, other in neighbors(relation, len(units)):
                    loss = abs(chance[one] - chance[other]) + np.abs(table[one] - table[other]).sum()
                    worst = max(worst, loss)

        assert worst <= 1.0 + 1e-9
        assert worst >= 0.5  # the noise of counts alone costs half of ε


# as of columns


def frame_of(rows=900):
    rng = np.random.default_rng(3)
    frame = {"key": rng.integers(0, 3, rows), "x": np.round(rng.gamma(2.0, 5.0, rows))}
    frame["x"][::11] = np.nan
    frame["x"][5] = math.inf
    frame["name"] = [None if place % 7 == 0 else f"n{place % 13}" for place in range(rows)]
    return frame


def of_columns(frame, name):
    return [[row for row, key in zip(frame[name], frame["key"], strict=True) if key == each] for each in range(3)]


@pytest.mark.parametrize("name", ["x", "name"])
def test_different_values_of_groups_are_those_of_their_columns(name, noised):
    frame = frame_of()
    fd.private_group_by(frame, "key", keys=[0, 1, 2]).distinct(name, epsilon=1.0)
    ((_, together),) = noised
    noised.clear()
    for column in of_columns(frame, name):
        fd.private_distinct(np.array(column) if name == "x" else column, epsilon=1.0)

    assert together == [integers[0] for _, integers in noised]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bounds_of_groups_are_those_of_their_columns(delta, noised):
    frame = frame_of()
    frame["x"][frame["key"] == 2] *= -100.0
    found = fd.private_group_by(frame, "key", keys=[0, 1, 2]).bounds("x", epsilon=2.0, delta=delta)
    ((_, together),) = noised
    noised.clear()
    alone = [fd.private_bounds(np.array(each), epsilon=2.0, delta=delta).value for each in of_columns(frame, "x")]

    assert together == [integer for _, integers in noised for integer in integers]
    assert found.labels == tuple((key, end) for key in range(3) for end in ("lower", "upper"))
    for place, (lower, upper) in enumerate(alone):
        assert np.abs(np.log2(np.abs(found.value[2 * place : 2 * place + 2]) + 1.0)).max() <= 64.0
        held = np.array(of_columns(frame, "x")[place])
        inside = (held >= found.value[2 * place]) & (held <= found.value[2 * place + 1])
        assert inside.sum() > 0.8 * (held == held).sum()
        assert lower < upper


def test_bounds_of_groups_follow_from_noised_counts_alone(monkeypatch):
    """Six bins a group, from -4 to 4; the noise says that one of them, and two of the other group, have many values."""

    def release(mechanism, value, *, out, source):
        out[:] = 0
        out[[0, 6 + 4, 6 + 5]] = 10**6

    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", release)
    found = fd.private_group_by(frame_of(), "key", keys=[0, 1]).bounds("x", magnitudes=(1.0, 4.0), epsilon=1.0)
    assert found.value.tolist() == [-4.0, -2.0, 1.0, 4.0]


@pytest.mark.parametrize("number", [1, 2])
def test_tops_of_groups_are_those_of_their_columns_with_the_same_noise(number):
    """Group by group, one after another: names, counts and intervals, and what they cost together."""
    frame, categories = frame_of(), [f"n{place}" for place in range(15)]
    groups = fd.private_group_by(frame, "key", keys=[0, 1, 2])
    found = groups.top("name", number, categories=categories, epsilon=1.0, source=seeded())
    source = seeded()
    alone = [
        fd.private_top(column, number, categories=categories, epsilon=1.0, source=source)
        for column in of_columns(frame, "name")
    ]

    assert found.value.tolist() == [count for each in alone for count in each.value.tolist()]
    assert found.labels == tuple((key, label) for key, each in enumerate(alone) for label in each.labels)
    assert found.standard_error == alone[0].standard_error
    assert np.array_equal(found.interval(0.9).lower, np.concatenate([each.interval(0.9).lower for each in alone]))
    assert found.event == ParallelEvent(events=(alone[0].event,) * 3)
    assert isinstance(alone[0].event, ComposedEvent)


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE, REPLACE, SPECIAL])
@pytest.mark.parametrize("rows", [1, 2])
def test_tops_of_groups_cost_what_one_costs_where_a_unit_is_in_one_group(rows, relation):
    groups = fd.private_group_by(frame_of(), "key", keys=[0, 1, 2], rows_per_unit=rows)
    found = groups.top("x", 2, categories=[1, 2, 3], epsilon=1.0, neighboring_relation=relation)
    if rows == 1 and relation is ADD_OR_REMOVE:
        assert isinstance(found.event, ParallelEvent)
    else:
        assert found.event == EpsilonDeltaEvent(epsilon=1.0)


def test_standard_deviations_of_groups_are_the_roots_of_their_variances():
    groups = fd.private_group_by(frame_of(), "key", keys=[0, 1, 2, 3])
    options = {"name": "x", "bounds": (0, 60), "epsilon": 1.0}
    found = groups.standard_deviation(**options, source=seeded())
    variance = groups.variance(**options, source=seeded())

    assert found.value.tolist() == np.sqrt(variance.value).tolist()
    assert np.array_equal(found.interval(0.9), np.sqrt(variance.interval(0.9)))
    assert (found.event, found.labels) == (variance.event, variance.labels)
    assert found.statistic == "standard deviations of x by group"
    errors = found.to_frame()["standard_error"].to_numpy()
    due = variance.to_frame()["standard_error"].to_numpy()
    positive = found.value > 0.0
    assert np.allclose(errors[positive] * 2.0 * found.value[positive], due[positive], rtol=1e-12, equal_nan=True)
    assert np.isnan(errors[~positive]).all()


def test_standard_deviations_of_times_by_group_are_durations():
    start = datetime.date(2026, 1, 1)
    frame = {"key": ["a"] * 4000, "day": [start + datetime.timedelta(days=20 * (row % 2)) for row in range(4000)]}
    ends = (start, datetime.date(2026, 2, 1))
    groups = fd.private_group_by(frame, "key", keys=["a"], unit=None)
    found = groups.standard_deviation("day", bounds=ends, epsilon=20.0)
    alone = fd.private_standard_deviation(frame["day"], bounds=ends, epsilon=20.0)

    assert abs(found.value[0] - np.timedelta64(10, "D")) < np.timedelta64(12, "h")
    assert abs(alone.value - datetime.timedelta(days=10)) < datetime.timedelta(hours=12)
    lower, upper = found.interval(0.9)
    assert lower[0] < found.value[0] < upper[0]


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_results_of_groups_are_frames(library):
    pytest.importorskip("pyarrow" if library == "arrow" else library)
    groups = fd.private_group_by(frame_of(), "key", keys=[0, 1])
    found = {
        "distinct": (groups.distinct("name", epsilon=1.0), 2),
        "bounds": (groups.bounds("x", epsilon=1.0), 4),
        "top": (groups.top("name", 3, categories=["n1", "n2", "n3"], epsilon=1.0), 6),
        "standard deviation": (groups.standard_deviation("x", bounds=(0, 60), epsilon=1.0), 2),
    }
    for estimate, rows in found.values():
        frame = estimate.to_frame(library=library)
        assert len(frame) == rows
        values = frame["value"].to_pylist() if library == "arrow" else frame["value"].to_list()
        assert values == estimate.value.tolist()


def test_bad_arguments_are_refused_before_anything_is_drawn(noised):
    groups = fd.private_group_by(frame_of(), "key", keys=[0, 1])
    many = fd.private_group_by({"key": [0], "x": [1.0]}, "key", keys=np.arange(100_000))
    for call, error, words in [
        (lambda: groups.distinct("y", epsilon=1.0), InvalidParameter, "it has key, x, name"),
        (lambda: groups.distinct("x", epsilon=0.0), InvalidParameter, "epsilon"),
        (lambda: groups.bounds("name", epsilon=1.0, magnitudes=(2.0, 1.0)), InvalidParameter, "magnitudes"),
        (lambda: groups.bounds("x", epsilon=1.0, failure_probability=1.0), InvalidParameter, "failure_probability"),
        (lambda: groups.top("x", 3, categories=[1, 2], epsilon=1.0), InvalidParameter, "number"),
        (lambda: groups.top("x", 1, categories=["n"], epsilon=1.0), InvalidArrayType, "categories"),
        (lambda: groups.standard_deviation("x", bounds=(1, 0), epsilon=1.0), InvalidParameter, "bounds"),
        (lambda: many.bounds("x", epsilon=1.0), InvalidArray, "keys and bins must be at most"),
        (lambda: many.top("x", 1, categories=np.arange(101), epsilon=1.0), InvalidArray, "keys and bins"),
        (lambda: many.histogram("x", bins=np.arange(102), epsilon=1.0), InvalidArray, "keys and bins"),
    ]:
        with pytest.raises(error, match=words):
            call()
    assert not noised
