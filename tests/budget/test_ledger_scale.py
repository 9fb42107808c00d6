"""What a large ledger costs to open, to ask and to check grows with what is new or asked for, not with its past."""

import collections
import contextlib
import itertools
import json
import sqlite3
import threading

import pytest

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import Head, PrivacyLedger, _measures, grant, migrate_ledger
from ferrodp.budget import records as _records
from ferrodp.budget import report as _report
from ferrodp.budget.log import checkpoints as _checkpoints
from ferrodp.budget.log import history as _history
from ferrodp.budget.log import replay as _replay
from ferrodp.budget.log.checkpoints import verified, write
from ferrodp.budget.stores.base import Transaction
from ferrodp.budget.stores.sqlite.store import SqliteStore
from ferrodp.errors import InvalidParameter, LedgerError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request, path):
    """An empty ledger, in a file and on a server."""
    where = path if request.param == "sqlite" else request.getfixturevalue("url")
    with PrivacyLedger.open(where) as found:
        yield found


@pytest.mark.parametrize("measure", ["rdp", "gdp", "zcdp", "pure"])
def test_opening_calibrates_nothing(path, monkeypatch, measure):
    """A filter is made from a scope's terms when something is charged; opening only has to know the terms."""
    with PrivacyLedger.open(path) as ledger:
        for index in range(3):
            ledger.create(f"s{index}", epsilon=1.5 + index, delta=0.0 if measure == "pure" else 1e-6, measure=measure)
        ledger.raise_cap("s1", epsilon=8.0, reason="approved")
    monkeypatch.setattr(_measures, "privacy_filter", lambda *_, **__: pytest.fail("a filter was made"))

    with PrivacyLedger.open(path, create=False) as ledger:
        assert ledger.scopes == ("s0", "s1", "s2")
        assert ledger.report("s1").epsilon == 8.0


@pytest.mark.parametrize(
    "change",
    [
        {"measure": "pld"},
        {"measure": ["rdp"]},
        {"epsilon": -1.0},
        {"epsilon": None},
        {"delta": 0.0},
        {"delta": 1.5},
        {"neighboring_relation": "none"},
        {"orders": []},
        {"orders": [1.0]},
        {"orders": [2.0, 2.0]},
        {"orders": ["2"]},
        {"orders": 2.0},
    ],
)
def test_terms_that_no_scope_can_have_are_refused(change):
    plain = {"measure": "rdp", "epsilon": 1.0, "delta": 1e-6, "orders": [2.0, 3.5]}
    plain["neighboring_relation"] = "add_or_remove_one"
    plain |= change
    with pytest.raises(LedgerError, match="no version of this program"):
        _measures.Terms.from_dict(plain)


TENTH = LaplaceEvent(noise_multiplier=10.0)
STATES = ("held", "armed", "spent", "cancelled")


def fill(ledger, rounds=1):
    """Let everything happen that can, `rounds` times; tickets stay behind in each state."""
    for _ in range(rounds):
        ledger.spend("all/some", TENTH)
        ledger.reserve("all/some", TENTH).arm()
        ledger.reserve("all", TENTH).cancel()
        with ledger.reserve("all", TENTH) as ticket:
            ticket.arm()
        ledger.reserve("all", TENTH, key=f"held {ledger.head.sequence}")
        with ledger.lease("all/some", TENTH, count=5) as lease:
            lease.draw().arm()
        ledger.freeze("other", reason="test")
        ledger.thaw("other", reason="test")
        ledger.raise_cap("all", epsilon=ledger.report("all").epsilon + 1, reason="test")


def begin(path):
    ledger = PrivacyLedger.open(path)
    for name in ("all", "all/some", "other"):
        ledger.create(name, epsilon=100.0, delta=0.0, measure="pure")
    return ledger


def keep_state(ledger):
    """Write a checkpoint as a ledger of many records does when it is opened."""
    replay = verified(ledger._access.store, whole=False)
    ledger._access.run(lambda transaction: write(transaction, replay))


@pytest.fixture
def kept(path):
    """A ledger with two checkpoints and records before, between and after them, and its heads after each."""
    heads = []
    with begin(path) as ledger:
        for _ in range(2):
            fill(ledger, 2)
            keep_state(ledger)
            heads.append(ledger.head)
        fill(ledger)
        heads.append(ledger.head)
    return heads


def change(path, statement, *parameters):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(statement, parameters).rowcount == 1
        for _, sql in triggers:
            connection.execute(sql)


