"""Which tests are slow: those in `slow.txt`, because all cases of the function together took more than half a second.

``pytest -m "not slow"`` leaves them out. ``pytest --renew-slow`` measures what it runs and renews the list for that.
Seconds are of CPU time, children included, which does not depend on what else the machine does.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("slow.txt")
SECONDS = 0.5


def function_of(node_id: str) -> str:
    """Return the names of a test's file and function: without the folder, as files may move, and without the case."""
    return node_id.split("[")[0].split("/")[-1]


def listed() -> set[str]:
    return set(FILE.read_text().split())


def pytest_addoption(parser):
    parser.addoption("--renew-slow", action="store_true", help="measure tests and renew the list of slow ones")


def pytest_collection_modifyitems(items):
    slow = listed()
    for item in items:
        if function_of(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    item.stash[_BEGINNING] = sum(os.times()[:4])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    result = yield
    item.user_properties.append(("cpu", sum(os.times()[:4]) - item.stash[_BEGINNING]))
    return result


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        _seconds[function_of(report.nodeid)] += dict(report.user_properties).get("cpu", 0.0)


def pytest_sessionfinish(session):
    if session.config.getoption("--renew-slow") and not hasattr(session.config, "workerinput"):
        files = {path.name for path in FILE.parent.rglob("test_*.py")}
        kept = {name for name in listed() - _seconds.keys() if name.split("::")[0] in files}
        slow = {name for name, seconds in _seconds.items() if seconds > SECONDS}
        FILE.write_text("".join(f"{name}\n" for name in sorted(kept | slow)))


_BEGINNING = pytest.StashKey[float]()
_seconds: Counter[str] = Counter()
