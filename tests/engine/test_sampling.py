"""Samples follow exactly the law that is accounted."""

import math

import numpy as np
import pytest

from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, poisson_sample, uniform_sample
from ferrodp.errors import InvalidParameter, InvalidType


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
        (lambda: poisson_sample(2**62 + 1, 0.5), (InvalidParameter, MemoryError)),
        (lambda: uniform_sample(3, 4), InvalidParameter),
        (lambda: uniform_sample(3, True), InvalidType),
        (lambda: uniform_sample(2**62 + 1, 1), (InvalidParameter, MemoryError)),
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