def test_a_report_counts_what_the_tickets_say_without_reading_them(path, monkeypatch):
    asked, execute = [], SqliteStore.execute
    monkeypatch.setattr(SqliteStore, "execute", lambda *args: asked.append(args[1]) or execute(*args))
    with begin(path) as ledger:
        fill(ledger, 3)
        lease = ledger.lease("other", TENTH, count=7)
        lease.draw().arm()
        for name in ledger.scopes:
            counted = collections.Counter()
            for ticket in ledger.tickets(name):
                counted[ticket.state.value] += ticket.count
            asked.clear()
            report = ledger.report(name)
            assert {state: getattr(report, state) for state in STATES} == {state: counted[state] for state in STATES}
            assert asked
            assert not any("tickets" in sql for sql in asked)
        assert ledger.report("other").armed == 7
        lease.close()
        assert (ledger.report("other").armed, ledger.report("other").spent) == (0, 1)
        ledger.verify()


@pytest.mark.parametrize("state", STATES)
def test_a_count_that_was_changed_is_refused(path, state):
    with begin(path) as ledger:
        fill(ledger)
        counts = [getattr(ledger.report("all"), each) for each in STATES]
    counts[STATES.index(state)] += 1
    change(path, "UPDATE scopes SET counts = ? WHERE name = 'all'", " ".join(map(str, counts)))
    with pytest.raises(LedgerError, match="a scope is not what the log makes it"):
        PrivacyLedger.open(path)


def test_only_what_is_new_is_read(path, kept, monkeypatch):
    read = []
    chained = _records.chained
    monkeypatch.setattr(_records, "chained", lambda before, text: read.append(text) or chained(before, text))

    with PrivacyLedger.open(path, verify="new") as ledger:
        assert len(read) == kept[2].sequence - kept[1].sequence + 1
        assert ledger.head == kept[2]
        fill(ledger)
    read.clear()
    with PrivacyLedger.open(path, witness=kept[0]) as ledger:  # the later checkpoint is not covered by the witness
        assert len(read) == ledger.head.sequence - kept[0].sequence + 1
    read.clear()
    with PrivacyLedger.open(path) as ledger:
        assert len(read) == ledger.head.sequence
    with pytest.raises(LedgerError, match="does not contain the witness"):
        PrivacyLedger.open(path, witness=Head(kept[1].sequence, "0" * 64))


@pytest.mark.parametrize("whole", [True, False])
def test_long_ledgers_write_checkpoints_when_they_are_opened(path, monkeypatch, whole):
    with begin(path) as ledger:
        fill(ledger, 4)
        length = ledger.head.sequence
    PrivacyLedger.open(path).close()
    with PrivacyLedger.open(path, verify=False) as ledger:
        assert ledger.head.sequence == length  # it is not long enough to be worth it
    monkeypatch.setattr(_checkpoints, "RECORDS_APART", length)
    monkeypatch.setattr(_checkpoints, "_RECORDS_AN_ENTRY", 0)
    PrivacyLedger.open(path, read_only=True).close()
    with PrivacyLedger.open(path, verify=whole or "new") as ledger:
        assert ledger.head.sequence == length + 1
        assert ledger.history(limit=1)[0]["kind"] == "checkpoint"
    with PrivacyLedger.open(path, verify=whole or "new") as ledger:
        assert ledger.head.sequence == length + 1
    monkeypatch.setattr(_checkpoints, "_RECORDS_AN_ENTRY", 10)
    with PrivacyLedger.open(path, verify="new") as ledger:
        fill(ledger, 6)
        longer = ledger.head.sequence
    with PrivacyLedger.open(path, verify="new") as ledger:
        assert ledger.head.sequence == longer  # there are so many held and armed tickets that another has to wait


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scopes SET spent = '[\"0\",\"0\"]' WHERE name = 'all'",
        "UPDATE scopes SET frozen = 1 WHERE name = 'other'",
        "UPDATE scopes SET counts = '0 0 0 0' WHERE name = 'all/some'",
        "UPDATE scopes SET caps = '[\"9\",\"9\"]' WHERE name = 'other'",
        "DELETE FROM scopes WHERE name = 'other'",
        "INSERT INTO scopes SELECT 'more', terms, caps, spent, frozen, version, counts FROM scopes LIMIT 1",
        "UPDATE tickets SET state = 'held' WHERE sequence = (SELECT MIN(sequence) FROM tickets WHERE state = 'armed')",
        "UPDATE tickets SET count = 9 WHERE sequence = (SELECT MIN(sequence) FROM tickets WHERE state = 'held')",
        "UPDATE tickets SET key = 'k' WHERE sequence = (SELECT MAX(sequence) FROM tickets WHERE state = 'spent')",
        "DELETE FROM tickets WHERE sequence = (SELECT MIN(sequence) FROM tickets WHERE state = 'held')",
        "DELETE FROM tickets WHERE sequence = (SELECT MAX(sequence) FROM tickets WHERE state = 'spent')",
        "INSERT INTO tickets SELECT 9999, id, NULL, fingerprint, state, event, charges, count, scopes FROM tickets "
        "LIMIT 1",
        "UPDATE states SET state = replace(state, 'held', 'armed') WHERE sequence = (SELECT MAX(sequence) FROM states)",
        "UPDATE states SET sequence = sequence + 1 WHERE sequence = (SELECT MAX(sequence) FROM states)",
        "INSERT INTO states SELECT sequence + 1, state FROM states ORDER BY sequence DESC LIMIT 1",
        "UPDATE log SET body = body || ' ' WHERE sequence = (SELECT MAX(sequence) FROM states)",
        "UPDATE log SET body = body || ' ' WHERE sequence = (SELECT MAX(sequence) + 3 FROM states)",
        "DELETE FROM log WHERE sequence = (SELECT MAX(sequence) + 3 FROM states)",
        "DELETE FROM log WHERE sequence = (SELECT MAX(sequence) FROM log)",
    ],
)
def test_what_was_changed_is_refused_when_only_what_is_new_is_read(path, kept, statement):
    change(path, statement)
    for settings in ({"verify": "new"}, {"witness": kept[1]}, {"verify": "all"}):
        with pytest.raises(LedgerError):
            PrivacyLedger.open(path, create=False, **settings).close()


