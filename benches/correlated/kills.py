"""Kills a stream of counters, and a training with correlated noise, at random moments.

Run as `python benches/correlated/kills.py [--kills 1000] [--seed 0]`. Each child opens the ledger and its stream or
run, writes down what it releases, and is killed after a random time; the next one goes on. Then every line that was
written down is compared: no day and no step with two outputs, no day missing, the budget charged once, the noise of
days within seven deviations, and that of steps the noise of a run that nobody kills, with the same key.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ferrodp as fd
from ferrodp.correlated import BufferedToeplitz
from ferrodp.events import NeighboringRelation
from ferrodp.plan import CorrelatedNoise, CyclicPoisson, FlatClipping, PrivacyPlan

SIZE = 5
RELATION = NeighboringRelation.REPLACE_SPECIAL


def opened(path: Path) -> fd.PrivacyLedger:
    """Return a ledger with a scope."""
    ledger = fd.PrivacyLedger.open(path)
    if "a" not in ledger.scopes:
        ledger.create("a", epsilon=50.0, delta=1e-6, measure="zcdp", neighboring_relation=RELATION)
    return ledger


def written(file: Path) -> Callable[[int, object], None]:
    """Return a function that appends a line for good."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return lambda number, values: (os.write(handle, f"{json.dumps([number, values])}\n".encode()), None)[1]


def counter(days: int) -> fd.Counter:
    """Return what the stream of counters releases."""
    strategy = BufferedToeplitz(num_steps=days, buffers=1, decays=(0.75,), weights=(0.25,))
    return fd.Counter(noise_multiplier=20.0, days=days, neighboring_relation=RELATION, strategy=strategy)


def count(folder: Path, days: int, delay: float) -> None:
    """Go on with the stream of counters, until the last day or the end of this process."""
    with opened(folder / "ledger") as ledger:
        write = written(folder / "diary")
        with counter(days).start(SIZE, file=folder / "stream", ledger=ledger, scope="a", key="k") as stream:
            if stream.last is not None:
                write(stream.day - 1, stream.last.tolist())
            while stream.day < days:
                day = stream.day
                time.sleep(delay)
                write(day, stream.release(np.arange(SIZE) + day, day=day).tolist())


def plan(steps: int) -> PrivacyPlan:
    """Return a training of four parts."""
    strategy = BufferedToeplitz(num_steps=steps, buffers=1, decays=(0.75,), weights=(0.25,))
    return PrivacyPlan(
        population_size=40,
        sampling=CyclicPoisson(1.0, num_parts=4),
        num_steps=steps,
        clipping=FlatClipping(1.0),
        noise=CorrelatedNoise(strategy, 2000.0),
        neighboring_relation=RELATION,
    )


def train(folder: Path, steps: int, delay: float) -> None:
    """Go on with the training, until the last step or the end of this process."""
    with opened(folder / "ledger") as ledger:
        write = written(folder / "diary")
        run = plan(steps).start(np.zeros(SIZE), ledger=ledger, scope="a", key="t", noise_file=folder / "noise")
        for step in run:
            time.sleep(delay)
            step.add(np.zeros((len(step.indices), SIZE)))
            write(step.number, step.release(denominator=1).tolist())


def child(work: Callable[[Path, int, float], None], *arguments: object) -> int:
    """Return the process id of a child at work."""
    process = os.fork()
    if process:
        return process
    try:
        work(*arguments)  # type: ignore[arg-type]
        os._exit(0)
    except BaseException as error:
        print(f"{work.__name__}: {error!r}", flush=True)
        os._exit(70)


def killed(
    work: Callable[[Path, int, float], None], folder: Path, many: int, kills: int, draw: random.Random, longest: float
) -> int:
    """Kill children until so many were killed at work; return how many ended by themselves, with an error or not."""
    others = 0
    done = 0
    while done < kills:
        process = child(work, folder, many, 0.001)
        time.sleep(draw.uniform(0.0, longest))
        os.kill(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        done += code == -signal.SIGKILL
        others += code != -signal.SIGKILL
        if others > 20:
            break
    return others


def lines(folder: Path) -> tuple[dict[int, list[float]], int, int]:
    """Return what was released, how many lines there are, and how many contradict an earlier one."""
    found: dict[int, list[float]] = {}
    total = contradictions = 0
    for line in (folder / "diary").read_text().splitlines():
        number, values = json.loads(line)
        total += 1
        contradictions += found.setdefault(number, values) != values
    return found, total, contradictions


def differing(folder: Path, steps: int, found: dict[int, list[float]]) -> int:
    """Return how many steps have other noise than an uninterrupted run, under another ledger, with the same key."""
    different = 0
    with opened(folder / "whole") as ledger:
        run = plan(steps).start(np.zeros(SIZE), ledger=ledger, scope="a", key="t", noise_file=folder / "noise")
        for step in run:
            step.add(np.zeros((len(step.indices), SIZE)))
            values = step.release(denominator=1).tolist()
            different += step.number in found and found[step.number] != values
            if step.number == max(found):
                return different
    raise AssertionError("the run has fewer steps")


def main() -> int:
    """Kill both, and say what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--longest", type=float, default=0.2, help="seconds until a child is killed, at most")
    parser.add_argument("--only", choices=("count", "train"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    wrong = 0
    for work, many in ((count, 10_000), (train, 10_000)):
        if given.only not in (None, work.__name__):
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            opened(folder / "ledger").close()
            _ = counter(many).event, plan(many).event  # children find what was computed
            others = killed(work, folder, many, given.kills, draw, given.longest)
            found, total, contradictions = lines(folder)
            last = max(found)
            missing = sorted(set(range(last + 1)) - set(found))
            with fd.PrivacyLedger.open(folder / "ledger") as ledger, opened(folder / "other") as other:
                other.spend("a", counter(many).event if work is count else plan(many).event)
                charges = ledger.epsilon_charged("a") / other.epsilon_charged("a")
            far = 0.0
            if work is count:
                truth = np.cumsum([np.arange(SIZE) + day for day in range(last + 1)], axis=0)
                noise = [np.abs(np.array(values) - truth[day]).max() for day, values in sorted(found.items())]
                far = max(
                    each / counter(many).standard_error(day) for day, each in zip(sorted(found), noise, strict=True)
                )
            else:
                contradictions += differing(folder, many, found)
            print(
                f"{work.__name__}: {given.kills} kills, {others} children ended otherwise, "
                f"{time.monotonic() - begun:.0f} s; "
                f"{len(found)} different numbers up to {last}, {total} lines, {contradictions} contradictions, "
                f"{len(missing)} missing {missing[:10]}, charged {charges:g} times, farthest {far:.2f} deviations",
                flush=True,
            )
            wrong += contradictions or charges != 1.0 or (work is count and bool(missing)) or far > 7.0
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
