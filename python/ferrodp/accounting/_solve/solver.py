"""Bounds on ε or δ of a composition, by the first strategy that answers, and by those that narrow its answer.

`ANSWERS` is tried in order, and the first that applies gives the answer. While that is wide, `REFINEMENTS` are tried in
order; where it still is, all `FALLBACKS`. All answers are two-sided; the lower end is 0 where an event is only bounded,
not attained, by its pair of laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._laws.dominating_pairs import EventPairs, Spec, pairs_of
from ferrodp.accounting._solve import methods, refinements
from ferrodp.accounting._solve.answers import CertifiedAnswer, is_narrow
from ferrodp.accounting._solve.other_bounds import BASIC, upper_bounds
from ferrodp.accounting._solve.questions import (
    MAX_WORK,
    SMALLEST_DELTA,
    Composition,
    Events,
    Quantity,
    Question,
    has_no_pair,
    merged,
    paired,
)
from ferrodp.accounting._solve.renyi import known_curve
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.rdp.rules import Curve
from ferrodp.events import NeighboringRelation, ParallelEvent, PrivacyEvent, ShuffledEvent, decompose

SPLIT = (
    "privacy loss distributions on a grid, with the events that have no pair of laws taken together as a mechanism "
    "that is (ε₀, δ₀)-private"
)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to an answer."""

    method: str
    """What an explanation says, or what is done to an earlier answer."""
    applies: Callable[[Question], bool]
    bound: Callable[[Question], CertifiedAnswer]
    is_final: bool = False
    """Whether nothing can narrow its answer."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """A way from an answer that is wide to one that is no wider."""

    method: str
    applies: Callable[[Question, CertifiedAnswer], bool]
    bound: Callable[[Question, CertifiedAnswer], CertifiedAnswer]


def solve(
    quantity: Quantity,
    at: float,
    events: Events,
    relation: NeighboringRelation,
    interval: float | None = None,
    work: float = MAX_WORK,
) -> CertifiedAnswer:
    """Return bounds on ε at a δ in [0, 1), or on δ at an ε ≥ 0.

    Raises
    ------
    InvalidParameter
        For a δ that is neither 0 nor at least `SMALLEST_DELTA`.
    """
    methods.check_delta(quantity, at)
    return answer(Question(quantity, at, Composition(events, relation), interval, work))


def answer(question: Question) -> CertifiedAnswer:
    """Return the answer of the first strategy that applies, narrowed."""
    strategy = next(strategy for strategy in ANSWERS if strategy.applies(question))
    found = strategy.bound(question)
    if strategy.is_final or question.is_pure or question.interval is not None:
        return found
    for refinement in REFINEMENTS:
        if not found.is_narrow and refinement.applies(question, found):
            found = refinement.bound(question, found)
    if found.is_narrow or question.is_anchor:
        return found
    for fallback in FALLBACKS:
        if fallback.applies(question, found):
            found = fallback.bound(question, found)
    return found


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


def _other_theorems_alone(method: str) -> Callable[[Question], CertifiedAnswer]:
    """Return what asks the other theorems where no pair of laws says anything."""
    return lambda question: refinements.upper_by_other_theorems(question, methods.worst(question.quantity, method))


def solve_without_pairs(question: Question) -> CertifiedAnswer:
    """Return bounds where some events have no pair of laws: upper ones by other measures, lower ones without them.

    What is left when the bare events are left out is post-processing, so its lower bound holds. Upper bounds: those of
    `upper_by_other_theorems`, where one measure knows all events; and with the bare ones as a single mechanism, of
    which nothing is known but an (ε₀, δ₀) that other measures imply, so that the pair of Kairouz, Oh, Viswanath (ICML
    2015) dominates it. The order in which the two kinds happened does not matter: interactive mechanisms that run at
    the same time compose like others, in terms of their trade-off functions (Vadhan, Zhang, "Concurrent composition
    theorems for differential privacy", STOC 2023).
    """
    quantity, at, relation = question.quantity, question.at, question.of.relation
    bare = question.of.without_pair
    rest = [each for each in question.of.events if each[1] and not has_no_pair(each[0], relation)]
    if not rest and len(bare) == 1 and bare[0][1] == 1 and isinstance(bare[0][0], ParallelEvent):
        return _worst_group(question, bare[0][0])
    is_epsilon = quantity == "epsilon"
    found = methods.worst(quantity, methods.NO_PAIR)
    if rest:
        lower = solve(quantity, at, rest, relation, None, question.work).bounds.lower
        found = replace(found, bounds=Bounds(lower, found.bounds.upper))
    if question.is_pure:
        for upper, method in upper_bounds(quantity, at, question.of.events, relation):
            basic = CertifiedAnswer(Bounds(min(found.bounds.lower, upper), upper), method, "both")
            return basic if method == BASIC else found
        return found
    found = refinements.upper_by_other_theorems(question, found)
    if not rest:
        allocated = methods.allocation(question)
        return found if allocated is None or found.bounds.upper < allocated.bounds.upper else allocated
    for delta in (at / 2.0, at / 32.0) if is_epsilon else (2.0**-10, 2.0**-30):
        if delta < SMALLEST_DELTA:
            continue
        epsilon = solve("epsilon", delta, bare, relation, None, question.work).bounds.upper
        if epsilon < float("inf"):
            spec: Spec = ("epsilon_delta", epsilon, delta)
            parts = [*paired(merged(rest), relation), (EventPairs(spec, spec, False), 1)]
            found = found.capped(methods.solve_parts(quantity, at, parts, None, question.work).bounds.upper, SPLIT)
    return found


def _worst_group(question: Question, event: ParallelEvent) -> CertifiedAnswer:
    """Return the worst answer of the groups: a unit is in one of them, and each can be the one.

    Of a single such event alone: with others the group may be chosen in view of them.
    """
    quantity, at, relation, work = question.quantity, question.at, question.of.relation, question.work
    each = [solve(quantity, at, tuple(decompose(part)), relation, None, work) for part in event.events]
    worst = max(each, key=lambda found: found.bounds.upper)
    return replace(worst, bounds=Bounds(max(found.bounds.lower for found in each), worst.bounds.upper))


ANSWERS = (
    Strategy(
        methods.NOTHING,
        applies=lambda question: not any(count for _, count in question.of.events),
        bound=lambda question: methods.nothing(),
        is_final=True,
    ),
    Strategy(
        methods.TOO_OFTEN,
        applies=lambda question: methods.is_too_often(question.of.events),
        bound=_other_theorems_alone(methods.TOO_OFTEN),
        is_final=True,
    ),
    Strategy(
        methods.CLOSED_FORM,
        applies=lambda question: question.of.are_gaussian,
        bound=methods.closed_form,
        is_final=True,
    ),
    Strategy(
        methods.SHUFFLED,
        applies=lambda question: (
            question.interval is None and not question.is_pure and question.of.messages is not None
        ),
        bound=methods.shuffled_messages,
        is_final=True,
    ),
    Strategy(
        SPLIT,
        applies=lambda question: bool(question.of.without_pair),
        bound=solve_without_pairs,
        is_final=True,
    ),
    # Of masses that are hardly normal numbers grids say little; the search of the best Rényi order may do better.
    Strategy(
        methods.NO_PAIR,
        applies=lambda question: question.is_anchor and 0.0 < question.at <= SMALLEST_DELTA,
        bound=_other_theorems_alone(methods.NO_PAIR),
        is_final=True,
    ),
    Strategy(methods.SINGLE, applies=lambda question: question.is_of_one_step, bound=methods.single_step),
    Strategy(methods.CONTOUR, applies=lambda question: question.is_for_contours, bound=methods.contour),
    Strategy(methods.GRID, applies=lambda question: True, bound=methods.pairs_alone),
)
"""The strategies that answer, and the name of the method of each: the first that applies."""

REFINEMENTS = (
    Refinement(
        refinements.SINGLES,
        applies=lambda question, found: question.quantity == "delta" and question.is_for_contours,
        bound=refinements.upper_from_single_steps,
    ),
    Refinement(
        "the contour of more releases",
        applies=lambda question, found: (
            question.is_for_contours and not question.is_anchor and not question.of.is_costly
        ),
        bound=refinements.upper_from_more_releases,
    ),
    Refinement(
        methods.GRID,
        applies=lambda question, found: question.is_for_contours,
        bound=refinements.tighter_by_grid,
    ),
)
"""What narrows the answer of a contour integral, in order, until it is narrow."""

FALLBACKS = (
    Refinement(
        "a count of what is released",
        applies=lambda question, found: methods.is_allocated(question),
        bound=methods.counted_allocation,
    ),
    Refinement(
        "the grid in the tail of noise on integers",
        applies=lambda question, found: (
            question.quantity == "epsilon"
            and not is_narrow(found.of_pairs or found.bounds)
            and refinements.are_on_lattices(question.of.pairs)
        ),
        bound=refinements.upper_in_tail,
    ),
    Refinement(
        "the curve where no answer is smaller",
        applies=lambda question, found: True,
        bound=lambda question, found: refinements.upper_by_monotonicity(question, found, answer),
    ),
    Refinement(
        "other theorems",
        applies=lambda question, found: True,
        bound=refinements.upper_by_other_theorems,
    ),
    Refinement(
        refinements.SINGLES,
        applies=lambda question, found: question.quantity == "delta" and not found.is_narrow,
        bound=refinements.upper_from_single_steps,
    ),
)
"""What bounds an answer that is still wide, in order: other questions and other theorems."""
