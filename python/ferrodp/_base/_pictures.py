"""How all pictures look: colors that differ in grey as well, line styles, axes with plain numbers, legends beside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ferrodp.errors import MissingPackage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes: TypeAlias = Any

COLORS = ("#0b2545", "#c1440e", "#2a7f9e", "#8a5a9e", "#7a8b00", "#9a9a9a")
"""From dark to light, so that they differ in grey print; told apart by people who are color blind, too."""
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
LIMIT: Mapping[str, Any] = {"color": "black", "linestyle": (0, (6, 3)), "linewidth": 0.8}
"""Of the line of a budget."""
_SECONDS_A_DAY = 86_400.0


def line_of(number: int) -> dict[str, Any]:
    """Return color and line style of the line with this number."""
    return {"color": COLORS[number % len(COLORS)], "linestyle": STYLES[number % len(STYLES)], "linewidth": 1.6}


def axes_of(axes: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    return pyplot_of().subplots(layout="constrained")[1] if axes is None else axes


def pyplot_of() -> Any:
    """Return `matplotlib.pyplot`, or say how it is installed."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackage('plots need matplotlib, which is not installed: pip install "ferrodp[plot]"') from error
    return pyplot


def finish(axes: Axes, x: str, y: str, title: str, *, others: Axes | None = None) -> Axes:
    """Name the axes, write plain numbers on logarithmic ones, and put the legend where it covers nothing.

    `others` are axes in the same place, whose lines are in the legend, too.
    """
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            plain_log(axis)
    _legend(axes, others)
    return axes


def _legend(axes: Axes, others: Axes | None) -> None:
    """Put the legend below the axes if the figure makes room for it, else where it covers least."""
    handles, labels = axes.get_legend_handles_labels()
    if others is not None:
        more = others.get_legend_handles_labels()
        handles, labels = [*handles, *more[0]], [*labels, *more[1]]
    if not labels:
        return
    figure = axes.figure
    alone = {id(each) for each in figure.axes} <= {id(axes), id(others)}
    if not alone or type(figure.get_layout_engine()).__name__ != "ConstrainedLayoutEngine":
        axes.legend(handles, labels)
        return
    for old in list(figure.legends):
        old.remove()
    columns = 2 if max(map(len, labels)) < 30 else 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


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


def plain_dates(axis: Any) -> None:
    """Write dates on an axis as briefly as they can be told apart."""
    from matplotlib import dates

    low, high = axis.get_data_interval()
    if high - low < 10.0 / _SECONDS_A_DAY:  # matplotlib would show years around one moment
        axis.axes.set_xlim(low - 10.0 / _SECONDS_A_DAY, high + 10.0 / _SECONDS_A_DAY)
    untyped: Any = dates
    locator = untyped.AutoDateLocator(maxticks=8)
    axis.set_major_locator(locator)
    axis.set_major_formatter(untyped.ConciseDateFormatter(locator))