@pytest.mark.parametrize("with_record", [False, True])
def test_a_state_that_was_changed_together_with_the_tables_is_refused(path, kept, with_record):
    """More is allowed in a scope, and the state says so, and its record: the hash of that record does not."""
    connection = sqlite3.connect(path)
    sequence, state = connection.execute("SELECT sequence, state FROM states ORDER BY sequence DESC").fetchone()
    connection.close()
    plain = json.loads(state)
    row = next(row for row in plain["scopes"] if row[0] == "other")
    row[2] = row[2].replace('"', '"9', 1)
    text = str(_records.plain(plain))
    change(path, "UPDATE states SET state = ? WHERE sequence = ?", text, sequence)
    change(path, "UPDATE scopes SET caps = ? WHERE name = 'other'", row[2])
    if with_record:
        digests = _records.digest(state), _records.digest(text)
        change(path, "UPDATE log SET body = replace(body, ?, ?) WHERE sequence = ?", *digests, sequence)

    for settings in ({"verify": "new"}, {"witness": kept[1]}, {"witness": kept[0]}, {"verify": "all"}):
        with pytest.raises(LedgerError):
            PrivacyLedger.open(path, create=False, **settings).close()


def test_a_state_that_does_not_follow_is_refused_by_those_who_read_what_is_before_it(path, kept):
    """Who may append to the log may lie in a checkpoint; whoever verifies all, or from an older witness, sees it."""
    with PrivacyLedger.open(path) as ledger:
        replay = verified(ledger._access.store, whole=True)
        replay._changed("all").spent = (0, 0)
        ledger._access.run(lambda transaction: write(transaction, replay))

    for settings in ({}, {"witness": kept[0]}, {"witness": kept[2]}, {"verify": "new"}):
        with pytest.raises(LedgerError):
            PrivacyLedger.open(path, create=False, **settings).close()


def test_tickets_that_ended_before_the_checkpoint_are_compared_when_all_is_verified(path, kept):
    """What reading only what is new does not look at, as its documentation says."""
    change(
        path, "UPDATE tickets SET count = 2 WHERE sequence = (SELECT MIN(sequence) FROM tickets WHERE state = 'spent')"
    )
    PrivacyLedger.open(path, verify="new").close()
    with pytest.raises(LedgerError, match="a ticket is not what the log makes it"):
        PrivacyLedger.open(path)


def test_a_ledger_goes_on_after_a_checkpoint_as_without_one(path, kept):
    """What was held and armed before can be cancelled, ended and verified later, from any checkpoint on."""
    with PrivacyLedger.open(path, verify="new") as ledger:
        for ticket in ledger.tickets(states=["held"]):
            ledger.cancel_ticket(ticket.id, reason="test")
        assert ledger.report("all").held == 0
        ledger.lower_cap("other", epsilon=1.0, reason="test")
        ledger.create("all/new", epsilon=1.0, delta=0.0, measure="pure")
        fill(ledger)
        keep_state(ledger)
        head = ledger.head
    for settings in ({"verify": "new"}, {"witness": kept[0]}, {"witness": kept[2]}, {"verify": True}):
        with PrivacyLedger.open(path, **settings) as ledger:
            assert ledger.verify() == head


