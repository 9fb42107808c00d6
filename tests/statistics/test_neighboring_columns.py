"""What statistics compute before noise, of columns and of their neighbors: apart by what is charged, and no more."""

import itertools
import math
import random

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import ComposedEvent, NeighboringRelation
from ferrodp.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, PermuteAndFlip

NAN, INF, WIDE = math.nan, math.inf, 2**53


def series(rows, dtype):
    return pytest.importorskip("pandas").Series(rows, dtype=dtype)


RELATIONS = [
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
]
COLUMNS = {  # values, what makes a column of them, and a null (... if it holds none)
    "floats": ([NAN, INF, -INF, 0.0, -0.0, 1.0, 2.5, -3.0, 1e308, 5e-324], np.array, NAN),
    "float32": ([NAN, INF, -INF, 0.0, 0.1, -3.0, 1e38], lambda rows: np.array(rows, np.float32), NAN),
    "list": ([None, NAN, INF, 0, 1, 2.5, -3, WIDE + 1, 2**64 - 1], list, None),
    "integers": ([0, 1, 3, WIDE + 1, -WIDE - 1, 2**63 - 1, -(2**63)], lambda rows: np.array(rows, np.int64), ...),
    "unsigned": ([0, 1, 3, WIDE + 1, 2**63 + 1, 2**64 - 1], lambda rows: np.array(rows, np.uint64), ...),
    "nullable": ([None, 0, 1, WIDE + 1, 2**63 - 1], lambda rows: series(rows, "Int64"), None),
    "truth values": ([None, True, False], lambda rows: series(rows, "boolean"), None),
    "objects": ([None, NAN, True, False], lambda rows: series(rows, "object"), None),
}
BOUNDS = [(0.0, 1.0), (-1.0, 3.0), (2.0, 5.0), (-5.0, -2.0), (0.1, 0.3), (-7.3, 1e6), (1e15, 1e16)]
BINS = [-3, 0, 1, 2.5, 4, 2.0**53, 2.0**63]
BY_RANK = {
    "quantile": lambda rows, **k: fd.private_quantile(rows, 0.25, num_candidates=17, **k),
    "quantiles": lambda rows, **k: fd.private_quantiles(rows, [0.25, 0.5, 0.9], num_candidates=17, **k),
    "maximum": lambda rows, **k: fd.private_max(rows, num_candidates=17, rank=2, **k),
}
STATISTICS = {
    "count": lambda rows, *, bounds, **k: fd.private_count(rows, **k),
    "sum": fd.private_sum,
    "mean": fd.private_mean,
    "variance": fd.private_variance,
    "histogram": lambda rows, *, bounds, missing, **k: fd.private_histogram(rows, bins=BINS, **k),
    "categories": lambda rows, *, bounds, missing, **k: fd.private_histogram(rows, categories=[0, 1, WIDE + 1], **k),
    "bounds": lambda rows, *, bounds, **k: fd.private_bounds(rows, **k),
    **BY_RANK,
}


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

    for kind in (DiscreteGaussianMechanism, DiscreteLaplaceMechanism):
        recorded(kind)
    choose = PermuteAndFlip.release_from_runs

    def record(mechanism, utilities, *args, observed, **options):
        seen.append((mechanism, observed.tolist()))
        return choose(mechanism, utilities, *args, observed=observed, **options)

    monkeypatch.setattr(PermuteAndFlip, "release_from_runs", record)
    return seen


def spent(ones, others):
    """The pure ε of what was released, and the squared sensitivities of Gaussian noise in units of its scale."""
    pure, squares = 0.0, 0.0
    for (mechanism, one), (same, other) in zip(ones, others, strict=True):
        assert mechanism == same
        moved = [abs(a - b) for a, b in zip(one, other, strict=True)]
        if isinstance(mechanism, DiscreteLaplaceMechanism):
            pure += sum(moved) / float(mechanism.scale)
        elif isinstance(mechanism, DiscreteGaussianMechanism):
            squares += sum(each**2 for each in moved) / float(mechanism.scale) ** 2
        else:
            # the noise of one candidate against the largest of the others
            moved = [a - b for a, b in zip(one, other, strict=True)]
            pure += (max(moved) - min(moved)) / mechanism.scale
    return pure, squares


def charged(event):
    """The squared sensitivities of Gaussian noise that the event states."""
    events = event.events if isinstance(event, ComposedEvent) else [event]
    return sum((float(each.l2_sensitivity) / float(each.scale)) ** 2 for each in events)


def neighbor_of(rows, relation, values, null, moved, draw):
    """The rows with `moved` of them left out, replaced, or null."""
    places = draw.sample(range(len(rows)), moved)
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return [row for place, row in enumerate(rows) if place not in places]
    other = [null if relation is NeighboringRelation.REPLACE_SPECIAL else draw.choice(values) for _ in places]
    table = dict(zip(places, other, strict=True))
    return [table.get(place, row) for place, row in enumerate(rows)]


def accepted(statistic, kind, relation):
    """Whether it has a null row where one is replaced by it, is of numbers, and its count no public number of rows."""
    filled = COLUMNS[kind][2] is ...
    if (relation is NeighboringRelation.REPLACE_SPECIAL and filled) or (kind == "objects" and statistic != "count"):
        return False
    return not (filled and statistic == "count" and relation is NeighboringRelation.REPLACE_ONE)


CASES = [case for case in itertools.product(STATISTICS, COLUMNS, RELATIONS) if accepted(*case)]


@pytest.mark.parametrize(("statistic", "kind", "relation"), CASES, ids=[f"{a}-{b}-{c.name}" for a, b, c in CASES])
def test_no_neighbor_is_further_than_what_is_charged(statistic, kind, relation, released):
    values, column, null = COLUMNS[kind]
    draw = random.Random(f"{statistic}, {kind}, {relation.name}")
    for _ in range(6):
        rows = [draw.choice(values) for _ in range(draw.choice([4, 6]))]
        moved = draw.choice([1, 2, 3])
        missing = (
            "drop"
            if statistic == "count" or relation is NeighboringRelation.REPLACE_SPECIAL
            else draw.choice(["drop", "zero"])
        )
        delta = {} if statistic in BY_RANK else {"delta": draw.choice([0.0, 1e-6])}
        bounds = draw.choice(BOUNDS)
        runs = []
        for each in (rows, neighbor_of(rows, relation, values, null, moved, draw)):
            released.clear()
            estimate = STATISTICS[statistic](
                column(each), epsilon=1.0, bounds=bounds, missing=missing, max_contributions=moved,
                neighboring_relation=relation, **delta,
            )  # fmt: skip
            runs.append((list(released), estimate.event))

        assert runs[0][1] == runs[1][1]
        pure, squares = spent(runs[0][0], runs[1][0])
        assert pure <= 1.0 + 1e-9, (rows, each, bounds, missing)
        assert not squares or squares <= charged(estimate.event) * (1.0 + 1e-9), (rows, each, bounds, missing)
