"""A server of NVFlare that is killed goes on with its model, round, accountant and ledger, in the real simulator.

`FERRODP_KILLS=1` for all moments, and kills at random ones.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.federated import RoundCheckpoint

HERE = Path(__file__).parent
ROUNDS = 3
SECONDS = 240
KILLS = int(os.environ.get("FERRODP_KILLS", "0"))
# The initial model is saved, too: the third save is that after the second round.
MOMENTS = [("asked", 2), ("charged", 2), ("drawn", 2), ("saved", 3), ("kept", 2)]


def begin(folder, workspace, *moment):
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(fd.__file__).parents[1]),
    }
    command = [sys.executable, HERE / "killed_job.py", workspace, folder, ROUNDS, *moment]
    return subprocess.Popen(
        [str(part) for part in command],
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def ended(process):
    """Wait for a job, and end what a killed server left behind."""
    try:
        code = process.wait(SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return code


def model(folder):
    with RoundCheckpoint(folder / "training.round") as kept:
        return kept.arrays


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert ended(begin(folder, folder / "work")) == 0
    return model(folder)


def check(folder, expected):
    found = model(folder)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(found[name], array)
    saved = np.load(folder / "again" / "server" / "simulate_job" / "models" / "server.npy")
    assert np.array_equal(saved, next(iter(expected.values())))
    rows = (folder / "rounds.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == [str(number) for number in range(ROUNDS)]
    with fd.PrivacyLedger.open(folder / "budget.db") as ledger:
        states = [ticket.state.value for ticket in ledger.tickets("digits")]
    paid = [state for state in states if state != "cancelled"]
    assert len(paid) == ROUNDS
    assert set(paid) <= {"armed", "spent"}  # that a release ended is noted with the next change


@pytest.mark.parametrize("moment", MOMENTS if KILLS else MOMENTS[1:3], ids=lambda each: each[0])
def test_a_server_killed_in_a_round_goes_on_and_ends_with_the_same_bits(expected, tmp_path, moment):
    process = begin(tmp_path, tmp_path / "work", *moment)
    assert ended(process) != 0
    with RoundCheckpoint(tmp_path / "training.round") as kept:
        assert len(kept.run["records"]) == (2 if moment[0] in ("saved", "kept") else 1)
    assert ended(begin(tmp_path, tmp_path / "again")) == 0
    check(tmp_path, expected)


@pytest.mark.parametrize("number", range(KILLS))
def test_a_job_killed_at_a_random_moment_goes_on(expected, tmp_path, number):
    process = begin(tmp_path, tmp_path / "work")
    time.sleep(random.Random(number).uniform(0.0, 25.0))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert ended(begin(tmp_path, tmp_path / "again")) == 0
    check(tmp_path, expected)
