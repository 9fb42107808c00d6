"""The workflows of hosted machines are valid, pinned, and have no more rights than they need, as far as linters tell.

They cannot be run here. Asked are zizmor (security) and GitHub's schema, both without a network.
"""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def ask(program: str, *arguments: str) -> None:
    found = shutil.which(program, path=sysconfig.get_path("scripts")) or shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    answer = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_a_security_linter_finds_nothing():
    ask("zizmor", "--offline", "--no-progress", "--config", ".github/zizmor.yml", ".github")


def test_workflows_keep_to_their_schema():
    ask("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS))


def test_the_citation_file_keeps_to_its_schema():
    ask("check-jsonschema", "--builtin-schema", "vendor.citation-file-format", "CITATION.cff")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_to_a_commit_and_name_its_full_version(path):
    used = re.findall(r"uses: (.*)", path.read_text())

    assert used
    for action in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_workflows_run_exists(path):
    for program in re.findall(r"(?<![\w/.-])(?:packaging|\.ci)/[\w./-]+", path.read_text()):
        assert (ROOT / program).exists(), program
