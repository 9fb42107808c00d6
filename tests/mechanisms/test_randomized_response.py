"""Randomized response: exactly the stated probabilities, the stated ε, and what comes in or out of a release."""

import copy
import dataclasses
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

import ferrodp
from ferrodp import NoiseSource, _native
from ferrodp.accounting import NeighboringRelation, RandomizedResponseEvent
from ferrodp.accounting.curves.hockey_stick import hockey_stick_delta, hockey_stick_epsilon
from ferrodp.errors import (
    CalibrationError,
    EntropyError,
    InvalidArray,
    InvalidArrayType,
    InvalidParameter,
    InvalidType,
    WeakPrivacyWarning,
)
from ferrodp.mechanisms import RandomizedResponse
from ferrodp.testing import seeded
from ferrodp.tickets import TicketState
from reference import keystream, selection
from support import vectors
from support.tickets import ticket_for

SEED = b"mechanisms: randomized response "
REPLACE = NeighboringRelation.REPLACE_ONE
VECTORS = vectors.samplers("rr-")
PARAMETERS = {"noise_parameter": 0.3, "num_categories": 5}

parameters = st.floats(2.0**-64, 1.0)
categories = st.integers(2, 2**31 - 1)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_truth_has_the_given_probability(vector):
    epsilon, k = vector["inputs"]["eps"], vector["inputs"]["k"]
    mechanism = RandomizedResponse.calibrated(epsilon=epsilon, num_categories=k)

    assert mechanism.truth_probability == pytest.approx(float(vector["expected"]), rel=1e-15)
    assert mechanism.epsilon() <= epsilon
    assert mechanism.epsilon() == pytest.approx(epsilon, rel=1e-14)


@given(parameters, categories, st.floats(0.0, 0.999))
def test_the_curve_is_exact_and_rounded_up(p, k, delta):
    mechanism = RandomizedResponse(noise_parameter=p, num_categories=k)
    truth, lie = 1 - Fraction(p) + Fraction(p) / k, Fraction(p) / k
    with mp.workdps(60):
        whole = mpmath.log(selection.exact(truth / lie))
        epsilon = mechanism.epsilon()
        assert whole <= mpf(epsilon) <= whole * (1 + mpf(2) ** -51) + mpf(5e-324)
        for share in (0.0, 0.25, 0.5, 0.999):
            at = share * epsilon
            exact = max(selection.exact(truth) - mpmath.exp(at) * selection.exact(lie), mpf(0))
            assert exact <= mpf(mechanism.delta(at)) <= exact * (1 + mpf(2) ** -51) + mpf(5e-324)
    assert mechanism.delta(epsilon) == 0.0
    assert mechanism.delta(mechanism.epsilon(delta)) <= delta


@given(st.floats(1e-6, 0.999), st.integers(2, 10**6))
def test_accountants_see_the_same_curve(p, k):
    mechanism = RandomizedResponse(noise_parameter=p, num_categories=k)

    assert mechanism.event == RandomizedResponseEvent(noise_parameter=p, num_buckets=k)
    bounds = hockey_stick_epsilon(mechanism.event, 0.0, neighboring_relation=REPLACE)
    assert bounds.lower <= mechanism.epsilon() <= math.nextafter(bounds.upper, math.inf)
    for at in (0.0, 0.5):
        bounds = hockey_stick_delta(mechanism.event, at, neighboring_relation=REPLACE)
        assert bounds.lower <= mechanism.delta(at) <= math.nextafter(bounds.upper, math.inf)


@given(st.floats(1e-6, 20.0), st.integers(2, 10**6))
def test_calibrated_noise_keeps_the_promise_and_is_no_float_more(epsilon, k):
    mechanism = RandomizedResponse.calibrated(epsilon=epsilon, num_categories=k)

    assert mechanism.epsilon() <= epsilon
    less = math.nextafter(mechanism.noise_parameter, 0.0)
    with mp.workdps(60):
        exact = mpmath.log1p(k * (1 - mpf(less)) / mpf(less))
        assert exact > mpf(epsilon)


