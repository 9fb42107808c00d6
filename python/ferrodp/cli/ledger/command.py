"""`ferrodp ledger`: budgets that outlive the process, from the shell."""

from __future__ import annotations

import argparse
import dataclasses

from ferrodp.cli._command import GENERAL, Args, add_options, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.ledger import charges, operations, reading, releases, scopes, tickets
from ferrodp.cli.ledger.common import LEDGER, chosen, shown

ACTIONS = {
    "create": scopes.create,
    "status": reading.status,
    "history": reading.history,
    "report": releases.report,
    "reserve": charges.reserve,
    "spend": charges.spend,
    "verify": reading.verify,
    "export": reading.export,
    "tickets": tickets.tickets,
    "cancel": tickets.cancel,
    "freeze": scopes.freeze,
    "thaw": scopes.thaw,
    "raise-cap": scopes.raise_cap,
    "lower-cap": scopes.lower_cap,
    "grant": operations.grant,
    "backup": operations.backup,
    "import": operations.import_,
    "migrate": operations.migrate,
}
_READ_ONLY = option("--read-only", action="store_true", help="write nothing, no checkpoint either: also on a replica")


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, action in ACTIONS.items():
        each = dataclasses.replace(action, options=(*LEDGER, *action.options)).declare(actions, name)
        add_options(each, [_READ_ONLY, *GENERAL] if action.only_reads else GENERAL)


def _show(report: Report, console: Console) -> None:
    ACTIONS[report["command"].partition(" ")[2]].show(report, console)


@command(show=_show)
def ledger(args: Args, _: Console) -> Report:
    r"""Keep privacy budgets in a ledger.

    Keep privacy budgets in a ledger: a file that any number of processes share, or
    a PostgreSQL server. What is charged never exceeds a budget, under full
    adaptivity, and what is acknowledged is on the disk. A cost is charged before
    its noise is drawn; a crash can waste a charge, never give one back.

    Every command first verifies what is new since the ledger's last checkpoint, and
    'ferrodp ledger verify' the whole log.

    examples:
      ferrodp ledger create budget.db --scope hospital --epsilon 4 --delta 1e-6
      ferrodp ledger spend budget.db --scope hospital --noise-multiplier 10 \
          --key survey-3
      ferrodp ledger status budget.db

    'ferrodp ledger ACTION --help' explains an action.
    """
    args.where = chosen(args)
    report = {"command": f"ledger {args.action}", "ledger": shown(args.where)}
    return report | ACTIONS[args.action].run(args)
