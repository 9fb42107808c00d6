"""`ferrodp demo --ledger`: killed and started again, it goes on, and never costs more than the budget."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ferrodp import PrivacyLedger, demo
from ferrodp.accounting import GaussianEvent

Run = Callable[..., Any]
ROUND = GaussianEvent(noise_multiplier=3.3)
DYING = """
import os, sys
from ferrodp.budget import _crash_points
from ferrodp.cli import main

point, times, signal = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seen = 0

def reached(name):
    global seen
    seen += name == point
    if name == point and seen == times:
        os.kill(os.getpid(), signal)

_crash_points.observer = reached
sys.exit(main(sys.argv[4:]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dying(point: str, times: int, by: int) -> "subprocess.CompletedProcess[str]":
    """Run the demo, and send a signal to it when a point of the ledger is reached for the given time."""
    argv = [sys.executable, "-c", DYING, point, str(times), str(int(by)), "demo", "--ledger", "budget.db"]
    return subprocess.run([*argv, "--epsilon", "3"], capture_output=True, text=True, timeout=120)


def test_killed_again_and_again_it_ends_within_the_budget(ferrodp: Run, folder: Path) -> None:
    """Once before a ticket is armed, once after, once interrupted at the keyboard; then left alone."""
    assert dying("before arming", 2, signal.SIGKILL).returncode == -signal.SIGKILL
    assert dying("after arming", 2, signal.SIGKILL).returncode == -signal.SIGKILL
    interrupted = dying("before the commit", 3, signal.SIGINT)
    assert (interrupted.returncode, interrupted.stderr) == (130, "ferrodp: interrupted\n")
    assert not Path("ferrodp-demo/model.npz").exists()

    found = ferrodp("demo", "--ledger", "budget.db", "--epsilon", 3, "--json").json

    told = found["ledger"]
    assert 1 <= told["lost_charges"] <= 2  # the second death surely lost one; the interruption perhaps
    assert found["rounds"] + told["lost_charges"] == told["charges"] == 5  # so many fit into ε = 3
    assert told["resumed_after_round"] >= 2
    assert found["epsilon"] == told["epsilon_charged"] <= 3.0 < found["epsilon_after_one_more_round"]
    with PrivacyLedger.open("budget.db", witness=told["head"]) as ledger:
        report = ledger.report("demo")
        assert ledger.epsilon_charged("demo") == found["epsilon"]
        assert ledger.remaining_count("demo", ROUND) == 0
        assert report.held + report.armed + report.spent == 5
    with np.load("ferrodp-demo/model.npz", allow_pickle=False) as model:
        assert demo.accuracy(dict(model), demo.load_digits().test) == found["accuracy"]
    assert Path("ferrodp-demo/rounds.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_report_says_what_the_ledger_says(ferrodp: Run, folder: Path) -> None:
    command = ("demo", "--ledger", "budget.db", "--epsilon", "1.7")
    first = ferrodp(*command)
    assert "Stopped before round 3: epsilon would be 2.105, the budget is 1.7." in first.out
    assert "Ledger budget.db, scope 'demo': epsilon 1.679 is charged in 2 charges." in first.out
    assert "Continued" not in first.out

    head = ferrodp("ledger", "verify", "budget.db", "--json").json["head"]
    again = ferrodp("demo", "--ledger", "budget.db")  # the budget is that of the scope
    assert "Continued after round 2." in again.out
    assert again.out.splitlines()[:4] == first.out.splitlines()[:4]
    assert ferrodp("ledger", "verify", "budget.db", "--json").json["head"] == head

    ferrodp("ledger", "raise-cap", "budget.db", "--scope", "demo", "--epsilon", "2.2", "--reason", "more")
    more = ferrodp("demo", "--ledger", "budget.db", "--json").json
    assert (more["rounds"], more["epsilon_budget"]) == (3, 2.2)
    rows = [f"{each['accuracy']:.3f}" for each in more["history"]]
    assert rows[:2] == [line.split()[1] for line in first.out.splitlines()[2:4]]


def test_a_budget_that_is_used_up_is_one_line_and_nothing_is_drawn(
    ferrodp: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PrivacyLedger.open("budget.db") as ledger:
        ledger.create("study", epsilon=2.0, delta=1e-5, measure="gdp")
        ledger.spend("study", ROUND)
        ledger.spend("study", ROUND)
        head = ledger.head
    monkeypatch.setattr("ferrodp.demo.paid.clipped_sum", None)

    found = ferrodp("demo", "--ledger", "budget.db", "--scope", "study")

    assert found.code == 5
    assert found.error == (
        "ferrodp demo: error: scope 'study' has no room for a round: epsilon 1.679 of 2 at delta 1e-05 is charged, "
        "a round would make it 2.105\n"
    )
    with PrivacyLedger.open("budget.db", witness=head) as ledger:
        assert ledger.head == head
    assert not Path("ferrodp-demo").exists()


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--scope", "a"], "--scope must come with --ledger"),
        (["--ledger", "new.db", "--epsilon", 1], "one round costs epsilon 1.144 at delta 1e-05, the budget is 1"),
        (["--ledger", "none/new.db"], "there is no directory"),
        (["--ledger", "notes.txt"], "notes.txt"),
        (["--ledger", "new.db", "--scope", "a//b"], "name must be a path"),
    ],
)
def test_bad_input_is_one_line_and_no_training(ferrodp: Run, folder: Path, argv: list[Any], reason: str) -> None:
    Path("notes.txt").write_text("precious")

    assert reason in ferrodp("demo", *argv).error
    assert "ferrodp-demo" not in os.listdir()
    assert Path("notes.txt").read_text() == "precious"


def test_a_training_is_continued_only_as_it_was_begun(ferrodp: Run, folder: Path) -> None:
    assert ferrodp("demo", "--ledger", "budget.db", "--epsilon", "1.2").code == 0
    early = Path("budget.db").read_bytes()

    def refused(*argv: object) -> str:
        return str(ferrodp("demo", "--ledger", *argv).error)

    assert "--epsilon must be left out or 1.2, the budget of scope 'demo'" in refused("budget.db", "--epsilon", 2)
    assert "holds a training with --data-seed 0, not 1" in refused("budget.db", "--data-seed", 1)
    assert "begin another one with another --output" in refused("other.db")
    assert not Path("other.db").exists()

    ferrodp("ledger", "raise-cap", "budget.db", "--scope", "demo", "--epsilon", "1.7", "--reason", "more")
    assert ferrodp("demo", "--ledger", "budget.db", "--json").json["rounds"] == 2
    Path("budget.db").write_bytes(early)
    assert "an earlier state was put back" in refused("budget.db")
