"""How commands end: each documented exit code is produced, and `--json` says what failed, why, and what to do."""

import builtins
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrodp import PrivacyLedger, errors
from ferrodp.cli import _app
from ferrodp.cli.printing import exits
from ferrodp.cli.shell import schema as shell_schema

Run = Callable[..., Any]
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
SPEND = ("ledger", "spend", "budget.db", "--scope", "survey", "--epsilon", "0.4")
RELEASE = ("release", "u.npz", "-o", "o.npz", "--clip-norm", 1, "--noise-multiplier", 1)
LEAST_NOISE = ("calibrate", "noise-multiplier", "--epsilon")


def damaged() -> None:
    import sqlite3

    with sqlite3.connect("budget.db") as connection:
        connection.execute("UPDATE scopes SET spent = replace(spent, '0', '1')")
    connection.close()


def frozen() -> None:
    with PrivacyLedger.open("budget.db") as ledger:
        ledger.freeze("survey", reason="test")


def charged(key: str | None = None, state: str = "spent") -> None:
    with PrivacyLedger.open("budget.db") as ledger:
        event = ledger_event()
        if state == "held":
            ledger.reserve("survey", event, key=key)
        else:
            ledger.spend("survey", event, key=key)


def ledger_event() -> Any:
    from decimal import Decimal

    from ferrodp.events import EpsilonDeltaEvent

    return EpsilonDeltaEvent(epsilon=Decimal("0.4"))


def full() -> None:
    charged()
    charged()


def mismatched_files() -> None:
    import numpy as np

    np.savez("u.npz", a=np.zeros(3, np.float32))
    np.savez("v.npz", a=np.zeros(4, np.float32))


def nothing() -> None:
    """There is nothing to prepare."""


CASES: list[tuple[str, Callable[[], None], tuple[Any, ...]]] = [
    ("usage", nothing, ("ledger", "status", "budget.db", "--no-such-option")),
    ("key-used", lambda: charged("week-1"), (*SPEND, "--key", "week-1")),
    ("invalid-parameter", nothing, ("epsilon", "--noise-multiplier", "-1")),
    ("budget-exceeded", full, SPEND),
    ("scope-frozen", frozen, SPEND),
    ("unknown-scope", nothing, (*SPEND[:4], "survy", *SPEND[5:])),
    ("ledger-not-found", nothing, ("ledger", "status", "nothing.db")),
    ("ledger-damaged", damaged, ("ledger", "status", "budget.db")),
    ("ledger-refused", lambda: os.symlink("budget.db", "x.db") or os.link("budget.db", "y.db"), SPEND),  # type: ignore[func-returns-value]
    ("ticket-refused", lambda: charged("week-1", "held"), (*SPEND[:5], "--epsilon", "0.2", "--key", "week-1")),
    ("unsupported-event", nothing, (*SPEND[:5], "--noise-multiplier", 1)),
    ("out-of-reach", nothing, (*LEAST_NOISE, "1e-9", "--delta", "1e-300", "--accountant", "moments")),
    ("file-refused", nothing, RELEASE),
    ("file-refused", mismatched_files, (RELEASE[0], "v.npz", *RELEASE[1:])),
    ("system", nothing, ("plan", "forecast", "nothing.json")),
]


@pytest.mark.parametrize(("code", "prepare", "argv"), CASES, ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)])
def test_each_kind_of_failure_has_its_exit_code_and_says_why_and_what_to_do(
    shell: Run, ferrodp: Run, code: str, prepare: Callable[[], None], argv: tuple[Any, ...]
) -> None:
    prepare()
    told = ferrodp(*argv)
    found = ferrodp(*argv, "--json")

    assert told.code == found.code == exits.EXITS[code].status
    assert found.failure["code"] == code
    assert found.failure["message"] in told.error.replace("\\\\", "\\")
    assert found.err == told.err  # the line for people is there, too
    assert found.failure["remedy"] == exits.EXITS[code].remedy


