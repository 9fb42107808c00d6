"""`ferrodp demo --task training`: measured numbers, a picture, a model, and a budget that holds."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_the_training_keeps_its_budget_and_tells_each_step(ferrodp: Run, tmp_path: Path) -> None:
    """ε = 4: 0.98 in the mean, standard deviation 0.008 over trainings; 0.9 is ten of them below."""
    found = ferrodp("demo", "--task", "training", "--epsilon", 4, "--json", "--output", tmp_path / "out").json

    assert found["accuracy"] > 0.9
    assert found["baseline_accuracy"] > 0.95
    assert found["epsilon"] <= 4 < found["epsilon_after_one_more_step"]
    assert (found["task"], found["unit"], found["steps"]) == ("training", "one image", 120)
    assert [each["step"] for each in found["history"]] == list(range(1, 121))
    assert sorted(os.listdir(tmp_path / "out")) == ["model.npz", "steps.png"]
    assert Path(found["files"]["picture"]).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_table_has_about_ten_lines(ferrodp: Run, tmp_path: Path) -> None:
    found = ferrodp("demo", "--task", "training", "--rounds", 20, "--output", tmp_path)

    lines = found.out.splitlines()
    assert lines[0].split() == ["step", "accuracy", "without", "privacy", "epsilon"]
    assert [line.split()[0] for line in lines[2:12]] == [str(step) for step in range(2, 21, 2)]
    assert "for one image" in found.out


def test_with_a_ledger_it_is_resumed(ferrodp: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["demo", "--task", "training", "--rounds", 8, "--ledger", "budget.db"]

    first = ferrodp(*argv, "--epsilon", 3, "--json").json
    again = ferrodp(*argv, "--json").json

    assert first["ledger"]["charges"] == again["ledger"]["charges"] == 8
    assert again["ledger"]["resumed_after_step"] == 8
    assert first["epsilon"] == again["epsilon"] <= 3
    assert first["accuracy"] == again["accuracy"]
    assert "Continued after step 8." in ferrodp(*argv).out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--rounds", 0], "--rounds must be an int from 1 to 1000, got 0"),
        (["--epsilon", 0], "--epsilon must be finite and > 0"),
        (["--noise-multiplier", 0.5, "--epsilon", 0.1], "one step costs epsilon"),
        (["--scope", "a"], "--scope must come with --ledger"),
    ],
)
def test_bad_input_is_one_line(ferrodp: Run, tmp_path: Path, argv: list[Any], reason: str) -> None:
    found = ferrodp("demo", "--task", "training", "--output", tmp_path / "out", *argv)

    assert found.code != 0
    assert reason in found.err
    assert not (tmp_path / "out").exists()
