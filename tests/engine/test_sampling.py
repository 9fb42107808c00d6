"""Samples follow exactly the law that is accounted."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, poisson_sample, sampling, uniform_sample
from ferrodp.errors import InvalidParameter, InvalidType


class Tape:
    """Stands for the source: hands out the given words, and counts how many were read."""

    def __init__(self, *words):
        self.words, self.read = list(words), 0

    def bytes(self, n):
        count = n // 8
        self.read += count
        taken, self.words = self.words[:count], self.words[count:]
        assert len(taken) == count
        return np.array(taken, np.uint64).tobytes()


def test_each_client_joins_with_exactly_the_rate(monkeypatch):
    """The rate 0.3 is not a multiple of 2⁻⁶⁴ times a whole number: words at the threshold ask for another word."""
    rate = 0.3 * 2.0**-20
    scaled = Fraction(rate) * 2**64
    threshold, rest = divmod(scaled, 1)
    second = rest * 2**64
    assert rest, "this rate would not need a second word"
    assert second.denominator == 1, "the rate would need a third word"
    tape = Tape(0, threshold - 1, threshold, threshold + 1, 2**64 - 1, threshold, second - 1, second)
    monkeypatch.setattr(sampling, "DEFAULT_SOURCE", tape)

    members = poisson_sample(6, rate)

    # words below the threshold join; of the two ties, the first one's second word is below the rest, the other's not
    assert members.tolist() == [0, 1, 2]
    assert tape.read == 8


def test_a_rate_of_one_half_reads_one_word_each(monkeypatch):
    tape = Tape(2**63 - 1, 2**63, 2**64 - 1)
    monkeypatch.setattr(sampling, "DEFAULT_SOURCE", tape)

    assert poisson_sample(3, 0.5).tolist() == [0]
    assert tape.words == []


def test_samples_cross_the_block_size(monkeypatch):
    monkeypatch.setattr(sampling, "_CHUNK", 3)
    monkeypatch.setattr(sampling, "DEFAULT_SOURCE", Tape(0, 2**63, 0, 2**63, 0, 0, 0))

    assert poisson_sample(7, 0.5).tolist() == [0, 2, 4, 5, 6]


def test_sizes_of_poisson_samples_are_binomial():
    """10⁶ draws at rate 0.1: beyond 5.5 standard deviations with probability 4e-8."""
    count = len(poisson_sample(10**6, 0.1))

    assert abs(count - 10**5) <= 5.5 * math.sqrt(10**6 * 0.1 * 0.9)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_everybody_or_nobody(size):
    assert poisson_sample(size, 1.0).tolist() == list(range(size))
    assert uniform_sample(size, size).tolist() == list(range(size))
    assert uniform_sample(size, 0).tolist() == []
    assert poisson_sample(size, 1e-300).dtype == np.int64


def test_every_set_of_the_size_is_drawn():
    """Ten sets of two out of five, 400 draws: one of them is missed with probability 10·0.9⁴⁰⁰ < 5e-18."""
    seen = {tuple(uniform_sample(5, 2).tolist()) for _ in range(400)}

    assert len(seen) == 10
    assert all(a < b for a, b in seen)


def test_large_populations_with_small_samples():
    members = uniform_sample(10**6, 3)

    assert len(set(members.tolist())) == 3
    assert members.max() < 10**6


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: poisson_sample(-1, 0.5), InvalidParameter),
        (lambda: poisson_sample(2.0, 0.5), InvalidType),
        (lambda: poisson_sample(5, 0.0), InvalidParameter),
        (lambda: poisson_sample(5, math.nan), InvalidParameter),
        (lambda: poisson_sample(2**62, 0.5), (InvalidParameter, MemoryError)),
        (lambda: uniform_sample(3, 4), InvalidParameter),
        (lambda: uniform_sample(3, True), InvalidType),
        (lambda: uniform_sample(2**62, 1), (InvalidParameter, MemoryError)),
    ],
)
def test_other_samples_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_an_engine_samples_as_it_accounts():
    config = DPConfig(sampling_rate=0.25)

    assert len(DifferentialPrivacyEngine(config, sampling="uniform", population_size=10).sample()) == 2  # 2.5, to even
    assert DifferentialPrivacyEngine(config, population_size=10).sample().max(initial=0) < 10
    with pytest.raises(InvalidParameter, match="population_size"):
        DifferentialPrivacyEngine(config).sample()
    with pytest.raises(InvalidParameter, match="population_size"):
        DifferentialPrivacyEngine(config, sampling="uniform")


@pytest.mark.parametrize(("population", "rate", "expected"), [(1000, 1e-6, 1), (1, 0.1, 1), (7, 1.0, 7), (3, 0.99, 3)])
def test_a_uniform_sample_has_at_least_one_and_at_most_all(population, rate, expected):
    engine = DifferentialPrivacyEngine(
        DPConfig(sampling_rate=rate, noise_multiplier=20.0), sampling="uniform", population_size=population
    )

    assert engine.sample_size == expected == len(engine.sample())
