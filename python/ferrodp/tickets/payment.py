"""The releases that a paid event covers: those it consists of, and those that cost no more."""

from __future__ import annotations

from typing import TypeVar

from ferrodp.events import (
    AdaptiveClipEvent,
    ComposedEvent,
    EpsilonDeltaEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    ShuffledEvent,
    TruncatedPoissonSampledEvent,
)

Kind = TypeVar("Kind", bound=PrivacyEvent)


def releases(event: PrivacyEvent) -> dict[PrivacyEvent, int]:
    """Return which releases an event pays for, and how many of each."""
    found: dict[PrivacyEvent, int] = {}
    pending = [(event, 1)]
    while pending:
        event, times = pending.pop()
        match event:
            case ComposedEvent(events=events) | ParallelEvent(events=events):  # of groups: a release about each
                pending.extend((part, times) for part in reversed(events))
            case SelfComposedEvent(event=inner, count=count):
                # mutant: repeated-event-pays-for-one-release-more
                pending.append((inner, times * count))
            case ShuffledEvent(randomizer=inner):  # the messages of all users
                pending.append((inner, times))
            case RandomAllocationEvent(event=inner, num_steps=count):  # one about each step's sample
                pending.append((inner, times * count))
            case (
                PoissonSampledEvent(event=inner)
                | FixedSizeSampledEvent(event=inner)
                | TruncatedPoissonSampledEvent(event=inner)
            ):
                pending.append((inner, times))
            case AdaptiveClipEvent(sum_noise_multiplier=of_sum, count_noise_multiplier=of_count):
                pending.extend((GaussianEvent(noise_multiplier=each), times) for each in (of_count, of_sum))
            case _:
                found[event] = found.get(event, 0) + times
    return found


def parts_of_kind(event: PrivacyEvent, *kinds: type[Kind]) -> list[Kind]:
    """Return the parts of an event that are of these kinds, whatever they are wrapped in."""
    found: list[Kind] = []
    pending = [event]
    while pending:
        event = pending.pop()
        if isinstance(event, kinds):
            found.append(event)
        if isinstance(event, (ComposedEvent, ParallelEvent)):
            pending.extend(event.events)
        elif isinstance(inner := getattr(event, "event", None), PrivacyEvent):
            pending.append(inner)
    return found


def covers(paid: PrivacyEvent, event: PrivacyEvent) -> bool:
    """Whether what was paid is surely no less than what `event` costs."""
    # mutant: event-not-compared
    if paid == event:
        return True
    if isinstance(paid, (GaussianEvent, LaplaceEvent)) and type(event) is type(paid):
        # mutant: smaller-noise-multiplier-covered
        return paid.noise_multiplier <= event.noise_multiplier
    if isinstance(paid, EpsilonDeltaEvent) and isinstance(event, EpsilonDeltaEvent):
        return paid.epsilon >= event.epsilon and paid.delta >= event.delta
    return False
