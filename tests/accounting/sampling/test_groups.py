"""Groups of records: mixtures that hold the exact law of a sampled group."""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrodp.accounting import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    ZcdpEvent,
    gaussian_delta,
    grouped,
)
from ferrodp.accounting.curves import hockey_stick_delta
from ferrodp.accounting.sampling import group_privacy
from ferrodp.accounting.sampling.groups import binomial_weights
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from reference import hockey_stick


def test_a_group_of_one_is_a_record():
    event = PoissonSampledEvent(sampling_probability=0.1, event=GaussianEvent(noise_multiplier=1.0))
    assert grouped(event, 1) == event


@given(st.integers(1, 40), st.floats(0.0, 1.0, exclude_min=True))
@example(7, 1.0)
@example(7, math.nextafter(1.0, 0.0))
@example(20, 5e-324)
@example(300, 0.01)
def test_mass_only_moves_to_larger_numbers_of_records(size, probability):
    weights = binomial_weights(size, probability)

    q, total = Fraction(probability), sum(map(Fraction, weights))
    tail = given_so_far = Fraction(0)
    assert 1 - Fraction(1, 2**50) < total <= 1
    for j in range(size, -1, -1):
        tail += math.comb(size, j) * q**j * (1 - q) ** (size - j)
        given_so_far += Fraction(weights[j])
        assert given_so_far >= tail * total
        assert given_so_far - tail <= Fraction(size + 1, 2**52) * tail + Fraction(size + 1, 2**1074)


@pytest.mark.parametrize(("z", "q", "size"), [(2.0, 0.1, 2), (1.0, 0.01, 4), (5.0, 0.6, 8)])
@pytest.mark.parametrize("epsilon", [-0.3, 0.0, 0.5, 2.0])
def test_a_sampled_group_is_a_mixture(z, q, size, epsilon):
    """Against the density of the result when each of k records joins by its own coin."""
    event = grouped(PoissonSampledEvent(sampling_probability=q, event=GaussianEvent(noise_multiplier=z)), size)

    def bell(x, shift):
        return mp.exp(-(((x - shift) / mp.mpf(z)) ** 2) / 2) / (mp.mpf(z) * mp.sqrt(2 * mp.pi))

    def present(x):
        return mp.fsum(
            math.comb(size, j) * mp.mpf(q) ** j * (1 - mp.mpf(q)) ** (size - j) * bell(x, j) for j in range(size + 1)
        )

    points = [-25 * z, 0, 1, size, size + 25 * z]
    truths = [
        hockey_stick.from_densities(present, lambda x: bell(x, 0), epsilon, points),
        hockey_stick.from_densities(lambda x: bell(x, 0), present, epsilon, points),
    ]
    for truth, direction in zip(truths, ("remove", "add"), strict=True):
        bounds = hockey_stick_delta(event, epsilon, direction=direction)
        assert bounds.lower - 1e-15 <= truth <= bounds.upper + 1e-16  # 25 digits, and weights rounded at 2⁻⁵³
        assert bounds.upper - bounds.lower < 1e-12


def test_a_sampled_group_costs_far_less_than_the_general_bound():
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    single = hockey_stick_delta(step, 0.5).upper

    general = group_privacy(epsilon=0.5, delta=single, size=4)

    assert hockey_stick_delta(grouped(step, 4), general.epsilon).upper < 0.2 * general.delta


def test_plain_noise_counts_the_group_into_its_sensitivity():
    assert grouped(GaussianEvent(noise_multiplier=3.0), 3) == GaussianEvent(noise_multiplier=1.0)
    tenth = grouped(LaplaceEvent(noise_multiplier=1.0), 10)
    assert tenth == LaplaceEvent(noise_multiplier=math.nextafter(0.1, 0.0))  # 0.1 is more than a tenth
    assert grouped(DiscreteGaussianEvent(scale=2.0, l2_sensitivity=2), 3).l2_sensitivity == 6.0
    assert grouped(DiscreteLaplaceEvent(scale=2.0, l1_sensitivity=2), 3).l1_sensitivity == 6
    assert grouped(ZcdpEvent(rho=0.5), 2) == ZcdpEvent(rho=2.0)


def test_compositions_are_grouped_part_by_part():
    step = PoissonSampledEvent(sampling_probability=0.5, event=GaussianEvent(noise_multiplier=1.0))
    event = ComposedEvent(events=(SelfComposedEvent(event=step, count=7), LaplaceEvent(noise_multiplier=4.0)))

    result = grouped(event, 2)

    mixture = MixtureOfGaussiansEvent(noise_multiplier=1.0, shifts=(0.0, 1.0, 2.0), probabilities=(0.25, 0.5, 0.25))
    laplace = LaplaceEvent(noise_multiplier=2.0)
    assert result == ComposedEvent(events=(SelfComposedEvent(event=mixture, count=7), laplace))


def test_a_group_that_is_always_sampled_is_plain_noise():
    step = PoissonSampledEvent(sampling_probability=1.0, event=GaussianEvent(noise_multiplier=4.0))

    assert hockey_stick_delta(grouped(step, 4), 0.5).upper == gaussian_delta(epsilon=0.5, noise_multiplier=1.0)


def test_what_has_no_tight_group_event_is_refused():
    fixed = FixedSizeSampledEvent(population_size=10, sample_size=2, event=GaussianEvent(noise_multiplier=1.0))
    with pytest.raises(UnsupportedEventError, match="apply group_privacy"):
        grouped(fixed, 2)
    step = PoissonSampledEvent(sampling_probability=0.5, event=GaussianEvent(noise_multiplier=1.0))
    for bad in (0, -1, 1025):
        with pytest.raises(InvalidParameter, match=r"size must be an int (from 1 to|>= 1)"):
            grouped(step, bad)
