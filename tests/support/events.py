"""Strategies for events of every kind."""

import math

from hypothesis import strategies as st

from ferrodp import accounting as ac

positive = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
non_negative = st.floats(min_value=0.0, allow_infinity=False)
probability = st.floats(min_value=0.0, max_value=1.0)
count = st.integers(1, 2**63 - 1)
any_count = st.integers(0, 2**63 - 1)
halves = st.integers(1, 8).map(lambda n: (1.0 / 2**n,) * 2**n)


def _sized(n, m, event):
    return ac.FixedSizeSampledEvent(population_size=max(n, m, 1), sample_size=min(n, m), event=event)


def _allocated(n, m, event):
    return ac.RandomAllocationEvent(num_steps=max(n, m, 1), num_selected=min(n, m), event=event)


def _mixture(z, probabilities, shift):
    shifts = tuple(shift * i for i in range(len(probabilities)))
    return ac.MixtureOfGaussiansEvent(noise_multiplier=z, shifts=shifts, probabilities=probabilities)


simple = st.one_of(
    st.builds(ac.GaussianEvent, noise_multiplier=positive),
    st.builds(ac.LaplaceEvent, noise_multiplier=positive),
    st.builds(ac.DiscreteGaussianEvent, scale=positive, l2_sensitivity=st.integers(1, 9), dimension=st.just(1)),
    st.builds(ac.DiscreteGaussianEvent, scale=positive, l2_sensitivity=positive, dimension=st.integers(2, 2**63 - 1)),
    st.builds(ac.DiscreteLaplaceEvent, scale=positive, l1_sensitivity=count),
    st.builds(ac.RandomizedResponseEvent, noise_parameter=probability, num_buckets=st.integers(2, 2**63 - 1)),
    st.builds(ac.ExponentialMechanismEvent, epsilon=non_negative),
    st.builds(
        ac.EpsilonDeltaEvent, epsilon=non_negative, delta=st.floats(min_value=0.0, max_value=1.0, exclude_max=True)
    ),
    st.builds(ac.ZcdpEvent, rho=non_negative),
    st.builds(ac.AdaptiveClipEvent, sum_noise_multiplier=positive, count_noise_multiplier=positive),
    st.builds(
        ac.TreeAggregationEvent,
        noise_multiplier=positive,
        num_steps=st.integers(0, 200),
        max_participation=count,
        min_separation=any_count,
    ),
    st.builds(ac.MatrixMechanismEvent, noise_multiplier=positive, sensitivity=positive),
    st.builds(_mixture, positive, halves, st.floats(min_value=0.0, max_value=1e300)),
    st.just(ac.NonPrivateEvent()),
)


def _around(inner):
    """Strategies for events that hold others."""
    shapes = st.one_of(non_negative, st.just(math.inf))
    means = st.floats(min_value=1.0, allow_infinity=False)
    sized = st.one_of(simple, st.builds(ac.PoissonSampledEvent, sampling_probability=probability, event=inner))
    return st.one_of(
        st.builds(ac.ComposedEvent, events=st.lists(inner, max_size=3)),
        st.builds(ac.SelfComposedEvent, event=inner, count=any_count),
        st.builds(
            ac.PoissonSampledEvent,
            sampling_probability=probability,
            event=inner,
            null_distance=st.just(math.inf) | st.floats(0.5, allow_infinity=False),
        ),
        st.builds(_sized, any_count, any_count, sized),
        st.builds(
            ac.TruncatedPoissonSampledEvent,
            population_size=count,
            sampling_probability=probability,
            truncated_batch_size=any_count,
            event=inner,
        ),
        st.builds(_allocated, any_count, any_count, inner),
        st.builds(ac.RepeatAndSelectEvent, event=inner, mean=means, shape=shapes),
    )


events = st.recursive(simple, _around, max_leaves=8)
