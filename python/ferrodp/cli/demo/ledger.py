"""The demo paid from a ledger: its budget, and what is reported about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ferrodp.budget import PrivacyLedger
from ferrodp.cli._command import Args
from ferrodp.cli._console import Console, Report, counted, rounded_up
from ferrodp.cli.ledger import common as _ledgers
from ferrodp.cli.printing.shapes import HEAD, INTEGER, NUMBER, TEXT, many, maybe, record
from ferrodp.demo import CHECKPOINT, Checkpoint, Digits, PaidTraining, Settings, Training, allowed_rounds
from ferrodp.errors import InvalidParameter, LedgerError

_SCOPE = "demo"
FIELDS = record(
    {
        **dict.fromkeys(("where", "scope", "measure"), TEXT),
        "relations": many(TEXT),
        "resumed_after_round": maybe(INTEGER),
        **dict.fromkeys(("lost_charges", "charges"), INTEGER),
        **dict.fromkeys(("epsilon_charged", "delta_charged"), NUMBER),
        "refusal": maybe(TEXT),
        "head": HEAD,
    }
)
"""What is reported of the payments."""


def trained(args: Args, settings: Settings, data: Digits, console: Console) -> tuple[Settings, Training, Report]:
    """Train, or go on with a training; return it with its budget and what became of it."""
    folder = Path(args.output)
    scope = _SCOPE if args.scope is None else args.scope
    checkpoint = Checkpoint.load(folder / CHECKPOINT)
    if checkpoint is None and "://" not in args.ledger and not Path(args.ledger).exists():
        allowed_rounds(settings)  # refuses a budget for no round before there is a file
    with _opened(args.ledger, folder, checkpoint) as ledger:
        settings = _with_budget(ledger, scope, settings, args)
        paid = PaidTraining(ledger, scope, settings, data_seed=args.data_seed, folder=folder, checkpoint=checkpoint)
        with console.progress("private rounds", paid.planned) as advance:
            training = paid.train(data, advance)
        return settings, training, _told(args.ledger, ledger, paid, training)


def _opened(where: str, folder: Path, checkpoint: Checkpoint | None) -> PrivacyLedger:
    """Open the ledger: where a training is continued, only one that paid for what was done."""
    if checkpoint is None:
        return _ledgers.opened(where, create=True)
    try:
        return _ledgers.opened(where, witness=checkpoint.head)
    except LedgerError as error:
        hint = f"{folder} holds a training that was paid before; begin another one with another --output"
        raise LedgerError(f"{error} ({hint})") from error


def _with_budget(ledger: PrivacyLedger, scope: str, settings: Settings, args: Args) -> Settings:
    """Return the settings with the budget of the scope, which is made if it is not there."""
    if scope not in ledger.scopes:
        allowed_rounds(settings)
        ledger.create(scope, epsilon=settings.epsilon, delta=settings.delta, measure="gdp")
        return settings
    report = ledger.report(scope)
    epsilon, delta = float(report.epsilon), float(report.delta)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        given = getattr(args, name)
        if given is not None and given != value:
            raise InvalidParameter(
                f"--{name} must be left out or {value!r}, the budget of scope {scope!r}, got {given!r}; "
                "'ferrodp ledger raise-cap' and 'lower-cap' change it"
            )
    return dataclasses.replace(settings, epsilon=epsilon, delta=delta)


def _told(where: str, ledger: PrivacyLedger, paid: Any, training: Training) -> Report:
    report = ledger.report(paid.scope)
    return {
        "where": _ledgers.shown(where),
        "scope": paid.scope,
        "measure": report.measure,
        "relations": [paid.relation.value],
        "resumed_after_round": paid.resumed or None,
        "lost_charges": paid.lost,
        **_ledgers.told(report, "epsilon_charged", "delta_charged"),
        "charges": report.held + report.armed + report.spent,
        "refusal": training.refusal,
        "head": str(ledger.head),
    }


def show(told: Report, console: Console) -> None:
    """Print what the ledger says."""
    if told["resumed_after_round"] is not None:
        console.line(f"Continued after round {told['resumed_after_round']}.")
    lost = f", {told['lost_charges']} of them for results that were lost" if told["lost_charges"] else ""
    console.line(
        f"Ledger {told['where']}, scope {told['scope']!r}: epsilon {rounded_up(told['epsilon_charged'])} is charged in "
        f"{counted(told['charges'], 'charge')}{lost}."
    )
