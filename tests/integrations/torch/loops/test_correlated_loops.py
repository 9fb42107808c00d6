"""Loops made private with correlated noise: one that was killed goes on with the same noise and repeats no step."""

import dataclasses
import json
import os
import random
import shutil
import signal
import time

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.torch import make_private
from ferrodp.plan import ConstantNoise, CorrelatedNoise, CyclicPoisson, FlatClipping, PrivacyPlan
from support import children

SIZE, STEPS = 12, 6
PLAN = PrivacyPlan(
    population_size=SIZE,
    sampling=CyclicPoisson(1.0, num_parts=3),
    num_steps=STEPS,
    clipping=FlatClipping(1.0),
    noise=CorrelatedNoise(BufferedToeplitz(num_steps=STEPS, buffers=2), 3.0),
    neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
)


def opened(path):
    ledger = fd.PrivacyLedger.open(path)
    if "a" not in ledger.scopes:
        ledger.create(
            "a", epsilon=50.0, delta=1e-5, measure="zcdp", neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
        )
    return ledger


def private(plan=PLAN, **where):
    """Return model, optimizer and loader; the learning rate is 0, so that a release depends on its step alone."""
    model = nn.Linear(3, 1)
    with torch.no_grad():
        for each in model.parameters():
            each.fill_(0.5)
    loader = DataLoader(TensorDataset(torch.ones(SIZE, 3)), batch_size=4)
    return make_private(model, torch.optim.SGD(model.parameters(), lr=0.0), loader, plan=plan, **where)


def released(model, optimizer, loader, most=STEPS, after=lambda number, values: None):
    """Return what the next steps release, by step."""
    found = {}
    for (x,) in loader:
        number = optimizer.private.step_number
        model(x).mean().backward()
        optimizer.step()
        found[number] = [value for each in model.parameters() for value in each.grad.flatten().tolist()]
        after(number, found[number])
        if len(found) == most:
            break
    return found


def loaders_of_all_steps(model, optimizer, loader, **options):
    found = {}
    while optimizer.private.stopped is None:
        found |= released(model, optimizer, loader, **options)
    return found


def test_a_loop_that_is_begun_again_goes_on_with_the_same_noise(tmp_path):
    with opened(tmp_path / "one.db") as ledger:
        parts = private(ledger=ledger, scope="a", key="t", noise_file=tmp_path / "one")
        shutil.copy(tmp_path / "one", tmp_path / "two")
        whole = loaders_of_all_steps(*parts)
        price = ledger.epsilon_charged("a")
    pieces = []
    with opened(tmp_path / "two.db") as ledger:
        for most in (2, 1, 3):
            parts = private(ledger=ledger, scope="a", key="t", noise_file=tmp_path / "two")
            found = {}
            while len(found) < most:
                found |= released(*parts, most=most - len(found))
            pieces.append(found)
        assert ledger.epsilon_charged("a") == price
    assert [sorted(each) for each in pieces] == [[0, 1], [2], [3, 4, 5]]
    assert {**pieces[0], **pieces[1], **pieces[2]} == whole
    assert sorted(whole) == list(range(STEPS))
    assert whole[0] != whole[3]


def test_a_state_that_is_loaded_goes_on_with_the_noise_of_the_file(tmp_path):
    where = {"scope": "a", "key": "t", "noise_file": tmp_path / "one"}
    with opened(tmp_path / "one.db") as ledger:
        model, optimizer, loader = private(ledger=ledger, **where)
        shutil.copy(tmp_path / "one", tmp_path / "two")
        first = released(model, optimizer, loader, most=2)
        saved = optimizer.state_dict()
        model, optimizer, loader = private(ledger=ledger, **where)
        optimizer.load_state_dict(saved)
        first |= loaders_of_all_steps(model, optimizer, loader)
    with opened(tmp_path / "two.db") as ledger:
        where["noise_file"] = tmp_path / "two"
        assert loaders_of_all_steps(*private(ledger=ledger, **where)) == first


def test_a_loop_without_its_noise_is_refused_before_a_step(tmp_path):
    with opened(tmp_path / "b.db") as ledger:
        with pytest.raises(InvalidParameter, match="noise_file must be given together"):
            private(ledger=ledger, scope="a", key="t")
        independent = dataclasses.replace(PLAN, noise=ConstantNoise(9.0))
        with pytest.raises(InvalidParameter, match="noise_file must be None: only CorrelatedNoise"):
            private(independent, ledger=ledger, scope="a", key="t", noise_file=tmp_path / "n")
        assert ledger.epsilon_charged("a") == 0.0
        where = {"ledger": ledger, "scope": "a", "key": "t", "noise_file": tmp_path / "n"}
        released(*private(**where), most=1)
        price = ledger.epsilon_charged("a")
        os.unlink(tmp_path / "n")
        with pytest.raises(FerroError, match="is lost; begin another training"):
            private(**where)
        assert ledger.epsilon_charged("a") == price


def _train(folder, name, diary, delay):
    with fd.PrivacyLedger.open(folder / name) as ledger, children.diary(diary) as wrote:

        def after(number, values):
            wrote(json.dumps([number, *values]))
            time.sleep(delay)

        loaders_of_all_steps(
            *private(ledger=ledger, scope="a", key="t", noise_file=folder / "noise"), most=STEPS, after=after
        )


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_a_loop_draws_the_same_noise_and_no_step_twice(tmp_path, seed):
    """Ten kills in all, at random moments; a step that was begun and not written is left out."""
    for name in ("one.db", "two.db"):
        opened(tmp_path / name).close()
    draw = random.Random(seed)
    for _ in range(5):
        child = children.start(_train, tmp_path, "one.db", tmp_path / "diary", 0.02)
        time.sleep(draw.uniform(0.0, 0.15))
        os.kill(child, signal.SIGKILL)
        children.end_of(child)
    assert children.run(_train, tmp_path, "one.db", tmp_path / "diary", 0.0) == 0
    assert children.run(_train, tmp_path, "two.db", tmp_path / "whole", 0.0) == 0

    read = {
        name: [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] for name in ("diary", "whole")
    }
    numbers = [number for number, *_ in read["diary"]]
    assert numbers == sorted(set(numbers))
    assert [number for number, *_ in read["whole"]] == list(range(STEPS))
    assert all(line == read["whole"][line[0]] for line in read["diary"])
    with opened(tmp_path / "one.db") as one, opened(tmp_path / "two.db") as two:
        assert one.epsilon_charged("a") == two.epsilon_charged("a")
