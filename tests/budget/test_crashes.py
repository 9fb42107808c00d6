"""A process dies at each named point of each operation; see `crashes.py`, which does it a hundred times."""

import subprocess
import sys
from pathlib import Path

CRASHES = Path(__file__).with_name("crashes.py")


def test_a_crash_anywhere_loses_nothing_and_wastes_one_charge_at_most(tmp_path):
    command = [sys.executable, "-W", "error", str(CRASHES), "--times", "1", "--folder", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "at 7 points" in done.stdout
