"""Sensitivities are upper bounds, exact where they are said to be; errors are those of the whole matrix."""

import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ferrodp.correlated import BandedMatrix, BandedToeplitz, BufferedToeplitz, SquareRoot, Strategy, Tree
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, MatrixMechanismEvent, TreeAggregationEvent, decompose

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

import strategy_matrices as reference

PARTICIPATIONS = [(1, 1), (2, 1), (3, 1), (2, 3), (3, 2), (4, 2), (7, 1)]
FALLING = (1.0, 0.75, 0.5, 0.5, 0.125)
OTHER = (1.0, -0.75, 0.25, 0.5)
NEAR = Fraction(1, 10**12)
"""Roundings of the largest sums here: fewer than 10³ of 2⁻⁵³ each."""


def matrix_of(strategy):
    if isinstance(strategy, Tree):
        return reference.tree(strategy.num_steps)
    if isinstance(strategy, BufferedToeplitz):
        return reference.buffered(strategy.decays, strategy.weights, strategy.num_steps)
    if isinstance(strategy, BandedMatrix):
        found = strategy.diagonals()
        return [
            [Fraction(found[i - j, j]) if 0 <= i - j < strategy.bands else Fraction(0) for j in range(found.shape[1])]
            for i in range(found.shape[1])
        ]
    return reference.toeplitz(strategy.coefficients().tolist(), strategy.num_steps)


def given_matrix(seed, size=7, bands=3, least=0.0):
    values = np.random.default_rng(seed).uniform(least, 1.0, (size, size))
    return BandedMatrix(np.tril(np.triu(values, 1 - bands)) * (1 - np.eye(size)) + np.eye(size))


MONOTONE = [
    BandedToeplitz(num_steps=7, bands=5, coefficients=FALLING),
    BandedToeplitz(num_steps=8, bands=3),
    BandedToeplitz(num_steps=7, bands=7, num_participations=3, min_separation=2),
    SquareRoot(num_steps=7),
    SquareRoot(num_steps=8, bands=2),
    BufferedToeplitz(num_steps=7, buffers=2, decays=(0.875, 0.5), weights=(0.25, 0.5)),
    BufferedToeplitz(num_steps=7, buffers=3, num_participations=2, min_separation=3, objective="max"),
]
TREES = [Tree(num_steps=7), Tree(num_steps=8)]
MATRICES = [given_matrix(1), given_matrix(2, size=8, bands=2), given_matrix(3, bands=7)]
SIGNED = [
    given_matrix(4, least=-1.0),
    given_matrix(5, bands=7, least=-1.0),
    BandedToeplitz(num_steps=7, bands=4, coefficients=OTHER),
    BandedToeplitz(num_steps=7, bands=3, coefficients=(1.0, 0.25, 0.5)),
]


@pytest.mark.parametrize(("count", "separation"), PARTICIPATIONS)
@pytest.mark.parametrize("strategy", [*MONOTONE, *MATRICES, *TREES], ids=repr)
def test_without_negative_entries_the_sensitivity_is_that_of_the_worst_pattern_rounded_up(strategy, count, separation):
    worst = reference.sensitivity_squared(matrix_of(strategy), count, separation)

    found = Fraction(strategy.sensitivity(count, separation)) ** 2

    assert worst <= found <= worst * (1 + NEAR)


@pytest.mark.parametrize(("count", "separation"), PARTICIPATIONS)
@pytest.mark.parametrize("strategy", SIGNED, ids=repr)
def test_with_other_entries_the_sensitivity_is_an_upper_bound(strategy, count, separation):
    worst = reference.sensitivity_squared(matrix_of(strategy), count, separation)

    assert worst <= Fraction(strategy.sensitivity(count, separation)) ** 2


@pytest.mark.parametrize("strategy", SIGNED[:2], ids=repr)
def test_columns_that_do_not_meet_are_added_exactly_whatever_their_signs(strategy):
    worst = reference.sensitivity_squared(matrix_of(strategy), 2, strategy.bands)

    assert worst <= Fraction(strategy.sensitivity(2, strategy.bands)) ** 2 <= worst * (1 + NEAR)


@pytest.mark.parametrize(("count", "separation"), [(3, 2), (4, 3), (20, 1)])
def test_with_many_patterns_the_bound_stays_above_and_near_patterns_of_equal_distance(count, separation):
    """More patterns than are looked at; on a Toeplitz matrix equal distances are the worst."""
    strategy = SquareRoot(num_steps=120, bands=6)
    column = strategy.coefficients()
    matrix = sum(np.diag(np.full(120 - lag, column[lag]), -lag) for lag in range(6))

    exact = strategy.sensitivity(count, separation)

    assert exact <= BandedMatrix(matrix).sensitivity(count, separation) <= 1.3 * exact


