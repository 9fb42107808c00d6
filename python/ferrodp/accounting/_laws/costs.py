"""Costs of single events in the measures that add up: pure ε, ρ of zCDP, 1/z² of Gaussian noise.

Each is an exact rational, or one rounded up to some 50 digits, together with a δ: an (ε, δ)-private mechanism is no
more than one that fails with probability δ and is (ε, 0)-private otherwise (Kairouz, Oh, Viswanath, "The composition
theorem for differential privacy", ICML 2015, Theorem 3.3's proof). `Unsupported` says why there is no cost.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ferrodp import events
from ferrodp._base import _validate
from ferrodp._numerics.intervals import arithmetic, point
from ferrodp._numerics.rounding import fraction_up
from ferrodp.accounting._distributed import discrete_sums, skellam
from ferrodp.accounting._laws.amplification import amplified
from ferrodp.accounting._types import Unsupported
from ferrodp.events import NeighboringRelation, PrivacyEvent, decompose

_DIGITS = 60
_MAX_EXACT_TERMS = 300
"""Number of different rationals that are added exactly; more are rounded up to 120 digits first."""


class Cost(NamedTuple):
    """An amount in the measure, and the probability that the bound fails."""

    amount: Fraction
    delta: Fraction = Fraction(0)


CostOrUnsupported: TypeAlias = "Cost | Unsupported"
CostOf: TypeAlias = "Callable[[PrivacyEvent, NeighboringRelation], CostOrUnsupported]"
NO_ANSWER = Unsupported(
    "randomized response has an answer of every record: it can be replaced, or drawn uniformly, but not left out"
)
CHANGES_GROUP = Unsupported("a unit that is replaced or zeroed may change its group, and then two releases change")
SAMPLE_OF_A_SAMPLE = Unsupported("what is drawn from a sample is known for samples of one kind alone")
NOT_REPLACED = Unsupported("every user sends a message: a user's value can be replaced, but not left out")
_ADDITIVE = (events.LaplaceEvent, events.DiscreteLaplaceEvent)
SAMPLES = (
    events.PoissonSampledEvent,
    events.FixedSizeSampledEvent,
    events.TruncatedPoissonSampledEvent,
    events.RandomAllocationEvent,
    events.ParallelEvent,
    events.ShuffledEvent,
)
"""What divides, draws or shuffles units, and so is not known about a sample of them."""


@functools.lru_cache(maxsize=4096)
def pure(event: PrivacyEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    """Return the pure ε of a simple event."""
    if isinstance(event, events.LaplaceEvent):
        return Cost(1 / Fraction(event.noise_multiplier))
    if isinstance(event, events.DiscreteLaplaceEvent):
        return Cost(event.l1_sensitivity / Fraction(event.scale))
    if isinstance(event, events.RandomizedResponseEvent):
        return _randomized_response(event, relation)
    if isinstance(event, events.ExponentialMechanismEvent):
        return Cost(Fraction(event.epsilon))
    if isinstance(event, events.EpsilonDeltaEvent):
        return Cost(Fraction(event.epsilon), Fraction(event.delta))
    if isinstance(event, (events.PoissonSampledEvent, events.FixedSizeSampledEvent)):
        return _sampled(event, relation)
    if isinstance(event, events.RepeatAndSelectEvent):
        return _repeated(event, relation)
    if isinstance(event, events.ParallelEvent):
        return _worst(pure, event, relation)
    if isinstance(event, events.ShuffledEvent):  # what a message costs by itself
        return (
            total_pure_epsilon(event.randomizer, relation)
            if relation is NeighboringRelation.REPLACE_ONE
            else NOT_REPLACED
        )
    if isinstance(event, (events.ComposedEvent, events.SelfComposedEvent)):  # about one sample
        return total_pure_epsilon(event, relation)
    return Unsupported("it has no pure ε")


def _randomized_response(event: events.RandomizedResponseEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return NO_ANSWER
    random = Fraction(event.noise_parameter)
    if not random:
        return Unsupported("it tells the truth with certainty, so no ε bounds it")
    if random == 1:
        return Cost(Fraction(0))
    r = arithmetic(_DIGITS)
    return Cost(fraction_up(r.ln(r.ratio(1 + event.num_buckets * (1 - random) / random)).upper))


def _repeated(event: events.RepeatAndSelectEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    """Papernot, Steinke, "Hyperparameter tuning with Rényi differential privacy", ICLR 2022, Corollary 3: (2 + η)·ε.

    A run costs the sum of its releases. Its failures are charged E[K] times, see `RepeatAndSelectCurve`.
    """
    if event.shape == math.inf:
        return Unsupported("the best of a Poisson number of runs has no pure ε, for there may be no run at all")
    run = total_pure_epsilon(event.event, relation)
    return (
        run
        if isinstance(run, Unsupported)
        else Cost((2 + Fraction(event.shape)) * run.amount, Fraction(event.mean) * run.delta)
    )


def _worst(cost_of: CostOf, event: events.ParallelEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    """Return the largest amount and the largest δ of the groups: a unit is in one of them."""
    if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        return CHANGES_GROUP
    found = []
    for part in event.events:
        costs = priced(cost_of, decompose(part), relation)
        if isinstance(costs, Unsupported):
            return costs
        found.append(total(costs))
    # mutant: cheapest-group-pays
    return Cost(max(cost.amount for cost in found), max(cost.delta for cost in found))


def total_pure_epsilon(event: PrivacyEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    """Return the sum of what an event is made of."""
    costs = priced(pure, decompose(event), relation)
    return Unsupported(f"a part of it has no pure ε ({costs})") if isinstance(costs, Unsupported) else total(costs)


def contains_sampling(event: PrivacyEvent) -> bool:
    """Whether something in it is about a sample of what it is about."""
    if isinstance(event, events.ComposedEvent):
        return any(contains_sampling(part) for part in event.events)
    return isinstance(event, SAMPLES) or (hasattr(event, "event") and contains_sampling(event.event))


def _sampled(
    event: events.PoissonSampledEvent | events.FixedSizeSampledEvent, relation: NeighboringRelation
) -> CostOrUnsupported:
    """Balle, Barthe, Gaboardi 2018, Theorems 8 and 9.

    Poisson sampling and a replaced record: see `dominating_pairs._poisson_replaced`. A null record is a record that
    is not there for noise about a sum alone; elsewhere it is one that took the record's place.
    """
    if contains_sampling(event.event):
        return SAMPLE_OF_A_SAMPLE
    inner = pure(event.event, relation)
    if isinstance(inner, Unsupported):
        return inner
    if isinstance(event, events.PoissonSampledEvent):
        chance = Fraction(event.sampling_probability)
        additive = isinstance(event.event, _ADDITIVE)
        # mutant: pure-epsilon-amplified
        is_close = additive and (relation is NeighboringRelation.REPLACE_SPECIAL or event.null_distance <= 1.0)
        if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE and not is_close:
            return Cost(inner.amount, chance * inner.delta)
    else:
        is_whole = event.sample_size == event.population_size and relation is NeighboringRelation.REPLACE_SPECIAL
        if relation is not NeighboringRelation.REPLACE_ONE and not is_whole:
            return Unsupported("sampling a fixed number of records amplifies an ε for replacing a record")
        chance = Fraction(event.sample_size, event.population_size)
    return Cost(amplified(inner.amount, chance), chance * inner.delta)


@functools.lru_cache(maxsize=4096)
def zcdp(event: PrivacyEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    """Return the ρ of a simple event.

    Gaussian 1/2z² (Bun, Steinke, "Concentrated differential privacy", TCC 2016, Proposition 1.6); discrete Gaussian
    Δ²/2σ² (Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Theorem 4); pure ε
    ε²/2 (Bun, Steinke 2016, Proposition 1.4), and never more than ε, which bounds the divergence of every order;
    bounded range ε²/8 (Cesar, Rogers, "Bounding, concentrating, and truncating", ALT 2021, Lemmas 3.2 and 3.4).
    """
    if isinstance(event, events.GaussianEvent):
        return Cost(1 / (2 * Fraction(event.noise_multiplier) ** 2))
    if isinstance(event, events.DiscreteGaussianEvent):
        return Cost(Fraction(event.l2_sensitivity) ** 2 / (2 * Fraction(event.scale) ** 2))
    if isinstance(event, events.DistributedDiscreteGaussianEvent):
        found = discrete_sums.ratio(event.num_shares, event.integer_scale)
        if isinstance(found, Unsupported):
            return found
        variance = event.num_shares * Fraction(event.integer_scale) ** 2
        # mutant: ratio-of-sums-of-discrete-noise-left-out
        return Cost(Fraction(found) * event.squared_steps / (2 * variance))
    if isinstance(event, events.SkellamEvent):
        rate = skellam.rate(event.integer_variance)
        return rate if isinstance(rate, Unsupported) else Cost(Fraction(rate) * event.squared_steps)
    if isinstance(event, events.ZcdpEvent):
        return Cost(Fraction(event.rho))
    if isinstance(event, events.ExponentialMechanismEvent):
        epsilon = Fraction(event.epsilon)
        return Cost(min(epsilon**2 / 8, epsilon))
    if isinstance(
        event,
        (events.LaplaceEvent, events.DiscreteLaplaceEvent, events.RandomizedResponseEvent, events.EpsilonDeltaEvent),
    ):
        cost = pure(event, relation)
        return cost if isinstance(cost, Unsupported) else Cost(min(cost.amount**2 / 2, cost.amount), cost.delta)
    if isinstance(event, events.ParallelEvent):
        return _worst(zcdp, event, relation)
    if isinstance(event, events.ShuffledEvent):
        cost = pure(event, relation)
        return cost if isinstance(cost, Unsupported) else Cost(min(cost.amount**2 / 2, cost.amount), cost.delta)
    if isinstance(event, (events.PoissonSampledEvent, events.FixedSizeSampledEvent)):
        return Unsupported("zCDP gains nothing from sampling")
    return Unsupported("no ρ is known that bounds it")


@functools.lru_cache(maxsize=4096)
def squared_mu(event: PrivacyEvent, relation: NeighboringRelation) -> CostOrUnsupported:
    """Return μ² = 1/z² of a simple event that is Gaussian, under any relation."""
    if isinstance(event, events.GaussianEvent):
        return Cost(1 / Fraction(event.noise_multiplier) ** 2)
    return Unsupported("only Gaussian noise is Gaussian differential privacy without loss")


def priced(
    cost_of: CostOf, simple_events: Iterable[tuple[PrivacyEvent, int]], relation: NeighboringRelation
) -> list[tuple[Cost, int]] | Unsupported:
    """Return the costs of simple events with their counts, or which event has none and why."""
    found: list[tuple[Cost, int]] = []
    for event, times in simple_events:
        cost = cost_of(event, relation)
        if isinstance(cost, Unsupported):
            return Unsupported(f"{type(event).__name__}: {cost}")
        found.append((cost, times))
    return found


def total_of(cost_of: CostOf, simple_events: Iterable[tuple[PrivacyEvent, int]], relation: NeighboringRelation) -> Cost:
    """Return the sum of what simple events cost; those without a cost, releases without protection, are left out."""
    found = ((cost_of(event, relation), times) for event, times in simple_events)
    return total((cost, times) for cost, times in found if isinstance(cost, Cost))


def total(costs: Iterable[tuple[Cost, int]]) -> Cost:
    """Return the sum of the costs times their counts."""
    listed = list(costs)
    if len(listed) > _MAX_EXACT_TERMS:
        listed = [(Cost(_rounded_up(cost.amount), cost.delta), times) for cost, times in listed]
    amount = sum((cost.amount * times for cost, times in listed), Fraction(0))
    return Cost(amount, sum((cost.delta * times for cost, times in listed if cost.delta), Fraction(0)))


def failure(deltas: Iterable[tuple[Fraction, int]]) -> Fraction:
    """Return an upper bound on 1 − ∏(1 − δᵢ)^Tᵢ: the probability that any of the releases breaks its bound.

    Each (ε, δ)-private pair of laws is dominated by one that fails, on either side, with probability δ and is
    (ε, 0)-private otherwise, whatever was released before; and the composition of such pairs fails if one of them does.
    ΣTᵢδᵢ is never less; it is the result where it is the same up to rounding, as for a single δ.
    """
    r, log_kept, total, releases = arithmetic(_DIGITS), point(0), Fraction(0), 0
    for delta, count in deltas:
        if delta and count:
            if delta >= 1:
                return Fraction(1)
            total, releases = total + delta * count, releases + count
            log_kept = r.add(log_kept, r.mul(point(count), r.minus_log_one_minus(r.ratio(delta))))
    if releases <= 1:
        return total
    return min(total, Fraction(r.one_minus_exp(log_kept.negated()).upper))


def without_failure(delta: Fraction, failed: Fraction) -> float:
    """Return δ′ with failed + (1 − failed)·δ′ ≤ δ, rounded down: what is left for the rest. 0 if there is nothing."""
    left = (delta - failed) / (1 - failed) if failed < delta else Fraction(0)
    return _validate.rounded(left, "down")


def with_failure(delta: Fraction, failed: Fraction) -> float:
    """Return failed + (1 − failed)·δ, rounded up."""
    return min(_validate.rounded(failed + (1 - failed) * delta, "up"), 1.0)


def _rounded_up(value: Fraction) -> Fraction:
    """Return a number no smaller whose denominator is a power of two, to 2⁻⁴⁰⁰ of itself."""
    if not value:
        return value
    shift = 400 - value.numerator.bit_length() + value.denominator.bit_length()
    if shift <= 0:
        return Fraction(-(-value.numerator // value.denominator))
    return Fraction(-((-value.numerator << shift) // value.denominator), 1 << shift)
