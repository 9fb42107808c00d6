"""`ferrodp plan`: what a plan costs, how much noise it needs, how many steps fit."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ferrodp import files
from ferrodp.accounting.accountants.registry import ACCOUNTANTS
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, rounded_up
from ferrodp.cli.printing.shapes import ANYTHING, EPSILON, INTEGER, NUMBER, TEXT, Fields, maybe, one_of
from ferrodp.errors import InvalidParameter, MissingPackage
from ferrodp.plan import Forecast, PrivacyPlan

_PICTURES = {".png", ".svg", ".pdf"}


def _fields(what: str, more: Fields) -> Fields:
    return {"what": one_of(what), "accountant": TEXT, "delta": NUMBER, **more}


_FIELDS = (
    _fields("max-steps", {"epsilon": NUMBER, "max_steps": INTEGER, "num_steps": INTEGER}),
    _fields("calibrate", {"epsilon": EPSILON, "plan": ANYTHING, "written": maybe(TEXT)}),
    _fields("forecast", {"forecast": ANYTHING, "written": maybe(TEXT)}),
)


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    if report["what"] == "max-steps":
        steps = "no limit" if report["max_steps"] == 2**63 - 1 else str(report["max_steps"])
        console.fields({"max_steps": steps, "num_steps": str(report["num_steps"])})
        return
    if report["what"] == "calibrate":
        written = {} if report["written"] is None else {"written": report["written"]}
        noise = " ".join(f"{name}={value}" for name, value in report["plan"]["noise"].items() if name != "type")
        console.fields({"epsilon": rounded_up(report["epsilon"], 7), "noise": noise, **written})
        if report["written"] is None:
            console.line(json.dumps(report["plan"]))
        return
    forecast = report["forecast"]
    size = forecast["expected_batch_size"]
    header = [
        "step",
        "epsilon_lower",
        "epsilon",
        "noise_multiplier",
        "noise in sum",
        *(["noise in mean"] if size else []),
    ]
    rows = []
    for step, lower, upper, multiplier, deviation in zip(
        *(forecast[name] for name in ("steps", "epsilon_lower", "epsilon", "noise_multiplier", "standard_deviation")),
        strict=True,
    ):
        mean = [f"{deviation / size:.4g}"] if size else []
        bounds = [lower if lower == "inf" else f"{lower:.6f}", upper if upper == "inf" else rounded_up(upper, 7)]
        rows.append([str(step), *bounds, f"{multiplier:.6g}", f"{deviation:.4g}", *mean])
    console.table(header, rows, left=0)
    console.line()
    relation = forecast["neighboring_relation"]
    console.line(f"for one {forecast['unit']} ({relation}), at delta = {forecast['delta']:g}")
    for note in forecast["notes"]:
        console.line(f"note: {note}")
    if report["written"] is not None:
        console.fields({"written": report["written"]})


@command(
    option("what", choices=("forecast", "calibrate", "max-steps"), help="what to find"),
    option("file", metavar="PLAN.json", help="a plan as PrivacyPlan.to_json() writes it"),
    option("--epsilon", type=float, metavar="E", help="of the target, for calibrate and max-steps"),
    option("--delta", type=float, default=1e-5, metavar="D", help="default: 1e-5"),
    option(
        "--accountant", choices=tuple(ACCOUNTANTS), default="pld", help="what proves the bound (default: %(default)s)"
    ),
    option("--points", type=int, default=11, metavar="N", help="lines of a forecast (default: %(default)s)"),
    option("-o", "--output", metavar="OUT", help="calibrate: the plan; forecast: a picture (.png, .svg, .pdf)"),
    option("--force", action="store_true", help="replace OUT if it exists"),
    show=_show,
    fields=_FIELDS,
)
def plan(args: Args, console: Console) -> Report:
    r"""Forecast, calibrate or extend a plan.

    forecast    epsilon and noise step by step, before anything runs
    calibrate   the same plan with the least noise that is proven to keep the target
    max-steps   the last number of steps that is proven to keep the target

    A plan says who takes part, how vectors are clipped, how much noise each step
    has and how many steps there are. Nothing is drawn and nothing is charged.

    examples:
      ferrodp plan forecast plan.json --delta 1e-5
      ferrodp plan calibrate plan.json --epsilon 2 -o calibrated.json
      ferrodp plan max-steps plan.json --epsilon 8 --json
    """
    found = PrivacyPlan.from_json(text_of(args.file))
    if (args.what != "forecast") != (args.epsilon is not None):
        needs = "must be given" if args.epsilon is None else "is for calibrate and max-steps"
        raise InvalidParameter(f"--epsilon {needs} ({args.what})")
    report: dict[str, Any] = {"command": "plan", "what": args.what, "accountant": args.accountant, "delta": args.delta}
    chosen = {"delta": args.delta, "accountant": args.accountant}
    if args.what == "max-steps":
        if args.output is not None:
            raise InvalidParameter("--output is for calibrate and forecast (max-steps)")
        steps = found.max_steps(epsilon=args.epsilon, **chosen)
        return report | {"epsilon": args.epsilon, "max_steps": steps, "num_steps": found.num_steps}
    if args.what == "calibrate":
        with _written(args) as write:
            calibrated = found.calibrated(epsilon=args.epsilon, **chosen)
            write((calibrated.to_json(indent=2) + "\n").encode())
        epsilon = calibrated.epsilon(args.delta, accountant=args.accountant)
        return report | {"epsilon": epsilon, "plan": json.loads(calibrated.to_json()), "written": args.output}
    if args.output is not None and Path(args.output).suffix not in _PICTURES:
        raise InvalidParameter(f"--output must end in one of {', '.join(sorted(_PICTURES))} (forecast)")
    with _written(args) as write:
        forecast = found.forecast(args.delta, num_points=args.points, accountant=args.accountant)
        if args.output is not None:
            write(_picture(forecast, Path(args.output).suffix[1:]))
    return report | {"forecast": json.loads(forecast.to_json()), "written": args.output}


def text_of(path: str) -> str:
    """Return the text of a file of at most a megabyte."""
    with Path(path).open(encoding="utf-8") as stream:
        try:
            text = stream.read(2**20 + 1)
        except UnicodeDecodeError:
            raise files.FileRefused(path, "is not UTF-8 text") from None
    if len(text) > 2**20:
        raise files.FileRefused(path, "is longer than a plan can be")
    return text


@contextlib.contextmanager
def _written(args: Args) -> Iterator[Callable[[bytes], None]]:
    """Give what writes the output, whole or not at all; nothing is written without `--output`."""
    if args.output is None:
        yield lambda data: None
        return
    with files.Destination(args.output, force=args.force) as destination:
        yield lambda data: destination.commit(lambda stream: stream.write(data))


def _picture(forecast: Forecast, suffix: str) -> bytes:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingPackage('pictures need matplotlib: pip install "ferrodp[plot]"') from None
    mpl.use("agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    forecast.plot(axes=figure.add_subplot())
    stream = io.BytesIO()
    figure.savefig(stream, format=suffix, dpi=150)
    return stream.getvalue()
