"""What a paid event pays for."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrodp.accounting import (
    AdaptiveClipEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    TreeAggregationEvent,
    TruncatedPoissonSampledEvent,
)
from ferrodp.errors import InvalidParameter, TicketError
from ferrodp.events import decompose
from ferrodp.tickets import TicketState
from ferrodp.tickets.payment import releases
from support.tickets import Book, draw, ticket_for

GAUSSIAN = GaussianEvent(noise_multiplier=1.0)
LAPLACE = LaplaceEvent(noise_multiplier=2.0)


POISSON = PoissonSampledEvent(sampling_probability=0.01, event=GAUSSIAN)


@pytest.mark.parametrize(
    ("event", "inside"),
    [
        (ComposedEvent(events=(GAUSSIAN, LAPLACE, GAUSSIAN)), {GAUSSIAN: 2, LAPLACE: 1}),
        (SelfComposedEvent(event=ComposedEvent(events=(GAUSSIAN, LAPLACE)), count=2), {GAUSSIAN: 2, LAPLACE: 2}),
        (SelfComposedEvent(event=GAUSSIAN, count=0), {GAUSSIAN: 0}),
        (POISSON, {GAUSSIAN: 1}),
        (SelfComposedEvent(event=POISSON, count=3), {GAUSSIAN: 3}),
        (FixedSizeSampledEvent(population_size=10, sample_size=2, event=GAUSSIAN), {GAUSSIAN: 1}),
        (
            TruncatedPoissonSampledEvent(
                population_size=10, sampling_probability=0.1, truncated_batch_size=3, event=GAUSSIAN
            ),
            {GAUSSIAN: 1},
        ),
        (RandomAllocationEvent(num_steps=4, num_selected=1, event=GAUSSIAN), {GAUSSIAN: 4}),
        (
            AdaptiveClipEvent(sum_noise_multiplier=1.0, count_noise_multiplier=9.0),
            {GAUSSIAN: 1, GaussianEvent(noise_multiplier=9.0): 1},
        ),
        (ComposedEvent(events=()), {}),
    ],
)
def test_a_ticket_pays_for_the_releases_that_its_event_is_made_of_and_no_more(event, inside):
    ticket = ticket_for(event)
    for part, count in inside.items():
        for _ in range(count):
            draw(ticket.permit(part))
    for part in inside:
        with pytest.raises(TicketError):
            ticket.permit(part)


@pytest.mark.parametrize(
    ("paid", "asked"),
    [
        (GaussianEvent(noise_multiplier=1.0), GaussianEvent(noise_multiplier=1.5)),
        (LaplaceEvent(noise_multiplier=1.0), LaplaceEvent(noise_multiplier=1.5)),
        (EpsilonDeltaEvent(epsilon=1.0, delta=1e-6), EpsilonDeltaEvent(epsilon=0.5, delta=1e-7)),
    ],
)
def test_what_costs_less_is_paid_for_and_what_costs_more_is_not(paid, asked):
    assert ticket_for(paid).pays_for(asked)
    draw(ticket_for(paid).permit(asked))
    book = Book()
    ticket = ticket_for(asked, book)
    assert not ticket.pays_for(paid)
    with pytest.raises(InvalidParameter, match="ticket must"):
        ticket.permit(paid)
    assert ticket.state is TicketState.HELD
    assert book.calls == []


@pytest.mark.parametrize(
    ("paid", "asked"),
    [
        (GAUSSIAN, LaplaceEvent(noise_multiplier=1.0)),
        (GAUSSIAN, POISSON),
        (EpsilonDeltaEvent(epsilon=1.0), EpsilonDeltaEvent(epsilon=1.0, delta=1e-6)),
        (TreeAggregationEvent(noise_multiplier=1.0, num_steps=4), GAUSSIAN),
        (ComposedEvent(events=(GAUSSIAN, LAPLACE)), EpsilonDeltaEvent(epsilon=1e-3)),
        (ComposedEvent(events=()), GAUSSIAN),
    ],
)
def test_a_ticket_for_something_else_does_not_pay(paid, asked):
    ticket = ticket_for(paid)
    assert not ticket.pays_for(asked)
    with pytest.raises(InvalidParameter, match="ticket must"):
        ticket.permit(asked)
    assert ticket.state is TicketState.HELD


def test_a_dear_part_is_not_taken_where_a_cheap_one_does():
    cheap, dear, asked = (GaussianEvent(noise_multiplier=z) for z in (2.0, 1.0, 3.0))
    for events in [(cheap, dear), (dear, cheap)]:
        ticket = ticket_for(ComposedEvent(events=events))
        draw(ticket.permit(asked))
        draw(ticket.permit(dear))


def test_permits_for_several_releases_are_given_together_or_not_at_all():
    ticket = ticket_for(ComposedEvent(events=(GAUSSIAN, LAPLACE)))
    with pytest.raises(TicketError):
        ticket.permits([GAUSSIAN, GAUSSIAN])
    assert ticket.state is TicketState.HELD
    first, second = ticket.permits([LAPLACE, GAUSSIAN])
    draw(first)
    draw(second)


events = st.recursive(
    st.builds(GaussianEvent, noise_multiplier=st.sampled_from([1.0, 2.0]))
    | st.builds(LaplaceEvent, noise_multiplier=st.sampled_from([1.0, 2.0])),
    lambda inner: (
        st.builds(ComposedEvent, events=st.lists(inner, max_size=4).map(tuple))
        | st.builds(SelfComposedEvent, event=inner, count=st.integers(0, 5))
    ),
    max_leaves=8,
)


@given(events)
def test_a_ticket_pays_for_exactly_what_accountants_add_up(event):
    expected = Counter()
    for part, times in decompose(event):
        expected[part] += times
    assert +Counter(releases(event)) == +expected


multipliers = st.sampled_from([1.0, 2.0, 3.0, 4.0])


@given(st.lists(multipliers, min_size=1, max_size=4), st.lists(multipliers, min_size=1, max_size=4))
def test_several_releases_are_paid_for_whenever_some_assignment_pays(paid, asked):
    possible = any(
        all(part <= noise for part, noise in zip(chosen, asked, strict=True))
        for chosen in itertools.permutations(paid, len(asked))
    )
    ticket = ticket_for(ComposedEvent(events=tuple(GaussianEvent(noise_multiplier=z) for z in paid)))
    wanted = [GaussianEvent(noise_multiplier=z) for z in asked]
    if possible:
        permits = ticket.permits(wanted)
        for permit in reversed(permits):
            draw(permit)
    else:
        with pytest.raises((TicketError, InvalidParameter)):
            ticket.permits(wanted)
        assert ticket.state is TicketState.HELD
