"""The binding of the compiled-in SQLite: values, errors, ends."""

import signal
import sqlite3
import threading
import time

import pytest

from ferrodp._native import SqliteConnection, SqliteError, sqlite_version


@pytest.fixture
def connection(tmp_path):
    connection = SqliteConnection(tmp_path / "any.db", create=True)
    connection.execute("CREATE TABLE t (a, b)", ())
    return connection


def code_of(raised):
    return raised.value.args[0]


def test_the_version_keeps_what_it_commits():
    assert tuple(map(int, sqlite_version.split("."))) >= (3, 51, 3)


def test_values_come_back_as_they_were(connection):
    rows = [("", 0), ("a\x00b", -(2**63)), ("\U0001f512", 2**63 - 1), (None, True)]
    connection.execute_many("INSERT INTO t VALUES (?, ?)", rows)
    found = connection.execute("SELECT a, b FROM t ORDER BY rowid", ())

    assert found.fetchall() == list(found) == rows
    assert found.fetchone() == rows[0]
    assert found.rowcount == -1
    assert connection.execute("SELECT 1 FROM t WHERE a = 'none'", ()).fetchone() is None
    assert connection.execute("SELECT x'00ff', 0.5", ()).fetchall() == [(b"\x00\xff", 0.5)]


def test_statements_say_how_many_rows_they_changed(connection):
    assert connection.execute("INSERT INTO t VALUES (1, 2), (3, 4)", ()).rowcount == 2
    assert connection.execute("UPDATE t SET b = 0 WHERE a = ?", (3,)).rowcount == 1
    assert connection.execute("UPDATE t SET b = 0 WHERE a = ?", (9,)).rowcount == 0


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_numbers_that_do_not_fit_are_refused(connection, value):
    with pytest.raises(OverflowError):
        connection.execute("INSERT INTO t VALUES (?, ?)", (value, value))


@pytest.mark.parametrize("value", [0.5, b"x", ["x"], object()])
def test_other_types_are_refused(connection, value):
    with pytest.raises(TypeError):
        connection.execute("INSERT INTO t VALUES (?, 0)", (value,))


def test_half_a_character_is_refused(connection):
    with pytest.raises(UnicodeEncodeError):
        connection.execute("INSERT INTO t VALUES (?, 0)", ("\ud800",))


@pytest.mark.parametrize("parameters", [(), (1,), (1, 2, 3)])
def test_parameters_have_to_be_as_many_as_asked_for(connection, parameters):
    with pytest.raises(SqliteError):
        connection.execute("INSERT INTO t VALUES (?, ?)", parameters)


def test_errors_have_the_names_of_sqlite(connection, tmp_path):
    connection.execute("CREATE UNIQUE INDEX one ON t (a)", ())
    connection.execute("INSERT INTO t VALUES (1, 1)", ())
    for sql, name in [
        ("INSERT INTO t VALUES (1, 1)", "SQLITE_CONSTRAINT"),
        ("SELECT * FROM nothing", "SQLITE_ERROR"),
        ("SELECT CAST(x'ff' AS TEXT)", "SQLITE_CORRUPT"),
    ]:
        with pytest.raises(SqliteError) as raised:
            connection.execute(sql, ())
        assert code_of(raised) == name
    with pytest.raises(SqliteError) as raised:
        SqliteConnection(tmp_path / "none.db", create=False)
    assert code_of(raised) == "SQLITE_CANTOPEN"
    (tmp_path / "text.db").write_text("no database" * 1000)
    with pytest.raises(SqliteError) as raised:
        SqliteConnection(tmp_path / "text.db", create=False).execute("SELECT 1 FROM sqlite_master", ())
    assert code_of(raised) == "SQLITE_NOTADB"


