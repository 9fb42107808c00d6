"""Children of every kind that Linux makes, and what they answer."""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable

CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
"""Number of the system call that copies a process and tells no library."""


def clone() -> int:
    """Copy this process as `os.fork` does, but run no handler: neither Python's nor the C library's.

    So with no other thread: one that holds a lock of the allocator is not in the child to open it.
    """
    assert CLONE is not None
    return ctypes.PyDLL(None).syscall(CLONE, int(signal.SIGCHLD), 0, 0, 0, 0)


MAKERS: dict[str, Callable[[], int]] = {"fork": getattr(os, "fork", clone)}
if sys.platform == "linux" and CLONE is not None:
    MAKERS["clone"] = clone


def answer(make: Callable[[], int], work: Callable[[], object]) -> str:
    """Return what `work` gives in a child that `make` made, as text, or the error it raised."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads here, which the child leaves alone
        child = make()
    if child == 0:
        try:
            signal.alarm(30)
            try:
                text = str(work())
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            ready, _, _ = select.select([pipe], [], [], 60)
            told = pipe.read().decode() if ready else "no answer"
    finally:
        os.kill(child, signal.SIGKILL)  # it has answered, or hangs and never will
        os.waitpid(child, 0)
    return told


ALONE = """
import sys
sys.path[:] = {path!r}
from support import forked
exec({begin!r})
print(forked.answer(forked.MAKERS[{make!r}], lambda: eval({work!r})))
"""


def answer_alone(make: str, begin: str, work: str) -> str:
    """Return what an expression gives in a child of a new interpreter, which has no other thread and ran some lines."""
    script = ALONE.format(path=sys.path, begin=begin, make=make, work=work)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
