"""What clinical users ask of a private training, one test for each line of their list, with real client apps."""

import csv
import logging
import math
import socket

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg

import ferrodp as fd
from ferrodp.accounting import PldAccountant, RdpAccountant
from ferrodp.events import GaussianEvent
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan

DELTA = 1e-5


def plan_of(steps, noise=1.0, clients=5):
    return PrivacyPlan(
        unit="client",
        population_size=clients,
        sampling=FullBatch(),
        num_steps=steps,
        clipping=FlatClipping(0.5),
        noise=ConstantNoise(noise),
    )


def private(plan, **options):
    return PrivateStrategy(FedAvg(fraction_evaluate=0.0), plan=plan, wait=0, delta=DELTA, **options)


def moved_by(value):
    return lambda arrays, _: {name: array + np.asarray(value, array.dtype) for name, array in arrays.items()}


def test_noise_is_calibrated_to_the_target_and_no_larger(grid, model):
    """Sum of squares of 30 000 values, against 7 standard deviations of it: 3e-12."""
    plan = plan_of(4).calibrated(epsilon=3.0, delta=DELTA)
    multiplier = plan.noise.noise_multiplier
    assert plan.epsilon(DELTA) <= 3.0
    assert plan_of(4, 0.9999 * multiplier).epsilon(DELTA) > 3.0

    result = private(plan).start(grid(5, moved_by(0.0)), model(w=np.zeros(30_000)), num_rounds=1)
    variance = (0.5 * multiplier / 5) ** 2
    squares = np.square(result.arrays["w"].numpy()).sum()
    assert abs(squares / (30_000 * variance) - 1) < 7 * math.sqrt(2 / 30_000)


def test_the_metrics_csv_has_certified_and_renyi_epsilon_of_each_round(grid, model, tmp_path):
    log = tmp_path / "rounds.csv"
    strategy = private(plan_of(3, 2.0), log=log)
    result = strategy.start(grid(5, moved_by(0.1)), model(w=np.zeros(3)))

    certified, renyi = PldAccountant(), RdpAccountant()
    with log.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 3
    for number, row in enumerate(rows):
        for accountant in (certified, renyi):
            accountant.compose(GaussianEvent(noise_multiplier=2.0))
        assert float(row["epsilon"]) == certified.epsilon(DELTA) <= float(row["renyi_epsilon"])
        assert float(row["renyi_epsilon"]) == renyi.epsilon(DELTA)
        told = result.train_metrics_clientapp[number + 1]
        assert (told["epsilon"], told["renyi_epsilon"]) == (float(row["epsilon"]), float(row["renyi_epsilon"]))


def test_training_halts_at_the_target(grid, model):
    plan = plan_of(40, 4.0)
    strategy = private(plan, max_epsilon=2.0)
    strategy.start(grid(5, moved_by(0.1)), model(w=np.zeros(3)))

    assert strategy.epsilon <= 2.0 < plan.epsilon_after(strategy.run.round_number + 1, DELTA)
    assert strategy.run.stopped == "target"


@pytest.mark.parametrize("value", [0.0, 1e30])
def test_the_refusal_comes_before_the_round_and_at_the_same_one_whatever_clients_send(grid, model, tmp_path, value):
    plan = plan_of(20, 4.0)
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("ward", epsilon=plan.epsilon_after(6, DELTA) * 1.01, delta=DELTA, measure="gdp")
        strategy = private(plan, ledger=ledger, scope="ward", key="training")
        asked = grid(5, moved_by(value))
        strategy.start(asked, model(w=np.zeros(3)))
        report = ledger.report("ward")

    assert [len(nodes) for nodes in asked.asked] == [5] * 6
    assert (report.spent, report.held, report.armed) == (6, 0, 0)


def test_no_round_opens_a_connection(grid, model, monkeypatch):
    def refused(*_):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refused)
    private(plan_of(3)).start(grid(5, moved_by(0.1)), model(w=np.zeros(3)))


def test_no_value_of_an_update_is_in_a_log_a_file_or_an_error(grid, model, make_client, tmp_path, caplog, capfd):
    """Good updates, malformed ones and failures carry a marked number: none of its digits may be found anywhere."""
    caplog.set_level(logging.DEBUG)
    for name in ("flwr", "ferrodp", "ferrodp.flower"):
        monitored = logging.getLogger(name)
        caplog.set_level(logging.DEBUG, monitored.name)
        monitored.propagate = True
    mark = 48271.63

    def fails(arrays, _):
        raise ValueError(f"loss {mark}")

    apps = {
        1: make_client(moved_by(mark), metrics={"loss": mark}),
        2: make_client(lambda arrays, _: {"w": np.full(7, mark, np.float32)}),
        3: make_client(lambda arrays, _: {"w": np.full(3, 48271)}),
        4: make_client(fails),
        5: make_client(moved_by(0.0), metrics={"count": 48271}),
    }
    with fd.PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("ward", epsilon=100, delta=DELTA, measure="gdp")
        strategy = private(plan_of(3), ledger=ledger, scope="ward", key="t", log=tmp_path / "rounds.csv")
        result = strategy.start(grid(apps), model(w=np.zeros(3, np.float32)))
        strategy.summary()

    assert "epsilon" in caplog.text
    texts = [caplog.text, *capfd.readouterr(), repr(strategy), repr(strategy.records)]
    texts += [repr(result.train_metrics_clientapp), repr(result.evaluate_metrics_clientapp)]
    texts += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert not any("48271" in text for text in texts)
