"""`ferrodp ledger`: how ledgers, events and numbers are written on the command line, and what is refused."""

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent, LaplaceEvent, PoissonSampledEvent, SelfComposedEvent
from ferrodp.cli import _events
from ferrodp.cli.ledger import command as ledger_command
from ferrodp.cli.ledger import common as _ledgers

Run = Callable[..., Any]
ACTIONS = list(ledger_command.ACTIONS)


@pytest.mark.parametrize(
    ("options", "event"),
    [
        (["--noise-multiplier", "1.1"], GaussianEvent(noise_multiplier=1.1)),
        (["--noise-multiplier", 10, "--mechanism", "laplace"], LaplaceEvent(noise_multiplier=10.0)),
        (
            ["--noise-multiplier", 2, "--sampling-probability", 0.01, "--count", 3],
            SelfComposedEvent(
                event=PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=2.0)), count=3
            ),
        ),
        (["--epsilon", "0.1"], EpsilonDeltaEvent(epsilon=Decimal("0.1"))),
        (["--event", json.dumps(LaplaceEvent(noise_multiplier=3.0).to_dict())], LaplaceEvent(noise_multiplier=3.0)),
        (["--event", "plan.json", "--count", 1], LaplaceEvent(noise_multiplier=4.0)),
    ],
)
def test_events_are_described_as_everywhere(shell: Run, options: list[Any], event: Any) -> None:
    Path("plan.json").write_text(json.dumps(LaplaceEvent(noise_multiplier=4.0).to_dict()))
    measure = "rdp" if "--sampling-probability" in options else "zcdp"  # which gains nothing from sampling
    shell("create", "--scope", "any", "--epsilon", 100, "--delta", "1e-5", "--measure", measure)

    assert shell("reserve", "--scope", "any", *options, "--json").json["event"] == event.to_dict()


def test_a_stated_delta_is_taken_exactly(shell: Run) -> None:
    shell("create", "--scope", "deltas", "--epsilon", 10, "--delta", "3e-9", "--measure", "pure")
    options = ("--scope", "deltas", "--epsilon", "0.5", "--delta", "1e-9")
    found = [shell("spend", *options, "--json") for _ in range(3)]

    event = EpsilonDeltaEvent(epsilon=0.5, delta=Decimal("1e-9"))
    assert [each.json["event"] for each in found] == 3 * [event.to_dict()]
    assert "does not fit" in shell("spend", *options).error


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "the event must be given by one of --noise-multiplier, --epsilon, --event, got none of them"),
        (["--epsilon", 1, "--noise-multiplier", 1], "got --noise-multiplier and --epsilon"),
        (["--epsilon", 1, "--mechanism", "laplace"], "--mechanism cannot be combined with --epsilon"),
        (["--noise-multiplier", 1, "--delta", "1e-6"], "--delta cannot be combined with --noise-multiplier"),
        (["--event", "{}", "--sampling-probability", 1], "--sampling-probability cannot be combined with --event"),
        (["--epsilon", "nan"], "epsilon must be finite and >= 0"),
        (["--epsilon", "-1"], "epsilon must be finite and >= 0"),
        (["--epsilon", "1e999999999"], "epsilon must be finite"),
        (["--epsilon", "1e-999999999"], "does not fit"),
        (["--epsilon", "1/0"], "'1/0' is not a number"),
        (["--epsilon", "0.1.2"], "'0.1.2' is not a number"),
        (["--epsilon", "9" * 300], "is not a number"),
        (["--noise-multiplier", 0], "noise_multiplier must be finite and > 0"),
        (["--noise-multiplier", 1], "cannot charge GaussianEvent"),
        (["--epsilon", "0.1", "--count", 0], "--count must be an int"),
        (["--epsilon", "0.1", "--key", ""], "key must have from 1 to 1000 characters"),
        (["--epsilon", "0.1", "--scope", "nowhere"], "scope 'nowhere' does not exist"),
        (["--event", "{"], "--event must name a JSON file"),
        (["--event", "nothing.json"], "nothing.json: No such file"),
        (["--event", '{"version": 1, "type": "non_private"}'], "protects nobody"),
    ],
)
def test_a_charge_that_makes_no_sense_is_one_line_and_charges_nothing(shell: Run, argv: list[Any], reason: str) -> None:
    shell("spend", "--scope", "survey", "--epsilon", 1)
    before = shell("verify", "--json").json["head"]

    for action in ("reserve", "spend"):
        found = shell(action, "--scope", "survey", *argv)
        assert reason in found.error
        assert found.error.startswith(f"ferrodp ledger {action}: error: ")
    assert shell("verify", "--json").json["head"] == before


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--scope", "survey", "--epsilon", 1, "--delta", 0, "--measure", "pure"], "exists already"),
        (["--scope", "new", "--epsilon", 1, "--delta", 0], "delta must be finite and in (0, 1)"),
        (["--scope", "a//b", "--epsilon", 1, "--delta", 0, "--measure", "pure"], "name must be a path"),
        (["--scope", "new", "--epsilon", 1, "--delta", 0, "--measure", "pld"], "invalid choice: 'pld'"),
        (["--scope", "new", "--epsilon", 1], "required: --delta"),
    ],
)
def test_a_budget_that_is_none_is_refused(shell: Run, argv: list[Any], reason: str) -> None:
    assert reason in shell("create", *argv).error
    assert len(shell("status", "--json").json["scopes"]) == 2


