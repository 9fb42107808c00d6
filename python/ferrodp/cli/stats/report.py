"""Released numbers as plain JSON data, and how they are printed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.printing.shapes import INTEGER, NUMBER, TEXT, Shape, many, maybe, one_of, record
from ferrodp.cli.stats import crossed, payment, timed
from ferrodp.cli.stats import found as _found
from ferrodp.cli.stats.asked import Asked
from ferrodp.cli.stats.found import in_words
from ferrodp.cli.stats.releases import Statistic
from ferrodp.errors import InvalidParameter
from ferrodp.events import EpsilonDeltaEvent
from ferrodp.statistics import Estimate
from ferrodp.statistics.marginals.released import PrivateMarginals

LEVEL = 0.95
VALUE: Shape = {"type": ["number", "string"]}
"""A number, or the text of a date or time."""
FIELDS = {
    "file": TEXT,
    "epsilon": NUMBER,
    "delta": NUMBER,
    "neighboring_relation": TEXT,
    "rows_per_unit": INTEGER,
    "groups_per_unit": maybe(INTEGER, "null: a unit may have its rows in as many groups"),
    "unit": maybe(TEXT, "the column that says whose a row is"),
    "where": many(TEXT),
    "found_keys": _found.FIELDS,
    "level": NUMBER,
    "statistics": many(
        record(
            {
                "statistic": TEXT,
                "column": maybe(TEXT, "null: of rows"),
                "type": one_of(*timed.TYPES) | {"description": "of the values; dates and times are texts of ISO 8601"},
                "values": many(VALUE),
                "labels": maybe(many(TEXT), "what each value is about"),
                "edges": maybe(many(VALUE), "of bins"),
                "bounds": maybe(many(VALUE), "of a mean"),
                "lower": maybe(many(VALUE), "of intervals with the level; null: a choice, which has none"),
                "upper": maybe(many(VALUE)),
                "epsilon": NUMBER,
                "delta": NUMBER,
            }
        )
    ),
    "ledger": maybe(payment.FIELDS),
    "output": maybe(TEXT, "the file that has the released table, too"),
}


def show(report: Report, console: Console) -> None:
    """Print a table of the released numbers, and what they cost."""
    rows = _of_keys(report)
    for found in report["statistics"]:
        for place in range(len(found["values"])):
            shown, interval = printed(found, place)
            spans = found["lower"] is not None and _spans(found, place)
            interval += " (all of the bounds: few or no values are seen)" if spans else ""
            label = "" if found["labels"] is None else found["labels"][place]
            if found["type"].startswith("squared"):
                label = f"{label}, in {found['type']}" if label else f"in {found['type']}"
            rows.append([found["statistic"], found["column"] or "(rows)", label, shown, interval])
    if rows:
        console.table(["statistic", "column", "of", "value", f"{LEVEL:.0%} interval"], rows, left=3)
        console.line()
    delta = f" at delta {report['delta']:g}" if report["delta"] else ""
    told = {"epsilon": f"{report['epsilon']:g}{delta}, all numbers together", "unit": whose(report)}
    if report["where"]:
        told["of rows"] = " and ".join(report["where"])
    keys = report["found_keys"]
    if keys is not None:
        told["keys"] = f"{len(keys['keys']) or 'none'} found in {keys['column']}, by {keys['method']}{_reached(keys)}"
    if report["ledger"] is not None:
        paid = report["ledger"]
        told["charged"] = f"to {paid['scope']} in {paid['where']}" + (f", key {paid['key']}" if paid["key"] else "")
        told["budget"] = f"epsilon {paid['epsilon_charged']:.6g} of {paid['epsilon']:g} is charged"
    if report["output"] is not None:
        told["written"] = report["output"]
    console.fields(told)


def whose(report: Report) -> str:
    """Return the unit of privacy in words."""
    rows = counted(report["rows_per_unit"], "row")
    if report["groups_per_unit"] is not None:
        rows += f" in {counted(report['groups_per_unit'], 'group')}"
    if report["unit"] is not None:
        return f"one {report['unit']}, of whom {rows} at most are counted"
    return "one row" if report["rows_per_unit"] == 1 else f"whoever has up to {rows}"


def _of_keys(report: Report) -> list[list[str]]:
    """Return the counts of keys that were found; without statistics of them the keys, if there are no counts."""
    keys = report["found_keys"]
    if keys is None or (keys["counts"] is None and report["statistics"]):
        return []
    rows = []
    for place, key in enumerate(keys["keys"]):
        shown = ["", ""]
        if keys["counts"] is not None:
            ends = f"{keys['lower'][place]:.0f} to {keys['upper'][place]:.0f}"
            shown = [str(keys["counts"][place]), ends]
        rows.append(["keys", keys["column"], key, *shown])
    return rows


def _reached(keys: Report) -> str:
    return "" if keys["threshold"] is None else f": a noised count of {keys['threshold']} or more"


def _spans(found: Report, place: int) -> bool:
    """Whether an interval ends where the bounds do, so that a mean says nothing: the column may hold no numbers."""
    bounds = found["bounds"]
    return bounds is not None and [found["lower"][place], found["upper"][place]] == bounds


def printed(found: Report, place: int) -> tuple[str, str]:
    """Return a number and its interval in words: counts in full, others to two digits of the noise."""
    value = found["values"][place]
    if isinstance(value, str):
        ends = (None, None) if found["lower"] is None else (found["lower"][place], found["upper"][place])
        return timed.printed(value, *ends)
    if found["lower"] is None:
        return f"{value:.10g}", ""
    lower, upper = found["lower"][place], found["upper"][place]
    half = 0.5 * (upper - lower)
    places = (
        0 if found["statistic"] in ("count", "distinct", "histogram") or not half else 1 - math.floor(math.log10(half))
    )
    value, lower, upper = (f"{each:.{min(max(places, 0), 12)}f}" for each in (value, lower, upper))
    return value, f"{lower} to {upper}"


def plain(asked: Asked, estimate: Statistic | None, part: EpsilonDeltaEvent) -> dict[str, Any]:
    """Return a released statistic as plain JSON data; None is one of no groups."""
    values: list[Any] = []
    labels: list[str] | None = []
    edges = lower = upper = None
    if isinstance(estimate, PrivateMarginals):
        values, labels, lower, upper = crossed.plain(estimate, LEVEL)
    elif estimate is not None:
        values = _listed(estimate.value)
        labels, edges, lower, upper = _plain(estimate)
    return {
        "statistic": asked.kind,
        "column": asked.column,
        "type": timed.type_of(asked.kind, asked.times),
        "values": values,
        "labels": labels,
        "edges": edges,
        "bounds": timed.ends(asked.numbers, asked.times) if asked.kind == "mean" else None,
        "lower": lower,
        "upper": upper,
        "epsilon": float(part.epsilon),
        "delta": float(part.delta),
    }


def _plain(estimate: Estimate[Any]) -> tuple[Any, ...]:
    """Return labels, edges, and the ends of intervals."""
    lower: list[Any] | None
    upper: list[Any] | None
    try:
        ends = estimate.interval(LEVEL)
        lower, upper = _listed(ends.lower), _listed(ends.upper)
    except InvalidParameter:  # a choice
        lower, upper = None, None
    labels = None if estimate.labels is None else [in_words(label) for label in estimate.labels]
    edges = None if estimate.edges is None else _listed(estimate.edges)
    if edges is not None:
        shown = [edge if isinstance(edge, str) else f"{edge:g}" for edge in edges]
        labels = [f"{low} to {high}" for low, high in itertools.pairwise(shown)]
    return labels, edges, lower, upper


def _listed(value: Any) -> list[Any]:
    found = [timed.plain(each) for each in np.atleast_1d(np.asarray(value)).tolist()]
    assert all(isinstance(each, str) or math.isfinite(each) for each in found)
    return found
