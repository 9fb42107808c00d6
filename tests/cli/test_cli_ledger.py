"""`ferrodp ledger`: what a shell can do to a budget, and what it is refused."""

import json
import os
import re
import signal
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ferrodp import PrivacyLedger
from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent, PoissonSampledEvent
from ferrodp.cli.ledger import command as ledger_command
from ferrodp.tickets import TicketState

Run = Callable[..., Any]
ACTIONS = list(ledger_command.ACTIONS)


def test_ten_times_one_tenth_fits_into_one_and_the_eleventh_is_refused(shell: Run) -> None:
    for spent in range(1, 11):
        left = shell("spend", "--scope", "survey", "--epsilon", "0.1", "--json").json["remaining_count"]
        assert left == 10 - spent

    refused = shell("spend", "--scope", "survey", "--epsilon", "0.1")
    assert refused.code == 5
    assert "does not fit into scope 'survey'" in refused.error
    (scope,) = shell("status", "--scope", "survey", "--json").json["scopes"]
    assert (scope["epsilon_charged"], scope["epsilon_remaining"], scope["spent"]) == (1.0, 0.0, 10)
    assert shell("spend", "--scope", "survey", "--epsilon", "1e-300").code == 5


def test_the_float_above_one_tenth_is_not_one_tenth(shell: Run) -> None:
    with PrivacyLedger.open("budget.db") as ledger:
        assert ledger.remaining_count("survey", EpsilonDeltaEvent(epsilon=0.1)) == 9
        assert ledger.remaining_count("survey", EpsilonDeltaEvent(epsilon=Decimal("0.1"))) == 10


@pytest.mark.parametrize(("text", "times"), [("0.3", 3), ("3/10", 3), ("0.1", 1), ("1/3", 3), ("0.29999999", 2)])
def test_a_budget_is_the_decimal_that_was_written(shell: Run, text: str, times: int) -> None:
    assert shell("create", "--scope", "study", "--epsilon", text, "--delta", 0, "--measure", "pure").code == 0
    found = shell("status", "--scope", "study", "--epsilon", "0.1", "--json").json

    assert found["scopes"][0]["remaining_count"] == times


def test_a_key_is_charged_once_and_a_second_run_is_told_so(shell: Run) -> None:
    """A job that is repeated after it published must not publish again."""
    charge = ("spend", "--scope", "survey", "--epsilon", "0.1", "--key", "week-1")
    first = shell(*charge, "--json").json
    refused = shell(*charge)
    again = shell(*charge, "--again-ok", "--json").json

    assert (first["new"], first["remaining_count"]) == (True, 9)
    assert (refused.code, refused.out) == (3, "")
    assert "key 'week-1' has paid for a release that began already" in refused.error
    assert again == {**first, "new": False}
    assert "this key is not new" in shell(*charge, "--again-ok").out
    other = shell("spend", "--scope", "survey", "--epsilon", "0.2", "--key", "week-1")
    assert "key 'week-1' was used for another reservation" in other.error


def test_a_reserved_ticket_is_taken_by_a_program_under_its_key(shell: Run) -> None:
    step = ("--noise-multiplier", 1.1, "--sampling-probability", 0.01)
    found = shell("reserve", "--scope", "hospital", *step, "--key", "round-7", "--json").json

    event = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.1))
    assert (found["state"], found["key"], found["scopes"]) == ("held", "round-7", ["hospital"])
    with PrivacyLedger.open("budget.db") as ledger:
        ticket = ledger.reserve("hospital", event, key="round-7")
        assert (ticket.id, ticket.state) == (found["ticket"], TicketState.HELD)


def test_a_key_that_a_program_armed_is_not_spent_again(shell: Run) -> None:
    step = ("--scope", "survey", "--epsilon", "0.1", "--key", "round-7")
    assert [shell("reserve", *step, "--json").json["new"] for _ in range(2)] == [True, False]
    assert shell("spend", *step, "--json").json["new"]  # it uses up what was held
    for command in ("spend", "reserve"):
        assert shell(command, *step).code == 3
    found = shell("reserve", *step, "--again-ok", "--json").json
    assert (found["new"], found["state"], found["remaining_count"]) == (False, "spent", 9)


