"""Processes are killed at random moments, or race for what there is; see `kills.py`, which does it a thousand times."""

import subprocess
import sys
from pathlib import Path

import pytest

KILLS = Path(__file__).with_name("kills.py")


@pytest.mark.parametrize(
    "arguments",
    [("--kills", "20", "--processes", "8"), ("--race", "--processes", "8", "--count", "60")],
    ids=["killed", "racing"],
)
def test_processes_share_one_budget_exactly(tmp_path, arguments):
    command = [sys.executable, "-W", "error", str(KILLS), *arguments, "--folder", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "acknowledged" in done.stdout
