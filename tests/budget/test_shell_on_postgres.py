"""`ferrodp ledger` on a PostgreSQL server: the same as with a file."""

import json
from typing import Any

import pytest

from ferrodp.cli import main


def test_a_ledger_on_a_server_is_used_from_the_shell(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shell(action: str, *argv: str) -> tuple[int, str]:
        code = main(["ledger", action, url, *argv])
        out, err = capsys.readouterr()
        return code, out or err

    assert shell("status")[0] == 8
    assert shell("create", "--scope", "survey", "--epsilon", "0.3", "--delta", "0", "--measure", "pure")[0] == 0
    for left in (2, 1, 0):
        code, out = shell("spend", "--scope", "survey", "--epsilon", "0.1", "--json")
        assert (code, json.loads(out)["remaining_count"]) == (0, left)
    code, refused = shell("spend", "--scope", "survey", "--epsilon", "0.1")
    assert (code, "does not fit into scope 'survey'" in refused, refused.count("\n")) == (5, True, 1)
    code, out = shell("verify", "--json")
    assert (code, json.loads(out)["records"]) == (0, 4)
    assert shell("verify", "--witness", json.loads(out)["head"])[0] == 0
    assert url not in "".join(shell(action)[1] for action in ("status", "history", "verify"))


def test_rights_are_granted_from_the_shell(url: str, server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    server.sql("CREATE ROLE trainer LOGIN")
    try:
        main(["ledger", "create", url, "--scope", "survey", "--epsilon", "1", "--delta", "0", "--measure", "pure"])
        assert main(["ledger", "grant", url, "--role", "trainer", "--rights", "spender"]) == 0
        capsys.readouterr()
        mine = server.url(user="trainer")

        assert main(["ledger", "spend", mine, "--scope", "survey", "--epsilon", "0.5"]) == 0
        assert main(["ledger", "raise-cap", mine, "--scope", "survey", "--epsilon", "2", "--reason", "more"]) == 11
        assert "by this role" in capsys.readouterr().err
        assert main(["ledger", "grant", "budget.db", "--role", "trainer", "--rights", "spender"]) == 4
        assert "a file has no roles" in capsys.readouterr().err
    finally:
        server.sql("DROP OWNED BY trainer; DROP ROLE trainer")


def test_a_replica_answers_questions(url: str, server: Any, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    main(["ledger", "create", url, "--scope", "survey", "--epsilon", "1", "--delta", "0", "--measure", "pure"])
    with server.replica() as replica:
        there = replica.url()
        capsys.readouterr()
        assert main(["ledger", "status", there]) == 11
        assert "is a replica" in capsys.readouterr().err
        for action in ("status", "history", "verify", "export", "tickets"):
            assert main(["ledger", action, there, "--read-only"]) == 0
        assert main(["ledger", "backup", there, "--read-only", "-o", str(tmp_path / "copy.jsonl")]) == 0
