"""Long runs: processes share a ledger, and are killed, while its files are manipulated again and again at random.

Run as ``python tests/budget/manipulations.py [--minutes M] [--seed S] [--directory D]``. Copies are put in place only
while somebody has the ledger open, and taken away again before that process ends: without a witness, an earlier state
of all files is not told from the present one.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


sys.path.insert(0, str(Path(__file__).parents[1]))

import test_manipulations as cases

from support import parties
from support.parties import CAP, World

LASTING = (
    *("index removed", "log removed", "log and index removed", "file renamed", "file and log renamed", "all renamed"),
    *("all linked", "log cut to nothing", "log cut in the middle", "index cut to nothing", "index cut in the middle"),
    *("log replaced by a copy", "index replaced by a copy", "log a symbolic link", "log a directory"),
    *("checkpointed by another program", "journal changed by another program", "rearranged by another program"),
)
PASSING = (
    *("file exchanged with a copy", "file and log exchanged with copies", "directory exchanged with a copy"),
    *("directory above exchanged with a copy",),
)


def scene(folder, rng, counts):
    """Let three processes and a vandal at one ledger."""
    world = World(folder)
    names = {world.path}
    script = []
    try:
        users = [world.party() for _ in range(3)]
        for _ in range(rng.randrange(2, 9)):
            user = rng.randrange(3)
            move = rng.choice(["open", "open", "arm", "arm", "arm", "kill", "close", "manipulate", "manipulate"])
            script.append((move, user))
            if move == "open":
                users[user].open(rng.choice(sorted(names)), create=False)
            elif move == "arm":
                users[user].arm(rng.randrange(1, 2 * CAP))
            elif move == "close":
                users[user].ask("close")
            elif move == "kill":
                users[user].kill()
                users[user] = world.party()
            else:
                in_use = [party for party in users if isinstance(party.ask("spent"), int)]
                kind = rng.choice(PASSING if in_use and rng.random() < 0.4 else LASTING)
                script.append(kind)
                counts[kind] += 1
                try:
                    name, undo = cases.MANIPULATIONS[kind](world) or (world.path, None)
                except OSError:
                    continue  # it was done before
                if kind in PASSING:
                    other = world.party()
                    other.open(name, create=False)
                    other.arm(CAP)
                    other.kill()
                    undo()
                else:
                    names.add(name)
                    if undo is not None and rng.random() < 0.5:
                        try:
                            undo()
                        except OSError:
                            continue
        for user in users:
            user.open(world.path, create=False)
            user.arm()
        counts["units armed"] += world.armed
        world.settle(*(name for name in names if name.exists()))
    except AssertionError as error:
        raise AssertionError(f"{error}, after {script}") from error
    finally:
        for party in world.parties:
            party.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--directory", type=Path, default=None)
    options = parser.parse_args()
    seed = random.randrange(2**32) if options.seed is None else options.seed
    rng, counts, begun, scenes = random.Random(seed), Counter(), time.monotonic(), 0
    while time.monotonic() - begun < 60 * options.minutes:
        with tempfile.TemporaryDirectory(dir=options.directory) as above:
            folder = Path(above, "above")
            folder.mkdir()
            scene(folder, rng, counts)
        scenes += 1
    print(f"seed {seed}: {scenes} scenes, {counts.pop('units armed')} units armed, none twice, none lost in silence")
    for kind, count in counts.most_common():
        print(f"{count:8} {kind}")


assert parties  # whose processes are used

if __name__ == "__main__":
    main()
