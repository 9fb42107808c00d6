"""`ferrodp calibrate`: the noise, the number of steps or the sampling probability that keeps a target."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from ferrodp._base import _validate
from ferrodp.accounting import calibration
from ferrodp.accounting.calibration import CalibratedCount, CalibratedValue
from ferrodp.cli import _privacy
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.printing.shapes import INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.errors import InvalidParameter
from ferrodp.events import GaussianEvent, NeighboringRelation, PoissonSampledEvent

_FIELDS = {
    "what": TEXT,
    "accountant": TEXT,
    "neighboring_relation": TEXT,
    "csv": maybe(TEXT),
    "rows": many(
        record(
            {
                **dict.fromkeys(("epsilon", "delta", "noise_multiplier", "sampling_probability"), NUMBER),
                "count": INTEGER,
                "gap": maybe(NUMBER),
                "epsilon_proven": NUMBER,
                "explanation": maybe(TEXT),
            }
        )
    ),
}


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    wanted = report["what"]
    names = ("epsilon", "delta", "noise_multiplier", "sampling_probability", "count")
    columns: dict[str, Any] = {name: "{:g}".format if name != "count" else str for name in names if name != wanted}
    rounding = ROUND_CEILING if wanted == "noise_multiplier" else ROUND_FLOOR
    columns[wanted] = str if wanted == "count" else lambda value: _shortened(value, rounding)
    columns["gap"] = lambda gap: "unknown" if gap is None else f"{gap:.2g}"
    _privacy.show_rows(report, console, columns)


@command(
    option("what", choices=("noise-multiplier", "count", "sampling-probability"), help="what to find"),
    option("--epsilon", type=_privacy.reals, required=True, metavar="E", help="of the target"),
    option("--delta", type=_privacy.reals, default=[1e-5], metavar="D", help="of the target (default: 1e-5)"),
    _privacy.NOISE_MULTIPLIER,
    _privacy.SAMPLING_PROBABILITY,
    option("--count", type=_privacy.counts, metavar="T", help="number of steps (default: 1)"),
    *_privacy.COMMON,
    show=_show,
    fields=_FIELDS,
    notes=_privacy.RANGES,
)
def calibrate(args: Args, console: Console) -> Report:
    r"""Find the parameter that keeps a target.

    Find the least noise multiplier, the largest number of steps, or the largest
    sampling probability for which T Gaussian releases with Poisson sampling are
    (epsilon, delta)-differentially private.

    The answer is proven to keep the target. The gap says how far the best possible
    one can be.

    examples:
      ferrodp calibrate noise-multiplier --epsilon 3 --sampling-probability 0.01 \
          --count 5000
      ferrodp calibrate count --epsilon 8 --noise-multiplier 1.1 \
          --sampling-probability 0.01
      ferrodp calibrate sampling-probability --epsilon 1,2,4 --noise-multiplier 1 \
          --count 1000 --json
    """
    wanted = args.what.replace("-", "_")
    given = {
        "noise_multiplier": args.noise_multiplier,
        "sampling_probability": args.sampling_probability,
        "count": args.count,
    }
    if given.pop(wanted) is not None:
        raise InvalidParameter(f"--{args.what} is what is to be found, it cannot be given too")
    if wanted != "noise_multiplier" and given["noise_multiplier"] is None:
        raise InvalidParameter(f"--noise-multiplier must be given to find the {args.what}")
    defaults: dict[str, list[Any]] = {"sampling_probability": [1.0], "count": [1]}
    options = {"epsilon": args.epsilon, "delta": args.delta, **{k: v or defaults[k] for k, v in given.items()}}
    common = {
        "accountant": args.accountant,
        "neighboring_relation": NeighboringRelation(args.neighboring_relation),
        "null_distance": args.null_distance,
    }

    def answer(setting: dict[str, Any]) -> dict[str, Any]:
        found = _found(wanted, setting, common.copy())
        number = int(found) if isinstance(found, CalibratedCount) else float(found)
        explanation = str(found.explain()) if args.explain else None
        gap = found.gap if math.isfinite(found.gap) else None
        return {wanted: number, "gap": gap, "epsilon_proven": found.epsilon_bounds.upper, "explanation": explanation}

    rows = _privacy.computed(_privacy.combinations(options), answer, args, console)
    return {
        "command": "calibrate",
        "what": wanted,
        "accountant": args.accountant,
        "neighboring_relation": args.neighboring_relation,
        "csv": args.csv,
        "rows": rows,
    }


def _found(wanted: str, setting: dict[str, Any], common: dict[str, Any]) -> CalibratedValue | CalibratedCount:
    _validate.positive("--epsilon", setting["epsilon"])
    target = {"target_epsilon": setting["epsilon"], "target_delta": setting["delta"]}
    rest = {name: value for name, value in setting.items() if name not in ("epsilon", "delta")}
    if wanted == "noise_multiplier":
        return calibration.calibrate_noise_multiplier(**target, **rest, **common)
    if wanted == "sampling_probability":
        return calibration.calibrate_sampling_probability(**target, **rest, **common)
    gaussian = GaussianEvent(noise_multiplier=rest["noise_multiplier"])
    step = PoissonSampledEvent(
        sampling_probability=rest["sampling_probability"], event=gaussian, null_distance=common.pop("null_distance")
    )
    return calibration.calibrate_count(step, **target, **common)


def _shortened(value: float, rounding: str) -> str:
    """Write a parameter with nine digits, rounded to its safe side."""
    return f"{Context(prec=9, rounding=rounding).create_decimal(Decimal(value)):f}"
