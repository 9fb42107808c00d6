"""`ferrodp release --ledger`: charged first, refused if it does not fit, and spent once noise was drawn."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ferrodp import PrivacyLedger, files
from ferrodp.accounting import GaussianEvent, NeighboringRelation
from ferrodp.budget import _crash_points
from ferrodp.cli.releasing import command as release_command
from ferrodp.files import FileRefused

Run = Callable[..., Any]
EVENT = GaussianEvent(noise_multiplier=10.0)
DYING = """
import os, signal, sys
from ferrodp.budget import _crash_points
from ferrodp.cli import main

_crash_points.observer = lambda name: name == sys.argv[1] and os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def ledger(updates: Any) -> PrivacyLedger:
    """A ledger beside the updates, whose scope "hospital" has room for three releases."""
    with PrivacyLedger.open("budget.db") as opened:
        opened.create("hospital", epsilon=0.8, delta=1e-6, measure="gdp")
        assert opened.remaining_count("hospital", EVENT) == 3
    return opened


def left() -> int:
    with PrivacyLedger.open("budget.db") as opened:
        return opened.remaining_count("hospital", EVENT)


def arguments(*argv: object, output: str = "out.npz") -> list[object]:
    paid = ["--ledger", "budget.db", "--scope", "hospital"]
    return ["release", "u*.npz", "--clip-norm", 1, "--noise-multiplier", 10, "-o", output, *paid, *argv]


def test_a_release_is_charged_and_says_what_is_left(ferrodp: Run, ledger: PrivacyLedger) -> None:
    found = ferrodp(*arguments("--json", "--key", "round-1")).json

    told = found["ledger"]
    with PrivacyLedger.open("budget.db", witness=told["head"]) as opened:
        report = opened.report("hospital")
        assert (report.spent, report.held, report.armed) == (1, 0, 0)
        assert told["epsilon_charged"] == report.epsilon_charged
        assert opened.reserve("hospital", EVENT, key="round-1", again_ok=True).id == told["ticket"]
    assert (told["scope"], told["key"], told["remaining_count"], told["where"]) == (
        "hospital",
        "round-1",
        2,
        "budget.db",
    )
    assert (
        "budget   epsilon 0.5751 of 0.8 at delta 1e-06 is charged, room for 1 more"
        in ferrodp(*arguments(output="second.npz")).out
    )


def test_a_release_that_does_not_fit_reads_and_writes_nothing(
    ferrodp: Run, ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        assert ferrodp(*arguments(output=f"{number}.npz")).code == 0
    monkeypatch.setattr(release_command, "_clipped_sum", None)

    found = ferrodp(*arguments())
    assert found.code == 5
    assert "does not fit into scope 'hospital'" in found.error
    assert not Path("out.npz").exists()


def test_a_key_pays_for_one_release(ferrodp: Run, ledger: PrivacyLedger) -> None:
    assert ferrodp(*arguments("--key", "round-1")).code == 0
    kept = Path("out.npz").read_bytes()

    found = ferrodp(*arguments("--key", "round-1", "--force"))
    assert found.code == 3
    assert "key 'round-1' has paid for a release" in found.error
    assert Path("out.npz").read_bytes() == kept
    assert left() == 2


def test_what_fails_before_the_noise_is_given_back(
    ferrodp: Run, ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        assert left() == 2  # it was charged by now
        raise FileRefused("u3.npz", "is cut")

    with monkeypatch.context() as patch:
        patch.setattr(release_command, "_clipped_sum", fails)
        assert "u3.npz: is cut" in ferrodp(*arguments("--key", "round-1")).error
    assert left() == 3
    assert ferrodp(*arguments("--key", "round-1")).code == 0  # the key is free again


def test_what_fails_after_the_noise_is_spent(
    ferrodp: Run, ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    assert "No space left on device" in ferrodp(*arguments("--key", "round-1")).error
    assert not Path("out.npz").exists()
    assert left() == 2
    with PrivacyLedger.open("budget.db") as opened:
        assert opened.report("hospital").spent == 1


def test_a_ledger_that_fails_at_the_arming_lets_nothing_be_drawn(
    ferrodp: Run, ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze(name: str) -> None:
        if name == "before arming":
            monkeypatch.setattr(_crash_points, "observer", lambda _: None)
            with PrivacyLedger.open("budget.db") as other:
                other.freeze("hospital", reason="incident")

    monkeypatch.setattr(_crash_points, "observer", freeze)
    assert "scope 'hospital' is frozen" in ferrodp(*arguments()).error
    assert not Path("out.npz").exists()


@pytest.mark.parametrize(("point", "again"), [("before arming", True), ("after arming", False)])
def test_a_killed_release_is_repeated_under_its_key_unless_noise_was_drawn(
    ferrodp: Run, ledger: PrivacyLedger, point: str, again: bool
) -> None:
    argv = list(map(str, arguments("--key", "round-1")))
    died = subprocess.run([sys.executable, "-c", DYING, point, *argv], capture_output=True, text=True, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert left() == 2
    assert not Path("out.npz").exists()

    found = ferrodp(*argv)
    assert found.code == (0 if again else 3)
    assert again or "key 'round-1' has paid for a release" in found.error
    assert left() == 2


def test_replaced_files_cost_as_if_the_noise_were_half(ferrodp: Run, updates: Any) -> None:
    with PrivacyLedger.open("budget.db") as opened:
        relation = NeighboringRelation.REPLACE_ONE
        opened.create("hospital", epsilon=2.0, delta=1e-6, measure="gdp", neighboring_relation=relation)
    told = ferrodp(*arguments("--json")).json["ledger"]

    assert told["neighboring_relation"] == "replace_one"
    with PrivacyLedger.open("budget.db") as opened:
        opened.create("same", epsilon=2.0, delta=1e-6, measure="gdp")
        opened.spend("same", GaussianEvent(noise_multiplier=5.0))
        assert opened.odometer("same") == opened.odometer("hospital")


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--scope", "hospital"], "--scope must come with --ledger"),
        (["--key", "k"], "--key must come with --ledger"),
        (["--ledger", "budget.db"], "--ledger must come with --scope"),
        (["--ledger", "none.db", "--scope", "a"], "does not exist"),
        (["--ledger", "budget.db", "--scope", "nowhere"], "scope 'nowhere' does not exist"),
        (["--ledger", "budget.db", "--scope", "hospital", "--key", ""], "key must have from 1 to 1000 characters"),
        (["--ledger", "u0.npz", "--scope", "a"], "u0.npz"),
    ],
)
def test_bad_input_is_one_line_and_charges_nothing(
    ferrodp: Run, ledger: PrivacyLedger, argv: list[str], reason: str
) -> None:
    found = ferrodp("release", "u*.npz", "--clip-norm", 1, "--noise-multiplier", 10, "-o", "out.npz", *argv)

    assert reason in found.error
    assert left() == 3
    assert not Path("out.npz").exists()
    with np.load("u0.npz") as kept:
        assert set(kept) == {"weights", "bias"}
