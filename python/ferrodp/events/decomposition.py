"""Events taken apart into the simple ones that accountants know."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from ferrodp._base import _validate
from ferrodp._numerics.rounding import sqrt_down
from ferrodp.events import sampling
from ferrodp.events.base import PrivacyEvent, check_event
from ferrodp.events.composition import ComposedEvent, ParallelEvent, RepeatAndSelectEvent, SelfComposedEvent
from ferrodp.events.correlated import MatrixMechanismEvent, TreeAggregationEvent
from ferrodp.events.noise import AdaptiveClipEvent, GaussianEvent
from ferrodp.events.sampling import FixedSizeSampledEvent, PoissonSampledEvent
from ferrodp.events.stated import NonPrivateEvent
from ferrodp.events.tree import tree_sensitivity_squared

NOTHING = ComposedEvent(events=())


def decompose(event: PrivacyEvent, count: int = 1) -> Iterator[tuple[PrivacyEvent, int]]:
    """Yield the simple events that `count` times `event` is made of, in order, and how often each happens.

    Simple events are single mechanisms and samples of single mechanisms. Counts multiply when nested, as Python
    integers without limit. Each event is replaced by one that costs the same, up to the rounding of a float:

    ==============================================  ===================================================
    adaptive clipping, tree, matrix mechanism       the Gaussian event of the same cost, rounded down
    Poisson sample, probability 0 (1)               nothing (what is sampled)
    Poisson sample of a Poisson sample              one with the product of the probabilities, rounded up
    sample of size 0                                nothing
    sample of a sample, both of fixed size          the smaller one of the larger population
    truncated Poisson sample that is never cut      the Poisson sample, with room for one more record
    random allocation to no step (every step)       nothing (every step)
    Gaussian releases about the same sample         one, with 1/z² = Σ1/zᵢ²
    other releases about the same sample            one sample of the composition of their simple events
    repetition with mean 1, Poisson law excepted    what is repeated
    repetition with a release without protection    a release without protection
    repetition of something else                    the repetition of its simple events
    disjoint groups, one of which is not protected  a release without protection
    mixture of one shift                            nothing or the Gaussian event
    ==============================================  ===================================================

    Parameters
    ----------
    event : PrivacyEvent
        What happened.
    count : int
        How often.

    Yields
    ------
    PrivacyEvent
        A simple event.
    int
        How often it happens; 0 is possible.

    Raises
    ------
    InvalidParameter, InvalidType
        If `event` is not an event, or `count` no int ≥ 0.

    Examples
    --------
    >>> from ferrodp.events import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.1))
    >>> epoch = SelfComposedEvent(event=step, count=100)
    >>> [(part == step, times) for part, times in decompose(epoch, 3)]
    [(True, 300)]
    """
    check_event("event must be", event)
    if type(count) is not int or count < 0:
        count = _validate.count("count", count, minimum=0)
    pending = [(event, count)]
    while pending:
        event, count = pending.pop()
        if isinstance(event, SelfComposedEvent):
            # mutant: nested-counts-do-not-multiply
            pending.append((event.event, count * event.count))
        elif isinstance(event, ComposedEvent):
            pending.extend((part, count) for part in reversed(event.events))
        else:
            rewritten = _rewrite(event)
            if rewritten is event:
                yield event, count
            else:
                pending.append((rewritten, count))


def parts_of(event: PrivacyEvent) -> tuple[tuple[PrivacyEvent, int], ...]:
    """Return what `decompose` yields for an event that happens once; most are simple, which this tells sooner."""
    check_event("event must be", event)
    if type(event) is not SelfComposedEvent and type(event) is not ComposedEvent and _rewrite(event) is event:
        return ((event, 1),)
    return tuple(decompose(event))


def _rewrite(event: PrivacyEvent) -> PrivacyEvent:
    """Return an event of the same cost that is one step simpler, or the same object if it is simple."""
    rule = _RULES.get(type(event))
    return event if rule is None else rule(event)


def _gaussian(inverse_square: Fraction) -> PrivacyEvent:
    """Return the Gaussian event with 1/z² no less than the given number."""
    if not inverse_square:
        return NOTHING
    # mutant: multiplier-of-sum-of-events-rounded-up
    multiplier = sqrt_down(1 / inverse_square)
    return GaussianEvent(noise_multiplier=multiplier) if multiplier else NonPrivateEvent()  # below all floats


def _adaptive_clip(event: AdaptiveClipEvent) -> PrivacyEvent:
    parts = (event.sum_noise_multiplier, event.count_noise_multiplier)
    return _gaussian(sum((1 / Fraction(part) ** 2 for part in parts), Fraction(0)))


def _tree(event: TreeAggregationEvent) -> PrivacyEvent:
    squared = tree_sensitivity_squared(
        num_steps=event.num_steps, max_participation=event.max_participation, min_separation=event.min_separation
    )
    return _gaussian(squared / Fraction(event.noise_multiplier) ** 2)


def _matrix(event: MatrixMechanismEvent) -> PrivacyEvent:
    return _gaussian((Fraction(event.sensitivity) / Fraction(event.noise_multiplier)) ** 2)


def _poisson(event: PoissonSampledEvent) -> PrivacyEvent:
    if event.sampling_probability == 0.0:
        return NOTHING
    if event.sampling_probability == 1.0:
        return event.event
    inner = _about_one_sample(event.event)
    if inner is None:
        return NOTHING
    if inner is event.event and not isinstance(inner, PoissonSampledEvent):
        return event
    probability, null_distance = Fraction(event.sampling_probability), event.null_distance
    while isinstance(inner, PoissonSampledEvent):
        # mutant: samples-of-samples-take-larger-probability
        probability *= Fraction(inner.sampling_probability)
        null_distance = max(null_distance, inner.null_distance)
        inner = inner.event
    return PoissonSampledEvent(
        sampling_probability=probability,  # type: ignore[arg-type]  # rounds up
        event=inner,
        null_distance=null_distance,
    )


def _fixed_size(event: FixedSizeSampledEvent) -> PrivacyEvent:
    if event.sample_size == 0:
        return NOTHING
    size = event.sample_size
    inner = _about_one_sample(event.event)
    if inner is None:
        return NOTHING
    if isinstance(inner, FixedSizeSampledEvent) and inner.population_size == size:
        size, inner = inner.sample_size, inner.event
    if inner is event.event:
        return event
    return FixedSizeSampledEvent(population_size=event.population_size, sample_size=size, event=inner)


def _truncated_poisson(event: sampling.TruncatedPoissonSampledEvent) -> PrivacyEvent:
    if event.sampling_probability == 0.0 or event.truncated_batch_size == 0:
        return NOTHING
    # mutant: cut-that-can-happen-taken-for-none
    if event.truncated_batch_size > event.population_size:
        return PoissonSampledEvent(sampling_probability=event.sampling_probability, event=event.event)
    return _of_one_event(event)


def _allocation(event: sampling.RandomAllocationEvent) -> PrivacyEvent:
    if event.num_selected == 0:
        return NOTHING
    if event.num_selected == event.num_steps:
        return SelfComposedEvent(event=event.event, count=event.num_steps)
    return _of_one_event(event)


def _of_one_event(event: sampling.TruncatedPoissonSampledEvent | sampling.RandomAllocationEvent) -> PrivacyEvent:
    """Return the event with a single one inside: that very object if it is so already."""
    inner = _about_one_sample(event.event)
    if inner is None:
        return NOTHING
    return event if inner is event.event else dataclasses.replace(event, event=inner)


def _repeat(event: RepeatAndSelectEvent) -> PrivacyEvent:
    if event.mean == 1.0 and event.shape < float("inf"):
        return event.event
    counts = _counted(event.event)
    if not counts:
        return NOTHING
    if any(isinstance(part, NonPrivateEvent) for part in counts):
        return NonPrivateEvent()
    inner = _together(event.event, counts)
    return event if inner is event.event else dataclasses.replace(event, event=inner)


def _together(event: PrivacyEvent, counts: dict[PrivacyEvent, int]) -> PrivacyEvent:
    """Return the composition of simple events that an event is: that very object if it is written so already."""
    if max(counts.values()) > _validate.MAX_COUNT:
        return event
    parts = [part if times == 1 else SelfComposedEvent(event=part, count=times) for part, times in counts.items()]
    found = parts[0] if len(parts) == 1 else ComposedEvent(events=tuple(parts))
    return event if found == event else found


def _parallel(event: ParallelEvent) -> PrivacyEvent:
    groups = [counts for counts in map(_counted, event.events) if counts]
    if not groups:
        return NOTHING
    return NonPrivateEvent() if any(isinstance(part, NonPrivateEvent) for group in groups for part in group) else event


def _mixture(event: sampling.MixtureOfGaussiansEvent) -> PrivacyEvent:
    shifts = {shift for shift, probability in zip(event.shifts, event.probabilities, strict=True) if probability}
    if len(shifts) > 1:
        return event
    return _gaussian((Fraction(*shifts.pop().as_integer_ratio()) / Fraction(event.noise_multiplier)) ** 2)


def _counted(event: PrivacyEvent) -> dict[PrivacyEvent, int]:
    """Return the simple events that do happen and how often, in order."""
    counts: dict[PrivacyEvent, int] = {}
    for part, times in decompose(event):
        if times:
            counts[part] = counts.get(part, 0) + times
    return counts


def _about_one_sample(event: PrivacyEvent) -> PrivacyEvent | None:
    """Return the single event that says what is released about one sample, or None for nothing."""
    if type(event) not in _RULES and not isinstance(event, (SelfComposedEvent, ComposedEvent)):
        return event
    parts = _counted(event)
    if not parts:
        return None
    if len(parts) == 1 and sum(parts.values()) == 1:
        return next(iter(parts))
    if any(isinstance(part, NonPrivateEvent) for part in parts):
        return NonPrivateEvent()
    # mutant: releases-about-one-sample-need-not-gaussian
    if not all(isinstance(part, GaussianEvent) for part in parts):
        return _together(event, parts)
    inverse_square = Fraction(0)
    for part, times in parts.items():
        if isinstance(part, GaussianEvent):
            # mutant: several-releases-about-one-sample-cost-one
            inverse_square += times / Fraction(part.noise_multiplier) ** 2
    return _gaussian(inverse_square)


_RULES: dict[type[PrivacyEvent], Callable[[Any], PrivacyEvent]] = {
    AdaptiveClipEvent: _adaptive_clip,
    TreeAggregationEvent: _tree,
    MatrixMechanismEvent: _matrix,
    PoissonSampledEvent: _poisson,
    FixedSizeSampledEvent: _fixed_size,
    sampling.TruncatedPoissonSampledEvent: _truncated_poisson,
    sampling.RandomAllocationEvent: _allocation,
    RepeatAndSelectEvent: _repeat,
    ParallelEvent: _parallel,
    sampling.MixtureOfGaussiansEvent: _mixture,
}
