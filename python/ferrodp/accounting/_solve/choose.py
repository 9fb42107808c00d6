"""Choice of the method that bounds ε or δ of a composition: closed form, contour integral or grid.

A composition is a sequence of simple events and counts under a neighboring relation. All answers are two-sided; the
lower end is 0 where an event is only bounded, not attained, by its pair of laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from ferrodp import _native, _validate
from ferrodp._numerics.intervals import Bounds, Interval, arithmetic, point
from ferrodp._numerics.rounding import sqrt_down
from ferrodp.accounting._laws import gaussian_curve as curve
from ferrodp.accounting._laws import shuffled
from ferrodp.accounting._laws.dominating_pairs import EventPairs, Spec, pairs_of
from ferrodp.accounting._solve import contour as _contour
from ferrodp.accounting._solve.other_bounds import BASIC, upper_bounds
from ferrodp.accounting._solve.renyi import known_curve
from ferrodp.accounting._solve.single_steps import delta_of_singles
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.curves import laplace
from ferrodp.accounting.rdp.rules import Curve
from ferrodp.accounting.sampling.allocation import random_allocation_delta_bounds, random_allocation_epsilon_bounds
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from ferrodp.events import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    ParallelEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    ShuffledEvent,
    decompose,
)

Events: TypeAlias = Sequence[tuple[PrivacyEvent, int]]
Directions: TypeAlias = list[list[tuple[Spec, int]]]
Quantity: TypeAlias = Literal["epsilon", "delta"]

TOLERANCE = 1e-4
"""Relative width that the grid is refined to, and above which the contour's answer is compared with the grid's."""
LOG2_MAX_NODES = 21
"""Limit on the nodes of a grid, which keeps memory below 500 MB."""
MAX_WORK = 2e6
"""Limit on the work of one answer of the grid, in cells of 0.3 µs; none where the interval is given."""
SMALLEST_DELTA = 1e-300
"""Below it the masses that δ is made of would no longer be normal numbers."""

ANCHORS: dict[Quantity, tuple[float, ...]] = {
    "epsilon": (1.0 - 1e-6, 0.9999, 0.99, 0.5, 1e-5, 1e-20, 1e-100, 1e-300),
    "delta": (0.0,),
}
"""The δ, and the ε, at which the curve is bounded where the interval at a larger one is wide: in turn, until narrow."""

MAX_ANCHORS = 3
"""Number of anchors that are asked at most, the nearest first."""
TAIL = tuple(float(f"1e-{digits}") for digits in range(3, 31, 3))
"""The δ, three decades apart, at which the grid of noise on integers is asked where it is wide at a larger one."""
LATTICES = frozenset({"discrete_gaussian", "discrete_laplace"})
"""The pairs for which it is asked there."""
MOST_LATTICES = 4
"""Number of different ones for which it is: ten grids of sixteen kinds take more than a second."""
WORK_IN_TAIL = 1.0 / 16.0
"""Share of the work of an answer that each δ of `TAIL` may cost."""
COUNT_FACTORS = (2, 8, 64)
"""Factors by which the counts grow when the contour is asked about more releases, where its interval is wide."""

SMALLEST_CONTOUR_NOISE = 0.1
"""Noise multiplier below which one contour at most is asked for an answer, and none for an ε of rare samples."""

CLOSED_FORM = "closed form of the Gaussian curve (Balle, Wang 2018, Theorem 8) at the composition's μ² = Σ1/z²"
CONTOUR = "contour integral of the privacy profile (after Alghamdi et al. 2023), with aliasing, truncation and rounding"
GRID = "privacy loss distributions on a grid (connect the dots, Doroshenko et al. 2022), convolved with a tilt"
SINGLES = "the curves of the single steps: of few, at most one is far from 0, or all are near it"
SINGLE = "the curve of a single step, P[L > ε] − e^ε·Q[L > ε], from its masses"
PURE = "the largest privacy loss there is"
NO_PAIR = "no bound: an event without a pair of laws"
SPLIT = (
    "privacy loss distributions on a grid, with the events that have no pair of laws taken together as a mechanism "
    "that is (ε₀, δ₀)-private"
)
ALLOCATION = "laws of random allocation in convex order (Feldman, Shenfeld 2025), on a geometric grid"
SHUFFLED = "two binomial tails for each number of clones (Feldman, McMillan, Talwar 2021)"
TOO_OFTEN = "no proof for more than 2^63 - 1 repetitions"


@dataclass(frozen=True, slots=True)
class Found:
    """Bounds, and how they were found."""

    bounds: Bounds
    method: str
    direction: str
    parameters: dict[str, Any] = field(default_factory=dict)
    of_pairs: Bounds | None = None
    """Bounds on the answer of the pairs, where they dominate and are not attained; None where `bounds` are these."""

    def capped(self, upper: float, method: str) -> Found:
        """Return this answer, or a smaller upper bound that another method gives for both directions."""
        if upper >= self.bounds.upper:
            return self
        return Found(Bounds(min(self.bounds.lower, upper), upper), method, "both")

    def or_less(self, other: Found) -> Found:
        """Return this answer, or the upper bound of another question whose answer is no smaller than this one's."""
        upper = other.bounds.upper
        if upper >= self.bounds.upper:
            return self
        return replace(other, bounds=Bounds(min(self.bounds.lower, upper), upper))


