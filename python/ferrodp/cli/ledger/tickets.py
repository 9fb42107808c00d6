"""Tickets from the shell: list them, and give back those that nobody will use."""

from __future__ import annotations

import datetime
from typing import Any

from ferrodp._base import _validate
from ferrodp.cli import _events
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger.common import REASON, opened_by, told
from ferrodp.cli.printing.shapes import ANYTHING, EVENT, FLAG, HEAD, INTEGER, TEXT, many, maybe, record
from ferrodp.errors import InvalidParameter, TicketError
from ferrodp.events import PrivacyEvent

_DAY = 86_400.0
_TICKET = record(
    {
        **dict.fromkeys(("ticket", "state", "time"), TEXT),
        "key": maybe(TEXT),
        "scopes": many(TEXT),
        "event": EVENT,
        "is_lease": FLAG,
        "count": INTEGER,
        "sequence": INTEGER,
        "record": ANYTHING,
    }
)


def _show_tickets(report: Report, console: Console) -> None:
    rows = []
    for each in report["tickets"]:
        many = f"{each['count']} x " if each["count"] != 1 else ""
        what = many + _events.told(PrivacyEvent.from_dict(each["event"]))
        what += "" if each["key"] is None else f"; key {each['key']}"
        time = each["time"].removesuffix("+00:00").replace("T", " ")
        state = "lease" if each["is_lease"] and each["state"] == "armed" else each["state"]
        rows.append([each["ticket"], time, state, ", ".join(each["scopes"]), what])
    console.table(["ticket", "since (UTC)", "state", "scope", "what"], rows, left=5)
    console.line()
    console.line(f"{counted(len(rows), 'ticket')} {' or '.join(report['states'])}.")
    if len(rows) == report["limit"]:
        console.line("There may be more: see --limit.")


@command(
    option("--scope", metavar="NAME", help="only tickets charged to this one (default: all)"),
    option(
        "--state",
        action="append",
        choices=("held", "armed", "spent", "cancelled"),
        metavar="STATE",
        help="held, armed, spent or cancelled; repeat it for several (default: held and armed)",
    ),
    option("--limit", type=int, default=1000, metavar="N", help="at most so many, the oldest first (default: 1000)"),
    show=_show_tickets,
    fields={"scope": maybe(TEXT), "states": many(TEXT), "limit": INTEGER, "tickets": many(_TICKET)},
    only_reads=True,
)
def tickets(args: Args) -> Report:
    r"""List tickets by their state.

    List tickets with state, age and price. A held one is charged until it is used
    or cancelled; an armed one is spent, but its release was not reported done.

    example:
      ferrodp ledger tickets budget.db --scope hospital --state held
    """
    states = args.state or ["held", "armed"]
    limit = _validate.count("--limit", args.limit)
    with opened_by(args) as ledger:
        found = ledger.tickets(args.scope, states=states, limit=limit)
    names = "key", "state", "scopes", "event", "count", "is_lease", "sequence", "time", "record"
    listed = [{"ticket": each.id, **told(each, *names)} for each in found]
    return {"scope": args.scope, "states": states, "limit": limit, "tickets": listed}


def _show_cancel(report: Report, console: Console) -> None:
    console.fields({"cancelled": counted(len(report["cancelled"]), "ticket"), "head": report["head"]})


@command(
    option("--ticket", action="append", metavar="ID", help="which one, as 'tickets' shows it; repeat it for several"),
    option("--older-than", type=float, metavar="DAYS", help="all held tickets that were reserved so long ago"),
    option("--scope", metavar="NAME", help="with --older-than: only those charged to this one"),
    REASON,
    show=_show_cancel,
    fields={"cancelled": many(TEXT), "reason": TEXT, "head": HEAD},
)
def cancel(args: Args) -> Report:
    r"""Give back held tickets that nobody will use.

    Give back held tickets that nobody will use any more, such as those of a
    process that crashed. A process that still holds one is refused when it wants
    to release with it, so nothing is given back that was drawn for.

    example:
      ferrodp ledger cancel budget.db --older-than 7 \
          --reason "left over from a crash"
    """
    if (args.ticket is None) == (args.older_than is None):
        raise InvalidParameter("either --ticket or --older-than must be given")
    if args.ticket is not None and args.scope is not None:
        raise InvalidParameter("--scope must come with --older-than")
    days = None if args.older_than is None else _validate.non_negative("--older-than", args.older_than, toward="up")
    with opened_by(args) as ledger:
        chosen = args.ticket if days is None else _older(ledger.tickets(args.scope, states=["held"]), days)
        cancelled = []
        for each in chosen:
            try:
                ledger.cancel_ticket(each, reason=args.reason)
            except TicketError:
                if days is None:
                    raise
                continue  # it was used or cancelled in between
            cancelled.append(each)
        return {"cancelled": cancelled, "reason": args.reason, "head": str(ledger.head)}


def _older(tickets: list[Any], days: float) -> list[str]:
    """Return those that began before so many days, by this machine's clock."""
    now = datetime.datetime.now(datetime.UTC)
    return [each.id for each in tickets if (now - _moment(each.time)).total_seconds() >= days * _DAY]


def _moment(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:  # a clock that was mad when it was written: as old as can be
        return datetime.datetime.min.replace(tzinfo=datetime.UTC)
