"""A ledger on PostgreSQL: any number of connections spend one budget, none tells a password, a fork has none."""

import os
import sys
import threading
import traceback
from pathlib import Path

import psycopg
import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget.stores.postgres import session as _postgres_session
from ferrodp.errors import BudgetExceeded, InvalidParameter, LedgerError, MissingPackage

TENTH = LaplaceEvent(noise_multiplier=10.0)
LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.fixture
def ledger(url):
    with PrivacyLedger.open(url) as opened:
        opened.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        yield opened


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
            server.url(settings={"default_transaction_isolation": LEVELS[i % 3]}), verify=False
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
        with PrivacyLedger.open(server.url(settings={"default_transaction_isolation": level})) as mine:
            return [mine.reserve("hospital", TENTH).id for _ in range(2)]

    acknowledged = [each for mine in together(work, 5) for each in mine]

    assert len(set(acknowledged)) == 10
    assert ledger.remaining_count("hospital", TENTH) == 0


def test_a_ledger_is_made_once_however_many_begin_it(url):
    def work(_):
        with PrivacyLedger.open(url) as mine:
            return mine._access.store._about

    assert len(set(together(work, 8))) == 1


def test_what_does_not_exist_is_not_made_unasked(url, server):
    with pytest.raises(LedgerError, match="does not exist"):
        PrivacyLedger.open(url, create=False)

    assert server.sql("SELECT to_regnamespace('ferrodp')") == [(None,)]


@pytest.mark.parametrize("limit", [{"timeout": 0.2}, {"settings": {"statement_timeout": "200"}}])
def test_a_writer_that_does_not_end_is_not_waited_for_for_ever(ledger, server, limit):
    with (
        psycopg.connect(server.url()) as other,
        PrivacyLedger.open(server.url(settings=limit.get("settings", {})), timeout=limit.get("timeout", 60.0)) as mine,
    ):
        other.execute("SELECT 1 FROM ferrodp.head FOR UPDATE")
        with pytest.raises(LedgerError, match=r"busy.*nothing was charged"):
            mine.spend("hospital", TENTH)
        assert mine.remaining_count("hospital", TENTH) == 10  # readers wait for nobody
        other.rollback()
        mine.spend("hospital", TENTH)


def test_readers_see_one_moment(ledger, url):
    with PrivacyLedger.open(url) as reader, reader._access.store.reading() as moment:
        ledger.spend("hospital", TENTH)

        assert len(moment.records(None, 10)) == moment.read_head.sequence == 1
        assert list(moment.ticket_rows()) == []
        assert not any(any(row.spent) for row in moment.scopes())


def test_long_logs_are_read_piece_by_piece(ledger, url, monkeypatch):
    monkeypatch.setattr(_postgres_session, "_ROWS", 3)
    ledger.raise_cap("hospital", epsilon=2.0, reason="for the test")
    together(lambda i: ledger.spend("hospital", TENTH), 16)

    assert ledger.verify().sequence == 18
    with PrivacyLedger.open(url) as again:
        assert len(list(again.history())) == 18


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_names_are_data_whatever_they_look_like(server, database, conforming):
    text = "o'clock\\'; DROP TABLE log; -- % %s %% ? $1 \" E'\\n é 漢 \\"
    name = "o'clock'; DROP TABLE log; -- % %s %% E'n é 漢"
    with PrivacyLedger.open(server.url(settings={"standard_conforming_strings": conforming})) as mine:
        mine.create(name, epsilon=1.0, delta=0.0, measure="pure")
        ticket = mine.reserve(name, TENTH, key=text)
        mine.freeze(name, reason=text)

        assert mine.scopes == (name,)
        assert mine.verify().sequence == 3
        assert mine.reserve(name, TENTH, key=text).id == ticket.id


def test_rows_are_not_read_after_their_transaction(ledger, monkeypatch):
    monkeypatch.setattr(_postgres_session, "_ROWS", 1)
    ledger.spend("hospital", TENTH)
    with ledger._access.store.reading() as moment:
        rows = iter(moment.ticket_rows())
        next(rows)

    with pytest.raises(LedgerError, match="after its end"):
        next(rows)


def test_nothing_is_kept_in_the_session(ledger):
    """What a pooler does to a session between two transactions, and what other users of it leave there."""
    for _ in range(8):
        ledger.spend("hospital", TENTH)
        connection = ledger._access.store._session.connection
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
        connection.execute("DISCARD ALL")
        connection.execute("CREATE TEMPORARY TABLE head AS SELECT 1 AS single, 99 AS sequence, 'x' AS hash")
        connection.execute("SET search_path TO pg_temp")
        connection.execute("SET default_transaction_isolation TO serializable")

    assert ledger.verify().sequence == 9


def test_a_role_that_may_only_spend_can_do_so(ledger, server):
    server.sql(
        "CREATE ROLE spender LOGIN; GRANT USAGE ON SCHEMA ferrodp TO spender; GRANT SELECT ON ferrodp.about TO spender;"
        "GRANT SELECT, INSERT ON ferrodp.log, ferrodp.states TO spender;"
        "GRANT SELECT, UPDATE ON ferrodp.head TO spender;"
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


@pytest.mark.parametrize("password", [":s3cr3t", ""], ids=["in the address", "in the environment"])
def test_a_driver_that_quotes_a_password_is_not_repeated(monkeypatch, password):
    def refuse(**parameters):
        raise psycopg.OperationalError("access denied with s3cr3t")

    monkeypatch.setattr(psycopg, "connect", refuse)
    monkeypatch.setenv("PGPASSWORD", "s3cr3t")

    with pytest.raises(LedgerError, match="quotes a secret") as caught:
        PrivacyLedger.open(f"postgresql://postgres{password}@localhost/postgres", timeout=0.01)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


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
        assert "s3cr3t" not in repr(ledger) + repr(ledger._access.store._address) + ledger._access.store.name
        server.sql("DROP SCHEMA ferrodp CASCADE")
        with pytest.raises(LedgerError) as caught:
            ledger.verify()
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_forked_child_can_do_nothing_to_its_parents_connection(ledger):
    connection = ledger._access.store._session.connection
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for use in (lambda: ledger.spend("hospital", TENTH), lambda: ledger._access.store.reading().__enter__()):
                with pytest.raises(LedgerError, match="open it again here"):
                    use()
            ledger.close()
            ledger._access.store.close()
            connection.close()  # what the end of an interpreter may do
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    ledger.spend("hospital", TENTH)
    assert ledger._access.store._session.connection is connection


def test_a_closed_ledger_says_so(ledger):
    ledger.close()
    ledger.close()

    with pytest.raises(LedgerError, match="closed"):
        ledger.spend("hospital", TENTH)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingPackage, match=r"ferrodp\[postgres\]"):
        PrivacyLedger.open("postgresql://localhost/postgres")
