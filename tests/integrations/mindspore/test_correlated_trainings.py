"""Trainings with noise that cancels over the steps: what they cost, what is refused, and what a kill leaves."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from correlated_training import EPOCHS, PARTS, SIZE, STEPS, Diary, dataset, mechanism, model_of, opened

import ferrodp as fd
from ferrodp.correlated import Tree
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.integrations.mindspore import (
    ClipMechanismsFactory,
    IndexedDataset,
    NoiseCorrelatedGaussianRandom,
    NoiseGaussianRandom,
    PrivacyMonitorFactory,
)
from ferrodp.plan import CorrelatedNoise, CyclicPoisson, FlatClipping, PrivacyPlan

PROGRAM = Path(__file__).with_name("correlated_training.py")


def trained(epochs=EPOCHS, calls=1, **given):
    """Return what each step released, call by call, and the model."""
    model, optimizer = model_of(**given)
    found = []
    for _ in range(calls):
        steps = {}
        model.train(epochs, dataset(), callbacks=[Diary(optimizer, steps.__setitem__)])
        found.append(steps)
    return found, model


def test_a_training_is_charged_as_one_release_for_its_participations():
    model, _ = model_of()
    plan = model.privacy_plan(EPOCHS, dataset())
    same = PrivacyPlan(
        unit="record",
        population_size=SIZE,
        sampling=CyclicPoisson(1.0, num_parts=PARTS),
        num_steps=STEPS,
        clipping=FlatClipping(1.0),
        noise=CorrelatedNoise(mechanism().strategy, 3.0),
        neighboring_relation=fd.events.NeighboringRelation.REPLACE_SPECIAL,
    )
    assert plan == same
    monitor = PrivacyMonitorFactory.create("zcdp", num_samples=SIZE, batch_size=SIZE // PARTS, max_eps=50.0)
    assert monitor.cost(plan.event, plan.neighboring_relation)[0] >= plan.epsilon(1e-3)
    (steps,), model = trained()
    assert sorted(steps) == list(range(STEPS))
    assert model.epsilon(1e-5) == plan.epsilon(1e-5)


def test_the_noise_cancels_over_the_steps():
    """The strategy makes of all noise independent variables: 12 steps of 15 values, no mean square off by 6 sigmas."""
    (steps,), _ = trained()
    noise = np.array([steps[t] for t in range(STEPS)]) * (SIZE // PARTS)
    (other,), _ = trained()
    noise = (noise - np.array([other[t] for t in range(STEPS)]) * (SIZE // PARTS)) / np.sqrt(2.0)  # gradients are alike
    column = mechanism().strategy.coefficients()
    white = sum(np.diag(np.full(STEPS - lag, column[lag]), -lag) for lag in range(STEPS)) @ noise / 3.0
    assert abs(np.mean(white**2) - 1.0) < 6.0 * np.sqrt(2.0 / white.size)
    assert np.mean(np.cumsum(noise, axis=0)[-1] ** 2) < 0.7 * np.sum(np.mean(noise**2, axis=1))


def test_a_training_that_is_begun_again_goes_on_with_the_same_noise(tmp_path):
    with opened(tmp_path / "b.db") as ledger:
        where = {"ledger": ledger, "scope": "a", "key": "t", "noise_file": tmp_path / "noise"}
        whole, _ = trained(calls=2, **where)
        assert sorted(path.name for path in tmp_path.glob("noise*")) == ["noise", "noise.1"]
        price = ledger.epsilon_charged("a")
        again, _ = trained(calls=2, **where)
        assert ledger.epsilon_charged("a") == price
    assert again == [{}, {}]
    assert whole[0] != whole[1]


def test_what_could_not_go_on_is_refused_before_a_charge(tmp_path):
    with opened(tmp_path / "b.db") as ledger:
        where = {"ledger": ledger, "scope": "a", "key": "t"}
        with pytest.raises(InvalidParameter, match="noise_file must be given together"):
            model_of(**where)
        with pytest.raises(InvalidParameter, match="noise_file must be given together"):
            model_of(noise_file=tmp_path / "noise")
        with pytest.raises(InvalidParameter, match="noise_file must be None: only NoiseCorrelatedGaussianRandom"):
            model_of(noise_mech=NoiseGaussianRandom(), noise_file=tmp_path / "noise", **where)
        with pytest.raises(InvalidType, match="noise_file must be a path or None, got int"):
            model_of(noise_file=3, **where)
        with pytest.raises(InvalidParameter, match="clip_mech must be None where noise cancels"):
            model_of(clip_mech=ClipMechanismsFactory.create("Gaussian"))
        with pytest.raises(InvalidParameter, match="strategy must have an inverse"):
            NoiseCorrelatedGaussianRandom(Tree(num_steps=STEPS))
        with pytest.raises(InvalidType, match="strategy must be a Strategy"):
            NoiseCorrelatedGaussianRandom(3)
        samples = IndexedDataset(np.ones((SIZE, 4), np.float32), np.zeros(SIZE, np.int32), batch_size=4)
        model, _ = model_of(noise_file=tmp_path / "noise", **where)
        with pytest.raises(InvalidParameter, match="CorrelatedNoise"):
            model.train(EPOCHS, samples)  # Poisson samples, of which each may be next to any other
        model.train(1, dataset(), callbacks=[])
        os.unlink(tmp_path / "noise")
        with pytest.raises(FerroError, match="noise that cancels theirs is lost"):
            model_of(noise_file=tmp_path / "noise", **where)[0].train(1, dataset())


def _begun(folder, name, diary):
    return subprocess.Popen([sys.executable, PROGRAM, folder, name, diary], stdout=subprocess.PIPE, cwd=folder)


def test_killed_after_any_step_a_training_draws_the_same_noise_and_no_step_twice(tmp_path):
    """Three kills, each within a step or two of a random one, then a run to the end, beside one that nobody killed."""
    for name in ("one.db", "two.db"):
        opened(tmp_path / name).close()
    draw, written = random.Random(0), lambda: (tmp_path / "diary").read_text().count("\n")
    for _ in range(3):
        child = _begun(tmp_path, "one.db", "diary")
        before = written() if (tmp_path / "diary").exists() else 0
        until = before + draw.randrange(1, 4)
        while child.poll() is None and not ((tmp_path / "diary").exists() and written() >= until):
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.communicate()
    prices = []
    for name, diary in (("one.db", "diary"), ("two.db", "whole")):
        child = _begun(tmp_path, name, diary)
        prices.append(child.communicate()[0].decode().split()[1])
        assert child.returncode == 0

    read = {
        name: [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] for name in ("diary", "whole")
    }
    numbers = [number for number, *_ in read["diary"]]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= STEPS - 3
    assert [number for number, *_ in read["whole"]] == list(range(STEPS))
    assert all(line == read["whole"][line[0]] for line in read["diary"])
    assert prices[0] == prices[1]
