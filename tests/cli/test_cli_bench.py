"""`ferrodp bench`: numbers of the right form, measured the way it says."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrodp.cli.bench import cases as _cases
from ferrodp.cli.bench import command as bench
from ferrodp.cli.bench import measure as _measure
from ferrodp.cli.bench import peers as _peers
from ferrodp.cli.bench import sibling as _sibling


def test_a_quick_bench_measures_every_case(ferrodp: Callable[..., Any]) -> None:
    found = ferrodp("bench", "--quick", "--json").json

    assert (found["quick"], found["threads"]) == (True, 1)
    assert len(found["cases"]) == bench.NUM_CASES
    assert {"cpu", "cores", "isa", "system", "versions", "load", "mhz"} == set(found["machine"])
    for case in found["cases"]:
        names = [result["name"] for result in case["results"]]
        assert names[0].startswith("ferrodp")
        assert any("numpy" in name or "1 thread" in name for name in names)
        for result in case["results"]:
            assert result["seconds"] > 0
            assert result["ratio"] == pytest.approx(result["seconds"] / case["results"][0]["seconds"])
            assert result["items_per_second"] == pytest.approx(case["items"] / result["seconds"])
            low, high = result["quartiles"]
            assert 0 < low <= high
            assert case["clock"] == "wall" or low <= result["seconds"] <= high
    extra = found["extra_bytes_while_noising"]
    assert extra is None or extra <= 1 << 20  # what in-place noising promises


def test_the_table_names_the_tools_and_the_machine(
    ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"name": "ferrodp", "seconds": 0.002, "items_per_second": 5e8, "ratio": 1.0}
    other = {"name": "numpy", "seconds": 2.5, "items_per_second": 4e5, "ratio": 1250.0}
    case = {"title": "noise", "items": 10**6, "clock": "cpu", "results": [result, other]}
    monkeypatch.setattr(bench, "_measured", lambda *_: iter([{"extra_bytes": 4096}, case]))

    found = ferrodp("bench")
    assert (found.code, found.err) == (0, "")
    assert ["noise", "(cpu", "time)", "time", "values/s", "relative"] in [
        line.split() for line in found.out.splitlines()
    ]
    assert ["ferrodp", "2", "ms", "500", "M", "1"] in [line.split() for line in found.out.splitlines()]
    assert ["numpy", "2.5", "s", "0.4", "M", "1,250"] in [line.split() for line in found.out.splitlines()]
    assert "Extra memory while noising in place: 4 KiB." in found.out


def reported(seconds: float) -> dict[str, Any]:
    """Return a case as the measuring process gives it."""
    result = {"name": "ferrodp", "seconds": seconds, "quartiles": [0.9 * seconds, 1.2 * seconds]}
    rates = {"items_per_second": 1e6 / seconds, "ratio": 1.0}
    return {"title": "noise", "items": 10**6, "clock": "cpu", "results": [result | rates]}


def test_an_earlier_report_is_shown_beside(
    ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"
    monkeypatch.setattr(bench, "_measured", lambda *_: iter([{"extra_bytes": None}, reported(0.004)]))
    record.write_text(ferrodp("bench", "--json").out)
    monkeypatch.setattr(bench, "_measured", lambda *_: iter([{"extra_bytes": None}, reported(0.002)]))

    found = ferrodp("bench", "--compare", str(record))

    assert (found.code, found.err) == (0, "")
    assert "ferrodp 2 ms 500 M 1 1.8 ms to 2.4 ms 4 ms" in [" ".join(line.split()) for line in found.out.splitlines()]
    monkeypatch.setattr(bench, "_measured", lambda *_: iter([{"extra_bytes": None}, reported(0.002)]))
    assert ferrodp("bench", "--compare", str(record), "--json").json["cases"][0]["results"][0]["then_seconds"] == 0.004


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": [1], "machine": {}}'])
def test_a_record_that_is_none_is_one_line(ferrodp: Callable[..., Any], tmp_path: Path, text: str) -> None:
    (tmp_path / "record").write_text(text)

    assert (
        "--compare must be what bench --json printed" in ferrodp("bench", "--compare", str(tmp_path / "record")).error
    )
    assert "--compare must be a file that can be read" in ferrodp("bench", "--compare", str(tmp_path / "none")).error


def test_a_measuring_process_that_dies_is_one_line(
    ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert ferrodp("bench").error == "ferrodp bench: error: the measuring process ended with code 1\n"


@pytest.mark.skipif(not os.path.exists(f"/proc/self/task/{os.getpid()}/children"), reason="no list of children")
def test_ctrl_c_ends_both_processes_without_a_trace(start: Callable[..., Any]) -> None:
    with start("bench", start_new_session=True) as process:
        children, ignores_interrupts = Path(f"/proc/{process.pid}/task/{process.pid}/children"), False
        while not ignores_interrupts:  # the measuring process has started to measure
            time.sleep(0.01)
            for child in children.read_text().split():
                status = Path(f"/proc/{child}/status").read_text()
                ignores_interrupts = bool(int(status.partition("SigIgn:")[2].split()[0], 16) >> signal.SIGINT - 1 & 1)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)  # returns when no process holds the other ends

    assert (process.returncode, out, err) == (130, "", "ferrodp: interrupted\n")


@pytest.mark.skipif(_sibling.processors() is None, reason="no two processors that a process can be bound to")
def test_a_sibling_works_only_while_it_is_awake_and_ends() -> None:
    own, other = _sibling.processors() or (0, 0)
    before = os.sched_getaffinity(0)
    with _sibling.busy(own, other) as sibling:
        assert os.sched_getaffinity(0) == {own}
        assert os.sched_getaffinity(sibling.pid) == {other}
        wait_until(lambda: is_stopped(sibling.pid))
        asleep = ticks(sibling.pid)
        sibling.wake()
        wait_until(lambda: ticks(sibling.pid) > asleep)
        sibling.rest()
        wait_until(lambda: is_stopped(sibling.pid))

    assert os.sched_getaffinity(0) == before
    assert not Path(f"/proc/{sibling.pid}").exists()


@pytest.mark.skipif(_sibling.processors() is None, reason="no two processors that a process can be bound to")
@pytest.mark.parametrize("state", ["rest", "wake"])
def test_a_sibling_ends_with_the_process_that_measures(state: str) -> None:
    code = f"""
        import time
        from ferrodp.cli.bench.sibling import busy, processors

        with busy(*processors()) as sibling:
            sibling.{state}()
            print(sibling.pid, flush=True)
            time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    ) as measuring:
        assert measuring.stdout is not None
        sibling = int(measuring.stdout.readline())
        measuring.kill()

    wait_until(lambda: has_ended(sibling))


