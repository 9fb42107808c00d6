"""Fair comparison of running times: contenders take turns, in one process, several times over."""

from __future__ import annotations

import gc
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrodp.cli.bench.sibling import Sibling

OURS = "ferrodp"
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do a piece of work.

    Parameters
    ----------
    name : str
        The tool, and what about it a reader has to know.
    work : callable
        Does the work.
    times : float
        How often one call does it: above 1 for work too short to be timed alone, below 1 for a tool so slow that it is
        given a part of it.
    """

    name: str
    work: Callable[[], object]
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """A piece of work and the ways to do it, FerroDP's first.

    Parameters
    ----------
    title : str
        What is done, with size and dtype.
    contenders : sequence of Contender
        The first is the one that the others are compared with.
    items : int
        How many values the work handles: for rates.
    wall : bool
        Whether elapsed time counts, not the processor's: for work on several threads.
    more : int
        By how much to multiply the repetitions: for short work that other programs disturb.
    """

    title: str
    contenders: Sequence[Contender]
    items: int
    wall: bool = False
    more: int = 1


def compare(case: Case, repetitions: int, sibling: Sibling | None = None) -> dict[str, Any]:
    """Return the time of each contender, and how many times longer than the first it takes.

    That is the median of processor times, and the least of elapsed times, to which other programs only ever add.

    Every repetition runs all contenders once, in order, so that a slow spell of the machine meets all of them. One
    round before that is not counted. The quartiles of all times are told as well. With a sibling every round
    is followed by one during which the sibling works; those times are told apart.
    """
    repetitions *= case.more
    alone: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    contended: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    for repetition in range(repetitions + 1):
        _round(case, alone if repetition else None)
        if sibling is not None:
            sibling.wake()
            try:
                _round(case, contended if repetition else None)
            finally:
                sibling.rest()
    typical = _typical(case, alone)
    spread = {name: _quartiles(sorted(times)) for name, times in alone.items()}
    first = typical[case.contenders[0].name]
    found: dict[str, Any] = {
        "title": case.title,
        "items": case.items,
        "clock": "wall" if case.wall else "cpu",
        "results": [
            {
                "name": name,
                "seconds": value,
                "quartiles": spread[name],
                "items_per_second": case.items / value,
                "ratio": value / first,
            }
            for name, value in typical.items()
        ],
    }
    if sibling is not None:
        loaded = _typical(case, contended)
        for result in found["results"]:
            seconds = loaded[result["name"]]
            result["contended_seconds"] = seconds
            result["contended_ratio"] = seconds / loaded[case.contenders[0].name]
            result["contended_quartiles"] = _quartiles(sorted(contended[result["name"]]))
    return found


def _round(case: Case, times: dict[str, list[float]] | None) -> None:
    """Run all contenders once, in order, and note how long each took."""
    clock = time.perf_counter if case.wall else time.process_time
    for contender in case.contenders:
        start = clock()
        contender.work()
        if times is not None:
            times[contender.name].append((clock() - start) / contender.times)


def _typical(case: Case, seconds: dict[str, list[float]]) -> dict[str, float]:
    """Return the time of each contender that counts."""
    return {name: min(times) if case.wall else statistics.median(times) for name, times in seconds.items()}


def _quartiles(times: Sequence[float]) -> list[float]:
    """Return the measured times next to the first and the third quartile, outward."""
    return [times[(len(times) - 1) // 4], times[-1 - (len(times) - 1) // 4]]


def peak_growth(work: Callable[[], object]) -> int | None:
    """Return by how many bytes `work` raises the resident memory of the process at its peak; None where unknown.

    Linux keeps the peak (VmHWM) and lets a process reset its own (`proc(5)`, clear_refs, 5). Allocations of native code
    are in it, which Python's own tracing does not see. Garbage goes first, as its memory would hide the growth.
    """
    gc.collect()
    try:
        _CLEAR.write_text("5")
        before = _peak()
        work()
        return _peak() - before
    except (OSError, AttributeError):
        return None


def _peak() -> int:
    found = re.search(r"^VmHWM:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError("no VmHWM")
    return 1024 * int(found[1])
