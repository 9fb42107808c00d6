"""Vectors as numbers of code words: two probabilities, exact ranks, and means that are unbiased over the codes."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import special

import ferrodp as fd
from ferrodp.accounting import NeighboringRelation, PldAccountant, ShuffledEvent
from ferrodp.errors import BudgetExceeded, CalibrationError, InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.mechanisms.vector_response import _largest
from reference import responses

SEED = b"vectors as numbers of code words"
MADE = [
    fd.VectorResponse(weight=weight, dimension=d, num_directions=n, size=m, l2_clip_norm=2.0)
    for weight, d, n, m in [
        (2**62, 1, 1, 1),
        (2**62 + 12345, 2, 2, 1),
        (1, 3, 3, 2),
        (2**63, 2, 3, 3),
        (2**60, 5, 4, 1),
    ]
]


def made(epsilon, dimension, **more):
    return fd.VectorResponse.calibrated(**{"epsilon": epsilon, "dimension": dimension, "l2_clip_norm": 1.0} | more)


@pytest.mark.parametrize("of", MADE, ids=repr)
def test_epsilon_and_delta_are_those_of_all_pairs_of_tops(of):
    """Each vector and nonce has one of the tops, and by rotation each pair that has no direction in common occurs."""
    laws = [responses.vector_law(of, near) for near in responses.tops(of)]
    for one in laws:
        assert sum(one) == 1
    largest = max(a / b for one, other in itertools.permutations(laws, 2) for a, b in zip(one, other, strict=True))
    with mp.workdps(60):
        exact = mpmath.log(mpf(largest.numerator) / largest.denominator)
        assert exact <= mpf(of.epsilon()) <= exact * (1 + mpf(2) ** -51)
    for epsilon in (0.0, 0.3, 1.0):
        growth = Fraction(math.exp(epsilon))
        apart = max(
            sum(max(a - growth * b, 0) for a, b in zip(one, other, strict=True))
            for one, other in itertools.permutations(laws, 2)
        )
        assert float(apart) - 1e-12 <= of.delta(epsilon) <= float(apart) + 1e-12


@pytest.mark.parametrize("of", [*MADE, made(4.0, 7, num_directions=6, size=2)], ids=repr)
def test_messages_are_those_of_the_definition(of):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(3, 4, of.dimension)) * np.array([0.1, 1.0, 1e300, 1e-300])[:, None]
    vectors[0, 0] = 0.0
    vectors[0, 1, 0] = np.nan
    vectors[0, 2, -1] = -np.inf
    vectors[1, 0] = np.eye(of.dimension)[0] * 2.0
    key = fd.testing.seeded(SEED)._key()
    before = vectors.copy()

    released = of.release(vectors, source=fd.testing.seeded(SEED), threads=2)

    assert released.shape == (3, 4, 2)
    assert np.array_equal(vectors, before, equal_nan=True)
    flat = vectors.reshape(-1, of.dimension).tolist()
    assert released.reshape(-1, 2).tolist() == responses.vector_answers(of, key, flat)
    # the sum is that of the code words, each coordinate rounded to 36 binary digits
    if of.weight != 2**63:
        words = [
            [(-1) ** (number % 2) * z for z in responses.coordinates(nonce, number // 2, of.dimension, 36)]
            for nonce, number in released.reshape(-1, 2).tolist()
        ]
        expected = np.sum(words, axis=0) * 2.0**-36 * (of.l2_clip_norm / (12 * of._scale))
        assert np.array_equal(of.estimate_mean(released, threads=2), expected)


@pytest.mark.parametrize(("epsilon", "size"), [(0.5, None), (2.0, None), (2.0, 1), (6.0, None)])
def test_estimates_are_unbiased_and_have_the_stated_variance(epsilon, size):
    """Along the vector and across it: 40 coordinates in 40 seeded runs, with a false-alarm rate below 1e-9 a case.

    One of 1640 normal numbers is beyond 7.6 in 5e-11 of runs; a mean of n squares is within 6.5·√(2/n) but for 1e-10.
    """
    d, n, runs = 40, 500, 40
    of = made(epsilon, d, l2_clip_norm=3.0, size=size)
    axis = np.random.default_rng(2).normal(size=d)
    axis *= 3.0 / np.linalg.norm(axis)
    basis = np.linalg.qr(np.column_stack([axis, np.random.default_rng(3).normal(size=(d, d - 1))]))[0]
    basis[:, 0] = axis / 3.0
    source = fd.testing.seeded(SEED)

    found = np.array([of.estimate_mean(of.release(np.tile(axis, (n, 1)), source=source)) for _ in range(runs)]) - axis

    errors = (found @ basis) * math.sqrt(n)
    across = 3.0 / of._scale
    along = math.sqrt(of.variance(1) - (d - 1) * across**2)
    scaled = errors / np.array([along, *[across] * (d - 1)])
    assert np.abs(scaled).max() < 7.6
    assert abs(scaled.mean(axis=0)).max() < 7.6 / math.sqrt(runs)
    assert (scaled[:, 1:] ** 2).mean() == pytest.approx(1.0, abs=6.5 * math.sqrt(2 / (runs * (d - 1))))
    assert (scaled[:, 0] ** 2).mean() < 1.0 + 6.5 * math.sqrt(2 / runs)


@pytest.mark.parametrize(
    ("given", "mean"),
    [([[0.6, 0.8]], [0.6, 0.8]), ([[30.0, -40.0]], [0.6, -0.8]), ([[0.3, 0.0]], [0.3, 0.0]), ([[1e-300, 0.0]], [0, 0])]
    + [([[bad, 1.0]], [0, 0]) for bad in (np.nan, np.inf, -np.inf)]
    + [([[0.0, 0.0]], [0, 0]), ([[1e308, 1e308]], [0.5**0.5] * 2), ([[1.0, 0.0], [0.0, 0.5]], [0.5, 0.25])],
)
def test_means_are_those_of_clipped_vectors(given, mean):
    """With a false-alarm rate of 1e-10 a case: 40 000 messages, 6.5 standard deviations of a coordinate."""
    of = made(8.0, 2)
    messages = of.release(np.tile(given, (40_000 // len(given), 1)), source=fd.testing.seeded(SEED))

    assert of.estimate_mean(messages) == pytest.approx(mean, abs=6.5 * math.sqrt((of.variance(1) + 1.0) / 40_000))


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(1e-6, 20), dimension=st.integers(1, 2**20), directions=st.integers(1, 300), part=st.floats(0, 1)
)
def test_a_calibrated_response_keeps_epsilon_and_wastes_little_of_it(epsilon, dimension, directions, part):
    size = max(1, round(part * directions))
    for more in ({}, {"num_directions": directions}, {"num_directions": directions, "size": size}):
        of = made(epsilon, dimension, **more)
        assert epsilon * (1 - 1e-6) - 1e-9 <= of.epsilon() <= epsilon
        if "size" not in more:
            other = made(epsilon, dimension, num_directions=of.num_directions, size=min(size, of.num_directions))
            assert of.variance(1) <= other.variance(1) * (1 + 1e-6)


def least_variance(epsilon, dimension):
    """Return that of PrivUnit with the best cap: 1/m² − 1, m being the mean of its unit vector along the true one."""
    growth, height = math.expm1(epsilon), np.linspace(0.0, 0.95, 20_001)
    share = special.betainc((dimension - 1) / 2, 0.5, 1 - height**2) / 2
    density = math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2)) / math.sqrt(math.pi)
    inside = density * (1 - height**2) ** ((dimension - 1) / 2) / (dimension - 1)
    return 1 / (growth * inside / (1 + growth * share)).max() ** 2 - 1


@pytest.mark.parametrize(
    ("epsilon", "of_hundred", "of_thousand"),
    [(0.5, 1.03, 1.03), (1.0, 1.06, 1.05), (2.0, 1.06, 1.05), (4.0, 1.05, 1.03), (8.0, 1.11, 1.07)],
)
def test_the_variance_is_near_to_the_least(epsilon, of_hundred, of_thousand):
    """And never below it: PrivUnit is optimal."""
    for dimension, factor in ((100, of_hundred), (1000, of_thousand)):
        least = least_variance(epsilon, dimension)
        assert least <= made(epsilon, dimension).variance(1) <= factor * least
    more = [made(epsilon, 1000, num_directions=count).variance(1) for count in (1, 4, 16, 64, 256, 1024, 4096)]
    assert more == sorted(more, reverse=True)
    assert more[-1] <= 1.01 * least


def test_means_of_the_largest_are_those_of_their_densities():
    assert _largest(1)[0].tolist() == pytest.approx([math.sqrt(2 / math.pi)], abs=1e-12)
    assert _largest(2)[0].tolist() == pytest.approx([2 / math.sqrt(math.pi), math.sqrt(2 / math.pi)], abs=1e-12)
    for count in (1, 2, 7, 256, 4096):
        first, second = _largest(count)
        assert first[-1] == pytest.approx(math.sqrt(2 / math.pi), abs=1e-10)
        assert second[-1] == pytest.approx(1.0, abs=1e-10)
        assert (np.diff(first) < 0).all()
    with mp.workdps(30):
        # the third largest of seven, by its density
        def density(t):
            tail, head = mpmath.erfc(t / mpmath.sqrt(2)), mpmath.erf(t / mpmath.sqrt(2))
            return 105 * mpmath.sqrt(2 / mp.pi) * mpmath.exp(-t * t / 2) * tail**2 * head**4

        third = mpmath.quad(lambda t: t * density(t), [0, 1, 2, 4, 12])
        square = mpmath.quad(lambda t: t * t * density(t), [0, 1, 2, 4, 12])
    first, second = _largest(7)
    assert 3 * first[2] - 2 * first[1] == pytest.approx(float(third), abs=1e-12)
    assert 3 * second[2] - 2 * second[1] == pytest.approx(float(square), abs=1e-12)


def test_threads_dtypes_and_layouts_change_no_message():
    of = made(2.0, 33)
    vectors = np.random.default_rng(4).normal(size=(200, 33)).astype(np.float32)
    expected = of.release(vectors, source=fd.testing.seeded(SEED), threads=1)
    for other in (vectors.astype(float), np.asfortranarray(vectors), vectors.tolist(), vectors[:, ::-1][:, ::-1]):
        assert np.array_equal(expected, of.release(other, source=fd.testing.seeded(SEED), threads=3))
    assert of.release(np.zeros((0, 33))).shape == (0, 2)
    assert of.release(vectors[0]).shape == (2,)
    assert of.release(vectors)[0, 0] != of.release(vectors)[0, 0]


def test_the_event_is_taken_by_shuffling():
    accountant = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(ShuffledEvent(randomizer=made(1.0, 100).event, population_size=100_000))

    assert accountant.epsilon(1e-6) < 0.1


def test_only_a_payment_for_replaced_vectors_is_taken():
    of = made(0.5, 2)
    with fd.budget(epsilon=1.0, neighboring_relation=NeighboringRelation.REPLACE_ONE) as ledger:
        of.release([[1.0, 2.0]])
        of.release([[1.0, 2.0]])
        with pytest.raises(BudgetExceeded):
            of.release([[1.0, 2.0]])
    assert ledger is not None
    with fd.budget(epsilon=1.0), pytest.raises(InvalidParameter, match="an open budget must be under REPLACE_ONE"):
        of.release([[1.0, 2.0]])


def raw(**more):
    return fd.VectorResponse(
        **{"weight": 1, "dimension": 2, "num_directions": 3, "size": 2, "l2_clip_norm": 1.0} | more
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: raw(weight=0), InvalidParameter, "weight must be"),
        (lambda: raw(weight=2**64 * 2 // 3 + 1), InvalidParameter, "weight must be"),
        (lambda: raw(dimension=0), InvalidParameter, "dimension must be"),
        (lambda: raw(num_directions=4097), InvalidParameter, "num_directions must be"),
        (lambda: raw(size=4), InvalidParameter, "size must be"),
        (lambda: raw(l2_clip_norm=0.0), InvalidParameter, "l2_clip_norm must be"),
        (lambda: made(0, 2), InvalidParameter, "epsilon must be"),
        (lambda: made(80.0, 2), CalibrationError, "less noise"),
        (lambda: made(1.0, 2, size=100), InvalidParameter, "size must be"),
        (lambda: raw().release([1.0, 2.0, 3.0]), InvalidArray, "vectors must have 2 coordinates each"),
        (lambda: raw().release(np.array([[1, 2]])), InvalidArrayType, "vectors must"),
        (lambda: raw().estimate_mean(np.zeros((3, 2))), InvalidArrayType, "messages must be uint64"),
        (lambda: raw().estimate_mean(np.zeros((0, 2), np.uint64)), InvalidArray, "messages must be at least one"),
        (lambda: raw().estimate_mean(np.zeros((1, 3), np.uint64)), InvalidArray, "of 2 words each"),
        (lambda: raw().estimate_mean(np.full((1, 2), 6, np.uint64)), InvalidArray, "code words from 0 to 5"),
        (
            lambda: raw(weight=2**63, size=3).estimate_mean(np.zeros((1, 2), np.uint64)),
            InvalidParameter,
            "to estimate anything",
        ),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
