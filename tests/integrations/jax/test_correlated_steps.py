"""Trainings with correlated noise: one that is begun again goes on with the same noise."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.jax import ExampleGradients, JaxRun
from ferrodp.plan import CorrelatedNoise, CyclicPoisson, FlatClipping, PrivacyPlan

PLAN = PrivacyPlan(
    population_size=12,
    sampling=CyclicPoisson(1.0, num_parts=3),
    num_steps=6,
    clipping=FlatClipping(1.0),
    noise=CorrelatedNoise(BufferedToeplitz(num_steps=6, buffers=2), 3.0),
    neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
)
PARAMS = {"w": jnp.zeros(4), "b": jnp.zeros(())}
X = np.ones((12, 4), np.float32)


def opened(path):
    ledger = fd.PrivacyLedger.open(path)
    if "a" not in ledger.scopes:
        ledger.create(
            "a", epsilon=50.0, delta=1e-5, measure="zcdp", neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
        )
    return ledger


def released(run, most=6):
    gradients = ExampleGradients(lambda p, x: x @ p["w"] + p["b"], num_rows=4)
    found = []
    for step in run:
        gradients.add_to(step, PARAMS, X)
        found.append(step.release())
        if len(found) == most:
            break
    return found


def test_a_training_that_is_begun_again_goes_on_with_the_same_noise(tmp_path):
    with opened(tmp_path / "one.db") as ledger:
        run = JaxRun(PLAN, PARAMS, ledger=ledger, scope="a", key="t", noise_file=tmp_path / "one")
        shutil.copy(tmp_path / "one", tmp_path / "two")
        whole = released(run)
        price = ledger.epsilon_charged("a")
    pieces = []
    with opened(tmp_path / "two.db") as ledger:
        where = {"ledger": ledger, "scope": "a", "key": "t", "noise_file": tmp_path / "two"}
        for most in (2, 1, 3):
            pieces += released(JaxRun(PLAN, PARAMS, **where), most)
        assert ledger.epsilon_charged("a") == price
    assert len(whole) == len(pieces) == 6
    for one, other in zip(whole, pieces, strict=True):
        assert all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))
    assert not np.array_equal(whole[0]["w"], whole[1]["w"])


def test_a_key_needs_its_noise_file(tmp_path):
    with opened(tmp_path / "b.db") as ledger:
        with pytest.raises(fd.errors.InvalidParameter, match="noise_file"):
            JaxRun(PLAN, PARAMS, ledger=ledger, scope="a", key="t")
        assert ledger.epsilon_charged("a") == 0.0