@pytest.mark.parametrize("value", ["", "ALL", 1, 0, b"all", ["all"]])
def test_what_to_verify_is_a_choice(path, value):
    with pytest.raises(InvalidParameter, match="verify must be"):
        PrivacyLedger.open(path, verify=value)
    assert not path.exists()


def in_another_thread(work):
    """Run something in a thread, and fail if it has to wait for this one."""
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(60)
    assert done, "it had to wait"


@pytest.mark.parametrize("what", ["verify", "history", "export", "tickets"])
def test_nobody_waits_while_a_ledger_is_read(ledger, monkeypatch, what):
    """In the middle of each long reading, through the same handle, something is charged."""
    ledger.create("all", epsilon=100.0, delta=0.0, measure="pure")
    for _ in range(5):
        ledger.spend("all", TENTH)
    before, charged = ledger.head, []
    names = {"verify": (_replay.Replay, "compare"), "tickets": (_report, "ticket_row")}
    where, name = names.get(what, (_history, "ticket_record" if what == "history" else "_RECORDS_AT_ONCE"))

    def charge():
        if not charged:
            charged.append(True)
            in_another_thread(lambda: ledger.spend("all", TENTH) or True)

    if what == "export":
        monkeypatch.setattr(_history, "_RECORDS_AT_ONCE", 2)
        lines = ledger.export()
        found = [next(lines), next(lines)]
        charge()
        found += lines
        assert len(found) == 1 + before.sequence  # what came later is not part of that moment
    else:
        original = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *args: charge() or original(*args))
        found = {
            "verify": ledger.verify,
            "history": lambda: ledger.history("all"),
            "tickets": lambda: ledger.tickets("all"),
        }[what]()
        assert found == before if what == "verify" else len(found) in (5, 6)
    assert ledger.head.sequence == before.sequence + 1
    assert ledger.verify() == ledger.head


@pytest.mark.parametrize("scope", [None, "all", "all/some", "other"])
def test_history_is_the_same_read_from_its_end(ledger, monkeypatch, scope):
    """Pieces of any size, and only the last ones, against one loop over all records."""
    for name in ("all", "all/some", "other"):
        ledger.create(name, epsilon=100.0, delta=0.0, measure="pure")
    fill(ledger, 2)
    everything = [json.loads(json.loads(line)["record"]) for line in itertools.islice(ledger.export(), 1, None)]
    assert {type(body["who"]) for body in everything} == {dict, int}
    for body in everything:
        body["who"] = everything[0]["who"]
    first = {body["ticket"]: body for body in everything if "charges" in body}
    expected = [
        body
        for body in everything
        if scope in (None, body.get("scope")) or scope in first.get(body.get("ticket"), {}).get("charges", ())
    ]
    told = [body | ({"scopes": first[body["ticket"]]["scopes"]} if "ticket" in body else {}) for body in expected]
    for at_once in (1, 3, 1000):
        monkeypatch.setattr(_history, "_RECORDS_AT_ONCE", at_once)
        assert ledger.history(scope) == expected
        assert ledger.history(scope, with_scopes=True) == told
        for limit in (1, 4, 1000):
            assert ledger.history(scope, limit=limit) == expected[-limit:]


def test_history_and_export_hold_a_part_in_memory(path, monkeypatch):
    """How many records are in memory at once is what was asked for, however long the log is."""
    monkeypatch.setattr(_history, "_RECORDS_AT_ONCE", 4)
    held, at_once = [], []
    records, records_before = Transaction.records, Transaction.records_before
    for name, original in (("records", records), ("records_before", records_before)):
        monkeypatch.setattr(Transaction, name, lambda *args, f=original: held.append(rows := f(*args)) or rows)
    with begin(path) as ledger:
        fill(ledger, 2)
        held.clear()
        assert ledger.history(limit=3)[-1]["sequence"] == ledger.head.sequence
        assert [len(rows) for rows in held] == [4]
        held.clear()
        at_once.extend(len(held[-1]) if held else 0 for _ in ledger.export())
        assert len(at_once) == 1 + ledger.head.sequence
        assert max(at_once) == 4
        assert len(held) >= ledger.head.sequence // 4


