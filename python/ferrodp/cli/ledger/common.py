"""What all commands about a ledger have in common: which one it is, and how its numbers are written."""

from __future__ import annotations

import argparse
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ferrodp.cli._console import Console, Report
from ferrodp.errors import InvalidParameter

if TYPE_CHECKING:
    from ferrodp.budget import PrivacyLedger

_SHORT = 6


@dataclass(frozen=True, slots=True)
class Action:
    """One action on a ledger: its help (summary, description, example), its arguments, what it does and prints."""

    summary: str
    description: str
    example: str
    add: Callable[[Callable[..., Any]], None]
    run: Callable[[argparse.Namespace, str], Report]
    show: Callable[[Report, Console], None]
    only_reads: bool = False
    """Whether it has the option `--read-only`."""


def opened(where: str, *, create: bool = False, verify: Any = "new", **settings: Any) -> PrivacyLedger:
    """Open a ledger, verified: from the last checkpoint on, unless more is asked for."""
    from ferrodp.budget import PrivacyLedger  # a database driver: not needed to print a help text

    return PrivacyLedger.open(where, create=create, verify=verify, **settings)


def chosen(args: argparse.Namespace) -> str:
    """Return which ledger was named, first or by option."""
    if (args.ledger is None) == (args.ledger_option is None):
        raise InvalidParameter("the ledger must be named once: a file or postgresql://..., first or with --ledger")
    where: str = args.ledger if args.ledger is not None else args.ledger_option
    if not where:
        raise InvalidParameter("the ledger must be a file or postgresql://..., got ''")
    return where


def add_ledger(add: Callable[..., Any]) -> None:
    """Declare how a ledger is named."""
    add("ledger", nargs="?", metavar="LEDGER", help="a file, or postgresql://... for a server")
    add("--ledger", dest="ledger_option", metavar="LEDGER", help="the same by name")
    add(
        "--verify",
        choices=("new", "all"),
        default="new",
        help="what to check first: what is new since the last checkpoint (default), or all",
    )


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


def bound(value: float | Fraction, *, up: bool) -> str:
    """Write a number as it is if it is a short decimal, else rounded to its safe side.

    A float that Python writes with few digits is written like that: it is read back as the same float.
    """
    if isinstance(value, float) and len(repr(value).replace(".", "").lstrip("0").partition("e")[0]) <= _SHORT:
        return f"{value:.6g}"
    context = Context(prec=_SHORT, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    exact = Fraction(value)
    return f"{context.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize(context):f}"
