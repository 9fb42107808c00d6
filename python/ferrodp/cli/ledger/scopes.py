"""Scopes from the shell: begin one, freeze it, allow more or less."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ferrodp.cli._console import Console, Report
from ferrodp.cli._events import number
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.ledger.common import Action, bound
from ferrodp.events import NeighboringRelation

_MEASURES = ("rdp", "zcdp", "gdp", "pure")


def _add_create(add: Callable[..., Any]) -> None:
    add(
        "--scope", required=True, metavar="NAME", help="a path like hospital/images; lies in 'hospital' if there is one"
    )
    add("--epsilon", type=number, required=True, metavar="E", help="of the budget; taken exactly in --measure pure")
    add("--delta", type=number, required=True, metavar="D", help="of the budget; 0 is for --measure pure")
    add(
        "--measure",
        choices=_MEASURES,
        default="rdp",
        help="in which costs are added up: rdp (default) for sampled Gaussian noise, gdp loses nothing for plain one, "
        "pure adds up epsilons",
    )
    add(
        "--neighboring-relation",
        choices=[relation.value for relation in NeighboringRelation],
        default=NeighboringRelation.ADD_OR_REMOVE_ONE.value,
        metavar="RELATION",
        help="add_or_remove_one (default), replace_one or replace_special",
    )
    add("--highest-epsilon", type=number, metavar="E", help="the most that raise-cap may ever allow; that is promised")
    add("--highest-delta", type=number, metavar="D", help="likewise (default: --delta)")


def _create(args: argparse.Namespace, where: str) -> Report:
    with _ledgers.opened(where, create=True, verify=args.verify) as ledger:
        ledger.create(
            args.scope,
            **_budget(args, args.measure, "epsilon", "delta", "highest_epsilon", "highest_delta"),
            measure=args.measure,
            neighboring_relation=NeighboringRelation(args.neighboring_relation),
        )
        return _state(ledger, args.scope)


def _budget(args: argparse.Namespace, measure: str, *names: str) -> dict[str, Any]:
    """Return the budget that was written: exactly where ε adds up, else as the floats that Python reads there."""
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return given if measure == "pure" else {name: float(value) for name, value in given.items()}


def _add_reason(add: Callable[..., Any]) -> None:
    add("--scope", required=True, metavar="NAME", help="which one")
    add("--reason", required=True, metavar="TEXT", help="goes into the log")


def _add_cap(add: Callable[..., Any]) -> None:
    _add_reason(add)
    add("--epsilon", type=number, required=True, metavar="E", help="of the new budget")
    add("--delta", type=number, metavar="D", help="the new one (default: as it is)")


def _setting_caps(method: str) -> Callable[[argparse.Namespace, str], Report]:
    def run(args: argparse.Namespace, where: str) -> Report:
        with _ledgers.opened(where, verify=args.verify) as ledger:
            budget = _budget(args, ledger.report(args.scope).measure, "epsilon", "delta")
            getattr(ledger, method)(args.scope, **budget, reason=args.reason)
            return _state(ledger, args.scope)

    return run


def _freezing(method: str) -> Callable[[argparse.Namespace, str], Report]:
    def run(args: argparse.Namespace, where: str) -> Report:
        with _ledgers.opened(where, verify=args.verify) as ledger:
            getattr(ledger, method)(args.scope, reason=args.reason)
            return _state(ledger, args.scope)

    return run


def _state(ledger: Any, scope: str) -> Report:
    report = ledger.report(scope)
    return {
        "scope": report.scope,
        "measure": report.measure,
        "neighboring_relation": report.neighboring_relation.value,
        "epsilon": float(report.epsilon),
        "delta": float(report.delta),
        "frozen": report.frozen,
        "head": str(ledger.head),
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


ACTIONS = {
    "create": Action(
        "begin a scope with a budget",
        "Begin a scope with a budget, and the ledger if there is none. In --measure pure\n"
        "decimals are added up as they are written: ten times 0.1 fits into 1.0.",
        "  ferrodp ledger create budget.db --scope hospital/images \\\n      --epsilon 4 --delta 1e-6",
        _add_create,
        _create,
        _show,
    ),
    "freeze": Action(
        "refuse all charges to a scope",
        "Refuse all charges to a scope, and the release of what is reserved or leased\n"
        "already: 0.05 seconds after this command ends, nothing begins any more.",
        '  ferrodp ledger freeze budget.db --scope hospital --reason "incident 12"',
        _add_reason,
        _freezing("freeze"),
        _show,
    ),
    "thaw": Action(
        "end what freeze began",
        "End what freeze began.",
        '  ferrodp ledger thaw budget.db --scope hospital --reason "incident closed"',
        _add_reason,
        _freezing("thaw"),
        _show,
    ),
    "raise-cap": Action(
        "allow more in a scope",
        "Allow more in a scope: a weaker promise about everything in it, also about\n"
        "what was released before. If results decide it, all that is promised is the\n"
        "most that could ever have been granted: declare that with --highest-epsilon\n"
        "when the scope is made. Otherwise 'status' shows the scope as raised.",
        '  ferrodp ledger raise-cap budget.db --scope hospital --epsilon 6 \\\n      --reason "board, 3 May"',
        _add_cap,
        _setting_caps("raise_cap"),
        _show,
    ),
    "lower-cap": Action(
        "allow less in a scope",
        "Allow less in a scope. If more is spent already, nothing fits from now on.",
        '  ferrodp ledger lower-cap budget.db --scope hospital --epsilon 3 \\\n      --reason "study ended"',
        _add_cap,
        _setting_caps("lower_cap"),
        _show,
    ),
}
