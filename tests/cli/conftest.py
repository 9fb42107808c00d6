"""What all tests of the command line share."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ferrodp.cli import _app, main
from ferrodp.cli.shell import schema as shell_schema


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output, which is as the published schema says."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1
        return validated(json.loads(self.out))

    @property
    def failure(self) -> Any:
        """The error in the one object on standard output of a command that failed with ``--json``."""
        assert self.code != 0
        assert self.out.count("\n") == 1
        return validated(json.loads(self.out))["error"]

    @property
    def error(self) -> str:
        """The one line on standard error of a command that was refused."""
        assert 1 <= self.code <= 18, self.err
        assert self.out == ""
        assert self.err.count("\n") == 1
        assert self.err.isprintable() or self.err[:-1].isprintable()
        return self.err


def closed(shape: Any) -> Any:
    """Return a schema that takes no field which it does not name."""
    if isinstance(shape, list):
        return [closed(each) for each in shape]
    if not isinstance(shape, dict):
        return shape
    named = {name: closed(each) for name, each in shape.items()}
    return named | ({"additionalProperties": False} if isinstance(shape.get("required"), list) else {})


@functools.cache
def schema() -> Any:
    """Return what checks an object against the schema, or None if the package for that is missing."""
    try:
        import jsonschema
    except ImportError:
        return None
    return jsonschema.Draft202012Validator(closed(shell_schema.document(_app.COMMANDS)))


def validated(found: Any) -> Any:
    """Return an object that a command printed, once it is as the schema says."""
    checker = schema()
    if checker is not None and not checker.is_valid(found):
        command = found.get("command")
        kinds = [
            each
            for each in checker.schema["anyOf"]
            if each.get("properties", {}).get("command", {}) == {"const": command}
        ]
        why = [[error.message for error in checker.evolve(schema=kind).iter_errors(found)] for kind in kinds]
        pytest.fail(f"not as the schema says: {why or command}")
    return found


@pytest.fixture
def ferrodp(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command in this process."""

    def run(*argv: object) -> Outcome:
        code = main([str(argument) for argument in argv])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print tables in more columns than any of them needs, each row on one line."""
    monkeypatch.setenv("COLUMNS", "300")


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
