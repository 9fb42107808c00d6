"""Scopes from the shell: create one, freeze it, change its budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrodp.budget import PrivacyLedger
from ferrodp.cli._command import Args, command, option, relation_option
from ferrodp.cli._console import Console, Report
from ferrodp.cli._events import number
from ferrodp.cli.ledger.common import REASON, SCOPE, bound, opened_by, told
from ferrodp.cli.printing.shapes import FLAG, HEAD, NUMBER, TEXT
from ferrodp.events import NeighboringRelation

_CAP = (
    SCOPE,
    REASON,
    option("--epsilon", type=number, required=True, metavar="E", help="of the new budget"),
    option("--delta", type=number, metavar="D", help="the new one (default: as it is)"),
)


_FIELDS = {
    **dict.fromkeys(("scope", "measure", "neighboring_relation"), TEXT),
    "epsilon": NUMBER,
    "delta": NUMBER,
    "frozen": FLAG,
    "head": HEAD,
}


def _show(report: Report, console: Console) -> None:
    frozen = ", frozen" if report["frozen"] else ""
    budget = f"epsilon {bound(report['epsilon'], up=False)} at delta {report['delta']:g}"
    console.fields(
        {
            "scope": report["scope"],
            "budget": f"{budget}, kept as {report['measure']}{frozen}",
            "relation": report["neighboring_relation"],
            "head": report["head"],
        }
    )


@command(
    option(
        "--scope", required=True, metavar="NAME", help="a path like hospital/images; lies in 'hospital' if there is one"
    ),
    option("--epsilon", type=number, required=True, metavar="E", help="of the budget; taken exactly in --measure pure"),
    option("--delta", type=number, required=True, metavar="D", help="of the budget; 0 is for --measure pure"),
    option(
        "--measure",
        choices=("rdp", "zcdp", "gdp", "pure"),
        default="rdp",
        help="in which costs are added up: rdp (default) for sampled Gaussian noise, gdp loses nothing for plain one, "
        "pure adds up epsilons",
    ),
    relation_option(),
    option(
        "--highest-epsilon", type=number, metavar="E", help="the most that raise-cap may ever allow; that is promised"
    ),
    option("--highest-delta", type=number, metavar="D", help="likewise (default: --delta)"),
    show=_show,
    fields=_FIELDS,
)
def create(args: Args) -> Report:
    r"""Begin a scope with a budget.

    Begin a scope with a budget, and the ledger if there is none. In --measure pure
    decimals are added up as they are written: ten times 0.1 fits into 1.0.

    example:
      ferrodp ledger create budget.db --scope hospital/images \
          --epsilon 4 --delta 1e-6
    """
    settings = _budget(args, args.measure, "epsilon", "delta", "highest_epsilon", "highest_delta")
    settings |= {"measure": args.measure, "neighboring_relation": NeighboringRelation(args.neighboring_relation)}
    return _changed(args, lambda ledger: ledger.create(args.scope, **settings), create=True)


@command(
    SCOPE,
    REASON,
    show=_show,
    fields=_FIELDS,
)
def freeze(args: Args) -> Report:
    r"""Refuse all charges to a scope.

    Refuse all charges to a scope, and the release of what is reserved or leased
    already: 0.05 seconds after this command ends, nothing begins any more.

    example:
      ferrodp ledger freeze budget.db --scope hospital --reason "incident 12"
    """
    return _changed(args, lambda ledger: ledger.freeze(args.scope, reason=args.reason))


@command(
    SCOPE,
    REASON,
    show=_show,
    fields=_FIELDS,
)
def thaw(args: Args) -> Report:
    r"""End what freeze began.

    End what freeze began.

    example:
      ferrodp ledger thaw budget.db --scope hospital --reason "incident closed"
    """
    return _changed(args, lambda ledger: ledger.thaw(args.scope, reason=args.reason))


@command(
    *_CAP,
    show=_show,
    fields=_FIELDS,
)
def raise_cap(args: Args) -> Report:
    r"""Allow more in a scope.

    Allow more in a scope: a weaker promise about everything in it, also about
    what was released before. If results decide it, all that is promised is the
    most that could ever have been granted: declare that with --highest-epsilon
    when the scope is made. Otherwise 'status' shows the scope as raised.

    example:
      ferrodp ledger raise-cap budget.db --scope hospital --epsilon 6 \
          --reason "board, 3 May"
    """
    return _changed(args, lambda ledger: ledger.raise_cap(args.scope, **_new_budget(args, ledger), reason=args.reason))


@command(
    *_CAP,
    show=_show,
    fields=_FIELDS,
)
def lower_cap(args: Args) -> Report:
    r"""Allow less in a scope.

    Allow less in a scope. If more is spent already, nothing fits from now on.

    example:
      ferrodp ledger lower-cap budget.db --scope hospital --epsilon 3 \
          --reason "study ended"
    """
    return _changed(args, lambda ledger: ledger.lower_cap(args.scope, **_new_budget(args, ledger), reason=args.reason))


def _new_budget(args: Args, ledger: PrivacyLedger) -> dict[str, Any]:
    return _budget(args, ledger.report(args.scope).measure, "epsilon", "delta")


def _budget(args: Args, measure: str, *names: str) -> dict[str, Any]:
    """Return the budget that was written: exactly where ε adds up, else as the floats that Python reads there."""
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return given if measure == "pure" else {name: float(value) for name, value in given.items()}


def _changed(args: Args, change: Callable[[PrivacyLedger], None], *, create: bool = False) -> Report:
    """Change a scope, and report how it stands then."""
    names = "scope", "measure", "neighboring_relation", "epsilon", "delta", "frozen"
    with opened_by(args, create=create) as ledger:
        change(ledger)
        return {**told(ledger.report(args.scope), *names), "head": str(ledger.head)}
