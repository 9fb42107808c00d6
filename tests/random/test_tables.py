"""The samplers' tables are what their generator writes, and prove the bounds that the code relies on."""

import subprocess
import sys
from pathlib import Path

TABLES = Path(__file__).parents[2] / "rust/ferrodp-core/src/sample/tables"


def run(*arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_regenerating_the_tables_changes_nothing():
    result = run(TABLES / "generate.py", "--check")

    assert result.returncode == 0, result.stdout + result.stderr


def test_tables_keep_the_error_bounds_of_every_stage():
    result = run(TABLES / "verify.py")

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("allowed") == 13
