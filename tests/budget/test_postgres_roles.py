"""What the server lets a role do to a ledger: a role that spends cannot raise what it may spend."""

import psycopg
import pytest

from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger, grant
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType, LedgerError

EIGHTH = EpsilonDeltaEvent(epsilon=0.125)
ROLES = ("ferrodp reader", "ferrodp-spender", 'ferrodp "operator"')


@pytest.fixture(scope="module")
def roles(server):
    for role in ROLES:
        server.sql(f"CREATE ROLE {quoted(role)} LOGIN")
    yield dict(zip(("reader", "spender", "operator"), ROLES, strict=True))
    for role in ROLES:
        server.sql(f"DROP OWNED BY {quoted(role)}; DROP ROLE {quoted(role)}")


@pytest.fixture
def ledger(url, roles):
    with PrivacyLedger.open(url) as opened:
        opened.create("survey", epsilon=1.0, delta=0.0, measure="pure")
        for rights, role in roles.items():
            grant(url, role, rights)
        yield opened


def quoted(role):
    return '"' + role.replace('"', '""') + '"'


def address(server, role):
    return server.url(user=role.replace(" ", "%20").replace('"', "%22"))


def test_a_spender_spends_and_no_more(ledger, server, roles):
    with PrivacyLedger.open(address(server, roles["spender"]), create=False) as mine:
        with mine.reserve("survey", EIGHTH, key="a") as ticket:
            ticket.arm()
        mine.reserve("survey", EIGHTH).cancel()
        with mine.lease("survey", EIGHTH, count=2) as lease:
            lease.draw().arm()
        mine.spend("survey", EIGHTH)
        mine.verify()
        before = ledger.head

        for forbidden in (
            lambda: mine.create("own", epsilon=9.0, delta=0.0, measure="pure"),
            lambda: mine.raise_cap("survey", epsilon=9.0, reason="more"),
            lambda: mine.lower_cap("survey", epsilon=0.5, reason="less"),
            lambda: mine.freeze("survey", reason="stop"),
            lambda: mine.thaw("survey", reason="go") or mine.freeze("survey", reason="stop"),
        ):
            with pytest.raises(LedgerError, match="by this role"):
                forbidden()
        with pytest.raises(BudgetExceeded):
            mine.lease("survey", EIGHTH, count=6)

    assert ledger.head == before
    assert ledger.report("survey").epsilon_charged == 3 * 0.125
    assert ledger.verify() == ledger.head


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ferrodp.scopes SET caps = '[\"1\"]'",
        "UPDATE ferrodp.scopes SET terms = terms",
        "UPDATE ferrodp.scopes SET frozen = 0",
        "UPDATE ferrodp.scopes SET name = 'other'",
        "INSERT INTO ferrodp.scopes SELECT 'b', terms, caps, spent, frozen, version FROM ferrodp.scopes",
        "DELETE FROM ferrodp.scopes",
        "DELETE FROM ferrodp.tickets",
        "UPDATE ferrodp.tickets SET charges = '{}'",
        "DELETE FROM ferrodp.log",
        "UPDATE ferrodp.log SET body = ''",
        "TRUNCATE ferrodp.log",
        "UPDATE ferrodp.about SET format = 9",
        "ALTER TABLE ferrodp.scopes DISABLE TRIGGER ALL",
        "DROP TABLE ferrodp.log",
        "CREATE TABLE ferrodp.more (x INTEGER)",
    ],
)
def test_no_statement_of_a_spender_writes_a_promise(ledger, server, roles, statement):
    before = server.tables()
    with (
        psycopg.connect(address(server, roles["spender"])) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)

    assert server.tables() == before


def test_a_reader_reads_and_charges_nothing(ledger, server, roles):
    with PrivacyLedger.open(address(server, roles["reader"]), create=False) as mine:
        assert mine.report("survey").epsilon == 1.0
        assert mine.remaining_count("survey", EIGHTH) == 8
        assert mine.history() == ledger.history()
        with pytest.raises(LedgerError, match="by this role"):
            mine.reserve("survey", EIGHTH)


def test_an_operator_sets_budgets(ledger, server, roles):
    with PrivacyLedger.open(address(server, roles["operator"]), create=False) as mine:
        mine.create("second", epsilon=1.0, delta=0.0, measure="pure")
        mine.raise_cap("survey", epsilon=2.0, reason="board")
        mine.freeze("survey", reason="stop")
        mine.thaw("survey", reason="go")
        mine.spend("survey", EIGHTH)
    assert ledger.verify() == ledger.head


def test_rights_that_a_role_had_are_taken_away(ledger, server, url, roles):
    grant(url, roles["operator"], "reader")

    with (
        PrivacyLedger.open(address(server, roles["operator"]), create=False) as mine,
        pytest.raises(LedgerError, match="by this role"),
    ):
        mine.raise_cap("survey", epsilon=2.0, reason="board")


def test_rights_that_would_bind_nobody_are_refused(ledger, server, url, roles):
    with pytest.raises(LedgerError, match="'postgres' is a superuser or owns the ledger"):
        grant(url, "postgres", "spender")
    with pytest.raises(LedgerError, match="has no role 'nobody'"):
        grant(url, "nobody", "spender")
    with pytest.raises(LedgerError, match="only the owner"):
        grant(address(server, roles["operator"]), roles["spender"], "operator")
    with pytest.raises(InvalidParameter, match="rights must be one of"):
        grant(url, "nobody", "owner")
    with pytest.raises(InvalidType, match="role must be a str"):
        grant(url, 3, "spender")
    with pytest.raises(InvalidParameter, match="begins with postgresql"):
        grant("budget.db", "a", "spender")


def test_there_is_nothing_to_grant_without_a_ledger(url, roles):
    with pytest.raises(LedgerError, match="does not exist"):
        grant(url, roles["spender"], "spender")