def test_calibration_ends_at_the_smallest_noise():
    with pytest.warns(WeakPrivacyWarning, match="epsilon is above 20") as caught:
        RandomizedResponse.calibrated(epsilon=Fraction(41, 2))
    assert caught[0].filename == __file__
    with pytest.raises(CalibrationError, match=r"epsilon=50 asks for less noise than the smallest supported, 2\^-64"):
        RandomizedResponse.calibrated(epsilon=50)
    assert RandomizedResponse.calibrated(epsilon=5e-324).noise_parameter == 1.0
    assert RandomizedResponse(noise_parameter=1.0).epsilon() == 0.0
    assert RandomizedResponse(noise_parameter=1.0).delta(0.0) == 0.0


# outcomes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), [(0.5, 2), (0.3, 5), (1.0, 3), (2.0**-64, 7), (0.999, 2**31 - 1), (0.1, 255)])
def test_answers_are_those_of_the_reference(p, k):
    mechanism = RandomizedResponse(noise_parameter=p, num_categories=k)
    answers = np.array([0, 1, k - 1, k, -1, 2**40] * 25)
    key = keystream.call_key(SEED, 0)
    expected = [selection.respond(key, i, answer, p, k) for i, answer in enumerate(answers.tolist())]

    assert mechanism.release(answers, source=seeded(SEED)).tolist() == expected


@pytest.mark.parametrize(("p", "k", "truth"), [(0.5, 2, 1), (0.3, 5, 2), (0.9, 16, 0), (1.0, 3, 1), (0.01, 256, 255)])
def test_counts_are_those_of_the_law(p, k, truth):
    """Chi-square of 2¹⁸ answers; false alarm 1e-9 a test."""
    draws = 1 << 18
    mechanism = RandomizedResponse(noise_parameter=p, num_categories=k)
    expected = np.full(k, draws * p / k)
    expected[truth] += draws * (1 - p)

    observed = np.bincount(mechanism.release(np.full(draws, truth), source=seeded(SEED)), minlength=k)

    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), k - 1) > 1e-9


def test_estimates_are_right_on_average():
    """Six standard deviations of the randomized counts, over 1 − p: false alarm 2e-9 a category."""
    truth = np.repeat(np.arange(4), [60_000, 30_000, 10_000, 0])
    mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_categories=4)
    found = mechanism.estimate_frequencies(mechanism.release(truth, source=seeded(SEED)))

    deviation = math.sqrt(truth.size / 4) / (1 - mechanism.noise_parameter)
    assert np.abs(found - [60_000, 30_000, 10_000, 0]).max() < 6 * deviation
    assert found.sum() == pytest.approx(truth.size)
    assert mechanism.estimate_frequencies([]).tolist() == [0.0] * 4
    with pytest.raises(InvalidArray, match="answers must be from 0 to 3"):
        mechanism.estimate_frequencies([0, 4])
    with pytest.raises(InvalidArrayType, match="answers must be integers or truth values, got float64"):
        mechanism.estimate_frequencies([0.5])
    with pytest.raises(InvalidParameter, match="noise_parameter must be below 1 to estimate anything"):
        RandomizedResponse(noise_parameter=1.0).estimate_frequencies([0])


FORMS = {
    "list": [[1, 2], [0, 4]],
    "tuple": ((1, 2), (0, 4)),
    "strided": np.array([[1, 9, 2, 9], [0, 9, 4, 9]])[:, ::2],
    "transposed": np.array([[1, 0], [2, 4]]).T,
    "big-endian": np.array([[1, 2], [0, 4]], ">i8"),
    **{np.dtype(kind).name: np.array([[1, 2], [0, 4]], kind) for kind in (np.uint8, np.int32, np.int64)},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_answers_does_not_show(form):
    mechanism = RandomizedResponse(**PARAMETERS)
    answers = FORMS[form]
    before = np.array(answers).tobytes()

    released = mechanism.release(answers, source=seeded(SEED))

    expected = mechanism.release(np.array([[1, 2], [0, 4]]), source=seeded(SEED))
    assert released.tolist() == expected.tolist()
    assert released.dtype == (answers.dtype.newbyteorder("=") if isinstance(answers, np.ndarray) else np.int64)
    assert before == np.array(answers).tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3), (1000,)])
