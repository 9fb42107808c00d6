"""A ledger on PostgreSQL: what it refuses to stand on, and that any number of connections spend one budget."""

import os
import sys
import threading
import traceback
from pathlib import Path

import psycopg
import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, _postgres_session
from ferrodp.errors import BudgetExceeded, InvalidParameter, LedgerError, MissingPackage

TENTH = LaplaceEvent(noise_multiplier=10.0)
LEVELS = ["read committed", "repeatable read", "serializable"]


def option(setting, value):
    return f"&options=-c%20{setting}%3D{value.replace(' ', '%5C%20')}"


@pytest.fixture
def ledger(url):
    with PrivacyLedger.open(url) as opened:
        opened.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        yield opened


@pytest.fixture
def configured(server):
    """A function that changes a setting of the server until the end of the test."""
    names = []

    def configure(setting, value):
        names.append(setting)
        server.configure(setting, value)

    yield configure
    for name in names:
        server.configure(name, None)


def together(work, count):
    """Run `work(i)` in so many threads that begin at once, and return what each returned or raised."""
    results = [None] * count
    barrier = threading.Barrier(count)

    def run(i):
        barrier.wait()
        try:
            results[i] = work(i)
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_sixteen_connections_spend_one_budget_exactly(ledger, server):
    ledger.raise_cap("hospital", epsilon=6.0, reason="for the test")

    def work(i):
        acknowledged = []
        with PrivacyLedger.open(
            server.url(options=option("default_transaction_isolation", LEVELS[i % 3])), verify=False
        ) as mine:
            while True:
                try:
                    acknowledged.append(mine.reserve("hospital", TENTH).id)
                except BudgetExceeded:
                    return acknowledged

    acknowledged = [each for mine in together(work, 16) for each in mine]

    assert len(set(acknowledged)) == len(acknowledged) == 60
    assert ledger.report("hospital").held == 60
    assert ledger.verify() == ledger.head


@pytest.mark.parametrize("level", LEVELS)
def test_any_isolation_level_may_be_the_default(ledger, server, level):
    def work(_):
        with PrivacyLedger.open(server.url(options=option("default_transaction_isolation", level))) as mine:
            return [mine.reserve("hospital", TENTH).id for _ in range(2)]

    acknowledged = [each for mine in together(work, 5) for each in mine]

    assert len(set(acknowledged)) == 10
    assert ledger.remaining_count("hospital", TENTH) == 0


def test_a_ledger_is_made_once_however_many_begin_it(url):
    def work(_):
        with PrivacyLedger.open(url) as mine:
            return mine._store._identity

    assert len(set(together(work, 8))) == 1


def test_what_does_not_exist_is_not_made_unasked(url, server):
    with pytest.raises(LedgerError, match="does not exist"):
        PrivacyLedger.open(url, create=False)

    assert server.sql("SELECT to_regnamespace('ferrodp')") == [(None,)]


@pytest.mark.parametrize("setting", ["synchronous_commit", "fsync", "full_page_writes"])
def test_a_server_that_would_forget_is_refused_at_once(ledger, url, configured, setting):
    configured(setting, "off")

    with pytest.raises(LedgerError, match=f"{setting} is off; nothing was charged"):
        ledger.reserve("hospital", TENTH)
    with pytest.raises(LedgerError, match=f"{setting} is off"):
        PrivacyLedger.open(url)

    configured(setting, "on")
    assert ledger.remaining_count("hospital", TENTH) == 10
    ledger.spend("hospital", TENTH)


@pytest.mark.parametrize("whose", ["ROLE postgres", "DATABASE postgres", "ROLE postgres IN DATABASE postgres"])
def test_a_role_or_database_that_would_forget_is_refused(ledger, server, whose):
    server.sql(f"ALTER {whose} SET synchronous_commit = off")
    try:
        ledger.spend("hospital", TENTH)  # a session that began before is not concerned
        server.terminate(ledger)
        with pytest.raises(LedgerError, match="synchronous_commit is off"):
            ledger.spend("hospital", TENTH)
    finally:
        server.sql(f"ALTER {whose} RESET synchronous_commit")

    ledger.spend("hospital", TENTH)
    assert ledger.remaining_count("hospital", TENTH) == 8


