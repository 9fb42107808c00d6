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
from ferrodp.accounting._solve.costs import NO_ANSWER, SAMPLE_OF_A_SAMPLE, pure, samples_again
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.rdp._mixture import mixture_of_gaussians_curve
from ferrodp.accounting.rdp.fixed_size import fixed_size_sampled_gaussian, fixed_size_sampled_pure
from ferrodp.accounting.rdp.poisson import poisson_sampled_curve
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    EpsilonDeltaEvent,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    SelfComposedEvent,
    TruncatedPoissonSampledEvent,
    ZcdpEvent,
    decompose,
)

Curve: TypeAlias = Callable[[Array], Array]
Rule: TypeAlias = "Callable[[Any, NeighboringRelation], Curve]"
_Event = TypeVar("_Event", bound=PrivacyEvent)

LEAST_ORDER = 1.0 + 2.0**-20
"""Lower orders are answered by it where a curve is known above 1 alone: divergences do not fall as the order rises."""
_REPLACED = NeighboringRelation.REPLACE_ONE

_RULES: dict[type[PrivacyEvent], Rule] = {}


def above_one(orders: Array) -> Array:
    """Return the orders, but none below `LEAST_ORDER`."""
    return np.maximum(orders, LEAST_ORDER)


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
    if isinstance(event, (PoissonSampledEvent, TruncatedPoissonSampledEvent)):
        return Fraction(event.sampling_probability) * failure_of(event.event)
    if isinstance(event, FixedSizeSampledEvent):
        return Fraction(event.sample_size, event.population_size) * failure_of(event.event)
    if isinstance(event, RepeatAndSelectEvent):
        return Fraction(event.mean) * failure_of(event.event)  # see `RepeatAndSelectCurve`
    if isinstance(event, (ComposedEvent, SelfComposedEvent)):
        return sum((times * failure_of(part) for part, times in decompose(event)), Fraction(0))
    return Fraction(0)


@register(ComposedEvent)
@register(SelfComposedEvent)
def _composed(event: PrivacyEvent, relation: NeighboringRelation) -> Curve:
    """Return the sum of the curves (Mironov, CSF 2017, Proposition 1): what a whole run costs that others wrap."""
    parts = [(curve_of(part, relation), _validate.rounded(times, "up")) for part, times in decompose(event) if times]
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
    return RdpCurve(("epsilon_delta", _validate.rounded(event.epsilon, "up"), 0.0))


@register(ExponentialMechanismEvent)
def _exponential(event: ExponentialMechanismEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("exponential_mechanism", event.epsilon))


@register(RandomizedResponseEvent)
def _randomized_response(event: RandomizedResponseEvent, relation: NeighboringRelation) -> Curve:
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise UnsupportedEventError(NO_ANSWER.reason)
    is_special = relation is NeighboringRelation.REPLACE_SPECIAL
    tag = "randomized_response_or_uniform" if is_special else "randomized_response"
    return RdpCurve((tag, event.noise_parameter, float(event.num_buckets)))


@register(DiscreteLaplaceEvent)
def _discrete_laplace(event: DiscreteLaplaceEvent, _: NeighboringRelation) -> Curve:
    return RdpCurve(("discrete_laplace", event.scale, event.l1_sensitivity))


@register(DiscreteGaussianEvent)
def _discrete_gaussian(event: DiscreteGaussianEvent, _: NeighboringRelation) -> Curve:
    if event.dimension == 1:
        return RdpCurve(("discrete_gaussian", event.scale, event.l2_sensitivity, math.inf))
    rho = Fraction(event.l2_sensitivity) ** 2 / (2 * Fraction(event.scale) ** 2)
    return RdpCurve(("zcdp", _validate.rounded(rho, "up")))


@register(MixtureOfGaussiansEvent)
def _mixture(event: MixtureOfGaussiansEvent, relation: NeighboringRelation) -> Curve:
    if relation is NeighboringRelation.REPLACE_ONE:
        raise UnsupportedEventError("it says what a record adds to a result without it")
    return mixture_of_gaussians_curve(event)