def pairs_or_curve(event: PrivacyEvent, relation: NeighboringRelation) -> EventPairs | Curve | Unsupported:
    """Return the dominating pairs of a simple event, or else its Rényi curve."""
    if isinstance(event, ShuffledEvent):
        return known_curve(event, relation)  # its pairs of laws take their time
    pairs = pairs_of(event, relation)
    if not isinstance(pairs, Unsupported):
        return pairs
    curve = known_curve(event, relation)
    if not isinstance(curve, Unsupported):
        return curve
    return pairs if curve.reason in pairs.reason else Unsupported(f"{pairs}, and {curve}")


def solve(
    quantity: Quantity,
    at: float,
    events: Events,
    relation: NeighboringRelation,
    interval: float | None = None,
    work: float = MAX_WORK,
) -> Found:
    """Return bounds on ε at a δ in [0, 1), or on δ at an ε ≥ 0.

    Raises
    ------
    InvalidParameter
        For a δ that is neither 0 nor at least `SMALLEST_DELTA`.
    """
    if trivial := _trivial(quantity, at, events):
        return trivial if trivial.method != TOO_OFTEN else _least(quantity, at, events, relation, trivial)
    if all(isinstance(event, GaussianEvent) for event, _ in events):
        return _gaussians(quantity, at, events)
    if interval is None and (alone := _shuffled(quantity, at, events, relation)):
        return alone
    releases = releases_of(events, relation)  # each of them has a pair of laws
    bare = releases is None and [(event, n) for event, n in events if n and _is_bare(event, relation)]
    if bare:
        return _with_bare(quantity, at, events, bare, relation, work)
    is_pure = quantity == "epsilon" and at == 0.0
    if is_pure or interval is not None:
        releases = None
    merged = _merged(events)
    known: list[tuple[EventPairs, int]] = []

    def pairs() -> list[tuple[EventPairs, int]]:
        if not known:  # of a thousand different events they take milliseconds, and a narrow contour needs none
            known.extend(paired(merged, relation))
        return known

    # Contours take up to a second then, and one that finds no narrow bounds is not followed by better ones.
    is_costly = any(release.noise_multiplier < SMALLEST_CONTOUR_NOISE for release in releases or ())

    def certified(at: float, is_anchor: bool = False) -> Found:
        if interval is None and _is_one_step(merged):
            found = _solve(quantity, at, pairs())
            single = _laplace(quantity, at, events)
            return found if single is None else _tighter(single, found)
        if releases is None:
            return _solve(quantity, at, pairs(), interval, work)
        if quantity == "epsilon" and ((is_costly and is_anchor) or _are_rare_and_hardly_noisy(releases)):
            return _solve(quantity, at, pairs(), interval, work)
        contour = _contoured(quantity, at, releases)
        if quantity == "delta" and not _is_narrow(contour.bounds):
            contour = _of_singles(at, pairs(), contour)
        if not (_is_narrow(contour.bounds) or is_anchor or is_costly):
            contour = _of_more(quantity, at, releases, contour)
        if _is_narrow(contour.bounds):
            return contour
        return _tighter(contour, _solve(quantity, at, pairs(), interval, work))

    found = certified(at)
    if is_pure or interval is not None or _is_narrow(found.bounds):
        return found

    def at_anchor(anchor: float) -> Found:
        if not 0.0 < anchor <= SMALLEST_DELTA:
            return certified(anchor, True)
        # Of masses that are hardly normal numbers grids say little; the search of the best Rényi order may do better.
        return _least(quantity, anchor, events, relation, Found(Bounds(0.0, math.inf), NO_PAIR, "both"))

    if quantity == "epsilon" and not _is_narrow(found.of_pairs or found.bounds) and _are_on_lattices(pairs()):
        found = _in_tail(lambda anchor: _solve(quantity, anchor, pairs(), None, work * WORK_IN_TAIL), at, found)
    found = _at_less(at_anchor, quantity, at, found)
    found = _least(quantity, at, events, relation, found)
    return found if quantity == "epsilon" or _is_narrow(found.bounds) else _of_singles(at, pairs(), found)