@pytest.mark.parametrize(("asked", "used"), [("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")])
def test_standbys_are_waited_for_whatever_the_session_prefers(ledger, server, at_point, asked, used):
    seen = []
    with PrivacyLedger.open(server.url(options=option("synchronous_commit", asked))) as mine:
        at_point("before the commit", lambda: seen.extend(mine._store.execute("SHOW synchronous_commit").fetchone()))
        mine.spend("hospital", TENTH)

    assert seen == [used]


def test_a_read_only_database_is_refused(ledger, server):
    with pytest.raises(LedgerError, match="read-only"):
        PrivacyLedger.open(server.url(options=option("default_transaction_read_only", "on")))

    server.sql("ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        server.terminate(ledger)
        with pytest.raises(LedgerError, match="read-only"):
            ledger.spend("hospital", TENTH)
    finally:
        server.sql("ALTER DATABASE postgres RESET default_transaction_read_only")
    ledger.spend("hospital", TENTH)


def test_a_replica_is_refused(ledger, server):
    with server.replica() as replica, pytest.raises(LedgerError, match="replica"):
        PrivacyLedger.open(replica.url())


def test_another_encoding_is_refused(server, database):
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(LedgerError, match="encoding UTF8"):
            PrivacyLedger.open(server.url("latin"))
    finally:
        server.sql("DROP DATABASE latin")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SCHEMA ferrodp",
        "CREATE SCHEMA ferrodp; CREATE TABLE ferrodp.head (single int)",
        "CREATE SCHEMA ferrodp; CREATE TABLE ferrodp.about (application text)",
        "CREATE SCHEMA ferrodp; CREATE VIEW ferrodp.about AS SELECT 1 AS single, 'x' AS application, 1 AS format, "
        "'' AS identity",
    ],
)
def test_a_schema_of_somebody_else_is_left_alone(server, url, statement):
    server.sql(statement)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'ferrodp'::regnamespace"
    before = server.sql(tables)

    with pytest.raises(LedgerError, match="no ledger"):
        PrivacyLedger.open(url)

    assert server.sql(tables) == before


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE ferrodp.about SET format = 2", "has format 2"),
        ("UPDATE ferrodp.about SET format = 0", "has format 0"),
        ("UPDATE ferrodp.about SET application = 'another'", "no ledger"),
        ("DELETE FROM ferrodp.about", "no ledger"),
        ("DELETE FROM ferrodp.head", "no head"),
        ("DROP TABLE ferrodp.tickets", "damaged"),
        ("ALTER TABLE ferrodp.log SET UNLOGGED", "damaged"),
        ("DROP TRIGGER log_is_append_only ON ferrodp.log", "damaged"),
        ("ALTER TABLE ferrodp.log DISABLE TRIGGER ALL", "damaged"),
    ],
)
def test_a_damaged_ledger_is_not_repaired(ledger, server, url, statement, reason):
    ledger.close()
    server.sql(statement)

    for _ in range(2):
        with pytest.raises(LedgerError, match=reason):
            PrivacyLedger.open(url)


@pytest.mark.parametrize(
    "statement",
    ["UPDATE ferrodp.log SET body = body", "DELETE FROM ferrodp.log WHERE false", "TRUNCATE ferrodp.log"],
)
@pytest.mark.parametrize("role", ["origin", "replica"])
def test_the_log_is_append_only(ledger, server, statement, role):
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        server.sql(f"SET session_replication_role = {role}; {statement}")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = replace(body, '10.0', '11.0') WHERE sequence = 2",
        "UPDATE log SET hash = repeat('0', 64) WHERE sequence = 1",
        "DELETE FROM log WHERE sequence = 2",
        "DELETE FROM log WHERE sequence = 4",
        "DELETE FROM log WHERE sequence = 4; UPDATE head SET sequence = 3, "
        "hash = (SELECT hash FROM log WHERE sequence = 3)",
        "UPDATE log SET sequence = 5 WHERE sequence = 4",
        "UPDATE log a SET body = b.body, hash = b.hash FROM log b WHERE a.sequence = 2 AND b.sequence = 3",
        "INSERT INTO log SELECT 5, body, hash FROM log WHERE sequence = 4",
        "UPDATE head SET sequence = sequence - 1",
        "UPDATE scopes SET spent = '[\"0\"]'",
        "UPDATE scopes SET caps = '[\"9223372036854775807\"]'",
        "UPDATE scopes SET version = version + 1",
        "DELETE FROM scopes",
        "UPDATE tickets SET state = 'held'",
        "UPDATE tickets SET key = 'another' WHERE key IS NOT NULL",
        "DELETE FROM tickets WHERE key IS NULL",
        "INSERT INTO tickets SELECT md5(id), NULL, fingerprint, state, event, charges, count, sequence FROM tickets "
        "WHERE key IS NULL",
    ],
)
def test_tampering_is_noticed(ledger, server, url, statement):
    ledger.spend("hospital", TENTH)
    ledger.reserve("hospital", TENTH, key="round-7").arm()
    ledger.verify()
    before = server.tables()

    server.sql(
        f"SET search_path TO ferrodp; ALTER TABLE log DISABLE TRIGGER ALL; {statement}; "
        "ALTER TABLE log ENABLE ALWAYS TRIGGER log_is_append_only"
    )

    assert server.tables() != before
    with pytest.raises(LedgerError):
        ledger.verify()
    with pytest.raises(LedgerError):
        PrivacyLedger.open(url)


