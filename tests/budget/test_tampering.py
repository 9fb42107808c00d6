"""Rows and bytes are changed behind the ledger's back: it notices, or what was changed means nothing.

Run as a program for a longer search: `python tests/budget/test_tampering.py --flips 100000`.
"""

import argparse
import contextlib
import itertools
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp.accounting import GaussianEvent, LaplaceEvent
from ferrodp.budget import Head, PrivacyLedger
from ferrodp.budget.log.checkpoints import verified, write
from ferrodp.budget.stores.sqlite import file as _file
from ferrodp.errors import BudgetExceeded, LedgerError
from reference.sqlite_file import dead_space

TENTH = LaplaceEvent(noise_multiplier=10.0)
TABLES = ("log", "scopes", "states", "tickets", "about")
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def make(path):
    """Make a ledger in which everything happened that can happen, and nothing is under way."""
    with PrivacyLedger.open(path) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        ledger.create("all/some", epsilon=2.0, delta=0.0, measure="pure")
        ledger.create("study", epsilon=8.0, delta=1e-6)
        ledger.spend("all/some", TENTH, key="first")
        ledger.spend("study", GaussianEvent(noise_multiplier=10.0))
        ledger.reserve("all/some", TENTH, key="held")
        ledger.reserve("all", TENTH, key="armed").arm()
        ledger.reserve("all", TENTH, key="given back").cancel()
        with ledger.lease("all", TENTH, count=3) as lease:
            lease.draw().arm()
        replay = verified(ledger._access.store, whole=True)
        ledger._access.run(lambda transaction: write(transaction, replay))
        ledger.raise_cap("study", epsilon=9.0, reason="approved")
        ledger.freeze("all/some", reason="incident")
        ledger.thaw("all/some", reason="resolved")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    make(path)
    return path


@pytest.fixture
def path(original, tmp_path):
    return Path(shutil.copy(original, tmp_path))


def change(path, *statements):
    """Write to the file as one who may, without its triggers and checks."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for setting in ("ignore_check_constraints = 1", "writable_schema = 1", "recursive_triggers = 0"):
            connection.execute(f"PRAGMA {setting}")
        kept = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in kept:
            connection.execute(f"DROP TRIGGER {name}")
        changed = sum(connection.execute(statement, parameters).rowcount for statement, *parameters in statements)
        for _, sql in kept:
            connection.execute(sql)
    return changed


def refused(path):
    """Open the ledger; fail if that succeeds."""
    with pytest.raises(LedgerError) as raised:
        PrivacyLedger.open(path, create=False).close()
    assert len(str(raised.value)) < 400
    return str(raised.value)


def rows_of(path):
    """Return all that a ledger holds, as the tables have it."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return {table: connection.execute(f"SELECT rowid, * FROM {table} ORDER BY 1").fetchall() for table in TABLES}
    finally:
        connection.close()


def all_rows(original):
    return [(table, row[0]) for table, rows in rows_of(original).items() for row in rows]


def test_what_was_made_is_whole(path):
    with PrivacyLedger.open(path, create=False) as ledger:
        assert ledger.verify().sequence == len(rows_of(path)["log"]) == 16


def test_no_row_can_be_removed_that_says_anything(original, tmp_path):
    for table, rowid in all_rows(original):
        path = Path(shutil.copy(original, tmp_path))
        assert change(path, (f"DELETE FROM {table} WHERE rowid = ?", rowid)) == 1
        if table == "states":  # without one, more has to be verified
            PrivacyLedger.open(path, create=False, verify="new").close()
        else:
            refused(path)


def test_no_column_of_a_row_can_be_changed(original, tmp_path):
    tried, rng = 0, random.Random(3)
    for table, rows in rows_of(original).items():
        connection = sqlite3.connect(original)
        names = [found[1] for found in connection.execute(f"PRAGMA table_info({table})")]
        connection.close()
        for row, (index, name) in itertools.product(rows, enumerate(names, 1)):
            for value in rng.sample([*changed(row[index])], 3):
                path = Path(shutil.copy(original, tmp_path))
                try:
                    change(path, (f"UPDATE {table} SET {name} = ? WHERE rowid = ?", value, row[0]))
                except sqlite3.IntegrityError:
                    continue  # the table itself does not take it
                if rows_of(path) == rows_of(original):
                    continue  # SQLite made it what it was
                tried += 1
                refused(path)
    assert tried > 200