def _is_bare(event: PrivacyEvent, relation: NeighboringRelation) -> bool:
    return isinstance(pairs_of(event, relation), Unsupported)


def _of_singles(epsilon: float, pairs: Sequence[tuple[EventPairs, int]], found: Found) -> Found:
    """Return what was found, or the bound on δ that the curves of the single steps imply."""

    def curve_of_step(each: EventPairs) -> Callable[[float], float]:
        return lambda at: _solve("delta", at, [(each, 1)]).bounds.upper

    curves = [(curve_of_step(each), count) for each, count in pairs if count]
    return found.capped(delta_of_singles(epsilon, curves, found.bounds.upper), SINGLES)


def _are_rare_and_hardly_noisy(releases: Sequence[_contour.Release]) -> bool:
    """Whether contours take seconds for an ε, and mostly find none: grids do.

    Where no participation is expected, the characteristic function hardly decays; where there is little noise, it is
    costly.
    """
    expected = sum(release.count * release.sampling_probability for release in releases)
    return expected < 1.0 and any(release.noise_multiplier < SMALLEST_CONTOUR_NOISE for release in releases)


def _of_more(quantity: Quantity, at: float, releases: list[_contour.Release], found: Found) -> Found:
    """Return what was found, or the upper end for more releases: some of them are post-processing of all.

    With few expected participations a contour integral needs some hundred releases, and on the grid rounding errors
    dominate. Counts that are close are rounded to the same larger count, so that the bound of fewer releases is not the
    larger one. Once a lower end for more releases exceeds what was found, larger counts cannot help; where no ε is
    found they rarely do.
    """
    for factor in COUNT_FACTORS:
        many = [replace(release, count=_power_of_2(release.count * factor)) for release in releases]
        if any(release.count > _validate.MAX_COUNT for release in many):
            break
        again = _contoured(quantity, at, many)
        found = found.or_less(again)
        if _is_narrow(again.bounds) or again.bounds.lower >= found.bounds.upper:
            break
        if factor == COUNT_FACTORS[1] and found.bounds.upper == math.inf:
            break
    return found


def _power_of_2(count: int) -> int:
    """Return the least power of 2 that is no less."""
    return 1 << (count - 1).bit_length()


def _at_less(certified: Callable[[float], Found], quantity: Quantity, at: float, found: Found) -> Found:
    """Return what was found, or the ε of a smaller δ, or the δ of a smaller ε: neither curve ever rises.

    A δ next to 1 differs from its neighbors by 1 − δ, which is smaller than the errors of δ; at a smaller δ it is not.
    And at ε = 0, where δ is the total variation, an interval may be narrow where at larger ε it is not. Once an
    anchor's lower end exceeds what was found, anchors beyond it cannot help. In the tail, where each may take all the
    work of an answer, they are not asked once an upper end is larger, though they might help; `_in_tail` goes on.
    """
    for anchor in [anchor for anchor in ANCHORS[quantity] if anchor < at][:MAX_ANCHORS]:
        again = certified(anchor)
        found = found.or_less(again)
        if _is_narrow(again.bounds) or again.bounds.lower >= found.bounds.upper:
            break
        if quantity == "epsilon" and anchor < 0.5 and again.bounds.upper > found.bounds.upper:
            break
    return found


