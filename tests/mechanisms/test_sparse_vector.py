"""The sparse vector technique: its law, its privacy, its state machine."""

import copy
import hashlib
import itertools
import math
import os
import pickle
import sys
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ferrodp import accounting, testing
from ferrodp.errors import EntropyError, FerroError, InvalidParameter, InvalidType, WeakPrivacyWarning
from ferrodp.mechanisms import SparseVector
from ferrodp.random import NoiseSource
from reference import keystream
from reference import sparse_vector as reference


def seeded(name):
    return testing.seeded(hashlib.sha256(name.encode()).digest())


def answers_of(run, queries):
    """Return the answers up to the end of the run or of the queries."""
    found = []
    for query in queries:
        if not run.remaining:
            break
        found.append(run.query(query))
    return tuple(found)


def patterns(length, max_answers):
    """Return every sequence of answers that a run can give to so many queries."""
    found = []
    for answers in itertools.product([False, True], repeat=length):
        ends = [i for i in range(length) if sum(answers[: i + 1]) == max_answers]
        found.append(answers[: ends[0] + 1] if ends else answers)
    return sorted(set(found))


@pytest.mark.parametrize(("max_answers", "monotonic"), [(1, False), (1, True), (2, False), (5, True)])
def test_every_answer_is_that_of_the_reference(max_answers, monotonic):
    """Bit for bit: the same keys, and logarithms to 700 bits."""
    for number in range(40):
        seed = hashlib.sha256(f"reference {number} {max_answers}".encode()).digest()
        run = SparseVector(
            threshold=3.5,
            sensitivity=1.0,
            epsilon=0.9,
            max_answers=max_answers,
            monotonic=monotonic,
            source=testing.seeded(seed),
        )
        scales = (run.threshold_scale, run.query_scale)
        own = keystream.call_key(seed, 0)
        for call, query in enumerate((3.5, -20.0, 3.0, 40.0, 0.1, 1e-3), 1):
            if not run.remaining:
                break
            expected = reference.is_above(query, 3.5, scales, own, keystream.call_key(seed, call))
            assert run.query(query) == expected


@pytest.mark.parametrize(
    ("queries", "epsilon", "max_answers", "monotonic"),
    [
        ((0.0,), 1.0, 1, False),
        ((0.3, 0.3, 0.3), 4.0, 1, False),
        ((-1.0, 0.5, 2.0, -0.5), 6.0, 2, False),
        ((0.2, 0.1, 0.0, 0.4), 5.0, 3, True),
    ],
)
def test_patterns_have_the_probabilities_of_the_integral(queries, epsilon, max_answers, monotonic):
    """Chi-square over all patterns of answers; each test raises a false alarm once in 10^9 fresh seeds."""
    runs = 12_000
    source = seeded(f"patterns {queries} {max_answers}")
    expected = {}
    counts = dict.fromkeys(patterns(len(queries), max_answers), 0)
    for _ in range(runs):
        run = SparseVector(
            threshold=0.25,
            sensitivity=1.0,
            epsilon=epsilon,
            max_answers=max_answers,
            monotonic=monotonic,
            source=source,
        )
        counts[answers_of(run, queries)] += 1
    scales = reference.scales_of_theorem(1.0, epsilon, max_answers, monotonic)
    for pattern in counts:
        expected[pattern] = reference.pattern_probability(queries, pattern, 0.25, scales)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-9)
    frequent = [pattern for pattern in counts if expected[pattern] * runs >= 5]
    assert len(frequent) > len(queries)
    observed = [counts[pattern] for pattern in frequent]
    due = [expected[pattern] * runs for pattern in frequent]
    if len(frequent) < len(counts) and runs - sum(due) > 1e-6:
        observed.append(runs - sum(observed))
        due.append(runs - sum(due))

    assert stats.chisquare(observed, due, sum_check=False).pvalue > 1e-9


def largest_loss(run, one, other, length):
    """Return the largest log-ratio of the probabilities of a pattern of answers, either way."""
    scales = (run.threshold_scale, run.query_scale)
    losses = []
    for pattern in patterns(length, run.max_answers):
        p, q = (reference.pattern_probability(side, pattern, run.threshold, scales) for side in (one, other))
        losses.append(abs(math.log(p / q)))
    return max(losses)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("max_answers", [1, 2])
