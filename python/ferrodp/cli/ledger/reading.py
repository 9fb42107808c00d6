"""Reading a ledger from the shell: its budgets, its records, and whether it is undamaged."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Generator
from fractions import Fraction

from ferrodp import files
from ferrodp._base import _validate
from ferrodp.budget import PrivacyLedger
from ferrodp.cli import _events
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger import remaining
from ferrodp.cli.ledger.common import bound, opened_by, told
from ferrodp.cli.printing.shapes import ANYTHING, EVENT, FLAG, HEAD, INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.errors import InvalidParameter, UnsupportedEventError
from ferrodp.events import PrivacyEvent
from ferrodp.tickets.statistic import recorded_statistic

_TOLD = 20
"""Scopes of which is said in words what still fits; of each with --scope or --json."""
_STANDING = record(
    {
        **dict.fromkeys(("scope", "measure", "neighboring_relation"), TEXT),
        **dict.fromkeys(("epsilon", "delta", "epsilon_charged", "delta_charged", "epsilon_remaining"), NUMBER),
        "epsilon_any_time": maybe(NUMBER, "null: unbounded"),
        "delta_any_time": NUMBER,
        **{name: maybe(NUMBER) for name in ("promised_epsilon", "promised_delta")},
        "exact": maybe(record(dict.fromkeys(("epsilon", "epsilon_charged", "epsilon_remaining"), TEXT))),
        **dict.fromkeys(("held", "armed", "spent", "cancelled"), INTEGER),
        "frozen": FLAG,
        "remaining_count": maybe(INTEGER),
        "fits": TEXT,
    }
)


def _show_status(report: Report, console: Console) -> None:
    standings = report["scopes"]
    rare = [state for state in ("armed", "cancelled") if any(each[state] for each in standings)]
    header = ["scope", "measure", "epsilon", "charged", "left", "delta", "any time", "held", "used", *rare]
    header += [] if report["event"] is None else ["room"]
    rows = []
    for each in standings:
        name = each["scope"] + (" (frozen)" if each["frozen"] else "")
        counts = [str(each[state]) for state in ("held", "spent", *rare)]
        exact = None if each["exact"] is None else Fraction(each["exact"]["epsilon_charged"])
        seen = "unbounded" if each["epsilon_any_time"] is None else bound(exact or each["epsilon_any_time"], up=True)
        row = [name, each["measure"], *_numbers(each), f"{each['delta']:g}", seen, *counts]
        room = "unknown" if each["remaining_count"] is None else str(each["remaining_count"])
        rows.append(row if report["event"] is None else [*row, room])
    console.table(header, rows, left=2)
    console.line()
    raised = [each["scope"] for each in standings if each["promised_epsilon"] is None]
    if raised:
        console.sentence(f"raised  more was allowed than was said at the beginning: {', '.join(raised)}")
    if report["event"] is not None:
        console.line(f"room  how often this still fits: {_events.told(PrivacyEvent.from_dict(report['event']))}")
    for each in standings[:_TOLD]:
        console.sentence(f"{each['scope']}: {each['fits']}")
    console.line(f"head  {report['head']}")


@command(
    option("--scope", metavar="NAME", help="this one alone (default: all)"),
    *_events.OPTIONS,
    show=_show_status,
    fields={"event": maybe(EVENT), "scopes": many(_STANDING), "head": HEAD},
    only_reads=True,
)
def status(args: Args) -> Report:
    r"""Show budgets, what was spent and what is left.

    Show budgets, what was spent, what is left, and how many tickets are held and
    used; armed ones are used up, too, and their release was not reported done.
    Epsilon does not add up, except in measure pure, so what is left is a rough
    idea: describe an event, and the exact number of times it fits is shown.
    'charged' is the least budget in which all charges fit: a guarantee if they
    were planned in advance. 'any time' bounds the loss whenever you look, also if
    you stop because of a result, except with probability delta. A scope that was
    raised beyond what was said when it was made has no promise fixed in advance.

    example:
      ferrodp ledger status budget.db --noise-multiplier 10
    """
    event = _events.given(args) if _events.is_given(args) else None
    with opened_by(args) as ledger:
        names = ledger.scopes if args.scope is None else (args.scope,)
        return {
            "event": None if event is None else event.to_dict(),
            "scopes": [_standing(ledger, name, event, alone=args.scope is not None) for name in names],
            "head": str(ledger.head),
        }


def _standing(ledger: PrivacyLedger, name: str, event: PrivacyEvent | None, *, alone: bool) -> Report:
    report, reading = ledger.report(name), ledger.odometer(name)
    left, exact = report.epsilon_remaining, None
    if report.exact_epsilon_charged is not None:
        budget, spent = Fraction(report.epsilon), report.exact_epsilon_charged
        rest = max(budget - spent, Fraction(0))
        left = _validate.rounded(rest, "down")
        exact = {"epsilon": str(budget), "epsilon_charged": str(spent), "epsilon_remaining": str(rest)}
    return {
        **told(report, "scope", "measure", "neighboring_relation"),
        **told(report, "epsilon", "delta", "epsilon_charged", "delta_charged"),
        "epsilon_any_time": reading.epsilon if math.isfinite(reading.epsilon) else None,
        "delta_any_time": reading.delta,
        **told(report, "promised_epsilon", "promised_delta"),
        "epsilon_remaining": left,
        "exact": exact,
        **told(report, "held", "armed", "spent", "cancelled", "frozen"),
        "remaining_count": None if event is None else _room(ledger, name, event, alone=alone),
        "fits": remaining.told(ledger, report),
    }


def _room(ledger: PrivacyLedger, name: str, event: PrivacyEvent, *, alone: bool) -> int | None:
    """Return how often an event fits, or None where it has no price; that is an error if one scope was requested."""
    try:
        return ledger.remaining_count(name, event)
    except UnsupportedEventError:
        if alone:
            raise
        return None


def _numbers(standing: Report) -> list[str]:
    """Write budget, what was spent and what is left; exactly where ε adds up, so that sums of decimals are short."""
    names = ("epsilon", "epsilon_charged", "epsilon_remaining")
    exact = standing["exact"]
    values = [standing[name] if exact is None else Fraction(exact[name]) for name in names]
    return [bound(value, up=name == "epsilon_charged") for name, value in zip(names, values, strict=True)]


def _show_history(report: Report, console: Console) -> None:
    rows = []
    for each in report["records"]:
        scope = each["scope"] if "scope" in each else ", ".join(each.get("scopes", ()))
        ticket = each.get("ticket", "")[-8:]
        time = each["time"].removesuffix("+00:00").replace("T", " ")
        rows.append([str(each["sequence"]), time, each["kind"], scope, ticket, _what(each)])
    console.table(["record", "time (UTC)", "kind", "scope", "ticket", "what"], rows, left=6)
    if report["total"] is None or len(report["records"]) < report["total"]:
        of_all = "" if report["total"] is None else f" of {counted(report['total'], 'record')}"
        console.line()
        console.line(f"The last {len(report['records'])}{of_all}.")


@command(
    option("--scope", metavar="NAME", help="what concerns this one (default: all)"),
    option("--limit", type=int, default=1000, metavar="N", help="only the last N records (default: 1000)"),
    show=_show_history,
    fields={"scope": maybe(TEXT), "total": maybe(INTEGER), "records": many(ANYTHING)},
    only_reads=True,
)
def history(args: Args) -> Report:
    r"""Show what happened, newest last.

    Show the records of the log, newest last.

    example:
      ferrodp ledger history budget.db --scope hospital --limit 20
    """
    limit = _validate.count("--limit", args.limit)
    with opened_by(args) as ledger:
        if args.scope is not None:
            ledger.report(args.scope)  # refuses a name that there is not
        records = ledger.history(args.scope, limit=limit, with_scopes=True)
        total = ledger.head.sequence if args.scope is None else len(records) if len(records) < limit else None
    return {"scope": args.scope, "total": total, "records": records}


def _what(record: Report) -> str:
    """Write what a record adds to its kind."""
    parts = []
    if "event" in record:
        many = f"{record['count']} x " if record["count"] != 1 else ""
        state = f" ({record['state']})" if record["kind"] == "reserve" and record["state"] != "held" else ""
        parts.append(many + _events.told(PrivacyEvent.from_dict(record["event"])) + state)
    elif record["kind"] == "return":
        parts.append(f"{record['count']} unused")
    if "terms" in record:
        epsilon, delta = (float(Fraction(record["terms"][name])) for name in ("epsilon", "delta"))
        parts.append(f"epsilon {epsilon:g} at delta {delta:g}, {record['terms']['measure']}")
    parts.extend(map(str, map(recorded_statistic, record.get("statistics", ()))))
    parts.extend(f"{name} {record[name]}" for name in ("key", "reason") if name in record)
    if "who" in record:
        parts.append("by {user}@{host} {program}[{pid}]".format(**record["who"]))
    return "; ".join(parts)


def _show_verify(report: Report, console: Console) -> None:
    rows = {"ledger": report["ledger"], "log": f"whole: {counted(report['records'], 'record')}"}
    if report["witness"] is not None:
        rows["witness"] = "is in it"
    console.fields({**rows, "head": report["head"]})
    console.line()
    console.line("Keep the head elsewhere: 'verify --witness HEAD' then tells if an earlier state was put back.")


@command(
    option("--witness", metavar="HEAD", help="a head that was kept elsewhere: the ledger has to contain it"),
    show=_show_verify,
    fields={"records": INTEGER, "witness": maybe(TEXT), "head": HEAD},
    only_reads=True,
)
def verify(args: Args) -> Report:
    r"""Check the whole log and all tables.

    Check the whole log, and all tables against it, and print its head.

    example:
      ferrodp ledger verify budget.db --witness 12:6b86b273...
    """
    with opened_by(args, witness=args.witness, verify="all") as ledger:
        head = ledger.head
    return {"records": head.sequence, "witness": args.witness, "head": str(head)}


def _show_export(report: Report, console: Console) -> None:
    if report["output"] is not None:
        console.fields({"written": f"{report['output']} ({counted(report['records'], 'record')})"})
        return
    for line in report["lines"]:
        console.line(line)


@command(
    option("-o", "--output", metavar="FILE", help="write there, whole or not at all (default: standard output)"),
    option("--force", action="store_true", help="replace FILE if it exists"),
    show=_show_export,
    fields=(
        {"output": TEXT, "records": INTEGER},
        {"output": {"type": "null"}, "records": INTEGER, "lines": many(ANYTHING)},
    ),
    only_reads=True,
)
def export(args: Args) -> Report:
    r"""Write the log as JSON lines.

    Write the log as JSON lines: the text of each record as it was hashed, and its
    hash.

    example:
      ferrodp ledger export budget.db -o budget.jsonl
    """
    if args.force and args.output is None:
        raise InvalidParameter("--force must come with --output")
    lines = _exported(args)
    records = int(next(lines))  # opens the ledger: it is refused before anything is printed
    if args.output is None:
        return {"output": None, "records": records, "lines": map(json.loads, lines) if args.json else lines}
    with contextlib.closing(lines), files.Destination(args.output, force=args.force) as destination:
        destination.commit(lambda stream: stream.writelines(f"{line}\n".encode() for line in lines))
    return {"output": args.output, "records": records}


def _exported(args: Args) -> Generator[str, None, None]:
    """Yield the number of records, then the lines of an export, of which memory holds a few."""
    with opened_by(args) as ledger:
        records = ledger.head.sequence
        yield str(records)
        yield from itertools.islice(ledger.export(), 1 + records)
