"""A release paid from a ledger: charged before any update is read, armed right before the noise is drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ferrodp.budget import PrivacyLedger
from ferrodp.cli._command import Args, option
from ferrodp.cli._console import Report, rounded_up
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import HEAD, INTEGER, NUMBER, TEXT, maybe, record
from ferrodp.errors import InvalidParameter, LedgerError
from ferrodp.events import GaussianEvent, NeighboringRelation
from ferrodp.tickets import Ticket

OPTIONS = (
    option("--ledger", metavar="LEDGER", help="pay from this ledger, or refuse: a file or postgresql://..."),
    option("--scope", metavar="NAME", help="what to charge there"),
    option("--key", metavar="KEY", help="names the charge: a command that died before it drew noise can be repeated"),
)
"""How a release is paid."""
FIELDS = record(
    {
        **dict.fromkeys(("where", "scope", "ticket", "neighboring_relation"), TEXT),
        "key": maybe(TEXT),
        **dict.fromkeys(("epsilon", "delta", "epsilon_charged", "delta_charged"), NUMBER),
        "remaining_count": INTEGER,
        "head": HEAD,
    }
)
"""What is reported of a payment."""


def check(args: Args) -> None:
    """Refuse options that need others which are missing; a scope alone is one of the ledger of the environment."""
    if args.scope is not None and args.ledger is None:
        args.ledger = _ledgers.default()
    if args.ledger is None and (args.scope is not None or args.key is not None):
        raise InvalidParameter(
            f"--{'scope' if args.scope is not None else 'key'} must come with --ledger, or with {_ledgers.DEFAULT} set"
        )
    if args.ledger is not None and args.scope is None:
        raise InvalidParameter("--ledger must come with --scope, the name of what to charge")


@contextlib.contextmanager
def payment(args: Args, noise_multiplier: float) -> Iterator[tuple[Callable[[], Report | None], dict[str, Any]]]:
    """Charge the release, and give the charge back if it fails before noise is drawn.

    Yields a function that reports what became of the charge, and options for `ClippedSum.release`.

    Raises
    ------
    BudgetExceeded
        If it does not fit.
    KeyUsed
        If the key has paid for a release before.
    """
    if args.ledger is None:
        yield lambda: None, {}
        return
    with _ledgers.opened(args.ledger) as ledger:
        relation = ledger.report(args.scope).neighboring_relation
        replaced = relation is NeighboringRelation.REPLACE_ONE  # a file that becomes another moves the sum by 2C
        event = GaussianEvent(noise_multiplier=noise_multiplier / 2.0 if replaced else noise_multiplier)
        ticket = ledger.reserve(args.scope, event, key=args.key)
        with ticket:
            yield lambda: _told(args, ledger, ticket), {"ticket": ticket}


def _told(args: Args, ledger: PrivacyLedger, ticket: Ticket) -> Report:
    """Return where the scope stands after the release."""
    try:
        ticket.close()
        now, left = ledger.report(args.scope), ledger.remaining_count(args.scope, ticket.event)
        return {
            "where": _ledgers.shown(args.ledger),
            "scope": now.scope,
            "ticket": ticket.id,
            "key": ticket.key,
            **_ledgers.told(now, "neighboring_relation", "epsilon", "delta", "epsilon_charged", "delta_charged"),
            "remaining_count": left,
            "head": str(ledger.head),
        }
    except LedgerError as error:
        raise LedgerError(f"{error}; {args.output} is written, and was charged") from error


def lines(told: Report) -> dict[str, str]:
    """Return what is printed of a payment."""
    budget = f"{told['epsilon']:g} at delta {told['delta']:g}"
    spent = f"epsilon {rounded_up(told['epsilon_charged'])} of {budget} is charged"
    room = f"room for {told['remaining_count']} more"
    key = "" if told["key"] is None else f", key {told['key']}"
    return {"charged": f"to {told['scope']} in {told['where']}{key}", "budget": f"{spent}, {room}"}
