"""Methods that answer a question by themselves: closed forms, single steps, contour integrals and the grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._numerics.intervals import Bounds, Interval, arithmetic, point
from ferrodp.accounting._laws import gaussian_curve
from ferrodp.accounting._laws.dominating_pairs import EventPairs, Spec, allocated_step, lower_parts
from ferrodp.accounting._solve import contour as _contour
from ferrodp.accounting._solve.answers import TOLERANCE, CertifiedAnswer
from ferrodp.accounting._solve.questions import (
    MAX_WORK,
    SMALLEST_DELTA,
    Events,
    Quantity,
    Question,
    is_one_step,
)
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.curves import laplace
from ferrodp.accounting.sampling.allocation import random_allocation_delta_bounds, random_allocation_epsilon_bounds
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent, LaplaceEvent, RandomAllocationEvent

Directions: TypeAlias = list[list[tuple[Spec, int]]]

LOG2_MAX_NODES = 21
"""Limit on the nodes of a grid, which keeps memory below 500 MB."""

NOTHING = "nothing was released"
TOO_OFTEN = "no proof for more than 2^63 - 1 repetitions"
CLOSED_FORM = "closed form of the Gaussian curve (Balle, Wang 2018, Theorem 8) at the composition's μ² = Σ1/z²"
SHUFFLED = "two binomial tails for each number of clones (Feldman, McMillan, Talwar 2021)"
ALLOCATION = "laws of random allocation in convex order (Feldman, Shenfeld 2025), on a geometric grid"
PURE = "the largest privacy loss there is"
SINGLE = "the curve of a single step, P[L > ε] − e^ε·Q[L > ε], from its masses"
CONTOUR = "contour integral of the privacy profile (after Alghamdi et al. 2023), with aliasing, truncation and rounding"
GRID = "privacy loss distributions on a grid (connect the dots, Doroshenko et al. 2022), convolved with a tilt"
NO_PAIR = "no bound: an event without a pair of laws"


def check_delta(quantity: Quantity, at: float) -> None:
    """Refuse a δ that is neither 0 nor large enough."""
    if quantity == "epsilon" and 0.0 < at < SMALLEST_DELTA:
        raise _validate.out_of_domain("delta", f"0 or at least {SMALLEST_DELTA}", at)


def worst(quantity: Quantity, method: str) -> CertifiedAnswer:
    """Return the answer that says nothing."""
    return CertifiedAnswer(Bounds(0.0, math.inf if quantity == "epsilon" else 1.0), method, "both")


def nothing() -> CertifiedAnswer:
    """Return the answer where nothing happened."""
    return CertifiedAnswer(Bounds(0.0, 0.0), NOTHING, "symmetric")


def is_too_often(parts: Sequence[tuple[object, int]]) -> bool:
    """Return whether a count is one that no method can compose."""
    return any(count > _validate.MAX_COUNT for _, count in parts)


def closed_form(question: Question) -> CertifiedAnswer:
    """Return the exact answer for releases that are all Gaussian and not sampled."""
    if question.is_pure:
        return CertifiedAnswer(Bounds(math.inf, math.inf), PURE, "symmetric")
    squared = squared_mu(question.of.events)
    ask = gaussian_curve.epsilon if question.quantity == "epsilon" else gaussian_curve.delta
    return CertifiedAnswer(ask(question.at, squared), CLOSED_FORM, "symmetric")


def squared_mu(events: Events) -> Interval:
    """Return Σ1/z² of the Gaussians."""
    r = arithmetic(gaussian_curve.DIGITS_OF_MU)
    total = point(0)
    for event, count in events:
        if isinstance(event, GaussianEvent):
            total = r.add(total, r.mul(point(count), gaussian_curve.squared_mu(event.noise_multiplier)))
    return total


def shuffled_messages(question: Question) -> CertifiedAnswer:
    """Return the answer for shuffled messages alone, seen once: both ends come from their curve itself."""
    messages = question.of.messages
    assert messages is not None, "this strategy applies to them alone"
    bounds = messages.epsilon(question.at) if question.quantity == "epsilon" else messages.delta(question.at)
    return CertifiedAnswer(bounds, SHUFFLED, "symmetric")


def allocation(question: Question) -> CertifiedAnswer | None:
    """Return the answer for rounds of random allocation with Gaussian noise, all alike; None for anything else."""
    (event, count), *others = [each for each in question.of.events if each[1]]
    if others or not isinstance(event, RandomAllocationEvent) or not isinstance(event.event, GaussianEvent):
        return None
    rounds = {
        "noise_multiplier": event.event.noise_multiplier,
        "num_steps": event.num_steps,
        "num_selected": event.num_selected,
        "num_rounds": count,
    }
    if question.quantity == "epsilon":
        lower, upper = random_allocation_epsilon_bounds(delta=question.at, **rounds)  # type: ignore[arg-type]  # as they are checked
    else:
        lower, upper = random_allocation_delta_bounds(epsilon=question.at, **rounds)  # type: ignore[arg-type]  # as they are checked
    return CertifiedAnswer(Bounds(min(lower, upper), upper), ALLOCATION, "both")


def is_allocated(question: Question) -> bool:
    """Whether it is about rounds of one random allocation alone."""
    happened = [event for event, count in question.of.events if count]
    return len(happened) == 1 and isinstance(happened[0], RandomAllocationEvent)


def counted_allocation(question: Question, found: CertifiedAnswer) -> CertifiedAnswer:
    """Return an answer with a lower end from a count of what rounds of random allocation release."""
    (event, rounds), *others = [each for each in question.of.events if each[1]]
    if others or not isinstance(event, RandomAllocationEvent):
        return found
    step = allocated_step(event, question.of.relation)
    if isinstance(step, Unsupported):
        return found
    sizes = (event.num_steps, event.num_selected, rounds)
    lower, upper = found.bounds
    for direction in ("remove", "add"):
        lower = max(lower, _native.allocation_counted_lower(step, sizes, direction, question.quantity, question.at))
    return replace(found, bounds=Bounds(min(lower, upper), upper))


def single_step(question: Question) -> CertifiedAnswer:
    """Return the answer of the curve of a single step, and of the closed form if it is a Laplace release."""
    found = pairs_alone(question)
    event = next(event for event, count in question.of.events if count)
    if not isinstance(event, LaplaceEvent):
        return found
    multiplier = event.noise_multiplier
    if question.quantity == "epsilon":
        bounds = laplace.laplace_epsilon_bounds(delta=question.at, noise_multiplier=multiplier)
    else:
        bounds = laplace.laplace_delta_bounds(epsilon=question.at, noise_multiplier=multiplier)
    return CertifiedAnswer(bounds, SINGLE, "symmetric").tighter(found)


def contour(question: Question) -> CertifiedAnswer:
    """Return the contour's answer."""
    assert question.of.releases is not None, "this strategy applies to them alone"
    return contour_of(question, question.of.releases)