def _are_on_lattices(pairs: Sequence[tuple[EventPairs, int]]) -> bool:
    """Whether all losses are those of few kinds of unsampled noise on integers: nearly all mass may be at one loss."""
    return len(pairs) <= MOST_LATTICES and all(
        each.remove[0] in LATTICES and each.add[0] in LATTICES for each, _ in pairs
    )


def _in_tail(ask: Callable[[float], Found], at: float, found: Found) -> Found:
    """Return what was found, or the ε of the pairs at a smaller δ of `TAIL`.

    A composition that is (ε, δ)-private is (ε, δ′)-private for δ′ ≥ δ, so each of these answers holds. An upper end is
    that of one plan, and a plan may fail at one δ that succeeds at a smaller one: where nearly all mass is at one loss,
    δ says nothing of where to tilt. So the upper ends need not rise as δ falls, and a larger one says nothing of those
    beyond it. A lower end does: the pairs' ε at any smaller δ is no less, so that once it reaches what was found, or
    is next to the upper end, no further δ can help.

    Asked where losses are on lattices of few nodes, at milliseconds each; ten grids of other laws take seconds.
    """
    for anchor in (anchor for anchor in TAIL if anchor < at):
        again = ask(anchor)
        found = found.or_less(again)
        known = again.of_pairs or again.bounds
        if known.lower >= found.bounds.upper or _is_narrow(known):
            break
    return found


def _least(quantity: Quantity, at: float, events: Events, relation: NeighboringRelation, found: Found) -> Found:
    """Return what was found, or the least of the other upper bounds that there are."""
    if quantity == "epsilon" and not at:
        return found
    for upper, method in upper_bounds(quantity, at, events, relation):
        found = found.capped(upper, method)
    return found


def _with_bare(
    quantity: Quantity, at: float, events: Events, bare: Events, relation: NeighboringRelation, work: float
) -> Found:
    """Return bounds where some events have no pair of laws: upper ones by other measures, lower ones without them.

    What is left when the bare events are left out is post-processing, so its lower bound holds. Upper bounds: those of
    `_least`, where one measure knows all events; and with the bare ones as a single mechanism, of which nothing is
    known but an (ε₀, δ₀) that other measures imply, so that the pair of Kairouz, Oh, Viswanath (ICML 2015) dominates
    it. The order in which the two kinds happened does not matter: interactive mechanisms that run at the same time
    compose like others, in terms of their trade-off functions (Vadhan, Zhang, "Concurrent composition theorems for
    differential privacy", STOC 2023).
    """
    rest = [each for each in events if each[1] and not isinstance(pairs_of(each[0], relation), Unsupported)]
    if not rest and len(bare) == 1 and bare[0][1] == 1 and isinstance(bare[0][0], ParallelEvent):
        return _worst_of(quantity, at, bare[0][0], relation, work)
    is_epsilon = quantity == "epsilon"
    found = Found(Bounds(0.0, math.inf if is_epsilon else 1.0), NO_PAIR, "both")
    if rest:
        lower = solve(quantity, at, rest, relation, None, work).bounds.lower
        found = replace(found, bounds=Bounds(lower, found.bounds.upper))
    if is_epsilon and not at:
        for upper, method in upper_bounds(quantity, at, events, relation):
            return Found(Bounds(min(found.bounds.lower, upper), upper), method, "both") if method == BASIC else found
        return found
    found = _least(quantity, at, events, relation, found)
    if not rest:
        return _allocated(quantity, at, bare, found)
    for delta in (at / 2.0, at / 32.0) if is_epsilon else (2.0**-10, 2.0**-30):
        if delta < SMALLEST_DELTA:
            continue
        epsilon = solve("epsilon", delta, bare, relation, None, work).bounds.upper
        if epsilon < math.inf:
            spec: Spec = ("epsilon_delta", epsilon, delta)
            parts = [*paired(_merged(rest), relation), (EventPairs(spec, spec, False), 1)]
            upper = _solve(quantity, at, parts, None, work).bounds.upper
            found = found.capped(upper, SPLIT)
    return found