def test_a_reservation_without_a_key_gets_one_that_is_shown(shell: Run) -> None:
    keys = [shell("reserve", "--scope", "survey", "--epsilon", "0.1", "--json").json["key"] for _ in range(2)]

    assert len(set(keys)) == 2
    with PrivacyLedger.open("budget.db") as ledger:
        assert ledger.reserve("survey", EpsilonDeltaEvent(epsilon=Decimal("0.1")), key=keys[0]).key == keys[0]
        assert ledger.report("survey").held == 2


def test_several_scopes_are_charged_all_or_none(shell: Run) -> None:
    shell("create", "--scope", "small", "--epsilon", "0.15", "--delta", 0, "--measure", "pure")
    both = ("--scope", "survey", "--scope", "small", "--epsilon", "0.1")

    assert shell("spend", *both).code == 0
    assert "does not fit into scope 'small'" in shell("spend", *both).error
    found = shell("status", "--json").json["scopes"]
    assert {each["scope"]: each["epsilon_charged"] for each in found} == {"hospital": 0.0, "small": 0.1, "survey": 0.1}


def test_a_plan_is_charged_as_its_certified_epsilon(shell: Run) -> None:
    shell("create", "--scope", "plan", "--epsilon", 2, "--delta", "1e-5", "--measure", "pure")
    step = ("--noise-multiplier", 1.1, "--sampling-probability", 0.01, "--count", 1000)

    found = shell("reserve", "--scope", "plan", *step, "--plan-delta", "1e-6", "--json").json
    assert found["remaining_count"] is None
    (scope,) = shell("status", "--scope", "plan", "--json").json["scopes"]
    assert 1.0 < scope["epsilon_charged"] < 2.0
    assert scope["delta_charged"] == pytest.approx(1e-6, rel=1e-12)


def test_status_shows_budgets_what_was_spent_and_what_is_left(shell: Run, wide: None) -> None:
    for _ in range(3):
        shell("spend", "--scope", "survey", "--epsilon", "0.1")
    shell("freeze", "--scope", "hospital", "--reason", "incident 12")

    rows = [line.split() for line in shell("status").out.splitlines()]
    assert rows[0] == ["scope", "measure", "epsilon", "charged", "left", "delta", "any", "time", "held", "used"]
    assert rows[2] == ["hospital", "(frozen)", "rdp", "4", "0", "4", "1e-06", "0", "0", "0"]
    assert rows[3] == ["survey", "pure", "1", "0.3", "0.7", "0", "0.3", "0", "3"]
    with PrivacyLedger.open("budget.db") as ledger:
        assert rows[-1] == ["head", str(ledger.head)]
    assert "hospital: frozen; nothing fits until 'ferrodp ledger thaw'\n" in shell("status").out
    assert "survey: releases whose epsilons add up to 0.7 still fit\n" in shell("status").out

    rows = [line.split() for line in shell("status", "--noise-multiplier", 10).out.splitlines()]
    assert [row[-1] for row in rows[2:4]] == ["0", "unknown"]  # frozen; and Gaussian noise has no pure ε
    alone = shell("status", "--scope", "survey", "--noise-multiplier", 10)
    assert "cannot charge GaussianEvent" in alone.error