def has_ended(process: int) -> bool:
    """Return whether a process is dead and only waits for somebody to collect it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def ticks(process: int) -> int:
    """Return how long a process has run."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_stopped(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_rounds_beside_a_busy_processor_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now, awake = [0.0], [False]

    def work(seconds: float) -> None:
        now[0] += seconds * (3 if awake[0] else 1)

    class Fake(_sibling.Sibling):
        def __init__(self) -> None:
            pass

        def wake(self) -> None:
            awake[0] = True

        def rest(self) -> None:
            awake[0] = False

    monkeypatch.setattr(_measure.time, "process_time", lambda: now[0])
    contenders = [_measure.Contender("a", lambda: work(1.0)), _measure.Contender("b", lambda: work(2.0))]
    found = _measure.compare(_measure.Case("title", contenders, items=6), 3, Fake())["results"]

    assert [each["seconds"] for each in found] == [1.0, 2.0]
    assert [each["contended_seconds"] for each in found] == [3.0, 6.0]
    assert [each["contended_ratio"] for each in found] == [1.0, 2.0]
    assert not awake[0]


def test_times_beside_a_busy_processor_are_shown(ferrodp: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case = reported(0.002)
    case["results"][0] |= {"contended_seconds": 0.005, "contended_ratio": 1.0}
    asked = []
    monkeypatch.setattr(bench, "processors", lambda: (3, 7))
    monkeypatch.setattr(bench, "_measured", lambda *how: asked.append(how) or iter([{"extra_bytes": None}, case]))

    found = ferrodp("bench", "--contended")

    assert asked == [(False, 1, (3, 7))]
    assert "ferrodp 2 ms 500 M 1 1.8 ms to 2.4 ms 5 ms 1" in [" ".join(line.split()) for line in found.out.splitlines()]
    assert "--contended needs one thread" in ferrodp("bench", "--contended", "--threads", 2).error
    monkeypatch.setattr(bench, "processors", lambda: None)
    assert "two processors" in ferrodp("bench", "--contended").error


def test_bad_numbers_of_threads_are_refused(ferrodp: Callable[..., Any]) -> None:
    for threads in (0, -1, 257):
        assert f"--threads must be an int from 1 to 256, got {threads}" in ferrodp("bench", "--threads", threads).error


def test_repetitions_alternate_and_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    durations = {"a": iter([100.0, 1.0, 9.0, 2.0]), "b": iter([100.0, 4.0, 40.0, 8.0])}
    now = [0.0]

    def work(name: str) -> None:
        order.append(name)
        now[0] += next(durations[name])

    monkeypatch.setattr(_measure.time, "process_time", lambda: now[0])
    contenders = [_measure.Contender("a", lambda: work("a")), _measure.Contender("b", lambda: work("b"), times=4)]
    found = _measure.compare(_measure.Case("title", contenders, items=6), repetitions=3)

    assert order == ["a", "b"] * 4  # the first round is not counted
    assert [(each["seconds"], each["ratio"]) for each in found["results"]] == [(2.0, 1.0), (2.0, 1.0)]
    assert found["results"][0]["items_per_second"] == 3.0


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no resettable peak of memory")
def test_the_peak_of_memory_is_seen_and_reset() -> None:
    # In a process of its own: what other tests left behind could be freed while this one counts.
    code = """
        import numpy as np
        from ferrodp.cli.bench import measure

        # Above 32 MiB every array is mapped by itself: whatever ran before, its pages are new.
        np.ones(128 << 17)
        for mebibytes in (96, 40):
            print(measure.peak_growth(lambda: np.ones(mebibytes << 17)))
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )

    for line, mebibytes in zip(process.stdout.split(), (96, 40), strict=True):
        # The kernel counts pages in batches of a few dozen a thread.
        assert abs(int(line) - (mebibytes << 20)) < 1 << 20


def test_peers_that_are_missing_or_broken_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_peers.importlib, "import_module", lambda name: 1 / 0)

    assert _peers.peer("torch") is None
    assert _peers.opendp_release("make_gaussian", 1.0) is None
    assert _peers.opendp_release("make_laplace", 1.0, 3, integers=True) is None
    sizes = _cases.Sizes(quick=True)
    assert len(_cases.gaussian64(sizes, 1).contenders) == 3
    assert len(_cases.integer_laplace(sizes, 1, 10.0).contenders) == 2
