"""A server whose rounds have correlated noise starts again, and goes on with the same noise under one charge."""

import shutil

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.errors import InvalidParameter
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import CorrelatedNoise, FlatClipping, FullBatch, PrivacyPlan

PLAN = PrivacyPlan(
    unit="client",
    population_size=3,
    sampling=FullBatch(),
    num_steps=4,
    clipping=FlatClipping(1.0),
    noise=CorrelatedNoise(BufferedToeplitz(num_steps=4, buffers=1, num_participations=4), 2.0),
)


def unmoved(arrays, context):
    return dict(arrays)


def strategy_of(ledger, file, **options):
    where = {"ledger": ledger, "scope": "app", "key": "t", "noise_file": file}
    return PrivateStrategy(FedAvg(fraction_evaluate=0.0), plan=PLAN, wait=0, **where, **options)


def opened(path):
    ledger = fd.PrivacyLedger.open(path)
    if "app" not in ledger.scopes:
        ledger.create("app", epsilon=1000, delta=0.1, measure="gdp")
    return ledger


def values(result):
    return np.concatenate([array.ravel() for array in result.arrays.to_numpy_ndarrays()])


def test_a_server_that_starts_again_goes_on_with_the_same_noise(grid, model, tmp_path):
    initial = model(w=np.zeros(6, np.float32), b=np.float32(0.0))
    with opened(tmp_path / "one.db") as ledger:
        first = strategy_of(ledger, tmp_path / "one").start(grid(3, unmoved), initial, num_rounds=1)
        shutil.copy(tmp_path / "one", tmp_path / "two")
        price = ledger.epsilon_charged("app")
        second = strategy_of(ledger, tmp_path / "one").start(grid(3, unmoved), first.arrays, num_rounds=3)
        assert ledger.epsilon_charged("app") == price
    with opened(tmp_path / "two.db") as ledger:
        whole = strategy_of(ledger, tmp_path / "two").start(grid(3, unmoved), initial, num_rounds=4)
        assert ledger.epsilon_charged("app") == price
    np.testing.assert_allclose(values(second), values(whole), rtol=0, atol=1e-6)
    assert np.all(values(whole) != 0.0)
    assert not np.allclose(values(first), values(whole))


def test_a_checkpoint_keeps_no_sums_of_correlated_noise_and_says_so_before_anything_is_written(tmp_path):
    with opened(tmp_path / "b.db") as ledger:
        with pytest.raises(InvalidParameter, match=r"checkpoint must be None with CorrelatedNoise.*noise_file="):
            strategy_of(ledger, tmp_path / "n", checkpoint=tmp_path / "c")
        assert list(ledger.tickets("app")) == []
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("b.db")) == []
