"""Which Rényi curve belongs to which event.

A curve is any callable that takes a one-dimensional float64 array of orders, 1 ≤ α ≤ ∞, and returns a float64 array of
upper bounds on the Rényi divergences, ≥ 0 and perhaps infinite. `register` adds the curves of a class of events.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from ferrodp import events
from ferrodp._base import _validate
from ferrodp._native import RdpCurve, rdp_public_coin, rdp_total
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._distributed import discrete_sums, skellam
from ferrodp.accounting._laws import shuffled
from ferrodp.accounting._laws.costs import CHANGES_GROUP, NO_ANSWER, SAMPLE_OF_A_SAMPLE, contains_sampling, pure
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.rdp.fixed_size import fixed_size_sampled_gaussian, fixed_size_sampled_pure
from ferrodp.accounting.rdp.poisson import poisson_sampled_curve
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent, decompose

Curve: TypeAlias = Callable[[Array], Array]
Rule: TypeAlias = "Callable[[Any, NeighboringRelation], Curve]"

LEAST_ORDER = 1.0 + 2.0**-20
"""Replaces lower orders where a curve is known only above 1: divergences do not decrease as the order grows."""
_REPLACED = NeighboringRelation.REPLACE_ONE
_NOISE_ON_SUMS = (
    events.GaussianEvent,
    events.LaplaceEvent,
    events.DiscreteGaussianEvent,
    events.DiscreteLaplaceEvent,
    events.DistributedDiscreteGaussianEvent,
    events.SkellamEvent,
    events.MixtureOfGaussiansEvent,
)

_NEVER = Fraction(0)
_RULES: dict[type[PrivacyEvent], Rule] = {}


def above_one(orders: Array) -> Array:
    """Return the orders, but none below `LEAST_ORDER`."""
    return np.maximum(orders, LEAST_ORDER)


def register(event_class: type[PrivacyEvent]) -> Callable[[Rule], Rule]:
    """Make a function the rule for the Rényi curve of a class of events.

    Parameters
    ----------
    event_class : type
        A subclass of `PrivacyEvent`.

    Returns
    -------
    callable
        A decorator for functions that take an event and a neighboring relation and return the curve, or raise
        `UnsupportedEventError`.

    Raises
    ------
    TypeError
        If the class is not hashable; nothing else is checked.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from ferrodp.accounting import rdp
    >>> from ferrodp.events import PrivacyEvent
    >>> @dataclass(frozen=True, slots=True, kw_only=True)
    ... class TwiceGaussianEvent(PrivacyEvent):
    ...     noise_multiplier: float
    >>> @rdp.register(TwiceGaussianEvent)
    ... def rule(event, relation):
    ...     return lambda orders: orders / event.noise_multiplier**2
    >>> rdp.curve_of(TwiceGaussianEvent(noise_multiplier=2.0), None)(np.array([4.0])).tolist()
    [1.0]
    """

    def add(rule: Rule) -> Rule:
        _RULES[event_class] = rule
        return rule

    return add


@functools.lru_cache(maxsize=4096)
def curve_of(event: PrivacyEvent, neighboring_relation: NeighboringRelation) -> Curve:
    """Return the Rényi curve of an event.

    Parameters
    ----------
    event : PrivacyEvent
        One that `decompose` yields, or a composition of such.
    neighboring_relation : NeighboringRelation
        The one for which the event's sensitivities were stated.

    Returns
    -------
    callable
        Takes a one-dimensional float64 array of orders, 1 ≤ α ≤ ∞, and returns upper bounds of the same shape.

    Raises
    ------
    UnsupportedEventError
        If none is known; the message gives the reason.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent, NeighboringRelation
    >>> curve = curve_of(LaplaceEvent(noise_multiplier=1.0), NeighboringRelation.ADD_OR_REMOVE_ONE)
    >>> curve(np.array([1.0, 2.0, np.inf])).round(6).tolist()
    [0.367879, 0.619124, 1.0]
    """
    rule = _RULES.get(type(event))
    if rule is None:
        raise UnsupportedEventError(f"no Rényi curve is known for {type(event).__name__}")
    return rule(event, neighboring_relation)


def failure_of(event: PrivacyEvent) -> Fraction:
    """Return the probability with which an event may violate its curve: the δ of a stated (ε, δ).

    An (ε, δ)-private mechanism is no worse than one that fails with probability δ and is (ε, 0)-private otherwise
    ([KOV15] proof of Theorem 3.3).
    """
    if isinstance(event, _NOISE_ON_SUMS):
        return _NEVER
    if isinstance(event, events.EpsilonDeltaEvent):
        return Fraction(event.delta)
    if isinstance(event, (events.PoissonSampledEvent, events.TruncatedPoissonSampledEvent)):
        inner = failure_of(event.event)
        return Fraction(event.sampling_probability) * inner if inner else _NEVER
    if isinstance(event, events.FixedSizeSampledEvent):
        return Fraction(event.sample_size, event.population_size) * failure_of(event.event)
    if isinstance(event, events.RepeatAndSelectEvent):
        return Fraction(event.mean) * failure_of(event.event)  # see `RepeatAndSelectCurve`
    if isinstance(event, events.ParallelEvent):
        return max(failure_of(part) for part in event.events)
    if isinstance(event, (events.ComposedEvent, events.SelfComposedEvent)):
        return sum((times * failure_of(part) for part, times in decompose(event)), Fraction(0))
    return _NEVER


@register(events.ComposedEvent)
@register(events.SelfComposedEvent)
def _composed(event: PrivacyEvent, relation: NeighboringRelation) -> Curve:
    """Return the sum of the curves ([Mir17] Proposition 1), as of a whole run inside another event."""
    parts = [(curve_of(part, relation), _validate.rounded(times, "up")) for part, times in decompose(event) if times]
    return lambda orders: rdp_total(parts, np.ascontiguousarray(orders))


_NATIVE: dict[type[PrivacyEvent], Callable[[Any], tuple[Any, ...]]] = {
    events.GaussianEvent: lambda event: ("gaussian", event.noise_multiplier),
    events.LaplaceEvent: lambda event: ("laplace", event.noise_multiplier),
    events.DiscreteLaplaceEvent: lambda event: ("discrete_laplace", event.scale, event.l1_sensitivity),
    events.ZcdpEvent: lambda event: ("zcdp", event.rho),
    events.EpsilonDeltaEvent: lambda event: ("epsilon_delta", _validate.rounded(event.epsilon, "up"), 0.0),
    events.ExponentialMechanismEvent: lambda event: ("exponential_mechanism", event.epsilon),
    events.MixtureOfGaussiansEvent: lambda event: (
        ("mixture_of_gaussians", event.noise_multiplier, event.shifts, event.probabilities)
    ),
}
"""Events with one native curve under all relations that have one, and its tag and parameters."""
_SAMPLED_NATIVELY = (
    events.GaussianEvent,
    events.LaplaceEvent,
    events.DiscreteLaplaceEvent,
    events.MixtureOfGaussiansEvent,
)


def _native(event: PrivacyEvent, relation: NeighboringRelation) -> Curve:
    if isinstance(event, events.MixtureOfGaussiansEvent) and relation is _REPLACED:
        raise UnsupportedEventError("it says what a record adds to a result without it")
    return RdpCurve(_NATIVE[type(event)](event))


for _each in _NATIVE:
    register(_each)(_native)


@register(events.RandomizedResponseEvent)
def _randomized_response(event: events.RandomizedResponseEvent, relation: NeighboringRelation) -> Curve:
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise UnsupportedEventError(NO_ANSWER.reason)
    is_special = relation is NeighboringRelation.REPLACE_SPECIAL
    tag = "randomized_response_or_uniform" if is_special else "randomized_response"
    return RdpCurve((tag, event.noise_parameter, float(event.num_buckets)))


@register(events.DiscreteGaussianEvent)
def _discrete_gaussian(event: events.DiscreteGaussianEvent, _: NeighboringRelation) -> Curve:
    if event.dimension == 1:
        return RdpCurve(("discrete_gaussian", event.scale, event.l2_sensitivity, math.inf))
    rho = Fraction(event.l2_sensitivity) ** 2 / (2 * Fraction(event.scale) ** 2)
    return RdpCurve(("zcdp", _validate.rounded(rho, "up")))


@register(events.DistributedDiscreteGaussianEvent)
def _distributed(event: events.DistributedDiscreteGaussianEvent, _: NeighboringRelation) -> Curve:
    n, scale, steps = event.num_shares, event.integer_scale, event.squared_steps
    if n == 1 and event.dimension == 1:
        return RdpCurve(("discrete_gaussian", scale, float(math.isqrt(steps)), math.inf))
    found = discrete_sums.ratio(n, scale)
    if isinstance(found, Unsupported):
        raise UnsupportedEventError(found.reason)
    return discrete_sums.SumCurve(n, scale, steps, event.dimension)


@register(events.SkellamEvent)
def _skellam(event: events.SkellamEvent, _: NeighboringRelation) -> Curve:
    found = skellam.rate(event.integer_variance)
    if isinstance(found, Unsupported):
        raise UnsupportedEventError(found.reason)
    return skellam.SkellamCurve(event.integer_variance, event.squared_steps, event.dimension)


@register(events.ParallelEvent)
def _parallel(event: events.ParallelEvent, relation: NeighboringRelation) -> Curve:
    """Return the largest of the groups' curves at each order: the neighbors' unit is in one of them."""
    if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise UnsupportedEventError(CHANGES_GROUP.reason)
    curves = [_composed(part, relation) for part in event.events]

    def curve(orders: Array) -> Array:
        # mutant: first-group-pays-for-all
        worst: Array = np.max([each(orders) for each in curves], axis=0)
        return worst

    return curve


@register(events.ShuffledEvent)
def _shuffled(event: events.ShuffledEvent, relation: NeighboringRelation) -> Curve:
    found = shuffled.messages(event, relation)
    if isinstance(found, Unsupported):
        raise UnsupportedEventError(found.reason)
    return found.curve()


@register(events.PoissonSampledEvent)
def _poisson(event: events.PoissonSampledEvent, relation: NeighboringRelation) -> Curve:
    """[ZDW22] Theorem 11: the mixture of what dominates with the record and without it dominates the sample's release.

    Where the curve of such a pair is not known, `poisson_sampled_curve` bounds it by the curve of what is released.
    """
    inner, chance = event.event, event.sampling_probability
    if contains_sampling(inner):
        raise UnsupportedEventError(SAMPLE_OF_A_SAMPLE.reason)
    if relation is NeighboringRelation.REPLACE_ONE:
        return _poisson_replaced(event)
    if relation is NeighboringRelation.REPLACE_SPECIAL and not _is_added(inner):
        curve = curve_of(inner, relation)  # the null record may show that it is there
        return lambda orders: by_public_coin(curve(orders), chance, orders)
    if type(inner) in _SAMPLED_NATIVELY:
        return RdpCurve(("poisson_sampled", chance, _NATIVE[type(inner)](inner)))
    if isinstance(inner, (events.EpsilonDeltaEvent, events.ExponentialMechanismEvent)):
        epsilon = _validate.rounded(inner.epsilon, "up")
        return RdpCurve(("poisson_sampled", chance, ("epsilon_delta", epsilon, 0.0)))
    symmetric = isinstance(inner, events.DiscreteGaussianEvent)  # by reflection
    return poisson_sampled_curve(curve_of(inner, relation), chance, is_symmetric=symmetric)


def _is_added(event: PrivacyEvent) -> bool:
    """Whether this is noise on sums only, to which a null record adds nothing, as if it were absent."""
    if isinstance(event, (events.ComposedEvent, events.SelfComposedEvent)):
        return all(_is_added(part) for part, _ in decompose(event))
    return isinstance(event, _NOISE_ON_SUMS)


def _poisson_replaced(event: events.PoissonSampledEvent) -> Curve:
    """Return the curve of a Poisson sample of which one record is replaced.

    The pair is that of `_laws.dominating_pairs._poisson_replaced`.
    """
    # mutant: same-of-renyi-curves
    inner, chance, is_close = event.event, event.sampling_probability, event.null_distance <= 1.0
    if isinstance(inner, events.GaussianEvent) and event.null_distance == 0.5:
        return RdpCurve(("antipodal_gaussian", chance, inner.noise_multiplier))
    if isinstance(inner, events.GaussianEvent) and is_close:
        z = inner.noise_multiplier
        return lambda orders: fixed_size_sampled_gaussian(z, chance, above_one(orders), neighboring_relation=_REPLACED)
    curve = curve_of(inner, _REPLACED)
    if isinstance(inner, (events.LaplaceEvent, events.DiscreteLaplaceEvent)) and is_close:
        cost = pure(inner, _REPLACED)
        epsilon = math.inf if isinstance(cost, Unsupported) else _validate.rounded(cost.amount, "up")
        if epsilon < math.inf:
            return lambda orders: fixed_size_sampled_pure(epsilon, chance, above_one(orders))
    return lambda orders: by_public_coin(curve(orders), chance, orders)


def by_public_coin(divergences: Array, chance: float | Array, orders: Array) -> Array:
    """Return the curve of a release that happens with probability q, decided by a public coin, rounded up.

    The moment is 1 + q(A − 1), so ρ′ = ln(1 + q(e^{(α−1)ρ} − 1))/(α − 1): q·ρ at α = 1, ρ at ∞.
    """
    chances = np.ascontiguousarray(np.broadcast_to(chance, orders.shape), dtype=np.float64)
    return rdp_public_coin(np.ascontiguousarray(divergences), chances, np.ascontiguousarray(orders))
