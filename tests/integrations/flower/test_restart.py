"""A Flower server that is killed goes on with its model, round, accountant and ledger, as if it had not been."""

import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

import ferrodp as fd
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
from ferrodp.plan import _kept as kept
from ferrodp.tickets import Ticket, TicketState

HERE = Path(__file__).parent
KILLS = int(os.environ.get("FERRODP_KILLS", "6"))
ROUNDS = 8
DELTA = 1e-5


class Killed(BaseException):
    pass


def plan_of(steps=4):
    return PrivacyPlan(
        unit="client",
        population_size=3,
        sampling=FullBatch(),
        num_steps=steps,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
    )


def moved(arrays, context):
    return {name: array + np.asarray(0.1 * (context.node_id - array), array.dtype) for name, array in arrays.items()}


@pytest.fixture
def keys(monkeypatch):
    """Keys of noise that are a function of the round."""
    monkeypatch.setattr(kept, "_fresh_key", lambda step: bytes([step]) * 32)


def start(grid, model, folder, ledger, inner, **options):
    strategy = PrivateStrategy(
        inner(fraction_evaluate=0.0), plan=plan_of(), wait=0, ledger=ledger, scope="app", key="t",
        checkpoint=folder / "training", log=folder / "rounds.csv", **options,
    )  # fmt: skip
    arrays = model(w=np.zeros(6, np.float32), b=np.float32(0.5))
    return strategy, strategy.start(grid(3, moved), arrays)


def opened(folder):
    ledger = fd.PrivacyLedger.open(folder / "budget.db")
    if "app" not in ledger.scopes:
        ledger.create("app", epsilon=1000, delta=0.1, measure="gdp")
    return ledger


@pytest.mark.parametrize("moment", ["asked", "charged", "drawn", "aggregated", "saved"])
@pytest.mark.parametrize("inner", [FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad])
def test_killed_in_a_round_the_training_ends_with_the_same_bits(
    grid, model, tmp_path, monkeypatch, keys, inner, moment
):
    if inner is FedAvgM:

        def inner(**options):
            return FedAvgM(server_momentum=0.9, server_learning_rate=0.5, **options)

    (tmp_path / "whole").mkdir()
    with opened(tmp_path / "whole") as ledger:
        _, expected = start(grid, model, tmp_path / "whole", ledger, inner)

    def killed(call, number):
        count = [0]

        def called(*args, **options):
            result = call(*args, **options)
            count[0] += 1
            if count[0] == number:
                raise Killed
            return result

        return called

    from ferrodp.federated import FederatedRound, FederatedRun

    places = {
        "asked": (PrivateStrategy, "configure_train", 3),
        "charged": (Ticket, "arm", 3),
        "drawn": (FederatedRound, "release", 3),
        "aggregated": (PrivateStrategy, "_reply", 3),
        "saved": (FederatedRun, "save", 4),  # of which the first is that of the initial model
    }
    owner, name, number = places[moment]
    with monkeypatch.context() as patched, opened(tmp_path) as ledger:
        patched.setattr(owner, name, killed(getattr(owner, name), number))
        with pytest.raises(Killed):
            start(grid, model, tmp_path, ledger, inner)
    with opened(tmp_path) as ledger:
        strategy, result = start(grid, model, tmp_path, ledger, inner)
        states = [ticket.state for ticket in ledger.tickets("app")]

    for array in expected.arrays:
        assert result.arrays[array].data == expected.arrays[array].data
    assert [state for state in states if state is not TicketState.CANCELLED] == [TicketState.SPENT] * 4
    assert strategy.epsilon == plan_of().epsilon(DELTA)
    assert [record.round for record in strategy.records] == [0, 1, 2, 3]
    with (tmp_path / "rounds.csv").open() as stream:
        assert [row["round"] for row in csv.DictReader(stream)] == ["0", "1", "2", "3"]


