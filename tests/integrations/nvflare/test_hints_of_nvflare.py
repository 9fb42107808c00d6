"""Each way out that a message of `integrations.nvflare` names is taken, and no place with one is without a row."""

import pytest

import ferrodp as fd
from ferrodp.integrations.nvflare import GaussianUpdateFilter, PrivateFedAvg
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out

USUAL = {"clip_norm": 1.0, "delta": 1e-5, "rounds": 3}


def filtered(**changes):
    return GaussianUpdateFilter(**(USUAL | {"noise_multiplier": 1.0} | changes))


def served(**changes):
    return PrivateFedAvg(**(USUAL | {"num_clients": 4, "noise_multiplier": 1.0} | changes))


def budget(folder):
    """Make the ledger that messages name, and return its path."""
    path = folder / "budget.db"
    with fd.PrivacyLedger.open(path) as ledger:
        if "trainings" not in ledger.scopes:
            ledger.create("trainings", epsilon=8.0, delta=1e-5)
    return str(path)


HINTS = [
    Hint(
        "for example noise_multiplier=1.1",
        lambda c: filtered(noise_multiplier=None),
        lambda c: (filtered(noise_multiplier=1.1), filtered(noise_multiplier=None, target_epsilon=4.0)),
    ),
    Hint(
        "got one of them; add scope='trainings'",
        lambda c: filtered(ledger="budget.db"),
        lambda c: filtered(ledger=budget(c), scope="trainings"),
    ),
    Hint(
        "got one of them; add ledger='budget.db'",
        lambda c: filtered(scope="trainings"),
        lambda c: filtered(ledger=budget(c), scope="trainings"),
    ),
    Hint("for example skip=['train']", lambda c: filtered(skip="train"), lambda c: filtered(skip=["train"])),
    Hint("for example tasks=['train']", lambda c: filtered(tasks="train"), lambda c: filtered(tasks=["train"])),
    Hint(
        "for example noise_multiplier=1.1",
        lambda c: served(noise_multiplier=None),
        lambda c: (served(noise_multiplier=1.1), served(noise_multiplier=None, target_epsilon=4.0)),
    ),
    Hint(
        "got one of them; add scope='trainings'",
        lambda c: served(ledger="budget.db"),
        lambda c: served(ledger=budget(c), scope="trainings"),
    ),
    Hint(
        "for example key='training-1'",
        lambda c: served(ledger=budget(c), scope="trainings", checkpoint="training"),
        lambda c: served(ledger=budget(c), scope="trainings", checkpoint="training", key="training-1"),
    ),
    Hint("for example skip=['bias']", lambda c: served(skip="bias"), lambda c: served(skip=["bias"])),
    Hint("for example task_name='train'", lambda c: served(task_name=5), lambda c: served(task_name="train")),
]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_nvflare_leads_out(hint, tmp_path):
    lead_out(hint, tmp_path)


def test_no_way_out_of_nvflare_is_without_a_test(tmp_path):
    assert_all_lead_out("nvflare", HINTS, context=tmp_path)
