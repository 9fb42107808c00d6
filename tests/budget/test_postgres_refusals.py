"""What a ledger on PostgreSQL refuses to stand on: servers that forget, schemas of others, rows that were changed."""

import psycopg
import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import LedgerError

TENTH = LaplaceEvent(noise_multiplier=10.0)


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
    with PrivacyLedger.open(server.url(settings={"synchronous_commit": asked})) as mine:
        at_point(
            "before the commit", lambda: seen.extend(mine._access.store.execute("SHOW synchronous_commit").fetchone())
        )
        mine.spend("hospital", TENTH)

    assert seen == [used]


def test_a_read_only_database_is_refused(ledger, server):
    with pytest.raises(LedgerError, match="read-only"):
        PrivacyLedger.open(server.url(settings={"default_transaction_read_only": "on"}))

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

    with pytest.raises(LedgerError, match="not a ledger"):
        PrivacyLedger.open(url)

    assert server.sql(tables) == before


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE ferrodp.about SET format = 1", "has format 1"),
        ("UPDATE ferrodp.about SET format = 0", "has format 0"),
        ("UPDATE ferrodp.about SET application = 'another'", "not a ledger"),
        ("DELETE FROM ferrodp.about", "not a ledger"),
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
        "INSERT INTO tickets SELECT sequence + 9, md5(id), NULL, fingerprint, state, event, charges, count, scopes "
        "FROM tickets WHERE key IS NULL",
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


@pytest.mark.parametrize("statement", ["UPDATE ferrodp.scopes SET version = 7", "DELETE FROM ferrodp.tickets"])
def test_what_changes_without_the_lock_is_noticed(ledger, server, at_point, statement):
    ticket = ledger.reserve("hospital", TENTH)
    before = ledger.head
    at_point("before the rows", lambda: server.sql(statement))

    with pytest.raises(LedgerError, match="changed by something else"):
        ticket.cancel()  # changes the scope and the ticket

    assert ledger.head == before


def test_an_earlier_state_is_refused_by_who_saw_the_later_one(ledger, server, url):
    ledger.spend("hospital", TENTH)
    kept = server.tables()
    ledger.spend("hospital", TENTH)
    witness = ledger.head
    ledger.spend("hospital", TENTH)
    with PrivacyLedger.open(url, witness=witness) as other:
        assert other.head.sequence == witness.sequence + 1

    with PrivacyLedger.open(url) as late:
        server.put_back(kept)

        with pytest.raises(LedgerError, match="earlier state"):
            ledger.spend("hospital", TENTH)
        with pytest.raises(LedgerError, match="witness"):
            PrivacyLedger.open(url, witness=witness)
        with PrivacyLedger.open(url) as other:  # without a witness nobody can know
            for _ in range(3):
                other.spend("hospital", TENTH)
        with pytest.raises(LedgerError, match="earlier state"):
            late.spend("hospital", TENTH)


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
