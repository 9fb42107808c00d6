"""The input files of a command line: paths, patterns and lists of paths, each file at most once."""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterator, Sequence

from ferrodp.files import FileRefused

_WILDCARDS = frozenset("*?[")


def expand(arguments: Sequence[str]) -> list[str]:
    """Return the paths that the arguments stand for, in their order.

    `@FILE` stands for the paths in FILE, one a line (`@-`: standard input); a pattern that is not a path itself for the
    files that match it, sorted.
    """
    return [path for argument in arguments for path in _expanded(argument)]


def check_distinct(paths: Sequence[str], output: str) -> None:
    """Refuse anything but regular files, one of them given twice, and an output that is one of them.

    A unit's update that entered a sum twice would weigh twice its clip norm, and the stated ε would be too small.
    Links to one file count as that file; copies of it cannot be told from updates that are alike.
    """
    seen: dict[tuple[int, int], str] = {}
    for path in paths:
        status = _status(path)
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(path, "is not a regular file")
        identity = (status.st_dev, status.st_ino)
        if identity in seen:
            raise FileRefused(path, f"is given twice (as {seen[identity]}): its update would count twice")
        seen[identity] = path
    if os.path.exists(output):
        status = _status(output)
        if (status.st_dev, status.st_ino) in seen:
            raise FileRefused(output, "is one of the inputs, and would be overwritten")


def _expanded(argument: str) -> Iterator[str]:
    if argument.startswith("@"):
        yield from _listed(argument[1:])
    elif _WILDCARDS.isdisjoint(argument) or os.path.lexists(argument):
        yield argument
    else:
        found = sorted(glob.glob(argument, recursive=True))
        if not found:
            raise FileRefused(argument, "matches no file")
        yield from found


def _listed(path: str) -> Iterator[str]:
    """Yield the lines of a list of paths."""
    try:
        if path == "-":
            lines = sys.stdin.buffer.read().splitlines()
        else:
            with open(path, "rb") as file:
                lines = file.read().splitlines()
    except (OSError, ValueError) as error:
        raise FileRefused(path, f"list cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found = [os.fsdecode(line) for line in lines if line.strip()]
    if not found:
        raise FileRefused(path, "lists no file")
    yield from found


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise FileRefused(path, error.strerror or "cannot be read") from None
    except ValueError:  # a NUL byte
        raise FileRefused(path, "is not a path") from None
