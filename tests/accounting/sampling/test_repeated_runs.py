"""Runs that are compositions, or may fail, repeated: never more loss than is charged, by exact finite laws."""

import math

import mpmath as mp
import numpy as np
import pytest

from ferrodp.accounting import (
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    NonPrivateEvent,
    PoissonSampledEvent,
    PureDpAccountant,
    RandomizedResponseEvent,
    RdpAccountant,
    RepeatAndSelectEvent,
    SelfComposedEvent,
    rdp,
)
from ferrodp.accounting._laws.costs import pure
from ferrodp.accounting.rdp.rules import failure_of
from ferrodp.accounting.sampling import RepeatAndSelectCurve
from reference import repeat_and_select as reference

REPLACED = NeighboringRelation.REPLACE_ONE
ORDERS = np.array([1.5, 3.0, 20.0, math.inf])
COIN = RandomizedResponseEvent(noise_parameter=0.5, num_buckets=2)
DIE = RandomizedResponseEvent(noise_parameter=0.25, num_buckets=3)
STATED = EpsilonDeltaEvent(epsilon=0.75, delta=0.015625)


def answers(event, truth):
    """Return the law of an answer."""
    p, k = mp.mpf(event.noise_parameter), event.num_buckets
    return [p / k + (1 - p) * (answer == truth) for answer in range(k)]


def together(*laws):
    """Return the law of independent outcomes."""
    product = [mp.mpf(1)]
    for law in laws:
        product = [a * b for a in product for b in law]
    return product


def stated(event):
    """Return the two laws that dominate whatever is (ε, δ)-private: Kairouz, Oh, Viswanath 2015, Theorem 3.3."""
    e, d = mp.exp(mp.mpf(event.epsilon)), mp.mpf(event.delta)
    rest = (1 - d) / (1 + e)
    law = [d, rest * e, rest, mp.mpf(0)]
    return law, law[::-1]


def shuffled(laws, seed):
    """Return both laws with their outcomes in another order: which one is the best is for the selection to say."""
    places = np.random.default_rng(seed).permutation(len(laws[0]))
    return [[law[place] for place in places] for law in laws]


@pytest.mark.parametrize("shape", [0.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("mean", [2.5, 30.0])
def test_the_exact_loss_of_repeated_compositions_is_below_the_curve(mean, shape):
    """Two coins and a die a run; the result is ranked in five orders of the twelve outcomes."""
    run = ComposedEvent(events=(SelfComposedEvent(event=COIN, count=2), DIE))
    curve = rdp.curve_of(RepeatAndSelectEvent(event=run, mean=mean, shape=shape), REPLACED)(ORDERS)
    with mp.workdps(40):
        laws = [together(answers(COIN, t), answers(COIN, t), answers(DIE, t)) for t in (0, 1)]
        for seed in range(5):
            best = [reference.best_of(law, mean, shape) for law in shuffled(laws, seed)]
            for order, bound in zip(ORDERS.tolist(), curve.tolist(), strict=True):
                assert reference.divergence(*best, mp.mpf(order)) <= mp.mpf(bound)
    if shape < math.inf:
        cost = pure(RepeatAndSelectEvent(event=run, mean=mean, shape=shape), REPLACED)
        assert curve[-1] <= float(cost.amount) * (1 + 1e-9)


@pytest.mark.parametrize("shape", [0.0, 1.0, 3.0])
def test_the_largest_loss_of_repeated_compositions_is_at_most_the_pure_cost(shape):
    run = ComposedEvent(events=(COIN, COIN, DIE))
    accountant = PureDpAccountant(neighboring_relation=REPLACED)
    accountant.compose(RepeatAndSelectEvent(event=run, mean=30.0, shape=shape))
    with mp.workdps(40):
        laws = [together(answers(COIN, t), answers(COIN, t), answers(DIE, t)) for t in (0, 1)]
        losses = []
        for seed in range(5):
            best = [reference.best_of(law, 30.0, shape) for law in shuffled(laws, seed)]
            losses += [reference.divergence(*pair, mp.inf) for pair in (best, best[::-1])]

    one = 2 * math.log(3.0) + math.log(10.0)
    assert max(losses) <= accountant.epsilon(0.0)
    assert max(losses) > one
    assert accountant.epsilon(0.0) == pytest.approx((2 + shape) * one, rel=1e-15)


@pytest.mark.parametrize(
    ("accountant", "shape"),
    [(each, shape) for each in (RdpAccountant, PureDpAccountant) for shape in (0.0, 1.0, 3.0)]
    + [(RdpAccountant, math.inf)],
)
def test_failures_are_charged_once_for_each_run(accountant, shape):
    """At the worst laws that a stated (ε, δ) allows, with an answer beside it, the exact δ is below ours."""
    event = RepeatAndSelectEvent(event=ComposedEvent(events=(STATED, COIN)), mean=3.0, shape=shape)
    told = accountant(neighboring_relation=REPLACED)
    told.compose(event)
    exact = []
    with mp.workdps(40):
        p, q = stated(STATED)
        laws = [together(p, answers(COIN, 0)), together(q, answers(COIN, 1))]
        for seed in range(6):
            best = [reference.best_of(law, 3.0, shape) for law in shuffled(laws, seed)]
            for one, other in (best, best[::-1]):
                exact.append([sum(max(a - mp.exp(e) * b, 0) for a, b in zip(one, other, strict=True)) for e in (2, 6)])
    for index, epsilon in enumerate((2.0, 6.0)):
        assert max(row[index] for row in exact) <= told.delta(epsilon)
    assert failure_of(event) == 3 * 0.015625
    assert told.delta(1e6) == pytest.approx(3 * 0.015625, rel=1e-12)


def test_a_search_over_trainings_costs_what_the_theorem_says_of_their_curve():
    step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
    training = SelfComposedEvent(event=step, count=1000)
    accountant = RdpAccountant()
    accountant.compose(RepeatAndSelectEvent(event=training, mean=20.0, shape=1.0))

    def total(orders):
        return rdp.poisson_sampled_gaussian(1.0, 0.01, orders) * 1000

    by_hand = RepeatAndSelectCurve(total, mean=20.0, shape=1.0)
    orders = np.array([2.0, 8.0, 33.0])
    assert accountant.rdp(orders) == pytest.approx(by_hand(orders), rel=1e-9)
    once = RdpAccountant()
    once.compose(training)
    assert once.epsilon(1e-5) < accountant.epsilon(1e-5) < 3 * once.epsilon(1e-5)


def test_a_run_without_protection_leaves_none():
    accountant = RdpAccountant()
    run = ComposedEvent(events=(LaplaceEvent(noise_multiplier=1.0), NonPrivateEvent()))
    accountant.compose(RepeatAndSelectEvent(event=run, mean=2.0, shape=1.0))

    assert accountant.epsilon(0.5) == math.inf
