"""A ledger is moved once: whatever is interrupted, repeated, renamed or raced for, one ledger takes its charges."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger, import_ledger, migrate_ledger, records
from ferrodp.errors import BudgetExceeded, InvalidParameter, LedgerError

STORED = Path(__file__).parents[1] / "stored"
EIGHTH = EpsilonDeltaEvent(epsilon=0.125)
KINDS = ["file", "server", "format 2"]
LEFT = {"file": 3, "server": 3, "format 2": 14}


@pytest.fixture
def place(request, tmp_path):
    """A function that returns where a ledger of a kind may be; `name` tells places of one kind apart."""

    def named(kind, name):
        if kind != "server":
            return str(tmp_path / f"{name}.db")
        server = request.getfixturevalue("server")
        database = f"moves_{name}"
        with contextlib.suppress(Exception):
            server.sql(f"CREATE DATABASE {database}")
        server.sql("SET client_min_messages = error; DROP SCHEMA IF EXISTS ferrodp CASCADE", database)
        return server.url(database)

    return named


@pytest.fixture
def old(place):
    """A function that makes a ledger of a kind with `LEFT` releases left, and returns where."""

    def made(kind, name="old"):
        where = place(kind, name)
        if kind == "format 2":
            shutil.copy(STORED / "format-2.db", where)
            return where
        with PrivacyLedger.open(where) as ledger:
            ledger.create("survey", epsilon=0.5, delta=0.0, measure="pure")
            ledger.spend("survey", EIGHTH)
        return where

    return made


def armed(*places):
    """Spend all ledgers to their end, and return how many releases that were."""
    count = 0
    for where in places:
        with contextlib.suppress(LedgerError, BudgetExceeded), PrivacyLedger.open(where, create=False) as ledger:
            while True:
                with ledger.reserve("survey", EIGHTH) as ticket:
                    ticket.arm()
                count += 1
    return count


class Died(BaseException):
    """Stands for the death of a process: nothing handles it."""


def interrupted(at_point, point, source, to):
    """Begin a move that dies at a point."""

    def die():
        raise Died

    at_point(point, die)
    with pytest.raises(Died):
        migrate_ledger(source, to, reason="x")


@pytest.mark.parametrize("to", ["file", "server"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_is_moved_to_one_place(old, place, kind, to):
    source, places = old(kind), [place(to, f"new{number}") for number in range(3)]
    migrate_ledger(source, places[0], reason="x")

    for other in places[1:]:
        with pytest.raises(LedgerError, match=r"was moved to .*new0.*no ledger in the place|import_ledger"):
            migrate_ledger(source, other, reason="x")
    with pytest.raises(LedgerError, match="the move is complete: use the ledger there"):
        migrate_ledger(source, places[0], reason="x")

    assert armed(*places) == LEFT[kind]
    if to == "file":
        assert [os.path.exists(each) for each in places] == [True, False, False]


def test_a_result_that_was_renamed_is_not_made_again(old, tmp_path):
    source, new = old("file"), tmp_path / "new.db"
    migrate_ledger(source, new, reason="x")
    os.rename(new, tmp_path / "production.db")

    with pytest.raises(LedgerError, match=r"there is no ledger in the place that was given.*import_ledger"):
        migrate_ledger(source, new, reason="x")
    with pytest.raises(LedgerError, match=r"is another ledger, or a copy in another place"):
        migrate_ledger(source, tmp_path / "production.db", reason="x")
    assert armed(new, tmp_path / "production.db") == 3
    assert not new.exists()


@pytest.mark.parametrize("to", ["file", "server"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_move_interrupted_before_its_record_leaves_the_old_ledger_open(old, place, at_point, kind, to):
    source, new, other = old(kind), place(to, "new"), place(to, "other")
    interrupted(at_point, "before the move", source, new)

    pending = pytest.raises(LedgerError, match="is the destination of a move that is not complete")
    with pending:
        PrivacyLedger.open(new)
    with pending:
        import_ledger(STORED / "format-2.jsonl", new, reason="x")
    with PrivacyLedger.open(new, verify=False) as ledger, pending:
        ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
    if kind != "format 2":
        with PrivacyLedger.open(source) as ledger:
            ledger.freeze("survey", reason="x")
            ledger.thaw("survey", reason="x")
    migrate_ledger(source, other, reason="another place will do")
    with pytest.raises(LedgerError, match="another ledger"):
        migrate_ledger(source, new, reason="x")
    assert armed(source, new, other) == LEFT[kind]


@pytest.mark.parametrize("point", ["before the move", "after the move"])
@pytest.mark.parametrize("to", ["file", "server"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_move_that_was_interrupted_goes_on(old, place, at_point, kind, to, point):
    source, new = old(kind), place(to, "new")
    interrupted(at_point, point, source, new)
    if point == "after the move":
        assert armed(source, new) == 0

    head = migrate_ledger(source, new, reason="again")

    with PrivacyLedger.open(new) as ledger:
        assert ledger.verify() == head
        *_, move, last = ledger.history()
        assert (move["kind"], last["kind"]) == ("move", "import")
        assert move["to"]["ledger"] == last["ledger"]
        assert move["to"]["name"] in (f"ledger {new!r}", ledger._access.store.name)
    assert armed(source, new) == LEFT[kind]


def test_a_move_whose_record_is_written_is_completed_in_its_ledger_alone(old, tmp_path, at_point):
    source, new = old("file"), tmp_path / "new.db"
    interrupted(at_point, "before the move", source, new)
    os.rename(new, tmp_path / "first.db")
    interrupted(at_point, "after the move", source, new)
    os.rename(new, tmp_path / "second.db")
    os.rename(tmp_path / "first.db", new)

    with pytest.raises(LedgerError, match="is another ledger"):  # made for this move, and not named by its record
        migrate_ledger(source, new, reason="x")

    os.rename(new, tmp_path / "first.db")
    os.rename(tmp_path / "second.db", new)
    migrate_ledger(source, new, reason="x")
    assert armed(source, new, tmp_path / "first.db") == 3


def test_a_copy_of_the_pending_ledger_is_not_completed_in_another_place(old, tmp_path, at_point):
    source, new, copy = old("file"), tmp_path / "new.db", tmp_path / "copy.db"
    interrupted(at_point, "after the move", source, new)
    shutil.copy(new, copy)

    with pytest.raises(LedgerError, match="a copy in another place"):
        migrate_ledger(source, copy, reason="x")
    migrate_ledger(source, new, reason="x")
    assert armed(new, copy) == 3


def test_other_names_of_the_same_place_are_the_same_place(old, tmp_path, at_point, monkeypatch):
    source, new = old("file"), tmp_path / "new.db"
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "new-link.db").symlink_to(new)
    os.symlink(source, tmp_path / "old-link.db")
    interrupted(at_point, "after the move", tmp_path / "link" / "old.db", tmp_path / "link" / "new.db")
    monkeypatch.chdir(tmp_path)

    migrate_ledger("old-link.db", "new-link.db", reason="x")
    for name in ("new.db", "link/new.db", "./new.db", tmp_path / "new-link.db"):
        with pytest.raises(LedgerError, match="the move is complete"):
            migrate_ledger(source, name, reason="x")
    os.link(new, tmp_path / "hard.db")
    with pytest.raises(LedgerError, match="has other names"):
        migrate_ledger(source, tmp_path / "hard.db", reason="x")
    os.unlink(tmp_path / "hard.db")
    assert armed(new) == 3


@pytest.mark.parametrize("kind", ["file", "format 2"])
def test_a_place_that_waits_for_one_ledger_takes_no_other(old, place, at_point, kind):
    first, second, new = old(kind, "first"), old("file", "second"), place("file", "new")
    interrupted(at_point, "before the move", first, new)

    with pytest.raises(LedgerError, match="was made for the move of another ledger; choose another place"):
        migrate_ledger(second, new, reason="x")
    assert armed(second) == 3
    migrate_ledger(first, new, reason="x")
    assert armed(new) == LEFT[kind]


def test_nothing_is_moved_over_a_ledger_nor_closed_for_it(old, tmp_path):
    source, other = old("file"), old("file", "other")
    PrivacyLedger.open(tmp_path / "empty.db").close()

    for taken in (other, source, tmp_path / "empty.db"):
        with pytest.raises(LedgerError, match="is there already"):
            migrate_ledger(source, taken, reason="x")
    with pytest.raises(LedgerError, match="no directory"):
        migrate_ledger(source, tmp_path / "missing" / "new.db", reason="x")
    assert armed(source) == 3


@pytest.mark.parametrize("to", ["file", "server"])
def test_one_of_two_moves_at_the_same_time_is_recorded(old, place, at_point, to):
    source, first, second = old("file"), place(to, "first"), place(to, "second")
    at_point("before the move", lambda: migrate_ledger(source, second, reason="faster"))

    with pytest.raises(LedgerError, match="was moved to"):
        migrate_ledger(source, first, reason="slower")
    assert armed(source, first, second) == 3


def test_two_moves_to_one_place_at_the_same_time_are_one(old, tmp_path, at_point):
    source, new = old("file"), tmp_path / "new.db"
    at_point("after the move", lambda: migrate_ledger(source, new, reason="faster"))

    with pytest.raises(LedgerError, match="the move is complete"):
        migrate_ledger(source, new, reason="slower")
    assert armed(source, new) == 3


def test_a_pending_ledger_that_is_lost_is_replaced_by_an_import(old, tmp_path, at_point):
    for kind in ("file", "format 2"):
        source, new = old(kind, kind), tmp_path / f"{kind} new.db"
        interrupted(at_point, "after the move", source, new)
        for suffix in ("", "-wal", "-shm"):
            new.with_name(f"{new.name}{suffix}").unlink(missing_ok=True)
        with pytest.raises(LedgerError, match="import_ledger"):
            migrate_ledger(source, new, reason="x")

        log = source
        if kind == "file":
            log = tmp_path / "log.jsonl"
            with PrivacyLedger.open(source, read_only=True) as ledger:
                ledger.backup(log)
        import_ledger(log, new, reason="the disk failed during the move")

        assert armed(source, new) == LEFT[kind]


def test_a_ledger_of_format_2_that_takes_records_is_moved_not_imported(old, tmp_path):
    with pytest.raises(LedgerError, match="still takes records: move it by migrate_ledger"):
        import_ledger(old("format 2"), tmp_path / "new.db", reason="x")
    assert not (tmp_path / "new.db").exists()


def test_a_move_that_names_no_destination_is_not_continued(old, tmp_path):
    """Versions before wrote such records: their new ledger may be anywhere, and be spent already."""
    source = old("file")
    with PrivacyLedger.open(source) as ledger, ledger._access.store.writing() as transaction:
        transaction.record("move", reason="by an earlier version")
        transaction.close_log()

    with pytest.raises(LedgerError, match=r"by a version that did not note the destination.*import_ledger"):
        migrate_ledger(source, tmp_path / "new.db", reason="x")
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["old.db"]
    with PrivacyLedger.open(source) as ledger:
        assert ledger.verify() == ledger.head
        assert ledger.report("survey").epsilon_charged == 0.125


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda move, last: last.update(ledger="another"), "completes a move to another ledger"),
        (lambda move, last: move.update(to={"ledger": last["ledger"]}), "whose destination no version"),
        (lambda move, last: move.update(to="new.db"), "whose destination no version"),
        (lambda move, last: move.pop("to"), "completes a move to another ledger"),
    ],
)
def test_an_import_that_completes_another_move_is_no_log(old, tmp_path, change, said):
    source, log = old("file"), tmp_path / "log.jsonl"
    migrate_ledger(source, tmp_path / "new.db", reason="x")
    with PrivacyLedger.open(tmp_path / "new.db") as ledger:
        header, *lines = ledger.export()
    bodies = [json.loads(json.loads(line)["record"]) for line in lines]
    change(*bodies[-2:])
    digest = json.loads(header)["ferrodp_ledger"]["start"]
    with log.open("w") as stream:
        stream.write(f"{header}\n")
        for body in bodies:
            text = str(records.plain(body))
            digest = records.chained(digest, text)
            stream.write(json.dumps({"record": text, "hash": digest}) + "\n")

    with pytest.raises(LedgerError, match=said):
        import_ledger(log, tmp_path / "imported.db", reason="x")


MIGRATES = """
import os, sys
from ferrodp.budget import migrate_ledger, _crash_points
reached = []
def observer(name):
    reached.append(name)
    if len(reached) == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
