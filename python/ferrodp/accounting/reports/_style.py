"""How pictures look: colors that differ in grey as well, line styles, logarithmic axes with plain numbers."""

from __future__ import annotations

import math
from typing import Any

COLORS = ("#0b2545", "#c1440e", "#2a7f9e", "#8a5a9e", "#7a8b00", "#9a9a9a")
"""From dark to light, so that they differ in grey print; told apart by people who are color blind, too."""
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))


def line_of(number: int) -> dict[str, Any]:
    """Return color and line style of the line with this number."""
    return {"color": COLORS[number % len(COLORS)], "linestyle": STYLES[number % len(STYLES)], "linewidth": 1.6}


def power(value: float) -> str:
    """Write a number as a power of ten with a factor: 10⁻⁵, 3·10⁻⁷; plain between 0.001 and 10⁵."""
    if not value or not math.isfinite(value) or 1e-3 <= abs(value) < 1e5:
        return f"{value:g}"
    factor, _, exponent = f"{value:.3e}".partition("e")
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    short = f"{float(factor):g}"
    return f"10{digits}" if short == "1" else f"{short}·10{digits}"


def plain_log(axis: Any) -> None:
    """Write plain numbers on a logarithmic axis, between its powers of ten, too, where there are few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(map(float, axis.get_view_interval()))
    few = low > 0.0 and high / low < 1e3
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
    axis.set_minor_formatter(NullFormatter())
