"""The programs of `examples/` run as they are, in an empty folder, and print what they say."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import blocks
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))
# Of each program a line that says that it did its work; noise is in none of these numbers.
PRINTED = {
    "compare_accountants": r"the exact ε lies between 1\.99999\d+ and (2\.000000000|1\.99999\d+)",
    "crash_and_resume": r"round 2: released, charged before the crash",
    "custom_mechanism": r"ε ≤ (1\.0|0\.9999\d+) at δ = 1e-6",
    "dataframe_histogram": r"ε = 2\.0",
    "dp_sgd": r"noise multiplier 1\.463, ε ≤ (3\.000000|2\.99999\d) at δ = 1e-05",
    "federated_round": r"ε = 3\.921 at δ = 1e-5",
    "randomized_survey": r"an answer is true with probability 0\.576",
    "release_a_table": r"guarantee: ε = 1\.0",
    "shared_budget": r"releases of the four processes: .*, 20 in all",
    "train_with_jax": r"step 40: ε ≤ (2\.000000|1\.99999\d), planned \1",
    "trade_off_curve": r"noise multiplier 0\.8: ε ≤ 3\.141, advantage ≤ 0\.230",
}

NEEDS = {"train_with_jax": "jax"}
"""Programs that need a framework, which `tests/integrations` runs there."""
RUN_HERE = [path for path in PROGRAMS if NEEDS.get(path.stem) == os.environ.get("FERRODP_FRAMEWORK")]


@pytest.mark.parametrize("program", RUN_HERE, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_its_result(program, tmp_path):
    command = [sys.executable, "-W", "error", program]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert ended.returncode == 0, ended.stderr
    assert any(re.fullmatch(PRINTED[program.stem], line) for line in ended.stdout.splitlines()), ended.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_is_short_and_states_its_unit_and_guarantee(program):
    text = program.read_text(encoding="utf-8")
    summary, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")

    assert text.count("\n") < 60
    assert summary.endswith(".")
    assert re.match(r"Private unit: .*\nGuarantee: ", rest, re.DOTALL)


@pytest.mark.parametrize("program", [path for path in PROGRAMS if path.stem in NEEDS], ids=lambda path: path.stem)
def test_an_example_says_what_it_needs(program, tmp_path):
    blocked = "import sys; sys.modules[sys.argv[1]] = None; import runpy; runpy.run_path(sys.argv[2])"

    ended = subprocess.run(
        [sys.executable, "-c", blocked, NEEDS[program.stem], program], cwd=tmp_path, capture_output=True, text=True
    )

    assert ended.returncode == 1
    assert re.search(rf"needs {NEEDS[program.stem]}.*: pip install", ended.stderr)


def test_every_example_is_in_the_list_of_the_page():
    page = (FOLDER.parent / "docs" / "examples.md").read_text(encoding="utf-8")

    assert len(PROGRAMS) >= 8
    assert {path.stem for path in PROGRAMS} == PRINTED.keys()
    assert {path.name for path in PROGRAMS} == {*re.findall(r"`examples/(\w+\.py)`", page)}
    assert blocks.find(page) == []
