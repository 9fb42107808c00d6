"""What the actions on a ledger share: how it is named and opened, and how its numbers are written."""

from __future__ import annotations

import enum
import os
import urllib.parse
from fractions import Fraction
from typing import Any

from ferrodp._base import _validate
from ferrodp.budget import PrivacyLedger, ReleaseReport, ScopeReport, TicketReport
from ferrodp.cli._command import Args, option
from ferrodp.cli._console import Report
from ferrodp.errors import InvalidParameter
from ferrodp.events import PrivacyEvent

DEFAULT = "FERRODP_LEDGER"
"""Environment variable: the ledger of commands that are not told one."""


def opened(where: str, *, create: bool = False, verify: Any = "new", **settings: Any) -> PrivacyLedger:
    """Open a ledger, verified: from the last checkpoint on, unless more is requested."""
    return PrivacyLedger.open(where, create=create, verify=verify, **settings)


def opened_by(args: Args, **settings: Any) -> PrivacyLedger:
    """Open the ledger that an action was told, as its options say."""
    return opened(args.where, **{"verify": args.verify, "read_only": getattr(args, "read_only", False), **settings})


def default() -> str | None:
    """Return the ledger that the environment names."""
    return os.environ.get(DEFAULT) or None


def chosen(args: Args) -> str:
    """Return which ledger was named, first or by option, or else by the environment."""
    named: list[str | None] = [each for each in (args.ledger, args.ledger_option) if each is not None] or [default()]
    where = named[0]
    if len(named) > 1 or where is None:
        raise InvalidParameter(
            f"the ledger must be named once: a file or postgresql://..., first, with --ledger or as {DEFAULT}"
        )
    if not where:
        raise InvalidParameter("the ledger must be a file or postgresql://..., got ''")
    return where


LEDGER = (
    option(
        "ledger",
        nargs="?",
        metavar="LEDGER",
        help=f"a file, or postgresql://... for a server (default: that of {DEFAULT})",
    ),
    option("--ledger", dest="ledger_option", metavar="LEDGER", help="the same by name"),
    option(
        "--verify",
        choices=("new", "all"),
        default="new",
        help="what to check first: what is new since the last checkpoint (default), or all",
    ),
)
"""How all actions are told the ledger."""
SCOPE = option("--scope", required=True, metavar="NAME", help="which one")
REASON = option("--reason", required=True, metavar="TEXT", help="goes into the log")


def shown(where: str) -> str:
    """Write where a ledger is, without the password that an address may hold."""
    if "://" not in where:
        return where
    try:
        parts = urllib.parse.urlsplit(where)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return where.partition("://")[0] + "://..."
    return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))


def told(report: ReleaseReport | ScopeReport | TicketReport, *names: str) -> Report:
    """Return some of what is known about a scope, a ticket or a charge as plain JSON data."""
    return {name: _plain(getattr(report, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, PrivacyEvent):
        return value.to_dict()
    return float(value) if isinstance(value, Fraction) else list(value) if isinstance(value, tuple) else value


def bound(value: float | Fraction, *, up: bool) -> str:
    """Write a number as it is if it is a short decimal, else rounded to its safe side."""
    return _validate.few_digits(value, "up" if up else "down")
