"""Mistakes of those who filter updates with NVFlare, and what they are told."""

import pytest

from ferrodp.integrations.nvflare import GaussianUpdateFilter, PrivateFedAvg
from support.mistakes import Mistake, Reason, objections


def made(**changes):
    usual = {"clip_norm": 1.0, "delta": 1e-5, "rounds": 3, "noise_multiplier": 1.0}
    return GaussianUpdateFilter(**(usual | changes))


def served(**changes):
    usual = {"num_clients": 4, "clip_norm": 1.0, "delta": 1e-5, "rounds": 3, "noise_multiplier": 1.0}
    return PrivateFedAvg(**(usual | changes))


MISTAKES = [
    Mistake(
        "a server without noise or a target",
        lambda c: served(noise_multiplier=None),
        "noise_multiplier or target_epsilon",
        "got neither",
        "must be given",
        "for example noise_multiplier=1.1",
    ),
    Mistake(
        "a server with a ledger and no scope",
        lambda c: served(ledger="x.db"),
        "ledger and scope",
        "got one of them",
        "must be given together",
        "add scope='trainings'",
    ),
    Mistake(
        "a server with another end",
        lambda c: served(on_exhausted="abort"),
        "on_exhausted",
        "got 'abort'",
        '"end" or "fail"',
        "for example on_exhausted='end'",
    ),
    Mistake(
        "a negative norm",
        lambda c: made(clip_norm=-1),
        "clip_norm",
        "got -1",
        "finite and > 0",
        "for example clip_norm=1.0",
    ),
    Mistake(
        "neither noise nor a target",
        lambda c: made(noise_multiplier=None),
        "noise_multiplier or target_epsilon",
        "got neither",
        "must be given",
        "for example noise_multiplier=1.1",
    ),
    Mistake(
        "another end",
        lambda c: made(on_exhausted="stop"),
        "on_exhausted",
        "got 'stop'",
        '"abort" or "refuse"',
        "for example on_exhausted='abort'",
    ),
    Mistake(
        "a ledger without a scope",
        lambda c: made(ledger="x.db"),
        "ledger and scope",
        "got one of them",
        "must be given together",
        "add scope='trainings'",
    ),
    Mistake("no rounds", lambda c: made(rounds=0), "rounds", "got 0", "an int >= 1", "for example rounds=1"),
    Mistake(
        "a name for names",
        lambda c: made(skip="bias"),
        "skip",
        "got str",
        "a sequence of names",
        "for example skip=['train']",
    ),
    Mistake(
        "a misspelt keyword of a class",
        lambda c: made(cilp_norm=1.0),
        "'cilp_norm'",
        Reason.NOT_LOOKED_AT,
        "it takes clip_norm, delta, rounds",
        "did you mean 'clip_norm'",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_nvflare_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
