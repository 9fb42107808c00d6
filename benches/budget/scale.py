"""Make large ledgers, and measure what it takes to open, ask and check them.

Run as ``python benches/budget/scale.py [--records N] [--scopes N] [--directory DIR] [--only NAME ...]``. Prints
elapsed seconds and, in parentheses, seconds of processor time; for commands, of the whole process. With ``--make PATH``
it only makes a ledger there. The machine should be quiet.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ferrodp._native import sqlite_version
from ferrodp.accounting import GaussianEvent, LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.budget._charging import rules as _rules
from ferrodp.budget.stores.base import Transaction
from ferrodp.events import PrivacyEvent

BATCH = 1500
EVENTS: dict[str, PrivacyEvent] = {"pure": LaplaceEvent(noise_multiplier=1e9)}
EVENT = GaussianEvent(noise_multiplier=1e5)


def make(path: Path, *, records: int, scopes: int, measure: Any, different: bool = False) -> None:
    """Make a ledger: scopes, with different budgets on request, and releases that are reserved, armed and done.

    It is written by the library's own rules, thousands of releases a commit.
    """
    event = EVENTS.get(measure, EVENT)
    delta = 0.0 if measure == "pure" else 1e-6
    with PrivacyLedger.open(path) as ledger:
        names = [f"scope-{index}" for index in range(scopes)]
        for index, name in enumerate(names[:BATCH] if different else names[:1]):
            ledger.create(name, epsilon=100.0 + index / 8 * different, delta=delta, measure=measure)
        made = BATCH if different else 1
        first = ledger._access.run(lambda transaction: _rules.existing(transaction, names[0])).terms

        def create(part: list[str]) -> Callable[[Transaction], None]:
            def work(transaction: Transaction) -> None:
                for name in part:
                    _rules.create(transaction, name, first)

            return work

        for start in range(made, scopes, BATCH):
            ledger._access.run(create(names[start : start + BATCH]))

        def release(count: int) -> Callable[[Transaction], None]:
            def work(transaction: Transaction) -> None:
                for index in range(count):
                    ticket, _ = _rules.reserve(transaction, (names[index % min(scopes, 10)],), event, key=None)
                    _rules.arm(transaction, ticket.id)
                    _rules.finish(transaction, ticket.id)

            return work

        while (missing := records - ledger.head.sequence) >= 3:
            ledger._access.run(release(min(BATCH, missing // 3)))


def timed(name: str, work: Callable[[], object]) -> object:
    """Run something, print how long it took, and return what it returned."""
    start, used = time.perf_counter(), time.process_time()
    found = work()
    elapsed, used = time.perf_counter() - start, time.process_time() - used
    print(f"{name:<58}{elapsed:9.3f} s ({used:.3f} s)", flush=True)
    return found


def command(*arguments: str) -> None:
    """Run a command line in a process of its own and print how long that took."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "ferrodp", *arguments], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{'ferrodp ' + ' '.join(arguments[:2]):<58}{elapsed:9.3f} s ({used:.3f} s)", flush=True)


def longest_wait(ledger: PrivacyLedger, work: Callable[[], object]) -> float:
    """Return for how many seconds the slowest reservation waited while another thread did something long."""
    worker = threading.Thread(target=work)
    waits = [0.0]
    worker.start()
    while worker.is_alive():
        start = time.perf_counter()
        ledger.spend("scope-0", EVENT)
        waits.append(time.perf_counter() - start)
        time.sleep(0.01)
    worker.join()
    return max(waits)


def many_records(path: Path, records: int) -> None:
    """Measure a ledger of few scopes and many records."""
    timed(f"make {records} records", lambda: make(path, records=records, scopes=10, measure="rdp"))
    print(f"{'bytes':<58}{path.stat().st_size:9d}")
    PrivacyLedger.open(path, verify=False).close()

    def opened(**settings: Any) -> str:
        with PrivacyLedger.open(path, create=False, **settings) as ledger:
            return str(ledger.head)

    witness = str(timed("open, verified whole", opened))
    timed("open with a witness", lambda: opened(witness=witness))
    timed("open, not verified", lambda: opened(verify=False))
    command("ledger", "status", str(path))
    command("ledger", "spend", str(path), "--scope", "scope-1", "--noise-multiplier", "100000")
    command("ledger", "history", str(path), "--limit", "20")
    with PrivacyLedger.open(path, create=False, witness=witness) as ledger:
        timed("status of 10 scopes", lambda: [ledger.report(name) for name in ledger.scopes])
        for name, work in (
            ("verify", ledger.verify),
            ("history of one scope", lambda: len(ledger.history("scope-1"))),
            ("export", lambda: sum(1 for _ in ledger.export())),
        ):
            waited = timed(f"{name}, and reservations meanwhile", lambda work=work: longest_wait(ledger, work))
            print(f"{'  longest wait of a reservation':<58}{waited:9.3f} s")
    print(f"{'most memory so far':<58}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:9d} MB")


def many_scopes(path: Path, scopes: int, measure: str) -> None:
    """Measure a ledger of many scopes."""
    make(path, records=scopes + 30_000, scopes=scopes, measure=measure, different=True)

    def opened(**settings: Any) -> str:
        with PrivacyLedger.open(path, create=False, **settings) as ledger:
            return str(ledger.head)

    witness = timed(f"open {scopes} scopes of {measure}, verified whole", opened)
    timed(f"open {scopes} scopes of {measure}, with a witness", lambda: opened(witness=witness))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, default=None, help="where the ledgers are made (default: temporary)")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--scopes", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=["records", "gdp", "rdp", "zcdp", "pure"])
    parser.add_argument(
        "--make", type=Path, metavar="PATH", help="make a ledger of 10 scopes and so many records there"
    )
    options = parser.parse_args()
    if options.make is not None:
        make(options.make, records=options.records, scopes=10, measure="rdp")
        return
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    print(json.dumps({"system": system, "python": platform.python_version(), "sqlite": sqlite_version}))
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        for name in options.only:
            if name == "records":
                many_records(Path(folder, "records.db"), options.records)
            else:
                many_scopes(Path(folder, f"{name}.db"), options.scopes, name)


if __name__ == "__main__":
    main()