def test_an_earlier_state_is_refused_by_who_saw_the_later_one(ledger, server, url):
    ledger.spend("hospital", TENTH)
    kept = server.tables()
    ledger.spend("hospital", TENTH)
    witness = ledger.head
    ledger.spend("hospital", TENTH)
    with PrivacyLedger.open(url, witness=witness) as other:
        assert other.head.sequence == witness.sequence + 1

    server.put_back(kept)

    with pytest.raises(LedgerError, match="earlier state"):
        ledger.spend("hospital", TENTH)
    with pytest.raises(LedgerError, match="witness"):
        PrivacyLedger.open(url, witness=witness)
    with PrivacyLedger.open(url) as other:  # without a witness nobody can know
        other.spend("hospital", TENTH)
        other.spend("hospital", TENTH)
    with pytest.raises(LedgerError, match="earlier state"):
        ledger.head  # noqa: B018  # asks the server


def test_another_ledger_in_its_place_is_refused(ledger, server, url):
    server.sql("DROP SCHEMA ferrodp CASCADE")
    with pytest.raises(LedgerError, match="removed"):
        ledger.spend("hospital", TENTH)

    with PrivacyLedger.open(url) as first:
        first.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        server.sql("DROP SCHEMA ferrodp CASCADE")
        PrivacyLedger.open(url).close()
        with pytest.raises(LedgerError, match="replaced"):
            first.spend("hospital", TENTH)


@pytest.mark.parametrize("limit", [{"timeout": 0.2}, {"options": option("statement_timeout", "200")}])
def test_a_writer_that_does_not_end_is_not_waited_for_for_ever(ledger, server, limit):
    with (
        psycopg.connect(server.url()) as other,
        PrivacyLedger.open(server.url(options=limit.get("options", "")), timeout=limit.get("timeout", 60.0)) as mine,
    ):
        other.execute("SELECT 1 FROM ferrodp.head FOR UPDATE")
        with pytest.raises(LedgerError, match=r"busy.*nothing was charged"):
            mine.spend("hospital", TENTH)
        assert mine.remaining_count("hospital", TENTH) == 10  # readers wait for nobody
        other.rollback()
        mine.spend("hospital", TENTH)


def test_readers_see_one_moment(ledger, url):
    with PrivacyLedger.open(url) as reader, reader._store.reading() as moment:
        ledger.spend("hospital", TENTH)

        assert len(list(moment.log())) == moment.read_head.sequence == 1
        assert list(moment.ticket_rows()) == []
        assert not any(any(row.spent) for row in moment.scopes())


def test_long_logs_are_read_piece_by_piece(ledger, url, monkeypatch):
    monkeypatch.setattr(_postgres_session, "_ROWS", 3)
    ledger.raise_cap("hospital", epsilon=2.0, reason="for the test")
    together(lambda i: ledger.spend("hospital", TENTH), 16)

    assert ledger.verify().sequence == 18
    with PrivacyLedger.open(url) as again:
        assert len(list(again.history())) == 18


