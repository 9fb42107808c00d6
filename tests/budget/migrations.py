"""Moves ledgers again and again, with kills, races and renamed results: never do two copies take the same budget.

``python tests/budget/migrations.py --moves 20000`` is the deep run; the suite does some hundred. Each round has one
ledger (in a file, on a server, or in a file of format 2) and some destinations. Moves are called by children that are
killed at a named point or at any moment, alone or at the same time, to one destination or to several. Between them,
ledgers are renamed to where nobody looks for them, and back. After that all ledgers that were made are spent to their
end, wherever they are:

- in all of them together no more is armed than the first had left, and
- exactly so much once every ledger was back in its place and the move that was recorded was repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ferrodp.accounting import EpsilonDeltaEvent
from ferrodp.budget import PrivacyLedger, _crash_points, migrate_ledger
from ferrodp.errors import BudgetExceeded, LedgerError
from support import postgres_server

EVENT = EpsilonDeltaEvent(epsilon=0.125)
LEFT = 3
"""Releases that each first ledger has left; one of format 2 has what `STORED` has left in its scope."""
STORED = Path(__file__).parents[1] / "stored" / "format-2.db"
SUFFIXES = "", "-wal", "-shm"
SCOPE = "survey"


class InFile:
    """A place for a ledger: a file."""

    def __init__(self, path: Path) -> None:
        self.address, self._away = str(path), f"{path}.renamed"

    def exists(self) -> bool:
        return os.path.exists(self.address)

    def hide(self) -> bool:
        return self.exists() and not os.path.exists(self._away) and self._rename(self.address, self._away)

    def show(self) -> bool:
        return os.path.exists(self._away) and not self.exists() and self._rename(self._away, self.address)

    def swap(self) -> None:
        """Let the hidden ledger and the one in its place change places."""
        self._rename(self.address, f"{self.address}.swap")
        self.show()
        self._rename(f"{self.address}.swap", self._away)

    def is_hidden(self) -> bool:
        return os.path.exists(self._away)

    def _rename(self, old: str, new: str) -> bool:
        for suffix in SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{old}{suffix}", f"{new}{suffix}")
        return True


class OnServer:
    """A place for a ledger: a database."""

    def __init__(self, server: postgres_server.Server, database: str) -> None:
        self.address, self._server, self._database = server.url(database), server, database
        self._sql("DROP SCHEMA IF EXISTS ferrodp CASCADE; DROP SCHEMA IF EXISTS renamed CASCADE")

    def _sql(self, statement: str) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            found = connection.execute(f"SET client_min_messages = error; {statement}")
            while found.nextset():
                pass
            return found.fetchall() if found.description else []

    def _there(self, schema: str) -> bool:
        return bool(self._sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'"))

    def exists(self) -> bool:
        return self._there("ferrodp")

    def is_hidden(self) -> bool:
        return self._there("renamed")

    def hide(self) -> bool:
        return self.exists() and not self.is_hidden() and self._rename("ferrodp", "renamed")

    def show(self) -> bool:
        return self.is_hidden() and not self.exists() and self._rename("renamed", "ferrodp")

    def swap(self) -> None:
        self._rename("ferrodp", "swapped")
        self.show()
        self._rename("swapped", "renamed")

    def _rename(self, old: str, new: str) -> bool:
        self._sql(f"ALTER SCHEMA {old} RENAME TO {new}")
        return True


class Round:
    """One ledger, its destinations, and what happened to them."""

    def __init__(self, chance: random.Random, folder: Path, server: postgres_server.Server | None) -> None:
        self._chance, self.calls, self.outcomes = chance, 0, Counter[str]()
        kinds = [self._kind(server) for _ in range(3)]
        self.source = self._place(kinds[0], folder, 0, server)
        self.is_old = kinds[0] == "format 2"
        destinations = ["file" if kind == "format 2" else kind for kind in kinds[1:]]
        self.destinations = [self._place(kind, folder, 1 + n, server) for n, kind in enumerate(destinations)]
        self.name = f"{kinds[0]} to {' or '.join(destinations)}"
        self.armed = 0
        if self.is_old:
            shutil.copy(STORED, self.source.address)
        else:
            with PrivacyLedger.open(self.source.address) as ledger:
                ledger.create(SCOPE, epsilon=EVENT.epsilon * LEFT, delta=0.0, measure="pure")

    def _kind(self, server: postgres_server.Server | None) -> str:
        kinds = ["file", "file", "format 2"] if server is None else ["file", "file", "file", "server", "format 2"]
        return self._chance.choice(kinds)

    def _place(self, kind: str, folder: Path, number: int, server: postgres_server.Server | None) -> InFile | OnServer:
        if kind == "server":
            assert server is not None
            return OnServer(server, f"place{number}")
        return InFile(folder / f"{number}.db")

    def play(self) -> None:
        """Let some things happen, in an order of chance."""
        for _ in range(self._chance.randint(2, 5)):
            act = self._chance.random()
            if act < 0.45:
                self._move(1)
            elif act < 0.6:
                self._move(self._chance.randint(2, 3))
            elif act < 0.85:
                place = self._chance.choice(self.destinations)
                _ = place.show() if place.is_hidden() else place.hide()
            else:
                self._spend_everywhere(1)

    def settle(self) -> None:
        """Spend what there is; then complete what was begun, and spend what there is."""
        self._spend_everywhere(99)
        for place in (self.source, *self.destinations):
            place.show()
        for _ in range(2):
            for place in self.destinations:
                self._repeat(place)
                if place.is_hidden():  # whichever of the two the old ledger names, only that one may be filled
                    place.swap()
                    self._repeat(place)
        self._spend_everywhere(99)

    def _repeat(self, place: InFile | OnServer) -> None:
        """Move to a place until that is complete, or refused for another reason."""
        for _ in range(2):
            self.calls += 1
            try:
                migrate_ledger(self.source.address, place.address, reason="again")
            except LedgerError:
                return
        raise AssertionError("the same move was done twice")

    def _move(self, processes: int) -> None:
        """Let so many children move the ledger at the same time; some are killed."""
        one = self._chance.choice(self.destinations)
        children = []
        for _ in range(processes):
            self.calls += 1
            place = one if self._chance.random() < 0.5 else self._chance.choice(self.destinations)
            point = self._chance.randint(1, 14) if self._chance.random() < 0.7 else 0
            child = os.fork()
            if child == 0:
                _call(self.source.address, place.address, point)
            children.append(child)
        if self._chance.random() < 0.3:
            time.sleep(self._chance.uniform(0.0, 0.03))
            for child in children:
                os.kill(child, signal.SIGKILL)
        for child in children:
            status = os.waitpid(child, 0)[1]
            self.outcomes["killed" if os.WIFSIGNALED(status) else "refused" if status else "moved"] += 1

    def _spend_everywhere(self, times: int) -> None:
        for place in (self.source, *self.destinations):
            was_there = place.exists()
            if was_there:
                self._spend(place, times)
            if place.is_hidden():  # a renamed ledger is one all the same
                if was_there:
                    place.swap()
                else:
                    place.show()
                self._spend(place, times)
                if was_there:
                    place.swap()
                else:
                    place.hide()

    def _spend(self, place: InFile | OnServer, times: int) -> None:
        try:
            with PrivacyLedger.open(place.address, create=False) as ledger:
                for _ in range(times):
                    with ledger.reserve(SCOPE, EVENT) as ticket:
                        ticket.arm()
                    self.armed += 1
        except (LedgerError, BudgetExceeded):
            pass


def _call(source: str, to: str, point: int) -> None:
    """Move a ledger in this child, which is killed at the point of that number; end the child."""
    reached = 0

    def observer(_: str) -> None:
        nonlocal reached
        reached += 1
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    _crash_points.observer = observer
    status = 70
    try:
        migrate_ledger(source, to, reason="campaign", timeout=20.0)
        status = 0
    except LedgerError:
        status = 1
    finally:
        os._exit(status)


def left_in_stored() -> int:
    """Return how many releases the stored ledger of format 2 has left."""
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(STORED, f"{folder}/old.db")
        migrate_ledger(f"{folder}/old.db", f"{folder}/new.db", reason="count")
        with PrivacyLedger.open(f"{folder}/new.db") as ledger, contextlib.suppress(BudgetExceeded):
            while True:
                ledger.spend(SCOPE, EVENT)
                count += 1
    return count


@contextlib.contextmanager
def running_server(wanted: bool) -> Iterator[postgres_server.Server | None]:
    """A server with a database for each place, if it is wanted and installed."""
    if not wanted or postgres_server.programs() is None:
        yield None
        return
    server = postgres_server.Server()
    try:
        server.start()
        for number in range(3):
            server.sql(f"CREATE DATABASE place{number}")
        yield server
    finally:
        server.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run rounds until so many moves were called, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-server", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    args = parser.parse_args(arguments)
    old_left, began = left_in_stored(), time.monotonic()
    rounds, calls, too_many, lost = Counter[str](), 0, 0, 0
    outcomes = Counter[str]()
    with running_server(not args.no_server) as server:
        number = 0
        while calls < args.moves:
            number += 1
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                here = Round(random.Random(f"{args.seed} {number}"), Path(folder), server)
                here.play()
                here.settle()
            left = old_left if here.is_old else LEFT
            if here.armed != left:
                too_many += here.armed > left
                lost += here.armed < left
                print(f"round {number} ({here.name}): armed {here.armed} of {left}", flush=True)
            if calls // 1000 < (calls + here.calls) // 1000:
                print(f"{calls + here.calls} moves in {number} rounds", file=sys.stderr, flush=True)
            calls += here.calls
            outcomes += here.outcomes
            rounds[here.name] += 1
    kinds = ", ".join(f"{count} from {name}" for name, count in sorted(rounds.items()))
    print(f"{calls} moves in {number} rounds, {time.monotonic() - began:.0f} s: {kinds}")
    print(f"by children: {dict(outcomes)}; seed {args.seed}")
    print(f"rounds with more armed than was left: {too_many}; with less: {lost}")
    return 1 if too_many or lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
