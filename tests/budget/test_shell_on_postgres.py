"""`ferrodp ledger` on a PostgreSQL server: the same as with a file."""

import json

import pytest

from ferrodp.cli import main


def test_a_ledger_on_a_server_is_used_from_the_shell(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shell(action: str, *argv: str) -> tuple[int, str]:
        code = main(["ledger", action, url, *argv])
        out, err = capsys.readouterr()
        return code, out or err

    assert shell("status")[0] == 1
    assert shell("create", "--scope", "survey", "--epsilon", "0.3", "--delta", "0", "--measure", "pure")[0] == 0
    for left in (2, 1, 0):
        code, out = shell("spend", "--scope", "survey", "--epsilon", "0.1", "--json")
        assert (code, json.loads(out)["remaining_count"]) == (0, left)
    code, refused = shell("spend", "--scope", "survey", "--epsilon", "0.1")
    assert (code, "does not fit into scope 'survey'" in refused, refused.count("\n")) == (1, True, 1)
    code, out = shell("verify", "--json")
    assert (code, json.loads(out)["records"]) == (0, 4)
    assert shell("verify", "--witness", json.loads(out)["head"])[0] == 0
    assert url not in "".join(shell(action)[1] for action in ("status", "history", "verify"))
