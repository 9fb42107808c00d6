"""What is to be solved: ε or δ of a composition, with what several methods need to know of it, found once."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from ferrodp._numerics.rounding import sqrt_down
from ferrodp.accounting._laws import shuffled
from ferrodp.accounting._laws.dominating_pairs import EventPairs, pairs_of
from ferrodp.accounting._solve import contour as _contour
from ferrodp.accounting._types import Unsupported
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import (
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PrivacyEvent,
    ShuffledEvent,
)

Events: TypeAlias = Sequence[tuple[PrivacyEvent, int]]
Quantity: TypeAlias = Literal["epsilon", "delta"]

SMALLEST_DELTA = 1e-300
"""Below it the masses that δ is made of would no longer be normal numbers."""
SMALLEST_CONTOUR_NOISE = 0.1
"""Noise multiplier below which one contour at most is tried for an answer, and none for an ε of rare samples."""
MAX_WORK = 2e6
"""Limit on the work of one answer of the grid, in cells of 0.3 µs; none where the interval is given."""


class Composition:
    """Simple events and counts under a neighboring relation, and what follows from them, computed when it is needed."""

    def __init__(self, events: Events, relation: NeighboringRelation) -> None:
        self.events, self.relation = events, relation

    @functools.cached_property
    def are_gaussian(self) -> bool:
        """Whether all events are Gaussians that are not sampled."""
        return all(isinstance(event, GaussianEvent) for event, _ in self.events)

    @functools.cached_property
    def releases(self) -> list[_contour.Release] | None:
        """What the contour method takes, or None."""
        return releases_of(self.events, self.relation)

    @functools.cached_property
    def without_pair(self) -> Events:
        """The events that happened and have no pair of laws."""
        if self.releases is not None:  # each of them has one
            return []
        return [(event, n) for event, n in self.events if n and has_no_pair(event, self.relation)]

    @functools.cached_property
    def merged(self) -> Events:
        """The events with all plain Gaussians in one."""
        return merged(self.events)

    @functools.cached_property
    def pairs(self) -> list[tuple[EventPairs, int]]:
        """The pairs of each event; of a thousand different ones they take milliseconds."""
        return paired(self.merged, self.relation)

    @functools.cached_property
    def messages(self) -> shuffled.ShuffledMessages | None:
        """The curve of shuffled messages, if they are all there is, and were seen once; else None."""
        (event, count), *others = [(event, count) for event, count in self.events if count]
        if others or count > 1 or not isinstance(event, ShuffledEvent):
            return None
        found = shuffled.messages(event, self.relation)
        return None if isinstance(found, Unsupported) else found

    @functools.cached_property
    def is_costly(self) -> bool:
        """Whether contours take up to a second; one that finds no narrow bounds is then not followed by better ones."""
        return any(release.noise_multiplier < SMALLEST_CONTOUR_NOISE for release in self.releases or ())

    @functools.cached_property
    def is_rare(self) -> bool:
        """Whether contours take seconds for an ε, and mostly find none: grids do.

        Where no participation is expected, the characteristic function hardly decays; where there is little noise, it
        is costly.
        """
        expected = sum(release.count * release.sampling_probability for release in self.releases or ())
        return self.is_costly and expected < 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """ε at a δ in [0, 1), or δ at an ε ≥ 0, of a composition."""

    quantity: Quantity
    at: float
    of: Composition
    interval: float | None = None
    """The width of the grid, where it is given: then no other method is asked."""
    work: float = MAX_WORK
    is_anchor: bool = False
    """Whether this serves another question, whose answer is no larger."""

    @property
    def is_pure(self) -> bool:
        """Whether it is the largest privacy loss that is asked."""
        return self.quantity == "epsilon" and self.at == 0.0

    @property
    def is_of_one_step(self) -> bool:
        """Whether it is about the curve of a single step."""
        return self.interval is None and not self.is_pure and is_one_step(self.of.merged)

    @property
    def is_for_contours(self) -> bool:
        """Whether a contour integral is asked first."""
        of = self.of
        if self.is_pure or self.interval is not None or of.releases is None or is_one_step(of.merged):
            return False
        return self.quantity == "delta" or not ((of.is_costly and self.is_anchor) or of.is_rare)

    def anchored(self, at: float) -> Question:
        """Return the same question at another place."""
        return replace(self, at=at, is_anchor=True)


def has_no_pair(event: PrivacyEvent, relation: NeighboringRelation) -> bool:
    """Return whether no pair of laws is known that dominates a simple event."""
    return isinstance(pairs_of(event, relation), Unsupported)


def is_one_step(parts: Sequence[tuple[object, int]]) -> bool:
    """Return whether the counts are of one step alone."""
    return sum(count for _, count in parts) == 1


def releases_of(events: Events, relation: NeighboringRelation) -> list[_contour.Release] | None:
    """Return what the contour method can take, or None."""
    if relation is NeighboringRelation.REPLACE_ONE:
        return None
    releases = []
    for event, count in events:
        probability = 1.0
        inner = event
        if isinstance(event, PoissonSampledEvent):
            probability, inner = event.sampling_probability, event.event
        if not isinstance(inner, GaussianEvent):
            return None
        releases.append(_contour.Release(inner.noise_multiplier, probability, count))
    return releases


def has_contour(events: Events, relation: NeighboringRelation) -> bool:
    """Return whether all events are Gaussians, sampled or not, under a relation for which the contour answers."""
    return releases_of(events, relation) is not None or all(isinstance(event, GaussianEvent) for event, _ in events)


def merged(events: Events) -> Events:
    """Return the events with all plain Gaussians in one, whose 1/z² is no less than their sum."""
    plain = [(event, count) for event, count in events if isinstance(event, GaussianEvent)]
    if len(plain) < 2 and all(count == 1 for _, count in plain):
        return events
    total = sum((count / Fraction(event.noise_multiplier) ** 2 for event, count in plain), Fraction(0))
    multiplier = sqrt_down(1 / total) if total else math.inf
    if not 0.0 < multiplier < math.inf:
        return events
    rest = [(event, count) for event, count in events if not isinstance(event, GaussianEvent)]
    return [*rest, (GaussianEvent(noise_multiplier=multiplier), 1)]


def paired(events: Events, relation: NeighboringRelation) -> list[tuple[EventPairs, int]]:
    """Return the pairs of each event."""
    found: list[tuple[EventPairs, int]] = []
    for event, count in events:
        pairs = pairs_of(event, relation)
        if isinstance(pairs, Unsupported):
            raise UnsupportedEventError(f"{type(event).__name__} cannot be composed: {pairs}")
        found.append((pairs, count))
    return found
