"""Random subsets have exactly the law that is accounted.

The reference below reads the same words as the native code and decides by the definitions, in fractions.
"""

import hashlib
import math
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.random import fixed_size_sample, poisson_sample, random_allocation
from reference import keystream
from reference.samples import floyd, poisson_by_gaps, uniform_integers

SEED = bytes(range(32))
ALPHA = 1e-9  # of each p-value: three of them


def seeded(name=""):
    return fd.testing.seeded(hashlib.sha256(name.encode()).digest() if name else SEED)


@pytest.mark.parametrize("probability", [0.03, 0.01, 2.0**-6, 1e-3])
def test_gaps_are_geometric_by_inversion(probability):
    key = keystream.call_key(SEED, 0)

    members = poisson_sample(300, probability, source=seeded()).tolist()

    assert members == poisson_by_gaps(key, 300, Fraction(probability))


@pytest.mark.parametrize("probability", [1 / 32, 0.1, 0.5, math.nextafter(1.0, 0.0)])
def test_a_record_joins_if_its_word_is_below_the_probability(probability):
    key = keystream.call_key(SEED, 0)

    members = poisson_sample(200, probability, source=seeded()).tolist()

    threshold = Fraction(probability) * 2**64
    assert members == [i for i in range(200) if keystream.first_word(key, i, 64) < threshold]


def test_a_word_at_the_threshold_does_not_join():
    """The probability is the first word itself: a number with 53 digits that the word, cut to them, equals."""
    for call in range(2000):
        word = keystream.first_word(keystream.call_key(SEED, call), 0, 64)
        if word % 2048 == 0 and word >= 2**60:
            break
    else:
        pytest.fail(
            "no word with 53 digits among 2000"
        )  # (1 - 1/2048)^2000 = 0.38: chosen by the seed, once and for all
    source = seeded()
    for _ in range(call):
        source.bytes(1)

    assert poisson_sample(1, word / 2**64, source=source).tolist() == []


def test_numbers_of_members_are_binomial():
    """2000 samples of 1000 records at 1/100; chi-square on counts 0 to 25, at 1e-9."""
    counts = [len(poisson_sample(1000, 0.01, source=seeded(f"size {i}"))) for i in range(2000)]

    law = stats.binom(1000, 0.01)
    inner = range(4, 18)
    observed = [sum(c <= 3 for c in counts), *(counts.count(c) for c in inner), sum(c >= 18 for c in counts)]
    expected = [law.cdf(3), *(law.pmf(c) for c in inner), law.sf(17)]
    assert stats.chisquare(observed, np.array(expected) * 2000).pvalue > ALPHA


@pytest.mark.parametrize(("population", "size"), [(20, 3), (5, 2), (100, 40), (10_000, 20)])
def test_a_sample_of_fixed_size_is_floyds(population, size):
    assert fixed_size_sample(population, size, source=seeded()).tolist() == floyd(
        keystream.call_key(SEED, 0), population, size
    )


def test_more_than_half_leaves_out_a_sample():
    left_out = fixed_size_sample(50, 7, source=seeded()).tolist()

    assert fixed_size_sample(50, 43, source=seeded()).tolist() == sorted(set(range(50)) - set(left_out))


def test_uneven_words_are_drawn_again():
    """Below 2⁶²: for a bound of 3·2⁶⁰ a quarter of 2⁶⁴ mod bound is uneven, so some of 40 draws are rejected."""
    population = 3 * 2**60
    key = keystream.call_key(SEED, 0)
    size = 40
    rejected = sum(
        keystream.first_word(key, i, 64) * (population - size + i + 1) % 2**64 < 2**64 % (population - size + i + 1)
        for i in range(size)
    )
    assert rejected > 3

    members = fixed_size_sample(population, size, source=seeded()).tolist()

    draws = uniform_integers(key)
    assert members == sorted(next(draws)(last + 1) for last in range(population - size, population))


