"""A server whose rounds have correlated noise starts again, and goes on with the same noise under one charge."""

import shutil

import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg

import ferrodp as fd
from ferrodp.correlated import BandedToeplitz, BufferedToeplitz
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import CorrelatedNoise, CyclicPoisson, FlatClipping, FullBatch, PrivacyPlan

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


def opened(path, relation="add_or_remove_one"):
    ledger = fd.PrivacyLedger.open(path)
    if "app" not in ledger.scopes:
        ledger.create("app", epsilon=1000, delta=0.1, measure="gdp", neighboring_relation=relation)
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


def test_a_checkpoint_keeps_sums_of_correlated_noise_where_a_ledger_pays_and_says_so_first(tmp_path):
    with opened(tmp_path / "b.db") as ledger:
        whole = {"ledger": ledger, "scope": "app", "key": "t", "noise_file": tmp_path / "n"}
        for left_out in (("ledger", "scope", "key"), ("noise_file",), tuple(whole)):
            options = {name: value for name, value in whole.items() if name not in left_out}
            with pytest.raises(InvalidParameter, match="needs a ledger, a key and a noise_file with CorrelatedNoise"):
                PrivateStrategy(FedAvg(), plan=PLAN, checkpoint=tmp_path / "c", **options)
        assert list(ledger.tickets("app")) == []
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("b.db")) == []


def test_a_server_with_a_checkpoint_goes_on_with_model_and_noise(grid, model, tmp_path):
    initial = model(w=np.zeros(6, np.float32), b=np.float32(0.0))
    with opened(tmp_path / "one.db") as ledger:
        first = strategy_of(ledger, tmp_path / "one", checkpoint=tmp_path / "c")
        first.start(grid(3, unmoved), initial, num_rounds=2)
        shutil.copy(tmp_path / "one", tmp_path / "two")
        price = ledger.epsilon_charged("app")
        again = strategy_of(ledger, tmp_path / "one", checkpoint=tmp_path / "c")
        found = again.start(grid(3, unmoved), initial, num_rounds=4)  # not the model to begin with: the file has one
        assert [record.round for record in again.records] == [0, 1, 2, 3]
        assert ledger.epsilon_charged("app") == price
    with opened(tmp_path / "two.db") as ledger:
        whole = strategy_of(ledger, tmp_path / "two").start(grid(3, unmoved), initial, num_rounds=4)
    assert np.array_equal(values(found), values(whole))


def test_clients_under_other_names_keep_the_distance_that_correlated_noise_is_charged_for(
    grid, model, make_client, tmp_path
):
    """Started again at a boundary of epochs, with the order of their names reversed, and with their server.

    A client that is asked at once in its new place would take part in rounds that are next to each other.
    """
    parts, epochs = 5, 12
    plan = PrivacyPlan(
        unit="client",
        population_size=10,
        sampling=CyclicPoisson(1.0, num_parts=parts),
        num_steps=parts * epochs,
        clipping=FlatClipping(1.0),
        noise=CorrelatedNoise(BandedToeplitz(num_steps=parts * epochs, bands=parts), 1.0),
        neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    )
    app = make_client(unmoved)
    made, arrays = grid({}), model(w=np.zeros(2, np.float32))
    took_part = {client: [] for client in range(10)}
    with opened(tmp_path / "b.db", relation="replace_special") as ledger:

        def begun():
            return PrivateStrategy(
                FedAvg(fraction_evaluate=0.0), plan=plan, wait=0, ledger=ledger, scope="app", key="t",
                noise_file=tmp_path / "noise",
            )  # fmt: skip

        strategy = begun()
        for number in range(parts * epochs):
            lives = number // (3 * parts)  # a new life of all clients every three epochs, at their boundaries
            sign = -1 if lives % 2 else 1
            names = {client: 1000 * (lives + 1) + sign * client for client in took_part}
            if number == 9 * parts:
                strategy = begun()
            made.apps = dict.fromkeys(names.values(), app)
            replies = made.send_and_receive(strategy.configure_train(number + 1, arrays, ConfigRecord(), made))
            arrays, _ = strategy.aggregate_train(number + 1, replies)
            for client, name in names.items():
                if name in made.asked[-1]:
                    took_part[client].append(number)
    for rounds in took_part.values():
        assert len(rounds) >= 4
        assert min(np.diff(rounds)) >= parts
