"""The extension module as it is installed: in fixed time one branch a sample depends on the key, and nothing else.

The branch asks whether further digits are needed, which has a probability below 2^-100. That it is this one is told by
its line in the memory check of `rust/ferrodp-testkit`; a module without numbers of lines can only be counted.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ferrodp import _native
from support import secret_keys

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64" or shutil.which("valgrind") is None,
    reason="valgrind for x86-64 is missing: NOBODY ASKED whether fixed time keeps its secrets",
)


@pytest.fixture(scope="module")
def calls():
    # No options from files or the environment; the instructions that valgrind knows decide on the path.
    valgrind = [
        "valgrind",
        "--command-line-only=yes",
        "--tool=memcheck",
        "--quiet",
        "--error-limit=no",
        "--leak-check=no",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "FERRODP_ISA"}
    run = subprocess.run(
        [*valgrind, sys.executable, "-I", str(Path(secret_keys.__file__)), _native.__file__],
        env=environment | {"PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def chosen(calls, function, secret):
    found = [call for call in calls if call["function"] == function and call["secret"] is secret]
    assert found
    return found


def test_one_branch_a_sample_depends_on_the_key_in_fixed_time(calls):
    found = chosen(calls, "add_discrete_noise_in_fixed_time", True)
    assert len(found) == 2 * len(secret_keys.SCALES)
    assert [call for call in found if call["reports"] != secret_keys.SAMPLES] == []


def test_rejection_is_seen_to_depend_on_the_key(calls):
    for call in chosen(calls, "add_discrete_noise", True):
        assert call["reports"] > 2 * secret_keys.SAMPLES, call


def test_without_a_secret_there_is_nothing_to_report(calls):
    for call in chosen(calls, "add_discrete_noise_in_fixed_time", False):
        assert call["reports"] == 0, call


def test_the_noise_is_the_same_under_watch(calls):
    assert all(call["same"] for call in calls)
