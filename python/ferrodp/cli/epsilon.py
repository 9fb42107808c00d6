"""`ferrodp epsilon`: what a plan costs."""

from __future__ import annotations

import math
from typing import Any

from ferrodp._base import _validate
from ferrodp.accounting.accountants.registry import accountant_maker
from ferrodp.cli import _events, _privacy
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, rounded_up
from ferrodp.cli.printing.shapes import EVENT, INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent, NeighboringRelation, PoissonSampledEvent, PrivacyEvent, SelfComposedEvent

_FIELDS = {
    "accountant": TEXT,
    "neighboring_relation": TEXT,
    "event": maybe(EVENT),
    "csv": maybe(TEXT),
    "rows": many(
        record(
            {
                "count": INTEGER,
                "delta": NUMBER,
                "explanation": maybe(TEXT),
                "epsilon_lower": maybe(NUMBER, "null: infinite"),
                "epsilon": maybe(NUMBER, "null: infinite"),
            },
            {"noise_multiplier": NUMBER, "sampling_probability": NUMBER},
        )
    ),
}


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    columns = {name: "{:g}".format for name in ("noise_multiplier", "sampling_probability") if report["event"] is None}
    _privacy.show_rows(
        report,
        console,
        {
            **columns,
            "count": str,
            "delta": "{:g}".format,
            "epsilon_lower": lambda value: "inf" if value is None else f"{value:.6f}",
            "epsilon": lambda value: "inf" if value is None else rounded_up(value, 7),
        },
    )


@command(
    [
        _privacy.NOISE_MULTIPLIER,
        option("--event", metavar="FILE", help="a JSON file as PrivacyEvent.to_dict() makes it, or the JSON"),
    ],
    _privacy.SAMPLING_PROBABILITY,
    option("--count", type=_privacy.counts, default=[1], metavar="T", help="number of steps (default: 1)"),
    option("--delta", type=_privacy.reals, default=[1e-5], metavar="D", help="default: 1e-5"),
    *_privacy.COMMON,
    show=_show,
    fields=_FIELDS,
    notes=_privacy.RANGES,
)
def epsilon(args: Args, console: Console) -> Report:
    r"""Bound the epsilon of a plan.

    Bound the epsilon of T Gaussian releases with Poisson sampling (DP-SGD), or of
    any event written as JSON.

    The answer is proven: the true epsilon is not above the upper bound and not
    below the lower one, rounding included. Accountants other than pld and gdp have
    no lower bounds and print 0.

    examples:
      ferrodp epsilon --noise-multiplier 1.1 --sampling-probability 0.01 \
          --count 10000
      ferrodp epsilon --noise-multiplier 0.6:2:15 --sampling-probability 0.01 \
          --count 1000:100000:x5 --csv sweep.csv
      ferrodp epsilon --event plan.json --delta 1e-6 --explain
    """
    make = accountant_maker(args.accountant, NeighboringRelation(args.neighboring_relation))
    given = None if args.event is None else _events.read(args.event)
    if given is not None and args.sampling_probability is not None:
        raise InvalidParameter(
            "--sampling-probability cannot be combined with --event: the event says how it is sampled"
        )
    if given is not None and args.null_distance != math.inf:
        raise InvalidParameter("--null-distance cannot be combined with --event: the event says it")
    options: dict[str, Any] = {}
    if given is None:
        options["noise_multiplier"] = [
            _validate.positive("--noise-multiplier", z, toward="down") for z in args.noise_multiplier
        ]
        rates = args.sampling_probability or [1.0]
        options["sampling_probability"] = [_validate.probability("--sampling-probability", q) for q in rates]
    options["count"] = [_validate.count("--count", count, minimum=0) for count in args.count]
    options["delta"] = [_validate.delta(delta, name="--delta") for delta in args.delta]

    def answer(setting: dict[str, Any]) -> dict[str, Any]:
        event = given if given is not None else _step(setting, args.null_distance)
        accountant = make()
        accountant.compose(SelfComposedEvent(event=event, count=setting["count"]))
        bounds = accountant.epsilon_bounds(setting["delta"])
        explanation = str(accountant.explain(setting["delta"])) if args.explain else None
        finite = {"epsilon_lower": bounds.lower, "epsilon": bounds.upper}
        return {**{k: v if v < float("inf") else None for k, v in finite.items()}, "explanation": explanation}

    rows = _privacy.computed(_privacy.combinations(options), answer, args, console)
    return {
        "command": "epsilon",
        "accountant": args.accountant,
        "neighboring_relation": args.neighboring_relation,
        "event": None if given is None else given.to_dict(),
        "csv": args.csv,
        "rows": rows,
    }


def _step(setting: dict[str, Any], null_distance: float) -> PrivacyEvent:
    gaussian = GaussianEvent(noise_multiplier=setting["noise_multiplier"])
    probability = setting["sampling_probability"]
    return PoissonSampledEvent(sampling_probability=probability, event=gaussian, null_distance=null_distance)