def _worst_of(quantity: Quantity, at: float, event: ParallelEvent, relation: NeighboringRelation, work: float) -> Found:
    """Return the worst answer of the groups: a unit is in one of them, and each can be the one.

    Of a single such event alone: with others the group may be chosen in view of them.
    """
    each = [solve(quantity, at, tuple(decompose(part)), relation, None, work) for part in event.events]
    worst = max(each, key=lambda found: found.bounds.upper)
    return replace(worst, bounds=Bounds(max(found.bounds.lower for found in each), worst.bounds.upper))


def _shuffled(quantity: Quantity, at: float, events: Events, relation: NeighboringRelation) -> Found | None:
    """Return the answer for shuffled messages alone, seen once: both ends come from their curve itself."""
    (event, count), *others = [(event, count) for event, count in events if count]
    if others or count > 1 or not isinstance(event, ShuffledEvent) or (quantity == "epsilon" and not at):
        return None
    found = shuffled.messages(event, relation)
    if isinstance(found, Unsupported):
        return None
    return Found(found.epsilon(at) if quantity == "epsilon" else found.delta(at), SHUFFLED, "symmetric")


def _allocated(quantity: Quantity, at: float, events: Events, found: Found) -> Found:
    """Return the answer for rounds of random allocation, all alike, or what was found."""
    (event, count), *others = events
    if others or not isinstance(event, RandomAllocationEvent) or not isinstance(event.event, GaussianEvent):
        return found
    rounds = {
        "noise_multiplier": event.event.noise_multiplier,
        "num_steps": event.num_steps,
        "num_selected": event.num_selected,
        "num_rounds": count,
    }
    if quantity == "epsilon":
        lower, upper = random_allocation_epsilon_bounds(delta=at, **rounds)  # type: ignore[arg-type]  # as they are checked
    else:
        lower, upper = random_allocation_delta_bounds(epsilon=at, **rounds)  # type: ignore[arg-type]  # as they are checked
    return found if found.bounds.upper < upper else Found(Bounds(min(lower, upper), upper), ALLOCATION, "both")


def solve_pairs(quantity: Quantity, at: float, parts: Sequence[tuple[EventPairs, int]]) -> Found:
    """Return the same for pairs and counts."""
    if trivial := _trivial(quantity, at, parts):
        return trivial
    return _solve(quantity, at, parts)


def _trivial(quantity: Quantity, at: float, parts: Sequence[tuple[object, int]]) -> Found | None:
    """Return what no method is needed, or suited, for; refuse what none can do."""
    if quantity == "epsilon" and 0.0 < at < SMALLEST_DELTA:
        raise _validate.out_of_domain("delta", f"0 or at least {SMALLEST_DELTA}", at)
    if not any(count for _, count in parts):
        return Found(Bounds(0.0, 0.0), "nothing was released", "symmetric")
    if any(count > _validate.MAX_COUNT for _, count in parts):
        worst = math.inf if quantity == "epsilon" else 1.0
        return Found(Bounds(0.0, worst), TOO_OFTEN, "both")
    return None


def _solve(
    quantity: Quantity,
    at: float,
    parts: Sequence[tuple[EventPairs, int]],
    interval: float | None = None,
    work: float = MAX_WORK,
) -> Found:
    remove = [(pairs.remove, count) for pairs, count in parts]
    add = [(pairs.add, count) for pairs, count in parts]
    directions = [remove] if remove == add else [remove, add]
    is_pure = quantity == "epsilon" and at == 0.0
    if is_pure:
        found = _pure(directions)
    elif interval is None and _is_one_step(parts):
        found = _one_step(quantity, at, directions)
    else:
        found = grid(quantity, at, directions, interval, work)
    is_exact = all(pairs.is_exact for pairs, _ in parts)
    return found if is_exact else replace(found, bounds=Bounds(0.0, found.bounds.upper), of_pairs=found.bounds)


def _is_one_step(parts: Sequence[tuple[object, int]]) -> bool:
    return sum(count for _, count in parts) == 1


def _one_step(quantity: Quantity, at: float, directions: Directions) -> Found:
    """Return the answer of the curve of a single step."""
    specs = [spec for direction in directions for spec, count in direction if count]
    ask = _native.pair_epsilon if quantity == "epsilon" else _native.pair_delta
    each = [ask([spec], at) for spec in specs]
    worse = max(range(len(each)), key=lambda index: each[index][1])
    bounds = Bounds(max(lower for lower, _ in each), each[worse][1])
    return Found(bounds, SINGLE, direction_name(directions, worse))