def changed(value):
    """Return other values for a column, near ones first."""
    yield None
    yield b"\x00\xff"
    yield ""
    if isinstance(value, int):
        yield from (value + 1, value - 1, -1, 2**62, value + 0.5)
    if isinstance(value, str):
        yield from (value + " ", " " + value, value[:-1], value.upper(), value.replace("1", "2", 1), value + "\x00")


def test_no_row_can_be_added(original, tmp_path):
    for table, rows in rows_of(original).items():
        for row in rows[:3]:
            for first in (None, 0, -1, 10**6, "zzz", b"zzz"):
                path = Path(shutil.copy(original, tmp_path))
                values = [first, *row[2:]]
                if table == "tickets":
                    values[2] = None  # its key
                marks = ", ".join("?" * len(values))
                try:
                    change(path, (f"INSERT INTO {table} VALUES ({marks})", *values))
                except sqlite3.IntegrityError:
                    continue
                refused(path)


def test_no_two_rows_can_change_places(original, tmp_path):
    for table, key in (("log", "sequence"), ("scopes", "name"), ("tickets", "sequence"), ("tickets", "id")):
        connection = sqlite3.connect(original)
        keys = [row[0] for row in connection.execute(f"SELECT {key} FROM {table}")]
        connection.close()
        for one, other in itertools.pairwise(keys):
            path = Path(shutil.copy(original, tmp_path))
            spare = -1 if key == "sequence" else "spare"
            moves = [(one, spare), (other, one), (spare, other)]
            change(path, *((f"UPDATE {table} SET {key} = ? WHERE {key} = ?", new, old) for old, new in moves))
            refused(path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE more (x)",
        "CREATE INDEX more ON log (hash)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TRIGGER more BEFORE INSERT ON log BEGIN SELECT 1; END",
        "CREATE TRIGGER more AFTER UPDATE ON scopes BEGIN UPDATE scopes SET spent = caps; END",
        "ALTER TABLE scopes ADD COLUMN more",
        "ALTER TABLE scopes RENAME TO others",
        "DROP TABLE tickets",
        "PRAGMA user_version = 4",
        "PRAGMA user_version = 0",
        "PRAGMA application_id = 1",
    ],
)
def test_nothing_else_can_be_in_the_file(path, statement):
    change(path, (statement,))

    refused(path)


@pytest.mark.parametrize("name", ["log_is_not_changed", "log_is_not_erased"])
def test_the_triggers_have_to_be_there(path, name):
    kept = path.read_bytes()
    for statement in (
        f"DROP TRIGGER {name}",
        f"UPDATE sqlite_schema SET sql = replace(sql, 'append-only', 'Append-only') WHERE name = '{name}'",
    ):
        path.write_bytes(kept)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute(statement)
        connection.commit()
        connection.close()
        refused(path)


def test_the_log_is_append_only_for_everyone(path):
    for statement in ("UPDATE log SET body = '{}'", "DELETE FROM log WHERE sequence = 3"):
        connection = sqlite3.connect(path)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
        connection.close()


def set_mark(path, number):
    """Let a file say that so many records were acknowledged."""
    connection = sqlite3.connect(path)
    (identity,) = connection.execute("SELECT identity FROM about").fetchone()
    connection.close()
    data, before = path.read_bytes(), _file.before_mark(identity)
    (page,) = (page for page in range(0, len(data), 4096) if data[page + 16 : page + 32] == before)
    with path.open("r+b") as stream:
        stream.seek(page + 32)
        stream.write(number.to_bytes(8, "little") + (2**64 - 1 - number).to_bytes(8, "little"))


def test_only_a_witness_tells_that_the_end_is_missing(original, tmp_path):
    """A ledger of which the last steps were undone everywhere is as whole as it was then."""
    path = tmp_path / "budget.db"
    with PrivacyLedger.open(path) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        earlier = ledger.head
        scope = rows_of(path)["scopes"]
        ledger.spend("all", TENTH)
        witness = ledger.head
    change(
        path,
        ("DELETE FROM log WHERE sequence = 2",),
        ("DELETE FROM tickets",),
        ("UPDATE scopes SET spent = ?, version = 1, counts = '0 0 0 0'", scope[0][4]),
    )
    assert "2 were acknowledged and it holds 1" in refused(path)
    set_mark(path, 1)

    with PrivacyLedger.open(path) as ledger:
        assert ledger.remaining_count("all", TENTH) == 10
    with PrivacyLedger.open(path, witness=earlier):
        pass
    with pytest.raises(LedgerError, match="witness"):
        PrivacyLedger.open(path, witness=witness)
    with pytest.raises(LedgerError, match="witness"):
        PrivacyLedger.open(path, witness=Head(1, "0" * 64))


