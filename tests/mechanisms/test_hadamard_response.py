"""Answers coded as vectors: two probabilities a message, whose ratio is at most e^ε, and unbiased estimates."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation, PldAccountant, ShuffledEvent
from ferrodp.errors import CalibrationError, InvalidArray, InvalidParameter
from reference import responses

MADE = [
    fd.HadamardResponse(weight=weight, num_categories=k, field_size=q)
    for weight, k, q in [(2**60, 11, 2), (2**60, 11, 4), (2**61 + 12345, 4, 4), (1, 2, 4), (2**63, 5, 2), (2**62, 5, 4)]
]


@pytest.mark.parametrize("made", MADE, ids=repr)
def test_a_message_has_one_of_two_probabilities_whatever_the_answer(made):
    q, weight = made.field_size, made.weight
    ratio = Fraction(2**64 - (q - 1) * weight, weight)
    laws = [responses.coded_law(made, answer) for answer in range(made.num_categories)]
    for one in laws:
        assert sum(one) == 1
        assert max(one) == ratio * min(one)
        assert sum(p == max(one) for p in one) in (made.num_messages // q, made.num_messages)
    assert math.exp(made.epsilon()) == pytest.approx(float(ratio))
    for epsilon in (0.0, 0.3, 1.0):
        apart = max(
            sum(max(float(a) - math.exp(epsilon) * float(b), 0.0) for a, b in zip(one, other, strict=True))
            for one, other in itertools.permutations(laws, 2)
        )
        assert apart - 1e-9 <= made.delta(epsilon) <= apart + 1e-9
        if made.delta(epsilon) > 0.0 and weight > 2**40:  # else δ is 1 but for what no float denotes
            assert made.epsilon(made.delta(epsilon)) == pytest.approx(epsilon, abs=1e-9)
    # estimates are unbiased: their mean under each law is one answer of that category and none of others
    if ratio > 1:
        units = np.array([made.estimate_frequencies([message]) for message in range(made.num_messages)])
        means = np.array(laws, float) @ units
        assert means == pytest.approx(np.eye(made.num_categories), abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(epsilon=st.floats(1e-6, 20), categories=st.integers(2, 2**24), size=st.sampled_from([None, 2, 4]))
def test_a_calibrated_response_keeps_epsilon_and_wastes_little_of_it(epsilon, categories, size):
    made = fd.HadamardResponse.calibrated(epsilon=epsilon, num_categories=categories, field_size=size)

    assert epsilon * (1 - 1e-6) - 1e-9 <= made.epsilon() <= epsilon
    assert made.num_messages <= 16 * categories


def test_the_variance_at_one_is_within_a_percent_of_the_least_for_many_categories():
    """The least is 4e/(e − 1)² for many categories [WBLJ17]; 1000 runs would show 10 % of a variance."""
    made = fd.HadamardResponse.calibrated(epsilon=1.0, num_categories=1024)
    assert made.variance(1) <= 1.01 * 4 * math.e / (math.e - 1) ** 2

    answers = np.repeat([3, 700], 10_000)
    source = fd.testing.seeded(bytes(32))
    errors = []
    for _ in range(20):
        found = made.estimate_frequencies(made.release(answers, source=source))
        found[[3, 700]] -= 10_000
        errors.append(found)
    # 20·1024 squares, weakly dependent: their mean is within 6 % of the variance
    assert np.mean(np.square(errors)) == pytest.approx(20_000 * made.variance(1), rel=0.06)


def test_the_event_is_taken_by_shuffling():
    made = fd.HadamardResponse.calibrated(epsilon=1.0, num_categories=1024)
    accountant = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(ShuffledEvent(randomizer=made.event, population_size=100_000))

    assert accountant.epsilon(1e-6) < 0.1


def test_answers_out_of_range_count_as_the_first():
    made = fd.HadamardResponse(weight=2**16, num_categories=5)
    found = made.estimate_frequencies(made.release(np.array([-1, 5, 2**62, -(2**63)] * 1000)))

    assert found == pytest.approx([4000, 0, 0, 0, 0], abs=400)  # ten deviations


@pytest.mark.parametrize("made", MADE, ids=repr)
def test_messages_are_those_of_the_definition(made):
    answers = np.random.default_rng(0).integers(-1, made.num_categories + 1, (3, 700))
    source = fd.testing.seeded(bytes(32))
    key = fd.testing.seeded(bytes(32))._key()

    released = made.release(answers, source=source, threads=3)

    assert released.shape == answers.shape
    assert released.ravel().tolist() == responses.coded_answers(made, key, answers.ravel().tolist())
    assert made.release([]).shape == (0,)


def test_only_a_payment_for_replaced_answers_is_taken():
    made = fd.HadamardResponse.calibrated(epsilon=0.5, num_categories=10)
    with fd.budget(epsilon=1.0, neighboring_relation=NeighboringRelation.REPLACE_ONE):
        made.release([1, 2])
    with fd.budget(epsilon=1.0), pytest.raises(InvalidParameter, match="an open budget must be under REPLACE_ONE"):
        made.release([1, 2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fd.HadamardResponse(weight=0, num_categories=3), InvalidParameter, "weight must be"),
        (lambda: fd.HadamardResponse(weight=2**63, num_categories=3), InvalidParameter, "weight must be"),
        (lambda: fd.HadamardResponse(weight=1, num_categories=1), InvalidParameter, "num_categories must be"),
        (lambda: fd.HadamardResponse(weight=1, num_categories=3, field_size=3), InvalidParameter, "must be 2 or 4"),
        (lambda: fd.HadamardResponse.calibrated(epsilon=0, num_categories=3), InvalidParameter, "epsilon must be"),
        (lambda: fd.HadamardResponse.calibrated(epsilon=50, num_categories=3), CalibrationError, "less noise"),
        (lambda: MADE[0].estimate_frequencies([32]), InvalidArray, "messages must be integers from 0 to 31"),
        (lambda: MADE[4].estimate_frequencies([0]), InvalidParameter, "below 2\\^64/q to estimate anything"),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