def test_every_set_is_equally_likely():
    """All sets of 2 out of 5, 5000 samples; chi-square at 1e-9."""
    seen = Counter(tuple(fixed_size_sample(5, 2, source=seeded(f"set {i}")).tolist()) for i in range(5000))

    assert stats.chisquare([seen[pair] for pair in combinations(range(5), 2)]).pvalue > ALPHA


@pytest.mark.parametrize(("population", "steps", "selected"), [(30, 7, 1), (20, 5, 3), (4, 3, 3), (0, 4, 2), (9, 1, 1)])
def test_an_allocation_is_floyds_for_each_record(population, steps, selected):
    draws = uniform_integers(keystream.call_key(SEED, 0))

    batches = random_allocation(population, steps, selected, source=seeded())

    expected = [[] for _ in range(steps)]
    for record in range(population):
        chosen = []
        for last in range(steps - selected, steps):
            drawn = next(draws)(last + 1)
            chosen.append(last if drawn in chosen else drawn)
        for step in chosen:
            expected[step].append(record)
    assert [batch.tolist() for batch in batches] == expected


def test_pairs_of_steps_are_equally_likely():
    """10 pairs of steps out of 5, 5000 records; chi-square at 1e-9."""
    batches = random_allocation(5000, 5, 2, source=seeded("pairs"))

    steps_of = [[] for _ in range(5000)]
    for step, batch in enumerate(batches):
        for record in batch.tolist():
            steps_of[record].append(step)
    seen = Counter(map(tuple, steps_of))
    assert stats.chisquare([seen[pair] for pair in combinations(range(5), 2)]).pvalue > ALPHA


def test_fresh_samples_differ():
    """Two samples of 100 out of 10⁶ agree with probability below 1e-300."""
    assert fixed_size_sample(10**6, 100).tolist() != fixed_size_sample(10**6, 100).tolist()
    assert poisson_sample(10**6, 1e-3).tolist() != poisson_sample(10**6, 1e-3).tolist()


@pytest.mark.parametrize("size", [0, 1, 5])
def test_everybody_and_nobody(size):
    everybody, nobody = list(range(size)), []

    assert poisson_sample(size, 1).tolist() == everybody
    assert poisson_sample(size, 0).tolist() == nobody
    assert poisson_sample(size, 5e-324).tolist() == nobody
    assert fixed_size_sample(size, size).tolist() == everybody
    assert fixed_size_sample(size, 0).tolist() == nobody
    assert poisson_sample(size, 0.5).dtype == fixed_size_sample(size, 0).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "error", "names"),
    [
        (lambda: poisson_sample(-1, 0.5), InvalidParameter, "population_size"),
        (lambda: poisson_sample(2.0, 0.5), InvalidType, "population_size"),
        (lambda: poisson_sample(2**62 + 1, 0.5), InvalidParameter, "population_size"),
        (lambda: poisson_sample(2**62, 0.5), (InvalidParameter, MemoryError), "population_size"),
        (lambda: poisson_sample(5, 1.5), InvalidParameter, "sampling_probability"),
        (lambda: poisson_sample(5, math.nan), InvalidParameter, "sampling_probability"),
        (lambda: poisson_sample(5, 0.5, source=3), InvalidType, "source"),
        (lambda: fixed_size_sample(3, 4), InvalidParameter, "sample_size"),
        (lambda: fixed_size_sample(3, True), InvalidType, "sample_size"),
        (lambda: fixed_size_sample(2**62, 2**61), (InvalidParameter, MemoryError), "sample_size"),
        (lambda: random_allocation(3, 0), InvalidParameter, "num_steps"),
        (lambda: random_allocation(3, 2, 3), InvalidParameter, "num_selected"),
        (lambda: random_allocation(2**62, 2, 2), InvalidParameter, "population_size"),
        (lambda: random_allocation(2**50, 2), MemoryError, "population_size"),
    ],
)
def test_other_samples_are_refused(call, error, names):
    with pytest.raises(error, match=names):
        call()
