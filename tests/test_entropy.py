"""No entropy, no output: a child process whose `getrandom` is made to fail by a system call filter."""

import os
import platform
import subprocess
import sys

import pytest

FILTERED = r"""
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

source, array = fd.NoiseSource(), np.arange(5.0)
total = fd.ClippedSum((3,), clip_norm=1.0)
total.add(np.ones(3))
mechanism = fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0)
out = np.full(3, 7.0)
attempts = [
    lambda: source.gaussian(10, standard_deviation=1.0),
    lambda: source.add_laplace_(array, scale=1.0),
    lambda: source.bytes(8),
    lambda: mechanism.release(1.0),
    lambda: mechanism.release(np.ones(3), out=out),
    lambda: total.release(noise_multiplier=1.0),
]
for attempt in attempts:
    try:
        attempt()
    except fd.errors.EntropyError as error:
        assert isinstance(error, OSError)
    else:
        sys.exit("noise without entropy")
assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0], "nothing was written"
assert out.tolist() == [7.0, 7.0, 7.0], "nothing was written"
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="the filter is for Linux, x86-64")
def test_without_entropy_every_draw_raises_and_nothing_is_written():
    child = subprocess.run(
        [sys.executable, "-c", FILTERED], capture_output=True, text=True, check=False, env=os.environ
    )

    if child.returncode == 77:
        pytest.skip("this system allows no filter, or gives random bytes without a system call")
    assert child.returncode == 0, child.stderr
