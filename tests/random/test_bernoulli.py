"""Coins with probability e^−γ, against decisions of a thousand bits and the algorithm of Canonne, Kamath, Steinke."""

import hashlib
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType
from reference import coins, keystream

SEED = hashlib.sha256(b"coins").digest()


def source():
    return fd.testing.seeded(SEED)


def expected(gamma, count):
    """Return the coins of the first call on the seed."""
    key = keystream.call_key(SEED, 0)
    return [coins.toss(key, index, gamma, 3) for index in range(count)]


@pytest.mark.parametrize(
    "gamma", [0, 1e-3, 0.25, 1.0, Fraction(1, 3), Decimal("2.5"), 1e-30, 1e30, 44, np.float32(0.1)]
)
def test_coins_are_those_of_the_reference(gamma):
    exact = Fraction(float(gamma)) if isinstance(gamma, np.float32) else Fraction(gamma)
    found = source().bernoulli_exp(gamma, 60)
    assert found.dtype == np.bool_
    assert found.tolist() == expected(exact, 60)
    if not isinstance(gamma, (Fraction, Decimal)):
        assert source().bernoulli_exp(np.full((3, 20), float(gamma))).ravel().tolist() == found.tolist()
    assert source().bernoulli_exp(gamma) == bool(found[0])


def test_coins_of_one_call_agree_whatever_the_threads_and_the_shape():
    flat = source().bernoulli_exp(0.7, 200_000, threads=1)
    assert (source().bernoulli_exp(0.7, (400, 500), threads=5).ravel() == flat).all()
    assert (source().bernoulli_exp(np.full(200_000, 0.7), threads=3) == flat).all()


@pytest.mark.parametrize("gamma", [1e-6, 0.01, Fraction(1, 7), 1.0, 3.0, 12.0])
def test_frequencies_are_exact(gamma):
    """A binomial test each; a false alarm once in 10^9 fresh seeds."""
    draws = 1 << 20
    heads = np.count_nonzero(source().bernoulli_exp(gamma, draws))
    assert stats.binomtest(heads, draws, float(mpmath.exp(-mpf(float(gamma))))).pvalue > 1e-9


def canonne_kamath_steinke(gamma, uniform):
    """Algorithm 1, from Bernoulli coins of rational probability; `uniform(n)` is uniform below n."""

    def bernoulli(p):
        return uniform(p.denominator) < p.numerator

    def at_most_one(gamma):
        k = 1
        while bernoulli(gamma / k):
            k += 1
        return k % 2 == 1

    while gamma > 1:
        if not at_most_one(Fraction(1)):
            return False
        gamma -= 1
    return at_most_one(gamma)


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(9, 4)])
def test_the_law_is_that_of_the_published_algorithm(gamma):
    """Two binomial samples compared; a false alarm once in 10^9 fresh seeds."""
    rng = np.random.default_rng(7)
    slow = sum(canonne_kamath_steinke(gamma, lambda n: int(rng.integers(n))) for _ in range(20_000))
    fast = int(np.count_nonzero(source().bernoulli_exp(gamma, 1 << 18)))
    table = [[slow, 20_000 - slow], [fast, (1 << 18) - fast]]
    assert stats.chi2_contingency(table).pvalue > 1e-9


@pytest.mark.parametrize(
    ("gamma", "size", "error"),
    [
        (-1.0, None, InvalidParameter),
        (float("nan"), 3, InvalidParameter),
        (float("inf"), 3, InvalidParameter),
        (Fraction(1, 2**70 + 1), 3, InvalidParameter),
        (10**400, 3, InvalidParameter),
        (True, None, InvalidType),
        ([0.5, -0.5], None, InvalidArray),
        ([0.5, float("nan")], None, InvalidArray),
        ([0.5, 0.5], 3, InvalidParameter),
        (np.array(["x"]), None, InvalidArray),
        (None, None, InvalidArray),
        (0.5, -1, InvalidParameter),
        (0.5, 2.0, InvalidType),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_drawn(gamma, size, error):
    seeded = source()
    with pytest.raises(error):
        seeded.bernoulli_exp(gamma, size)
    assert seeded._calls == 0


def test_empty_and_read_only_arrays():
    assert source().bernoulli_exp(np.empty((0, 3))).shape == (0, 3)
    gammas = np.zeros(5)
    gammas.flags.writeable = False
    assert source().bernoulli_exp(gammas[::2]).all()
    assert (gammas == 0).all()
