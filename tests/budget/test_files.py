"""Files that are no ledger, are ledgers no more, or change under an open one: refused, and never touched."""

import contextlib
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from ferrodp import _native
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget.stores.sqlite.file import APPLICATION
from ferrodp.errors import InvalidParameter, InvalidType, LedgerError
from support import children

TENTH = LaplaceEvent(noise_multiplier=10.0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "budget.db"
    with PrivacyLedger.open(path) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        ledger.spend("all", TENTH, key="a key")
    return path


def refused(path, match=None, **arguments):
    """Open what is no ledger; see that it and its neighbors stay as they are."""
    before = listing(Path(path).parent)
    with pytest.raises(LedgerError, match=match) as raised:
        PrivacyLedger.open(path, **({"timeout": 2.0} | arguments)).close()
    assert listing(Path(path).parent) == before
    return str(raised.value)


def listing(folder):
    found = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        status = entry.lstat()
        small = stat.S_ISREG(status.st_mode) and status.st_size < 2**24
        found[entry.name] = (status.st_mode, status.st_size, content(entry) if small else None)
    return found


def content(path):
    """Return what is in a file, but for how its journal is kept, which is changed before anything is read."""
    data = path.read_bytes()
    return data[:18] + data[20:24] + data[28:92] + data[100:] if data.startswith(b"SQLite format 3") else data


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "empty"),
        (b"\x00", None),
        (b"SQLite format 3\x00", "not a ledger"),
        (b"SQLite format 3\x00" + bytes(84), None),
        (os.urandom(4096), "not a ledger"),
        (b"name,epsilon\nhospital,1.0\n" * 1000, "not a ledger"),
        (bytes(8192), "not a ledger"),
    ],
    ids=["empty", "byte", "magic", "header", "random", "text", "zeros"],
)
def test_a_file_that_is_no_ledger_is_left_alone(tmp_path, content, match):
    path = tmp_path / "budget.db"
    path.write_bytes(content)

    refused(path, match)
    refused(path, match, verify=False)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.5, 0.75, 0.99])
def test_a_file_that_was_cut_is_refused(path, share):
    os.truncate(path, int(path.stat().st_size * share))

    refused(path)


def test_a_file_that_grew_is_read_or_refused_but_not_changed(path):
    """Sparse, a tebibyte: SQLite goes by the size in its header."""
    data = path.read_bytes()
    try:
        os.truncate(path, 2**40)
    except OSError:
        os.truncate(path, 2**32)
    try:
        with PrivacyLedger.open(path) as ledger:
            assert ledger.remaining_count("all", TENTH) == 9
    except LedgerError:
        pass
    with path.open("rb") as stream:
        assert stream.read(len(data))[100:] == data[100:]


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "budget.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE head (single, sequence, hash)")
    connection.commit()
    connection.close()

    refused(path, "another program")


@pytest.mark.parametrize("version", [0, 1, 7, -1])
def test_other_formats_are_refused_by_number(path, version):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()

    assert f"format {version}" in refused(path, "this version reads 3")


def test_a_database_that_only_claims_to_be_a_ledger_is_refused(tmp_path):
    path = tmp_path / "budget.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("PRAGMA user_version = 3")
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()

    refused(path)


@pytest.mark.parametrize("kind", ["directory", "pipe", "loop", "full", "null", "nowhere", "in a file"])
def test_what_is_no_regular_file_is_refused(tmp_path, kind):
    path = tmp_path / "budget.db"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "nowhere":
        path.symlink_to(tmp_path / "no" / "budget.db")
    elif kind == "in a file":
        path.write_bytes(b"x")
        path = path / "budget.db"
    else:
        path = Path(f"/dev/{kind}")
        with pytest.raises(LedgerError, match="not a regular file"):
            PrivacyLedger.open(path)
        return

    refused(path)
    refused(path, create=False)


