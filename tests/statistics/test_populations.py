"""Intervals for populations: simulated coverage, limits, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.statistics import population_interval

RUNS = 250
SHORT = 0.02
"""How far below its level the coverage of Wilson's interval may be: it oscillates with n and p."""


def covers(held, level):
    """False alarm 1e-7, if the coverage is at most SHORT below the level."""
    return stats.binomtest(held, RUNS, level - SHORT, alternative="less").pvalue > 1e-7


def sources():
    return (fd.testing.seeded(run.to_bytes(32)) for run in range(RUNS))


@pytest.mark.parametrize("share", [0.05, 0.4])
@pytest.mark.parametrize(("rows", "epsilon", "delta"), [(60, 0.5, 0.0), (60, 4.0, 0.0), (2000, 1.0, 1e-6)])
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_intervals_of_proportions_hold_that_of_the_population(share, rows, epsilon, delta, level):
    rng = np.random.default_rng(rows)
    held = 0
    for source in sources():
        options = {"bounds": (0, 1), "epsilon": epsilon, "delta": delta, "source": source}
        lower, upper = population_interval(fd.private_mean(rng.random(rows) < share, **options), level=level)
        assert 0.0 <= lower <= upper <= 1.0
        held += lower <= share <= upper

    assert covers(held, level)


@pytest.mark.parametrize("known", [True, False])
def test_intervals_of_means_hold_that_of_the_population(known):
    """Exponential values of mean 10, clamped to (0, 50): mean 10·(1 − e^−5), and the variance of that."""
    mean = 10.0 * (1.0 - math.exp(-5.0))
    variance = 200.0 * (1.0 - 6.0 * math.exp(-5.0)) - mean**2
    rng = np.random.default_rng(2)
    held, widths = 0, []
    for source in sources():
        found = fd.private_mean(rng.exponential(10.0, 400), bounds=(0, 50), epsilon=1.0, source=source)
        lower, upper = population_interval(found, variance=variance if known else None, level=0.95)
        held += lower <= mean <= upper
        widths.append(upper - lower)

    assert covers(held, 0.95)
    # wider than of sampling alone, by less than a third; without a variance as wide as that of two values allows
    sampling = 2.0 * 1.96 * math.sqrt((variance if known else 40.0 * 10.0) / 400)
    assert sampling < np.median(widths) < 1.33 * sampling


@pytest.mark.parametrize(("first", "second"), [(0.3, 0.3), (0.05, 0.2)])
def test_intervals_of_differences_hold_that_of_the_populations(first, second):
    rng = np.random.default_rng(3)
    held = 0
    for source in sources():
        options = {"bounds": (0, 1), "epsilon": 1.0, "source": source}
        a = fd.private_mean(rng.random(300) < first, **options)
        b = fd.private_mean(rng.random(500) < second, **options)
        lower, upper = population_interval(a, minus=b, level=0.95)
        held += lower <= first - second <= upper

    assert covers(held, 0.95)


def test_groups_have_an_interval_each_and_parts_keep_theirs():
    frame = {"k": ["a"] * 300 + ["b"] * 100, "x": [0.0] * 200 + [1.0] * 200}
    means = fd.private_group_by(frame, "k", keys=["a", "b", "none"]).mean("x", bounds=(0, 1), epsilon=2.0)
    lower, upper = population_interval(means)
    of_two = population_interval(means[1])

    assert lower.shape == upper.shape == (3,)
    assert (lower[1], upper[1]) == tuple(of_two)
    assert upper[2] - lower[2] > 0.5


def test_with_much_data_it_is_the_interval_of_wilson():
    source = fd.testing.seeded(bytes(32))
    share = fd.private_mean(np.arange(10**5) < 20_000, bounds=(0, 1), epsilon=20.0, source=source)
    found = population_interval(share, level=0.95)
    due = stats.binomtest(20_000, 10**5).proportion_ci(0.95, method="wilson")

    # noise of 0.1 rows over 10⁵, and one row of their number
    assert found == pytest.approx((due.low, due.high), abs=1e-5)


def test_without_rows_it_spans_the_bounds():
    empty = fd.private_mean(np.zeros(0), bounds=(-2, 5), epsilon=0.01)

    lower, upper = population_interval(empty, level=0.99)

    assert (lower, upper) == (-2.0, 5.0)


def test_the_released_number_is_within_and_a_higher_level_is_wider():
    found = fd.private_mean([1.0, 2.0, 3.0, 4.0] * 50, bounds=(0, 9), epsilon=1.0)
    ends = [population_interval(found, level=level) for level in (0.5, 0.9, 0.99)]

    assert ends[2].lower <= ends[1].lower <= ends[0].lower <= found.value
    assert found.value <= ends[0].upper <= ends[1].upper <= ends[2].upper


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"mean": 0.5}, InvalidType, "mean must be an Estimate"),
        ({"mean": "twice"}, InvalidParameter, "as it was released"),
        ({"mean": "count"}, InvalidParameter, "mean must be a mean"),
        ({"mean": "several"}, InvalidParameter, "not independent"),
        ({"level": 1.0}, InvalidParameter, "level"),
        ({"variance": -1.0}, InvalidParameter, "variance"),
        ({"variance": "groups"}, InvalidParameter, "one number"),
        ({"minus": "groups"}, InvalidParameter, "as many groups"),
    ],
)
def test_what_is_no_mean_of_independent_rows_is_refused(arguments, error, text):
    rows = np.arange(10.0)
    mean = fd.private_mean(rows, bounds=(0, 10), epsilon=1.0)
    named = {
        "twice": 2 * mean,
        "count": fd.private_count(rows, epsilon=1.0),
        "several": fd.private_mean(rows, bounds=(0, 10), max_contributions=2, epsilon=1.0),
        "groups": fd.private_group_by({"k": rows, "x": rows}, "k", keys=[0, 1]).mean("x", bounds=(0, 1), epsilon=1.0),
    }
    given = {"mean": mean} | arguments
    with pytest.raises(error, match=text):
        population_interval(
            **{name: named.get(each, each) if isinstance(each, str) else each for name, each in given.items()}
        )
