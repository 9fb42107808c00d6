"""Tickets from the shell: which there are, and giving back those that nobody will use."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from typing import Any

from ferrodp import _validate
from ferrodp.cli import _events
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.ledger.common import Action
from ferrodp.errors import InvalidParameter, TicketError
from ferrodp.events import PrivacyEvent

_STATES = ("held", "armed", "spent", "cancelled")
_DAY = 86_400.0


def _add_tickets(add: Callable[..., Any]) -> None:
    add("--scope", metavar="NAME", help="only tickets charged to this one (default: all)")
    add(
        "--state",
        action="append",
        choices=_STATES,
        metavar="STATE",
        help="held, armed, spent or cancelled; repeat it for several (default: held and armed)",
    )
    add("--limit", type=int, default=1000, metavar="N", help="at most so many, the oldest first (default: 1000)")


def _tickets(args: argparse.Namespace, where: str) -> Report:
    states = args.state or ["held", "armed"]
    limit = _validate.count("--limit", args.limit)
    with _ledgers.opened(where, verify=args.verify, read_only=args.read_only) as ledger:
        found = ledger.tickets(args.scope, states=states, limit=limit)
    return {"scope": args.scope, "states": states, "limit": limit, "tickets": [_told(each) for each in found]}


def _told(ticket: Any) -> Report:
    return {
        "ticket": ticket.id,
        "key": ticket.key,
        "state": ticket.state.value,
        "scopes": list(ticket.scopes),
        "event": ticket.event.to_dict(),
        "count": ticket.count,
        "is_lease": ticket.is_lease,
        "sequence": ticket.sequence,
        "time": ticket.time,
        "record": ticket.record,
    }


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


def _add_cancel(add: Callable[..., Any]) -> None:
    add("--ticket", action="append", metavar="ID", help="which one, as 'tickets' shows it; repeat it for several")
    add("--older-than", type=float, metavar="DAYS", help="all held tickets that were reserved so long ago")
    add("--scope", metavar="NAME", help="with --older-than: only those charged to this one")
    add("--reason", required=True, metavar="TEXT", help="goes into the log")


def _cancel(args: argparse.Namespace, where: str) -> Report:
    if (args.ticket is None) == (args.older_than is None):
        raise InvalidParameter("either --ticket or --older-than must be given")
    if args.ticket is not None and args.scope is not None:
        raise InvalidParameter("--scope must come with --older-than")
    days = None if args.older_than is None else _validate.non_negative("--older-than", args.older_than, toward="up")
    with _ledgers.opened(where, verify=args.verify) as ledger:
        chosen = args.ticket if days is None else _older(ledger.tickets(args.scope, states=["held"]), days)
        cancelled = []
        for each in chosen:
            try:
                ledger.cancel_ticket(each, reason=args.reason)
            except TicketError:
                if days is None:
                    raise
                continue  # it was used or cancelled meanwhile
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


def _show_cancel(report: Report, console: Console) -> None:
    console.fields({"cancelled": counted(len(report["cancelled"]), "ticket"), "head": report["head"]})


ACTIONS = {
    "tickets": Action(
        "list tickets by their state",
        "List tickets with state, age and price. A held one is charged until it is used\n"
        "or cancelled; an armed one is spent, but its release was not reported done.",
        "  ferrodp ledger tickets budget.db --scope hospital --state held",
        _add_tickets,
        _tickets,
        _show_tickets,
        only_reads=True,
    ),
    "cancel": Action(
        "give back held tickets that nobody will use",
        "Give back held tickets that nobody will use any more, such as those of a\n"
        "process that crashed. A process that still holds one is refused when it wants\n"
        "to release with it, so nothing is given back that was drawn for.",
        '  ferrodp ledger cancel budget.db --older-than 7 \\\n      --reason "left over from a crash"',
        _add_cancel,
        _cancel,
        _show_cancel,
    ),
}