@pytest.mark.parametrize("monotonic", [False, True])
def test_no_pattern_loses_more_than_epsilon_between_neighbors(max_answers, monotonic, epsilon):
    """All patterns of three queries that move by Δ = 1 in ways the relation allows, near the threshold and far."""
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=epsilon, max_answers=max_answers, monotonic=monotonic)
    moves = [(1, 1, 1), (1, 1, 0), (0, 0, 1), (1, 0, 1)] if monotonic else [(1, 1, -1), (1, -1, 1), (-1, 1, 1)]
    worst = 0.0
    for start, move in itertools.product([(0.0, 0.0, 0.0), (4.0, 4.0, -30.0)], moves):
        other = tuple(a + b for a, b in zip(start, move, strict=True))
        worst = max(worst, largest_loss(run, start, other, 3))
    assert worst <= epsilon + 1e-9


@pytest.mark.parametrize("max_answers", [1, 2])
@pytest.mark.parametrize("monotonic", [False, True])
def test_epsilon_is_reached(max_answers, monotonic):
    """So the scales have no slack: with c one off this stream would lose too much, or too little.

    Many queries far above the threshold that are answered False, then c far below it that are answered True; between
    neighbors the former rise by Δ, and the latter fall by it. If queries only rise, the latter alone do.
    """
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=max_answers, monotonic=monotonic)
    scales = (run.threshold_scale, run.query_scale)
    far = 10.0 * sum(scales)
    pattern = (False,) * 40 + (True,) * max_answers
    if monotonic:  # the Trues alone cost, the others hold the threshold's noise above 0
        one, other = ((0.0,) * 40 + (last,) * max_answers for last in (-far, 1.0 - far))
        expected = 1.0 - 1.0 / run.threshold_scale
    else:
        one, other = ((far + move,) * 40 + (-far - move,) * max_answers for move in (0.0, 1.0))
        expected = 1.0
    p, q = (reference.pattern_probability(side, pattern, 0.0, scales) for side in (one, other))

    assert abs(math.log(p / q)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sensitivity", [1.0, 0.3, 1e-9, 1e20])
@pytest.mark.parametrize("epsilon", [1.0, 0.1, Fraction(1, 3), Decimal("0.7"), 1e-6])
@pytest.mark.parametrize(
    ("max_answers", "monotonic"), [(1, False), (1, True), (7, False), (1000, True), (2**31, False)]
)
def test_scales_are_those_of_the_theorem_and_spend_no_more_than_epsilon(max_answers, monotonic, epsilon, sensitivity):
    run = SparseVector(
        threshold=0, sensitivity=sensitivity, epsilon=epsilon, max_answers=max_answers, monotonic=monotonic
    )
    factor = max_answers if monotonic else 2 * max_answers
    bound = Fraction(sensitivity)
    spent = bound / Fraction(run.threshold_scale) + factor * bound / Fraction(run.query_scale)
    assert Fraction(epsilon) * (1 - Fraction(1, 2**48)) <= spent <= Fraction(epsilon)
    for scale, exact in zip(
        (run.threshold_scale, run.query_scale),
        reference.scales_of_theorem(sensitivity, Fraction(epsilon), max_answers, monotonic),
        strict=True,
    ):
        assert float(abs(scale / exact - 1)) < 1e-9
    assert run.event == accounting.EpsilonDeltaEvent(epsilon=epsilon)
    assert Fraction(run.event.epsilon) >= Fraction(epsilon)


class Counting(NoiseSource):
    """A source that counts how often it was asked, and can be out of keys."""

    __slots__ = ("calls", "is_empty")

    def __init__(self):
        self.calls = 0
        self.is_empty = False

    def _key(self):
        self.calls += 1
        if self.is_empty:
            raise EntropyError("no key")
        return hashlib.sha256(str(self.calls).encode()).digest()


def test_a_run_ends_with_its_last_answer_and_draws_nothing_more():
    source = Counting()
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=3, source=source)
    assert [run.query(x) for x in (-1e6, 1e6, -1e6, 1e6)] == [False, True, False, True]
    assert run.remaining == 1
    assert run.query(1e6)
    before = source.calls
    for _ in range(3):
        with pytest.raises(FerroError, match=r"over: it has given its 3 answers.*new run"):
            run.query(-1e6)
    assert source.calls == before == 6
    assert run.remaining == 0


