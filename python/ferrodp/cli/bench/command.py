"""`ferrodp bench`: the work of a release, side by side with whatever peers are installed."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ferrodp
from ferrodp import _native
from ferrodp._base import _validate
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.bench.sibling import processors
from ferrodp.cli.printing.shapes import ANYTHING, FLAG, INTEGER, NUMBER, many, maybe
from ferrodp.errors import FerroError, InvalidParameter

NUM_CASES = 28
PEERS = ("numpy", "torch", "mkl_random", "opendp")
# What a table has beside time and rate, if it was measured.
_COLUMNS = {
    "quartiles": "quartiles",
    "contended_seconds": "contended",
    "contended_ratio": "relative",
    "then_seconds": "then",
}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    machine = report["machine"]
    console.line(f"{machine['cpu']}, {machine['isa']}; {counted(report['threads'], 'thread')}; {machine['system']}")
    console.line(", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
    if machine.get("load") is not None:
        before, after = machine["load"]
        console.line(f"load {before:.1f} before, {after:.1f} after; {machine['mhz'] or 'unknown'} MHz")
    if report.get("compared_with"):
        console.line(f"then: {report['compared_with'].get('cpu', 'an unknown machine')}")
    for case in report["cases"]:
        console.line()
        columns = [name for name in _COLUMNS if all(name in result for result in case["results"])]
        titles = [_COLUMNS[name] for name in columns]
        rows = [_row(result, case["items"], columns) for result in case["results"]]
        console.table([f"{case['title']} ({case['clock']} time)", "time", "values/s", "relative", *titles], rows)
    if report["extra_bytes_while_noising"] is not None:
        console.line()
        console.line(f"Extra memory while noising in place: {report['extra_bytes_while_noising'] / 2**10:.0f} KiB.")


def _row(result: dict[str, Any], items: int, columns: list[str]) -> list[str]:
    rate = f"{result['items_per_second'] / 1e6:,.4g} M" if items > 1 else ""
    show: dict[str, Callable[[Any], str]] = {
        "quartiles": lambda times: " to ".join(map(_time, times)),
        "contended_seconds": _time,
        "contended_ratio": _ratio,
        "then_seconds": lambda seconds: "" if seconds is None else _time(seconds),
    }
    more = [show[name](result[name]) for name in columns]
    return [result["name"], _time(result["seconds"]), rate, _ratio(result["ratio"]), *more]


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


@command(
    option("--quick", action="store_true", help="smaller arrays: seconds instead of a minute"),
    option("--threads", type=int, default=1, metavar="N", help="for all tools (default: %(default)s)"),
    option("--contended", action="store_true", help="measure beside a busy processor as well"),
    option("--compare", metavar="RECORD", help="an earlier output of bench --json, shown beside"),
    show=_show,
    fields={
        "compared_with": maybe(ANYTHING),
        "quick": FLAG,
        "contended": FLAG,
        "threads": INTEGER,
        "machine": ANYTHING,
        "cases": many(ANYTHING),
        "extra_bytes_while_noising": maybe(NUMBER),
        "seconds": NUMBER,
    },
)
def bench(args: Args, console: Console) -> Report:
    r"""Measure on this machine, side by side with other tools.

    Measure noising, clipping and summing on this machine, against numpy and
    whichever of torch, mkl_random and OpenDP are installed. The tools take turns
    in one process, several times over; the median processor time counts, or, with
    more than one thread, the least elapsed time. Linear algebra libraries get as
    many threads as FerroDP. FerroDP's noise is exact and cryptographic, as is
    OpenDP's; that of the others is neither.

    With --contended every round is run twice: alone, and while another process
    adds noise on a second processor, of the same core if there is one.

    example:
      ferrodp bench --quick
    """
    threads = _validate.count("--threads", args.threads, maximum=_validate.MAX_THREADS)
    record = None if args.compare is None else _record(Path(args.compare))
    pair = None
    if args.contended:
        pair = processors()
        if pair is None or threads > 1:
            raise InvalidParameter("--contended needs one thread and two processors that a process can be bound to")
    load = _load()
    started = time.perf_counter()
    cases, extra = [], None
    with console.progress("measuring", NUM_CASES - (pair is not None)) as advance:
        for found in _measured(args.quick, threads, pair):
            if "title" in found:
                cases.append(_beside(found, record))
                advance()
            else:
                extra = found["extra_bytes"]
    return {
        "command": "bench",
        "quick": args.quick,
        "contended": args.contended,
        "threads": threads,
        "compared_with": None if record is None else record["machine"],
        "machine": _machine() | {"load": None if load is None else [load, _load()], "mhz": _megahertz()},
        "cases": cases,
        "extra_bytes_while_noising": extra,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _measured(quick: bool, threads: int, pair: tuple[int, int] | None) -> Iterator[dict[str, Any]]:
    """Yield what the measuring process prints. It is a new one, as libraries fix their threads when they are loaded."""
    command = [sys.executable, "-W", "ignore", "-m", "ferrodp.cli.bench.cases", f"--threads={threads}"]
    if pair is not None:
        command += ["--contended", *map(str, pair)]
    environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
    with subprocess.Popen(
        [*command, *["--quick"] * quick], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):  # not what a library says when it is loaded
                    yield json.loads(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise MeasurementFailed(f"the measuring process ended with code {process.returncode}")


class MeasurementFailed(FerroError, RuntimeError):  # noqa: N818  # what happened, as in the other exceptions
    """The process that measures died: out of memory, most likely."""


def _machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "isa": _native.isa,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": {"ferrodp": ferrodp.__version__, **_versions(PEERS)},
    }


def _load() -> float | None:
    """Return how many threads ran or waited in the last minute."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _megahertz() -> int | None:
    """Return the clock of the fastest core at this moment."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return round(max(float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")))
    except (OSError, ValueError):
        return None


def _record(path: Path) -> dict[str, Any]:
    """Return the machine of an earlier report, and the times by case and contender."""
    try:
        report = json.loads(path.read_text())
        times = {
            (case["title"], result["name"]): float(result["seconds"])
            for case in report["cases"]
            for result in case["results"]
        }
        return {"machine": report["machine"], "times": times}
    except OSError as error:
        raise InvalidParameter(f"--compare must be a file that can be read: {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InvalidParameter(f"--compare must be what bench --json printed, got {path}") from None


def _beside(case: dict[str, Any], record: dict[str, Any] | None) -> dict[str, Any]:
    """Return a case with the times of the record beside its own."""
    for result in case["results"]:
        if record is not None:
            result["then_seconds"] = record["times"].get((case["title"], result["name"]))
    return case


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those that are installed."""
    from importlib import metadata  # slow to load, and every command loads this file

    found = {}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
