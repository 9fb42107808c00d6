"""`ferrodp demo`: measured numbers, a picture, a model, and a budget that holds."""

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ferrodp import demo
from ferrodp.accounting import GaussianEvent, GdpAccountant


def test_the_demo_reaches_its_accuracy_within_its_budget(ferrodp: Callable[..., Any], tmp_path: Path) -> None:
    found = ferrodp("demo", "--json", "--output", tmp_path / "new" / "folder").json

    # 200 runs had mean 0.950, standard deviation 0.0076 and minimum 0.925: 0.85 is 13 standard deviations away.
    assert 0.85 <= found["accuracy"] <= 1
    assert 0.9 <= found["baseline_accuracy"] <= 1
    assert found["epsilon"] <= 8 < found["epsilon_after_one_more_round"]
    assert (found["delta"], found["clients"], found["unit"]) == (1e-5, 100, "one client")
    assert 0 < found["seconds"] < 60
    accountant = GdpAccountant()
    accountant.compose(GaussianEvent(noise_multiplier=found["noise_multiplier"]), count=found["rounds"])
    assert found["epsilon"] == accountant.epsilon(1e-5)

    history = found["history"]
    assert [each["round"] for each in history] == list(range(1, found["rounds"] + 1))
    assert history[-1] == {
        "round": found["rounds"],
        "accuracy": found["accuracy"],
        "baseline_accuracy": found["baseline_accuracy"],
        "epsilon": found["epsilon"],
    }

    with np.load(found["files"]["model"], allow_pickle=False) as model:
        assert demo.accuracy(dict(model), demo.load_digits().test) == found["accuracy"]
    picture = Path(found["files"]["picture"]).read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (1200, 900)
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["model.npz", "rounds.png"]


def test_the_table_has_a_line_a_round(ferrodp: Callable[..., Any], tmp_path: Path) -> None:
    found = ferrodp("demo", "--rounds", 3, "--output", tmp_path)

    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[0].split() == ["round", "accuracy", "without", "privacy", "epsilon"]
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert "Stopped" not in found.out
    assert f"Picture: {tmp_path / 'rounds.png'}" in lines

    stopped = ferrodp("demo", "--epsilon", 1.2, "--output", tmp_path)
    assert "Stopped before round 2: epsilon would be 1.679, the budget is 1.2." in stopped.out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--rounds", 0], "--rounds must be an int from 1 to 1000, got 0"),
        (["--rounds", -1], "--rounds must be an int from 1 to 1000"),
        (["--epsilon", 0], "--epsilon must be finite and > 0"),
        (["--epsilon", "nan"], "--epsilon must be finite and > 0"),
        (["--delta", 1], "--delta must be finite and in (0, 1)"),
        (["--noise-multiplier", 0], "--noise-multiplier must be finite and > 0"),
        (["--clip-norm", "inf"], "--clip-norm must be finite and > 0"),
        (["--data-seed", -1], "--data-seed must be an int"),
        (["--epsilon", 1], "one round costs epsilon 1.144 at delta 1e-05, the budget is 1"),
        (["--output", "file"], "file: File exists"),
        (["--output", "file/folder"], "file/folder: Not a directory"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    ferrodp: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[Any], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()

    assert reason in ferrodp("demo", *argv).error
    assert os.listdir() == ["file"]


@pytest.mark.parametrize("package", ["sklearn", "matplotlib"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    ferrodp: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    found = ferrodp("demo", "--output", tmp_path / "new")
    shown = {"sklearn": "scikit-learn"}.get(package, package)
    assert f'the demo needs {shown}, which is not installed: pip install "ferrodp[demo]"' in found.error
    assert not (tmp_path / "new").exists()
