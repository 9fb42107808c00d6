"""Runs code in a process whose `getrandom` is made to fail by a system call filter."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

FILTER = r"""
import ctypes, os, struct, sys
import numpy as np
import ferrodp as fd

# seccomp(2): load the number of the system call; getrandom answers EIO, the rest passes. x86-64 only.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 318), (0x06, 0, 0, 0x00050000 | 5), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("HBBI", *each) for each in code)
buffer = ctypes.create_string_buffer(program)
header = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(header), 0, 0):
    sys.exit(77)
try:
    os.getrandom(8)
    sys.exit(77)  # answered without a system call
except OSError:
    pass
"""


def run_without_entropy(code, before=""):
    """Run `before`, then, with `getrandom` failing, `code`; both see ferrodp as `fd`, numpy as `np` and the tests."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the filter is for Linux, x86-64")
    here = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
    child = subprocess.run(
        [sys.executable, "-c", "\n".join([here, before, FILTER, code])],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    if child.returncode == 77:
        pytest.skip("this system allows no filter, or gives random bytes without a system call")
    assert child.returncode == 0, child.stderr