@pytest.mark.parametrize("name", ["a\x00b", "x" * 300, "no/such/folder/budget.db", ""])
def test_paths_that_cannot_be_are_refused(tmp_path, name):
    with pytest.raises(LedgerError):
        PrivacyLedger.open(f"{tmp_path}/{name}" if name else tmp_path)


@pytest.mark.parametrize("path", [b"budget.db", 7, None, ["budget.db"]])
def test_paths_are_text(path):
    with pytest.raises(InvalidType):
        PrivacyLedger.open(path)


@pytest.mark.parametrize("remains", ["-journal", "-wal", "-shm"])
def test_remains_of_a_ledger_that_is_gone_are_noticed(path, remains):
    path.unlink()
    Path(f"{path}-journal").unlink(missing_ok=True)
    Path(f"{path}{remains}").write_bytes(b"what was not finished")

    refused(path, "deleted or moved")


def test_names_that_mean_something_to_a_uri_are_names(tmp_path):
    for name in ("a?mode=memory", "b#c", "d%20e", "caf\u00e9 1", "file:g"):
        with PrivacyLedger.open(tmp_path / name) as ledger:
            ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        assert (tmp_path / name).is_file()
        with PrivacyLedger.open(tmp_path / name, create=False) as ledger:
            assert ledger.scopes == ("all",)


