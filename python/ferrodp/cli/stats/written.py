"""The released table in a file: CSV, JSON or Parquet by the file's ending.

The file has its name once it is whole. Whether it can be written is known before anything is charged: its folder, its
name, its ending, the package that writes Parquet, and room on the disk for about as much. If it fails all the same, the
numbers are drawn and paid for, so they are printed, and the command fails then.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ferrodp import files
from ferrodp.cli._command import option
from ferrodp.cli._console import Report
from ferrodp.cli.printing import shapes
from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.files import FileRefused

OPTIONS = (
    option(
        "-o",
        "--output",
        metavar="OUT",
        help="write the released table there, too, whole or not at all: .csv, .json or .parquet",
    ),
    option("--force", action="store_true", help="replace OUT if it exists"),
)
_MARGIN = 1 << 16
"""Bytes that are claimed on the disk beyond twice those of a table of no rows."""


def rows(report: Report) -> dict[str, list[Any]]:
    """Return the released numbers as columns, a number a row."""
    found: dict[str, list[Any]] = {
        name: [] for name in ("statistic", "column", "of", "value", "lower", "upper", "epsilon", "delta")
    }
    keys = report["found_keys"]
    for each in [*([] if keys is None else [_of_keys(keys)]), *report["statistics"]]:
        size = len(each["values"])
        nothing = [None] * size
        found["statistic"] += [each["statistic"]] * size
        found["column"] += [each["column"]] * size
        found["of"] += each["labels"] or nothing
        found["value"] += each["values"]
        found["lower"] += each["lower"] or nothing
        found["upper"] += each["upper"] or nothing
        found["epsilon"] += [each["epsilon"]] * size
        found["delta"] += [each["delta"]] * size
    for name in ("statistic", "column", "of"):
        found[name] = [None if text is None else _encodable(text) for text in found[name]]
    return found


def _of_keys(keys: Report) -> Report:
    """Return the keys that were found as a statistic, whose values are their counts."""
    values = keys["counts"] if keys["counts"] is not None else [None] * len(keys["keys"])
    return keys | {"statistic": "keys", "labels": keys["keys"], "values": values}


def _encodable(text: str) -> str:
    """Return the text without stray bytes of a command line, which no file of text holds."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _csv(report: Report) -> bytes:
    found = rows(report)
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(found)
    lines.writerows(zip(*found.values(), strict=True))
    return text.getvalue().encode("utf-8")


def _json(report: Report) -> bytes:
    return (json.dumps({"schema": shapes.VERSION, **report}, allow_nan=False) + "\n").encode()


_NUMBERS = ("value", "lower", "upper", "epsilon", "delta")


def _typed(report: Report) -> tuple[dict[str, list[Any]], frozenset[str]]:
    """Return the columns for Parquet, and which are numbers: with a statistic of dates or times values are texts."""
    found = rows(report)
    timed = any(each["type"] in ("date", "datetime", "time") for each in report["statistics"])
    if not timed:
        return found, frozenset(_NUMBERS)
    texts = ("value", "lower", "upper")
    for name in texts:
        found[name] = [None if each is None else str(each) for each in found[name]]
    return found, frozenset(_NUMBERS) - frozenset(texts)


def _by_arrow() -> Callable[[Report], bytes] | None:
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        from pyarrow import parquet
    except ImportError:
        return None

    def write(report: Report) -> bytes:
        found, numbers = _typed(report)
        table = pyarrow.table(
            {
                name: pyarrow.array(values, pyarrow.float64() if name in numbers else pyarrow.string())
                for name, values in found.items()
            }
        )
        stream = io.BytesIO()
        parquet.write_table(table, stream)
        return stream.getvalue()

    return write


def _by_polars() -> Callable[[Report], bytes] | None:
    try:
        import polars
    except ImportError:
        return None

    def write(report: Report) -> bytes:
        found, numbers = _typed(report)
        kinds: Any = {name: polars.Float64 if name in numbers else polars.String for name in found}
        stream = io.BytesIO()
        polars.DataFrame(found, schema=kinds, strict=False).write_parquet(stream)
        return stream.getvalue()

    return write


def _parquet() -> Callable[[Report], bytes]:
    write = _by_arrow() or _by_polars()
    if write is None:
        raise MissingPackage('writing Parquet needs pyarrow or polars: pip install "ferrodp[parquet]"')
    return write


_WRITERS: dict[str, Callable[[], Callable[[Report], bytes]]] = {
    ".csv": lambda: _csv,
    ".json": lambda: _json,
    ".parquet": _parquet,
}
Write = Callable[[Report], None]


def writer(path: str) -> Callable[[Report], bytes]:
    """Return what makes the content of a file, by the ending of its name, or refuse the name."""
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise InvalidParameter(f"--output must end in one of {', '.join(_WRITERS)}, got {path!r}")
    return _WRITERS[suffix]()


@contextlib.contextmanager
def destination(
    path: str | None, taken: dict[str, str | None], blank: Callable[[], Report], *, force: bool
) -> Iterator[Write]:
    """Give what writes a report to a file, once that can be expected to succeed.

    `taken` has the files that must stay, by what they are; `blank` returns a report of no rows.

    Raises
    ------
    FileRefused
        If nothing can be written there.
    InvalidParameter, MissingPackage
        If the ending is not known, or needs a package.
    """
    if path is None:
        yield lambda report: None
        return
    content = writer(path)
    for what, other in taken.items():
        with contextlib.suppress(OSError):  # one of the two is missing, or no file
            # mutant: table-is-written-over-the-file-that-it-is-about
            if other is not None and os.path.samefile(path, other):
                raise FileRefused(path, f"is {what}, and would be overwritten")
    with files.Destination(path, force=force) as held:
        held.reserve(2 * len(content(blank())) + _MARGIN)

        def write(report: Report) -> None:
            found = content(report)
            held.commit(lambda stream: stream.write(found))

        yield write
