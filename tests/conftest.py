"""Settings of the whole run. The place of this file puts its folder on the path, so that tests find `reference`.

Properties are tried on the same examples every time, so that a run passes or fails for ever;
``HYPOTHESIS_PROFILE=explore`` looks for new ones.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from ferrodp import _native
from slowness import (  # noqa: F401  # because pytest finds hooks here
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_runtest_logreport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_sessionfinish,
)

# They need frameworks: `./check frameworks` runs them, each in an environment that has its own.
collect_ignore = [] if os.environ.get("FERRODP_FRAMEWORK") else ["integrations"]

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A shell starts what runs in its background with Ctrl-C ignored, which a process hands on to its children. What Ctrl-C
# does is tested here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The root of a container is an overlay, on which a ledger is refused.
if _native.file_system(tempfile.gettempdir()) == 0x794C7630 and os.path.isdir("/dev/shm"):
    os.environ["TMPDIR"] = tempfile.tempdir = "/dev/shm"


def pytest_collection_finish() -> None:
    """Let later collections pass over modules and tests, which stay to the end: most of their time went there."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _pictures_are_closed() -> Iterator[None]:
    """Close what a test has plotted: matplotlib warns of many open pictures, and a warning is an error here."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
