"""A PostgreSQL server for the tests that need one."""

import pytest

from ferrodp.budget import _crash_points
from support import postgres_server

_MISSING = "PostgreSQL is not installed (Debian: apt-get install postgresql): its tests were SKIPPED"
_skipped = False


@pytest.fixture(scope="session")
def server():
    """A server that is up; whoever kills it starts it again."""
    global _skipped
    if postgres_server.programs() is None:
        _skipped = True
        pytest.skip(_MISSING)
    found = postgres_server.Server()
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
def database(server):
    """The name of a database without a ledger."""
    forget(server)
    yield "postgres"
    forget(server)


@pytest.fixture
def url(server, database):
    """The address of a ledger that is still to be made."""
    return server.url(database)


@pytest.fixture
def at_point(monkeypatch):
    """A function that lets something happen, once, when a named point is reached."""

    def arrange(point, action):
        pending = [action]

        def observer(name):
            if name == point and pending:
                pending.pop()()

        monkeypatch.setattr(_crash_points, "observer", observer)

    return arrange


def forget(server):
    server.sql("SET lock_timeout = '20s'; SET client_min_messages = error; DROP SCHEMA IF EXISTS ferrodp CASCADE")


def pytest_terminal_summary(terminalreporter):
    if _skipped:
        terminalreporter.section("PostgreSQL", red=True, bold=True)
        terminalreporter.line(_MISSING)