def test_only_create_begins_a_ledger(ferrodp: Run, tmp_path: Path) -> None:
    options = {
        "create": ["--scope", "a", "--epsilon", 1, "--delta", "1e-6"],
        "reserve": ["--scope", "a", "--noise-multiplier", 1],
        "spend": ["--scope", "a", "--noise-multiplier", 1],
        "freeze": ["--scope", "a", "--reason", "x"],
        "thaw": ["--scope", "a", "--reason", "x"],
        "raise-cap": ["--scope", "a", "--epsilon", 2, "--reason", "x"],
        "lower-cap": ["--scope", "a", "--epsilon", 1, "--reason", "x"],
        "cancel": ["--older-than", 1, "--reason", "x"],
        "backup": ["-o", tmp_path / "backup.jsonl"],
        "migrate": ["--to", tmp_path / "moved.db", "--reason", "x"],
    }
    of_files = [each for each in ACTIONS if each not in ("grant", "import")]
    for action in (*(each for each in of_files if each != "create"), "create"):
        found = ferrodp("ledger", action, tmp_path / "new.db", *options.get(action, []))
        if action == "create":
            assert found.code == 0
        else:
            assert "does not exist" in found.error
            assert os.listdir(tmp_path) == []


def test_the_ledger_is_named_first_or_by_option_and_once(shell: Run, ferrodp: Run) -> None:
    assert ferrodp("ledger", "status", "--ledger", "budget.db").code == 0
    assert ferrodp("ledger", "status", "--json", "budget.db").code == 0  # after options
    assert ferrodp("ledger", "--json", "status", "budget.db").json["ledger"] == "budget.db"
    for argv in (["status"], ["status", "a", "--ledger", "b"], ["status", ""]):
        assert ferrodp("ledger", *argv).error.startswith("ferrodp ledger status: error: the ledger must be ")
    assert ferrodp("ledger", "status", "a", "b").code == 2
    assert ferrodp("ledger").code == 2
    assert ferrodp("ledger", "budget.db", "status").code == 2


def test_what_is_no_ledger_is_left_alone(ferrodp: Run, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("precious")

    for argv in (["status", text], ["create", text, "--scope", "a", "--epsilon", 1, "--delta", "1e-6"]):
        assert "notes.txt" in ferrodp("ledger", *argv).error
    assert text.read_text() == "precious"
    assert "not a regular file" in ferrodp("ledger", "status", tmp_path).error


@pytest.mark.parametrize("action", ACTIONS)
def test_help_explains_every_action_with_an_example(ferrodp: Run, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = ferrodp("ledger", action, "--help")

    ledger = "postgresql://" if action == "grant" else "budget.db"
    assert f"  ferrodp ledger {action} {ledger}" in found.out.partition("example:")[2]
    assert "--json" in found.out
    assert max(map(len, found.out.splitlines())) <= 80
    assert action in ferrodp("ledger", "--help").out


def test_passwords_are_not_repeated() -> None:
    shown = _ledgers.shown("postgresql://me:secret@db.example:5432/budget?password=other")

    assert shown == "postgresql://db.example:5432/budget"
    assert _ledgers.shown("postgresql://[me:secret") == "postgresql://..."
    assert _ledgers.shown("a b/budget.db") == "a b/budget.db"


def test_numbers_are_written_short_and_never_on_the_wrong_side() -> None:
    assert _ledgers.bound(0.1, up=True) == "0.1"
    assert _ledgers.bound(1e-6, up=True) == "1e-06"
    assert _ledgers.bound(0.1 + 0.2, up=True) == "0.300001"
    assert _ledgers.bound(0.1 + 0.2, up=False) == "0.3"
    assert _ledgers.bound(2 / 3, up=False) == "0.666666"
    assert _ledgers.bound(0.0, up=True) == "0"


@pytest.mark.parametrize("text", ["0.1", "1/10", "10e-2", " 0.1 "])
def test_numbers_are_parsed_exactly(text: str) -> None:
    assert _events.number(text) * 10 == 1
