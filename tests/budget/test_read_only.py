"""A ledger that is only read: everything can be asked, nothing is written."""

import os
import shutil
import subprocess
import sys

import pytest

from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import InvalidType, LedgerError

EIGHTH = EpsilonDeltaEvent(epsilon=0.125)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return str(tmp_path / "budget.db") if request.param == "sqlite" else request.getfixturevalue("url")


@pytest.fixture
def ledger(where):
    with PrivacyLedger.open(where) as opened:
        opened.create("survey", epsilon=1.0, delta=0.0, measure="pure")
        opened.spend("survey", EIGHTH)
        yield opened


def asked(ledger):
    """Return the answers to all questions."""
    return (
        ledger.scopes,
        ledger.report("survey"),
        ledger.odometer("survey"),
        ledger.remaining_count("survey", EIGHTH),
        ledger.history(),
        list(ledger.export()),
        ledger.tickets(),
        ledger.head,
        ledger.verify(),
    )


def changes(ledger):
    """Go through everything that would write."""
    yield lambda: ledger.reserve("survey", EIGHTH)
    yield lambda: ledger.spend("survey", EIGHTH)
    yield lambda: ledger.lease("survey", EIGHTH, count=2)
    yield lambda: ledger.create("other", epsilon=1.0, delta=0.0, measure="pure")
    yield lambda: ledger.raise_cap("survey", epsilon=2.0, reason="x")
    yield lambda: ledger.lower_cap("survey", epsilon=0.5, reason="x")
    yield lambda: ledger.freeze("survey", reason="x")
    yield lambda: ledger.cancel_ticket("0" * 32, reason="x")


def test_everything_can_be_asked_and_nothing_is_changed(ledger, where):
    before = asked(ledger)
    with PrivacyLedger.open(where, read_only=True) as mine:
        assert asked(mine) == before
        for change in changes(mine):
            with pytest.raises(LedgerError, match="was opened read-only; nothing was charged"):
                change()
    assert asked(ledger) == before


def test_it_sees_what_others_write(ledger, where):
    with PrivacyLedger.open(where, read_only=True) as mine:
        ledger.spend("survey", EIGHTH)
        assert mine.report("survey").epsilon_charged == 0.25


def test_nothing_is_begun(tmp_path):
    with pytest.raises(LedgerError, match="does not exist"):
        PrivacyLedger.open(tmp_path / "budget.db", read_only=True)
    with pytest.raises(InvalidType, match="read_only must be True or False"):
        PrivacyLedger.open(tmp_path / "budget.db", read_only="yes")

    assert list(tmp_path.iterdir()) == []


def test_a_replica_can_be_read(server, url):
    with PrivacyLedger.open(url) as ledger:
        ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
        ledger.spend("survey", EIGHTH)
        before = asked(ledger)
    with server.replica() as replica:
        with pytest.raises(LedgerError, match="is a replica, which cannot be written"):
            PrivacyLedger.open(replica.url())
        with PrivacyLedger.open(replica.url(), read_only=True) as mine:
            assert asked(mine) == before


READS = """
import sys
from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import LedgerError
try:
    with PrivacyLedger.open(sys.argv[1], read_only=True) as ledger:
        print(ledger.report("survey").epsilon_charged, ledger.verify() == ledger.head)
except LedgerError as error:
    print(error)
"""


def seen_where_it_may_not_be_written(folder):
    """Return what a process sees in whose namespace the folder is mounted read-only, as a container has a volume."""
    script = f'mount --bind "{folder}" "{folder}" && mount -o remount,ro,bind "{folder}" && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", READS, f"{folder}/budget.db"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="mounting needs root",
)
def test_a_file_that_may_not_be_written_is_read_while_others_have_it_open(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as ledger:
        ledger.create("survey", epsilon=1.0, delta=0.0, measure="pure")
        ledger.spend("survey", EIGHTH)

        assert seen_where_it_may_not_be_written(tmp_path) == "0.125 True"
        ledger.spend("survey", EIGHTH)
        assert seen_where_it_may_not_be_written(tmp_path) == "0.25 True"
    assert "nobody has it open" in seen_where_it_may_not_be_written(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["budget.db"]