def test_shapes_are_kept(shape):
    released = RandomizedResponse(**PARAMETERS).release(np.zeros(shape, np.int32))

    assert isinstance(released, np.ndarray)
    assert (released.shape, released.dtype) == (shape, np.int32)


@pytest.mark.parametrize(
    "answer", [1, np.int16(1), np.uint64(1), np.uint8(1), np.int64(1)], ids=lambda a: type(a).__name__
)
def test_scalars_give_ints(answer):
    mechanism = RandomizedResponse(noise_parameter=2.0**-64, num_categories=1000)

    assert type(mechanism.release(answer)) is int
    assert mechanism.release(answer) == 1  # replaced with probability 2⁻⁶⁴


def test_truth_values_stay_truth_values():
    mechanism = RandomizedResponse(noise_parameter=2.0**-64)

    for answer in (True, False, np.True_, np.False_):
        assert mechanism.release(answer) is bool(answer)
    flags = np.array([True, False, True, True])[::-1]
    assert mechanism.release(flags).tolist() == flags.tolist()
    assert mechanism.release(flags).dtype == np.bool_
    with pytest.raises(InvalidArray, match="answers must be integers for 5 categories, got truth values"):
        RandomizedResponse(**PARAMETERS).release(True)


def test_answers_out_of_range_count_as_zero():
    mechanism = RandomizedResponse(noise_parameter=2.0**-64, num_categories=3)

    assert mechanism.release(np.array([-1, 3, 2**62, -(2**63), 2])).tolist() == [0, 0, 0, 0, 2]
    assert mechanism.release(10**30) == 0
    assert mechanism.release(-1) == 0


@pytest.mark.parametrize(
    "bad",
    [None, 1.0, "1", [1.5], [True], [[0], [0, 1]], np.zeros(2), np.zeros(2, np.int16), np.ma.zeros(2, int), {0: 1}],
    ids=repr,
)
def test_other_answers_are_type_errors_before_anything_is_drawn(bad):
    source, mechanism = seeded(SEED), RandomizedResponse(**PARAMETERS)

    with pytest.raises(InvalidArrayType, match=r"^answers must"):
        mechanism.release(bad, source=source)

    first, again = (mechanism.release(np.zeros(100, int), source=each) for each in (source, seeded(SEED)))
    assert first.tolist() == again.tolist()


def test_categories_must_fit_the_dtype():
    mechanism = RandomizedResponse(noise_parameter=0.5, num_categories=257)

    with pytest.raises(InvalidArray, match="answers must have a dtype that holds 257 categories, got uint8"):
        mechanism.release(np.zeros(3, np.uint8))
    assert RandomizedResponse(noise_parameter=0.5, num_categories=256).release(np.zeros(3, np.uint8)).dtype == np.uint8


def test_threads_do_not_show_and_are_checked():
    mechanism, answers = RandomizedResponse(**PARAMETERS), np.zeros(200_000, np.int32)

    one, three = (mechanism.release(answers, source=seeded(SEED), threads=threads) for threads in (1, 3))

    assert np.array_equal(one, three)
    for wrong in (0, 257, 1.5):
        with pytest.raises((InvalidParameter, InvalidType), match="threads must be an int"):
            mechanism.release(answers, threads=wrong)


@pytest.mark.parametrize("wrong", [0, "os", np.random.default_rng(0), NoiseSource], ids=str)
def test_sources_are_noise_sources(wrong):
    with pytest.raises(InvalidType, match="source must be a NoiseSource or None, got"):
        RandomizedResponse(**PARAMETERS).release(1, source=wrong)