_crash_points.observer = observer
migrate_ledger(sys.argv[1], sys.argv[2], reason="x")
"""


def test_a_move_killed_at_any_named_point_goes_on(old, tmp_path):
    """At each point the old ledger is open and whole, or closed, and never do both take a charge."""
    for number in range(1, 60):
        source, new = old("file", f"{number}-old"), tmp_path / f"{number}-new.db"
        code = subprocess.run([sys.executable, "-c", MIGRATES, source, new, str(number)], check=False).returncode
        assert code in (0, -signal.SIGKILL)
        spent = 0
        if code:
            for each in (source, new):
                with (
                    contextlib.suppress(LedgerError, InvalidParameter),
                    PrivacyLedger.open(each, create=False) as ledger,
                ):
                    spent += bool(ledger.spend("survey", EIGHTH, key="probe"))
            assert spent <= 1
            with contextlib.suppress(LedgerError):
                migrate_ledger(source, new, reason="again")
        with pytest.raises(LedgerError, match="the move is complete"):
            migrate_ledger(source, new, reason="again")
        assert spent + armed(source, new) == 3
        if code == 0:
            assert number == 10  # one more than it has
            return
    raise AssertionError("it has more points than expected")


def test_no_campaign_of_moves_arms_more_or_less_than_there_is(tmp_path):
    """Some hundred moves with kills, races and renamed results; `migrations.py` does many thousands, and on servers."""
    script = Path(__file__).with_name("migrations.py")
    command = [sys.executable, "-W", "error", str(script), "--moves", "250", "--no-server", "--folder", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "rounds with more armed than was left: 0; with less: 0" in done.stdout
