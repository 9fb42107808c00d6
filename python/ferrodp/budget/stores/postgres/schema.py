"""The schema of a ledger on PostgreSQL: how it is made, and how other schemas are recognized and left alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from ferrodp.budget import records
from ferrodp.budget.stores.base import TABLES
from ferrodp.errors import LedgerError

APPLICATION = "FerroDP ledger"
"""Marks a schema as a ledger of this program."""
OLDEST = 130_000
"""PostgreSQL 13, the first with `pg_current_xact_id`."""

PATH = "SET LOCAL search_path TO ferrodp, pg_temp"
"""Behind a pooler a session may hold temporary tables of somebody else: they are looked for last."""

DURABILITY = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'off' "
    "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), current_setting('fsync'), "
    "current_setting('full_page_writes'), current_setting('transaction_read_only'), pg_is_in_recovery()"
)
"""Asks how durable a commit of this transaction will be, and keeps it so until the commit, whatever is reloaded."""

_MAKER = 1_179_996_754  # the name of the lock under which a ledger is made: any number, and always this one
# Names are compared byte by byte: an index must not depend on a system's collation, which an update may change.
_HEAD = (
    "CREATE TABLE head (single INTEGER PRIMARY KEY CHECK (single = 1), sequence BIGINT NOT NULL, hash TEXT NOT NULL)"
)
"""The head in a row of its own: by its lock writers exclude each other."""
_TABLES = tuple(
    statement.replace("TEXT", 'TEXT COLLATE "C"').replace("sequence INTEGER", "sequence BIGINT")
    for statement in (_HEAD, *TABLES)
)
_MARK = (
    "CREATE TABLE about (single INTEGER PRIMARY KEY CHECK (single = 1), application TEXT NOT NULL, "
    "format INTEGER NOT NULL, identity TEXT NOT NULL, start TEXT NOT NULL)"
)
# ALWAYS: also in a session that calls itself a replica. The rows of the head are many versions of one: room for them.
_APPEND_ONLY = (
    "CREATE FUNCTION log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$",
    "CREATE TRIGGER log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log "
    "FOR EACH STATEMENT EXECUTE FUNCTION log_is_append_only()",
    "ALTER TABLE log ENABLE ALWAYS TRIGGER log_is_append_only",
    "ALTER TABLE head SET (fillfactor = 10)",
)
MOVED = "FD001"
"""SQLSTATE of what the database says when a ledger that was moved elsewhere shall take a record."""
CLOSED = (
    "CREATE FUNCTION log_is_closed() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION 'the ledger was moved' USING ERRCODE = '{MOVED}'; END $$",
    "CREATE TRIGGER log_is_closed BEFORE INSERT ON log FOR EACH STATEMENT EXECUTE FUNCTION log_is_closed()",
    "ALTER TABLE log ENABLE ALWAYS TRIGGER log_is_closed",
)
PENDING = "FD002"
"""SQLSTATE of what the database says when a ledger that was made to receive another shall take a record before that."""
_WAITS = (
    "CREATE FUNCTION log_is_pending() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION 'the ledger is still to be moved here' USING ERRCODE = '{PENDING}'; END $$",
    "CREATE TRIGGER log_is_pending BEFORE INSERT ON log FOR EACH STATEMENT EXECUTE FUNCTION log_is_pending()",
    "ALTER TABLE log ENABLE ALWAYS TRIGGER log_is_pending",
)
BEGUN = "DROP TRIGGER log_is_pending ON log", "DROP FUNCTION log_is_pending()"
"""Statements after which such a ledger takes records."""
# Of the catalogs only their tables are asked: functions such as to_regclass may answer from before a lock was granted.
_THERE = "SELECT count(*) FROM pg_namespace WHERE nspname = 'ferrodp'"
_RELATIONS = "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'ferrodp'"
_MARKS = ("single", "application", "format", "identity", "start")
_MARKED = (
    f"SELECT count(*) FROM {_RELATIONS} JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relname = 'about' "
    f"AND a.attname = ANY (ARRAY{list(_MARKS)}) AND c.relkind = 'r'"
)
_NAMES = ("head", "log", "scopes", "tickets", "states", "about")
_TABLES_THERE = (
    f"SELECT count(*) FROM {_RELATIONS} WHERE c.relname = ANY (ARRAY{list(_NAMES)}) "
    "AND c.relkind = 'r' AND c.relpersistence = 'p'"
)
_TRIGGERS_THERE = (
    f"SELECT count(*) FROM {_RELATIONS} JOIN pg_trigger t ON t.tgrelid = c.oid WHERE c.relname = 'log' "
    "AND t.tgname = 'log_is_append_only' AND t.tgenabled = 'A'"
)
WAITING = f"SELECT count(*) FROM {_RELATIONS} JOIN pg_trigger t ON t.tgrelid = c.oid WHERE t.tgname = 'log_is_pending'"
"""Asks how many triggers refuse records because the ledger is still to receive another."""


PLACE = (
    "concat((SELECT oid FROM pg_database WHERE datname = current_database()), "
    "ARRAY[" + ", ".join(f"'ferrodp.{table}'::regclass::oid" for table in _NAMES) + "])"
)
"""Asks by which numbers the server knows the database and the tables that the names lead to now: what a dump brings
back under the same names has others."""


class About(NamedTuple):
    """What tells a ledger from every other, also from a copy of itself."""

    identity: str
    start: str
    system: str | None
    """What the server's data directory was named when it was made; None for a role that may not know."""
    place: str
    """The answer to `PLACE`."""


