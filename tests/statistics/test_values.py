"""Numbers of different values, and the most frequent categories: laws, neighbors, what is left out."""

import datetime
import itertools
import math
import uuid
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.testing import record, replay

ADD_OR_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SURE = {"epsilon": 20.0}  # noise that is not 0 has probability 5e-9


@pytest.mark.parametrize(
    ("values", "number"),
    [
        (np.array([3, 1, 3, 3]), 2),
        (np.array([0.5, -0.0, 0.0, math.nan, math.inf, -math.inf]), 2),
        (["a", "b", None, "a"], 2),
        ([7, 7.0, "7", True, 1], 3),
        ([uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=1), []], 2),
        ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], 2),
        (np.array([True, True]), 1),
        (np.zeros(0), 0),
    ],
)
def test_different_values_are_counted_as_python_compares_them(values, number):
    assert fd.private_distinct(values, **SURE).value == number


def test_categories_that_no_row_has_are_not_counted():
    pandas = pytest.importorskip("pandas")

    column = pandas.Series(pandas.Categorical(["x", None, "x"], categories=["x", "y", "z"]))

    assert fd.private_distinct(column, **SURE).value == 1


SETS = [values for size in range(3) for values in itertools.combinations("abc", size)]


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_no_unit_moves_the_number_of_different_values_further_than_declared(relation):
    """All tables of two other units with up to two of three values each: a replay refuses a larger move."""
    options = {"epsilon": 1.0, "max_contributions": 2, "neighboring_relation": relation}
    others = list(itertools.product(SETS, SETS))
    moved = 0
    for rest, mine in itertools.product(others, SETS):
        table = [value for values in (*rest, mine, mine) for value in values]
        with record() as log:
            first = fd.private_distinct(table, **options)
        for again in SETS if relation is REPLACE else [()]:
            neighbor = [value for values in (*rest, again) for value in values]
            with replay(log):
                assert fd.private_distinct(neighbor, **options).value == first.value
            moved = max(moved, abs(len(set(neighbor)) - len(set(table))))

    assert moved == 2


def probabilities(counts, number, scale):
    """Return the probability of each sequence of choices: the reference, in the order of the definition."""
    found = {}
    for chosen in itertools.permutations(range(len(counts)), number):
        left, chance = set(range(len(counts))), 1.0
        for place in chosen:
            chance *= math.exp(counts[place] / scale) / sum(math.exp(counts[other] / scale) for other in left)
            left.remove(place)
        found[chosen] = chance
    return found


@pytest.mark.parametrize("replaced", [False, True])
def test_choices_of_all_small_tables_cost_half_of_epsilon(replaced):
    """All tables of up to four rows in four categories, two choices: neither direction exceeds ε/2, some come near."""
    epsilon = 2.0
    scale = 2 * 2 * (2 if replaced else 1) / epsilon
    tables = [rows for size in range(5) for rows in itertools.combinations_with_replacement(range(4), size)]
    worst = 0.0
    for rows in tables:
        counts = np.bincount(rows, minlength=4) if rows else np.zeros(4, np.int64)
        mine = probabilities(counts, 2, scale)
        for new, old in itertools.product(range(4), sorted(set(rows)) if replaced else [None]):
            neighbor = counts.copy()
            neighbor[new] += 1
            if old is not None:
                neighbor[old] -= 1
            theirs = probabilities(neighbor, 2, scale)
            worst = max(worst, *(abs(math.log(mine[each] / theirs[each])) for each in mine))

    assert 0.2 * epsilon < worst <= epsilon / 2 + 1e-12


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE, REPLACE])
def test_the_most_frequent_are_chosen_by_peeling(relation):
    """False alarm 1e-9."""
    rows, epsilon, runs = ["a"] * 6 + ["b"] * 4 + ["c"] * 3, 1.5, 4000
    scale = 2 * 2 * (2 if relation is REPLACE else 1) / epsilon
    due = Counter()
    for chosen, chance in probabilities([6, 4, 3, 0], 2, scale).items():
        due[frozenset(chosen)] += chance

    seen = Counter()
    for run in range(runs):
        options = {"epsilon": epsilon, "neighboring_relation": relation, "source": fd.testing.seeded(run.to_bytes(32))}
        found = fd.private_top(rows, 2, categories=["a", "b", "c", "d"], **options)
        seen[frozenset("abcd".index(label) for label in found.labels)] += 1

    observed = [seen[each] for each in due]
    assert stats.chisquare(observed, [runs * due[each] for each in due]).pvalue > 1e-9


def test_a_top_costs_what_was_asked_and_says_so():
    found = fd.private_top([1, 1, 2], 2, categories=[1, 2, 3], epsilon=1.0)
    parts = [Fraction(event.epsilon) for event in found.event.events[:2]]
    accountant = fd.accounting.PureDpAccountant()
    accountant.compose(found.event)

    assert sum(parts) <= Fraction(1, 2)
    assert 0.999 <= accountant.epsilon(0.0) <= 1.0
    assert found.statistic == "counts of the 2 most frequent categories"
    assert found.value.dtype == np.int64
    assert found.standard_error == fd.DiscreteLaplaceMechanism.calibrated(epsilon=0.5).standard_deviation


def test_counts_of_a_top_are_in_descending_order_and_their_intervals_hold():
    rng = np.random.default_rng(5)
    rows = rng.zipf(1.4, 50_000).clip(0, 400)
    held = 0
    for run in range(40):
        found = fd.private_top(
            rows, 8, categories=range(1, 400), epsilon=2.0, source=fd.testing.seeded(run.to_bytes(32))
        )
        assert (np.diff(found.value) <= 0).all()
        lower, upper = found.interval(0.95)
        truth = np.array([(rows == label).sum() for label in found.labels])
        held += int(((lower <= truth) & (truth <= upper)).sum())

    assert stats.binomtest(held, 320, 0.95, alternative="less").pvalue > 1e-9  # false alarm 1e-9


def test_a_top_of_more_categories_than_there_are_is_refused_first():
    with pytest.raises(InvalidParameter, match="number"):
        fd.private_top([1], 3, categories=[1, 2], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="number"):
        fd.private_top([1], 1001, categories=range(2000), epsilon=1.0)
