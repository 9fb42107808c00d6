"""No call ends the process where memory runs out, and every public call that could has a case."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ferrodp as fd
from support import native_calls
from support.memory_limits import ANSWERED, BEFORE, CALLS, OUT_OF_MEMORY, REFUSED
from support.native_testing import testing

LEVELS = (0, 1 << 20, 3 << 20, 17 << 20)
"""Bytes to spare: for nothing, for parts of a result, for most results."""
SWEEP = """
import json, sys
from support.memory_limits import CALLS, sweep
print(json.dumps({call: dict(found) for call, found in sweep(CALLS, json.loads(sys.argv[1])).items()}))
"""

WITHOUT = {
    "PrivacyLedger": "its memory is SQLite's, which reports",
    "statement": "text of bounded length",
    "Estimate": "a result",
    "Interval": "a result",
    "PrivateGroups": "made by private_group_by",
    "PrivateMarginals": "a result",
    "Residual": "a result",
    "ReleasedTable": "a result",
    "GridSum": "the sum inside ClippedSum",
    "NoiseSource": "its methods have cases",
    "CategoricalBayes": "a result",
    "Clusters": "a result",
    "ColumnScales": "a result",
    "LinearModel": "a result",
    "NaiveBayes": "a result",
    "PrincipalComponents": "a result",
    "PrivateMoments": "a result",
}


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_no_call_ends_the_process_where_memory_runs_out():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SWEEP, json.dumps(LEVELS)],
        cwd=Path(__file__).parent, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert found.keys() == CALLS.keys()
    wrong = {
        call: ends for call, ends in found.items() if ends.keys() - {*map(str, (ANSWERED, OUT_OF_MEMORY, REFUSED))}
    }
    assert wrong == {}
    assert sum(str(OUT_OF_MEMORY) in ends for ends in found.values()) > len(CALLS) / 3, "the limits bind"


FUZZ = """
import json, sys
from support.native_calls import fuzz
print(json.dumps({call: dict(found) for call, found in fuzz(*json.loads(sys.argv[1])).items()}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_no_size_ends_the_process_in_the_native_binding():
    """Every function that takes an array, a count or a size, at 4 sizes of a seed and as many limits each.

    An alarm, which ends what takes longer than 20 s, counts as an abort.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FUZZ, json.dumps((1, 4))],
        cwd=Path(__file__).parent, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert found.keys() == native_calls.CALLS.keys()
    allowed = {*map(str, (ANSWERED, OUT_OF_MEMORY, REFUSED))}
    assert {call: ends for call, ends in found.items() if ends.keys() - allowed} == {}
    assert sum(str(OUT_OF_MEMORY) in ends for ends in found.values()) > len(found) / 3, "the limits bind"


REFUSED_REQUESTS = """
import json
from support.native_calls import refused
found = refused(32)
print(json.dumps({call: {size: dict(ends) for size, ends in sizes.items()} for call, sizes in found.items()}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each refusal ends a child")
def test_no_request_for_memory_is_one_that_cannot_be_refused():
    """Every large request of every native function, or 32 of them: the same ones on every machine."""
    assert testing.refuse_no_memory() >= 0, "the module counts them"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REFUSED_REQUESTS],
        cwd=Path(__file__).parent, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    allowed = {*map(str, (ANSWERED, OUT_OF_MEMORY, REFUSED))}
    wrong = {
        (call, size): ends for call, sizes in found.items() for size, ends in sizes.items() if ends.keys() - allowed
    }
    assert wrong == {}
    without_memory = [
        call for call, sizes in found.items() if any(str(OUT_OF_MEMORY) in ends for ends in sizes.values())
    ]
    assert len(without_memory) > len(found) / 3, "there are large requests"


def test_every_native_function_that_takes_arrays_or_counts_is_called():
    assert native_calls.missing() == []


LAST_BYTE = """
import ctypes, resource
from pathlib import Path
import numpy as np
import ferrodp as fd
from ferrodp.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent

mechanism = fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0)
choice = fd.ReportNoisyMax(scale=1.0, sensitivity=1.0)
utilities, accountant = np.ones(100), PldAccountant()
accountant.compose(PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0)), count=100)
calls = [lambda: mechanism.release(0.0), lambda: choice.release(utilities), lambda: accountant.epsilon(1e-6)]
calls += [lambda: mechanism.release(2**120), lambda: fd.NoiseSource().bytes(16)]
[call() for call in calls]
many, ended = calls * 20, 0
malloc = ctypes.CDLL(None).malloc
malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
for block in (1 << 16, 1 << 12, 1 << 10, 256, 64, 16):
    try:
        while malloc(block):
            pass
    except MemoryError:  # of the number of an address
        pass
for call in many:
    try:
        call()
    except MemoryError:
        pass
    ended += 1
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(ended)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_the_last_byte_is_no_abort():
    """Keys, big integers and errors are small, and there is a reserve for them when the C library has nothing left."""
    done = subprocess.run([sys.executable, "-c", LAST_BYTE], capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout) == (0, "100\n"), done.stderr


def _takes_many(item):
    """Whether a public name is a function or class that a caller gives numbers or arrays."""
    return callable(item) and not (isinstance(item, type) and issubclass(item, BaseException))


MODULES = [
    fd,
    fd.clipping,
    fd.correlated,
    fd.distributed,
    fd.mechanisms,
    fd.random,
    fd.statistics,
    importlib.import_module("ferrodp.statistics.models"),
]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_call_that_takes_arrays_or_counts_has_a_case(module):
    tried = " ".join([BEFORE, *CALLS.values()])
    names = [name for name in module.__all__ if _takes_many(getattr(module, name)) and not name.startswith("_")]
    missing = [
        name
        for name in names
        if name not in WITHOUT and not inspect.ismodule(getattr(module, name)) and not re.search(rf"\b{name}\b", tried)
    ]

    assert missing == []


def test_every_accountant_has_a_case():
    tried = " ".join(CALLS.values())

    assert [name for name in fd.accounting.__all__ if name.endswith("Accountant") and name not in tried] == [
        "PrivacyAccountant"  # the protocol of them
    ]
