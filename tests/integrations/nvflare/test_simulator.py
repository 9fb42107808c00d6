"""The example job in NVFlare's simulator: a server and two sites, processes on this machine."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import ferrodp as fd

JOB = Path(__file__).parents[3] / "examples" / "nvflare_job" / "job.py"
SECONDS = 240


def run(tmp_path, *arguments):
    # Components of a job are found by name: those of this environment.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, str(JOB), str(tmp_path / "work"), *arguments]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=tmp_path
    )
    return ended.stdout + ended.stderr


def test_a_job_trains_in_the_simulator_and_each_site_keeps_its_budget(tmp_path):
    told = run(tmp_path, "3")

    found = sorted((tmp_path / "work").rglob("ferrodp-rounds.csv"))
    assert [path.parents[1].name for path in found] == ["site-1", "site-2"], told[-4000:]
    for path in found:
        with path.open() as stream:
            rows = list(csv.DictReader(stream))
        assert [row["round"] for row in rows] == ["0", "1", "2"]
        assert 0 < float(rows[0]["epsilon"]) < float(rows[2]["epsilon"]) <= 8.0
        with fd.PrivacyLedger.open(path.parent / "ferrodp-budget.db") as ledger:
            assert [ticket.state.value for ticket in ledger.tickets("job")] == ["spent"] * 3
    (model,) = (tmp_path / "work").rglob("server.npy")
    weights = np.load(model)
    assert weights.shape == (65, 10)
    # Three rounds of two sites: clipped sums of norm at most 3, and noise of about 650 coordinates.
    assert 1 < np.linalg.norm(weights) < 3 + 100
    assert "Traceback" not in told
