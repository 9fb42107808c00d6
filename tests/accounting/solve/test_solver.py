"""Which strategy answers which question, and that what comes after it never makes an answer worse."""

import math

import pytest

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._solve import methods, refinements, solver
from ferrodp.accounting._solve.answers import CertifiedAnswer
from ferrodp.accounting._solve.questions import Composition, Question
from ferrodp.events import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    ShuffledEvent,
)

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
GAUSSIAN, LAPLACE = GaussianEvent(noise_multiplier=2.0), LaplaceEvent(noise_multiplier=2.0)
SAMPLED = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.1))
MESSAGES = ShuffledEvent(
    randomizer=RandomizedResponseEvent(noise_parameter=0.5, num_buckets=4), population_size=100_000
)
ALLOCATED = RandomAllocationEvent(event=GaussianEvent(noise_multiplier=2.0), num_steps=10, num_selected=1)


def question(*events, quantity="epsilon", at=1e-5, relation=ADD, **rest):
    return Question(quantity, at, Composition(events, relation), **rest)


CASES = {
    "nothing happened": (question((GAUSSIAN, 0)), methods.NOTHING),
    "beyond all counts": (question((SAMPLED, 2**63)), methods.TOO_OFTEN),
    "Gaussians alone": (question((GAUSSIAN, 3)), methods.CLOSED_FORM),
    "messages seen once": (question((MESSAGES, 1), relation=REPLACE), methods.SHUFFLED),
    "messages seen twice": (question((MESSAGES, 2), relation=REPLACE), methods.GRID),
    "an event without a pair": (question((ALLOCATED, 1), (LAPLACE, 1)), solver.SPLIT),
    "an anchor in the last tail": (question((LAPLACE, 3), at=1e-300, is_anchor=True), methods.NO_PAIR),
    "a single step": (question((LAPLACE, 1)), methods.SINGLE),
    "a single step on a given grid": (question((LAPLACE, 1), interval=0.01), methods.GRID),
    "sampled Gaussians": (question((SAMPLED, 1000)), methods.CONTOUR),
    "sampled Gaussians, replaced": (question((SAMPLED, 1000), relation=REPLACE), methods.GRID),
    "the largest loss": (question((SAMPLED, 1000), at=0.0), methods.GRID),
    "everything else": (question((LAPLACE, 7)), methods.GRID),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_strategy_that_applies_is_the_one_that_is_documented(case):
    asked, method = CASES[case]

    assert method == next(strategy.method for strategy in solver.ANSWERS if strategy.applies(asked))


def test_every_strategy_is_chosen_by_some_question():
    assert {strategy.method for strategy in solver.ANSWERS} == {method for _, method in CASES.values()}


@pytest.mark.parametrize("step", [*solver.REFINEMENTS, *solver.FALLBACKS], ids=lambda step: step.method)
@pytest.mark.parametrize("upper", [0.0, 0.5, math.inf])
def test_no_step_makes_an_answer_worse(step, upper):
    """Of a question for contours, to which all apply; δ for those that ask single steps."""
    asked = question((SAMPLED, 3), quantity="delta", at=0.3)
    upper = min(upper, 1.0)
    wide = CertifiedAnswer(Bounds(0.0, upper), "given", "both")
    if step.bound is refinements.upper_in_tail:
        asked = question((SAMPLED, 3), at=0.3)

    found = step.bound(asked, wide)

    assert 0.0 <= found.bounds.lower <= found.bounds.upper <= upper
    if upper == 1.0:
        if step.bound is methods.counted_allocation:  # of a round alone, from below
            found = step.bound(question((ALLOCATED, 3), quantity="delta", at=0.3), wide)
            assert found.bounds.lower > 0.0
        else:
            assert found.bounds.upper < 1.0, "each of them says something of these releases"
