"""Kills a PostgreSQL server again and again while processes reserve from a ledger on it: what was true stays true.

``python tests/budget/postgres_kills.py --kills 200`` is the deep run; the suite does five. Each round kills the server
and starts it again; some rounds also kill one of the processes, or end a session. The processes are never told: the
handles that they opened at the beginning have to find the server again. Then the ledger is drained to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp.accounting import LaplaceEvent
from ferrodp.budget import PrivacyLedger
from ferrodp.errors import BudgetExceeded, LedgerError
from support import postgres_server

EVENT = LaplaceEvent(noise_multiplier=1024.0)
"""Costs 2⁻¹⁰ exactly, so that a cap allows an exact number."""
LAST = 50
"""How many are left to spend when the killing is over."""


def work(url: str, path: str) -> None:
    """Reserve until nothing is left, and write down what was acknowledged, and what was not."""
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # lost connections are what this is about
    notes, parent = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.getppid()
    with _opened(url) as ledger:
        while os.getppid() == parent:
            try:
                note = f"ticket {ledger.reserve('load', EVENT).id}"
            except BudgetExceeded as error:
                if "frozen" not in str(error):
                    os.write(notes, b"drained\n")
                    return
                time.sleep(0.05)
                continue
            except LedgerError as error:
                note = "unknown" if "unknown" in str(error) else f"refused {error}"
            os.write(notes, f"{note}\n".encode())


def _opened(url: str) -> PrivacyLedger:
    """Open the ledger, also if the server is being killed right now."""
    while True:
        with contextlib.suppress(LedgerError):
            return PrivacyLedger.open(url, create=False, verify=False)
        time.sleep(0.05)


@dataclass
class Outcome:
    """What a campaign found."""

    servers: int = 0
    sessions: int = 0
    processes: int = 0
    acknowledged: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unknown: int = 0
    drained: int = 0
    recorded: set[str] = field(default_factory=set)
    cap: int = 0
    workers: int = 0

    @property
    def kills(self) -> int:
        return self.servers + self.sessions + self.processes

    def check(self) -> None:
        acknowledged = set(self.acknowledged)
        assert len(acknowledged) == len(self.acknowledged), "a ticket was handed out twice"
        assert acknowledged <= self.recorded, "an acknowledged ticket was forgotten"
        assert len(self.recorded) == self.cap, "the ledger did not drain to its very end"
        assert len(self.recorded) - len(acknowledged) <= self.kills, "more than one charge was wasted for a kill"
        assert all("nothing was charged" in error for error in self.refused), "an error that promises nothing"
        assert self.drained == self.workers, "a process gave up"

    def __str__(self) -> str:
        wasted = len(self.recorded) - len(self.acknowledged)
        return (
            f"{self.servers} kills of the server, {self.sessions} of sessions, {self.processes} of processes; "
            f"{len(self.acknowledged)} acknowledged <= {len(self.recorded)} recorded = {self.cap} allowed; {wasted} "
            f"wasted; {len(self.refused)} errors that nothing was charged, {self.unknown} of unknown outcome"
        )


class Workers:
    """Processes that reserve, each with a file of its own for what it was told."""

    def __init__(self, url: str, folder: Path, count: int) -> None:
        self._url, self._folder = url, folder
        self.paths: list[Path] = []
        self.running = [self._started() for _ in range(count)]

    def _started(self) -> subprocess.Popen[bytes]:
        self.paths.append(self._folder / f"notes-{len(self.paths)}")
        command = [sys.executable, __file__, "--worker", self._url, str(self.paths[-1])]
        return subprocess.Popen(command)

    def replace(self, place: int) -> None:
        self.running[place].send_signal(signal.SIGKILL)
        self.running[place].wait()
        self.running[place] = self._started()

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def notes(self) -> list[str]:
        return [line for path in self.paths if path.exists() for line in path.read_text().splitlines()]

    def tickets(self) -> int:
        return sum(note.startswith("ticket") for note in self.notes())


def campaign(
    server: postgres_server.Server, *, kills: int, processes: int, seed: int, verbose: bool = False
) -> Outcome:
    """Kill, drain, and return what was found. The server is up before and after."""
    chance = random.Random(seed)
    outcome = Outcome(workers=processes)
    with PrivacyLedger.open(server.url()) as ledger, contextlib.ExitStack() as stack:
        ledger.create("load", epsilon=2.0**20, delta=0.0, measure="pure")
        workers = Workers(server.url(), server.folder, processes)
        stack.callback(workers.stop)
        while outcome.servers < kills:
            _progress(workers, chance.randrange(1, 50))
            time.sleep(chance.uniform(0.0, 0.02))
            if chance.random() < 0.25:
                workers.replace(chance.randrange(processes))
                outcome.processes += 1
            if chance.random() < 0.25:
                outcome.sessions += _terminate_one(server)
                _progress(workers, 1)
            server.kill()
            outcome.servers += 1
            server.start()
            assert ledger.head.sequence > 0  # refuses a server that forgot what was seen before
            if verbose and outcome.servers % 20 == 0:
                print(f"{outcome.servers} kills, {workers.tickets()} acknowledged", flush=True)
        ledger.freeze("load", reason="counting")
        recorded = ledger.report("load").held
        outcome.cap = recorded + LAST
        ledger.lower_cap("load", epsilon=outcome.cap / 1024, reason="draining")
        ledger.thaw("load", reason="draining")
        for process in workers.running:
            process.wait(60)
        ledger.verify()
        assert ledger.remaining_count("load", EVENT) == 0
        _read(outcome, workers.notes())
        outcome.recorded = {str(row[0]) for row in server.sql("SELECT id FROM ferrodp.tickets")}
    return outcome


def _progress(workers: Workers, count: int) -> None:
    """Return when so many more tickets were handed out."""
    goal = workers.tickets() + count
    deadline = time.monotonic() + 60
    while workers.tickets() < goal:
        assert time.monotonic() < deadline, "nothing happens any more"
        time.sleep(0.005)


def _terminate_one(server: postgres_server.Server) -> int:
    found = server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ferrodp' "
        "AND state <> 'idle' ORDER BY random() LIMIT 1"
    )
    return len(found)


def _read(outcome: Outcome, notes: list[str]) -> None:
    for note in notes:
        kind, _, text = note.partition(" ")
        if kind == "ticket":
            outcome.acknowledged.append(text)
        elif kind == "refused":
            outcome.refused.append(text)
        elif kind == "unknown":
            outcome.unknown += 1
        else:
            outcome.drained += 1


def main() -> None:
    """Run the campaign that the command line asks for, on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the server's files are; in memory if not given")
    parser.add_argument("--worker", nargs=2, metavar=("URL", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    server = postgres_server.Server(options.folder)
    try:
        server.start()
        outcome = campaign(server, kills=options.kills, processes=options.processes, seed=options.seed, verbose=True)
        print(outcome)
        outcome.check()
    finally:
        server.stop()


if __name__ == "__main__":
    main()
