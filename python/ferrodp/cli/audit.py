"""`ferrodp audit`: statistical tests of privacy claims."""

from __future__ import annotations

import argparse
import contextlib

import ferrodp
from ferrodp.audit import AuditReport, audit_mechanism
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.printing import shapes
from ferrodp.errors import InvalidParameter
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism

_NAMES = ("gaussian", "laplace")
_BOUND = {"anyOf": [shapes.NUMBER, shapes.TEXT]}
_FIELDS = {
    "what": shapes.TEXT,
    "version": shapes.TEXT,
    "event": shapes.EVENT,
    **dict.fromkeys(("claim", "region", "likelier", "text"), shapes.TEXT),
    **dict.fromkeys(("violation",), shapes.FLAG),
    "law_holds": shapes.maybe(shapes.FLAG),
    "neighbors": shapes.many(shapes.TEXT),
    **dict.fromkeys(("draws", "counted"), shapes.INTEGER),
    "hits": shapes.many(shapes.INTEGER),
    "rates": shapes.many(shapes.many(shapes.NUMBER)),
    "curve": shapes.many(shapes.many(_BOUND)),
    "multiplicity": shapes.INTEGER,
    **dict.fromkeys(("epsilon", "delta"), shapes.NUMBER),
    **dict.fromkeys(("epsilon_lower_bound", "epsilon_lower_bound_999", "power"), _BOUND),
    **dict.fromkeys(("e_value", "log_e_value"), _BOUND),
}
"""A bound that is infinite is the text "inf"."""


def _whole(text: str) -> int:
    """Read a whole number, written like 100000000 or 1e8."""
    with contextlib.suppress(ValueError, OverflowError):
        if float(text) == int(float(text)):
            return int(text) if text.isdigit() else int(float(text))
    raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")


def _show(report: Report, console: Console) -> None:
    """Print the report for people."""
    for line in report["text"].splitlines():
        console.line(line)


@command(
    option("what", choices=("mechanism",), help="what to test"),
    option("mechanism", choices=_NAMES, help="whose noise"),
    option("--epsilon", type=float, required=True, metavar="E", help="of the claim"),
    option("--delta", type=float, default=1e-5, metavar="D", help="of the claim (default: 1e-5)"),
    option("--draws", type=_whole, default=10**7, metavar="N", help="of each neighbor (default: 1e7)"),
    show=_show,
    fields=_FIELDS,
)
def audit(args: Args, console: Console) -> Report:
    r"""Test whether outputs contradict a privacy claim.

    The mechanism is calibrated to (epsilon, delta) and released on two neighbors.
    The event that shows most is chosen on a part of the draws and counted on the
    others; its bounds are exact. A test can show that a claim is false, not that it
    is true: the report says how small a violation could have been seen.

    examples:
      ferrodp audit mechanism gaussian --epsilon 1 --delta 1e-5 --draws 1e8
      ferrodp audit mechanism laplace --epsilon 0.5 --draws 1e6 --json
    """
    mechanism: GaussianMechanism | LaplaceMechanism
    if args.mechanism == "gaussian":
        mechanism = GaussianMechanism.calibrated(epsilon=args.epsilon, delta=args.delta, l2_sensitivity=1.0)
    else:
        if not 0.0 < args.epsilon < float("inf"):
            raise InvalidParameter(f"--epsilon must be finite and > 0, got {args.epsilon!r}")
        mechanism = LaplaceMechanism(scale=1.0 / args.epsilon, l1_sensitivity=1.0)
    found: AuditReport = audit_mechanism(mechanism, epsilon=args.epsilon, delta=args.delta, draws=args.draws)
    return {
        "command": "audit",
        "what": args.what,
        "version": ferrodp.__version__,
        "event": mechanism.event.to_dict(),
        **found.to_dict(),
        "text": str(found),
    }
