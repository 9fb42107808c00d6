"""What all tests of the command line share."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ferrodp.cli import main


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on standard error of a command that was refused."""
        assert self.code in (1, 2, 3), self.err
        assert self.out == ""
        assert self.err.count("\n") == 1
        assert self.err.isprintable() or self.err[:-1].isprintable()
        return self.err


@pytest.fixture
def ferrodp(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command in this process."""

    def run(*argv: object) -> Outcome:
        code = main([str(argument) for argument in argv])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def start() -> Callable[..., "subprocess.Popen[str]"]:
    """Start a command in a process of its own, in which by default every warning is an error."""

    def begin(*argv: object, warnings: str = "error", **options: Any) -> "subprocess.Popen[str]":
        command = [sys.executable, "-W", warnings, "-m", "ferrodp", *map(str, argv)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(command, **(pipes | options))

    return begin


@pytest.fixture
def finish(start: Callable[..., "subprocess.Popen[str]"]) -> Callable[..., Outcome]:
    """Run a command in a process of its own to its end."""

    def run(*argv: object, **options: Any) -> Outcome:
        with start(*argv, **options) as process:
            out, err = process.communicate(timeout=60)
        return Outcome(process.returncode, out, err)

    return run


@pytest.fixture
def updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Five updates of two arrays, also as `u0.npz` to `u4.npz` in an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    made = [
        {"weights": rng.standard_normal((3, 4), np.float32), "bias": rng.standard_normal(4, np.float32)}
        for _ in range(5)
    ]
    for index, update in enumerate(made):
        np.savez(f"u{index}.npz", **update)
    return made


@pytest.fixture
def shell(ferrodp: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run an action on `budget.db`, which has the scopes survey (ε = 1, pure) and hospital (ε = 4, Rényi)."""
    monkeypatch.chdir(tmp_path)

    def run(action: str, *argv: object) -> Outcome:
        return ferrodp("ledger", action, "budget.db", *argv)

    run("create", "--scope", "survey", "--epsilon", "1.0", "--delta", 0, "--measure", "pure")
    run("create", "--scope", "hospital", "--epsilon", 4, "--delta", "1e-6")
    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let processes that tests start find the package as this one did."""
    import ferrodp

    root = os.path.dirname(os.path.dirname(ferrodp.__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