def test_long_sums_are_bounded_from_above_and_nearly_as_short_ones_are(monkeypatch):
    from ferrodp.correlated import sensitivity

    column = SquareRoot(num_steps=100).coefficients()
    exact = sensitivity.toeplitz(column, 100, 5, 20)
    monkeypatch.setattr(sensitivity, "_FEW_TERMS", 0)

    assert exact <= sensitivity.toeplitz(column, 100, 5, 20) <= exact * (1 + 1e-14)  # 13 roundings


@pytest.mark.parametrize(
    ("num_steps", "count", "separation"),
    [(50, 50, 1), (50, 49, 1), (51, 17, 3), (50, 17, 3), (64, 2, 40), (9, 3, 3), (7, 2, 6)],
)
def test_many_participations_are_added_up_as_few_are(num_steps, count, separation):
    from ferrodp.correlated import sensitivity

    for terms in (num_steps, num_steps // 2, 1):
        column = np.random.default_rng(terms).uniform(size=terms)
        one_by_one = np.zeros(num_steps)
        for start in range(0, count * separation, separation):
            one_by_one[start : start + terms] += column[: num_steps - start]

        found = sensitivity._sums_apart(column, num_steps, count, separation)

        assert np.all(np.abs(found - one_by_one) <= 50 * 2.0**-52 * one_by_one)  # each after fewer than 50 additions


def test_a_participation_in_every_step_is_bounded_from_above_and_nearly_exactly(monkeypatch):
    from ferrodp.correlated import sensitivity

    column = SquareRoot(num_steps=200).coefficients()
    for count, separation in [(200, 1), (100, 2), (90, 2)]:
        with monkeypatch.context() as patch:
            patch.setattr(sensitivity, "_FEW_TERMS", 10**6)
            exact = sensitivity.toeplitz(column, 200, count, separation)
        assert exact <= sensitivity.toeplitz(column, 200, count, separation) <= exact * (1 + 1e-13)  # 300 roundings


@pytest.mark.parametrize("objective", ["rms", "max"])
@pytest.mark.parametrize(
    ("num_steps", "count", "separation"),
    [(1, 1, 1), (2, 2, 1), (60, 1, 1), (50, 3, 7), (50, 50, 1), (64, 9, 7), (64, 10, 7), (3000, 1000, 3)],
)
def test_what_a_search_makes_least_is_the_error_times_the_sensitivity_of_the_columns(
    num_steps, count, separation, objective
):
    from ferrodp.correlated import optimizers, prefix_errors

    weights = np.ones(num_steps) if objective == "max" else np.arange(num_steps, 0, -1) / num_steps
    free = 2.0 * np.random.default_rng(3).normal(size=(4, 6))
    search = optimizers._buffer_loss(num_steps, count, separation, objective)

    for row, found in zip(free, search.of_many(free), strict=True):
        slow, shares = (each[0] for each in optimizers._buffers_of(row[np.newaxis]))
        column = optimizers.buffered_column(1.0 - slow, shares, num_steps)
        response = np.cumsum(prefix_errors.inverse_series(column, num_steps))
        total = np.zeros(num_steps)
        for start in range(0, count * separation, separation):
            total[start:] += column[: max(num_steps - start, 0)]
        # Thousands of numbers of relative error 10⁻¹⁵, and nodes that stand for others.
        assert found == pytest.approx(math.log(weights @ response**2) + math.log(total @ total), abs=1e-6)

    value, slope = search(free[0])
    assert value == search.of_many(free)[0]
    moved = search.of_many((free[0] + 1e-3 * slope)[np.newaxis])[0]
    assert moved - value == pytest.approx(1e-3 * slope @ slope, rel=0.05, abs=1e-9)


def test_participations_that_stand_for_others_count_for_all():
    from ferrodp.correlated import optimizers

    for count in (1, 127, 128, 129, 130, 1000, 2**20):
        nodes, shares = optimizers._nodes(count)
        numbers = np.arange(1.0, count + 1.0)

        assert np.all(np.diff(nodes) >= 1)
        assert nodes[-1] == count
        assert nodes.size <= 128 + 128 * 10
        assert shares.sum() == pytest.approx(count, rel=1e-12)
        for function in (np.sqrt, lambda m: m, lambda m, count=count: (1 - np.exp(-3 * m / count)) ** 2):
            # Chords of gaps of 1/128 of m.
            assert shares @ function(nodes) == pytest.approx(function(numbers).sum(), rel=1e-4)


def test_searches_take_less_than_a_second_however_many_days_and_participations_there_are():
    """Of processor time: .2 s where it was measured, on two shared cores; minutes before errors had closed forms."""
    import time

    begun = time.process_time()
    strategy = BufferedToeplitz(num_steps=65_536, buffers=4, num_participations=9, min_separation=99, objective="max")
    assert time.process_time() - begun < 1.0
    assert strategy.max_error(9, 99) < 26.7  # 26.6156 by a search of minutes


def test_vectors_of_any_directions_stay_within_the_sensitivity():
    rng = np.random.default_rng(7)
    strategy = given_matrix(6, least=-1.0)
    matrix = np.array(matrix_of(strategy), dtype=float)
    bound = strategy.sensitivity(3, 2)

    for _ in range(300):
        pattern = [0, rng.integers(2, 4), rng.integers(5, 7)]
        vectors = np.zeros((7, 3))
        vectors[pattern] = rng.normal(size=(3, 3))
        vectors[pattern] /= np.linalg.norm(vectors[pattern], axis=1, keepdims=True)
        assert np.linalg.norm(matrix @ vectors) <= bound


@pytest.mark.parametrize("strategy", [*MONOTONE, *MATRICES, *SIGNED], ids=repr)
def test_errors_are_those_of_the_whole_matrix(strategy):
    variances = [float(each) for each in reference.error_variances(matrix_of(strategy))]

    assert strategy.rms_error() == pytest.approx(
        math.sqrt(sum(variances) / len(variances)) * strategy.sensitivity(), rel=1e-10
    )
    assert strategy.max_error(2, 3) == pytest.approx(math.sqrt(max(variances)) * strategy.sensitivity(2, 3), rel=1e-10)


def test_the_error_of_a_tree_is_that_of_the_best_estimates_of_complete_blocks():
    """Least squares on the nodes of one complete block, for every block of the binary digits of t."""
    for num_steps in (1, 2, 3, 6, 8):
        variances, total = [], 0.0
        for t in range(1, num_steps + 1):
            total, left = 0.0, t
            while left:
                size = 1 << left.bit_length() - 1
                nodes = np.array(reference.tree(size), dtype=float)
                total += np.ones(size) @ np.linalg.inv(nodes.T @ nodes) @ np.ones(size)
                left -= size
            variances.append(total)

        strategy = Tree(num_steps=num_steps)
        assert strategy.max_error() == pytest.approx(math.sqrt(max(variances)) * strategy.sensitivity(), rel=1e-12)
        assert strategy.rms_error() == pytest.approx(math.sqrt(np.mean(variances)) * strategy.sensitivity(), rel=1e-12)


def test_long_series_are_inverted_as_short_ones_are(monkeypatch):
    from ferrodp.correlated import prefix_errors

    column = SquareRoot(num_steps=500).coefficients()
    directly = prefix_errors.inverse_series(column, 500)
    monkeypatch.setattr(prefix_errors, "_LONG", 0)

    assert prefix_errors.inverse_series(column, 500) == pytest.approx(directly, abs=1e-13)  # of terms up to 1


@pytest.mark.parametrize(
    ("strategy", "rms", "most"),
    [
        (BufferedToeplitz(num_steps=1024, buffers=3), 3.07, 3.40),
        (BufferedToeplitz(num_steps=1024, buffers=3, objective="max"), 3.20, 3.30),
        (SquareRoot(num_steps=1024), 3.12, 3.28),
        (BandedToeplitz(num_steps=1024, bands=16), 6.35, 8.7),
        (Tree(num_steps=1024), 5.66, 8.0),
    ],
    ids=repr,
)
def test_errors_over_1024_steps_are_as_small_as_is_known_to_be_possible(strategy, rms, most):
    """No factorization has a root mean square below 3.0: the bound of its nuclear norm is 2.96."""
    assert 2.96 < strategy.rms_error() <= rms
    assert 2.96 < strategy.max_error() <= most


def test_a_search_for_participations_finds_less_error_for_them():
    alone = BufferedToeplitz(num_steps=256, buffers=3)
    together = BufferedToeplitz(num_steps=256, buffers=3, num_participations=8, min_separation=32)
    largest = BufferedToeplitz(num_steps=256, buffers=3, objective="max")
    banded = BandedToeplitz(num_steps=256, bands=32)
    wide = BandedToeplitz(num_steps=256, bands=64, num_participations=8, min_separation=32)

    assert together.rms_error(8, 32) < 0.97 * alone.rms_error(8, 32)
    assert alone.rms_error() < together.rms_error()
    assert largest.max_error() < alone.max_error()
    assert banded.rms_error(8, 32) < SquareRoot(num_steps=256, bands=32).rms_error(8, 32)
    assert wide.rms_error(8, 32) == pytest.approx(banded.rms_error(8, 32), rel=1e-6)  # no band beyond 32 helps
    assert max(wide.values[32:]) < 1e-3


@pytest.mark.parametrize("strategy", [*MONOTONE, *MATRICES, *SIGNED, *TREES], ids=repr)
def test_strategies_are_values_with_a_json(strategy):
    again = Strategy.from_json(strategy.to_json())

    assert again == strategy
    assert hash(again) == hash(strategy)
    assert again.sensitivity(2, 2) == strategy.sensitivity(2, 2)


def test_strategies_of_other_numbers_differ():
    assert SquareRoot(num_steps=8) != SquareRoot(num_steps=9)
    assert SquareRoot(num_steps=8) == SquareRoot(num_steps=8, bands=8)
    assert BandedToeplitz(num_steps=4, bands=2, coefficients=(1, 0.5)) != SquareRoot(num_steps=4, bands=2)
    assert MATRICES[0] != SIGNED[0]


def test_only_what_a_strategy_writes_is_read():
    plain = json.loads(SquareRoot(num_steps=8).to_json())
    for changed in (
        {**plain, "bands": 9},
        {**plain, "bands": "8"},
        {**plain, "more": 1},
        {**plain, "type": "unknown"},
        {**plain, "version": 2},
        {key: value for key, value in plain.items() if key != "bands"},
    ):
        with pytest.raises((InvalidParameter, InvalidType)):
            Strategy.from_json(json.dumps(changed))
    with pytest.raises(InvalidParameter, match=r"to_json\(\) writes it"):
        Strategy.from_json("{")
    with pytest.raises(InvalidType, match="str of JSON"):
        Strategy.from_json(None)


def test_a_strategy_states_what_its_stream_costs():
    strategy = BandedToeplitz(num_steps=9, bands=2, coefficients=(1.0, 0.75))

    event = strategy.event(noise_multiplier=2.5, num_participations=4, min_separation=2)

    assert event == MatrixMechanismEvent(noise_multiplier=2.5, sensitivity=2.5)
    assert list(decompose(event)) == [(GaussianEvent(noise_multiplier=1.0), 1)]
    assert Tree(num_steps=9).event(noise_multiplier=2.0, num_participations=3, min_separation=4) == (
        TreeAggregationEvent(noise_multiplier=2.0, num_steps=9, max_participation=3, min_separation=3)
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: BandedToeplitz(num_steps=4, bands=5), "bands must be an int from 1 to 4, got 5"),
        (lambda: BandedToeplitz(num_steps=4, bands=2, coefficients=(2.0, 1.0)), "divide all by the first"),
        (lambda: BandedToeplitz(num_steps=4, bands=2, coefficients=(1.0, math.nan)), "coefficients must be finite"),
        (lambda: BandedToeplitz(num_steps=4, bands=2, objective="mean"), 'objective must be "rms" or "max"'),
        (lambda: BufferedToeplitz(num_steps=4, buffers=17), "buffers must be an int from 1 to 16"),
        (lambda: BufferedToeplitz(num_steps=4, buffers=1, decays=(0.5,)), "given together"),
        (lambda: BufferedToeplitz(num_steps=4, buffers=1, decays=(1.0,), weights=(0.5,)), "between 0 and 1"),
        (lambda: BufferedToeplitz(num_steps=4, buffers=2, decays=(0.5, 0.5), weights=(0.1, 0.1)), "different"),
        (lambda: BufferedToeplitz(num_steps=4, buffers=1, decays=(0.5,), weights=(1.5,)), "add up to at most 1"),
        (lambda: SquareRoot(num_steps=0), "num_steps must be an int from 1"),
        (lambda: SquareRoot(num_steps=4).sensitivity(0), "num_participations must be an int >= 1"),
        (lambda: SquareRoot(num_steps=4).rms_error(2, 0), "min_separation must be an int >= 1"),
    ],
)
def test_what_is_no_strategy_is_refused(made, message):
    with pytest.raises(InvalidParameter, match=message):
        made()


@pytest.mark.parametrize(
    "array", [np.ones((2, 2)), np.eye(3)[:2], -np.eye(2), np.diag([1.0, np.inf]), np.eye(2, dtype=complex)]
)
def test_what_is_no_lower_triangular_matrix_is_refused(array):
    with pytest.raises(InvalidArray):
        BandedMatrix(array)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 40])
def test_more_buffers_than_steps_need_are_written_and_read(steps):
    for buffers in range(1, 6):
        strategy = BufferedToeplitz(num_steps=steps, buffers=buffers)
        assert Strategy.from_json(strategy.to_json()) == strategy
