"""Which Rényi curve belongs to which event.

A curve is anything that takes a one-dimensional float64 array of orders, 1 ≤ α ≤ ∞, and returns a float64 array of
upper bounds on the Rényi divergences, ≥ 0 and perhaps infinite. `register` adds the curves of a class of events.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ferrodp import _validate
from ferrodp._native import RdpCurve, rdp_total
from ferrodp.accounting._arrays import Array
from ferrodp.accounting.events import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    SelfComposedEvent,
    ZcdpEvent,
    simple_events,
)
from ferrodp.errors import UnsupportedEventError

Curve: TypeAlias = Callable[[Array], Array]
Rule: TypeAlias = "Callable[[Any, NeighboringRelation], Curve]"
_Event = TypeVar("_Event", bound=PrivacyEvent)

LAPLACE_PARTS = 2048
"""Into how many losses that of a Poisson-sampled Laplace release is divided; the excess is about its inverse square."""

_RULES: dict[type[PrivacyEvent], Rule] = {}


def register(event_class: type[PrivacyEvent]) -> Callable[[Rule], Rule]:
    """Make a function the rule that returns the curve of such events, or raises `UnsupportedEventError`."""

    def add(rule: Rule) -> Rule:
        _RULES[event_class] = rule
        return rule

    return add


@functools.lru_cache(maxsize=4096)
def curve_of(event: PrivacyEvent, neighboring_relation: NeighboringRelation) -> Curve:
    """Return the curve of a simple event.

    Raises
    ------
    UnsupportedEventError
        If none is known; the message is the reason.
    """
    rule = _RULES.get(type(event))
    if rule is None:
        raise UnsupportedEventError(f"no Rényi curve is known for {type(event).__name__}")
    return rule(event, neighboring_relation)


def failure_of(event: PrivacyEvent) -> Fraction:
    """Return the probability with which an event may break its curve: the δ of a stated (ε, δ).

    An (ε, δ)-private mechanism is no worse than one that fails with probability δ and is (ε, 0)-private otherwise
    (Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3's proof).
    """
    if isinstance(event, EpsilonDeltaEvent):
        return Fraction(event.delta)
    if isinstance(event, PoissonSampledEvent):
        return Fraction(event.sampling_probability) * failure_of(event.event)
    if isinstance(event, RepeatAndSelectEvent):
        return Fraction(event.mean) * failure_of(event.event)  # see `RepeatAndSelectCurve`
    if isinstance(event, (ComposedEvent, SelfComposedEvent)):
        return sum((times * failure_of(part) for part, times in simple_events(event)), Fraction(0))
    return Fraction(0)


@register(ComposedEvent)
@register(SelfComposedEvent)
def _composed(event: PrivacyEvent, relation: NeighboringRelation) -> Curve:
    """Return the sum of the curves (Mironov, CSF 2017, Proposition 1): what a whole run costs that others wrap."""
    parts = [
        (curve_of(part, relation), _validate.rounded(times, "up")) for part, times in simple_events(event) if times
    ]
    return lambda orders: rdp_total(parts, np.ascontiguousarray(orders))


@register(GaussianEvent)
def _gaussian(event: GaussianEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("gaussian", event.noise_multiplier))


@register(LaplaceEvent)
def _laplace(event: LaplaceEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("laplace", event.noise_multiplier))


@register(ZcdpEvent)
def _zcdp(event: ZcdpEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("zcdp", event.rho))


@register(EpsilonDeltaEvent)
def _stated(event: EpsilonDeltaEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("pure", _validate.rounded(event.epsilon, "up")))


@register(ExponentialMechanismEvent)
def _exponential(event: ExponentialMechanismEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("bounded_range", event.epsilon))


@register(RandomizedResponseEvent)
def _randomized_response(event: RandomizedResponseEvent, relation: NeighboringRelation) -> Curve:
    special = relation is NeighboringRelation.REPLACE_SPECIAL
    return RdpCurve(("randomized_response", event.noise_parameter, float(event.num_buckets), special))


@register(DiscreteLaplaceEvent)
def _discrete_laplace(event: DiscreteLaplaceEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("discrete_laplace", event.scale, event.l1_sensitivity))


@register(DiscreteGaussianEvent)
def _discrete_gaussian(event: DiscreteGaussianEvent, _: NeighboringRelation) -> Curve:
    if event.dimension == 1:
        return RdpCurve(("discrete_gaussian", event.scale, event.l2_sensitivity))
    rho = Fraction(event.l2_sensitivity) ** 2 / (2 * Fraction(event.scale) ** 2)
    return RdpCurve(("zcdp", _validate.rounded(rho, "up")))


@register(PoissonSampledEvent)
def _poisson(event: PoissonSampledEvent, relation: NeighboringRelation) -> Curve:
    """Zhu, Dong, Wang 2022, Theorem 11: what dominates with and without the record, mixed, dominates the sample's."""
    inner, chance = event.event, event.sampling_probability
    if relation is NeighboringRelation.REPLACE_ONE:
        if isinstance(inner, GaussianEvent):
            return RdpCurve(("poisson_replaced", inner.noise_multiplier, chance))
        raise UnsupportedEventError(
            f"no Rényi curve is known for a Poisson sample of {type(inner).__name__} under REPLACE_ONE"
        )
    if isinstance(inner, GaussianEvent):
        return RdpCurve(("poisson_gaussian", inner.noise_multiplier, chance))
    if isinstance(inner, LaplaceEvent):
        if not 1.0 / inner.noise_multiplier < math.inf:
            return RdpCurve(("zcdp", math.inf))
        return RdpCurve(("sampled", chance, ("laplace_in_parts", inner.noise_multiplier, LAPLACE_PARTS)))
    if isinstance(inner, DiscreteLaplaceEvent):
        return RdpCurve(("sampled", chance, ("discrete_laplace", inner.scale, inner.l1_sensitivity)))
    if isinstance(inner, (EpsilonDeltaEvent, ExponentialMechanismEvent)) and inner.epsilon:
        return RdpCurve(("sampled", chance, ("pure", _validate.rounded(inner.epsilon, "up"))))
    if isinstance(inner, (EpsilonDeltaEvent, ExponentialMechanismEvent)):
        return RdpCurve(("zcdp", 0.0))
    raise UnsupportedEventError(f"no Rényi curve is known for a Poisson sample of {type(inner).__name__}")
