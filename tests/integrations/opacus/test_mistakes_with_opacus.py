"""Mistakes of those who train with Opacus, and what they are told."""

import pytest

from ferrodp.integrations import opacus
from support.mistakes import Mistake, Reason, objections

MISTAKES = [
    Mistake(
        "a number for an optimizer",
        lambda c: opacus.make_exact(5),
        "optimizer",
        "got int",
        "an opacus DPOptimizer with flat clipping",
        "PrivacyEngine.make_private returns one",
    ),
    Mistake(
        "numbers for triples",
        lambda c: opacus.from_opacus_history([1]),
        "history",
        "got int",
        "triples of noise multiplier, sample rate and number of steps",
        "for example [(1.1, 0.01, 500)]",
    ),
    Mistake(
        "a number for an event",
        lambda c: opacus.to_opacus_history(5),
        "event",
        "got int",
        "a privacy event",
        "EpsilonDeltaEvent(epsilon=5)",
    ),
    Mistake(
        "a delta of 2",
        lambda c: opacus.CertifiedAccountant().get_epsilon(2.0),
        "delta",
        "got 2.0",
        "finite and in [0, 1)",
        "for example delta=1e-6",
    ),
    Mistake(
        "a misspelt keyword",
        lambda c: opacus.make_exact(optimiser=1),
        "'optimiser'",
        Reason.NOT_LOOKED_AT,
        "it takes optimizer, source",
        "did you mean 'optimizer'",
    ),
    Mistake(
        "a state of nothing",
        lambda c: opacus.CertifiedAccountant().load_state_dict({}),
        "state_dict",
        "got []",
        "the keys 'history' and 'mechanism'",
        "accountant.state_dict() returns one",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_opacus_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
