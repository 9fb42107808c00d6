"""Charges from the shell: reserve a ticket for a program, or spend what is released elsewhere."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from typing import Any

from ferrodp.accounting.events import PrivacyEvent
from ferrodp.cli import _events, _ledgers
from ferrodp.cli._console import Console, Report
from ferrodp.cli._ledgers import Action


def _add(add: Callable[..., Any]) -> None:
    add(
        "--scope",
        action="append",
        required=True,
        metavar="NAME",
        help="what to charge; repeat it for several, all or none",
    )
    _events.add_event(add)
    add("--key", metavar="KEY", help="the same key is charged once, however often the command runs")


def _add_reserve(add: Callable[..., Any]) -> None:
    _add(add)
    add(
        "--plan-delta",
        type=_events.number,
        metavar="D",
        help="charge a whole plan, fixed now, as its proven (epsilon, D); for scopes of measure pure",
    )


def _reserve(args: argparse.Namespace, where: str) -> Report:
    event = _events.given(args)
    key = f"shell/{secrets.token_hex(8)}" if args.key is None else args.key
    with _ledgers.opened(where) as ledger:
        ticket = ledger.reserve(args.scope, event, key=key, plan_delta=args.plan_delta)
        return {
            "ticket": ticket.id,
            "key": ticket.key,
            "state": ticket.state.value,
            "scopes": list(ticket.scopes),
            "event": event.to_dict(),
            **_after(ledger, ticket.scopes, event, args.plan_delta is None),
        }


def _spend(args: argparse.Namespace, where: str) -> Report:
    event = _events.given(args)
    with _ledgers.opened(where) as ledger:
        ledger.spend(args.scope, event, key=args.key)
        return {
            "key": args.key,
            "state": "spent",
            "scopes": sorted(set(args.scope)),
            "event": event.to_dict(),
            **_after(ledger, args.scope, event, True),
        }


def _after(ledger: Any, scopes: Any, event: Any, priced: bool) -> Report:
    """Return what is left; how often a plan still fits is not known without pricing it again."""
    left = ledger.remaining_count(scopes, event) if priced else None
    return {"remaining_count": left, "head": str(ledger.head)}


def _show(report: Report, console: Console) -> None:
    rows = {name: report[name] for name in ("ticket", "key", "state") if report.get(name) is not None}
    rows["scopes"] = ", ".join(report["scopes"])
    rows["event"] = _events.told(PrivacyEvent.from_dict(report["event"]))
    if report["remaining_count"] is not None:
        rows["room"] = f"for {report['remaining_count']} more"
    rows["head"] = report["head"]
    console.fields(rows)


ACTIONS = {
    "reserve": Action(
        "charge a release to come, and get its ticket",
        "Charge a release to come and print its ticket. A program takes it with\n"
        "PrivacyLedger.reserve and the same scope, event and key; the charge stays if\n"
        "nobody does.",
        "  ferrodp ledger reserve budget.db --scope hospital \\\n"
        "      --noise-multiplier 1.1 --sampling-probability 0.01 --key round-7",
        _add_reserve,
        _reserve,
        _show,
    ),
    "spend": Action(
        "charge a release that happens elsewhere",
        "Charge a release that happens elsewhere: run it before, and release only if it\n"
        "succeeds. With --key it can be repeated, and is charged once.",
        "  ferrodp ledger spend budget.db --scope survey --epsilon 0.1 --key week-12",
        _add,
        _spend,
        _show,
    ),
}
