"""`ferrodp ledger backup`, `import` and `migrate`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def spent(shell: Run) -> Run:
    shell("spend", "--scope", "survey", "--epsilon", "0.5")
    return shell


def test_a_backup_is_imported(spent: Run, ferrodp: Run) -> None:
    head = spent("backup", "-o", "copy.jsonl.gz", "--json").json["head"]
    assert "exists already" in spent("backup", "-o", "copy.jsonl.gz").error
    assert spent("backup", "-o", "copy.jsonl.gz", "--force").code == 0
    reason = ("--reason", "disk failed")

    refused = ferrodp("ledger", "import", "new.db", "--from", "copy.jsonl.gz", "--witness", "9:" + "0" * 64, *reason)
    assert "does not contain the witness" in refused.error
    found = ferrodp("ledger", "import", "new.db", "--from", "copy.jsonl.gz", "--witness", head, *reason)
    assert "Stop using the original" in found.out
    status = ferrodp("ledger", "status", "new.db", "--scope", "survey", "--json").json["scopes"][0]
    assert status["epsilon_charged"] == 0.5
    assert "disk failed" in ferrodp("ledger", "history", "new.db").out
    assert ferrodp("ledger", "verify", "new.db", "--witness", head).code == 0


def test_an_export_is_imported(spent: Run, ferrodp: Run) -> None:
    assert spent("export", "-o", "log.jsonl").code == 0

    assert ferrodp("ledger", "import", "new.db", "--from", "log.jsonl", "--reason", "x").code == 0


def test_a_moved_ledger_takes_no_charge(spent: Run, ferrodp: Run) -> None:
    found = spent("migrate", "--to", "new.db", "--reason", "larger disk")

    assert "takes no record any more" in found.out
    assert "was moved to another place" in spent("spend", "--scope", "survey", "--epsilon", "0.1").error
    assert spent("status").code == 0
    assert ferrodp("ledger", "spend", "new.db", "--scope", "survey", "--epsilon", "0.5").code == 0
    assert ferrodp("ledger", "spend", "new.db", "--scope", "survey", "--epsilon", "0.1").code != 0


def test_the_older_format_is_moved(ferrodp: Run, tmp_path: Path) -> None:
    stored = Path(__file__).parents[1] / "stored" / "format-2.db"
    (tmp_path / "old.db").write_bytes(stored.read_bytes())

    assert "ferrodp ledger migrate" in ferrodp("ledger", "status", tmp_path / "old.db").error
    moved = ferrodp("ledger", "migrate", tmp_path / "old.db", "--to", tmp_path / "new.db", "--reason", "new version")
    assert moved.code == 0
    assert ferrodp("ledger", "verify", tmp_path / "new.db").code == 0
