"""Events on the command line: noise with its sampling, a stated (ε, δ), or any event as JSON."""

from __future__ import annotations

import argparse
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from ferrodp._base import _validate
from ferrodp.cli._command import Args, null_distance_option, option
from ferrodp.errors import InvalidParameter
from ferrodp.events import (
    EpsilonDeltaEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    SelfComposedEvent,
)

_NOISES: dict[str, type[GaussianEvent] | type[LaplaceEvent]] = {"gaussian": GaussianEvent, "laplace": LaplaceEvent}
_LONGEST = 200


def number(text: str) -> Decimal | Fraction:
    """Parse a number as exactly what is written: "0.1" is one tenth, "1/3" a third."""
    try:
        if len(text) > _LONGEST:
            raise ValueError
        if "/" in text:
            above, below = text.split("/")
            return Fraction(int(above), int(below))
        return Decimal(text)
    except (ValueError, ArithmeticError):
        raise argparse.ArgumentTypeError(f"{text[:_LONGEST]!r} is not a number") from None


OPTIONS = (
    option("--noise-multiplier", type=float, metavar="Z", help="noise of the release over its sensitivity"),
    option("--mechanism", choices=tuple(_NOISES), help="what noise it is (default: gaussian)"),
    option(
        "--sampling-probability",
        type=float,
        metavar="Q",
        help="chance that a record takes part in it, independently (default: 1)",
    ),
    null_distance_option(None),
    option(
        "--epsilon", type=number, metavar="E", help="of a release that is stated to be (E, D)-private; taken exactly"
    ),
    option("--delta", type=number, metavar="D", help="of such a release (default: 0)"),
    option("--event", metavar="FILE", help="a JSON file as PrivacyEvent.to_dict() makes it, or the JSON itself"),
    option("--count", type=int, metavar="T", help="so many of them (default: 1)"),
)
"""What describes an event; see `given`."""


def is_given(args: Args) -> bool:
    """Whether any option says what the event is."""
    names = [name.removeprefix("--").replace("-", "_") for (name,), _ in OPTIONS]
    return any(getattr(args, name) is not None for name in names)


def given(args: Args) -> PrivacyEvent:
    """Return the event that `OPTIONS` describe."""
    sources = {"--noise-multiplier": args.noise_multiplier, "--epsilon": args.epsilon, "--event": args.event}
    named = [name for name, value in sources.items() if value is not None]
    if len(named) != 1:
        found = " and ".join(named) or "none of them"
        raise InvalidParameter(f"the event must be given by one of {', '.join(sources)}, got {found}")
    _refuse_others(args, named[0])
    event: PrivacyEvent
    if args.event is not None:
        event = read(args.event)
    elif args.epsilon is not None:
        event = EpsilonDeltaEvent(epsilon=args.epsilon, delta=0.0 if args.delta is None else args.delta)
    else:
        event = _NOISES[args.mechanism or "gaussian"](noise_multiplier=args.noise_multiplier)
    if args.sampling_probability is not None:
        distance = math.inf if args.null_distance is None else args.null_distance
        event = PoissonSampledEvent(sampling_probability=args.sampling_probability, event=event, null_distance=distance)
    elif args.null_distance is not None:
        raise InvalidParameter("--null-distance must be left out without --sampling-probability")
    if args.count is None:
        return event
    count = _validate.count("--count", args.count)
    return event if count == 1 else SelfComposedEvent(event=event, count=count)


def read(text: str) -> PrivacyEvent:
    """Return the event of a JSON file, or of JSON text."""
    try:
        source = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
        data = json.loads(source)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise InvalidParameter(f"--event must name a JSON file, {_validate.shown(text)} holds something else") from None
    return PrivacyEvent.from_dict(data)


def told(event: PrivacyEvent | None) -> str:
    """Write an event in a few words."""
    match event:
        case SelfComposedEvent(event=inner, count=count):
            return f"{count} x {told(inner)}"
        case PoissonSampledEvent(event=inner, sampling_probability=chance):
            return f"{told(inner)}, sampled {chance:g}"
        case GaussianEvent(noise_multiplier=multiplier):
            return f"gaussian {multiplier:g}"
        case LaplaceEvent(noise_multiplier=multiplier):
            return f"laplace {multiplier:g}"
        case EpsilonDeltaEvent(epsilon=epsilon, delta=delta):
            return f"epsilon {float(epsilon):g}" + (f", delta {float(delta):g}" if delta else "")
        case None:
            return ""
    return event.kind.replace("_", " ")


def _refuse_others(args: Args, source: str) -> None:
    """Refuse options that say nothing about an event of this kind, rather than ignore them."""
    belongs = {
        "mechanism": ("--noise-multiplier",),
        "sampling_probability": ("--noise-multiplier", "--epsilon"),
        "null_distance": ("--noise-multiplier",),
        "delta": ("--epsilon",),
    }
    for name, sources in belongs.items():
        if getattr(args, name) is not None and source not in sources:
            raise InvalidParameter(f"--{name.replace('_', '-')} cannot be combined with {source}")