def test_a_ledger_is_made_whole_or_not_at_all(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db"):
        pass

    assert {entry.name for entry in tmp_path.iterdir()} <= {"budget.db", "budget.db-journal"}
    with pytest.raises(LedgerError, match="does not exist"):
        PrivacyLedger.open(tmp_path / "other.db", create=False)


def begin_at_once(path, gate):
    os.read(gate, 1)
    with PrivacyLedger.open(path) as ledger:
        with contextlib.suppress(InvalidParameter):  # another process was faster
            ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        ledger.spend("all", TENTH)


def test_processes_that_begin_a_ledger_at_once_begin_one(tmp_path):
    for attempt in range(4):
        path = tmp_path / f"{attempt}.db"
        gate, opened = os.pipe()
        begun = [children.start(begin_at_once, path, gate) for _ in range(8)]
        os.write(opened, b"!" * 8)

        assert [children.end_of(child) for child in begun] == [0] * 8
        with PrivacyLedger.open(path) as ledger:
            assert ledger.remaining_count("all", TENTH) == 2


def die_while_making(path, moment):
    link = os.link

    def dying(*arguments):
        if moment == "after":
            link(*arguments)
        children.die()

    os.link = dying
    PrivacyLedger.open(path)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_while_a_ledger_is_made_leaves_none_or_a_whole_one(tmp_path, moment):
    path = tmp_path / "budget.db"

    assert children.run(die_while_making, path, moment) == -9

    assert path.exists() == (moment == "after")
    with PrivacyLedger.open(path) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
    assert path.stat().st_nlink == 1


def test_a_file_with_two_names_is_refused(path, tmp_path):
    os.link(path, tmp_path / "other.db")

    refused(path, "hard links")
    refused(tmp_path / "other.db", "hard links")


@pytest.mark.parametrize("what", ["deleted", "moved", "replaced", "folder moved"])
def test_a_file_that_goes_away_under_an_open_ledger_is_noticed(path, tmp_path, what):
    ledger = PrivacyLedger.open(path)
    ticket = ledger.reserve("all", TENTH)
    if what == "deleted":
        path.unlink()
    elif what == "moved":
        path.rename(tmp_path / "elsewhere.db")
    elif what == "replaced":
        shutil.copy(path, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(path)
    else:
        tmp_path.rename(f"{tmp_path}-moved")

    for use in (lambda: ledger.spend("all", TENTH), ticket.arm, lambda: ledger.remaining_count("all", TENTH)):
        with pytest.raises(LedgerError, match="moved, deleted or replaced"):
            use()
    ledger.close()


def test_a_copy_put_back_in_place_changes_nothing(path):
    """What is newer than the copy is in the log beside it, and nothing is lost."""
    kept = path.read_bytes()
    ledger = PrivacyLedger.open(path)
    ledger.spend("all", TENTH)
    with path.open("r+b") as stream:
        stream.truncate(0)
        stream.write(kept)

    ledger.spend("all", TENTH)
    ledger.close()
    with PrivacyLedger.open(path) as ledger:
        assert ledger.remaining_count("all", TENTH) == 7


def unprivileged(work, *arguments):
    """Run `work` as somebody who may not do everything; return how it ended."""

    def lowered():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work(*arguments)

    return children.run(lowered)


def not_opened(path):
    with pytest.raises(LedgerError, match="cannot be written here"):
        PrivacyLedger.open(path, timeout=1.0)


def opened(path):
    for parent in path.parents:
        if parent.stat().st_uid == os.getuid():
            parent.chmod(parent.stat().st_mode | 0o755)


def test_a_file_that_cannot_be_written_is_not_opened(path):
    """Readers write down, too, that they read. Whoever may not looks at a copy."""
    opened(path)
    path.chmod(0o444)

    assert unprivileged(not_opened, path) == 0


def test_a_folder_that_cannot_be_written_takes_no_ledger(tmp_path):
    opened(tmp_path / "x")
    tmp_path.chmod(0o555)

    def begin():
        with pytest.raises(LedgerError, match="cannot be made here"):
            PrivacyLedger.open(tmp_path / "budget.db")

    assert unprivileged(begin) == 0
    tmp_path.chmod(0o755)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_read_is_refused(path):
    opened(path)
    path.chmod(0)

    def use():
        with pytest.raises(LedgerError):
            PrivacyLedger.open(path)

    assert unprivileged(use) == 0


@pytest.mark.parametrize(
    ("magic", "named"),
    [
        *((0x6969, "NFS"), (0xFF534D42, "CIFS"), (0x01021997, "9P"), (0x65735546, "FUSE"), (0x794C7630, "an overlay")),
        *((0x786F4256, "VirtualBox"), (0x12345678, "0x12345678"), (None, "of unknown kind")),
    ],
)
def test_only_file_systems_of_this_machine_are_taken_unless_asked_for(path, monkeypatch, magic, named):
    """By the file itself, not by its directory: one file can be mounted."""
    asked = []
    monkeypatch.setattr(_native, "file_system", lambda name: asked.append(name) or magic)

    refused(path, named)
    assert asked == [path]
    PrivacyLedger.open(path, allow_unsafe_file_system=True).close()


@pytest.mark.parametrize("magic", [0xEF53, 0x58465342, 0x9123683E, 0x01021994])
def test_local_file_systems_are_taken(path, monkeypatch, magic):
    monkeypatch.setattr(_native, "file_system", lambda _: magic)

    PrivacyLedger.open(path).close()


def test_the_kind_of_a_file_system_is_that_of_the_system():
    assert _native.file_system("/proc") == 0x9FA0
    assert _native.file_system("/nowhere") is None


def crash_in_the_middle(path):
    """Leave a journal that holds what the file was before."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = TRUNCATE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute('UPDATE scopes SET spent = \'["0","0"]\'')
    connection.executemany("INSERT INTO log VALUES (?, ?, ?)", [(n, "x" * 3000, "") for n in range(100, 160)])
    children.die()


def test_what_was_not_finished_is_undone_when_it_is_opened(path):
    assert children.run(crash_in_the_middle, path) == -9
    assert Path(f"{path}-journal").stat().st_size > 0

    with PrivacyLedger.open(path) as ledger:
        assert ledger.remaining_count("all", TENTH) == 9


def test_what_was_not_finished_and_cannot_be_undone_is_noticed(path):
    """Somebody removed the journal of a crashed process."""
    assert children.run(crash_in_the_middle, path) == -9
    Path(f"{path}-journal").unlink()

    refused(path)
