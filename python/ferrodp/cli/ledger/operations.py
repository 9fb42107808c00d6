"""Running a ledger from the shell: copies, another place, and the rights of roles on a server."""

from __future__ import annotations

from ferrodp import budget
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger.common import REASON, opened_by, shown
from ferrodp.cli.printing.shapes import HEAD, INTEGER, TEXT


def _show_backup(report: Report, console: Console) -> None:
    console.fields({"written": f"{report['output']} ({counted(report['records'], 'record')})", "head": report["head"]})
    console.line()
    console.line("Keep the head with it: 'import --witness HEAD' then takes this backup and no older one.")


@command(
    option(
        "-o", "--output", required=True, metavar="FILE", help="write there, whole or not at all; packed if named .gz"
    ),
    option("--force", action="store_true", help="replace FILE if it exists"),
    show=_show_backup,
    fields={"output": TEXT, "records": INTEGER, "head": HEAD},
    only_reads=True,
)
def backup(args: Args) -> Report:
    r"""Write a copy from which the ledger can be made again.

    Write a verified copy of the log while others go on using the ledger. 'import'
    makes a ledger of it. Do not copy the database file instead: a copy that is
    opened is a second budget for the same data.

    example:
      ferrodp ledger backup budget.db -o budget-2026-11-22.jsonl.gz
    """
    with opened_by(args, verify=False) as ledger:  # `backup` verifies
        head = ledger.backup(args.output, force=args.force)
    return {"output": args.output, "records": head.sequence, "head": str(head)}


def _show_import(report: Report, console: Console) -> None:
    rows = {"ledger": report["ledger"], "log": counted(report["records"], "record"), "head": report["head"]}
    console.fields(rows)
    console.line()
    console.line("Stop using the original. What it spent after the backup was written is not known here: lower caps by")
    console.line("it with 'lower-cap', or freeze.")


@command(
    option("--from", dest="source", required=True, metavar="FILE", help="what 'backup' or 'export -o' wrote"),
    option("--witness", metavar="HEAD", help="a head that FILE has to contain"),
    REASON,
    show=_show_import,
    fields={"source": TEXT, "records": INTEGER, "head": HEAD},
)
def import_(args: Args) -> Report:
    r"""Begin a ledger from a backup or an export.

    Begin a ledger, which must not be there yet, from the log that 'backup' or
    'export -o' wrote. It continues the same chain of hashes. What the original did
    after that is not known to it: stop using the original.

    example:
      ferrodp ledger import budget.db --from budget-2026-11-22.jsonl.gz \
          --reason "disk failed"
    """
    head = budget.import_ledger(args.source, args.where, reason=args.reason, witness=args.witness)
    return {"source": args.source, "records": head.sequence, "head": str(head)}


def _show_migrate(report: Report, console: Console) -> None:
    old = f"{report['ledger']} (takes no record any more)"
    console.fields({"from": old, "to": report["to"], "head": report["head"]})


@command(
    option("--to", required=True, metavar="NEW", help="where it shall be: a new file, or postgresql://..."),
    option("--reason", required=True, metavar="TEXT", help="goes into both logs"),
    show=_show_migrate,
    fields={"to": TEXT, "records": INTEGER, "head": HEAD},
)
def migrate(args: Args) -> Report:
    r"""Move a ledger to another place, or from an older format.

    Move a ledger: from a file to a server or back, or from the format of 0.1.0.
    The old one can be read, but takes no record any more, from any program; the
    new one continues its log. If this is interrupted, the same command goes on.
    A ledger is moved once: to another place, or again, it is refused.

    example:
      ferrodp ledger migrate budget.db --to postgresql://owner@db/privacy \
          --reason "many servers"
    """
    head = budget.migrate_ledger(args.where, args.to, reason=args.reason)
    return {"to": shown(args.to), "records": head.sequence, "head": str(head)}


def _show_grant(report: Report, console: Console) -> None:
    console.fields({"ledger": report["ledger"], "role": report["role"], "rights": report["rights"]})


@command(
    option("--role", required=True, metavar="ROLE", help="a role that the server knows"),
    option(
        "--rights",
        required=True,
        choices=("reader", "spender", "operator"),
        metavar="RIGHTS",
        help="reader, spender or operator",
    ),
    show=_show_grant,
    fields={"role": TEXT, "rights": TEXT},
)
def grant(args: Args) -> Report:
    r"""Say what a role of the server may do.

    Say what a role of a PostgreSQL server may do: a reader sees everything, a
    spender also reserves and releases, an operator also creates scopes, changes
    budgets, freezes and thaws. What the role had before is taken away. Run it as
    the owner of the ledger, and let programs connect as a spender.

    example:
      ferrodp ledger grant postgresql://owner@db/privacy --role trainer \
          --rights spender
    """
    budget.grant(args.where, args.role, args.rights)
    return {"role": args.role, "rights": args.rights}