def test_rounds_are_numbered_on_and_a_training_that_is_over_asks_nobody(grid, model, tmp_path):
    asked = []
    with opened(tmp_path) as ledger:
        first = PrivateStrategy(
            FedAvg(fraction_evaluate=0.0), plan=plan_of(), wait=0, ledger=ledger, scope="app", key="t",
            checkpoint=tmp_path / "training",
        )  # fmt: skip
        half = first.start(grid(3, moved), model(w=np.zeros(6, np.float32)), num_rounds=2)
        assert set(half.train_metrics_clientapp) == {1, 2}
        with pytest.raises(FerroError, match="make another one"):
            first.start(grid(3, moved), model(w=np.zeros(6, np.float32)))
    for rounds in ({3, 4}, set()):
        with opened(tmp_path) as ledger:
            strategy = PrivateStrategy(
                FedAvg(fraction_evaluate=0.0), plan=plan_of(), wait=0, ledger=ledger, scope="app", key="t",
                checkpoint=tmp_path / "training",
            )  # fmt: skip
            made = grid(3, moved)
            result = strategy.start(
                made, model(w=np.zeros(6, np.float32)), evaluate_fn=lambda number, _: asked.append(number)
            )
            assert set(result.train_metrics_clientapp) == rounds
            assert len(made.asked) == len(rounds)
            assert result.arrays["w"].numpy().any()
    assert asked == [2, 3, 4, 4]


def test_a_checkpoint_needs_the_name_of_its_training_and_start(grid, model, tmp_path):
    with opened(tmp_path) as ledger, pytest.raises(InvalidParameter, match="key must be given"):
        PrivateStrategy(FedAvg(), plan=plan_of(), ledger=ledger, scope="app", checkpoint=tmp_path / "training")
    strategy = PrivateStrategy(FedAvg(), plan=plan_of(), checkpoint=tmp_path / "training", wait=0)
    with pytest.raises(FerroError, match="are run by start"):
        strategy.configure_train(1, model(w=np.zeros(6, np.float32)), None, grid(3, moved))


def server(folder, *options):
    command = [sys.executable, str(HERE / "killed_server.py"), str(folder), str(ROUNDS), *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(Path(fd.__file__).parents[1])])}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begins\n"
    process.stdout.close()
    return process


@pytest.mark.parametrize("noise", [(), ("correlated",)], ids=["independent", "correlated"])
def test_killed_by_a_signal_at_random_moments_no_round_is_lost_or_charged_twice(tmp_path, noise):
    """`FERRODP_KILLS=50` for the number that is recorded."""
    whole = tmp_path / "whole"
    whole.mkdir()
    process = server(whole, *noise)
    begun = time.monotonic()
    assert process.wait(120) == 0
    lasts = time.monotonic() - begun
    expected = np.load(whole / "result.npz")
    at_work = 0
    for number in range(KILLS):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        if noise:
            shutil.copy(whole / "noise", folder / "noise")
        chance = random.Random(number)
        process = server(folder, *noise)
        time.sleep(chance.uniform(0.0, lasts))
        at_work += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = server(folder, *noise)
        assert process.wait(120) == 0
        result = np.load(folder / "result.npz")
        for name in expected:
            assert np.array_equal(result[name], expected[name]), number
        with fd.PrivacyLedger.open(folder / "budget.db") as ledger:
            states = [ticket.state for ticket in ledger.tickets("app")]
        paid = [state for state in states if state is not TicketState.CANCELLED]
        assert len(paid) == ROUNDS
        assert set(paid) <= {TicketState.ARMED, TicketState.SPENT}  # that a release ended is noted with the next change
        with (folder / "rounds.csv").open() as stream:
            assert [row["round"] for row in csv.DictReader(stream)] == [str(each) for each in range(ROUNDS)]
    print(f"{at_work} of {KILLS} killed at work, of {lasts:.2f} s")
    assert at_work >= KILLS // 2
