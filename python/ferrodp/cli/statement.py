"""`ferrodp statement`: a privacy statement of a plan or of a scope of a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ferrodp import files
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.plan import text_of
from ferrodp.cli.printing.shapes import ANYTHING, TEXT, maybe
from ferrodp.errors import InvalidParameter
from ferrodp.plan import PrivacyPlan
from ferrodp.statements import Statement, statement

_WRITERS = {".md": Statement.to_markdown, ".html": Statement.to_html, ".json": Statement.to_json}


def _show(report: Report, console: Console) -> None:
    """Print the statement, or where it was written."""
    if report["written"] is not None:
        console.fields({"written": report["written"]})
        return
    for line in report["text"].splitlines():
        console.line(line)


def _detail(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(text)
    return name, value


_detail.__name__ = "detail NAME=TEXT"  # what argparse calls it


@command(
    option("plan", nargs="?", metavar="PLAN.json", help="a plan as PrivacyPlan.to_json() writes it"),
    option("--ledger", metavar="LEDGER", help="or a ledger: a file or postgresql://..."),
    option("--scope", metavar="NAME", help="of the ledger"),
    option("--delta", type=float, metavar="D", help="of a plan: at which epsilon is stated (default: 1e-5)"),
    option("--unit", metavar="WORD", help="what is protected, such as patient"),
    option("--detail", action="append", type=_detail, metavar="NAME=TEXT", help="what you add; repeat it for several"),
    option("-o", "--output", metavar="OUT", help="write it there: .md, .html or .json (default: Markdown, printed)"),
    option("--force", action="store_true", help="replace OUT if it exists"),
    show=_show,
    fields={"statement": ANYTHING, "text": TEXT, "written": maybe(TEXT)},
)
def statement_(args: Args, _: Console) -> Report:
    r"""Say what is promised, for a review board.

    Say what is promised about a plan, or about a scope of a ledger: what is
    protected, what is released, the certified epsilon, what an attacker gains in
    plain words, the assumptions, and what proves it. It holds parameters, times
    and bounds, nothing computed from data, and no keys, reasons or users.

    examples:
      ferrodp statement plan.json --delta 1e-6 --unit patient
      ferrodp statement --ledger budget.db --scope hospital --unit patient \
          --detail "curator=A hospital" -o statement.html
    """
    if args.scope is not None and args.ledger is None:
        args.ledger = _ledgers.default()
    if (args.plan is None) == (args.ledger is None):
        raise InvalidParameter("exactly one of PLAN.json and --ledger (or FERRODP_LEDGER with --scope) must be given")
    suffix = None if args.output is None else Path(args.output).suffix
    if suffix is not None and suffix not in _WRITERS:
        raise InvalidParameter(f"--output must end in one of {', '.join(_WRITERS)}, got {args.output!r}")
    options: dict[str, Any] = {"unit": args.unit, "details": dict(args.detail or ())}
    if args.plan is not None:
        if args.scope is not None:
            raise InvalidParameter("--scope must come with --ledger")
        delta = 1e-5 if args.delta is None else args.delta
        found = statement(PrivacyPlan.from_json(text_of(args.plan)), delta=delta, **options)
    else:
        if args.delta is not None:
            raise InvalidParameter("--delta must be left out with --ledger: the scope has one")
        with _ledgers.opened(args.ledger, read_only=True) as ledger:
            found = statement(ledger, args.scope, **options)
    text = _WRITERS[suffix or ".md"](found)
    if args.output is not None:
        with files.Destination(args.output, force=args.force) as destination:
            destination.commit(lambda stream: stream.write(text.encode()))
    return {"command": "statement", "statement": found.to_dict(), "text": text, "written": args.output}