def _gaussians(quantity: Quantity, at: float, events: Events) -> Found:
    """Return the exact answer for releases that are all Gaussian and not sampled."""
    if quantity == "epsilon" and at == 0.0:
        return Found(Bounds(math.inf, math.inf), PURE, "symmetric")
    squared = squared_mu(events)
    bounds = curve.epsilon(at, squared) if quantity == "epsilon" else curve.delta(at, squared)
    return Found(bounds, CLOSED_FORM, "symmetric")


def _laplace(quantity: Quantity, at: float, events: Events) -> Found | None:
    """Return the closed form of a Laplace release, if the one event is one."""
    event = next(event for event, count in events if count)
    if not isinstance(event, LaplaceEvent) or (quantity == "epsilon" and at == 0.0):
        return None
    multiplier = event.noise_multiplier
    if quantity == "epsilon":
        bounds = laplace.laplace_epsilon_bounds(delta=at, noise_multiplier=multiplier)
    else:
        bounds = laplace.laplace_delta_bounds(epsilon=at, noise_multiplier=multiplier)
    return Found(bounds, SINGLE, "symmetric")


def squared_mu(events: Events) -> Interval:
    r = arithmetic(curve.DIGITS_OF_MU)
    total = point(0)
    for event, count in events:
        if isinstance(event, GaussianEvent):
            total = r.add(total, r.mul(point(count), curve.squared_mu(event.noise_multiplier)))
    return total


def _merged(events: Events) -> Events:
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


def direction_name(directions: Directions, index: int) -> str:
    """Return what an explanation calls the direction of that number."""
    return "symmetric" if len(directions) == 1 else ("remove", "add")[index]


def _pure(directions: Directions) -> Found:
    lower, upper = _native.pld_pure_epsilon(directions)
    return Found(Bounds(lower, upper), PURE, "symmetric" if len(directions) == 1 else "both")


def grid(
    quantity: Quantity, at: float, directions: Directions, interval: float | None = None, work: float = MAX_WORK
) -> Found:
    """Return the answer of the grid method."""
    lower, upper, index, step, nodes, tilt = _native.pld_bounds(
        directions, quantity, at, TOLERANCE, interval, (LOG2_MAX_NODES, work)
    )
    parameters = {"value_discretization_interval": step, "num_nodes": nodes, "tilt": tilt}
    return Found(Bounds(lower, upper), GRID, direction_name(directions, index), parameters)


def has_contour(events: Events, relation: NeighboringRelation) -> bool:
    """Whether all events are Gaussians, sampled or not, under a relation for which the contour answers."""
    return releases_of(events, relation) is not None or all(isinstance(event, GaussianEvent) for event, _ in events)


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


def _contoured(quantity: Quantity, at: float, releases: list[_contour.Release]) -> Found:
    """Return the contour's answer: exact in both directions, as some neighbors attain these pairs."""
    answer = _contour.bounds(quantity, releases, [at])[0]
    parameters = {"saddle": answer.saddle, "num_nodes": answer.num_nodes}
    return Found(Bounds(answer.lower, answer.upper), CONTOUR, answer.direction, parameters)


def _is_narrow(bounds: Bounds) -> bool:
    """Whether no other method can say much more: infinity is narrow only where it is proven."""
    lower, upper = bounds
    return lower == upper or (upper < math.inf and upper - lower <= TOLERANCE * upper)


def _tighter(one: Found, other: Found) -> Found:
    """Return the answer with the smaller upper end, and the larger of the lower ends."""
    tighter = one if one.bounds.upper <= other.bounds.upper else other
    lower = max(one.bounds.lower, other.bounds.lower)
    return replace(tighter, bounds=Bounds(min(lower, tighter.bounds.upper), tighter.bounds.upper))


def check_interval(value: object) -> float | None:
    """Return a grid width, or None where it is to be chosen."""
    if value is None:
        return None
    width = _validate.positive("value_discretization_interval", value)
    if not 1e-12 <= width <= 1e3:
        raise InvalidParameter(f"value_discretization_interval must be from 1e-12 to 1e3, got {width!r}")
    return width
