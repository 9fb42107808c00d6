"""Each record says who wrote it, as far as that is wanted; nothing depends on it."""

import json
import os
import socket
import subprocess
import sys

import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import Head, PrivacyLedger, import_ledger
from ferrodp.budget import author as _author
from ferrodp.budget import records as _records
from ferrodp.budget.log import checkpoints as _checkpoints
from ferrodp.budget.log.replay import Replay
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError

TENTH = LaplaceEvent(noise_multiplier=10.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def made(path, **settings):
    with PrivacyLedger.open(path, **settings) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        ledger.spend("all", TENTH)
        ledger.verify()
        return list(ledger.history())


def test_each_record_says_user_host_process_and_program(path):
    pwd = pytest.importorskip("pwd")
    records = made(path)

    assert len(records) == 2
    for record in records:
        assert record["who"] == {
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "host": socket.gethostname()[:100],
            "pid": os.getpid(),
            "program": _author._program(),
        }


def lines_of(ledger):
    return [json.loads(json.loads(line)["record"]) for line in list(ledger.export())[1:]]


def test_the_log_says_it_once_for_each_handle(path, tmp_path):
    with PrivacyLedger.open(path, program="one") as one, PrivacyLedger.open(path, program="two") as two:
        one.create("all", epsilon=1.0, delta=0.0, measure="pure")
        two.spend("all", TENTH)
        for ledger in (one, two, one):
            ledger.spend("all", TENTH)
        assert [body["who"] if isinstance(body["who"], int) else body["who"]["program"] for body in lines_of(one)] == [
            "one",
            "two",
            1,
            2,
            1,
        ]
        names = ["one", "two", "one", "two", "one"]
        assert [body["who"]["program"] for body in one.history()] == names
        for limit in (1, 2, 3):
            assert [body["who"]["program"] for body in two.history(limit=limit)] == names[-limit:]
        one.backup(tmp_path / "log.jsonl")
    import_ledger(tmp_path / "log.jsonl", tmp_path / "new.db", reason="moved")
    with PrivacyLedger.open(tmp_path / "new.db") as ledger:
        assert [body["who"]["program"] for body in ledger.history()][:5] == names
        assert ledger.verify() == ledger.head


def test_what_was_not_written_is_said_again(path, monkeypatch):
    """The record that says who writes was refused: the next one may not name it."""
    with PrivacyLedger.open(path, program="one") as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
    with PrivacyLedger.open(path, program="two") as ledger:
        store = ledger._access.store
        with monkeypatch.context() as patch:
            patch.setattr(store, "execute_many", lambda *_: (_ for _ in ()).throw(LedgerError("no")))
            with pytest.raises(LedgerError, match="no"):
                ledger.spend("all", TENTH)
        ledger.spend("all", TENTH)
        ledger.spend("all", TENTH)
        assert [body["who"] for body in lines_of(ledger)][2] == 2
        assert [body["who"]["program"] for body in ledger.history()] == ["one", "two", "two"]
        assert ledger.verify() == ledger.head


def test_a_state_does_not_keep_who_wrote_before_it(path, monkeypatch):
    monkeypatch.setattr(_checkpoints, "RECORDS_APART", 1)
    monkeypatch.setattr(_checkpoints, "_RECORDS_AN_ENTRY", 0)
    with PrivacyLedger.open(path, program="one") as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        with PrivacyLedger.open(path, program="two", verify="new"):
            pass
        ledger.spend("all", TENTH)
        assert [body["kind"] for body in ledger.history()] == ["create", "checkpoint", "reserve"]
    for verify in ("new", "all"):
        with PrivacyLedger.open(path, program="three", verify=verify) as ledger:
            assert ledger.history()[2]["who"]["program"] == "one"


def test_a_program_has_the_name_that_it_was_given(path, monkeypatch):
    monkeypatch.setenv("FERRODP_PROGRAM", "nightly")
    assert {record["who"]["program"] for record in made(path)} == {"nightly"}
    assert {record["who"]["program"] for record in made(f"{path}-2", program="training é")} == {"training é"}


def test_records_need_not_say_who_wrote_them(path, monkeypatch):
    assert not any("who" in record for record in made(path, program=""))
    monkeypatch.setenv("FERRODP_PROGRAM", "")
    assert not any("who" in record for record in made(f"{path}-2"))


@pytest.mark.parametrize(
    ("name", "error"), [("a\nb", InvalidParameter), ("x" * 201, InvalidParameter), (3, InvalidType)]
)
def test_a_name_that_is_none_is_refused_before_a_file_is_made(path, name, error):
    with pytest.raises(error, match="program"):
        PrivacyLedger.open(path, program=name)
    assert not path.exists()


def test_a_program_is_called_by_its_script(path, monkeypatch):
    for argument, name in (("/usr/bin/train.py", "train.py"), ("/x/ferrodp/__main__.py", "ferrodp"), ("", "python")):
        monkeypatch.setattr(sys, "argv", [argument])
        assert _author._program() == name
    script = "import sys; from ferrodp.budget import PrivacyLedger as L; L.open(sys.argv[1]).freeze('all', reason='x')"
    made(path)
    child = subprocess.Popen([sys.executable, "-c", script, str(path)])
    assert child.wait() == 0
    with PrivacyLedger.open(path) as ledger:
        assert list(ledger.history())[-1]["who"]["pid"] == child.pid


def test_long_names_are_cut(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 500)
    assert len(json.loads(_author.author("p" * 150))["host"]) == 100
    assert len(_author.author("p" * 150)) < 500


def test_an_import_says_who_made_it(path, tmp_path):
    made(path, program="")
    with PrivacyLedger.open(path) as ledger:
        ledger.backup(tmp_path / "log.jsonl")
    import_ledger(tmp_path / "log.jsonl", tmp_path / "new.db", reason="moved")
    with PrivacyLedger.open(tmp_path / "new.db") as ledger:
        assert "who" in list(ledger.history())[-1]


@pytest.mark.parametrize(
    "who",
    [
        "me",
        None,
        0,
        -1,
        2,
        3,
        True,
        1.0,
        {},
        {"user": "a"},
        *({"user": "a", "host": "b", "program": "c", "pid": pid} for pid in ("1", 1.0, True)),
    ],
)
def test_a_log_that_says_it_in_another_way_is_refused(path, who):
    bodies = made(path)
    bodies[1]["who"] = who
    start = "1" * 64
    replay, digest = Replay(Head(0, start)), start
    rows = []
    for body in bodies:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        digest = _records.chained(digest, text)
        rows.append((body["sequence"], text, digest))
    with pytest.raises(LedgerError, match="record 2 of the log is written by nobody"):
        replay.read(rows)
