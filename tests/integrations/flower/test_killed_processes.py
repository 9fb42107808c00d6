"""Killed under `flwr run`: the server app's process, or the SuperLink. The training goes on as if it had not been.

Real processes: a SuperLink, two SuperNodes and whatever they start. What is killed, and when, is written into the app:
it sends SIGKILL in the midst of its second round. Another `flwr run` with the same files goes on.

`FERRODP_KILLS=N` for all moments, and N kills at random ones.
"""

import os
import random
import signal
import time

import numpy as np
import pytest
from federation import Federation, copied, wait_for

import ferrodp as fd
from ferrodp.federated import RoundCheckpoint

ROUNDS = 3
KILLS = int(os.environ.get("FERRODP_KILLS", "0"))
MOMENTS = ["asked", "charged", "drawn", "saved"] if KILLS else ["charged", "drawn"]
# Put before the example's own code: keys of noise are a function of the round, and a process ends at a moment.
PATCH = """
import os, signal
from pathlib import Path
from ferrodp.federated import FederatedRound, FederatedRun
from ferrodp.integrations.flower import PrivateStrategy
from ferrodp.plan import _kept
from ferrodp.tickets import Ticket

_kept._fresh_key = lambda step: bytes([step]) * 32
FOLDER = Path({folder!r})
PLACES = {{
    "asked": (PrivateStrategy, "configure_train", 2),
    "charged": (Ticket, "arm", 2),
    "drawn": (FederatedRound, "release", 2),
    "saved": (FederatedRun, "save", 3),  # of which the first is that of the initial model
}}


def killed(call, number):
    count = [0]

    def called(*args, **options):
        result = call(*args, **options)
        count[0] += 1
        order = FOLDER / "kill"
        if count[0] == number and order.exists():
            process = int(order.read_text().split()[1])
            order.unlink()
            os.kill(process or os.getpid(), signal.SIGKILL)
        return result

    return called


if (FOLDER / "kill").exists():
    owner, name, number = PLACES[(FOLDER / "kill").read_text().split()[0]]
    setattr(owner, name, killed(getattr(owner, name), number))

"""


class Training:
    """A training of the example app on a federation: its files, and `flwr run`."""

    def __init__(self, federation, folder):
        folder.mkdir()
        self.federation, self.folder = federation, folder
        self.app = copied(folder)
        server = self.app / "digitsapp" / "server.py"
        server.write_text(
            server.read_text().replace("app = ServerApp()", PATCH.format(folder=str(folder)) + "app = ServerApp()")
        )
        self.settings = [
            f'ledger="{folder}/budget.db"',
            f'log="{folder}/rounds.csv"',
            f'checkpoint="{folder}/training"',
        ]

    def begin(self):
        return self.federation.begin(self.app, *self.settings)

    def end(self):
        """Run to the end. While the process before, or one that the SuperLink started for it, is there, a run fails."""
        for _ in range(6):
            code, printed = self.federation.run(self.app, *self.settings)
            assert code == 0
            if self.federation.statuses()[-1] == "finished:completed":
                return printed
            assert "is in use: one server at a time" in printed, printed[-4000:]
            time.sleep(10)
        raise AssertionError(printed[-4000:])

    def model(self):
        with RoundCheckpoint(self.folder / "training") as kept:
            return {name: array for name, array in kept.arrays.items() if name.startswith("model/")}

    def check(self, expected):
        """The model of a training that was not killed, bit for bit; each round in the log and charged, once."""
        model = self.model()
        assert model.keys() == expected.keys()
        for name, array in expected.items():
            assert np.array_equal(model[name], array), name
        rows = (self.folder / "rounds.csv").read_text().splitlines()[1:]
        assert [row.split(",")[0] for row in rows] == [str(number) for number in range(ROUNDS)]
        with fd.PrivacyLedger.open(self.folder / "budget.db") as ledger:
            states = [ticket.state.value for ticket in ledger.tickets("digits")]
        paid = [state for state in states if state != "cancelled"]
        assert len(paid) == ROUNDS
        assert set(paid) <= {"armed", "spent"}  # that a release ended is noted with the next change


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("federation"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def expected(federation, tmp_path_factory):
    training = Training(federation, tmp_path_factory.mktemp("whole") / "training")
    training.end()
    return training.model()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", ["server app", "superlink"])
def test_killed_under_flwr_run_the_next_run_goes_on(federation, expected, tmp_path, victim, moment):
    training = Training(federation, tmp_path / "training")
    process = federation.link.pid if victim == "superlink" else 0
    (training.folder / "kill").write_text(f"{moment} {process}")
    before = len(federation.server_apps())
    begun = training.begin()
    wait_for(
        lambda: (training.folder / "training").exists() and not (training.folder / "kill").exists(), federation.logs
    )
    if victim == "superlink":
        federation.link.wait()  # as long as it is not, its server app takes it for alive
    (server_app,) = federation.server_apps()[before:]
    wait_for(lambda: server_app in federation.codes(), federation.logs)  # it ends with its SuperLink
    if victim == "superlink":
        federation.link = federation.start_link()
        federation.start_nodes()
    begun.kill()
    begun.communicate()
    assert victim == "superlink" or federation.codes()[server_app] == 128 + signal.SIGKILL

    printed = training.end()
    assert "Going on after round" in printed
    training.check(expected)


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_random_moment_the_next_run_goes_on(federation, expected, tmp_path, number):
    """The server app's process, between its start and the end of its rounds, which are half a minute later."""
    training = Training(federation, tmp_path / "training")
    before = len(federation.server_apps())
    begun = training.begin()
    wait_for(lambda: len(federation.server_apps()) > before, federation.logs)
    time.sleep(random.Random(number).uniform(0.0, 30.0))
    (server_app,) = federation.server_apps()[before:]
    if server_app not in federation.codes():
        os.kill(server_app, signal.SIGKILL)
    wait_for(lambda: server_app in federation.codes(), federation.logs)
    begun.kill()
    begun.communicate()
    training.end()
    training.check(expected)