@register(PoissonSampledEvent)
def _poisson(event: PoissonSampledEvent, relation: NeighboringRelation) -> Curve:
    """Zhu, Dong, Wang 2022, Theorem 11: what dominates with and without the record, mixed, dominates the sample's.

    Where there is no curve of such a pair, `rdp_poisson` bounds it by the curve of what is released.
    """
    inner, chance = event.event, event.sampling_probability
    if samples_again(inner):
        raise UnsupportedEventError(SAMPLE_OF_A_SAMPLE.reason)
    if relation is NeighboringRelation.REPLACE_ONE:
        return _poisson_replaced(event)
    if relation is NeighboringRelation.REPLACE_SPECIAL and not _is_added(inner):
        curve = curve_of(inner, relation)  # the null record may show that it is there
        return lambda orders: by_public_coin(curve(orders), chance, orders)
    if isinstance(inner, GaussianEvent):
        return RdpCurve(("poisson_sampled", chance, ("gaussian", inner.noise_multiplier)))
    if isinstance(inner, LaplaceEvent):
        return RdpCurve(("poisson_sampled", chance, ("laplace", inner.noise_multiplier)))
    if isinstance(inner, DiscreteLaplaceEvent):
        return RdpCurve(("poisson_sampled", chance, ("discrete_laplace", inner.scale, inner.l1_sensitivity)))
    if isinstance(inner, (EpsilonDeltaEvent, ExponentialMechanismEvent)):
        epsilon = _validate.rounded(inner.epsilon, "up")
        return RdpCurve(("poisson_sampled", chance, ("epsilon_delta", epsilon, 0.0)))
    if isinstance(inner, MixtureOfGaussiansEvent):
        return mixture_of_gaussians_curve(inner, chance)
    symmetric = isinstance(inner, DiscreteGaussianEvent)  # by reflection
    return poisson_sampled_curve(curve_of(inner, relation), chance, is_symmetric=symmetric)


def _is_added(event: PrivacyEvent) -> bool:
    """Whether it is noise about a sum, or several such, where a null record adds nothing: as if it were not there."""
    if isinstance(event, (ComposedEvent, SelfComposedEvent)):
        return all(_is_added(part) for part, _ in decompose(event))
    kinds = (GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent, MixtureOfGaussiansEvent)
    return isinstance(event, kinds)


def _poisson_replaced(event: PoissonSampledEvent) -> Curve:
    """Return the curve of a sample of which one record is replaced: that of the pair of `_pairs._poisson_replaced`."""
    # mutant: same-of-renyi-curves
    inner, chance, is_close = event.event, event.sampling_probability, event.null_distance <= 1.0
    if isinstance(inner, GaussianEvent) and event.null_distance == 0.5:
        return RdpCurve(("antipodal_gaussian", chance, inner.noise_multiplier))
    if isinstance(inner, GaussianEvent) and is_close:
        z = inner.noise_multiplier
        return lambda orders: fixed_size_sampled_gaussian(z, chance, above_one(orders), neighboring_relation=_REPLACED)
    curve = curve_of(inner, _REPLACED)
    if isinstance(inner, (LaplaceEvent, DiscreteLaplaceEvent)) and is_close:
        cost = pure(inner, _REPLACED)
        epsilon = math.inf if isinstance(cost, Unsupported) else _validate.rounded(cost.amount, "up")
        if epsilon < math.inf:
            return lambda orders: fixed_size_sampled_pure(epsilon, chance, above_one(orders))
    return lambda orders: by_public_coin(curve(orders), chance, orders)


def by_public_coin(divergences: Array, chance: float | Array, orders: Array) -> Array:
    """Return the curve of a release that happens with a probability q, by a coin that everybody sees, rounded up.

    The moment is 1 + q(A − 1), so ρ′ = ln(1 + q(e^{(α−1)ρ} − 1))/(α − 1): q·ρ at α = 1, ρ at ∞. With t = (α − 1)ρ
    off by two units of itself, e^t is by 2t units, and the rest by ten.
    """
    with np.errstate(all="ignore"):
        t = (orders - 1.0) * divergences
        small = np.log1p(chance * np.expm1(t) * (1.0 + 2.0**-50 * (t + 8.0))) * (1.0 + 2.0**-49)
        large = np.logaddexp(0.0, t * (1.0 + 2.0**-49) + np.log(np.maximum(chance, math.ulp(0.0))) + 1e-12)
        found = np.where(t < 600.0, small, large * (1.0 + 2.0**-46)) / (orders - 1.0) * (1.0 + 2.0**-50)
    found = np.where(orders == 1.0, chance * divergences * (1.0 + 2.0**-50), found)
    found = np.where((orders == math.inf) | ~(found <= divergences), divergences, found)
    return np.where(np.equal(chance, 0.0), 0.0, found)
