"""Other code of the process opens, copies and closes the file of an open ledger: nothing that was committed is lost."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ferrodp import _native
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget.stores.sqlite import file as _file
from ferrodp.errors import LedgerError
from support import children

TENTH = LaplaceEvent(noise_multiplier=10.0)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="locks of open files are Linux's")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "budget.db"
    with PrivacyLedger.open(path) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
    return path


def copied(path):
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{path}{suffix}", f"{path}.copy{suffix}")


def read_with_another_sqlite(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM tickets").fetchone() == (1,)


OPEN_AND_CLOSE = "import sys; from ferrodp.budget import PrivacyLedger; PrivacyLedger.open(sys.argv[1]).close()"
BEGIN_TO_WRITE = """
import sys
from ferrodp import _native
try:
    _native.SqliteConnection(sys.argv[1], create=False).execute_slowly("BEGIN IMMEDIATE", seconds=0.2)
except _native.SqliteError as error:
    sys.exit(error.args[0])
"""


def in_another_process(code, path):
    """Run code in a process that was not forked: it would know of our locks, and our ledgers are closed for forks."""
    return subprocess.run([sys.executable, "-c", code, str(path)], check=False, stderr=subprocess.PIPE, text=True)


@linux
@pytest.mark.parametrize("use", [copied, read_with_another_sqlite])
def test_the_log_stays_under_an_open_ledger(path, use):
    """Without locks of its own, the next process to close the file would take it for unused and remove the log."""
    with PrivacyLedger.open(path) as ledger:
        ledger.spend("all", TENTH)
        use(path)
        assert in_another_process(OPEN_AND_CLOSE, path).returncode == 0
        assert Path(f"{path}-wal").exists()
        ledger.spend("all", TENTH)
    with PrivacyLedger.open(path) as ledger:
        assert ledger.remaining_count("all", TENTH) == 8


@linux
@pytest.mark.parametrize("use", [copied, lambda path: sqlite3.connect(path).close()])
def test_the_writer_stays_the_only_one(path, use):
    connection = _native.SqliteConnection(path, create=False)
    connection.execute("BEGIN IMMEDIATE", ())
    connection.execute("UPDATE scopes SET version = version + 1", ())
    use(path)

    assert in_another_process(BEGIN_TO_WRITE, path).stderr == "SQLITE_BUSY\n"
    connection.execute("COMMIT", ())
    connection.close()


def test_a_log_that_is_removed_under_an_open_ledger_is_noticed(path):
    ledger = PrivacyLedger.open(path)
    ticket = ledger.reserve("all", TENTH)
    Path(f"{path}-wal").unlink()

    for use in (lambda: ledger.spend("all", TENTH), ticket.arm, lambda: ledger.remaining_count("all", TENTH)):
        with pytest.raises(LedgerError, match="lost its log"):
            use()
    ledger.close()


def test_an_earlier_state_put_back_under_an_open_ledger_is_noticed(path):
    """The file, its log and what SQLite remembers of it, in place. Later readers need a witness."""
    files = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]
    ledger = PrivacyLedger.open(path)
    ledger.spend("all", TENTH)
    kept = [file.read_bytes() for file in files]
    ledger.spend("all", TENTH)
    for file, data in zip(files, kept, strict=True):
        with file.open("r+b") as stream:
            stream.write(data)
            stream.truncate()

    with pytest.raises(LedgerError, match="cut or overwritten"):
        ledger.spend("all", TENTH)
    ledger.close()


def test_two_handles_of_a_process_exclude_each_other(path):
    with PrivacyLedger.open(path) as one, PrivacyLedger.open(path, timeout=0.1) as other:
        one._access.store._connection.execute("BEGIN IMMEDIATE", ())
        with pytest.raises(LedgerError, match="busy"):
            other.spend("all", TENTH)
        one._access.store._connection.execute("ROLLBACK", ())
        one.spend("all", TENTH)
        other.spend("all", TENTH)
        assert one.remaining_count("all", TENTH) == 8
    with PrivacyLedger.open(path) as ledger:
        assert ledger.remaining_count("all", TENTH) == 8


def test_a_file_that_is_open_here_is_not_opened_by_other_means(path, monkeypatch):
    """Where locks are the process's, to close it again would drop those of the first handle."""
    read = []
    monkeypatch.setattr(_file, "refuse_foreign", read.append)
    with PrivacyLedger.open(path):
        assert read == [path]
        with PrivacyLedger.open(path):
            assert read == [path]
    with PrivacyLedger.open(path):
        assert read == [path, path]


def test_a_closed_ledger_is_one_file(path):
    with PrivacyLedger.open(path) as ledger:
        ledger.spend("all", TENTH)

    assert [entry.name for entry in path.parent.iterdir()] == ["budget.db"]


@pytest.mark.parametrize("other", ["delete", "truncate", "persist"])
def test_a_file_whose_journal_was_changed_gets_its_log_back(path, other):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {other}").fetchone() == (other,)

    with PrivacyLedger.open(path) as ledger:
        ledger.spend("all", TENTH)
        assert Path(f"{path}-wal").stat().st_size > 0


def test_a_database_of_another_program_keeps_its_log(tmp_path):
    """To open and close it with SQLite would finish what its owner left in its log."""

    def crash():
        connection = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        children.die()

    assert children.run(crash) == -9
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert before["other.db-wal"]

    with pytest.raises(LedgerError, match="another program"):
        PrivacyLedger.open(tmp_path / "other.db")

    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before