def test_a_server_keeps_checkpoints_too(url, server):
    with PrivacyLedger.open(url) as ledger:
        for name in ("all", "all/some", "other"):
            ledger.create(name, epsilon=100.0, delta=0.0, measure="pure")
        fill(ledger)
        keep_state(ledger)
        witness = ledger.head
        fill(ledger)
    for settings in ({"verify": "new"}, {"witness": witness}, {"verify": "new", "read_only": True}):
        with PrivacyLedger.open(url, **settings) as ledger:
            assert ledger.verify() == ledger.head
    server.sql("UPDATE ferrodp.scopes SET frozen = 1 WHERE name = 'other'")
    for settings in ({"verify": "new"}, {"witness": witness}):
        with pytest.raises(LedgerError, match="a scope is not what the log makes it"):
            PrivacyLedger.open(url, **settings)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"fingerprint":"b","c":3}',
        '{"a":{"x":[1,{"y":2}]},"fingerprint":"b"}',
        '{"a":",\\"fingerprint\\":","fingerprint":"b"}',
        '{"a":{"b":1,"fingerprint":2},"fingerprint":"b","a":3}',
        '{"a":1,"fingerprint":"b","a":2}',
        '{"a":1,"fingerprint":"b","fingerprint":"c"}',
        '{"fingerprint":"b","a":1}',
        '{"a":1,"fingerprint":"b"} ',
        '{"a":1},"fingerprint":"b"}',
        '{"a":1,"fingerprint":}',
        '{"a":1,,"fingerprint":2}',
        '[{"a":1,"fingerprint":2}]',
        '{,"fingerprint":2}',
        '{ ,"fingerprint":2}',
        '{"a":1,"fingerprint":"b"}}',
        '{"a":[1,"fingerprint":2}',
        ' {"a":1,"fingerprint":2}',
        '{"a":1 ,"fingerprint":2}',
        '{"a":1,"kind":"b","c":3}',
        '{"a":1,"kind":"b","kind":2}',
        '{"a":{"b":1,"kind":2},"kind":"b","a":3}',
        '{"kind":"b","a":{"b":1,"kind":2}}',
        '{"a":[1,"kind":2}',
        '{"a":1,"kind":"b","fingerprint":"c"}',
    ],
)
def test_what_records_begin_with_is_read_once_and_means_the_same(text):
    replay = _replay.Replay(Head(0, "0" * 64))
    for _ in range(2):
        try:
            expected = _records.parsed(text)
        except LedgerError:
            with pytest.raises(LedgerError):
                replay._parsed(text)
        else:
            assert replay._parsed(text) == expected
            assert list(replay._parsed(text).items()) == list(expected.items())


def test_who_may_not_keep_a_state_opens_the_ledger_all_the_same(url, server, monkeypatch):
    with PrivacyLedger.open(url) as ledger:
        ledger.create("all", epsilon=100.0, delta=0.0, measure="pure")
        ledger.spend("all", TENTH)
    server.sql("CREATE ROLE saver LOGIN")
    try:
        grant(url, "saver", "spender")
        server.sql("REVOKE INSERT ON ferrodp.states FROM saver")
        monkeypatch.setattr(_checkpoints, "RECORDS_APART", 1)
        monkeypatch.setattr(_checkpoints, "_RECORDS_AN_ENTRY", 0)
        with PrivacyLedger.open(server.url(user="saver")) as ledger:
            assert ledger.head.sequence == 2
            ledger.spend("all", TENTH)
            assert ledger.verify().sequence == 3
        server.sql("GRANT INSERT ON ferrodp.states TO saver")
        with PrivacyLedger.open(server.url(user="saver")) as ledger:
            assert ledger.history(limit=1)[0]["kind"] == "checkpoint"
    finally:
        server.sql("DROP OWNED BY saver; DROP ROLE saver")


def test_a_ledger_that_was_moved_keeps_no_more_states_and_its_copy_does(path, kept, tmp_path, monkeypatch):
    new = tmp_path / "new.db"
    head = migrate_ledger(path, new, reason="test")
    monkeypatch.setattr(_checkpoints, "RECORDS_APART", 1)
    monkeypatch.setattr(_checkpoints, "_RECORDS_AN_ENTRY", 0)
    for verify in ("new", "all"):
        with PrivacyLedger.open(path, create=False, verify=verify) as old:
            assert old.head.sequence == head.sequence - 1
            assert old.report("all").held == 5
    with PrivacyLedger.open(new, verify="new") as ledger:  # the records about states came along, the states did not
        assert ledger.head.sequence == head.sequence + 1
        assert ledger.verify() == ledger.head
    monkeypatch.setattr(_replay.Replay, "_create", lambda *_: pytest.fail("old records were read"))
    PrivacyLedger.open(new, verify="new").close()
