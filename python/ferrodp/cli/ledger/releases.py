"""What a budget was spent on, from the shell: for whoever has to answer for it."""

from __future__ import annotations

from ferrodp._base import _validate
from ferrodp.cli import _events
from ferrodp.cli._command import Args, command, option
from ferrodp.cli._console import Console, Report, counted
from ferrodp.cli.ledger.common import bound, opened_by, told
from ferrodp.cli.printing.shapes import ANYTHING, EVENT, HEAD, INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.events import PrivacyEvent

_WORDS = record({"statistic": TEXT, **{name: maybe(TEXT) for name in ("column", "bounds", "unit")}})
_CHARGE = record(
    {
        "statistics": many(_WORDS),
        "scopes": many(TEXT),
        "event": EVENT,
        "count": INTEGER,
        "state": TEXT,
        "key": maybe(TEXT),
        "ticket": TEXT,
        "sequence": INTEGER,
        "time": TEXT,
        "who": maybe(ANYTHING),
    }
)
_SCOPE = record(
    {
        **dict.fromkeys(("scope", "measure", "neighboring_relation"), TEXT),
        **dict.fromkeys(("epsilon", "delta", "epsilon_charged", "delta_charged"), NUMBER),
    }
)


def _show(report: Report, console: Console) -> None:
    rows = []
    for each in report["releases"]:
        time = each["time"].removesuffix("+00:00").replace("T", " ")
        many = f"{each['count']} x " if each["count"] != 1 else ""
        what = many + _events.told(PrivacyEvent.from_dict(each["event"]))
        who = "" if each["who"] is None else each["who"]["user"]
        named = each["statistics"] or [{"statistic": "(not recorded)", "column": None, "bounds": None, "unit": None}]
        for number, words in enumerate(named):
            about = [words[name] or "" for name in ("statistic", "column", "bounds", "unit")]
            first = [str(each["sequence"]), time, ", ".join(each["scopes"])]
            last = [each["state"], what, who]
            rows.append([*first, *about, *last] if not number else ["", "", "", *about, "", "", ""])
    header = ["record", "time (UTC)", "scope", "statistic", "column", "bounds", "unit", "state", "cost", "by"]
    console.table(header, rows, left=10)
    console.line()
    for scope in report["scopes"]:
        used = f"epsilon {bound(scope['epsilon_charged'], up=True)} of {bound(scope['epsilon'], up=False)}"
        delta = f" at delta {scope['delta']:g}" if scope["delta"] else ""
        console.sentence(f"{scope['scope']}: {used}{delta} is charged, {scope['neighboring_relation']}")
    console.line(f"{counted(len(report['releases']), 'charge')}; head  {report['head']}")


@command(
    option("--scope", metavar="NAME", help="what was charged to this one (default: all)"),
    option("--limit", type=int, default=1000, metavar="N", help="only the last N charges (default: 1000)"),
    show=_show,
    fields={"scope": maybe(TEXT), "scopes": many(_SCOPE), "releases": many(_CHARGE), "head": HEAD},
    only_reads=True,
)
def report(args: Args) -> Report:
    r"""Show what the budget was spent on.

    Show every charge with what was released: statistic, column, bounds and unit,
    as they were recorded with the charge, its state, its cost, and who made it.
    What has no words was charged by a program that gave none.

    example:
      ferrodp ledger report budget.db --scope hospital
    """
    limit = _validate.count("--limit", args.limit)
    with opened_by(args) as ledger:
        found = ledger.releases(args.scope, limit=limit)
        names = ledger.scopes if args.scope is None else (args.scope,)
        standing = [ledger.report(name) for name in names]
        head = str(ledger.head)
    numbers = "epsilon", "delta", "epsilon_charged", "delta_charged"
    return {
        "scope": args.scope,
        "scopes": [told(each, "scope", "measure", "neighboring_relation", *numbers) for each in standing],
        "releases": [
            {
                "statistics": [
                    {name: getattr(words, name) for name in ("statistic", "column", "bounds", "unit")}
                    for words in each.statistics
                ],
                **told(each, "scopes", "event", "count", "state", "key", "ticket", "sequence", "time", "who"),
            }
            for each in found
        ],
        "head": head,
    }
