"""A process that keeps another processor busy: what a shared core costs.

It adds noise to an array that stays in the cache, which fills the vector units that two threads of one core share.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Linux ends it with its parent, even while it is stopped (PR_SET_PDEATHSIG is 1).
_WORK = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit()
import numpy as np
from ferrodp.random import NoiseSource
v, source = np.zeros(1 << 15, np.float32), NoiseSource()
print(flush=True)
while True:
    source.add_gaussian_(v, standard_deviation=1.0, threads=1)
"""
_TOPOLOGY = Path("/sys/devices/system/cpu")


class Sibling:
    """A busy process, asleep until it is woken."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._process.pid

    def wake(self) -> None:
        """Let it work."""
        self._process.send_signal(signal.SIGCONT)

    def rest(self) -> None:
        """Stop it until it is woken."""
        self._process.send_signal(signal.SIGSTOP)


def processors() -> tuple[int, int] | None:
    """Return two processors that this process may use, of one core if there are such; None if there are not two."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None
    for first in allowed:
        for second in _threads_of_core(first):
            if second > first and second in allowed:
                return first, second
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def _threads_of_core(processor: int) -> list[int]:
    """Return the processors that share a core with this one, itself included."""
    try:
        text = (_TOPOLOGY / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return [processor]
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found += range(int(first), int(last or first) + 1)
    return found


@contextmanager
def busy(own: int, other: int) -> Iterator[Sibling]:
    """Keep this process on processor `own`, and yield a sibling on `other`, asleep; it ends with the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {other})  # the child inherits it
    try:
        with subprocess.Popen(
            [sys.executable, "-c", _WORK, str(os.getpid())], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                os.sched_setaffinity(0, {own})
                assert process.stdout is not None
                process.stdout.readline()  # it has begun
                sibling = Sibling(process)
                sibling.rest()
                yield sibling
            finally:
                process.kill()
    finally:
        os.sched_setaffinity(0, before)