def contour_of(question: Question, releases: list[_contour.Release]) -> CertifiedAnswer:
    """Return the contour's answer: exact in both directions, as some neighbors attain these pairs."""
    answer = _contour.bounds(question.quantity, releases, [question.at])[0]
    parameters = {"saddle": answer.saddle, "num_nodes": answer.num_nodes}
    return CertifiedAnswer(Bounds(answer.lower, answer.upper), CONTOUR, answer.direction, parameters)


def pairs_alone(question: Question) -> CertifiedAnswer:
    """Return the answer of the pairs of laws: the largest loss, the curve of a single step, or the grid."""
    return solve_parts(question.quantity, question.at, question.of.pairs, question.interval, question.work)


def solve_pairs(quantity: Quantity, at: float, parts: Sequence[tuple[EventPairs, int]]) -> CertifiedAnswer:
    """Return the answer for pairs and counts, whatever they are."""
    check_delta(quantity, at)
    if not any(count for _, count in parts):
        return nothing()
    if is_too_often(parts):
        return worst(quantity, TOO_OFTEN)
    return solve_parts(quantity, at, parts)


def solve_parts(
    quantity: Quantity,
    at: float,
    parts: Sequence[tuple[EventPairs, int]],
    interval: float | None = None,
    work: float = MAX_WORK,
) -> CertifiedAnswer:
    """Return the answer for pairs and counts, of which some are positive and none too large."""
    found = _of_pairs(quantity, at, parts, interval, work)
    if all(pairs.is_exact for pairs, _ in parts):
        return found
    below = lower_parts(parts)
    lower = 0.0 if below is None else _of_pairs(quantity, at, below, interval, work).bounds.lower
    upper = found.bounds.upper
    return replace(found, bounds=Bounds(min(lower, upper), upper), of_pairs=found.bounds)


def _of_pairs(
    quantity: Quantity, at: float, parts: Sequence[tuple[EventPairs, int]], interval: float | None, work: float
) -> CertifiedAnswer:
    """Return the answer for the pairs themselves, attained or not."""
    directions = directions_of(parts)
    if quantity == "epsilon" and at == 0.0:
        return _pure(directions)
    if interval is None and is_one_step(parts):
        return _one_step(quantity, at, directions)
    return grid(quantity, at, directions, interval, work)


def directions_of(parts: Sequence[tuple[EventPairs, int]]) -> Directions:
    """Return the pairs and counts of both directions, or of one that stands for both."""
    remove = [(pairs.remove, count) for pairs, count in parts]
    add = [(pairs.add, count) for pairs, count in parts]
    return [remove] if remove == add else [remove, add]


def _pure(directions: Directions) -> CertifiedAnswer:
    lower, upper = _native.pld_pure_epsilon(directions)
    return CertifiedAnswer(Bounds(lower, upper), PURE, "symmetric" if len(directions) == 1 else "both")


def _one_step(quantity: Quantity, at: float, directions: Directions) -> CertifiedAnswer:
    """Return the answer of the curve of a single step."""
    specs = [spec for direction in directions for spec, count in direction if count]
    ask = _native.pair_epsilon if quantity == "epsilon" else _native.pair_delta
    each = [ask([spec], at) for spec in specs]
    worse = max(range(len(each)), key=lambda index: each[index][1])
    bounds = Bounds(max(lower for lower, _ in each), each[worse][1])
    return CertifiedAnswer(bounds, SINGLE, _direction_name(directions, worse))


def grid(
    quantity: Quantity, at: float, directions: Directions, interval: float | None = None, work: float = MAX_WORK
) -> CertifiedAnswer:
    """Return the answer of the grid method."""
    lower, upper, index, step, nodes, tilt = _native.pld_bounds(
        directions, quantity, at, TOLERANCE, interval, (LOG2_MAX_NODES, work)
    )
    parameters = {"value_discretization_interval": step, "num_nodes": nodes, "tilt": tilt}
    return CertifiedAnswer(Bounds(lower, upper), GRID, _direction_name(directions, index), parameters)


def _direction_name(directions: Directions, index: int) -> str:
    """Return what an explanation calls the direction of that number."""
    return "symmetric" if len(directions) == 1 else ("remove", "add")[index]


def check_interval(value: object) -> float | None:
    """Return a grid width, or None where it is to be chosen."""
    if value is None:
        return None
    width = _validate.positive("value_discretization_interval", value)
    if not 1e-12 <= width <= 1e3:
        raise InvalidParameter(f"value_discretization_interval must be from 1e-12 to 1e3, got {width!r}")
    return width
