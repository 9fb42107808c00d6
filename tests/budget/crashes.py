"""Let a process die at each named point of each operation, and see what the ledger makes of it.

`python tests/budget/crashes.py --times 100` repeats each case, dying by SIGKILL and by `os._exit` in turn, and between
two scopes before the first and before the second.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp._native import sqlite_version
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger, _crash_points
from ferrodp.errors import BudgetExceeded
from ferrodp.mechanisms import LaplaceMechanism
from support import children

TENTH = LaplaceEvent(noise_multiplier=10.0)
OPERATIONS = ("create", "reserve", "arm", "release", "cancel", "spend", "lease", "end lease", "raise cap", "freeze")


def begin(path):
    """Make two scopes, one in the other, with room for ten."""
    with PrivacyLedger.open(path) as ledger:
        ledger.create("all", epsilon=1.0, delta=0.0, measure="pure")
        ledger.create("all/some", epsilon=1.0, delta=0.0, measure="pure")
        ledger.spend("all/some", TENTH, key="before")


def crash(path, diary, operation, point, nth, how):
    """Do `operation`, dying when `point` is reached for the n-th time in it; note what was acknowledged."""
    ledger = PrivacyLedger.open(path, verify=False)
    left = itertools.count(1)

    def observer(name):
        if name == point and next(left) == nth:
            children.die() if how == "kill" else os._exit(99)

    with children.diary(diary) as note:
        act = prepared(ledger, operation)
        _crash_points.observer = observer
        act(note)
        _crash_points.observer = lambda _: None


def prepared(ledger, operation):
    """Return what does the operation and notes each answer; what has to be there before is done at once."""
    if operation in ("arm", "release", "cancel"):
        ticket = ledger.reserve("all/some", TENTH, key="used")

        def use(note):
            if operation == "release":
                LaplaceMechanism(scale=10.0, l1_sensitivity=1.0).release(0.0, ticket=ticket)
            else:
                getattr(ticket, operation)()
            note(operation)

        return use
    if operation == "end lease":
        lease = ledger.lease("all/some", TENTH, count=4)
        lease.draw().arm()

        def end(note):
            lease.close()
            note(operation)

        return end
    actions = {
        "create": lambda: ledger.create("all/new", epsilon=1.0, delta=0.0, measure="pure"),
        "reserve": lambda: ledger.reserve("all/some", TENTH, key="new"),
        "spend": lambda: ledger.spend("all/some", TENTH, key="new"),
        "lease": lambda: ledger.lease("all/some", TENTH, count=4),
        "raise cap": lambda: ledger.raise_cap("all/some", epsilon=2.0, reason="approved"),
        "freeze": lambda: ledger.freeze("all/some", reason="incident"),
    }

    def once(note):
        actions[operation]()
        note(operation)

    return once


def judge(path, diary, operation):
    """What was acknowledged is there; what was not is there as a whole or not at all; all sums are true."""
    acknowledged = set(Path(diary).read_text().split("\n"))
    done = operation in acknowledged
    with PrivacyLedger.open(path, create=False) as ledger:
        kinds = [body["kind"] for body in ledger.history()]
        frozen = ledger.report("all/some").frozen
        if frozen:
            ledger.thaw("all/some", reason="over")
        left = {name: ledger.remaining_count(name, TENTH) for name in ("all", "all/some")}
        expected, kind = {
            "create": ({9}, "create"), "reserve": ({9, 8}, "reserve"), "spend": ({9, 8}, "reserve"),
            "arm": ({8}, "arm"), "release": ({8}, "arm"), "cancel": ({8, 9}, "cancel"), "lease": ({9, 5}, "lease"),
            "end lease": ({5, 8}, "return"), "raise cap": ({9}, "cap"), "freeze": ({9}, "freeze"),
        }[operation]  # fmt: skip
        before = 2 if kind in ("create",) else 1 if kind == "reserve" else 0
        recorded = kinds.count(kind) > before
        assert recorded or not done, "what was acknowledged is missing"
        assert left["all"] in expected, f"{left['all']} left"
        assert left["all/some"] in ({9, 19} if operation == "raise cap" else {left["all"]})
        if len(expected) == 2:
            changed = left["all"] != (5 if operation == "end lease" else 8 if operation == "cancel" else 9)
            assert changed == recorded, "a sum and the log do not agree"
        if operation in ("reserve", "spend"):
            spent_now = ledger.spend("all/some", TENTH, key="new", again_ok=True)
            assert spent_now == (operation == "reserve" or not recorded), "who tries again is told the wrong thing"
            assert ledger.remaining_count("all", TENTH) == 8, "who tries again is not charged once"
        for _ in range(ledger.remaining_count("all", TENTH)):
            ledger.spend("all/some", TENTH)
        try:
            ledger.spend("all/some", TENTH)
        except BudgetExceeded:
            ledger.verify()
        else:
            raise AssertionError("more is charged than there is")
    for remains in ("-journal", "-wal"):
        left_over = Path(f"{path}{remains}")
        assert not left_over.exists() or not left_over.stat().st_size, "recovery left something behind"
        left_over.unlink(missing_ok=True)


def case(path, operation, point, nth, how):
    """Run one case; return whether the point was reached."""
    diary = f"{path}.diary"
    Path(diary).write_text("")
    assert children.run(begin, path) == 0
    code = children.run(crash, path, diary, operation, point, nth, how)
    assert code in (0, -9, 99), f"{operation}: the process ended with {code}"
    assert children.run(judge, path, diary, operation) == 0, f"{operation}, {point} reached {nth} times, by {how}"
    return code != 0


def every_case(times):
    """Go through operations, points, and ways to die."""
    for round_ in range(times):
        for number, (operation, point) in enumerate(itertools.product(OPERATIONS, _crash_points.POINTS)):
            nth = 2 - round_ // 2 % 2 if point == "between the scopes" else 1
            yield operation, point, nth, ("kill", "exit")[(round_ + number) % 2]


def main():
    """Run all cases and print how many there were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--folder", help="where to put the ledgers; a temporary folder by default")
    options = parser.parse_args()
    begun, cases, deaths = time.monotonic(), 0, 0
    reached = set()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="crashes-") as folder:
        for cases, (operation, point, nth, how) in enumerate(every_case(options.times), 1):
            path = f"{folder}/{cases}.db"
            if case(path, operation, point, nth, how):
                deaths += 1
                reached.add(point)
            os.remove(path)
    missing = set(_crash_points.POINTS) - reached
    assert not missing, f"nothing died at {missing}"
    seconds = time.monotonic() - begun
    print(f"{cases} cases, {deaths} deaths, at {len(reached)} points, {seconds:.0f} s, sqlite {sqlite_version}")


if __name__ == "__main__":
    sys.exit(main())