def test_nothing_is_kept_in_the_session(ledger):
    """What a pooler does to a session between two transactions, and what other users of it leave there."""
    for _ in range(8):
        ledger.spend("hospital", TENTH)
        connection = ledger._store._session.connection
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
        connection.execute("DISCARD ALL")
        connection.execute("CREATE TEMPORARY TABLE head AS SELECT 1 AS single, 99 AS sequence, 'x' AS hash")
        connection.execute("SET search_path TO pg_temp")
        connection.execute("SET default_transaction_isolation TO serializable")

    assert ledger.verify().sequence == 9


def test_a_role_that_may_only_spend_can_do_so(ledger, server):
    server.sql(
        "CREATE ROLE spender LOGIN; GRANT USAGE ON SCHEMA ferrodp TO spender; GRANT SELECT ON ferrodp.about TO spender;"
        "GRANT SELECT, INSERT ON ferrodp.log TO spender; GRANT SELECT, UPDATE ON ferrodp.head TO spender;"
        "GRANT SELECT, INSERT, UPDATE ON ferrodp.scopes, ferrodp.tickets TO spender"
    )
    try:
        with PrivacyLedger.open(server.url(user="spender")) as mine:
            mine.reserve("hospital", TENTH).arm()
            mine.reserve("hospital", TENTH).cancel()
            assert mine.verify() == ledger.head
        server.sql("REVOKE ALL ON ferrodp.log FROM spender")
        with pytest.raises(LedgerError, match="by this role"):
            PrivacyLedger.open(server.url(user="spender"))
    finally:
        server.sql("DROP OWNED BY spender; DROP ROLE spender")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://locked_out:s3cr3t@/postgres?host={folder}",
        "postgresql://postgres@/postgres?host={folder}&password=s3cr3t&port=1",
        "postgresql://postgres:s3cr3t@localhost:1/postgres",
        "postgresql://postgres:s3cr3t@no-such-host.invalid/postgres",
        "postgresql://postgres:x@s3cr3t@localhost/postgres",
        "postgresql://postgres:1/s3cr3t@localhost/postgres",
        "postgresql://postgres:1?s3cr3t@localhost/postgres",
        "postgresql://postgres:%zzs3cr3t@localhost/postgres",
        "postgresql://postgres:s3cr3t@localhost:port/postgres",
        "postgresql://postgres:s3cr3t@localhost/postgres?colour=red",
        "postgresql://postgres:s3cr3t@localhost/postgres?connect_timeout=soon",
    ],
)
def test_passwords_are_never_told(server, address):
    with pytest.raises((LedgerError, InvalidParameter)) as caught:
        PrivacyLedger.open(address.format(folder=server.folder), timeout=1.0)

    told = traceback.format_exception(caught.value)
    assert "s3cr3t" not in "".join(told) + repr(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "address",
    ["PostgreSQL://postgres:s3cr3t@localhost/postgres", "postgresql+psycopg://postgres:s3cr3t@localhost/postgres"],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_other_urls_are_neither_files_nor_told(address, kind):
    with pytest.raises(InvalidParameter, match="begins with postgresql://") as caught:
        PrivacyLedger.open(kind(address))
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_an_open_ledger_does_not_tell_its_password(server, database):
    address = server.url().replace("postgres@", "postgres:s3cr3t@")
    with PrivacyLedger.open(address) as ledger:
        assert "s3cr3t" not in repr(ledger) + repr(ledger._store._address) + ledger._store.name
        server.sql("DROP SCHEMA ferrodp CASCADE")
        with pytest.raises(LedgerError) as caught:
            ledger.verify()
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_forked_child_can_do_nothing_to_its_parents_connection(ledger):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for use in (lambda: ledger.spend("hospital", TENTH), lambda: ledger._store.reading().__enter__()):
                with pytest.raises(LedgerError, match="open it again here"):
                    use()
            ledger.close()
            ledger._store.close()
            _postgres_session._ABANDONED[0].close()  # what the end of an interpreter may do
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    backend = ledger._store._session.connection.info.backend_pid
    ledger.spend("hospital", TENTH)
    assert ledger._store._session.connection.info.backend_pid == backend


def test_a_closed_ledger_says_so(ledger):
    ledger.close()
    ledger.close()

    with pytest.raises(LedgerError, match="closed"):
        ledger.spend("hospital", TENTH)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingPackage, match=r"ferrodp\[postgres\]"):
        PrivacyLedger.open("postgresql://localhost/postgres")