def test_a_connection_that_ended_says_so(connection):
    connection.close()
    connection.close()

    assert not connection.in_transaction
    for use in (
        lambda: connection.execute("SELECT 1", ()),
        lambda: connection.execute_many("INSERT INTO t VALUES (?, ?)", [(1, 2)]),
        lambda: connection.execute_slowly("SELECT 1", seconds=1.0),
    ):
        with pytest.raises(SqliteError) as raised:
            use()
        assert code_of(raised) == "SQLITE_MISUSE"


def test_a_forgotten_connection_is_not_closed(tmp_path):
    """As in the child of a fork, where closing would drop the parent's locks."""

    def kept(end):
        connection = SqliteConnection(tmp_path / f"{end}.db", create=True)
        connection.execute("PRAGMA journal_mode = WAL", ())
        connection.execute("CREATE TABLE t (a)", ())
        if end == "forget":
            connection.forget()
        del connection
        return (tmp_path / f"{end}.db-wal").exists()

    assert kept("forget")
    assert not kept("nothing")


def test_transactions_begin_and_end(connection):
    assert not connection.in_transaction
    connection.execute("BEGIN IMMEDIATE", ())
    assert connection.in_transaction
    connection.execute("INSERT INTO t VALUES (1, 1)", ())
    connection.execute("ROLLBACK", ())
    assert connection.execute("SELECT count(*) FROM t", ()).fetchone() == (0,)


def test_waiting_lets_other_threads_run_until_the_lock_is_free(connection, tmp_path):
    other = sqlite3.connect(tmp_path / "any.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    def release():
        time.sleep(0.2)
        other.execute("COMMIT")

    thread = threading.Thread(target=release)
    thread.start()
    connection.execute_slowly("BEGIN IMMEDIATE", seconds=60.0)
    thread.join()
    other.close()

    assert connection.in_transaction
    assert connection.execute_slowly("SELECT 1, 'x', NULL", seconds=0.0).fetchall() == [(1, "x", None)]
    assert connection.execute_slowly("DELETE FROM t", seconds=0.0).rowcount == 0


def test_waiting_ends_with_its_time_or_with_ctrl_c(connection, tmp_path):
    other = sqlite3.connect(tmp_path / "any.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SqliteError) as raised:
        connection.execute_slowly("BEGIN IMMEDIATE", seconds=0.0)
    assert code_of(raised) == "SQLITE_BUSY"
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        connection.execute_slowly("BEGIN IMMEDIATE", seconds=3600.0)
    timer.join()
    other.close()

    assert not connection.in_transaction


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT json('1')",
        "SELECT date('now')",
        "SELECT load_extension('x')",
        "SELECT soundex('x')",
        "CREATE VIRTUAL TABLE s USING fts5 (a)",
        "CREATE VIRTUAL TABLE s USING rtree (a, b, c)",
        'SELECT "no string"',
    ],
)
def test_what_no_ledger_uses_is_not_compiled_in(connection, sql):
    with pytest.raises(SqliteError) as raised:
        connection.execute(sql, ())
    assert code_of(raised) == "SQLITE_ERROR"


def test_what_guards_a_ledger_is_compiled_in(connection):
    for pragma, value, answer in [
        ("journal_mode", "WAL", "wal"),
        ("synchronous", "FULL", 2),
        ("cell_size_check", 1, 1),
        ("trusted_schema", 0, 0),
        ("fullfsync", 1, 1),
        ("checkpoint_fullfsync", 1, 1),
    ]:
        connection.execute(f"PRAGMA {pragma} = {value}", ())
        assert connection.execute(f"PRAGMA {pragma}", ()).fetchone() == (answer,)
    assert connection.execute("PRAGMA integrity_check", ()).fetchall() == [("ok",)]
    connection.execute("CREATE TABLE u (a CHECK (a = 1) REFERENCES t (a))", ())
    for sql in ("INSERT INTO u VALUES (2)", "INSERT INTO u VALUES (1)"):
        with pytest.raises(SqliteError):
            connection.execute(sql, ())