def test_status_says_what_holds_whenever_one_looks_and_what_is_promised(shell: Run) -> None:
    assert shell(
        *("create", "--scope", "bounded", "--epsilon", 2, "--delta", "1e-6", "--measure", "gdp"),
        *("--highest-epsilon", 3),
    ).code == 0  # fmt: skip
    shell("spend", "--scope", "bounded", "--noise-multiplier", 20)
    assert (
        "highest that was declared" in shell("raise-cap", "--scope", "bounded", "--epsilon", 4, "--reason", "x").error
    )
    shell("raise-cap", "--scope", "hospital", "--epsilon", 6, "--reason", "board")

    scopes = {each["scope"]: each for each in shell("status", "--json").json["scopes"]}
    with PrivacyLedger.open("budget.db") as ledger:
        assert scopes["bounded"]["epsilon_any_time"] == ledger.odometer("bounded").epsilon
    assert scopes["bounded"]["epsilon_any_time"] > scopes["bounded"]["epsilon_charged"] > 0.0
    assert (scopes["bounded"]["promised_epsilon"], scopes["bounded"]["promised_delta"]) == (3.0, 1e-6)
    assert scopes["hospital"]["promised_epsilon"] is None
    assert "raised  more was allowed than was said at the beginning: hospital\n" in shell("status").out


def test_rare_states_have_a_column_when_there_are_such_tickets(shell: Run, wide: None) -> None:
    with PrivacyLedger.open("budget.db") as ledger:
        ledger.reserve("survey", EpsilonDeltaEvent(epsilon=0.125)).cancel()
        ledger.reserve("survey", EpsilonDeltaEvent(epsilon=0.125)).arm()
        ledger.reserve("survey", EpsilonDeltaEvent(epsilon=0.125))

    rows = [line.split() for line in shell("status", "--scope", "survey").out.splitlines()]
    assert rows[0][-4:] == ["held", "used", "armed", "cancelled"]
    assert rows[2] == ["survey", "pure", "1", "0.25", "0.75", "0", "0.25", "1", "0", "1", "1"]


def test_a_held_ticket_is_used_up_by_spending_its_key(shell: Run) -> None:
    step = ("--scope", "survey", "--epsilon", "0.1", "--key", "week-1")
    shell("reserve", *step)
    found = shell("spend", *step, "--json").json

    (scope,) = shell("status", "--scope", "survey", "--json").json["scopes"]
    assert (found["remaining_count"], scope["held"], scope["spent"]) == (9, 0, 1)


def test_what_is_left_is_printed_rounded_down_and_what_is_spent_up(shell: Run) -> None:
    shell("spend", "--scope", "hospital", "--noise-multiplier", 10)
    row = shell("status", "--scope", "hospital").out.splitlines()[2].split()
    (exact,) = shell("status", "--scope", "hospital", "--json").json["scopes"]

    assert exact["epsilon_charged"] <= float(row[3]) < exact["epsilon_charged"] + 1e-5
    assert exact["epsilon_remaining"] - 1e-5 < float(row[4]) <= exact["epsilon_remaining"]


def test_history_has_a_line_a_record_newest_last(shell: Run, wide: None) -> None:
    shell("spend", "--scope", "survey", "--epsilon", "0.1", "--key", "week-1")
    shell("freeze", "--scope", "survey", "--reason", "incident 12")

    lines = shell("history", "--scope", "survey").out.splitlines()
    assert lines[0].split() == ["record", "time", "(UTC)", "kind", "scope", "ticket", "what"]
    assert [line.split()[0] for line in lines[2:]] == ["1", "3", "4"]
    assert re.search(r"epsilon 0\.1 \(spent\); key week-1; by \S+@\S+ \S+\[\d+\]$", lines[-2])
    assert "reason incident 12; by " in lines[-1]

    last = shell("history", "--limit", 1)
    assert "The last 1 of 4 records." in last.out
    assert [record["kind"] for record in shell("history", "--json").json["records"]] == [
        *("create", "create", "reserve", "freeze")
    ]
    assert "scope 'nowhere' does not exist" in shell("history", "--scope", "nowhere").error


