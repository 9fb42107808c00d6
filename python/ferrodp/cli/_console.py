"""What people see: tables and progress, with `rich` where it is installed and the output is a terminal.

Reports go to standard output, progress to standard error. Pipes and files get plain text and no progress.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, TypeAlias

from ferrodp.cli.printing import shapes, tables

Report: TypeAlias = dict[str, Any]
"""What a command found out: plain JSON data, or an iterator of such data in the place of a long list."""
Advance: TypeAlias = Callable[[], None]
COLUMNS = 80
"""Width of tables where the output is no terminal and the environment does not have ``COLUMNS``."""
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""What is logged: without `--verbose`, with one, with two."""


class Console:
    """Where a command prints to.

    Parameters
    ----------
    json : bool
        Whether the report is printed as one JSON object, and nothing else.
    color : bool
        Whether a terminal may be sent colors and bold letters; not if the environment has ``NO_COLOR``.
    """

    def __init__(self, *, json: bool, color: bool = True) -> None:
        self.json = json
        self._color = color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._begun = False

    def report(self, report: Report, show: Callable[[Report, Console], None]) -> None:
        """Print the report of a command, once."""
        if self.json:
            for part in _json_parts({"schema": shapes.VERSION, **report}):
                print(part, end="")
                self._begun = True
            print()
        else:
            show(report, self)

    def failure(self, failure: Report) -> None:
        """Print what went wrong as JSON, unless something was printed already or nobody reads."""
        if self.json and not self._begun and sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):
                print(json.dumps({"schema": shapes.VERSION, **failure}), flush=True)

    def line(self, text: str = "") -> None:
        """Print one line; characters that could steer a terminal are escaped."""
        print(one_line(text))

    def sentence(self, text: str) -> None:
        """Print a sentence in as many lines as it needs."""
        for line in textwrap.wrap(one_line(text), _width(), subsequent_indent="  ", break_on_hyphens=False):
            print(line)

    def fields(self, rows: Mapping[str, str]) -> None:
        """Print names and values, aligned."""
        width = max(map(len, rows))
        for name, value in rows.items():
            self.line(f"{name:<{width}}  {value}")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
        """Print a table; the first `left` columns are aligned to the left, the others to the right.

        It fits the terminal, or ``COLUMNS``, or 80 columns: long text is broken into lines, and a table of many columns
        becomes blocks.
        """
        terminal, width = sys.stdout.isatty(), _width()
        cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
        for number, line in enumerate(tables.lines(cells[0], cells[1:], left=left, width=width)):
            bold = terminal and self._color and not number
            print(f"\x1b[1m{line}\x1b[0m" if bold else line)

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """Yield a function to call after each of `total` steps."""
        if self.json or not sys.stderr.isatty():
            yield lambda: None
            return
        rich = _rich("progress")
        if rich is None:
            yield from _counter(what, total)
            return
        columns = [rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn()]
        console = _rich("console").Console(stderr=True, no_color=not self._color)
        bar = rich.Progress(*columns, rich.TimeRemainingColumn(), console=console, transient=True)
        with bar:
            task = bar.add_task(_plain(what), total=total)
            yield lambda: bar.advance(task)


def _width() -> int:
    """Return the number of columns that the output has."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size((COLUMNS, 24)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) else COLUMNS


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


class LogLines(logging.Formatter):
    """Log records as lines of standard error: what a record says, and which part of the package says it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, in which nothing can steer a terminal."""
        return one_line(f"{record.name}: {record.levelname.lower()}: {record.getMessage()}")


@contextlib.contextmanager
def logged(verbosity: int) -> Iterator[None]:
    """Write what the package logs to standard error: warnings, with a verbosity of 1 information, with 2 all."""
    logger, handler = logging.getLogger("ferrodp"), logging.StreamHandler()
    before = logger.level
    handler.setFormatter(LogLines())
    logger.addHandler(handler)
    logger.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


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
