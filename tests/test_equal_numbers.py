"""Equal numbers count alike, whatever their type: a sum of Python numbers becomes a float when one float joins it."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from reference import rounded_noise

SEED = bytes(range(32))
MECHANISMS = {
    "gaussian": lambda scale: fd.GaussianMechanism(noise_multiplier=scale, l2_sensitivity=1.0),
    "laplace": lambda scale: fd.LaplaceMechanism(scale=scale, l1_sensitivity=1.0),
}
SELECTIONS = [fd.ExponentialMechanism, fd.PermuteAndFlip, fd.ReportNoisyMax]
SCALES = [1e-6, 1.0, 3.7e9, 2.0**33, 1e17, 2.0**85, 2.0**86, 1e30, 1e100]

floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: float(math.trunc(x))),
    st.integers(-(2**53), 2**53).map(float),
    st.tuples(st.integers(-(2**53), 2**53), st.integers(0, 200)).map(lambda pair: math.ldexp(*pair)),
)
"""Floats that are whole numbers."""


def seeded():
    return fd.testing.seeded(SEED)


def forms(number):
    """Return the same number in every type that data may have."""
    yield from (number, int(number), np.float64(number))
    if abs(number) < 2**63:
        yield np.int64(int(number))
    with np.errstate(over="ignore"):
        single = np.float32(number)
    if float(single) == number:
        yield single


@given(floats, st.sampled_from(SCALES), st.sampled_from(sorted(MECHANISMS)))
def test_a_number_is_released_alike_in_every_type(number, scale, law):
    mechanism = MECHANISMS[law](scale)

    released = {mechanism.release(form, source=seeded()) for form in forms(number)}
    released |= {mechanism.release([form], source=seeded()).item() for form in forms(number)}

    assert len(released) == 1


@given(floats)
def test_a_query_is_answered_alike_in_every_type(number):
    answers = set()
    for form in forms(number):
        run = fd.SparseVector(threshold=number, sensitivity=1.0, epsilon=1.0, max_answers=9, source=seeded())
        answers.add(tuple(run.query(form) for _ in range(8)))

    assert len(answers) == 1


@given(st.lists(floats, min_size=2, max_size=4), st.sampled_from(SCALES), st.sampled_from(SELECTIONS))
def test_utilities_are_alike_in_every_type(numbers, scale, kind):
    mechanism = kind(scale=scale, sensitivity=1.0)
    integers = [int(number) for number in numbers]
    inputs = [numbers, integers, np.array(numbers), [integers[0], *numbers[1:]]]
    if max(map(abs, integers)) < 2**63:
        inputs.append(np.array(integers))

    assert len({mechanism.release(each, source=seeded()) for each in inputs}) == 1


long = st.tuples(st.integers(54, 1000), st.integers(0, 2**1000 - 1)).map(lambda pair: pair[1] >> (1000 - pair[0]))


@given(long, st.sampled_from(SCALES), st.sampled_from(sorted(MECHANISMS)), st.booleans())
def test_an_integer_that_no_float_denotes_is_taken_exactly(size, scale, law, negative):
    """By the reference, in rational arithmetic: rounded to a float it could be further from a neighbor."""
    integer = -size if negative else size
    grid = rounded_noise.default_granularity(law, Fraction(scale), np.float64)

    found = MECHANISMS[law](scale).release([0.0, integer, 1.5], source=seeded())

    key = fd.testing._native.derive_key(SEED, 0)
    steps = [rounded_noise.sample(key, i, law, v, Fraction(scale), grid) for i, v in enumerate([0.0, integer, 1.5])]
    expected = [rounded_noise.output(k, grid, np.dtype(np.float64)) for k in steps]
    assert expected == found.tolist()


@pytest.mark.parametrize("kind", SELECTIONS)
def test_utilities_that_no_float_denotes_are_taken_exactly(kind):
    """What all of them grow by cannot matter."""
    close = np.array([0, 3, 1, 2])
    for seed in range(20):
        mechanism, key = kind(scale=1.0, sensitivity=1.0), bytes([seed] * 32)
        expected = mechanism.release(close, source=fd.testing.seeded(key))
        for by in (2**53 + 1, 2**62 + 1, -(2**62)):
            for moved in (close + by, (close + by).tolist(), (close.astype(object) + by * 2**70).tolist()):
                assert mechanism.release(moved, source=fd.testing.seeded(key)) == expected


@pytest.mark.parametrize("law", sorted(MECHANISMS))
def test_neighboring_integers_stay_neighbors(law):
    """2⁵³ + 1 and + 2 are one apart, and so is what is released, for the same noise on a grid of whole numbers."""
    mechanism = MECHANISMS[law](2.0**32)
    base = mechanism.release(0, source=seeded())

    for integer in (2**53 + 1, 2**53 + 2, 2**60 + 1, 10**25 + 7, -(10**25) - 7):
        released = mechanism.release(integer, source=seeded())

        assert released == float(integer + int(base))


def test_integers_beyond_floats_count_as_the_largest():
    mechanism = MECHANISMS["gaussian"](1e270)
    largest = int(sys.float_info.max)

    for sign in (1, -1):
        found = {mechanism.release(sign * size, source=seeded()) for size in (largest, largest + 1, 10**400)}
        found.add(mechanism.release(float(sign * largest), source=seeded()))
        assert len(found) == 1


def test_a_record_holds_integers_as_they_are():
    run = fd.SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0)
    with fd.testing.record() as log:
        MECHANISMS["laplace"](1.0).release([2**53 + 1, math.nan])
        fd.ReportNoisyMax(scale=1.0, sensitivity=1.0).release([2**60 + 1, 2**60])
        run.query(2**70 + 1)
    with fd.testing.replay(log[:2]):
        MECHANISMS["laplace"](1.0).release([2**53 + 2, 0.0])
        with pytest.raises(AssertionError, match="further from the recorded one"):
            fd.ReportNoisyMax(scale=1.0, sensitivity=1.0).release([2**60 + 3, 2**60])

    assert [entry.value.tolist() for entry in log] == [[2**53 + 1, 0.0], [2**60 + 1, 2**60], 2**70 + 1]