def test_a_witness_tells_of_an_earlier_state(shell: Run) -> None:
    early = Path("budget.db").read_bytes()
    shell("spend", "--scope", "survey", "--epsilon", "0.1")
    head = shell("verify", "--json").json["head"]
    assert shell("verify", "--witness", head, "--json").json == {
        "schema": 1,
        "command": "ledger verify",
        "ledger": "budget.db",
        "records": 3,
        "witness": head,
        "head": head,
    }
    assert head in shell("verify").out

    Path("budget.db").write_bytes(early)
    assert shell("verify").code == 0
    assert "an earlier state was put back" in shell("verify", "--witness", head).error


def test_every_action_refuses_a_ledger_that_was_changed(shell: Run) -> None:
    import sqlite3

    connection = sqlite3.connect("budget.db")
    connection.execute("UPDATE scopes SET spent = replace(spent, '0', '1')")
    connection.commit()
    connection.close()

    for argv in (["verify"], ["status"], ["spend", "--scope", "survey", "--epsilon", "0.1"]):
        assert "its row was changed" in shell(*argv).error


def test_export_writes_the_log_whole_or_not_at_all(shell: Run) -> None:
    with PrivacyLedger.open("budget.db") as ledger:
        expected = list(ledger.export())

    assert shell("export").out.splitlines() == expected
    assert shell("export", "--json").json["lines"] == [json.loads(line) for line in expected]
    assert "out.jsonl (2 records)" in shell("export", "-o", "out.jsonl").out
    assert Path("out.jsonl").read_text().splitlines() == expected
    Path("out.jsonl").write_text("precious")
    assert "exists already" in shell("export", "-o", "out.jsonl").error
    assert Path("out.jsonl").read_text() == "precious"
    assert shell("export", "-o", "out.jsonl", "--force", "--json").json["records"] == 2
    assert Path("out.jsonl").read_text().splitlines() == expected


def test_caps_and_freezing_take_a_reason_that_is_kept(shell: Run) -> None:
    why = ("--scope", "survey", "--reason", "board, 3 May")
    assert shell("raise-cap", *why, "--epsilon", "1.2", "--json").json["epsilon"] == 1.2
    assert shell("lower-cap", *why, "--epsilon", "1.1", "--json").json["epsilon"] == 1.1
    assert shell("freeze", *why, "--json").json["frozen"] is True
    assert "is frozen" in shell("spend", "--scope", "survey", "--epsilon", "0.1").error
    assert shell("thaw", *why, "--json").json["frozen"] is False
    assert "must be at most" in shell("lower-cap", *why, "--epsilon", 2).error
    assert "must be at least" in shell("raise-cap", *why, "--epsilon", 1).error

    reasons = [record.get("reason") for record in shell("history", "--scope", "survey", "--json").json["records"]]
    assert reasons == [None, *4 * ["board, 3 May"]]
    for action in ("freeze", "thaw", "raise-cap", "lower-cap"):
        found = shell(action, "--scope", "survey", *(("--epsilon", 1) if "cap" in action else ()))
        assert (found.code, "--reason" in found.error) == (2, True)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_shells_that_race_for_a_budget_get_what_is_there(shell: Run, start: Run) -> None:
    argv = ("ledger", "spend", "budget.db", "--scope", "survey", "--epsilon", "0.4")
    processes = [start(*argv) for _ in range(4)]
    codes = []
    for process in processes:
        process.communicate(timeout=60)
        codes.append(process.returncode)

    assert sorted(codes) == [0, 0, 5, 5]
    assert shell("status", "--scope", "survey", "--json").json["scopes"][0]["exact"]["epsilon_charged"] == "4/5"


def test_an_interrupted_charge_is_there_or_not(shell: Run, start: Run) -> None:
    with start("ledger", "spend", "budget.db", "--scope", "survey", "--epsilon", "0.1", "--key", "k") as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    shell("spend", "--scope", "survey", "--epsilon", "0.1", "--key", "k")
    (scope,) = shell("status", "--scope", "survey", "--json").json["scopes"]
    assert (scope["exact"]["epsilon_charged"], scope["spent"]) == ("1/10", 1)
