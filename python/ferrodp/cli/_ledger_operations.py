"""Running a ledger from the shell: who may do what on a server."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ferrodp.cli._console import Console, Report
from ferrodp.cli._ledgers import Action

_RIGHTS = ("reader", "spender", "operator")


def _add_grant(add: Callable[..., Any]) -> None:
    add("--role", required=True, metavar="ROLE", help="a role that the server knows")
    add("--rights", required=True, choices=_RIGHTS, metavar="RIGHTS", help="reader, spender or operator")


def _grant(args: argparse.Namespace, where: str) -> Report:
    from ferrodp.budget.postgres import grant

    grant(where, args.role, args.rights)
    return {"role": args.role, "rights": args.rights}


def _show_grant(report: Report, console: Console) -> None:
    console.fields({"ledger": report["ledger"], "role": report["role"], "rights": report["rights"]})


ACTIONS = {
    "grant": Action(
        "say what a role of the server may do",
        "Say what a role of a PostgreSQL server may do: a reader sees everything, a\n"
        "spender also reserves and releases, an operator also creates scopes, changes\n"
        "budgets, freezes and thaws. What the role had before is taken away. Run it as\n"
        "the owner of the ledger, and let programs connect as a spender.",
        "  ferrodp ledger grant postgresql://owner@db/privacy --role trainer \\\n      --rights spender",
        _add_grant,
        _grant,
        _show_grant,
    ),
}
