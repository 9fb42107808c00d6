"""Pictures of released numbers with their intervals. They show what was released, and nothing else of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base._pictures import COLORS, pyplot_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Axes: TypeAlias = Any
    Figure: TypeAlias = Any

_MOST_ROWS = 200
_MOST_NUMBERS = 40
"""Rows beside which their numbers are written; with more there is no room."""
Array: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a picture shows: a label, a number and, where known, the noise's standard deviation and an interval each."""

    labels: list[str]
    values: Array
    errors: Array
    lower: Array | None
    upper: Array | None


def draw(rows: Rows, *, level: float, title: str, axes: Axes | None) -> Axes:
    """Draw a point with a bar for each row, the first at the top."""
    if axes is None:
        axes = panels(1, len(rows.labels))[1][0]
    shown = slice(0, _MOST_ROWS)
    values, places = rows.values[shown], np.arange(rows.values[shown].size)
    bars: dict[str, Any] = {}
    if rows.lower is not None and rows.upper is not None:
        ends = [rows.lower[shown], rows.upper[shown]]
        # The interval of a ratio need not hold the released number itself, and may have no end.
        bars["xerr"] = [
            np.nan_to_num(np.maximum(side, 0.0), posinf=0.0) for side in (values - ends[0], ends[1] - values)
        ]
    axes.errorbar(values, places, fmt="o", color=COLORS[0], ecolor=COLORS[2], capsize=4, markersize=5, **bars)
    if values.size <= _MOST_NUMBERS:
        for place, value, error in zip(places.tolist(), values.tolist(), rows.errors[shown].tolist(), strict=True):
            axes.annotate(
                plain(value, error), (value, place), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8
            )
    left_out = rows.values.size - values.size
    axes.set_yticks(places, rows.labels[shown])
    axes.set_ylim(max(values.size, 1) - 0.4, -0.6)
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.set_title(title if not left_out else f"{title}; {left_out} more rows: to_frame()")
    axes.set_xlabel(f"released value and {100 * level:g} % interval" if bars else "released value")
    return axes


def panels(number: int, rows: int) -> tuple[Figure, list[Axes]]:
    """Return a new figure and axes side by side in it, as high as its rows need."""
    height = min(max(1.4 + 0.45 * rows, 2.4), 40.0)
    columns = min(number, 3)
    lines = -(-number // columns)
    figure, grid = pyplot_of().subplots(
        lines, columns, figsize=(max(6.4, 3.6 * columns), height * lines), layout="constrained", squeeze=False
    )
    for unused in grid.flat[number:]:
        figure.delaxes(unused)
    return figure, list(grid.flat[:number])


def plain(value: float, error: float) -> str:
    """Write a number with the digits that its noise leaves meaning: within a quarter of the standard deviation."""
    if not math.isfinite(value) or not math.isfinite(error) or error <= 0.0:
        return f"{value:.4g}"
    last = math.floor(math.log10(error / 2.0))  # rounding to this place moves a number by error / 4 at most
    places = min(max(-last, 0), 12)
    rounded = round(value, -last)
    return f"{rounded:.{places}f}" if abs(rounded) < 1e15 else f"{rounded:.4g}"
