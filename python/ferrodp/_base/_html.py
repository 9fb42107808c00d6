"""Tables for notebooks: escaped text, no colors of their own, so that they are read on light and dark pages alike."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import Any

MOST_ROWS = 60
"""Of a table; how many more there are is said below it."""
_LEFT = "text-align: left"


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], *, more: str = "", whole: bool = False
) -> str:
    """Return a table with a caption above. Of many rows the first are shown; `more` says where the others are."""
    listed = list(rows)
    shown = listed if whole else listed[:MOST_ROWS]
    first = listed[0] if listed else ()
    left_ones = [not place or (place < len(first) and not _is_number(first[place])) for place in range(len(header))]
    head = "".join(
        f'<th style="{_LEFT}">{_cell(each)}</th>' if is_left else f"<th>{_cell(each)}</th>"
        for each, is_left in zip(header, left_ones, strict=True)
    )
    body = "".join(f"<tr>{''.join(_place(value, first=not n) for n, value in enumerate(row))}</tr>" for row in shown)
    left = len(listed) - len(shown)
    note = f"<p>{left} more rows{f': {_cell(more)}' if more else ''}</p>" if left > 0 else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    above = f'<caption style="{_LEFT}; caption-side: top; color: inherit">{_cell(caption)}</caption>' if caption else ""
    return f'<table style="color: inherit">{above}{top}<tbody>{body}</tbody></table>{note}'


def pairs(caption: str, named: Iterable[tuple[str, Any]]) -> str:
    """Return a table of names and values."""
    return table(caption, ("", ""), named)


def text(value: str) -> str:
    """Return lines of text that keep their breaks."""
    return f'<div style="white-space: pre-wrap">{html.escape(value)}</div>'


def _place(value: Any, *, first: bool) -> str:
    style = f' style="{_LEFT}"' if first or not _is_number(value) else ""
    return f"<th{style}>{_cell(value)}</th>" if first else f"<td{style}>{_cell(value)}</td>"


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or the text of one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _cell(value: Any) -> str:
    """Write a value: numbers with as many digits as people read, everything else as it is."""
    if isinstance(value, Fraction):
        value = float(value)
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return "∞" if value == math.inf else f"{value:.6g}"
    return html.escape(str(value))


def at_most(value: Any) -> str:
    """Write an upper bound with six digits, rounded up."""
    return _rounded(value, ROUND_CEILING)


def at_least(value: Any) -> str:
    """Write a lower bound with six digits, rounded down."""
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: Any, rounding: str) -> str:
    number = float(value)
    if not math.isfinite(number) or not number:
        return _cell(number)
    return f"{float(Context(prec=6, rounding=rounding).create_decimal_from_float(number)):.6g}"