def test_without_entropy_the_answers_are_as_they_were(monkeypatch):
    def no_entropy(*_):
        raise EntropyError("no random bytes")

    answers = np.arange(5)
    monkeypatch.setattr(_native, "randomize_responses", no_entropy)

    with pytest.raises(EntropyError):
        RandomizedResponse(**PARAMETERS).release(answers)
    assert answers.tolist() == [0, 1, 2, 3, 4]


# parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -0.1, 1.0000001, 0.0, 2.0**-65, Fraction(3, 2), Decimal("NaN")], ids=repr
)
def test_noise_parameters_out_of_range_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^noise_parameter must be"):
        RandomizedResponse(noise_parameter=bad)


@pytest.mark.parametrize("bad", [0, 1, -2, 2**31, 2.0, True, "2", None], ids=repr)
def test_numbers_of_categories_out_of_range_are_refused(bad):
    for make in (
        lambda: RandomizedResponse(noise_parameter=0.5, num_categories=bad),
        lambda: RandomizedResponse.calibrated(epsilon=1.0, num_categories=bad),
    ):
        with pytest.raises((InvalidParameter, InvalidType), match=r"^num_categories must be an int"):
            make()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0, -1.0, True, "1", None, [1.0]], ids=repr)
def test_an_epsilon_must_be_positive(bad):
    with pytest.raises((InvalidParameter, InvalidType), match=r"^epsilon must be"):
        RandomizedResponse.calibrated(epsilon=bad)


@pytest.mark.parametrize("method", ["epsilon", "delta"])
def test_points_of_the_curve_are_checked(method):
    for bad in (-0.5, math.nan, "0.5"):
        with pytest.raises((InvalidParameter, InvalidType)):
            getattr(RandomizedResponse(**PARAMETERS), method)(bad)


def test_the_largest_numbers_of_categories_work():
    mechanism = RandomizedResponse.calibrated(epsilon=3.0, num_categories=2**31 - 1)

    assert 0 <= mechanism.release(2**31 - 2) < 2**31 - 1
    assert mechanism.epsilon() <= 3.0


def test_mechanisms_are_immutable_values():
    mechanism = RandomizedResponse(**PARAMETERS)

    assert mechanism == RandomizedResponse(**PARAMETERS)
    assert mechanism != RandomizedResponse(noise_parameter=0.3, num_categories=4)
    assert repr(mechanism) == "RandomizedResponse(noise_parameter=0.3, num_categories=5)"
    assert mechanism.guarantee == "exact"
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.noise_parameter = 0.1
    for again in (pickle.loads(pickle.dumps(mechanism)), copy.copy(mechanism), copy.deepcopy(mechanism)):
        assert again == mechanism
        assert 0 <= again.release(1) < 5


@pytest.mark.parametrize("measure", ["rdp", "pure"])
def test_no_answer_stands_for_the_uniform_one_of_a_null_record(measure):
    """One that is not given counts as 0: an ε of 1.1 against any other answer, of 0.7 against a uniform one."""
    mechanism = RandomizedResponse(noise_parameter=0.5)
    special = NeighboringRelation.REPLACE_SPECIAL
    kept = {"epsilon": 3.0, "delta": 1e-6 if measure == "rdp" else 0.0, "measure": measure}

    with ferrodp.budget(**kept, neighboring_relation=special) as spending:
        with pytest.raises(InvalidParameter, match=r"^an open budget must not be under REPLACE_SPECIAL"):
            mechanism.release(np.array([0, -1]))
        assert not spending.report().charges
    ticket = ticket_for(mechanism.event, relation=special)
    with pytest.raises(InvalidParameter, match=r"^ticket must not be under REPLACE_SPECIAL"):
        mechanism.release(np.array([0, -1]), ticket=ticket)
    assert ticket.state is TicketState.HELD
    with ferrodp.budget(**kept, neighboring_relation=REPLACE) as spending:
        mechanism.release(np.array([0, -1]))
    assert spending.report().epsilon_spent >= math.log(3.0)
