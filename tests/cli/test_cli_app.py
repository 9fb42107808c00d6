"""What all commands have in common: help, versions, errors of one line, interruptions, readers that leave."""

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ferrodp as package
from ferrodp.cli import _app, _console

COMMANDS = list(_app.COMMANDS)


def test_help_explains_every_command_with_an_example(ferrodp: Callable[..., Any]) -> None:
    overview = ferrodp("--help")
    assert overview.code == 0
    for command in COMMANDS:
        found = ferrodp(command, "--help")

        assert (found.code, found.err) == (0, "")
        assert f"usage: ferrodp {command}" in found.out
        assert f"  ferrodp {command}" in found.out.partition("example")[2]
        assert "--json" in found.out
        assert command in overview.out


def test_help_fits_a_terminal_of_80_columns(ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for argv in (["--help"], *([command, "--help"] for command in COMMANDS)):
        assert max(map(len, ferrodp(*argv).out.splitlines())) <= 80


def test_the_version_is_that_of_the_package(ferrodp: Callable[..., Any]) -> None:
    assert ferrodp("--version") == (0, f"ferrodp {package.__version__}\n", "")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--no-such-option"],
        ["no-such-command"],
        ["release"],
        ["release", "--clip-norm"],
        ["release", "a.npz", "--clip-norm", "x", "--noise-multiplier", "1", "-o", "b.npz"],
        ["release", "a.npz", "--clip", "1", "--noise-multiplier", "1", "-o", "b.npz"],
        ["release", "a.npz", "--clip-norm", "1", "--noise-multiplier", "1", "-o", "b.npz", "--dtype", "float16"],
        ["demo", "--rounds", "1.5"],
        ["bench", "extra\nargument\x1b[2J"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_code_2_and_one_line(
    ferrodp: Callable[..., Any], argv: list[str]
) -> None:
    found = ferrodp(*argv)

    assert found.code == 2
    assert found.error.startswith("ferrodp")
    assert "--help" in found.error


def test_the_module_runs_as_the_command_does(finish: Callable[..., Any]) -> None:
    assert finish("--version").out == f"ferrodp {package.__version__}\n"


def test_an_error_nobody_foresaw_shows_neither_trace_nor_message(
    ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("the secret is 42")

    monkeypatch.setitem(_app.COMMANDS, "bench", dataclasses.replace(_app.COMMANDS["bench"], run=fails))
    assert ferrodp("bench").error == (
        "ferrodp bench: error: internal error (ZeroDivisionError); FERRODP_TRACEBACK=1 shows where\n"
    )

    monkeypatch.setenv("FERRODP_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        ferrodp("bench")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(2, "No such file or directory", b"a\nb"), r"a\nb: No such file or directory"),
        (package.errors.EntropyError("no random bytes"), "no random bytes"),
    ],
)
def test_errors_of_the_system_are_one_line(
    ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setitem(_app.COMMANDS, "demo", dataclasses.replace(_app.COMMANDS["demo"], run=fails))
    assert ferrodp("demo").error == f"ferrodp demo: error: {message}\n"


def test_an_interruption_is_code_130(ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(_app.COMMANDS, "demo", dataclasses.replace(_app.COMMANDS["demo"], run=interrupted))
    assert ferrodp("demo") == (130, "", "ferrodp: interrupted\n")
    assert ferrodp("demo", "--json").failure["code"] == "interrupted"


def test_ctrl_c_ends_a_process_with_130_and_nothing_written(start: Callable[..., Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list")
    argv = ("release", f"@{tmp_path}/list", "-o", tmp_path / "o.npz", "--clip-norm", 1, "--noise-multiplier", 1)
    with start(*argv, warnings="ignore") as process, (tmp_path / "list").open("w"):
        # `open` returned, so the command has opened the other end, and waits for a line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (130, "", "ferrodp: interrupted\n")
    assert os.listdir(tmp_path) == ["list"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error_message(start: Callable[..., Any], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with start("release", "--help", stdout=writing, env=os.environ | {"PYTHONUNBUFFERED": unbuffered}) as process:
            _, err = process.communicate(timeout=60)
    finally:
        os.close(writing)

    assert (process.returncode, err) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_one_line(start: Callable[..., Any], unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    for argv in (["--help"], ["release", "--help"], ["--version"]):
        with open("/dev/full", "w") as full, start(*argv, stdout=full, env=environment) as process:
            _, err = process.communicate(timeout=60)

        assert (process.returncode, err) == (15, "ferrodp: error: standard output: No space left on device\n")


def test_importing_the_package_loads_no_command(tmp_path: Path) -> None:
    rooms = ("ferrodp.cli.", "ferrodp.demo.", "ferrodp.files.", "rich.")
    code = f"import sys, ferrodp; print([name for name in sys.modules if (name + '.').startswith({rooms})])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"


def test_the_command_line_loads_no_heavy_package(tmp_path: Path) -> None:
    code = (
        "import sys; from ferrodp.cli import main; main(['bench', '--help']); "
        "print([m for m in ('sklearn', 'matplotlib', 'rich', 'safetensors', 'torch') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.splitlines()[-1] == "[]"


def test_bounds_are_printed_rounded_up() -> None:
    assert _console.rounded_up(1.00001) == "1.001"
    assert _console.rounded_up(7.9636) == "7.964"
    assert _console.rounded_up(8.0) == "8"
    assert _console.rounded_up(123456.7) == "123500"
    assert _console.rounded_up(1e-7) == "0.0000001000"
    assert _console.rounded_up(float("inf")) == "inf"


def test_what_could_steer_a_terminal_is_escaped() -> None:
    assert _console.one_line("a\n\x1b[31mb\x7f\udcff ε") == r"a\n\x1b[31mb\x7f\udcff ε"


def test_tables_and_progress_work_with_and_without_rich(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [["[bold]x", "1"], ["y\x1b[2J", "22"]]
    for terminal in (True, False):
        for rich in (True, False):
            monkeypatch.setenv("NO_COLOR", "1")
            monkeypatch.setenv("TERM", "dumb")
            monkeypatch.setattr(sys.stdout, "isatty", lambda yes=terminal: yes)
            monkeypatch.setattr(sys.stderr, "isatty", lambda yes=terminal: yes)
            if not rich:
                monkeypatch.setattr(_console, "_rich", lambda _: None)
            console = _console.Console(json=False)
            console.table(["name", "number"], rows)
            with console.progress("working", 2) as advance:
                advance()
                advance()
            out, err = capsys.readouterr()

            assert [line.split() for line in out.splitlines() if "-" not in line] == [
                ["name", "number"], ["[bold]x", "1"], [r"y\x1b[2J", "22"]
            ]  # fmt: skip
            assert bool(err) == terminal
            monkeypatch.undo()