def refuse_forgetful(answer: tuple[Any, ...], name: str) -> None:
    """Raise `LedgerError` unless the answer to `DURABILITY` says that what is committed stays."""
    commit, fsync, pages, read_only, recovering = answer
    settings = {"synchronous_commit": commit, "fsync": fsync, "full_page_writes": pages}
    off = [setting for setting, value in settings.items() if value == "off"]
    if off:
        raise LedgerError(f"{name} would forget what it commits: {' and '.join(off)} is off; nothing was charged")
    if recovering:
        raise LedgerError(f"{name} is a replica, which cannot be written; nothing was charged")
    if read_only != "off":
        raise LedgerError(f"{name} is read-only: default_transaction_read_only is on; nothing was charged")


def inspect(
    connection: Any,
    name: str,
    *,
    create: bool,
    milliseconds: int,
    read_only: bool = False,
    start: str | None = None,
    receives: str | None = None,
) -> About:
    """Return what is said about the ledger in a database, which is made if there is none and `create` is true.

    `start` and `receives` say with what that begins, see `PostgresStore`.

    Nothing is repaired: a schema of this name that is not all of a ledger of this format is refused and left as it is.
    """
    if connection.info.server_version < OLDEST:
        raise LedgerError(f"{name} needs PostgreSQL 13 or later")
    if connection.execute("SHOW server_encoding").fetchone() != ("UTF8",):
        raise LedgerError(f"{name} needs a database with encoding UTF8")
    connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED{' READ ONLY' if read_only else ''}")
    connection.execute(f"SET LOCAL lock_timeout = {milliseconds}")
    if not read_only:
        refuse_forgetful(connection.execute(DURABILITY).fetchone(), name)
    if not _count(connection, _THERE):
        if not create:
            raise records.not_there(name)
        connection.execute(f"SELECT pg_advisory_xact_lock({_MAKER})")
        if not _count(connection, _THERE):  # nobody was faster
            _make(connection, start, receives)
    about = _about(connection, name)
    if connection.execute("COMMIT").statusmessage != "COMMIT":
        raise LedgerError(f"{name} could not be made")
    return about


def _count(connection: Any, question: str) -> int:
    return int(connection.execute(question).fetchone()[0])


def _make(connection: Any, start: str | None, receives: str | None) -> None:
    connection.execute("CREATE SCHEMA ferrodp")
    connection.execute(PATH)
    for statement in (*_TABLES, _MARK, *_APPEND_ONLY, *(() if receives is None else _WAITS)):
        connection.execute(statement)
    identity = records.new_identity(receives)
    start = start or records.start_of(identity)
    connection.execute("INSERT INTO head VALUES (1, 0, %s)", (start,))
    mark = APPLICATION, records.FORMAT, identity, start
    connection.execute("INSERT INTO about VALUES (1, %s, %s, %s, %s)", mark)


def _about(connection: Any, name: str) -> About:
    """Return what is said about a ledger, once the mark, the tables and the trigger are there."""
    foreign = LedgerError(f"{name} is not a ledger: its schema 'ferrodp' belongs to something else, or is damaged")
    marks = _count(connection, _MARKED)
    if marks < len(_MARKS) - 1:  # formats before 3 had no start
        raise foreign
    found = connection.execute("SELECT application, format FROM ferrodp.about WHERE single = 1").fetchall()
    if len(found) != 1 or found[0][0] != APPLICATION:
        raise foreign
    if found[0][1] != records.FORMAT:
        raise records.other_format(name, found[0][1])
    if marks != len(_MARKS):
        raise foreign
    if (_count(connection, _TABLES_THERE), _count(connection, _TRIGGERS_THERE)) != (len(_NAMES), 1):
        raise LedgerError(
            f"{name} is damaged: a table is missing or not logged by the server, or the log is not append-only"
        )
    system = None
    if connection.execute("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')").fetchone() == (True,):
        (system,) = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
    found = connection.execute(f"SELECT identity, start, {PLACE} FROM ferrodp.about WHERE single = 1").fetchone()
    identity, start, place = found
    return About(identity, start, system, place)
