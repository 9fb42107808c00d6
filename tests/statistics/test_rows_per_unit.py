"""How many rows of a unit should count: sensitivity over all small tables, law, interval, and what is refused."""

import itertools
import math
from collections import Counter
from unittest import mock

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import NeighboringRelation
from ferrodp.testing import seeded

ADD, REPLACE, NULL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
MOST = 3


def source(number):
    """Noise of its own for each number."""
    return seeded(number.to_bytes(32, "big"))


def choice(owners, **options):
    """The mechanism, the utilities of the candidates, and the event."""
    seen, choose = [], fd.PermuteAndFlip.release_from_runs

    def record(mechanism, utilities, *args, observed, **more):
        seen.append((mechanism, observed))
        return choose(mechanism, utilities, *args, observed=observed, **more)

    with mock.patch.object(fd.PermuteAndFlip, "release_from_runs", record):
        event = fd.private_rows_per_unit(np.array(owners, np.int64), at_most=MOST, epsilon=1.0, **options).event
    ((mechanism, observed),) = seen
    return mechanism, observed, event


def rows_of(numbers):
    """A table in which unit u has so many rows, in an order that mixes units."""
    owners = [unit for unit, number in enumerate(numbers) for _ in range(number)]
    return owners[::2] + owners[1::2]


@pytest.mark.parametrize("rank", [None, 0, 1, 2])
@pytest.mark.parametrize("relation", [ADD, REPLACE, NULL])
def test_no_unit_moves_a_choice_further_than_it_costs(relation, rank):
    """All tables of three units with up to five rows each, and all neighbors: one unit has any other number of rows.

    Under each relation a unit may come with all of its rows, go, or have others: zero rows are no unit.
    """
    known = {
        numbers: choice(rows_of(numbers), rank=rank, neighboring_relation=relation)
        for numbers in itertools.product(range(6), repeat=3)
    }
    furthest = 0.0
    for numbers, (mechanism, one, event) in known.items():
        for unit, other_number in itertools.product(range(3), range(6)):
            _, other, _ = known[(*numbers[:unit], other_number, *numbers[unit + 1 :])]
            moved = (one - other) / mechanism.scale
            assert moved.max() - moved.min() <= event.epsilon * (1.0 + 1e-12)
            furthest = max(furthest, moved.max() - moved.min())
    assert event.epsilon <= 1.0
    assert furthest > (0.99 if rank == 0 else 0.49) * event.epsilon


def test_the_choice_has_the_law_of_permute_and_flip_over_numbers_of_units():
    """Beside a choice among utilities written out; the rate of false alarms is below 1e-9: seven standard errors."""
    numbers, rank, draws = (1, 1, 2, 3, 3, 3, 7), 2, 4000
    counted = [min(number, MOST) for number in numbers]
    utilities = [rank - len(numbers)]  # of the outer candidate, which is called 1 too
    for candidate in (1, 2, 3):
        less, more = (sum(number < candidate for number in counted), sum(number > candidate for number in counted))
        utilities.append(-max(less - (len(numbers) - rank), more - rank))
    mechanism = fd.PermuteAndFlip.calibrated(epsilon=1.0, sensitivity=1.0)
    expected = Counter(max(mechanism.release(utilities, source=source(i)), 1) for i in range(draws))
    owners = rows_of(numbers)
    found = Counter(
        fd.private_rows_per_unit(owners, at_most=MOST, rank=rank, epsilon=1.0, source=source(10**6 + i)).value
        for i in range(draws)
    )

    assert set(found) <= {1, 2, 3}
    for each in (1, 2, 3):
        share = (found[each] + expected[each]) / (2 * draws)
        assert abs(found[each] - expected[each]) <= 7.0 * math.sqrt(2.0 * draws * share * (1.0 - share)) + 1.0


def test_the_default_is_rarely_above_what_every_unit_has_and_near_the_most():
    """At most 5 % of choices are above; of 400 more than 60 with probability below 1e-13."""
    owners = rows_of([unit % 8 + 1 for unit in range(800)])
    found = [fd.private_rows_per_unit(owners, at_most=500, epsilon=1.0, source=source(i)) for i in range(400)]
    values = [each.value for each in found]

    assert sum(value > 8 for value in values) <= 60
    assert np.median(values) in (7, 8)
    assert all(type(value) is int for value in values)
    assert sum(each.interval(0.95)[0] <= 8 <= each.interval(0.95)[1] for each in found) >= 340
    assert found[0].interval(0.999) == (1.0, 500.0)


def test_missing_ids_are_no_units_and_categories_without_rows_neither():
    pandas = pytest.importorskip("pandas")
    kept = [1, 1, 1, 2, 2, 5]
    plain = choice(kept)
    with_missing = pandas.Series([1, None, 1, 1, 2, None, 2, 5], dtype="Int64")
    categories = pandas.Series(pandas.Categorical(list("aaabbc"), categories=list("abcdefgh")))
    seen = []
    with mock.patch.object(fd.PermuteAndFlip, "release_from_runs", lambda *a, observed, **k: seen.append(observed)):
        for ids in (with_missing, categories, np.array([1, 1, 1, 2, 2, 5.0, math.nan])):
            with pytest.raises(TypeError):
                fd.private_rows_per_unit(ids, at_most=MOST, epsilon=1.0)

    assert all(np.array_equal(each, plain[1]) for each in seen)
    assert len(seen) == 3


def test_an_empty_table_has_a_number_too():
    assert 1 <= fd.private_rows_per_unit([], at_most=9, epsilon=1.0).value <= 9


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"at_most": 1}, InvalidParameter, "at_most must be"),
        ({"at_most": 2**20 + 1}, InvalidParameter, "at_most must be"),
        ({"at_most": 2.5}, InvalidType, "at_most must be"),
        ({"rank": -1}, InvalidParameter, "rank must be"),
        ({"epsilon": 0.0}, InvalidParameter, "epsilon must be"),
        ({"epsilon": 1e-12}, InvalidParameter, "epsilon must be larger, or rank be given"),
        ({"unit": np.zeros((2, 2))}, fd.errors.InvalidArray, "unit"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_drawn(changed, error, told):
    arguments = {"unit": [1, 1, 2], "at_most": 5, "epsilon": 1.0} | changed

    with mock.patch.object(fd.PermuteAndFlip, "release_from_runs") as drawn, pytest.raises(error, match=told):
        fd.private_rows_per_unit(**arguments)
    assert not drawn.called
