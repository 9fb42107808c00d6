"""No bound is below what enumeration finds, for every event, relation and accountant; and none is left out.

`enumerated_cells` has the registry. Divergences are those of finitely many results, and so never above the true ones.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from enumerated_cells import ACCOUNTANTS, CELLS, MECHANISMS, RELATIONS, SCHEMES, enumerated, shape_of

from ferrodp import accounting as ac
from ferrodp import events as event_kinds
from ferrodp.accounting.rdp.rules import failure_of
from ferrodp.errors import UnsupportedEventError
from reference import enumeration as enum

EPSILONS = {1: (0.0, 0.3, 1.0, 2.5), 2: (0.3, 1.5)}
"""Where δ is compared, by the number of releases."""
SEARCHED = {1: (0.3, 2.5)}
"""The same for the best of many runs, whose curves take longer."""
ORDERS = (1.5, 3.0, 12.0)
MOST_RESULTS = 5000
"""Of two releases; if there are more, one release is looked at alone."""
EXAMPLES = [
    (shape, letters)
    for shape in CELLS
    for letters in RELATIONS
    if any(letters in relations for relations in CELLS[shape].values()) and (letters == "RO" or "[0.5](" not in shape)
    if letters == "RO" or "[1](" not in shape
]
"""Shapes and relations; the distance to a missing record is told apart where records are replaced alone."""


@functools.cache
def truth(shape, letters):
    """Return the events of a shape, each with its largest hockey sticks, of one release and two, and divergences."""
    found = {}
    for event, laws in enumerated(shape, letters):
        sticks, divergences = found.setdefault(event, ({}, np.zeros(len(ORDERS))))
        size = 0
        for count, epsilons in (SEARCHED if shape.startswith("repeat_and_select") else EPSILONS).items():
            if count == 2 and size**2 > MOST_RESULTS:
                continue
            largest = sticks.setdefault(count, dict.fromkeys(epsilons, 0.0))
            for one, other in laws(count):
                size = one.size
                if one is other or np.array_equal(one, other):
                    continue
                for epsilon in epsilons:
                    largest[epsilon] = max(largest[epsilon], enum.hockey_stick(one, other, epsilon))
                if count == 1:
                    rates = [enum.renyi(one, other, order) for order in ORDERS]
                    np.maximum(divergences, rates, out=divergences)
    return [(event, *each) for event, each in found.items()]


@pytest.mark.parametrize(("shape", "letters"), EXAMPLES)
def test_no_bound_is_below_the_enumerated_truth(shape, letters):
    for name, relations in CELLS[shape].items():
        if letters not in relations.split():
            continue
        for event, sticks, divergences in truth(shape, letters):
            if name == "pure" and getattr(event, "shape", 0.0) == math.inf:
                assert not accepts(name, event, letters)  # there may be no run at all
                continue
            for count, largest in sticks.items():
                accountant = ACCOUNTANTS[name](neighboring_relation=RELATIONS[letters])
                accountant.compose(event, count)
                for epsilon, exact in largest.items():
                    assert exact <= accountant.delta(epsilon) + enum.ROUNDING, (name, event, count, epsilon)
                if name == "rdp" and count == 1 and not failure_of(event):
                    bounds = accountant.rdp(list(ORDERS))
                    assert (divergences <= bounds * (1 + 1e-9) + enum.ROUNDING).all(), (event, divergences, bounds)


@pytest.mark.parametrize("shape", [shape for shape in CELLS if shape.startswith("poisson_sampled(")])
def test_the_distance_to_a_missing_record_counts_where_records_are_replaced_alone(shape):
    """Elsewhere it changes no bound, so that the enumerations of the event without it are those of the others."""
    for name, relations in CELLS[shape].items():
        for letters in {"AO", "RS"} & {*relations.split()}:
            [(event, _, _), *_] = truth(shape, letters)
            found = set()
            for distance in (0.5, 1.0, math.inf):
                accountant = ACCOUNTANTS[name](neighboring_relation=RELATIONS[letters])
                accountant.compose(dataclasses.replace(event, null_distance=distance), 2)
                found.add(accountant.delta(1.0))
            assert len(found) == 1


def wrapped(event):
    """Return the event in every kind of event that holds one."""
    return [
        ac.PoissonSampledEvent(sampling_probability=0.3, event=event),
        ac.PoissonSampledEvent(sampling_probability=0.3, event=event, null_distance=0.5),
        ac.PoissonSampledEvent(sampling_probability=0.3, event=event, null_distance=1.0),
        ac.FixedSizeSampledEvent(population_size=6, sample_size=getattr(event, "population_size", 2), event=event),
        ac.TruncatedPoissonSampledEvent(
            population_size=3, sampling_probability=0.5, truncated_batch_size=1, event=event
        ),
        ac.RandomAllocationEvent(num_steps=3, num_selected=1, event=event),
        ac.SelfComposedEvent(event=event, count=2),
    ]


def examples():
    """Return an event of every kind that holds none, and those in all kinds that hold one, twice."""
    events = {
        ac.GaussianEvent(noise_multiplier=1.0),
        ac.LaplaceEvent(noise_multiplier=1.0),
        ac.DiscreteGaussianEvent(scale=1.0),
        ac.DiscreteGaussianEvent(scale=1.0, dimension=2),
        ac.DistributedDiscreteGaussianEvent(share_scale=0.5, num_shares=3, l2_sensitivity=1.0, dimension=1),
        ac.DistributedDiscreteGaussianEvent(share_scale=0.5, num_shares=3, l2_sensitivity=1.0),
        ac.SkellamEvent(variance=1.0, l2_sensitivity=1.0, dimension=1),
        ac.SkellamEvent(variance=1.0, l2_sensitivity=1.0),
        ac.ParallelEvent(events=(ac.DiscreteLaplaceEvent(scale=1.0), ac.DiscreteLaplaceEvent(scale=2.0))),
        ac.ShuffledEvent(randomizer=ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=3), population_size=4),
        ac.DiscreteLaplaceEvent(scale=1.0),
        ac.RandomizedResponseEvent(noise_parameter=0.5, num_buckets=3),
        ac.EpsilonDeltaEvent(epsilon=1.0, delta=0.01),
        ac.ExponentialMechanismEvent(epsilon=1.0),
        ac.ZcdpEvent(rho=0.5),
        ac.MixtureOfGaussiansEvent(noise_multiplier=1.0, shifts=(0.0, 1.0), probabilities=(0.5, 0.5)),
        ac.AdaptiveClipEvent(sum_noise_multiplier=1.0, count_noise_multiplier=1.0),
        ac.TreeAggregationEvent(noise_multiplier=1.0, num_steps=4),
        ac.MatrixMechanismEvent(noise_multiplier=1.0, sensitivity=1.0),
    }
    for _ in range(2):
        yield from events
        yield from (ac.RepeatAndSelectEvent(event=event, mean=2.0, shape=1.0) for event in events)
        events = {outer for event in events for outer in wrapped(event)}
    yield from events


def test_every_kind_of_event_is_among_the_examples():
    kinds = {event.kind for event in examples()}

    made_of_others = {"composed", "non_private"}
    known = {getattr(ac, name).kind for name in ac.__all__ if name.endswith("Event")} - {""}
    assert kinds == known - made_of_others


def accepts(name, event, letters):
    try:
        ACCOUNTANTS[name](neighboring_relation=RELATIONS[letters]).compose(event)
    except UnsupportedEventError:
        return False
    return True


def test_what_is_accepted_is_enumerated_and_what_is_enumerated_is_accepted():
    """An accountant that learns of a new event fails here until the event has an entry in the registry."""
    parts = {}
    for event in examples():
        try:
            simple = [part for part, _ in event_kinds.decompose(event)]
        except UnsupportedEventError:
            continue
        parts.update((shape_of(part), part) for part in simple)
    found = {
        (shape, name, letters)
        for shape, part in parts.items()
        for name in ACCOUNTANTS
        for letters in RELATIONS
        if accepts(name, part, letters)
    }
    registered = {
        (shape, name, letters)
        for shape, cells in CELLS.items()
        for name, relations in cells.items()
        for letters in relations.split()
    }

    assert sorted(found - registered) == []
    assert sorted(registered - found) == []


GAUSSIAN = ac.GaussianEvent(noise_multiplier=1.0)
LAPLACE = ac.LaplaceEvent(noise_multiplier=1.0)


def thinned(first, second):
    """Return the scheme that samples from a sample."""

    def outcomes(database):
        return [(w * v, drawn) for w, (sample,) in first(database) for v, drawn in second(sample)]

    return outcomes


def about(event):
    return ac.PoissonSampledEvent(sampling_probability=0.5, event=event)


@pytest.mark.parametrize(
    ("event", "scheme", "scale", "relations"),
    [
        (about(about(GAUSSIAN)), thinned(enum.poisson(0.5), enum.poisson(0.5)), 1.0, ("AO", "RS")),
        (about(about(LAPLACE)), thinned(enum.poisson(0.5), enum.poisson(0.5)), 1.0, ("AO", "RS")),
        (
            ac.FixedSizeSampledEvent(
                population_size=4,
                sample_size=2,
                event=ac.FixedSizeSampledEvent(population_size=2, sample_size=1, event=GAUSSIAN),
            ),
            thinned(enum.fixed_size(2), enum.fixed_size(1)),
            1.0,
            ("RO", "RS"),
        ),
        (about(ac.SelfComposedEvent(event=GAUSSIAN, count=4)), enum.poisson(0.5), 0.5, ("AO", "RS")),
        (
            about(ac.AdaptiveClipEvent(sum_noise_multiplier=1.0, count_noise_multiplier=1.0)),
            enum.poisson(0.5),
            2**-0.5,
            ("AO", "RS"),
        ),
        (
            about(ac.TreeAggregationEvent(noise_multiplier=1.0, num_steps=3)),  # a leaf and its parent
            enum.poisson(0.5),
            2**-0.5,
            ("AO", "RS"),
        ),
    ],
)
def test_events_that_become_others_cost_no_less_than_what_they_were(event, scheme, scale, relations):
    """Samples of samples are drawn twice; several Gaussian results about one sample are one, by its sufficient mean."""
    distribution = enum.DOUBLE_EXPONENTIAL if "LaplaceEvent" in repr(event) else enum.NORMAL
    for letters in relations:
        accountant = ac.PldAccountant(neighboring_relation=RELATIONS[letters])
        accountant.compose(event)
        bounds, values = {epsilon: accountant.delta(epsilon) for epsilon in (0.3, 1.5)}, (-1, 0, 1)
        law = distribution(scale=scale * enum.sensitivity(RELATIONS[letters].value, values))
        mechanism = enum.Additive(law, enum.possible_sums(values, 4), 40)
        for one, other in enum.neighbors(RELATIONS[letters].value, values, 4):
            if "FixedSize" in repr(event) and len(one) != 4:
                continue
            laws = [enum.release(scheme, mechanism, database) for database in (one, other)]
            for epsilon, bound in bounds.items():
                assert enum.hockey_stick(*laws, epsilon) <= bound + enum.ROUNDING


def test_contributions_of_both_signs_are_the_worst_of_a_stream_with_a_negative_gram_entry():
    """What the notes of `MatrixMechanismEvent` say of its sensitivity, for all contributions of -1, 0 and 1."""
    for below in (-0.6, 0.6):
        strategy = np.array([[1.0, 0.0, 0.0], [below, 1.0, 0.0], [0.2, below, 1.0]])
        gram = strategy.T @ strategy
        reached = max(np.linalg.norm(strategy @ g) for g in itertools.product((-1, 0, 1), repeat=3))
        with_ones = max(np.linalg.norm(strategy @ u) for u in itertools.product((0, 1), repeat=3))

        assert reached <= math.sqrt(np.abs(gram).sum()) + 1e-12
        assert (reached > with_ones + 0.1) == (gram.min() < 0)


def test_a_registry_entry_says_what_it_enumerates():
    for shape in CELLS:
        assert all(list(enumerated(shape, letters)) for letters in RELATIONS if (shape, letters) in EXAMPLES)
    assert math.isclose(enum.null_distance((-1, 0, 1)), 0.5)
    assert {*SCHEMES} & {*MECHANISMS} == set()