@pytest.mark.parametrize("now", [-1.0, 0.0, 2.0**31, 253402300799.0, 1e15, -1e15])
def test_the_clock_decides_nothing(path, monkeypatch, now):
    with PrivacyLedger.open(path) as ledger:
        before, left = ledger.head, ledger.remaining_count("all", TENTH)
    monkeypatch.setattr(time, "time", lambda: now)

    with PrivacyLedger.open(path) as ledger:
        assert (ledger.head, ledger.remaining_count("all", TENTH)) == (before, left)
        for _ in range(left):
            ledger.spend("all", TENTH)
        with pytest.raises(BudgetExceeded):
            ledger.spend("all", TENTH)
    with PrivacyLedger.open(path, witness=before) as ledger:
        assert ledger.head.sequence == before.sequence + left
        assert [body["sequence"] for body in ledger.history()] == list(range(1, before.sequence + left + 1))


def flip(data, position, bit, path, expected):
    """Change one byte of the file. Return whether it is refused; if not, it holds the same rows as ever."""
    damaged = bytearray(data)
    damaged[position] ^= bit
    path.write_bytes(damaged)
    for remains in ("-journal", "-wal", "-shm"):
        Path(f"{path}{remains}").unlink(missing_ok=True)
    try:
        PrivacyLedger.open(path, create=False).close()
    except LedgerError:
        return True
    assert rows_of(path) == expected, f"byte {position} was changed by {bit:#x} and nobody noticed"
    return False


def test_bytes_that_are_changed_are_noticed_or_mean_nothing(original, tmp_path):
    data, expected, rng = original.read_bytes(), rows_of(original), random.Random(5)
    path = tmp_path / "budget.db"
    positions = [*range(100), *(rng.randrange(len(data)) for _ in range(500))]

    noticed = [position for position in positions if flip(data, position, 1 << rng.randrange(8), path, expected)]

    dead = dead_space(data) | beside_the_mark(data)
    assert len(noticed) > len(positions) // 10
    assert set(positions) - set(noticed) <= dead


def beside_the_mark(data):
    """Return where the row is that makes room for the mark: zeros that nobody reads, but for its page's last bytes."""
    beginning = data.index(bytes.fromhex("a365 01 03 c750") + bytes(486)) + 6
    page = next(
        place
        for place in range(0, len(data), 4096)
        if any(data[place + 16 : place + 32]) and not any(data[place : place + 16] + data[place + 48 : place + 4096])
    )
    return {*range(beginning, beginning + 486), *range(page + 4, page + 16), *range(page + 48, page + 4096)}


def test_rows_that_were_changed_without_a_record_are_read_again(path):
    """A handle that remembers its last transaction sees what others wrote since, whoever they are."""
    with PrivacyLedger.open(path) as ledger:
        ledger.spend("all", TENTH)
        ledger.spend("all", TENTH)
        assert change(path, ("UPDATE scopes SET frozen = 1 WHERE name = 'all'",)) == 1
        with pytest.raises(BudgetExceeded, match="frozen"):
            ledger.spend("all", TENTH)
        ledger.spend("study", GaussianEvent(noise_multiplier=10.0))


def main():
    """Change as many bytes as asked for, and say where that was not noticed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--flips", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    rng = random.Random()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        original, path = Path(folder, "original.db"), Path(folder, "budget.db")
        make(original)
        data, expected = original.read_bytes(), rows_of(original)
        dead = dead_space(data) | beside_the_mark(data)
        silent, silent_used = 0, []
        flips = 0
        while flips < options.flips and time.monotonic() - begun < options.seconds:
            flips += 1
            position = rng.randrange(len(data))
            if not flip(data, position, rng.randrange(1, 256), path, expected):
                silent += 1
                if position not in dead:
                    silent_used.append(position)
    print(
        f"{flips} bytes changed of {len(data)} ({len(dead)} of them dead space): {flips - silent} "
        f"refused, {silent} changed no row, of those {len(silent_used)} outside dead space, at "
        f"{sorted(set(silent_used))[:20]}; {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
