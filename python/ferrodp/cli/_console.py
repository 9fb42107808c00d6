"""What people see: tables and progress, with `rich` where it is installed and the output is a terminal.

Reports go to standard output, progress to standard error. Pipes and files get plain text and no progress.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, TypeAlias

Report: TypeAlias = dict[str, Any]
"""What a command found out: plain JSON data, or an iterator of such data in the place of a long list."""
Advance: TypeAlias = Callable[[], None]


class Console:
    """Where a command prints to.

    Parameters
    ----------
    json : bool
        Whether the report is printed as one JSON object, and nothing else.
    """

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def report(self, report: Report, show: Callable[[Report, Console], None]) -> None:
        """Print the report of a command, once."""
        if self._json:
            for part in _json_parts(report):
                print(part, end="")
            print()
        else:
            show(report, self)

    def line(self, text: str = "") -> None:
        """Print one line; characters that could steer a terminal are escaped."""
        print(one_line(text))

    def fields(self, rows: Mapping[str, str]) -> None:
        """Print names and values, aligned."""
        width = max(map(len, rows))
        for name, value in rows.items():
            self.line(f"{name:<{width}}  {value}")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
        """Print a table; the first `left` columns are aligned to the left, the others to the right."""
        rich = _rich("table") if sys.stdout.isatty() else None
        if rich is None:
            widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
            for row in (header, ["-" * width for width in widths], *rows):
                cells = [f"{cell:{'<' if c < left else '>'}{widths[c]}}" for c, cell in enumerate(row)]
                self.line("  ".join(cells).rstrip())
            return
        table = rich.Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        for column, name in enumerate(header):
            table.add_column(_plain(name), justify="left" if column < left else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(_plain, row))
        _rich("console").Console(highlight=False).print(table)

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """Yield a function to call after each of `total` steps."""
        if self._json or not sys.stderr.isatty():
            yield lambda: None
            return
        rich = _rich("progress")
        if rich is None:
            yield from _counter(what, total)
            return
        columns = [rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn()]
        bar = rich.Progress(
            *columns, rich.TimeRemainingColumn(), console=_rich("console").Console(stderr=True), transient=True
        )
        with bar:
            task = bar.add_task(_plain(what), total=total)
            yield lambda: bar.advance(task)


def _json_parts(report: Report) -> Iterator[str]:
    """Yield the JSON text of a report; values that are iterators become arrays, of which memory holds one item."""
    plain = {name: value for name, value in report.items() if not isinstance(value, Iterator)}
    texts = {name: json.dumps(value, allow_nan=False) for name, value in plain.items()}  # what fails fails here
    for number, name in enumerate(report):
        yield f"{', ' if number else '{'}{json.dumps(name)}: "
        if name in texts:
            yield texts[name]
            continue
        yield "["
        for place, item in enumerate(report[name]):
            yield (", " if place else "") + json.dumps(item, allow_nan=False)
        yield "]"
    yield "}"


def one_line(text: str) -> str:
    """Return the text with everything escaped that is no printable character: newlines, terminal codes, stray bytes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _counter(what: str, total: int) -> Iterator[Advance]:
    """Count on one line of the terminal."""
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        print(f"\r{what} {done}/{total}", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _rich(module: str) -> Any:
    """Return a module of `rich`, or None."""
    try:
        return __import__(f"rich.{module}", fromlist=["rich"])
    except ImportError:
        return None


def _plain(text: str) -> Any:
    """Return text that is printed as it stands, not read as markup."""
    return _rich("text").Text(one_line(text))


def rounded_up(value: float, digits: int = 4) -> str:
    """Write a bound with few digits, rounded up: what is printed is a bound too."""
    if not math.isfinite(value):
        return str(value)
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value)):f}"


def counted(number: int, thing: str) -> str:
    """Write a number with what it counts."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
