"""A ledger taken elsewhere: backed up, imported, moved between files and servers, and from an older format."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent
from ferrodp.budget import Head, PrivacyLedger, import_ledger, migrate_ledger
from ferrodp.errors import BudgetExceeded, InvalidType, LedgerError, TicketError
from ferrodp.files import FileRefused

STORED = Path(__file__).parents[1] / "stored"
EIGHTH = EpsilonDeltaEvent(epsilon=0.125)
PLACES = ["sqlite", "postgres"]


@pytest.fixture
def place(request, tmp_path):
    """A function that returns where a ledger of a kind, and of this number, may be."""

    def named(kind, number):
        return str(tmp_path / f"{number}.db") if kind == "sqlite" else request.getfixturevalue("url")

    return named


def fill(ledger):
    """Do a bit of everything."""
    ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
    ledger.create("a/b", epsilon=2.0, delta=1e-6, measure="gdp")
    ledger.reserve("survey", EIGHTH, key="held")
    with ledger.reserve("survey", EIGHTH, key="spent") as ticket:
        ticket.arm()
    ledger.reserve("survey", EIGHTH, key="gone").cancel()
    with ledger.lease("a/b", GaussianEvent(noise_multiplier=20.0), count=4) as lease:
        lease.draw().arm()
    ledger.freeze("a/b", reason="incident")
    ledger.raise_cap("survey", epsilon=2.0, reason="board")


def told(ledger):
    """Return all that a ledger says about its scopes and tickets."""
    return (
        {name: ledger.report(name) for name in ledger.scopes},
        [(each.id, each.key, each.state, each.count) for each in ledger.tickets()],
    )


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(("kind", "to"), [("sqlite", "sqlite"), ("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_backup_makes_the_same_ledger_again(place, tmp_path, kind, to, packed):
    copy = tmp_path / f"backup.jsonl{packed}"
    with PrivacyLedger.open(place(kind, 1)) as ledger:
        fill(ledger)
        before, head = told(ledger), ledger.backup(copy)
        assert head == ledger.head

    found = import_ledger(copy, place(to, 2), reason="disk failed", witness=head)

    with PrivacyLedger.open(place(to, 2), witness=head) as ledger:
        assert told(ledger) == before
        assert ledger.verify() == ledger.head == found == Head(head.sequence + 1, found.hash)
        assert ledger.history()[-1]["kind"] == "import"
        assert ledger.history()[-1]["reason"] == "disk failed"
        with ledger.reserve("survey", EIGHTH, key="held") as ticket:
            ticket.arm()
        with pytest.raises(TicketError):
            ledger.reserve("survey", EIGHTH, key="spent")
        with pytest.raises(BudgetExceeded, match="frozen"):
            ledger.spend("a/b", GaussianEvent(noise_multiplier=20.0))


@pytest.mark.parametrize(("kind", "to"), [("sqlite", "sqlite"), ("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_moved_ledger_goes_on_there_and_nowhere_else(place, kind, to):
    with PrivacyLedger.open(place(kind, 1)) as old:
        fill(old)
        before, witness = told(old), old.head
        held = old.reserve("survey", EIGHTH)

        head = migrate_ledger(place(kind, 1), place(to, 2), reason="larger")

        for change in (
            lambda: old.spend("survey", EIGHTH),
            lambda: old.create("new", epsilon=1.0, delta=0.0, measure="pure"),
            lambda: old.thaw("a/b", reason="x"),
            lambda: old.raise_cap("survey", epsilon=9.0, reason="x"),
            held.arm,
        ):
            with pytest.raises(LedgerError, match="was moved to another place"):
                change()
        assert old.history()[-1]["kind"] == "move"
        assert old.verify() == old.head
    with PrivacyLedger.open(place(to, 2), witness=witness) as new:
        assert new.verify() == new.head == head
        assert {name: report.epsilon_charged for name, report in told(new)[0].items()} == {
            "survey": 0.375,
            "a/b": before[0]["a/b"].epsilon_charged,
        }
        assert new.spend("survey", EIGHTH)
    with PrivacyLedger.open(place(kind, 1)) as old:  # a fresh handle is refused as well, and may read
        assert old.report("survey").epsilon_charged == 0.375
        with pytest.raises(LedgerError, match="was moved"):
            old.spend("survey", EIGHTH)


def test_a_moved_ledger_is_closed_to_programs_without_this_check(tmp_path):
    sqlite3 = pytest.importorskip("sqlite3")
    PrivacyLedger.open(tmp_path / "old.db").close()
    migrate_ledger(tmp_path / "old.db", tmp_path / "new.db", reason="x")

    with pytest.raises(sqlite3.IntegrityError, match="the ledger was moved"):
        sqlite3.connect(tmp_path / "old.db").execute("INSERT INTO log VALUES (2, '{}', '')")


def test_a_ledger_of_the_older_format_is_told_how_to_be_moved_and_is(tmp_path):
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    shutil.copy(STORED / "format-2.db", old)
    with pytest.raises(LedgerError, match="has format 2; this version reads 3: `ferrodp ledger migrate`"):
        PrivacyLedger.open(old)

    migrate_ledger(old, new, reason="0.2")

    expected = json.loads((STORED / "format-2.json").read_text())
    with PrivacyLedger.open(new) as ledger:
        for name, values in expected.items():
            report = ledger.report(name)
            found = {key: getattr(report, key) for key in values if key not in ("spent", "epsilon_charged")}
            assert found == {key: values[key] for key in found}, name
            assert report.epsilon_charged == pytest.approx(values["epsilon_charged"], rel=1e-9)
            assert float(report.epsilon) == values["epsilon"]
        with pytest.raises(TicketError):
            ledger.spend("survey", EpsilonDeltaEvent(epsilon=0.1), key="week-1")
    with pytest.raises(LedgerError, match="has format 1002"):
        PrivacyLedger.open(old)
    with pytest.raises(LedgerError, match="the move is complete: use the ledger there"):
        migrate_ledger(old, new, reason="twice")


def test_an_export_of_the_older_format_is_imported(tmp_path):
    import_ledger(STORED / "format-2.jsonl", tmp_path / "new.db", reason="0.2")

    with PrivacyLedger.open(tmp_path / "new.db") as ledger:
        assert ledger.report("plain").held == 1
        assert ledger.report("survey").held == 0
        assert ledger.verify() == ledger.head


def test_a_format_that_was_never_released_is_named(tmp_path):
    data = bytearray((STORED / "format-2.db").read_bytes())
    data[60:64] = (1).to_bytes(4, "big")
    (tmp_path / "old.db").write_bytes(data)

    with pytest.raises(LedgerError, match="format 1, of a version that was never released"):
        migrate_ledger(tmp_path / "old.db", tmp_path / "new.db", reason="x")
    assert not (tmp_path / "new.db").exists()


@pytest.fixture
def exported(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        fill(ledger)
        return list(ledger.export())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [], "is not the log of a ledger: its first line"),
        (lambda lines: lines[1:], "record 1 of the log was changed"),
        (lambda lines: [lines[0], *lines], "record 1 is not what an export has"),
        (lambda lines: [*lines, lines[0]], "is not what an export has"),
        (lambda lines: [lines[0], *lines[2:]], "the log has no record 1|record 1 of the log was changed"),
        (lambda lines: [*lines[:4], *lines[5:]], "was changed, or one before it"),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "was changed, or one before it"),
        (lambda lines: [*lines, lines[-1]], "was changed, or one before it"),
        (lambda lines: [*lines[:3], lines[3].replace("survey", "surveys"), *lines[4:]], "was changed"),
        (lambda lines: [*lines[:3], "[]", *lines[4:]], "record 3 is not what an export has"),
        (lambda lines: [*lines[:3], "nonsense", *lines[4:]], "line 4 is not what an export has"),
        (lambda lines: ["[" * 100_000], "line 1 is not what an export has"),
        (lambda lines: [json.dumps({"ferrodp_ledger": {"format": 9, "start": "0" * 64}})], "has format 9"),
        (lambda lines: [json.dumps({"ferrodp_ledger": {"format": 3, "start": "x"}})], "has format 3"),
    ],
)
def test_what_is_no_whole_log_is_refused_before_anything_is_made(tmp_path, exported, change, told):
    (tmp_path / "log.jsonl").write_text("".join(f"{line}\n" for line in change(exported)))

    with pytest.raises(LedgerError, match=told):
        import_ledger(tmp_path / "log.jsonl", tmp_path / "new.db", reason="x")
    assert not (tmp_path / "new.db").exists()


def test_a_log_that_was_cut_is_refused(tmp_path, exported):
    text = "".join(f"{line}\n" for line in exported)
    (tmp_path / "log.jsonl").write_text(text[:-5])
    with pytest.raises(LedgerError, match="ends in the middle of line"):
        import_ledger(tmp_path / "log.jsonl", tmp_path / "new.db", reason="x")
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(LedgerError, match="cannot be read, or was cut"):
        import_ledger(tmp_path / "log.jsonl.gz", tmp_path / "new.db", reason="x")
    whole_lines = "".join(f"{line}\n" for line in exported[:-1])  # cut between records: only a witness can tell
    (tmp_path / "log.jsonl").write_text(whole_lines)
    head = Head(len(exported) - 1, json.loads(exported[-1])["hash"])
    with pytest.raises(LedgerError, match="does not contain the witness"):
        import_ledger(tmp_path / "log.jsonl", tmp_path / "new.db", reason="x", witness=head)
    assert not (tmp_path / "new.db").exists()


def test_nothing_is_imported_over_a_ledger(tmp_path, exported):
    (tmp_path / "log.jsonl").write_text("".join(f"{line}\n" for line in exported))
    before = (tmp_path / "budget.db").read_bytes()

    with pytest.raises(LedgerError, match="is there already"):
        import_ledger(tmp_path / "log.jsonl", tmp_path / "budget.db", reason="x")
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        assert ledger.head.sequence == len(exported) - 1
    assert (tmp_path / "budget.db").read_bytes() == before


def test_arguments_are_checked(tmp_path):
    with pytest.raises(InvalidType, match="path must be a str or a path"):
        import_ledger(3, tmp_path / "new.db", reason="x")
    with pytest.raises(InvalidType, match="reason must be a str"):
        import_ledger("log.jsonl", tmp_path / "new.db", reason=3)
    with pytest.raises(LedgerError, match="cannot be read"):
        import_ledger(tmp_path / "none.jsonl", tmp_path / "new.db", reason="x")
    with pytest.raises(LedgerError, match="does not exist"):
        migrate_ledger(tmp_path / "none.db", tmp_path / "new.db", reason="x")
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.backup(tmp_path / "copy.jsonl")
        with pytest.raises(FileRefused, match="exists already"):
            ledger.backup(tmp_path / "copy.jsonl")
        assert ledger.backup(tmp_path / "copy.jsonl", force=True) == ledger.head
    assert sorted(os.listdir(tmp_path)) == ["budget.db", "copy.jsonl"]
