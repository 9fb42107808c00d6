"""Candidates of quantiles and extremes: their levels, their utilities, how far a unit moves them, what is chosen."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.statistics._column import column
from ferrodp.statistics.parts.multisets import Ascending
from ferrodp.statistics.ranks import candidates
from ferrodp.statistics.ranks.candidates import Decimals, Digits, Linear, Rank, Steps
from reference import selection

SMALL = Decimals(-3.0, 4.0, whole=True)
RATIOS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)]


def seeded(number):
    return fd.testing.seeded(number.to_bytes(32, "big"))


def plain_utilities(steps, candidates, unit, target):
    """Minus how far a candidate is from a rank, counted row by row."""
    n = len(steps)
    found = []
    for c in candidates:
        less, more = sum(x < c for x in steps), sum(x > c for x in steps)
        found.append(-max(unit * less - target, unit * more - (unit * n - target)))
    return found


class OfSteps(Ascending):
    """Steps in the place of rows."""

    def steps(self, start, stop, step):
        return super().steps(start, stop, lambda each: each)


def of_runs(grid, steps, rank, cap):
    """The utility and weight of every step, from the runs."""
    low, high, utilities = grid.runs(OfSteps(np.sort(np.array(steps, np.int64))), rank, cap)
    found = {}
    for first, last, utility in zip(low.tolist(), high.tolist(), utilities.tolist(), strict=True):
        found |= dict.fromkeys(range(first, last + 1), utility)
    return [found[step] for step in range(grid.ends[0], grid.ends[1] + 1)]


@pytest.mark.parametrize("level", [Linear(1), Linear(10), Digits(1), Digits(2)], ids=str)
def test_a_level_counts_and_names_its_members(level):
    def belongs(step):
        if isinstance(level, Linear):
            return step % level.scale == 0
        return len(str(abs(step)).rstrip("0")) <= level.digits

    members = [step for step in range(-3500, 3501) if belongs(step)]
    first = int(level.up_to(-3501))
    assert [int(level.up_to(step)) - first for step in members] == [*range(1, len(members) + 1)]
    assert [level.member(first + i) for i in range(len(members))] == members
    counts = np.asarray(level.up_to(np.arange(-3500, 3501))) - first
    assert np.diff(counts, prepend=0).tolist() == [belongs(step) for step in range(-3500, 3501)]


def test_members_of_large_steps_are_exact():
    for digits in (1, 3, 8):
        level = Digits(digits)
        for step in (10**15, 10**15 - 1, 123456789012345, -(10**15), -98765432109876):
            number = int(level.up_to(step)) - 1
            below, above = level.member(number), level.member(number + 1)
            assert below <= step < above
            assert all(len(str(abs(each)).rstrip("0")) <= digits for each in (below, above))


@given(
    st.lists(st.integers(-3, 4), max_size=9),
    st.sampled_from(RATIOS),
    st.integers(1, 12),
)
def test_runs_hold_the_utility_of_every_candidate(steps, ratio, cap):
    rank = Rank.of(ratio)
    found = of_runs(SMALL, steps, rank, cap)

    due = plain_utilities(steps, range(-3, 5), ratio.denominator, ratio.numerator * len(steps))
    assert found == [max(utility, -cap) for utility in due]


@given(st.lists(st.integers(-3, 4), max_size=9), st.integers(0, 12), st.integers(1, 12), st.booleans())
def test_runs_of_an_extreme_hold_the_utility_of_every_candidate(steps, beyond, cap, is_max):
    n = len(steps)
    target = n - beyond if is_max else beyond
    rank = Rank(1, 1, -beyond) if is_max else Rank(0, 1, beyond)

    due = plain_utilities(steps, range(-3, 5), 1, target)
    assert of_runs(SMALL, steps, rank, cap) == [max(utility, -cap) for utility in due]


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
@pytest.mark.parametrize("cap", [2, 10**6])
def test_no_unit_moves_a_utility_by_more_than_the_sensitivity_and_some_do(ratio, cap):
    """All columns of up to 4 rows over 4 places; k rows are added, removed, replaced, or become missing."""
    a, b = ratio.numerator, ratio.denominator
    grid = Decimals(0.0, 3.0, whole=True)
    rank = Rank.of(ratio)
    columns = {
        rows: np.array(of_runs(grid, rows, rank, cap))
        for n in range(5)
        for rows in itertools.combinations_with_replacement(range(4), n)
    }
    most = {"added": [0, 0, 0], "replaced": [0, 0, 0]}
    for rows, there in columns.items():
        for k in (1, 2):
            for kept in {tuple(rest) for rest in itertools.combinations(rows, len(rows) - k)} if k <= len(rows) else ():
                most["added"][k] = max(most["added"][k], int(np.abs(columns[kept] - there).max()))
                for new in itertools.combinations_with_replacement(range(4), k):
                    other = columns[tuple(sorted((*kept, *new)))]
                    most["replaced"][k] = max(most["replaced"][k], int(np.abs(other - there).max()))
    for k in (1, 2):
        assert most["added"][k] <= k * max(a, b - a)
        assert most["replaced"][k] <= k * b
    if cap > 100:
        assert most["added"][1] == max(a, b - a)
        assert most["replaced"][1] == b


def test_the_utility_is_at_least_zero_at_quantiles_alone():
    """Against the definition: at least a share q of the rows at or below, and a share 1 − q at or above."""
    for n in range(1, 6):
        for rows in itertools.combinations_with_replacement(range(4), n):
            for ratio in RATIOS:
                found = of_runs(Decimals(0.0, 3.0, whole=True), rows, Rank.of(ratio), 10**6)
                for c in range(4):
                    is_quantile = (
                        sum(x <= c for x in rows) >= ratio * n and sum(x >= c for x in rows) >= (1 - ratio) * n
                    )
                    assert (found[c] >= 0) == is_quantile


@pytest.mark.parametrize("rows", [[-3.0, -1.0, -1.0, 0.0, 2.0, 9.0, math.inf], [-0.4, math.nan], []], ids=len)
def test_a_choice_has_the_law_of_weights_and_utilities(rows):
    """6 000 seeded choices among 8 candidates: chi-square with 7 degrees of freedom below 42 (5e-7 to be above)."""
    draws = 6_000
    mechanism = fd.PermuteAndFlip.calibrated(epsilon=2.0, sensitivity=3.0)
    present, rank = [x for x in rows if not math.isnan(x)], Rank.of(Fraction(1, 4))
    rows = Ascending(candidates.ordered(column(np.array(rows, np.float64), "drop")))
    found = Counter(SMALL.choose(rows, rank, mechanism, seeded(i)) for i in range(draws))
    steps = [round(min(max(x, -3.0), 4.0)) for x in present]
    utilities = np.array(plain_utilities(steps, range(-3, 5), 4, len(steps)))
    expected = draws * selection.permuted(utilities, mechanism.scale, [1] * 8)
    observed = np.array([found[step] for step in range(-3, 5)])
    assert ((observed - expected) ** 2 / expected).sum() < 42.0


def test_candidates_are_decimals_and_reach_the_bounds():
    grid = Decimals(0.0, 1e9, whole=False)
    assert grid.value(grid.first) == 0.0
    assert grid.value(grid.last) == 1e9
    assert 1e11 <= grid.last - grid.first <= 1e12
    assert Decimals(0.0, 1e9, whole=True).last == 10**9
    odd = Decimals(0.05, 1 / 3, whole=False)
    assert [odd.value(odd.first), odd.value(odd.last)] == [0.05, 0.333333333333]
    for ends in [(1e15, 1e15 + 2), (-1e300, 1e300), (5e-324, 1e-320), (-1e-250, 3e-250), (0.2, 0.8), (1e9, 1e9 + 1)]:
        for whole in (False, True):
            grid = Decimals(*ends, whole=whole)
            assert ends[0] <= grid.value(grid.first) <= grid.value(grid.last) <= ends[1]
            assert sum(grid.copies) > 0
            middle = (grid.first + grid.last) // 2
            assert ends[0] <= grid.value(middle) <= ends[1]


@pytest.mark.parametrize(
    ("values", "bounds", "due"),
    [
        (np.full(10**5, 40), (0, 120), 40.0),
        (np.full(10**4, 48.8566), (-90, 90), 48.8566),
        (np.full(10**4, 50.0), (0.0, 10.0), 10.0),
        (np.full(10**4, -math.inf), (2.5, 10.0), 2.5),
        (np.repeat([1, 0], [6000, 4000]), (0, 1), 1.0),
        (np.repeat([1.0, 0.0], [6000, 4000]), (0.0, 1.0), 1.0),
    ],
)
def test_the_median_of_ties_is_the_tie(values, bounds, due):
    """ε = 1: any other number has a utility below −1000, and all of them together a chance below e⁻⁴⁰⁰."""
    assert [fd.private_median(values, bounds=bounds, epsilon=1.0).value for _ in range(20)] == [due] * 20


def test_wide_bounds_cost_a_few_ranks():
    """Incomes within (0, 10⁹), ε = 1: ranks are off by more than 2·(ln 10¹³ + 20) = 100 with probability below e⁻²⁰."""
    incomes = np.sort(np.random.default_rng(1).lognormal(10.5, 0.6, 10**5))
    for quantile in (0.25, 0.5, 0.9):
        found = fd.private_quantile(incomes, quantile, bounds=(0, 1e9), epsilon=1.0).value
        assert abs(np.searchsorted(incomes, found) - quantile * 10**5) < 100


def test_memory_of_the_cap_is_that_of_its_ranks():
    """Runs are counted by ε, not by rows."""
    steps = np.arange(10**6)
    mechanism = fd.PermuteAndFlip.calibrated(epsilon=1.0, sensitivity=1.0)
    grid = Decimals(0.0, 1e9, whole=False)
    low, high, utilities = grid.runs(OfSteps(steps), Rank.of(Fraction(1, 2)), grid.cap(mechanism))

    assert low.size == high.size == utilities.size < 2 * (grid.cap(mechanism) + 4) + 1
    assert candidates._FINEST == 10**12


def test_permuted_candidates_are_few_and_hold_the_bounds():
    for ends, whole in [((0.0, 100.0), False), ((0.0, 1e9), True), ((0.05, 1 / 3), False), ((-1000.0, 1000.0), False)]:
        grid = Decimals(*ends, whole)
        (steps,) = grid.levels[: grid.permuted]
        assert isinstance(steps, Steps)
        assert 400 < steps.members.size <= candidates._PERMUTED
        assert (steps.members[0], steps.members[-1]) == (grid.first, grid.last)
        assert grid.copies[0] == 1
        finest = int(grid.levels[1].up_to(grid.last) - grid.levels[1].up_to(grid.first - 1)) * grid.copies[1]
        assert finest * 2.0**-candidates._UNIT == pytest.approx(300.3 if not whole else 10_000.3, rel=0.01)


def test_a_choice_among_weights_and_whole_candidates_has_their_law():
    """3 000 seeded choices, three groups of candidates: chi-square with 2 degrees of freedom below 30 (3e-7).

    One row at 0.5003, ε = 2 and S = 1/2 for the median: what is near has utility 1 (b times half a row), all else −1.
    """
    grid, draws = Decimals(0.0, 1.0, False), 3_000
    mechanism = fd.PermuteAndFlip.calibrated(epsilon=2.0, sensitivity=1.0)
    found = [grid.choose(Ascending(np.array([0.5003])), Rank(1, 2), mechanism, seeded(i)) for i in range(draws)]
    step = round(0.5003 / 10.0**grid.power)
    near = [
        copies * int(level.up_to(step) - level.up_to(step - 1))
        for level, copies in zip(grid.levels, grid.copies, strict=True)
    ]
    members = grid.levels[0].members.size
    first, last = grid.ends
    sizes = [int(level.up_to(last) - level.up_to(first - 1)) for level in grid.levels]
    units = sum(copies * size for copies, size in zip(grid.copies[1:], sizes[1:], strict=True))
    weight = units * 2.0**-candidates._UNIT
    shares = [near[0], sum(near[1:]) * 2.0**-candidates._UNIT]
    law = selection.race(
        [1.0, -1.0], mechanism.scale, [shares[0], members - shares[0]], [shares[1], weight - shares[1]]
    )
    at = sum(value == 0.5003 for value in found)
    whole = sum(round(value * 1000) / 1000 == value for value in found)
    counts = np.array([at, whole, draws - at - whole])
    due = draws * np.array([float(law[0] + law[2]), float(law[1]), float(law[3])])
    kept = due > 1.0
    assert ((counts - due)[kept] ** 2 / due[kept]).sum() < 30.0