def test_each_query_has_noise_of_its_own_and_all_share_that_of_the_threshold():
    source = Counting()
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=10**6, source=source)
    assert source.calls == 1
    repeated = [run.query(0.0) for _ in range(50)]
    assert source.calls == 51
    assert len(set(repeated)) == 2
    quiet = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1e-3, max_answers=1, monotonic=True)
    assert quiet.threshold_scale > 100.0


def test_a_failing_source_answers_nothing_and_takes_nothing():
    source = Counting()
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, source=source)
    source.is_empty = True
    with pytest.raises(EntropyError):
        run.query(0.0)
    assert run.remaining == 1
    source.is_empty = False
    assert run.query(1e9)
    source.is_empty = True
    with pytest.raises(EntropyError):
        SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, source=source)


def test_values_have_a_total_outcome():
    run = SparseVector(threshold=100.0, sensitivity=1e-6, epsilon=1.0, max_answers=100)
    for value in (float("nan"), float("inf"), float("-inf"), np.float32("nan"), 0, np.int8(-3), -(10**400)):
        assert run.query(value) is False
    for value in (10**400, np.uint64(2**64 - 1), 1e308, np.float64(200.0), np.float16(200.0)):
        assert run.query(value) is True
    same, clamped = (
        SparseVector(
            threshold=sys.float_info.max, sensitivity=1.0, epsilon=1.0, max_answers=50, source=seeded("clamped")
        )
        for _ in range(2)
    )
    assert [same.query(sys.float_info.max) for _ in range(30)] == [clamped.query(10**400) for _ in range(30)]


@pytest.mark.parametrize(
    "value", [True, np.True_, "3", None, 1j, [1.0], np.array(1.0), Fraction(1, 3), Decimal(1), np.longdouble(1)]
)
def test_values_of_other_types_are_refused_before_anything_is_drawn(value):
    source = Counting()
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, source=source)
    with pytest.raises(InvalidType, match="value must be an int or float"):
        run.query(value)
    assert (source.calls, run.remaining) == (1, 1)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": float("inf")}, "threshold"),
        ({"threshold": 10**400}, "threshold"),
        ({"threshold": "0"}, "threshold"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"sensitivity": float("inf")}, "sensitivity"),
        ({"sensitivity": 1e300, "epsilon": 1e-3}, "epsilon"),
        ({"sensitivity": 1e-300, "epsilon": 10.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"max_answers": 0}, "max_answers"),
        ({"max_answers": 1.0}, "max_answers"),
        ({"max_answers": 2**31 + 1}, "max_answers"),
        ({"monotonic": 1}, "monotonic"),
        ({"source": 3}, "source"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_drawn(bad, match):
    source = Counting()
    given = {"threshold": 0.0, "sensitivity": 1.0, "epsilon": 1.0, "source": source} | bad
    with pytest.raises((InvalidParameter, InvalidType), match=match):
        SparseVector(**given)
    assert source.calls == 0


def test_weak_privacy_warns():
    with pytest.warns(WeakPrivacyWarning):
        SparseVector(threshold=0.0, sensitivity=1.0, epsilon=21.0)


def test_a_run_cannot_be_copied_pickled_or_read():
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0)
    for operation in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot"):
            operation(run)
        with pytest.raises(TypeError):
            operation(run._run.noisy)
    assert repr(run) == "<SparseVector: threshold 0.0, sensitivity 1.0, epsilon 1.0, 1 of 1 answers left>"
    assert not hasattr(run, "__dict__")
    for name in ("threshold", "epsilon", "max_answers", "remaining"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(run, name, 7)


def test_threads_share_one_run_and_get_no_more_answers_than_it_has():
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=25)
    barrier, above, refused = threading.Barrier(8), [], []

    def ask():
        barrier.wait()
        for _ in range(50):
            try:
                above.append(run.query(1e9))
            except FerroError:
                refused.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(above), len(above), len(refused)) == (25, 25, 375)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused():
    run = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_answers=2)
    run.query(1e9)
    reader, writer = os.pipe()
    with run._run.lock:  # as if another thread were in the middle of a query
        child = os.fork()
        if child == 0:
            try:
                run.query(1e9)
                os.write(writer, b"answered")
            except FerroError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
    os.waitpid(child, 0)
    assert b"forked child" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)
    assert run.query(1e9)
