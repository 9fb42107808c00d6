"""Rényi curves of events about fixed-size samples, truncated Poisson samples and random allocations."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np

from ferrodp import events
from ferrodp._base import _validate
from ferrodp._native import RdpCurve, SampledCurve
from ferrodp.accounting._arrays import Array
from ferrodp.accounting._laws import costs as _costs
from ferrodp.accounting._laws.truncated_poisson import truncated_poisson_gaussian
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.rdp.allocation import random_allocation_gaussian
from ferrodp.accounting.rdp.fixed_size import fixed_size_sampled_gaussian, fixed_size_sampled_pure
from ferrodp.accounting.rdp.rules import Curve, above_one, by_public_coin, curve_of, failure_of, register
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent, decompose


def _nothing(orders: Array) -> Array:
    return np.zeros(orders.shape)


@register(events.FixedSizeSampledEvent)
def _fixed_size(event: events.FixedSizeSampledEvent, relation: NeighboringRelation) -> Curve:
    """See `fixed_size`; adding or removing a record changes the sum of a sample by up to two contributions."""
    q = min(_validate.rounded(Fraction(event.sample_size, event.population_size), "up"), 1.0)
    inner = event.event
    if not q:
        return _nothing
    if _costs.contains_sampling(inner):
        raise UnsupportedEventError(_costs.SAMPLE_OF_A_SAMPLE.reason)
    if event.sample_size == event.population_size and relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        return curve_of(inner, relation)
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        doubled = _doubled(inner)
        return curve_of(events.PoissonSampledEvent(sampling_probability=q, event=doubled), relation)
    if isinstance(inner, events.GaussianEvent):
        z = inner.noise_multiplier
        return lambda orders: fixed_size_sampled_gaussian(z, q, above_one(orders), neighboring_relation=relation)
    if relation is NeighboringRelation.REPLACE_SPECIAL:
        # As in `_laws.dominating_pairs._fixed_size`: with the record, the null record, or another one in its place.
        inner = _doubled(inner)
    return _replaced(dataclasses.replace(event, event=inner), q)


def _replaced(event: events.FixedSizeSampledEvent, q: float) -> Curve:
    """Return the curve of a fixed-size sample of which one record is replaced."""
    inner, relation = event.event, NeighboringRelation.REPLACE_ONE
    cost = _costs.pure(inner, relation)
    if isinstance(cost, Unsupported):
        if failure_of(inner):
            raise UnsupportedEventError("no Rényi curve is known for a fixed-size sample of releases with a δ")
        curve = curve_of(inner, relation)
        return curve if q == 1.0 else SampledCurve(curve, q, None)
    if cost.delta:  # the sample is (ε′, q·δ)-private: it fails with that probability and is ε′-private otherwise
        whole = _costs.pure(event, relation)
        epsilon = math.inf if isinstance(whole, Unsupported) else _validate.rounded(whole.amount, "up")
        return RdpCurve(("epsilon_delta", epsilon, 0.0))
    epsilon = _validate.rounded(cost.amount, "up")
    if epsilon == math.inf:
        return lambda orders: np.full(orders.shape, math.inf)
    return lambda orders: fixed_size_sampled_pure(epsilon, q, above_one(orders))


def _doubled(inner: PrivacyEvent) -> PrivacyEvent:
    if isinstance(inner, (events.GaussianEvent, events.LaplaceEvent)):
        # Halves are exact but for numbers whose inverse is infinite anyway.
        return dataclasses.replace(inner, noise_multiplier=max(inner.noise_multiplier / 2, math.ulp(0.0)))
    if isinstance(inner, events.DiscreteLaplaceEvent):
        return dataclasses.replace(inner, l1_sensitivity=2 * inner.l1_sensitivity)
    if isinstance(inner, (events.DiscreteGaussianEvent, events.DistributedDiscreteGaussianEvent, events.SkellamEvent)):
        return dataclasses.replace(inner, l2_sensitivity=2.0 * inner.l2_sensitivity)
    if isinstance(inner, events.ZcdpEvent):  # groups of two: [BS16] Proposition 1.9
        return dataclasses.replace(inner, rho=4.0 * inner.rho)
    if isinstance(inner, (events.ComposedEvent, events.SelfComposedEvent)):
        parts = (events.SelfComposedEvent(event=_doubled(part), count=times) for part, times in decompose(inner))
        return events.ComposedEvent(events=tuple(parts))
    raise UnsupportedEventError(
        f"no Rényi curve is known for {type(inner).__name__} between records two contributions apart"
    )


@register(events.TruncatedPoissonSampledEvent)
def _truncated(event: events.TruncatedPoissonSampledEvent, relation: NeighboringRelation) -> Curve:
    if relation is NeighboringRelation.REPLACE_ONE:  # as in `_laws.dominating_pairs`
        if _costs.contains_sampling(event.event):
            raise UnsupportedEventError(_costs.SAMPLE_OF_A_SAMPLE.reason)
        inner = curve_of(event.event, relation)
        return lambda orders: by_public_coin(inner(orders), event.sampling_probability, orders)
    _only_gaussian("a truncated Poisson sample", event.event)
    z = event.event.noise_multiplier  # type: ignore[attr-defined]  # _only_gaussian has looked
    sample = (event.sampling_probability, event.truncated_batch_size)
    sizes = [event.population_size]  # of the larger dataset; it may be the one with a record more
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        # mutant: nobody-added-to-curve-of-truncated-sample
        sizes.append(event.population_size + 1)

    def curve(orders: Array) -> Array:
        found = [truncated_poisson_gaussian(z, n, *sample, orders, neighboring_relation=relation) for n in sizes]
        worst: Array = np.max(found, axis=0)
        return worst

    curve(np.empty(0))  # refuses what it does not know
    return lambda orders: curve(above_one(orders))


@register(events.RandomAllocationEvent)
def _allocation(event: events.RandomAllocationEvent, relation: NeighboringRelation) -> Curve:
    """Return the curve for a record that is not there; a zeroed one likewise takes part nowhere."""
    if event.num_selected == 0:
        return _nothing
    if event.num_selected == event.num_steps:
        inner = curve_of(event.event, relation)
        return lambda orders: inner(orders) * event.num_steps * (1.0 + 2.0**-50)
    _only_gaussian("a random allocation", event.event)
    if relation is NeighboringRelation.REPLACE_ONE:
        raise UnsupportedEventError(
            "no Rényi curve is known for a random allocation under REPLACE_ONE: its law is that of a record that is "
            "there or not"
        )
    if event.num_steps > 2**53:
        raise UnsupportedEventError("no Rényi curve is known for a random allocation of more than 2^53 steps")
    z = event.event.noise_multiplier  # type: ignore[attr-defined]  # _only_gaussian has looked
    chosen = event.num_selected
    return lambda orders: random_allocation_gaussian(z, event.num_steps, above_one(orders), num_selected=chosen)


def _only_gaussian(what: str, inner: PrivacyEvent) -> None:
    if not isinstance(inner, events.GaussianEvent):
        raise UnsupportedEventError(
            f"no Rényi curve is known for {what} of {type(inner).__name__}, only of GaussianEvent"
        )
