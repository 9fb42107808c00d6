"""`ferrodp ledger tickets` and `cancel`: what is held, and giving back what nobody will use."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from ferrodp import PrivacyLedger
from ferrodp.cli.ledger import tickets as _ledger_tickets

Run = Callable[..., Any]


def reserve(shell: Run, key: str) -> str:
    return str(shell("reserve", "--scope", "survey", "--epsilon", "0.1", "--key", key, "--json").json["ticket"])


def test_held_tickets_are_listed_and_cancelled_by_name(shell: Run, wide: None) -> None:
    first, second = reserve(shell, "a"), reserve(shell, "b")

    listed = shell("tickets", "--json").json["tickets"]
    assert [(each["ticket"], each["state"], each["key"]) for each in listed] == [
        (first, "held", "a"),
        (second, "held", "b"),
    ]
    assert first in shell("tickets").out
    assert shell("cancel", "--ticket", first, "--reason", "crash", "--json").json["cancelled"] == [first]
    assert [each["ticket"] for each in shell("tickets", "--json").json["tickets"]] == [second]
    assert shell("tickets", "--state", "cancelled", "--json").json["tickets"][0]["ticket"] == first
    assert "reason crash" in shell("history").out


def test_only_old_tickets_of_the_scope_are_cancelled(shell: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    old = reserve(shell, "a")
    assert shell("cancel", "--older-than", 1, "--reason", "x", "--json").json["cancelled"] == []
    assert shell("cancel", "--older-than", 0, "--scope", "hospital", "--reason", "x", "--json").json["cancelled"] == []

    class Tomorrow(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + datetime.timedelta(days=2)

    monkeypatch.setattr(_ledger_tickets.datetime, "datetime", Tomorrow)
    assert shell("cancel", "--older-than", 1, "--reason", "x", "--json").json["cancelled"] == [old]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "either --ticket or --older-than must be given"),
        (("--ticket", "a", "--older-than", 1), "either --ticket or --older-than must be given"),
        (("--ticket", "a", "--scope", "survey"), "--scope must come with --older-than"),
        (("--older-than", -1), "--older-than must be"),
        (("--older-than", "nan"), "--older-than must be"),
        (("--ticket", "0" * 32), "is not in this ledger"),
    ],
)
def test_what_cannot_be_meant_is_refused(shell: Run, arguments: tuple[object, ...], told: str) -> None:
    reserve(shell, "a")

    assert told in shell("cancel", *arguments, "--reason", "x").error
    with PrivacyLedger.open("budget.db") as ledger:
        assert ledger.report("survey").held == 1
