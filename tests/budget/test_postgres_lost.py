"""Connections and servers that go away at the worst moments: what was charged is known, or counts as spent."""

import contextlib
import os
import signal
import threading
import time

import postgres_kills
import psycopg
import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, TicketState
from ferrodp.budget.stores import base as _store
from ferrodp.budget.stores.postgres import store as postgres
from ferrodp.errors import LedgerError, TicketError

TENTH = LaplaceEvent(noise_multiplier=10.0)


@pytest.fixture
def ledger(url):
    with PrivacyLedger.open(url) as opened:
        opened.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        opened.create("hospital/images", epsilon=1.0, delta=0.0, measure="pure")
        yield opened


@pytest.fixture
def awaited(server):
    """Commits wait for a standby that does not exist, after they are on the disk, until this is closed.

    It is how a commit is stopped in its middle.
    """
    server.configure("synchronous_standby_names", "nobody")
    # The process that tells all others has heard of it when somebody waits in vain.
    event = None
    while event != "SyncRep":
        with contextlib.closing(psycopg.connect(server.url())) as connection:
            process, state = connection.info.backend_pid, "active"
            connection.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'ferrodp', 'test')")
            while state == "active" and event != "SyncRep":
                question = f"SELECT state, wait_event FROM pg_stat_activity WHERE pid = {process}"
                ((state, event),) = server.sql(question)
            server.sql(f"SELECT pg_terminate_backend({process}, 10000)")

    with contextlib.ExitStack() as stack:
        stack.callback(server.configure, "synchronous_standby_names", None)
        yield stack


