"""Statements of plans, scopes of ledgers, mechanisms and events."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._native import __version__
from ferrodp.accounting import PldAccountant
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.accountants.registry import accountant_maker
from ferrodp.accounting.reports import membership_advantage, true_positive_rate
from ferrodp.budget import PrivacyLedger, TicketReport
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import ComposedEvent, EpsilonDeltaEvent, NeighboringRelation, PrivacyEvent, SelfComposedEvent
from ferrodp.events.base import check_relation
from ferrodp.plan import PrivacyPlan
from ferrodp.statements.statement import Statement

__all__ = ["statement"]

_DELTAS = tuple(10.0**-power for power in range(3, 11))
_MEANINGS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "whether any one {unit} is in the data cannot be told beyond the bounds",
    NeighboringRelation.REPLACE_ONE: "which of two possible {unit}s is in the data cannot be told beyond the bounds",
    NeighboringRelation.REPLACE_SPECIAL: "whether any one {unit} contributes, or zeros in its place, cannot be told "
    "beyond the bounds",
}
_ASSUMPTIONS = (
    "All that one unit contributes is counted as one unit, and its contributions are bounded as the sensitivities say.",
    "Everything that depends on the data and leaves the protected environment is listed here.",
    "The system's random bits cannot be told from uniform ones. Whoever holds the data before noise is added, machines "
    "and administrators included, is trusted not to leak it.",
    "Parameters (noise, bounds, number of releases) were chosen without looking at the data.",
)
_PROOF = (
    "exact: the law of the noise is the stated one (page Proofs of the documentation); bounds on epsilon are proven "
    "upper bounds, rounding included (page Theorems)"
)
_FIXED = "for all that is charged to the scope, now and later, whatever results decide"
_RAISED = "only if results did not decide that the budget was raised beyond what was declared"
_LARGEST_LIST = 100


def statement(
    subject: PrivacyPlan | PrivacyLedger | PrivacyEvent | Any,
    scope: str | None = None,
    *,
    delta: Real | None = None,
    unit: str | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    accountant: str = "pld",
    details: Mapping[str, str] | None = None,
) -> Statement:
    """Return a privacy statement, to be handed to a review board or entered into a registry of deployments.

    Parameters
    ----------
    subject : PrivacyPlan, PrivacyLedger, PrivacyEvent or mechanism
        What it is about. A mechanism is anything with an ``event``; it stands for one release.
    scope : str, optional
        Of a ledger: which scope.
    delta : float, optional
        At which ε is stated. Needed, but for a ledger, whose scope has one.
    unit : str, optional
        What is protected: "patient", "client"; by default what the plan says, or "unit of privacy".
    neighboring_relation : NeighboringRelation
        Of a mechanism or an event; a plan and a scope have theirs.
    accountant : str
        What proves the bounds, by the name that `epsilon` of a plan takes.
    details : mapping of str to str, optional
        What only you know and registries ask for: curator, contact, purpose, data source, data product, where and
        when it is published, who may see it, and the trust model (who sees the data before noise is added). It is
        written as it stands.

    Returns
    -------
    Statement

    Raises
    ------
    InvalidParameter, InvalidType
        If the subject is none of these, or a parameter is missing or not for it.
    UnsupportedEventError
        If the accountant has no bound for the subject.

    Notes
    -----
    Nothing in it was computed from data: it holds parameters, times and bounds. Keys, reasons, users, hosts and paths
    of a ledger are left out. What registries of deployments ask for is discussed in Nanayakkara, Ghazi, Vadhan,
    "Practitioners' perspectives on a differential privacy deployment registry", arXiv:2509.13509, 2025.

    Examples
    --------
    >>> import ferrodp as fd
    >>> mechanism = fd.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0)
    >>> found = fd.statement(mechanism, delta=1e-6, unit="patient", details={"curator": "a hospital"})
    >>> found.guarantee["epsilon"] <= 1.0
    True
    >>> found.attackers[0]  # doctest: +ELLIPSIS
    'Somebody who guesses whether a given patient is in the data, and is right 50 times ...
    """
    if isinstance(subject, PrivacyLedger):
        if scope is None:
            raise InvalidParameter(
                "scope must be given with a ledger, got None; "
                f"it has {', '.join(map(repr, subject.scopes))}: write scope=..."
            )
        if delta is not None:
            raise InvalidParameter(f"delta must be left out, got {_validate.shown(delta)}: the scope has one")
        return _of_scope(subject, scope, unit or "unit of privacy", dict(details or {}))
    if scope is not None:
        raise InvalidParameter(
            f"scope must be that of a ledger, got {_validate.shown(scope)}; write statement(ledger, scope=...)"
        )
    if delta is None:
        raise InvalidParameter("delta must be given, got None: epsilon is stated at it; for example delta=1e-6")
    stated = _validate.delta(delta)
    if isinstance(subject, PrivacyPlan):
        relation, protected = subject.neighboring_relation, unit or subject.unit
        event, name, label = subject.event, f"plan of {subject.num_steps} steps", None
    else:
        found = subject if isinstance(subject, PrivacyEvent) else getattr(subject, "event", None)
        if not isinstance(found, PrivacyEvent):
            raise InvalidType(
                f"subject must be a plan, a ledger, a mechanism or an event, got {type(subject).__name__}"
            )
        event = found
        relation, protected = check_relation(neighboring_relation), unit or "unit of privacy"
        name, label = type(subject).__name__, getattr(subject, "guarantee", None)
    spent = accountant_maker(accountant, relation)()
    spent.compose(event)
    bounds = spent.epsilon_bounds(stated)
    return Statement(
        subject=name,
        protected=_protected(relation, protected),
        released=tuple(_released(event)),
        guarantee={
            "epsilon": bounds.upper,
            "epsilon_at_least": bounds.lower,
            "delta": stated,
            "accountant": accountant,
        },
        curve=_curve(spent),
        attackers=_attackers(spent, protected, relation),
        assumptions=_ASSUMPTIONS,
        proof=_PROOF if label in (None, "exact") else f"{label}; {_PROOF.partition('; ')[2]}",
        details=dict(details or {}),
        versions=_versions(),
    )


def _of_scope(ledger: PrivacyLedger, scope: str, unit: str, details: dict[str, str]) -> Statement:
    """Return the statement of a scope: what it promises, and what was charged up to the head."""
    report, odometer, head = ledger.report(scope), ledger.odometer(scope), ledger.head
    relation = report.neighboring_relation
    fixed = report.promised_epsilon is not None and report.promised_delta is not None
    epsilon = report.promised_epsilon if report.promised_epsilon is not None else report.epsilon
    delta = report.promised_delta if report.promised_delta is not None else report.delta
    promise = PldAccountant(neighboring_relation=relation)
    promise.compose(EpsilonDeltaEvent(epsilon=epsilon, delta=delta))
    tickets = [
        each for each in ledger.tickets(scope, states=["held", "armed", "spent"]) if each.sequence <= head.sequence
    ]
    spent = _spent(tickets, relation)
    known = {} if spent is None else {"epsilon_of_charges_at_least": spent.epsilon_bounds(float(delta)).lower}
    return Statement(
        subject=f"scope {scope}",
        protected=_protected(relation, unit),
        released=_charges(tickets),
        guarantee={
            "epsilon": float(epsilon),
            "delta": float(delta),
            "holds": _FIXED if fixed else _RAISED,
            "budget_epsilon": float(report.epsilon),
            "budget_delta": float(report.delta),
            "epsilon_charged": report.epsilon_charged,
            "epsilon_charged_holds": "if the releases had been fixed in advance: the least budget that takes them all",
            **known,
            "epsilon_at_any_time": odometer.epsilon,
            "measure": report.measure,
            "releases": report.held + report.armed + report.spent,
        },
        curve=() if spent is None else _curve(spent),
        attackers=_attackers(promise, unit, relation),
        assumptions=(*_ASSUMPTIONS[:3], "Every release was charged to this ledger; no other ledger holds this data."),
        proof=f"{_PROOF}; budgets hold by privacy filters, under full adaptivity",
        details=details,
        versions={**_versions(), "ledger_head": str(head)},
    )


def _protected(relation: NeighboringRelation, unit: str) -> dict[str, str]:
    meaning = _MEANINGS[relation].format(unit=unit)
    return {"unit": unit, "neighboring_relation": relation.value, "meaning": meaning}


def _released(event: PrivacyEvent, count: int = 1) -> list[dict[str, Any]]:
    """Return the parts of an event: type, how often, and its public parameters."""
    if isinstance(event, SelfComposedEvent):
        return _released(event.event, count * event.count)
    if isinstance(event, ComposedEvent):
        parts = [part for each in event.events for part in _released(each, count)]
        if len(parts) > _LARGEST_LIST:
            rest = sum(part["times"] for part in parts[_LARGEST_LIST:])
            parts = [*parts[:_LARGEST_LIST], {"event": "others", "times": rest, "parameters": ""}]
        return parts
    data = event.to_dict()
    kind = str(data.pop("type")).replace("_", " ")
    data.pop("version", None)
    return [{"event": kind, "times": count, "parameters": ", ".join(_parameters(data))}]


def _parameters(data: Mapping[str, Any]) -> list[str]:
    found = []
    for name, value in data.items():
        if isinstance(value, dict) and "type" in value:
            inner = {key: each for key, each in value.items() if key not in ("type", "version")}
            found.append(f"of {value['type']} ({', '.join(_parameters(inner))})")
        else:
            found.append(f"{name.replace('_', ' ')} {value}")
    return found


def _charges(tickets: list[TicketReport]) -> tuple[dict[str, Any], ...]:
    """Return what was charged: equal events together, with the times of the first and the last."""
    groups: dict[PrivacyEvent, dict[str, Any]] = {}
    for ticket in tickets:
        when = ticket.time.partition(".")[0].removesuffix("+00:00") + "Z"
        known = groups.setdefault(ticket.event, {"times": 0, "first": when, "last": when})
        known["times"] += ticket.count
        known["last"] = when
    return tuple(
        {**part, "first": group["first"], "last": group["last"]}
        for event, group in list(groups.items())[:_LARGEST_LIST]
        for part in _released(event, group["times"])
    )


def _spent(tickets: list[TicketReport], relation: NeighboringRelation) -> PrivacyAccountant | None:
    """Return an accountant of all that was charged, or None if there is nothing, or no bound for it."""
    spent = PldAccountant(neighboring_relation=relation)
    try:
        for ticket in tickets:
            spent.compose(ticket.event, ticket.count)
    except UnsupportedEventError:
        return None
    return spent if tickets else None


def _curve(spent: PrivacyAccountant) -> tuple[dict[str, float], ...]:
    found = []
    for delta in _DELTAS:
        bounds = spent.epsilon_bounds(delta)
        found.append({"delta": delta, "epsilon_at_least": bounds.lower, "epsilon": bounds.upper})
    return tuple(found)


def _attackers(spent: PrivacyAccountant, unit: str, relation: NeighboringRelation) -> tuple[str, ...]:
    """Say what the best attack can achieve: as a guess, as a test, as an advantage."""
    advantage = membership_advantage(spent)
    detected = float(true_positive_rate(spent, false_positive_rate=0.01))
    asked = {
        NeighboringRelation.ADD_OR_REMOVE_ONE: f"whether a given {unit} is in the data",
        NeighboringRelation.REPLACE_ONE: f"which of two {unit}s is in the data",
        NeighboringRelation.REPLACE_SPECIAL: f"whether a given {unit} contributed",
    }[relation]
    return (
        f"Somebody who guesses {asked}, and is right 50 times out of 100 by tossing a coin, is right at most "
        f"{_out_of_100(0.5 + 0.5 * advantage)} times out of 100 with everything that is released and all other data.",
        f"A test that raises a false alarm in 1 of 100 cases detects at most {_out_of_100(detected)} of 100 {unit}s.",
        f"Membership advantage (detections minus false alarms, at most): {_up(advantage)}.",
    )


def _out_of_100(share: float) -> str:
    return _up(min(100.0 * share, 100.0), 3)


def _up(value: float, digits: int = 3) -> str:
    """Write a bound with few digits, rounded up."""
    if not math.isfinite(value):
        return "no bound"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value)).normalize():f}"


def _versions() -> dict[str, str]:
    return {"ferrodp": __version__, "python": platform.python_version(), "numpy": np.__version__}
