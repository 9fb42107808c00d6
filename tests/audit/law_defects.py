"""Defects of `tests/mutants` that change what is released, and which audit finds each: `python law_defects.py [TEXT]`.

Each defect of a Python source is applied to a copy of `python/`, and its audit is run there; the command prints what
found it, and fails if anything was missed. `own_audits` has the audits, and runs them on the sources as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import mutants  # noqa: E402

FOUND_BY: dict[str, tuple[str, ...]] = {
    "the noise covers half the sensitivity, as if replacing were adding": ("Gaussian",),
    "the noise is divided by the sensitivity": ("Gaussian",),
    "epsilon and delta are swapped in a calibration": ("Gaussian",),
    "Laplace noise is calibrated to 80 % of what is due": ("Laplace",),
    "epsilon and delta of integers are swapped in a calibration": ("discrete Gaussian",),
    "a scale is taken for a variance": ("noise of a source",),
    "noise is drawn once per row": ("coordinates",),
    "integer noise is drawn once per row": ("coordinates",),
    "zeros are released without integer noise": ("integers",),
    "a batch is clipped after it was summed": ("batch",),
    "truth and lie are told apart by half of what they are": ("answers",),
    "a vector is accounted as one integer": ("vectors of integers",),
    "the L1 distance is taken for one": ("two integers",),
    "the noise of a query serves all": ("queries",),
    "answers are not counted": ("answers of a run",),
    "the noise of the threshold is drawn for every query": ("long run",),
    "scales are those for one answer fewer": ("queries",),
    "queries that need not move together are treated as if they did": ("queries",),
    "each of several quantiles gets the whole budget": ("quantiles",),
    "a column is clamped after it was summed": ("sum",),
    "a replaced row moves a sum as little as one that comes": ("sum, replaced",),
    "a row that comes moves a sum by half of what it can": ("sum",),
    "several rows of a unit move a sum by one": ("sum, several rows",),
    "number and sum of a mean get the whole budget each": ("mean",),
    "a mean is divided by the true number of rows": ("mean",),
    "a replaced row moves one bin": ("histogram, replaced",),
    "rows of one unit are taken to fall into different bins": ("histogram of one bin, several rows",),
    "empty bins get no noise": ("histogram",),
    "ranks move by the smaller share": ("quantile",),
    "bounds follow from bare counts": ("bounds",),
    "a replaced row moves one bin of the bounds": ("bounds, replaced",),
    "the rows of a unit move one bin of the bounds by one": ("bounds, several rows",),
    "several rows of a unit move a rank by one": ("largest, several rows",),
    "the best candidate is released without noise": ("largest",),
    "groups without rows get no noise": ("counts of groups",),
    "rows beyond the bound of a unit count": ("counts of groups",),
    "the rows of a unit in several groups move one of them": ("counts of groups",),
    "the grid of a sum is derived from the column": ("sum",),
}
"""Names of defects and the audits that find them."""


NOT_FOUND: dict[str, str] = {
    "a part of a variance is drawn with noise that nobody paid for": "tickets alone differ; what is released does not",
}
"""Defects that change what is released, or its cost, and that no audit here finds, with the reason."""


def defects() -> list[Any]:
    """Return the defects of the table."""
    return [each for each in mutants.MUTANTS if each.name in FOUND_BY]


def alarms(names: tuple[str, ...], tree: Path) -> list[str]:
    """Return which of some audits raise an alarm in a copy."""
    script = (
        f"import own_audits as d\nfor n in {names!r}:\n    print('ALARM' if (d.AUDITS | d.DEEP)[n]() else 'quiet', n)"
    )
    environment = os.environ | {"PYTHONPATH": f"{tree / 'python'}:{Path(__file__).parent}:{ROOT / 'tests'}"}
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    return [line[6:] for line in ran.stdout.splitlines() if line.startswith("ALARM ")]


def main() -> int:
    """Run what the command line asks for, and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", default="")
    args = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(ROOT / "python", tree / "python", ignore=shutil.ignore_patterns("__pycache__"))
        for defect in defects():
            if args.text not in defect.name:
                continue
            file = tree / mutants.file_of(defect, ROOT).relative_to(ROOT)
            before = file.read_text(encoding="utf-8")
            file.write_text(defect.applied(before), encoding="utf-8")
            found = alarms(FOUND_BY[defect.name], tree)
            file.write_text(before, encoding="utf-8")
            missed += not found
            print("found " if found else "MISSED", defect.name, "|", ", ".join(found), flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