def waiting(server):
    """Return the session that waits in the middle of its commit, as soon as there is one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = server.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'")
        if found:
            return found[0][0]
        time.sleep(0.01)
    raise AssertionError("no commit waits for a standby")


@contextlib.contextmanager
def meanwhile(action):
    """Run something in another thread during the block."""
    failed = []

    def run():
        try:
            action()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed, failed


def test_a_server_that_was_restarted_is_found_again(ledger, server):
    server.kill()
    server.start()

    ledger.spend("hospital", TENTH)
    server.kill()
    server.start()
    assert ledger.remaining_count("hospital", TENTH) == 9
    assert ledger.verify().sequence == 3


def test_a_server_that_is_starting_is_waited_for(ledger, server):
    server.kill()

    with meanwhile(lambda: ledger.spend("hospital", TENTH)):
        time.sleep(0.3)
        server.start()

    assert ledger.remaining_count("hospital", TENTH) == 9


def test_a_server_that_takes_nobody_yet_is_waited_for_by_who_comes_first(ledger, server):
    head = ledger.head
    with server.replica(hot_standby=False) as replica:
        with pytest.raises(LedgerError, match="cannot be reached"):
            PrivacyLedger.open(replica.url(), timeout=0.1)

        with meanwhile(lambda: (time.sleep(0.3), replica.promote())), PrivacyLedger.open(replica.url()) as found:
            assert found.head == head


def test_a_standby_that_takes_over_has_all_that_was_acknowledged(ledger, server):
    with server.replica() as replica:
        both = f"{server.url()},{replica.folder}&target_session_attrs=read-write"
        server.configure("synchronous_standby_names", "'*'")
        try:
            with PrivacyLedger.open(both) as mine:
                for _ in range(3):
                    mine.spend("hospital", TENTH)
                server.kill()
                with meanwhile(lambda: (time.sleep(0.2), replica.promote())):
                    mine.spend("hospital", TENTH)
                assert mine.remaining_count("hospital", TENTH) == 6
                assert mine.verify().sequence == 6
        finally:
            server.start()
            server.configure("synchronous_standby_names", None)


def test_a_standby_that_takes_over_without_the_last_commits_is_refused(ledger, server):
    with server.replica(follows=False) as replica:
        both = f"{server.url()},{replica.folder}&target_session_attrs=read-write"
        with PrivacyLedger.open(both) as mine:
            mine.spend("hospital", TENTH)
            server.kill()
            try:
                replica.promote()
                with pytest.raises(LedgerError, match="put back to an earlier state"):
                    mine.spend("hospital", TENTH)
            finally:
                server.start()


def test_a_server_that_stays_away_is_an_error_and_not_the_end(server, ledger, url):
    with PrivacyLedger.open(url, timeout=0.3) as mine:
        server.kill()
        try:
            for _ in range(2):
                with pytest.raises(LedgerError, match=r"cannot be reached.*nothing was charged"):
                    mine.spend("hospital", TENTH)
            with pytest.raises(LedgerError, match="cannot be reached"):
                PrivacyLedger.open(url, timeout=0.3)
        finally:
            server.start()

        mine.spend("hospital", TENTH)
        assert mine.remaining_count("hospital", TENTH) == 9


@pytest.mark.parametrize("point", ["before the rows", "between the scopes", "before the log", "before the commit"])
def test_nothing_is_charged_when_the_connection_is_lost_before_the_commit(ledger, server, at_point, point):
    before = ledger.head
    at_point(point, lambda: server.terminate(ledger))

    with pytest.raises(LedgerError, match="nothing was charged"):
        ledger.spend("hospital/images", TENTH)

    assert ledger.head == before
    ledger.spend("hospital/images", TENTH)
    assert ledger.verify().sequence == before.sequence + 1


def test_a_reader_that_is_cut_off_says_so(ledger, server):
    def read():
        with ledger._access.store.reading() as moment:
            server.terminate(ledger)
            moment.scope("hospital")

    with pytest.raises(LedgerError, match="connection to the server was lost"):
        read()

    assert ledger.remaining_count("hospital", TENTH) == 10


def test_a_commit_whose_answer_was_lost_is_asked_for_again(ledger, server, awaited):
    def cut():
        with awaited:
            server.sql(f"SELECT pg_terminate_backend({waiting(server)}, 10000)")

    with meanwhile(cut):
        ticket = ledger.reserve("hospital", TENTH)

    assert ledger.remaining_count("hospital", TENTH) == 9
    ticket.arm()
    assert ledger.verify().sequence == 4


def test_a_commit_that_no_standby_has_is_not_acknowledged(ledger, server, awaited):
    acknowledged = []

    def refuse_to_wait():
        with awaited:
            server.sql(f"SELECT pg_cancel_backend({waiting(server)})")
            waiting(server)  # the question whether it was committed waits for the standby, too
            assert not acknowledged

    with meanwhile(refuse_to_wait):
        acknowledged.append(ledger.reserve("hospital", TENTH))

    assert ledger.remaining_count("hospital", TENTH) == 9


def test_where_nobody_can_be_asked_the_charge_counts_as_spent(ledger, server, url, awaited):
    with PrivacyLedger.open(url, timeout=0.3) as mine:

        def crash():
            try:
                waiting(server)
            finally:
                server.kill()

        with meanwhile(crash), pytest.raises(LedgerError, match=r"outcome is unknown.*counts as spent"):
            mine.reserve("hospital", TENTH)
        server.start()
        awaited.close()

        assert mine.remaining_count("hospital", TENTH) == 9  # it was on the disk
        mine.spend("hospital", TENTH)


def test_who_does_the_same_at_the_same_moment_is_told_apart(ledger, server, url, at_point, monkeypatch):
    """The records of both are equal to the last bit; only one transaction wrote it, and only one may release."""
    monkeypatch.setattr(_store, "_now", lambda *_: "2026-01-01T00:00:00+00:00")
    mine = ledger.reserve("hospital", TENTH, key="round-7")
    with PrivacyLedger.open(url) as other:
        theirs = other.reserve("hospital", TENTH, key="round-7")
        for each in (ledger, other):
            each._access.store.author = None

        def overtake():
            server.terminate(ledger)
            theirs.arm()

        at_point("before the commit", overtake)
        with pytest.raises(LedgerError, match="outcome is unknown"):
            mine.arm()

    assert theirs.state is TicketState.ARMED
    with pytest.raises(TicketError):
        ledger.reserve("hospital", TENTH, key="round-7").arm()


def test_an_interrupted_commit_is_recorded_and_the_ledger_goes_on(ledger, server, awaited):
    def interrupt():
        with awaited:
            waiting(server)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), meanwhile(interrupt):
        ledger.reserve("hospital", TENTH)

    assert ledger.remaining_count("hospital", TENTH) == 9
    ledger.spend("hospital", TENTH)


def test_what_an_interrupted_thread_left_open_is_rolled_back(ledger):
    ledger._access.store._session.connection.execute("BEGIN; UPDATE ferrodp.head SET sequence = 77")

    ledger.spend("hospital", TENTH)

    assert ledger.verify().sequence == 3


def test_a_writer_that_stops_in_the_middle_is_given_up(ledger, url, at_point, monkeypatch):
    with PrivacyLedger.open(url, timeout=20.0) as other:
        monkeypatch.setattr(postgres, "_WRITING", postgres._WRITING.replace("30000", "100"))

        def pause():
            other.spend("hospital", TENTH)  # waits until the server has had enough of us

        at_point("before the log", pause)
        with pytest.raises(LedgerError, match="nothing was charged"):
            ledger.spend("hospital", TENTH)

    assert ledger.remaining_count("hospital", TENTH) == 9


def test_kills_of_server_sessions_and_processes_waste_at_most_one_charge_each(server, url):
    outcome = postgres_kills.campaign(server, kills=5, processes=4, seed=5)

    assert outcome.kills >= 5
    outcome.check()


@pytest.mark.parametrize("known", [True, False], ids=["as known", "with more"])
def test_a_dump_in_place_of_the_tables_is_another_ledger_until_they_are_back(server, url, database, known):
    """It says of itself that it is the same, and holds all that this handle saw."""
    with PrivacyLedger.open(url) as first, PrivacyLedger.open(url) as second:
        first.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        first.reserve("hospital", TENTH).arm()
        dump = server.dumped(database, "ferrodp")
        if not known:
            second.reserve("hospital", TENTH).arm()
        server.sql("ALTER SCHEMA ferrodp RENAME TO away", database)
        server.restored(database, dump)

        with pytest.raises(LedgerError, match="removed or replaced"):
            first.reserve("hospital", TENTH)
        with PrivacyLedger.open(url) as third:
            assert third.remaining_count("hospital", TENTH) == 9
        server.sql("DROP SCHEMA ferrodp CASCADE; ALTER SCHEMA away RENAME TO ferrodp", database)
        with pytest.raises(LedgerError, match="removed or replaced"):
            first.reserve("hospital", TENTH)
        assert second.remaining_count("hospital", TENTH) == (9 if known else 8)


def test_a_dump_put_in_place_in_the_middle_of_a_transaction_takes_nothing(server, url, database, at_point):
    with PrivacyLedger.open(url) as ledger:
        ledger.create("hospital", epsilon=1.0, delta=0.0, measure="pure")
        dump = server.dumped(database, "ferrodp")

        def exchange():
            server.sql("ALTER SCHEMA ferrodp RENAME TO away", database)
            server.restored(database, dump)

        at_point("before the rows", exchange)
        with pytest.raises(LedgerError, match="changed by something else"):
            ledger.reserve("hospital", TENTH)
        server.sql("DROP SCHEMA ferrodp CASCADE; ALTER SCHEMA away RENAME TO ferrodp", database)
        assert ledger.remaining_count("hospital", TENTH) == 10
