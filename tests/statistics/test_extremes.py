"""Bounds, minima and maxima: how far neighbors move them, what they return, and how often they miss."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation
from ferrodp.errors import InvalidParameter
from ferrodp.statistics.ranks import extremes
from ferrodp.testing import record

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
DOMAIN = (-2.0, 0.0, 0.5, 1.0, 3.0, math.nan, math.inf, -math.inf)


def seeded(number):
    return fd.testing.seeded(number.to_bytes(32, "big"))


def inputs_of(function, values, **arguments):
    """What the mechanism of a statistic is given, and how far it may move."""
    with record() as log:
        function(np.array(values, np.float64), epsilon=1.0, **arguments)
    (entry,) = log
    return entry.value.astype(np.float64), entry.sensitivity, entry.norm


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (fd.private_min, {"bounds": (-2, 3), "num_candidates": 6, "rank": 1}),
        (fd.private_max, {"bounds": (-2, 3), "num_candidates": 6, "rank": 1}),
        (fd.private_max, {"candidates": [3.0, 0.5, -2.0], "rank": 0}),
        (fd.private_bounds, {"magnitudes": (0.5, 2)}),
        (fd.private_bounds, {"magnitudes": (0.5, 2), "missing": "zero"}),
    ],
)
def test_no_two_neighbors_of_up_to_three_rows_are_further_apart_than_declared(function, arguments, relation):
    """All columns of 2 and 3 rows over 8 values, missing and infinite ones among them; the bound is reached."""
    furthest, declared = 0.0, 0.0
    known = {}
    for values in itertools.chain.from_iterable(itertools.combinations_with_replacement(DOMAIN, n) for n in (2, 3)):
        known[values], declared, norm = inputs_of(function, values, neighboring_relation=relation, **arguments)
    for values, there in known.items():
        if len(values) == 2:
            continue
        for place in range(3):
            rest = values[:place] + values[place + 1 :]
            replaced = [tuple(sorted((*rest, new), key=DOMAIN.index)) for new in DOMAIN]
            others = [rest] if relation is ADD else replaced
            for other in others:
                moved = np.abs(known[other] - there)
                furthest = max(furthest, moved.max() if norm == "Linf" else moved.sum())
    assert furthest == declared == (2.0 if relation is REPLACE and function is fd.private_bounds else 1.0)


def test_several_rows_of_a_unit_move_them_as_many_times():
    for function, extra in [
        (fd.private_max, {"bounds": (0, 9), "rank": 5}),
        (fd.private_min, {"bounds": (0, 9), "rank": 5}),
        (fd.private_bounds, {}),
    ]:
        few, declared, norm = inputs_of(function, [4.0] * 5, max_contributions=3, **extra)
        many, _, _ = inputs_of(function, [4.0] * 8, max_contributions=3, **extra)
        moved = np.abs(many - few)
        assert (moved.max() if norm == "Linf" else moved.sum()) == declared == 3.0


def test_the_choice_has_the_law_of_its_utilities():
    """5 000 seeded choices among 4 candidates: chi-square with 3 degrees of freedom below 32.6 (1e-6 to be above)."""
    values, draws = np.array([0.0, 1.0, 1.0, 2.0, 3.0]), 5_000
    arguments = {"candidates": [0.0, 1.0, 2.0, 3.0], "rank": 1, "epsilon": 1.0}
    found = Counter(fd.private_max(values, source=seeded(i), **arguments).value for i in range(draws))
    utilities = np.array([-3, -1, 0, 0], float)  # 4, 2, 1 and 0 values lie above, 5, 4, 2 and 1 at or above
    weights = np.exp(utilities / 2)
    weights[0] += np.exp(-4 / 2)  # the outer candidate, which is called by the lowest: −max(0, 5 − 1)
    expected = weights / weights.sum() * draws
    observed = np.array([found[each] for each in arguments["candidates"]])
    assert ((observed - expected) ** 2 / expected).sum() < 32.6


def test_bounds_hold_nearly_all_values_and_no_bin_that_is_empty():
    """200 seeds; an empty bin passes with probability 1e-3 in all: more than 6 of 200 with probability below 2e-8."""
    values = np.concatenate([np.random.default_rng(3).uniform(-40, 3, 3000), [1e9] * 2])
    beyond = 0
    for seed in range(200):
        lower, upper = fd.private_bounds(values, epsilon=1.0, source=seeded(seed)).value
        assert lower <= -32.0 < 2.0 <= upper
        beyond += (lower, upper) != (-64.0, 4.0)
    assert beyond <= 6


def test_extremes_of_half_missing_columns_are_near_those_of_the_present_values():
    """100 seeds, ε = 1: ranks are off by more than 2·ln(1025·100/1e-6) = 51 with probability below 1e-6 in all."""
    rng = np.random.default_rng(11)
    values = rng.normal(40, 10, 100_000)
    present = np.sort(values[50_000:].copy())
    values[:50_000] = math.nan
    values = rng.permutation(values)
    beyond = 0
    for seed in range(100):
        arguments = {"bounds": (-20, 120), "num_candidates": 1025, "epsilon": 1.0, "source": seeded(seed)}
        highest, lowest = (each(values, **arguments).value for each in (fd.private_max, fd.private_min))
        above, below = int((present > highest).sum()), int((present < lowest).sum())
        # 20 is the rank; the nearest candidates differ from it by the values between two of them
        assert max(above, below) <= 20 + 51 + 60
        beyond += (above == 0) + (below == 0)
    assert beyond <= 30  # 5 % of 200 are 10: more than 30 with probability below 1e-6


def test_bounds_follow_from_noised_counts():
    """As many values as the threshold: the noise decides; all or none of 200 seeds with probability below 1e-40."""
    mechanism = fd.DiscreteLaplaceMechanism.calibrated(epsilon=1.0, l1_sensitivity=1)
    least = extremes._threshold(mechanism, 2 * 75, 1e-3)
    values = np.concatenate([np.full(1000, 1.5), np.full(least, 100.0)])
    upper = [fd.private_bounds(values, epsilon=1.0, source=seeded(seed)).value[1] for seed in range(200)]
    assert set(upper) == {2.0, 128.0}


def test_values_beyond_all_edges_count_in_the_last_bin():
    for values, due in [([1e15, math.inf] * 100, [512.0, 1024.0]), ([-1e15, -math.inf] * 100, [-1024.0, -512.0])]:
        assert fd.private_bounds(values, magnitudes=(1, 1024), epsilon=10.0).value.tolist() == due


@pytest.mark.parametrize("value", [1.7e12, -1.7e12, 2.0**62, 9.2e18])
def test_bounds_reach_every_integer_of_64_bits(value):
    """10⁴ values in one bin, ε = 10: another bin passes with probability 1e-3, so never for this seed."""
    lower, upper = fd.private_bounds(np.full(10_000, value), epsilon=10.0, source=seeded(1)).value
    assert lower <= value <= upper <= lower + abs(value) * 1.5


def test_an_empty_column_has_bounds_and_extremes_too():
    for values in (np.zeros(0), np.full(5, math.nan), [None, None]):
        lower, upper = fd.private_bounds(values, epsilon=1.0).value
        assert lower < upper
        assert 0.0 <= fd.private_max(values, bounds=(0, 1), epsilon=1.0).value <= 1.0


def test_bounds_are_taken_where_bounds_are_asked_for():
    values = np.tile([3.0, 7.0, 20.0, 25.0], 500)
    bounds = fd.private_bounds(values, epsilon=5.0)
    assert bounds.labels == ("lower", "upper")
    assert bounds.value.tolist() == [2.0, 32.0]
    for release in (fd.private_sum, fd.private_mean, fd.private_variance, fd.private_max):
        assert math.isfinite(float(release(values, bounds=bounds, epsilon=1.0)))
    assert fd.private_mean(values, bounds=bounds.value, epsilon=1.0).value > 2.0


def test_what_is_charged_for_bounds_and_a_mean_is_the_sum():
    with fd.budget(epsilon=1.0, weights=[1, 4]) as spending:
        bounds = fd.private_bounds([1.0, 2.0] * 50)
        fd.private_mean([1.0, 2.0] * 50, bounds=bounds)
    assert [each.epsilon for each in spending.report().charges] == pytest.approx([0.2, 0.8], rel=1e-15)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (fd.private_bounds, {"magnitudes": (2, 1)}),
        (fd.private_bounds, {"magnitudes": (0, 1)}),
        (fd.private_bounds, {"magnitudes": 5}),
        (fd.private_bounds, {"failure_probability": 1.0}),
        (fd.private_max, {"bounds": (0, 1), "rank": -1}),
        (fd.private_min, {}),
        (fd.private_min, {"bounds": (0, 1), "candidates": [1.0]}),
        (fd.private_max, {"bounds": (0, 1), "epsilon": 1e-12}),
    ],
)
def test_bad_parameters_are_refused(function, arguments):
    with pytest.raises(InvalidParameter):
        function([1.0, 2.0], **{"epsilon": 1.0} | arguments)


@pytest.mark.parametrize(("bounds", "better"), [((0.0, 100.0), 2), ((0.0, 1000.0), None)])
def test_a_small_rank_is_better_in_tight_bounds_and_the_default_in_wide_ones(bounds, better):
    """60 runs with given seeds, not left to chance: the error of the better rank is less than half of the other's."""
    rows = np.random.default_rng(0).uniform(0, 100, 1000)
    errors = {}
    for rank in (2, None):
        options = {"bounds": bounds, "rank": rank, "epsilon": 1.0}
        found = [
            float(fd.private_max(rows, source=fd.testing.seeded(bytes([run] * 32)), **options)) for run in range(60)
        ]
        errors[rank] = np.sqrt(np.mean((np.array(found) - rows.max()) ** 2))

    assert errors[better] < 0.5 * errors[None if better else 2]
