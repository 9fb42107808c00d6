"""Tables in a given number of columns: cells of text are broken into lines; if that is not enough, a block a row."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_GAP = "  "
_NARROWEST = 14
"""Columns for the values of a block, however long the names are."""
_LONGEST_WORD = 40
"""A word is broken only if it is longer, so that what is copied is whole."""


def lines(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int, width: int) -> list[str]:
    """Return the lines of a table; its first `left` columns are text, aligned to the left, the others numbers."""
    columns = [[row[c] for row in (header, *rows)] for c in range(len(header))]
    least = [max(map(_longest_word, cells)) for cells in columns[:left]]
    widths = _fitted([max(map(len, cells)) for cells in columns], least, width)
    if sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        return _blocks(header, rows, width)
    found = [*_row(header, widths, left), _GAP.join("-" * each for each in widths)]
    for row in rows:
        found += _row(row, widths, left)
    return found


def _longest_word(cell: str) -> int:
    return min(max(map(len, cell.split()), default=0), _LONGEST_WORD)


def _fitted(widths: list[int], least: list[int], width: int) -> list[int]:
    """Make the widest columns of text narrower, until all fit or none can be narrower."""
    widths, excess = list(widths), sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for _ in range(max(excess, 0)):
        wide = [c for c, smallest in enumerate(least) if widths[c] > smallest]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    """Return the lines of one row."""
    parts = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
    found = []
    for number in range(max(map(len, parts))):
        line = [part[number] if number < len(part) else "" for part in parts]
        aligned = [f"{cell:{'<' if c < left else '>'}{widths[c]}}" for c, cell in enumerate(line)]
        found.append(_GAP.join(aligned).rstrip())
    return found


def _broken(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)


def _blocks(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return each row as a block of names and values, with an empty line between them."""
    names = max(map(len, header))
    found: list[str] = []
    for row in rows:
        found += [""] if found else []
        for name, cell in zip(header, row, strict=True):
            first, *more = _broken(cell, max(width - names - len(_GAP), _NARROWEST)) or [""]
            found.append(f"{name:<{names}}{_GAP}{first}".rstrip())
            found += [" " * (names + len(_GAP)) + each for each in more]
    return found
