"""What narrows an answer that is still wide: other theorems, and the same question where no answer is smaller.

Each takes a question and what was found, and returns that, or something with a smaller upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ferrodp._base import _validate
from ferrodp.accounting._laws.dominating_pairs import EventPairs
from ferrodp.accounting._solve import methods
from ferrodp.accounting._solve.answers import CertifiedAnswer, is_narrow
from ferrodp.accounting._solve.other_bounds import upper_bounds
from ferrodp.accounting._solve.questions import Quantity, Question
from ferrodp.accounting._solve.single_steps import delta_of_singles

SINGLES = "the curves of the single steps: of few, at most one is far from 0, or all are near it"

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


def upper_from_single_steps(question: Question, found: CertifiedAnswer) -> CertifiedAnswer:
    """Return what was found, or the bound on δ that the curves of the single steps imply."""

    def curve_of_step(each: EventPairs) -> Callable[[float], float]:
        return lambda at: methods.solve_parts("delta", at, [(each, 1)]).bounds.upper

    curves = [(curve_of_step(each), count) for each, count in question.of.pairs if count]
    return found.capped(delta_of_singles(question.at, curves, found.bounds.upper), SINGLES)


def upper_from_more_releases(question: Question, found: CertifiedAnswer) -> CertifiedAnswer:
    """Return what was found, or the upper end for more releases: some of them are post-processing of all.

    With few expected participations a contour integral needs some hundred releases, and on the grid rounding errors
    dominate. Counts that are close are rounded to the same larger count, so that the bound of fewer releases is not the
    larger one. Once a lower end for more releases exceeds what was found, larger counts cannot help; where no ε is
    found they rarely do.
    """
    for factor in COUNT_FACTORS:
        many = [replace(each, count=_power_of_2(each.count * factor)) for each in question.of.releases or ()]
        if any(release.count > _validate.MAX_COUNT for release in many):
            break
        again = methods.contour_of(question, many)
        found = found.with_upper_of(again)
        if again.is_narrow or again.bounds.lower >= found.bounds.upper:
            break
        if factor == COUNT_FACTORS[1] and found.bounds.upper == float("inf"):
            break
    return found


def _power_of_2(count: int) -> int:
    """Return the least power of 2 that is no less."""
    return 1 << (count - 1).bit_length()


def tighter_by_grid(question: Question, found: CertifiedAnswer) -> CertifiedAnswer:
    """Return the better ends of what was found and of the grid's answer."""
    return found.tighter(methods.pairs_alone(question))


def upper_in_tail(question: Question, found: CertifiedAnswer) -> CertifiedAnswer:
    """Return what was found, or the ε of the pairs at a smaller δ of `TAIL`.

    A composition that is (ε, δ)-private is (ε, δ′)-private for δ′ ≥ δ, so each of these answers holds. An upper end is
    that of one plan, and a plan may fail at one δ that succeeds at a smaller one: where nearly all mass is at one loss,
    δ says nothing of where to tilt. So the upper ends need not rise as δ falls, and a larger one says nothing of those
    beyond it. A lower end does: the pairs' ε at any smaller δ is no less, so that once it reaches what was found, or
    is next to the upper end, no further δ can help.

    Asked where losses are on lattices of few nodes, at milliseconds each; ten grids of other laws take seconds.
    """
    for anchor in (anchor for anchor in TAIL if anchor < question.at):
        again = methods.solve_parts("epsilon", anchor, question.of.pairs, None, question.work * WORK_IN_TAIL)
        found = found.with_upper_of(again)
        known = again.of_pairs or again.bounds
        if known.lower >= found.bounds.upper or is_narrow(known):
            break
    return found


def are_on_lattices(pairs: Sequence[tuple[EventPairs, int]]) -> bool:
    """Whether all losses are those of few kinds of unsampled noise on integers: nearly all mass may be at one loss."""
    return len(pairs) <= MOST_LATTICES and all(
        each.remove[0] in LATTICES and each.add[0] in LATTICES for each, _ in pairs
    )


def upper_by_monotonicity(
    question: Question, found: CertifiedAnswer, answer: Callable[[Question], CertifiedAnswer]
) -> CertifiedAnswer:
    """Return what was found, or the ε of a smaller δ, or the δ of a smaller ε: neither curve ever rises.

    A δ next to 1 differs from its neighbors by 1 − δ, which is smaller than the errors of δ; at a smaller δ it is not.
    And at ε = 0, where δ is the total variation, an interval may be narrow where at larger ε it is not. Once an
    anchor's lower end exceeds what was found, anchors beyond it cannot help. In the tail, where each may take all the
    work of an answer, they are not asked once an upper end is larger, though they might help; `upper_in_tail` goes on.
    """
    for anchor in [anchor for anchor in ANCHORS[question.quantity] if anchor < question.at][:MAX_ANCHORS]:
        again = answer(question.anchored(anchor))
        found = found.with_upper_of(again)
        if again.is_narrow or again.bounds.lower >= found.bounds.upper:
            break
        if question.quantity == "epsilon" and anchor < 0.5 and again.bounds.upper > found.bounds.upper:
            break
    return found


def upper_by_other_theorems(question: Question, found: CertifiedAnswer) -> CertifiedAnswer:
    """Return what was found, or the least of the other upper bounds that there are."""
    if question.is_pure:
        return found
    for upper, method in upper_bounds(question.quantity, question.at, question.of.events, question.of.relation):
        found = found.capped(upper, method)
    return found
