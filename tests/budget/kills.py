"""Kill processes that share one budget at random moments, start others, and count what is left.

`python tests/budget/kills.py --kills 1000 --processes 8`: workers reserve, arm, cancel, lease in one scope, and write
down each answer *after* they got it. In the end: nothing that was acknowledged is missing, what is recorded and was not
acknowledged is at most one charge a kill, and what is left can be used up to the last one, exactly.

`python tests/budget/kills.py --race --processes 32 --count 2000`: nobody is killed, and all race for what there is.
"""

import argparse
import collections
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp._native import sqlite_version
from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import BudgetExceeded, LedgerError
from support import children

COST = 2.0**-10
EVENT = LaplaceEvent(noise_multiplier=1 / COST)
SCOPE = "all/some"


def begin(path, count):
    """Make a ledger that has room for `count` releases, in a scope within a scope."""
    with PrivacyLedger.open(path) as ledger:
        for name in ("all", SCOPE):
            ledger.create(name, epsilon=count * COST, delta=0.0, measure="pure")


def work(path, folder, slot, gate=None):
    """Use the budget until it is used up, or this process is killed."""
    if gate is not None:
        os.read(gate, 1)
    rng = random.Random(os.getpid() * 1_000_003 + time.monotonic_ns())
    diary_path = Path(folder, f"diary-{slot}")
    step = diary_path.read_text().count("reserved") if diary_path.exists() else 0
    with children.diary(diary_path) as note:
        while True:
            try:
                with PrivacyLedger.open(path, verify=rng.random() < 0.1) as ledger:
                    while True:
                        one(ledger, note, rng, f"{slot}/{step}" if slot % 2 == 0 else None, racing=gate is not None)
                        step += 1
            except BudgetExceeded:
                return
            except LedgerError as error:
                note(f"trouble {error}")


def one(ledger, note, rng, key, *, racing):
    """Reserve once, and do something with it. With a key, whoever comes after a kill gets the same ticket again."""
    ticket = ledger.reserve(SCOPE, EVENT, key=key)
    note(f"reserved {ticket.id}")
    chance = rng.random()
    if racing:
        return
    if chance < 0.5:
        ticket.arm()
        note(f"armed {ticket.id}")
        ticket.close()
    elif chance < 0.7:
        note(f"cancelling {ticket.id}")
        ticket.cancel()
    elif chance < 0.8:
        lease = ledger.lease(SCOPE, EVENT, count=3)
        note(f"leased {lease.id}")
        lease.draw().arm()
        lease.close()


def drain(path, folder):
    """Use what is left, most of it at once."""
    with PrivacyLedger.open(path) as ledger, children.diary(Path(folder, "diary-end")) as note:
        left = ledger.remaining_count(SCOPE, EVENT)
        if left > 5:
            note(f"leased {ledger.lease(SCOPE, EVENT, count=left - 5).id}")
        try:
            while True:
                note(f"reserved {ledger.reserve(SCOPE, EVENT).id}")
        except BudgetExceeded:
            pass
        ledger.verify()


def judge(path, folder, count, kills):
    """Compare the diaries with the ledger; return what was found, and raise AssertionError if a promise is broken."""
    said = collections.defaultdict(set)
    for file in Path(folder).glob("diary-*"):
        for line in file.read_text().splitlines():
            word, _, what = line.partition(" ")
            said[word].add(what) if word != "trouble" else said[word].add((file.name, line, len(said[word])))
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    rows = {row[0]: row[1:] for row in connection.execute("SELECT id, state, count FROM tickets")}
    connection.close()
    acknowledged = said["reserved"] | said["leased"]
    charged = {identity for identity, (state, _) in rows.items() if state != "cancelled"}
    missing = acknowledged - charged - said["cancelling"]
    assert not missing, f"{len(missing)} acknowledged charges are missing"
    unarmed = {identity for identity in said["armed"] if rows[identity][0] not in ("armed", "spent")}
    assert not unarmed, f"{len(unarmed)} acknowledged releases are not recorded"
    spent = sum(rows[identity][1] for identity in charged)
    assert spent == count, f"{spent} of {count} are charged when nothing is left"
    waste = len(charged - acknowledged)
    assert waste <= kills, f"{waste} charges are wasted by {kills} kills"
    return {
        "acknowledged": len(acknowledged), "cancelled": len(rows) - len(charged), "armed": len(said["armed"]),
        "charged units": spent, "of": count, "wasted": waste, "busy or interrupted": len(said["trouble"]),
    }  # fmt: skip


def kill(path, folder, *, kills, processes, count, pause):
    """Run the workers, kill them one by one, and let the rest drain the ledger."""
    assert children.run(begin, path, count) == 0
    running = {slot: children.start(work, path, folder, slot) for slot in range(processes)}
    done = 0
    while done < kills:
        time.sleep(random.expovariate(1 / pause))
        slot = random.randrange(processes)
        os.kill(running[slot], signal.SIGKILL)
        code = children.end_of(running[slot])
        assert code == -signal.SIGKILL, f"a worker ended with {code} before it was killed: give it more to do"
        done += 1
        running[slot] = children.start(work, path, folder, slot)
    for child in running.values():
        os.kill(child, signal.SIGKILL)
        children.end_of(child)
        done += 1
    assert children.run(drain, path, folder) == 0
    return judge(path, folder, count, done) | {"kills": done, "processes": processes}


def race(path, folder, *, processes, count):
    """Let all take what there is, at once; they have to get exactly that."""
    assert children.run(begin, path, count) == 0
    gate, opened = os.pipe()
    running = [children.start(work, path, folder, slot, gate) for slot in range(processes)]
    os.write(opened, b"!" * processes)
    assert [children.end_of(child) for child in running] == [0] * processes
    found = judge(path, folder, count, 0)
    assert found["acknowledged"] == count
    return found | {"processes": processes}


def main():
    """Parse the arguments and print one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--count", type=int, default=0, help="how many releases there is room for")
    parser.add_argument("--pause", type=float, default=0.03, help="mean seconds between two kills")
    parser.add_argument("--race", action="store_true", help="kill nobody")
    parser.add_argument("--folder", help="where to put the ledger; a temporary folder by default")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="kills-") as folder:
        path = f"{folder}/budget.db"
        if options.race:
            found = race(path, folder, processes=options.processes, count=options.count or 2000)
        else:
            count = options.count or options.kills * 100 + 10_000
            kills, processes, pause = options.kills, options.processes, options.pause
            found = kill(path, folder, kills=kills, processes=processes, count=count, pause=pause)
    found |= {"seconds": round(time.monotonic() - begun, 1), "sqlite": sqlite_version}
    print(", ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    sys.exit(main())
