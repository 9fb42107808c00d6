"""Trainings with correlated noise: one that is begun again goes on with the same noise."""

import shutil

import pytest
import torch
from torch import nn

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.torch import start
from ferrodp.plan import CorrelatedNoise, CyclicPoisson, FlatClipping, PrivacyPlan

PLAN = PrivacyPlan(
    population_size=12,
    sampling=CyclicPoisson(1.0, num_parts=3),
    num_steps=6,
    clipping=FlatClipping(1.0),
    noise=CorrelatedNoise(BufferedToeplitz(num_steps=6, buffers=2), 3.0),
    neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
)


def summed(model, x):
    return model(x).sum()


def opened(path):
    ledger = fd.PrivacyLedger.open(path)
    if "a" not in ledger.scopes:
        ledger.create(
            "a", epsilon=50.0, delta=1e-5, measure="zcdp", neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
        )
    return ledger


def released(run, model, most=6):
    found = []
    for step in run:
        step.add(torch.ones(len(step.indices), 3))
        step.release()
        found.append(torch.cat([each.grad.flatten() for each in model.parameters()]).clone())
        if len(found) == most:
            break
    return found


def test_a_training_that_is_begun_again_goes_on_with_the_same_noise(tmp_path):
    model = nn.Linear(3, 1)
    with opened(tmp_path / "one.db") as ledger:
        where = {"ledger": ledger, "scope": "a", "key": "t", "noise_file": tmp_path / "one"}
        run = start(PLAN, model, summed, **where)
        shutil.copy(tmp_path / "one", tmp_path / "two")
        whole = released(run, model)
        price = ledger.epsilon_charged("a")
    pieces = []
    with opened(tmp_path / "two.db") as ledger:
        for most in (2, 1, 3):
            where = {"ledger": ledger, "scope": "a", "key": "t", "noise_file": tmp_path / "two"}
            pieces += released(start(PLAN, model, summed, **where), model, most)
        assert ledger.epsilon_charged("a") == price
    assert len(whole) == len(pieces) == 6
    assert all(torch.equal(one, other) for one, other in zip(whole, pieces, strict=True))
    assert not torch.equal(whole[0], whole[1])


def test_a_key_needs_its_noise_file_and_a_state_has_its_own(tmp_path):
    model = nn.Linear(3, 1)
    with opened(tmp_path / "b.db") as ledger:
        with pytest.raises(fd.errors.InvalidParameter, match="noise_file"):
            start(PLAN, model, summed, ledger=ledger, scope="a", key="t")
        assert ledger.epsilon_charged("a") == 0.0
    state = start(PLAN, model, summed).state()
    with pytest.raises(fd.errors.InvalidParameter, match="noise_file must be left out"):
        start(PLAN, model, summed, state=state, noise_file=tmp_path / "n")
