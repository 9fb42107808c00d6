"""Answers as bits and as sets: ratios of at most e^ε, drawn as stated, and unbiased estimates."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation, PldAccountant, ShuffledEvent
from ferrodp.errors import CalibrationError, InvalidArray, InvalidArrayType, InvalidParameter
from reference import responses

SEED = b"answers as bits, answers as sets"
KINDS = (fd.UnaryResponse, fd.SubsetResponse)
both = pytest.mark.parametrize("kind", KINDS)

BITS = [
    fd.UnaryResponse(weight=weight, digits=digits, num_categories=k)
    for weight, digits, k in [(1, 1, 2), (1, 2, 5), (69, 8, 6), (1, 63, 4), (275, 10, 3)]
]
SETS = [
    fd.SubsetResponse(weight=weight, num_categories=k, size=d)
    for weight, k, d in [(2**62, 2, 1), (2**62, 5, 2), (1, 6, 5), (2**61 + 12345, 6, 3), (2**63, 4, 2), (2**63, 7, 1)]
]


def law(made, answer):
    return responses.bits_law(made, answer) if isinstance(made, fd.UnaryResponse) else responses.sets_law(made, answer)


def rows(messages):
    """Return rows of words as numbers."""
    flat = messages.reshape(-1, messages.shape[-1]).tolist()
    return [sum(word << 64 * place for place, word in enumerate(row)) for row in flat]


def words(number, made):
    return [number >> 64 * place & 2**64 - 1 for place in range(-(-made.num_categories // 64))]


@pytest.mark.parametrize("made", BITS + SETS, ids=repr)
def test_epsilon_and_delta_are_those_of_all_outcomes(made):
    laws = [law(made, answer) for answer in range(made.num_categories)]
    for one in laws:
        assert sum(one.values()) == 1
    largest = max(one[row] / other[row] for one, other in itertools.permutations(laws, 2) for row in one)
    with mp.workdps(60):
        exact = mpmath.log(mpf(largest.numerator) / largest.denominator)
        assert exact <= mpf(made.epsilon()) <= exact * (1 + mpf(2) ** -51)
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        growth = Fraction(math.exp(epsilon))
        apart = max(
            sum(max(one[row] - growth * other[row], 0) for row in one) for one, other in itertools.permutations(laws, 2)
        )
        assert float(apart) - 1e-12 <= made.delta(epsilon) <= float(apart) + 1e-12
        if made.delta(epsilon) > 0.0 and made.weight > 1:  # else δ is what it is at 0, but for what no float denotes
            assert made.epsilon(made.delta(epsilon)) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("made", [each for each in BITS + SETS if each.epsilon() > 0], ids=repr)
def test_estimates_are_unbiased_and_have_the_stated_variance(made):
    """By all outcomes: the mean of an estimate under each law is one answer of that category and none of others."""
    k = made.num_categories
    for answer in range(k):
        outcomes = law(made, answer)
        units = np.array([made.estimate_frequencies(np.array([words(row, made)], np.uint64)) for row in outcomes])
        shares = np.array([float(share) for share in outcomes.values()])
        mean = shares @ units
        assert mean == pytest.approx(np.eye(k)[answer], abs=1e-9)
        if made.variance(1) > 1e-6:
            assert np.delete(shares @ units**2, answer) == pytest.approx(made.variance(1), rel=1e-9)


@pytest.mark.parametrize(
    "made",
    [
        *BITS,
        *SETS,
        fd.UnaryResponse(weight=7, digits=5, num_categories=64),
        fd.UnaryResponse(weight=7, digits=5, num_categories=65),
        fd.UnaryResponse(weight=500, digits=10, num_categories=1100),
        fd.SubsetResponse(weight=2**60, num_categories=130, size=70),
        fd.SubsetResponse(weight=2**60, num_categories=700, size=650),
    ],
    ids=repr,
)
def test_messages_are_those_of_the_definition(made):
    count = 6 if made.num_categories > 600 else 60  # the reference of the cipher takes its time
    answers = np.random.default_rng(0).integers(-1, made.num_categories + 1, (3, count // 3))
    key = fd.testing.seeded(SEED)._key()
    of = responses.bits if isinstance(made, fd.UnaryResponse) else responses.sets

    released = made.release(answers, source=fd.testing.seeded(SEED), threads=2)

    assert released.shape == (3, count // 3, -(-made.num_categories // 64))
    assert rows(released) == of(made, key, answers.ravel().tolist())


@pytest.mark.parametrize("made", [BITS[1], BITS[2], *SETS[1:4]], ids=repr)
def test_frequencies_of_messages_are_those_of_the_law(made):
    """A chi-square test with a false-alarm rate of 1e-9 for each of two answers, on 200 000 seeded messages."""
    for answer in (0, made.num_categories - 1):
        expected = {row: 200_000 * float(share) for row, share in law(made, answer).items()}
        released = made.release(np.full(200_000, answer), source=fd.testing.seeded(SEED))
        found = dict.fromkeys(expected, 0)
        for row in rows(released):
            found[row] += 1
        rare = [row for row in expected if expected[row] < 20]
        expected[-1], found[-1] = sum(expected[row] for row in rare), sum(found[row] for row in rare)
        common = [row for row in expected if expected[row] >= 20]
        assert -1 in common or found[-1] < 100
        distance = sum((found[row] - expected[row]) ** 2 / expected[row] for row in common)
        assert distance < stats.chi2.isf(1e-9, max(len(common) - 1, 1))


@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-4, 20), categories=st.integers(2, 2**24), kind=st.sampled_from(KINDS))
def test_a_calibrated_response_keeps_epsilon_and_wastes_little_of_it(epsilon, categories, kind):
    made = kind.calibrated(epsilon=epsilon, num_categories=categories)

    assert epsilon * (1 - 1.01 * 2**-10) <= made.epsilon() <= epsilon
    likely, unlikely = made._laws
    with mp.workdps(60):
        assert mpf((likely / unlikely).numerator) / (likely / unlikely).denominator <= mpmath.exp(mpf(epsilon))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_variances_are_near_the_least_for_many_categories(epsilon):
    """Unary encoding has 4e^ε/(e^ε − 1)² [WBLJ17], which sets approach from below; ε loses 2⁻¹⁰ of itself."""
    least = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
    unary = fd.UnaryResponse.calibrated(epsilon=epsilon, num_categories=1024).variance(1)
    sets = fd.SubsetResponse.calibrated(epsilon=epsilon, num_categories=1024).variance(1)

    assert least * (1 - 1e-12) <= unary <= least * 1.01
    assert least * 0.97 <= sets <= unary
    assert epsilon != 1.0 or max(unary, sets) <= 3.72


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("categories", [2, 3, 8, 20, 100])
def test_sets_have_the_least_variance_of_all(epsilon, categories):
    """Of all sizes of sets, and of all protocols here."""
    sets = fd.SubsetResponse.calibrated(epsilon=epsilon, num_categories=categories)

    for size in {1, 2, categories // 3, categories - 1, *range(max(sets.size - 2, 1), sets.size + 3)} & {
        *range(1, categories)
    }:
        other = fd.SubsetResponse.calibrated(epsilon=epsilon, num_categories=categories, size=size)
        assert sets.variance(1) <= other.variance(1) * (1 + 1e-12)
    assert sets.variance(1) <= fd.UnaryResponse.calibrated(epsilon=epsilon, num_categories=categories).variance(1)
    assert sets.variance(1) <= fd.HadamardResponse.calibrated(epsilon=epsilon, num_categories=categories).variance(1)


@both
def test_the_event_is_taken_by_shuffling(kind):
    made = kind.calibrated(epsilon=1.0, num_categories=1024)
    accountant = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(ShuffledEvent(randomizer=made.event, population_size=100_000))

    assert accountant.epsilon(1e-6) < 0.1


@both
def test_answers_out_of_range_count_as_the_first(kind):
    made = kind.calibrated(epsilon=8.0, num_categories=5)
    found = made.estimate_frequencies(made.release(np.array([-1, 5, 2**62, -(2**63)] * 1000)))

    # deviations: √(n·v) for others, √n/2 for the first
    assert found == pytest.approx([4000, 0, 0, 0, 0], abs=10 * math.sqrt(4000 * (0.3 + made.variance(1))))


@both
def test_only_a_payment_for_replaced_answers_is_taken(kind):
    made = kind.calibrated(epsilon=0.5, num_categories=10)
    with fd.budget(epsilon=1.0, neighboring_relation=NeighboringRelation.REPLACE_ONE):
        made.release([1, 2])
    with fd.budget(epsilon=1.0), pytest.raises(InvalidParameter, match="an open budget must be under REPLACE_ONE"):
        made.release([1, 2])


@both
def test_messages_that_nobody_released_are_refused(kind):
    made = kind.calibrated(epsilon=1.0, num_categories=70)
    good = made.release([0, 69])

    assert made.estimate_frequencies(good[:0]).tolist() == [0.0] * 70
    assert made.estimate_frequencies(good[::-1, ::1]).tolist() == made.estimate_frequencies(good).tolist()
    for bad, error, message in [
        (good.astype(np.int64), InvalidArrayType, "messages must be uint64"),
        (good[:, :1], InvalidArray, "must have 2 words each"),
        (np.uint64(3), InvalidArray, "must have 2 words each"),
        (good | np.uint64(2**63), InvalidArray, "no bits beyond those of 70 categories"),
    ]:
        with pytest.raises(error, match=message):
            made.estimate_frequencies(bad)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fd.UnaryResponse(weight=0, digits=4, num_categories=3), InvalidParameter, "weight must be"),
        (lambda: fd.UnaryResponse(weight=9, digits=4, num_categories=3), InvalidParameter, "weight must be"),
        (lambda: fd.UnaryResponse(weight=1, digits=64, num_categories=3), InvalidParameter, "digits must be"),
        (lambda: fd.UnaryResponse(weight=1, digits=4, num_categories=1), InvalidParameter, "num_categories must be"),
        (lambda: fd.UnaryResponse.calibrated(epsilon=0, num_categories=3), InvalidParameter, "epsilon must be"),
        (lambda: fd.UnaryResponse.calibrated(epsilon=50, num_categories=3), CalibrationError, "more than 63 bits"),
        (lambda: fd.UnaryResponse.calibrated(epsilon=1e-17, num_categories=3), CalibrationError, "more than 63 bits"),
        (lambda: BITS[0].estimate_frequencies(BITS[0].release([0])), InvalidParameter, "below half of 2\\^digits"),
        (lambda: fd.SubsetResponse(weight=0, size=1, num_categories=3), InvalidParameter, "weight must be"),
        (lambda: fd.SubsetResponse(weight=2**63, size=2, num_categories=3), InvalidParameter, "weight must be"),
        (lambda: fd.SubsetResponse(weight=1, size=3, num_categories=3), InvalidParameter, "size must be"),
        (lambda: fd.SubsetResponse(weight=1, size=1, num_categories=1), InvalidParameter, "num_categories must be"),
        (lambda: fd.SubsetResponse.calibrated(epsilon=0, num_categories=3), InvalidParameter, "epsilon must be"),
        (lambda: fd.SubsetResponse.calibrated(epsilon=1, num_categories=3, size=3), InvalidParameter, "size must be"),
        (lambda: fd.SubsetResponse.calibrated(epsilon=50, num_categories=3), CalibrationError, "less noise"),
        (lambda: SETS[4].estimate_frequencies(SETS[4].release([0])), InvalidParameter, "to estimate anything"),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
