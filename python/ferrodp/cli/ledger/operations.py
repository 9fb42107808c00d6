"""Running a ledger from the shell: copies of it, another place for it, and who may do what on a server."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.ledger.common import Action

_RIGHTS = ("reader", "spender", "operator")


def _add_grant(add: Callable[..., Any]) -> None:
    add("--role", required=True, metavar="ROLE", help="a role that the server knows")
    add("--rights", required=True, choices=_RIGHTS, metavar="RIGHTS", help="reader, spender or operator")


def _grant(args: argparse.Namespace, where: str) -> Report:
    from ferrodp.budget import grant

    grant(where, args.role, args.rights)
    return {"role": args.role, "rights": args.rights}


def _show_grant(report: Report, console: Console) -> None:
    console.fields({"ledger": report["ledger"], "role": report["role"], "rights": report["rights"]})


def _add_backup(add: Callable[..., Any]) -> None:
    add("-o", "--output", required=True, metavar="FILE", help="write there, whole or not at all; packed if named .gz")
    add("--force", action="store_true", help="replace FILE if it exists")


def _backup(args: argparse.Namespace, where: str) -> Report:
    with _ledgers.opened(where, verify=False, read_only=args.read_only) as ledger:  # `backup` verifies
        head = ledger.backup(args.output, force=args.force)
    return {"output": args.output, "records": head.sequence, "head": str(head)}


def _show_backup(report: Report, console: Console) -> None:
    console.fields({"written": f"{report['output']} ({counted(report['records'], 'record')})", "head": report["head"]})
    console.line()
    console.line("Keep the head with it: 'import --witness HEAD' then takes this backup and no older one.")


def _add_import(add: Callable[..., Any]) -> None:
    add("--from", dest="source", required=True, metavar="FILE", help="what 'backup' or 'export -o' wrote")
    add("--witness", metavar="HEAD", help="a head that FILE has to contain")
    add("--reason", required=True, metavar="TEXT", help="goes into the log")


def _import(args: argparse.Namespace, where: str) -> Report:
    from ferrodp.budget import import_ledger

    head = import_ledger(args.source, where, reason=args.reason, witness=args.witness)
    return {"source": args.source, "records": head.sequence, "head": str(head)}


def _show_import(report: Report, console: Console) -> None:
    rows = {"ledger": report["ledger"], "log": counted(report["records"], "record"), "head": report["head"]}
    console.fields(rows)
    console.line()
    console.line("Stop using the original. What it spent after the backup was written is not known here: lower caps by")
    console.line("it with 'lower-cap', or freeze.")


def _add_migrate(add: Callable[..., Any]) -> None:
    add("--to", required=True, metavar="NEW", help="where it shall be: a new file, or postgresql://...")
    add("--reason", required=True, metavar="TEXT", help="goes into both logs")


def _migrate(args: argparse.Namespace, where: str) -> Report:
    from ferrodp.budget import migrate_ledger

    head = migrate_ledger(where, args.to, reason=args.reason)
    return {"to": _ledgers.shown(args.to), "records": head.sequence, "head": str(head)}


def _show_migrate(report: Report, console: Console) -> None:
    rows = {"from": f"{report['ledger']} (takes no record any more)", "to": report["to"], "head": report["head"]}
    console.fields(rows)


ACTIONS = {
    "backup": Action(
        "write a copy from which the ledger can be made again",
        "Write a verified copy of the log while others go on using the ledger. 'import'\n"
        "makes a ledger of it. Do not copy the database file instead: a copy that is\n"
        "opened is a second budget for the same data.",
        "  ferrodp ledger backup budget.db -o budget-2026-11-22.jsonl.gz",
        _add_backup,
        _backup,
        _show_backup,
        only_reads=True,
    ),
    "import": Action(
        "begin a ledger from a backup or an export",
        "Begin a ledger, which must not be there yet, from the log that 'backup' or\n"
        "'export -o' wrote. It continues the same chain of hashes. What the original did\n"
        "after that is not known to it: stop using the original.",
        '  ferrodp ledger import budget.db --from budget-2026-11-22.jsonl.gz \\\n      --reason "disk failed"',
        _add_import,
        _import,
        _show_import,
    ),
    "migrate": Action(
        "move a ledger to another place, or from an older format",
        "Move a ledger: from a file to a server or back, or from the format of 0.1.0.\n"
        "The old one can be read, but takes no record any more, from any program; the\n"
        "new one continues its log. If this is interrupted, the same command goes on.",
        '  ferrodp ledger migrate budget.db --to postgresql://owner@db/privacy \\\n      --reason "many servers"',
        _add_migrate,
        _migrate,
        _show_migrate,
    ),
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
