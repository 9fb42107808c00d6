"""`ferrodp audit`: tests of mechanisms, of trainings and of code."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ferrodp
from ferrodp._base._pictures import pyplot_of
from ferrodp.audit import (
    AuditReport,
    CanaryReport,
    CodeReport,
    audit_canaries,
    audit_code,
    audit_mechanism,
    keep_evidence,
    plot_roc,
)
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.printing import shapes
from ferrodp.errors import InvalidParameter
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism
from ferrodp.training import train

_NAMES = ("gaussian", "laplace")
_BOUND = {"anyOf": [shapes.NUMBER, shapes.TEXT]}
_EVIDENCE = {
    "evidence": shapes.maybe(
        shapes.record({"runs": shapes.INTEGER, "log_e_value": shapes.NUMBER, "violation": shapes.FLAG}),
        "without --evidence",
    )
}
_ALL = {**dict.fromkeys(("version", "claim", "text"), shapes.TEXT), "violation": shapes.FLAG}
_TESTED = {
    **_ALL,
    **_EVIDENCE,
    **dict.fromkeys(("epsilon", "delta", "log_e_value"), shapes.NUMBER),
    **dict.fromkeys(("epsilon_lower_bound", "power", "e_value"), _BOUND),
    "roc": shapes.many(shapes.many(shapes.NUMBER)),
}
_FIELDS = (
    {
        "what": shapes.one_of("mechanism"),
        **_TESTED,
        "event": shapes.EVENT,
        **dict.fromkeys(("region", "likelier"), shapes.TEXT),
        "law_holds": shapes.maybe(shapes.FLAG),
        "confidence": shapes.NUMBER,
        "neighbors": shapes.many(shapes.TEXT),
        **dict.fromkeys(("draws", "counted", "multiplicity"), shapes.INTEGER),
        "hits": shapes.many(shapes.INTEGER),
        "rates": shapes.many(shapes.many(shapes.NUMBER)),
        "curve": shapes.many(shapes.many(_BOUND)),
        "epsilon_lower_bound_999": _BOUND,
    },
    {
        "what": shapes.one_of("training"),
        **_TESTED,
        **dict.fromkeys(("canaries", "included", "guesses", "correct"), shapes.INTEGER),
        **dict.fromkeys(("method", "assumes"), shapes.TEXT),
        "confidence": shapes.NUMBER,
        "bounds": shapes.named(_BOUND),
    },
    {
        "what": shapes.one_of("code"),
        **_ALL,
        "neighbors": shapes.INTEGER,
        "releases": shapes.many(shapes.ANYTHING),
        "findings": shapes.many(shapes.ANYTHING),
    },
)
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
    option("what", choices=("mechanism", "training", "code"), help="what to test"),
    option("subject", nargs="?", help="gaussian or laplace; of code FILE.py:FUNCTION"),
    option("--epsilon", type=float, metavar="E", help="of the claim; not for code"),
    option("--delta", type=float, default=1e-5, metavar="D", help="of the claim (default: 1e-5)"),
    option(
        "--confidence",
        type=float,
        metavar="C",
        help="with which a true claim raises no alarm; not for code (default: 0.999). Near 1 if many tests are run",
    ),
    option("--draws", type=_whole, default=10**7, metavar="N", help="mechanism: of each neighbor (default: 1e7)"),
    option("--canaries", type=_whole, default=1000, metavar="M", help="training: how many (default: 1000)"),
    option("--scores", metavar="FILE", help="training: scores of canaries, .npy, of a training elsewhere"),
    option("--included", metavar="FILE", help="training: which canaries took part, .npy of bool"),
    option(
        "--method",
        choices=("guesses", "f_dp", "gaussian"),
        help="training: which bound decides, with --scores (default: guesses)",
    ),
    option("--dataset", metavar="FILE", help="code: what the function is given, .npy"),
    option("--evidence", metavar="FILE", help="append the e-value, and report that of all runs in there"),
    option("--plot", metavar="FILE", help="write a picture: false and true alarms below what the claim allows"),
    show=_show,
    fields=_FIELDS,
)
def audit(args: Args, console: Console) -> Report:
    r"""Test whether outputs contradict a privacy claim, or code uses private data.

    mechanism: it is calibrated to (epsilon, delta) and released on two neighbors.
    The event that shows most is chosen on some draws and counted on the others.
    training: canaries, units of no person that coins put into it, are told from
    its outputs; without --scores, the trainer of this library runs on made-up data.
    code: a run of a function on a dataset is recorded, and replayed without each
    of the first records.

    A test can show that a claim is false, not that it is true: the report says how
    small a violation could have been seen.

    examples:
      ferrodp audit mechanism gaussian --epsilon 1 --delta 1e-5 --draws 1e8
      ferrodp audit mechanism laplace --epsilon 0.5 --draws 1e6 --evidence e.jsonl
      ferrodp audit training --epsilon 4 --canaries 10000 --plot roc.svg
      ferrodp audit training --epsilon 4 --scores s.npy --included in.npy --json
      ferrodp audit code pipeline.py:report --dataset rows.npy
    """
    extra: dict[str, Any] = {}
    found: AuditReport | CanaryReport | CodeReport
    if args.what == "code":
        found = _code(args)
    elif args.epsilon is None:
        raise InvalidParameter(f"--epsilon must be given for audit {args.what}")
    elif args.what == "training":
        found = _training(args)
    else:
        found, extra = _mechanism(args)
    if not isinstance(found, CodeReport):
        extra["evidence"] = None
        if args.plot:
            figure: Any = plot_roc(found).figure
            figure.savefig(args.plot)
            pyplot_of().close(figure)
        if args.evidence:
            kept = keep_evidence(args.evidence, found)
            extra["evidence"] = {"runs": kept.runs, "log_e_value": kept.log_e_value, "violation": kept.violation}
    text = str(found)
    if extra.get("evidence"):
        text += f"\nall runs         {kept.runs}, logarithm of the e-value {kept.log_e_value:.4g}"
    return {
        "command": "audit",
        "what": args.what,
        "version": ferrodp.__version__,
        **extra,
        **found.to_dict(),
        "text": text,
    }


def _certainty(args: Args) -> dict[str, Any]:
    """Return the confidence, if one was given."""
    return {} if args.confidence is None else {"confidence": args.confidence}


def _mechanism(args: Args) -> tuple[AuditReport, dict[str, Any]]:
    mechanism: GaussianMechanism | LaplaceMechanism
    if args.subject == "gaussian":
        mechanism = GaussianMechanism.calibrated(epsilon=args.epsilon, delta=args.delta, l2_sensitivity=1.0)
    elif args.subject == "laplace":
        if not 0.0 < args.epsilon < float("inf"):
            raise InvalidParameter(f"--epsilon must be finite and > 0, got {args.epsilon!r}")
        mechanism = LaplaceMechanism(scale=1.0 / args.epsilon, l1_sensitivity=1.0)
    else:
        raise InvalidParameter(f"subject must be one of {', '.join(_NAMES)}, got {args.subject!r}")
    report = audit_mechanism(mechanism, epsilon=args.epsilon, delta=args.delta, draws=args.draws, **_certainty(args))
    return report, {"event": mechanism.event.to_dict()}


def _training(args: Args) -> CanaryReport:
    if (args.scores is None) != (args.included is None):
        raise InvalidParameter("--scores and --included must be given together")
    if args.scores is not None:
        return audit_canaries(
            _array(args.scores),
            _array(args.included),
            epsilon=args.epsilon,
            delta=args.delta,
            method=args.method or "guesses",
            claim="training elsewhere",
            **_certainty(args),
        )
    if args.method is not None or args.confidence is not None:
        raise InvalidParameter(
            "--method and --confidence need --scores; a run of this library's trainer reports all three bounds at 0.999"
        )
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=1000)
    rows = np.eye(3)[labels] + rng.normal(scale=0.3, size=(1000, 3))
    options: dict[str, Any] = {"classes": range(3), "audit_canaries": args.canaries}
    model = train(rows, labels, epsilon=args.epsilon, delta=args.delta, **options)
    if model.audit is None:
        raise InvalidParameter(f"--canaries must be at least 20, got {args.canaries}")
    return model.audit


def _code(args: Args) -> CodeReport:
    if args.evidence or args.plot or args.confidence is not None:
        raise InvalidParameter("--evidence, --plot and --confidence are for audits that draw, not for code")
    if args.subject is None or args.dataset is None:
        raise InvalidParameter("FILE.py:FUNCTION and --dataset must be given for audit code")
    return audit_code(_function(args.subject), _array(args.dataset))


def _function(name: str) -> Callable[[Any], Any]:
    """Return a function by the path of its file and its name."""
    path, _, member = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("audited", path) if Path(path).is_file() else None
    if spec is None or spec.loader is None:
        raise InvalidParameter(f"code must be FILE.py:FUNCTION, got {name!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, member, None)
    if not callable(found):
        raise InvalidParameter(f"code must be FILE.py:FUNCTION; the file has no function {member!r}")
    function: Callable[[Any], Any] = found
    return function


def _array(path: str) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidParameter(f"{path} must be an .npy file: {error}") from None