RAISED: dict[str, BaseException] = {
    "failed": errors.FerroError("it did not work"),
    "internal": ZeroDivisionError("the secret is 42"),
    "invalid-array": errors.InvalidArray("update must have shape (3,), got (4,)"),
    "ledger-unavailable": errors.LedgerUnavailable("ledger is busy; nothing was charged"),
    "missing-package": errors.MissingPackage("pictures need matplotlib"),
    "no-entropy": errors.EntropyError("no random bytes"),
    "out-of-memory": MemoryError(),
    "interrupted": KeyboardInterrupt(),
    "unread": BrokenPipeError(),
}


@pytest.mark.parametrize("code", RAISED)
def test_what_is_hard_to_bring_about_ends_as_documented(
    ferrodp: Run, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def fails(*_: Any) -> None:
        raise RAISED[code]

    monkeypatch.setitem(_app.COMMANDS, "demo", dataclasses.replace(_app.COMMANDS["demo"], run=fails))
    monkeypatch.setattr(_app, "_close_stdout", lambda: None)
    found = ferrodp("demo", "--json")

    assert found.code == exits.EXITS[code].status
    if code != "unread":  # nobody reads
        assert found.failure["code"] == code
    assert "secret" not in found.out + found.err


def test_every_documented_exit_code_is_produced_by_one_of_these_tests() -> None:
    assert {case[0] for case in CASES} | RAISED.keys() == exits.EXITS.keys()


def test_a_server_that_is_down_has_its_own_exit_code(ferrodp: Run) -> None:
    pytest.importorskip("psycopg")
    found = ferrodp("ledger", "status", "postgresql://nobody@127.0.0.1:1/none", "--json")

    assert (found.code, found.failure["code"]) == (10, "ledger-unavailable")


def test_every_exception_of_the_package_has_an_exit_code() -> None:
    def below(kind: type[errors.FerroError]) -> set[type[errors.FerroError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    assert {kind.code for kind in below(errors.FerroError)} <= exits.EXITS.keys()


def test_the_page_and_the_help_have_the_table_of_exit_codes(ferrodp: Run) -> None:
    rows = re.findall(r"^\| (\d+) \| `([a-z-]+)` \| (.*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    help_text = ferrodp("--help").out

    assert {code: (int(status), *texts) for status, code, *texts in rows} == exits.EXITS
    for each in exits.EXITS.values():
        assert re.search(rf"^ +({each.status})?  {re.escape(each.meaning)}$", help_text, re.MULTILINE)


def test_the_schema_knows_every_command_and_is_one_itself(ferrodp: Run) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = shell_schema.document(_app.COMMANDS)
    jsonschema.Draft202012Validator.check_schema(document)
    named = {each["properties"]["command"]["const"] for each in document["anyOf"] if "properties" in each}
    commands = {name for name in _app.COMMANDS if name != "ledger"}

    assert named == commands | {f"ledger {name}" for name in shell_schema.actions()}
    assert json.loads(ferrodp("schema").out) == ferrodp("schema", "--json").json["document"] == document


def test_an_error_after_output_began_does_not_add_a_second_object(
    ferrodp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines() -> Any:
        yield {}
        raise errors.LedgerUnavailable("cut off")

    made = dataclasses.replace(_app.COMMANDS["demo"], run=lambda *_: {"command": "demo", "lines": lines()})
    monkeypatch.setitem(_app.COMMANDS, "demo", made)
    found = ferrodp("demo", "--json")

    assert (found.code, found.err) == (10, "ferrodp demo: error: cut off\n")
    assert found.out == '{"schema": 1, "command": "demo", "lines": [{}'


def test_the_environment_names_the_ledger(shell: Run, ferrodp: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRODP_LEDGER", "budget.db")

    assert ferrodp("ledger", "spend", "--scope", "survey", "--epsilon", "0.4", "--json").json["ledger"] == "budget.db"
    assert ferrodp("ledger", "status", "other.db").code == 8  # what is named comes first
    mismatched_files()
    paid = ferrodp(*RELEASE[:-1], 10, "--scope", "hospital", "--json").json["ledger"]
    assert (paid["where"], paid["scope"]) == ("budget.db", "hospital")
    assert ferrodp(*RELEASE[:2], "-o", "p.npz", *RELEASE[4:], "--json").json["ledger"] is None
    monkeypatch.delenv("FERRODP_LEDGER")
    assert "FERRODP_LEDGER" in ferrodp("ledger", "status").error


def test_verbose_logs_to_standard_error_what_is_done(shell: Run, ferrodp: Run) -> None:
    found = ferrodp(*SPEND, "-vv")

    assert "ferrodp.budget.ledger: info: ledger" in found.err
    assert "ferrodp.budget._commit: debug: ledger" in found.err
    assert ferrodp(*SPEND[:-1], "0.1").err == ""
    assert "debug" not in ferrodp("ledger", "--verbose", "status", "budget.db").err


def test_no_color_and_the_environment_keep_terminals_plain(
    shell: Run, ferrodp: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    assert "\x1b[1mscope" in ferrodp("ledger", "status", "budget.db").out
    assert "\x1b" not in ferrodp("ledger", "status", "budget.db", "--no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ferrodp("ledger", "status", "budget.db").out


def test_tables_fit_80_columns_and_break_no_word(shell: Run) -> None:
    name = "hospital/radiology/images of the year 2026"
    shell("create", "--scope", name, "--epsilon", 3, "--delta", "1e-6")
    shell("reserve", "--scope", name, "--noise-multiplier", 10, "--key", "a-long-key-of-a-job/2026-11-22/retry-3")
    ticket = shell("tickets", "--json").json["tickets"][0]["ticket"]
    for action in ("status", "history", "tickets"):
        lines = shell(action).out.splitlines()
        assert max(map(len, lines)) <= 80
    assert ticket in shell("tickets").out


@pytest.mark.parametrize("measure", ["rdp", "zcdp", "gdp"])
def test_what_status_says_still_fits_does_fit_and_no_less_noise_does(shell: Run, measure: str) -> None:
    shell("create", "--scope", "some", "--epsilon", 3, "--delta", "1e-6", "--measure", measure)
    for _ in range(3):
        (standing,) = shell("status", "--scope", "some", "--json").json["scopes"]
        found = re.fullmatch(
            r"one more Gaussian release with noise multiplier (\S+) fits, or (\d+) with (\S+)", standing["fits"]
        )
        assert found is not None
        least, many, more = float(found[1]), int(found[2]), float(found[3])
        with PrivacyLedger.open("budget.db") as ledger:
            from ferrodp.events import GaussianEvent

            assert ledger.remaining_count("some", GaussianEvent(noise_multiplier=least)) >= 1
            assert ledger.remaining_count("some", GaussianEvent(noise_multiplier=least / 1.34)) == 0
            assert ledger.remaining_count("some", GaussianEvent(noise_multiplier=more)) == many
            ledger.spend("some", GaussianEvent(noise_multiplier=5.0))


def complete(line: str) -> set[str]:
    """Return what bash offers after a line."""
    script = subprocess.run(
        [sys.executable, "-m", "ferrodp", "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    words = line.split(" ")
    listed = " ".join(f"'{word}'" for word in words)
    asked = (
        f"{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _ferrodp; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    ended = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


def test_bash_completes_commands_actions_options_and_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert complete("ferrodp ca") == {"calibrate"}
    assert {"status", "spend", "verify"} <= complete("ferrodp ledger ")
    assert complete("ferrodp ledger status budget.db --no") == {"--no-color", "--noise-multiplier"}
    assert complete("ferrodp ledger create b --measure ") == {"rdp", "zcdp", "gdp", "pure"}
    assert complete("ferrodp calibrate ") == {"noise-multiplier", "count", "sampling-probability"}


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_with_every_command_and_option(ferrodp: Run, shell_name: str) -> None:
    found = ferrodp("completion", shell_name, "--json").json["script"]

    assert found == ferrodp("completion", shell_name).out
    for name in _app.COMMANDS:
        assert re.search(rf"\b{name}\b", found)
    assert ("-l clip-norm" if shell_name == "fish" else "--clip-norm") in found


def test_an_interrupted_command_with_json_prints_an_object(start: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list")
    argv = ("release", f"@{tmp_path}/list", "-o", tmp_path / "o.npz", "--clip-norm", 1, "--noise-multiplier", 1)
    with start(*argv, "--json", warnings="ignore") as process, builtins.open(tmp_path / "list", "w"):
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    assert (process.returncode, json.loads(out)["error"]["code"]) == (130, "interrupted")
