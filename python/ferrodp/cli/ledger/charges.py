"""Charges from the shell: reserve a ticket for a program, or charge what is released elsewhere."""

from __future__ import annotations

import secrets
from typing import Any

from ferrodp.cli import _events
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report
from ferrodp.cli.ledger.common import opened_by
from ferrodp.cli.printing.shapes import EVENT, FLAG, HEAD, INTEGER, TEXT, many, maybe
from ferrodp.events import PrivacyEvent

_CHARGE = (
    option(
        "--scope",
        action="append",
        required=True,
        metavar="NAME",
        help="what to charge; repeat it for several, all or none",
    ),
    *_events.OPTIONS,
    option(
        "--key", metavar="KEY", help="names the release: it is charged once, and refused when it was used (exit code 3)"
    ),
    option("--again-ok", action="store_true", help="succeed if the key was used before, and charge nothing"),
)


_FIELDS = {
    "key": maybe(TEXT),
    "new": FLAG,
    "state": TEXT,
    "scopes": many(TEXT),
    "event": EVENT,
    "remaining_count": maybe(INTEGER),
    "head": HEAD,
}


def _show(report: Report, console: Console) -> None:
    rows = {name: report[name] for name in ("ticket", "key", "state") if report.get(name) is not None}
    if not report["new"]:
        rows["charged"] = "before: this key is not new, and nothing was charged now"
    rows["scopes"] = ", ".join(report["scopes"])
    rows["event"] = _events.told(PrivacyEvent.from_dict(report["event"]))
    if report["remaining_count"] is not None:
        rows["room"] = f"for {report['remaining_count']} more"
    rows["head"] = report["head"]
    console.fields(rows)


@command(
    *_CHARGE,
    option(
        "--plan-delta",
        type=_events.number,
        metavar="D",
        help="charge a whole plan, fixed now, as its proven (epsilon, D); for scopes of measure pure",
    ),
    show=_show,
    fields={"ticket": TEXT, **_FIELDS},
)
def reserve(args: Args) -> Report:
    r"""Charge a release to come, and get its ticket.

    Charge a release to come and print its ticket. A program takes it with
    PrivacyLedger.reserve and the same scope, event and key; the charge stays if
    nobody does. A key that is still held gives the same ticket again. Exit code 3:
    the key was used, as its release began.

    example:
      ferrodp ledger reserve budget.db --scope hospital \
          --noise-multiplier 1.1 --sampling-probability 0.01 --key round-7
    """
    event = _events.given(args)
    key = f"shell/{secrets.token_hex(8)}" if args.key is None else args.key
    with opened_by(args) as ledger:
        ticket = ledger.reserve(args.scope, event, key=key, plan_delta=args.plan_delta, again_ok=args.again_ok)
        return {
            "ticket": ticket.id,
            "key": ticket.key,
            "new": ticket.is_new,
            "state": ticket.state.value,
            "scopes": list(ticket.scopes),
            "event": event.to_dict(),
            **_after(ledger, ticket.scopes, event, args.plan_delta is None),
        }


@command(
    *_CHARGE,
    show=_show,
    fields=_FIELDS,
)
def spend(args: Args) -> Report:
    r"""Charge a release that happens elsewhere.

    Charge a release that happens elsewhere: run it before, and release only if it
    succeeds. With --key a second run is refused (exit code 3), for the release may
    have been made: repeat it with --again-ok only if you know that it was not.

    example:
      ferrodp ledger spend budget.db --scope survey --epsilon 0.1 --key week-12
    """
    event = _events.given(args)
    with opened_by(args) as ledger:
        is_new = ledger.spend(args.scope, event, key=args.key, again_ok=args.again_ok)
        return {
            "key": args.key,
            "new": is_new,
            "state": "spent",
            "scopes": sorted(set(args.scope)),
            "event": event.to_dict(),
            **_after(ledger, args.scope, event, True),
        }


def _after(ledger: Any, scopes: Any, event: Any, priced: bool) -> Report:
    """Return what is left; how often a plan still fits is not known without pricing it again."""
    left = ledger.remaining_count(scopes, event) if priced else None
    return {"remaining_count": left, "head": str(ledger.head)}
