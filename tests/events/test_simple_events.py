"""Taking events apart never makes them cheaper, and by no more than a float dearer."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp import accounting as ac
from ferrodp._numerics.rounding import sqrt_down, sqrt_up
from ferrodp.accounting import ComposedEvent, GaussianEvent, NonPrivateEvent, PoissonSampledEvent, SelfComposedEvent
from ferrodp.errors import InvalidType
from ferrodp.events import decompose
from ferrodp.events.decomposition import parts_of
from support.events import events, positive

LAPLACE = ac.LaplaceEvent(noise_multiplier=1.0)
NOTHING = ComposedEvent(events=())


def gaussian(z):
    return GaussianEvent(noise_multiplier=z)


def poisson(q, event):
    return PoissonSampledEvent(sampling_probability=q, event=event)


def parts(event, count=1):
    return list(decompose(event, count))


def is_largest_root(root, squared):
    """Whether `root` is the largest float whose square is at most `squared`."""
    return Fraction(root) ** 2 <= squared < Fraction(math.nextafter(root, math.inf)) ** 2


def test_counts_multiply_however_deep():
    inner = GaussianEvent(noise_multiplier=2.0)
    event = SelfComposedEvent(
        event=ComposedEvent(events=[SelfComposedEvent(event=inner, count=3), NonPrivateEvent()]), count=2**62
    )

    assert [(inner, 15 * 2**62), (NonPrivateEvent(), 5 * 2**62)] == list(decompose(event, 5))


def test_deep_nesting_is_no_recursion():
    event = GaussianEvent(noise_multiplier=1.0)
    for _ in range(10_000):
        event = SelfComposedEvent(event=event, count=1)

    assert [(GaussianEvent(noise_multiplier=1.0), 1)] == list(decompose(event))


def test_the_order_is_kept():
    a, b, c = gaussian(1.0), LAPLACE, NonPrivateEvent()

    event = ComposedEvent(events=(a, SelfComposedEvent(event=ComposedEvent(events=(b, c)), count=2), a))

    assert [(a, 3), (b, 6), (c, 6), (a, 3)] == parts(event, 3)


@given(events)
def test_what_is_left_is_simple(event):
    left = parts(event)
    for part, times in left:
        assert times >= 0
        assert [(part, 1)] == parts(part)
        assert not isinstance(
            part,
            ac.ComposedEvent | ac.SelfComposedEvent | ac.AdaptiveClipEvent | ac.MatrixMechanismEvent,
        )


@given(positive, positive)
def test_adaptive_clipping_is_one_gaussian(z, count):
    [(part, times)] = parts(ac.AdaptiveClipEvent(sum_noise_multiplier=z, count_noise_multiplier=count))

    squared = 1 / (1 / Fraction(z) ** 2 + 1 / Fraction(count) ** 2)
    assert times == 1
    if isinstance(part, NonPrivateEvent):
        assert squared < Fraction(math.ulp(0.0)) ** 2
    else:
        assert is_largest_root(part.noise_multiplier, squared)


def test_a_split_clip_is_never_dearer_than_what_was_split():
    for z in (0.3, 1.0, 1.1, 7.0):
        event = ac.AdaptiveClipEvent.split(noise_multiplier=z, count_noise_multiplier=10.0)

        [(part, _)] = parts(event)
        assert z <= part.noise_multiplier <= z * (1 + 1e-15)


def test_a_tree_is_one_gaussian():
    event = ac.TreeAggregationEvent(noise_multiplier=3.0, num_steps=24, max_participation=8, min_separation=2)

    [(part, _)] = parts(event)
    assert is_largest_root(part.noise_multiplier, Fraction(9, 88))
    assert parts(ac.TreeAggregationEvent(noise_multiplier=3.0, num_steps=0)) == []


def test_a_matrix_mechanism_is_one_gaussian():
    [(part, _)] = parts(ac.MatrixMechanismEvent(noise_multiplier=1.0, sensitivity=3.0))

    assert math.nextafter(1 / 3, 0.0) <= part.noise_multiplier <= 1 / 3
    assert Fraction(part.noise_multiplier) <= Fraction(1, 3)


def test_noise_below_all_floats_is_no_protection():
    event = ac.MatrixMechanismEvent(noise_multiplier=1e-300, sensitivity=1e300)

    assert [(NonPrivateEvent(), 2)] == parts(event, 2)


@pytest.mark.parametrize("inner", [gaussian(1.0), NonPrivateEvent(), ComposedEvent(events=(gaussian(1.0), LAPLACE))])
def test_samples_of_nothing_and_of_everything(inner):
    for nothing in (
        poisson(0.0, inner),
        ac.FixedSizeSampledEvent(population_size=5, sample_size=0, event=inner),
        ac.TruncatedPoissonSampledEvent(
            population_size=5, sampling_probability=0.0, truncated_batch_size=5, event=inner
        ),
        ac.TruncatedPoissonSampledEvent(
            population_size=5, sampling_probability=0.5, truncated_batch_size=0, event=inner
        ),
        ac.RandomAllocationEvent(num_steps=5, num_selected=0, event=inner),
    ):
        assert parts(nothing, 3) == []
    for everything in (
        poisson(1.0, inner),
        ac.TruncatedPoissonSampledEvent(
            population_size=5, sampling_probability=1.0, truncated_batch_size=6, event=inner
        ),
    ):
        assert parts(inner, 3) == parts(everything, 3)
    every_step = ac.RandomAllocationEvent(num_steps=5, num_selected=5, event=inner)
    assert parts(inner, 15) == parts(every_step, 3)


def test_a_poisson_sample_of_a_poisson_sample_is_one():
    [(part, times)] = parts(poisson(0.1, poisson(0.3, SelfComposedEvent(event=poisson(0.7, LAPLACE), count=1))), 4)

    exact = Fraction(0.1) * Fraction(0.3) * Fraction(0.7)
    assert (part.event, times) == (LAPLACE, 4)
    assert Fraction(math.nextafter(part.sampling_probability, 0.0)) < exact <= Fraction(part.sampling_probability)


def test_a_sample_of_a_sample_says_no_more_of_an_absent_record_than_either():
    inner = ac.PoissonSampledEvent(sampling_probability=0.5, event=LAPLACE, null_distance=1.0)

    for distance in (0.5, 1.0, 2.0, math.inf):
        [(part, _)] = parts(ac.PoissonSampledEvent(sampling_probability=0.5, event=inner, null_distance=distance))
        assert part.null_distance == max(distance, 1.0)


def test_a_sample_of_a_sample_of_fixed_size_is_one():
    inner = ac.FixedSizeSampledEvent(population_size=50, sample_size=7, event=LAPLACE)

    [(part, _)] = parts(ac.FixedSizeSampledEvent(population_size=1000, sample_size=50, event=inner))
    assert part == ac.FixedSizeSampledEvent(population_size=1000, sample_size=7, event=LAPLACE)


def test_a_cut_that_never_happens_is_none():
    def truncated(size):
        return ac.TruncatedPoissonSampledEvent(
            population_size=5, sampling_probability=0.5, truncated_batch_size=size, event=LAPLACE
        )

    assert [(poisson(0.5, LAPLACE), 1)] == parts(truncated(6)) == parts(truncated(7))
    assert [(truncated(5), 1)] == parts(truncated(5))  # a sixth record may be added


def test_a_sample_of_all_records_is_none_without_one_that_is_added():
    everybody = ac.FixedSizeSampledEvent(population_size=5, sample_size=5, event=LAPLACE)

    assert [(everybody, 1)] == parts(everybody)


@pytest.mark.parametrize(
    "about",
    [
        lambda event: poisson(0.5, event),
        lambda event: ac.FixedSizeSampledEvent(population_size=9, sample_size=3, event=event),
        lambda event: ac.RandomAllocationEvent(num_steps=9, num_selected=3, event=event),
        lambda event: ac.TruncatedPoissonSampledEvent(
            population_size=9, sampling_probability=0.5, truncated_batch_size=3, event=event
        ),
    ],
)
def test_several_releases_about_one_sample(about):
    """Gaussian ones are one with less noise; others stay together, for they are not the same as a sample for each."""
    several = ComposedEvent(events=(gaussian(3.0), SelfComposedEvent(event=gaussian(6.0), count=12)))

    assert [(about(gaussian(1.5)), 2)] == parts(about(several), 2)  # 1/9 + 12/36 = 1/1.5²
    assert parts(about(NOTHING)) == []
    assert [(about(NonPrivateEvent()), 1)] == parts(about(ComposedEvent(events=(LAPLACE, NonPrivateEvent()))))
    assert [(about(LAPLACE), 1)] == parts(about(SelfComposedEvent(event=ComposedEvent(events=(LAPLACE,)), count=1)))
    for kept in (
        SelfComposedEvent(event=LAPLACE, count=2),
        ComposedEvent(events=(gaussian(1.0), LAPLACE)),
        SelfComposedEvent(event=poisson(0.5, gaussian(1.0)), count=2),
    ):
        assert [(about(kept), 3)] == parts(about(kept), 3)
    nested = ComposedEvent(events=(LAPLACE, SelfComposedEvent(event=ComposedEvent(events=(LAPLACE,)), count=1)))
    assert [(about(SelfComposedEvent(event=LAPLACE, count=2)), 1)] == parts(about(nested))


def test_repetitions():
    def repeated(event):
        return ac.RepeatAndSelectEvent(event=event, mean=2.0, shape=1.0)

    once = ac.RepeatAndSelectEvent(event=LAPLACE, mean=1.0, shape=2.0)
    poisson_law = ac.RepeatAndSelectEvent(event=LAPLACE, mean=1.0, shape=math.inf)

    assert parts(once) == [(LAPLACE, 1)]
    assert [(poisson_law, 1)] == parts(poisson_law)
    mixed = ComposedEvent(events=(LAPLACE, poisson(1.0, gaussian(1.0)), SelfComposedEvent(event=LAPLACE, count=2)))
    tidy = ComposedEvent(events=(SelfComposedEvent(event=LAPLACE, count=3), gaussian(1.0)))
    assert [(repeated(tidy), 1)] == parts(repeated(mixed))
    assert [(repeated(LAPLACE), 1)] == parts(repeated(ComposedEvent(events=(LAPLACE,))))
    assert parts(repeated(NOTHING)) == []
    beyond = SelfComposedEvent(event=SelfComposedEvent(event=LAPLACE, count=2**62), count=4)
    assert [(repeated(beyond), 1)] == parts(repeated(beyond))


def test_mixtures_of_one_shift():
    def mixture(shifts, probabilities):
        return ac.MixtureOfGaussiansEvent(noise_multiplier=3.0, shifts=shifts, probabilities=probabilities)

    assert parts(mixture((0.0, 5.0), (1.0, 0.0))) == []
    assert [(gaussian(1.5), 1)] == parts(mixture((2.0, 2.0), (0.5, 0.5)))
    assert [(mixture((0.0, 2.0), (0.5, 0.5)), 1)] == parts(mixture((0.0, 2.0), (0.5, 0.5)))


def test_only_events_are_taken_apart():
    with pytest.raises(InvalidType, match="event must be a privacy event, got str"):
        parts("gaussian")


@given(st.fractions(min_value=0, max_value=10**40) | positive.map(Fraction) | positive.map(lambda x: Fraction(x) ** 2))
def test_roots_are_rounded_to_the_side_that_is_asked_for(value):
    down, up = sqrt_down(value), sqrt_up(value)

    assert Fraction(down) ** 2 <= value <= Fraction(up) ** 2
    assert up in (down, math.nextafter(down, math.inf))
    assert (up == down) == (Fraction(down) ** 2 == value)


def test_roots_beyond_floats():
    assert sqrt_up(Fraction(10) ** 700) == math.inf
    assert sqrt_down(Fraction(10) ** 700) == math.nextafter(math.inf, 0.0)
    assert sqrt_down(Fraction(1, 10**700)) == 0.0
    assert sqrt_up(Fraction(1, 10**700)) == math.ulp(0.0)


@given(events)
def test_simple_events_are_told_at_once(event):
    assert parts_of(event) == tuple(decompose(event))
    wrapped = SelfComposedEvent(event=event, count=2)
    assert parts_of(wrapped) == tuple(decompose(wrapped))


def test_only_events_have_parts():
    with pytest.raises(InvalidType, match="event must be"):
        parts_of(1.0)
