"""`ferrodp ledger`: budgets that outlive the process, from the shell."""

from __future__ import annotations

import argparse
from typing import Any

from ferrodp.cli._console import Console, Report
from ferrodp.cli.ledger import charges as _ledger_charges
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.ledger import operations as _ledger_operations
from ferrodp.cli.ledger import reading as _ledger_reading
from ferrodp.cli.ledger import scopes as _ledger_scopes
from ferrodp.cli.ledger import tickets as _ledger_tickets

_DESCRIPTION = """\
Keep privacy budgets in a ledger: a file that any number of processes share, or
a PostgreSQL server. What is charged never exceeds a budget, under full
adaptivity, and what is acknowledged is on the disk. A cost is charged before
its noise is drawn; a crash can waste a charge, never give one back.

Every command first verifies what is new since the ledger's last checkpoint, and
'ferrodp ledger verify' the whole log."""

_EPILOG = """\
examples:
  ferrodp ledger create budget.db --scope hospital --epsilon 4 --delta 1e-6
  ferrodp ledger spend budget.db --scope hospital --noise-multiplier 10 \\
      --key survey-3
  ferrodp ledger status budget.db

'ferrodp ledger ACTION --help' explains an action."""

_PARTS = (_ledger_scopes, _ledger_charges, _ledger_reading, _ledger_tickets, _ledger_operations)
_ACTIONS: dict[str, _ledgers.Action] = {name: action for part in _PARTS for name, action in part.ACTIONS.items()}
_ORDER = (
    *("create", "status", "history", "reserve", "spend", "verify", "export"),
    *("tickets", "cancel"),
    *("freeze", "thaw", "raise-cap", "lower-cap", "grant"),
    *("backup", "import", "migrate"),
)


def register(commands: Any) -> argparse.ArgumentParser:
    """Declare the command, its actions and their arguments."""
    layout = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        "ledger",
        help="keep privacy budgets in a ledger",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=layout,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name in _ORDER:
        action = _ACTIONS[name]
        each = actions.add_parser(
            name,
            help=action.summary,
            description=action.description,
            epilog=f"example:\n{action.example}",
            formatter_class=layout,
            allow_abbrev=False,
        )
        _ledgers.add_ledger(each.add_argument)
        action.add(each.add_argument)
        if action.only_reads:
            each.add_argument(
                "--read-only", action="store_true", help="write nothing, no checkpoint either: also on a replica"
            )
        each.add_argument(
            "--json",
            action="store_true",
            default=argparse.SUPPRESS,  # "ferrodp ledger --json status" is as good
            help="print exactly one JSON object instead of text",
        )
    return parser


def run(args: argparse.Namespace, console: Console) -> Report:
    """Run one action."""
    where = _ledgers.chosen(args)
    report = {"command": f"ledger {args.action}", "ledger": _ledgers.shown(where)}
    return report | _ACTIONS[args.action].run(args, where)


def show(report: Report, console: Console) -> None:
    """Print the report for people."""
    _ACTIONS[report["command"].partition(" ")[2]].show(report, console)
