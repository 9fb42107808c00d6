"""Disjoint groups: the worst of their releases, not the sum."""

import pytest

from ferrodp import accounting as ac
from ferrodp.accounting import NeighboringRelation, ParallelEvent
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.tickets import payment

GAUSSIAN = ac.GaussianEvent(noise_multiplier=2.0)
LAPLACE = ac.LaplaceEvent(noise_multiplier=3.0)
TRAINING = ac.SelfComposedEvent(event=ac.PoissonSampledEvent(sampling_probability=0.01, event=GAUSSIAN), count=100)


def answer(kind, *events, count=1):
    accountant = kind()
    for event in events:
        accountant.compose(event, count)
    return accountant.epsilon(1e-6)


@pytest.mark.parametrize("kind", [ac.PldAccountant, ac.RdpAccountant])
@pytest.mark.parametrize("order", [(GAUSSIAN, LAPLACE, TRAINING), (TRAINING, LAPLACE, GAUSSIAN)])
def test_one_release_about_groups_costs_what_the_worst_group_costs(kind, order):
    worst = max(answer(kind, event) for event in order)

    found = answer(kind, ParallelEvent(events=order))

    assert worst == pytest.approx(found, rel=1e-9 if kind is ac.PldAccountant else 0.1)
    assert found >= worst * (1 - 1e-12)


def test_each_measure_takes_the_largest_amount():
    events = ParallelEvent(events=[ac.LaplaceEvent(noise_multiplier=b) for b in (4.0, 2.0, 8.0)])
    pure, zcdp = ac.PureDpAccountant(), ac.ZcdpAccountant()
    pure.compose(events, 3)
    zcdp.compose(events, 3)

    assert pure.epsilon(0.0) == 1.5
    assert zcdp.rho == 3 * 0.125
    curves = ac.RdpAccountant()
    curves.compose(events, 3)
    alone = ac.RdpAccountant()
    alone.compose(ac.LaplaceEvent(noise_multiplier=2.0), 3)
    assert curves.rdp([2.0, 8.0]).tolist() == pytest.approx(alone.rdp([2.0, 8.0]).tolist(), rel=1e-14)


def test_the_largest_delta_counts_beside_the_largest_epsilon():
    events = ParallelEvent(
        events=[ac.EpsilonDeltaEvent(epsilon=1.0, delta=1e-9), ac.EpsilonDeltaEvent(epsilon=0.5, delta=1e-7)]
    )
    pure = ac.PureDpAccountant()
    pure.compose(events)

    assert pure.epsilon(1e-7) == 1.0
    assert pure.epsilon(9e-8) == float("inf")


@pytest.mark.parametrize("noise", [(2.0, 3.0), (3.0, 2.0)])
def test_groups_with_one_worst_pair_compose_like_it(noise):
    events = ParallelEvent(events=[ac.GaussianEvent(noise_multiplier=z) for z in noise])
    laplace = ParallelEvent(events=[ac.LaplaceEvent(noise_multiplier=z) for z in noise])

    for count in (1, 5):
        assert answer(ac.PldAccountant, events, count=count) >= answer(ac.PldAccountant, GAUSSIAN, count=count)
        assert answer(ac.PldAccountant, events, count=count) == pytest.approx(
            answer(ac.PldAccountant, GAUSSIAN, count=count), rel=2e-4
        )
        worst = answer(ac.PldAccountant, ac.LaplaceEvent(noise_multiplier=2.0), count=count)
        assert worst <= answer(ac.PldAccountant, laplace, count=count) <= worst * 1.001


def test_several_releases_cost_no_less_than_any_choice_of_groups():
    events = ParallelEvent(events=[GAUSSIAN, LAPLACE])
    found = answer(ac.PldAccountant, events, count=2)

    for chosen in ((GAUSSIAN, GAUSSIAN), (GAUSSIAN, LAPLACE), (LAPLACE, LAPLACE)):
        assert answer(ac.PldAccountant, *chosen) <= found
    assert found < answer(ac.PldAccountant, GAUSSIAN, LAPLACE, GAUSSIAN, LAPLACE)


@pytest.mark.parametrize("relation", [NeighboringRelation.REPLACE_ONE, NeighboringRelation.REPLACE_SPECIAL])
@pytest.mark.parametrize("kind", [ac.PldAccountant, ac.RdpAccountant, ac.ZcdpAccountant, ac.PureDpAccountant])
def test_a_unit_that_is_replaced_may_change_its_group(kind, relation):
    with pytest.raises(UnsupportedEventError, match="may change its group"):
        kind(neighboring_relation=relation).compose(ParallelEvent(events=[LAPLACE, LAPLACE]))


def test_a_sample_of_groups_is_refused_and_groups_of_samples_are_not():
    sampled = ac.PoissonSampledEvent(sampling_probability=0.1, event=ParallelEvent(events=[LAPLACE, GAUSSIAN]))
    with pytest.raises(UnsupportedEventError):
        ac.PldAccountant().compose(sampled)

    ac.PldAccountant().compose(ParallelEvent(events=[TRAINING, LAPLACE]))


def test_one_unprotected_group_protects_nobody():
    accountant = ac.PldAccountant()
    accountant.compose(ParallelEvent(events=[LAPLACE, ac.NonPrivateEvent()]))

    assert accountant.epsilon(1e-6) == float("inf")


def test_a_ticket_pays_for_one_release_about_each_group():
    event = ac.SelfComposedEvent(event=ParallelEvent(events=[LAPLACE, LAPLACE, GAUSSIAN]), count=2)

    assert payment.releases(event) == {LAPLACE: 4, GAUSSIAN: 2}


def test_groups_are_events_and_there_is_one_at_least():
    with pytest.raises(InvalidParameter, match="at least one"):
        ParallelEvent(events=())
    with pytest.raises(InvalidType, match="privacy event"):
        ParallelEvent(events=(LAPLACE, 1.0))
    with pytest.raises(InvalidType, match="tuple or list"):
        ParallelEvent(events=LAPLACE)
