"""The rules of a ledger. Each function changes a transaction, or raises and changes nothing.

A ticket is *held*, then *armed*, then *spent*; a held one may be *cancelled*, which alone gives a charge back. The
unused part of a lease is given back when the process that knows it closes the lease. Nothing else ever lowers a sum:
after crashes, errors and lost tickets the charges stay.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import os
from collections.abc import Iterable
from typing import Any

from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.pld import PldAccountant
from ferrodp.budget import _measures, _names, records
from ferrodp.budget._charging import nesting as _nesting
from ferrodp.budget._measures import Terms
from ferrodp.budget.stores import rows
from ferrodp.budget.stores.base import Transaction
from ferrodp.budget.stores.rows import Charges, ScopeRow, TicketRow
from ferrodp.errors import (
    BudgetExceeded,
    InvalidParameter,
    KeyUsed,
    LedgerDamaged,
    ScopeFrozen,
    TicketError,
    UnknownScope,
)
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation, PrivacyEvent
from ferrodp.tickets import TicketState
from ferrodp.tickets.statistic import ReleasedStatistic

_LISTED = 10
"""Names that a message lists."""


def create(transaction: Transaction, name: str, terms: Terms, *, orders_given: bool = False) -> None:
    """Create a scope, with what was charged already to the scopes within it."""
    if transaction.scope(name) is not None:
        raise InvalidParameter(
            f"scope {name!r} exists already; a reset is a new scope under another name, such as {name + '-2'!r}"
        )
    inside = {row.name: row for row in transaction.scopes_within(name)}
    charged = [inside[each] for each in _nesting.outermost(inside) if any(inside[each].spent)]
    if charged and terms.orders and not orders_given:
        terms = _with_common_orders(terms, charged)
    caps = terms.caps()
    for row in inside.values():
        if row.terms.neighboring_relation is not terms.neighboring_relation:
            raise InvalidParameter(
                f"neighboring_relation must be {row.terms.neighboring_relation.name}, as that of {row.name!r}, which "
                f"lies within {name!r}, got {terms.neighboring_relation.name}"
            )
    for row in charged:
        if not _nesting.is_countable(row.terms, terms):
            orders = " at orders that it keeps" if row.terms.measure == terms.measure else ""
            raise InvalidParameter(
                f"measure must be {row.terms.measure!r}{orders} for a scope around {row.name!r}, whose charges it has "
                f"to take over, got {terms.measure!r}; or begin with scopes under a new name, the outer one first"
            )
    spent = _nesting.carried({row.name: (row.terms, row.spent) for row in inside.values()}, terms, len(caps))
    # mutant: scope-made-around-others-may-begin-overspent
    if any(spent) and not terms.fits(spent, caps):
        epsilon, delta = terms.epsilon_of(spent, caps), terms.delta_of(spent)
        raise InvalidParameter(
            f"epsilon and delta must allow what was charged within {name!r} already, epsilon {epsilon!r} at delta "
            f"{delta!r}, got {float(terms.epsilon)!r} and {float(terms.delta)!r}"
        )
    more = {"carried": rows.amounts_text(spent)} if inside else {}
    transaction.record("create", scope=name, terms=terms.text, caps=rows.amounts_text(caps), **more)
    transaction.put_scope(ScopeRow(name=name, terms=terms, caps=caps, spent=spent))


def _with_common_orders(terms: Terms, charged: list[ScopeRow]) -> Terms:
    """Return the terms at those of their orders that all these scopes keep; as they are if there is none."""
    common = set(terms.orders).intersection(*(row.terms.orders for row in charged))
    if not common or common == set(terms.orders):
        return terms
    found = _measures.checked_terms(
        measure=terms.measure,
        epsilon=terms.epsilon,
        delta=terms.delta,
        neighboring_relation=terms.neighboring_relation,
        orders=tuple(order for order in terms.orders if order in common),
    )
    return dataclasses.replace(found, highest=terms.highest)


def existing(transaction: Transaction, name: str) -> ScopeRow:
    """Return a scope that has to exist."""
    row = transaction.scope(name)
    if row is None:
        raise UnknownScope(_unknown(transaction, name))
    return row


def _unknown(transaction: Transaction, name: str) -> str:
    """Say that there is no such scope, which was probably meant, and which there are."""
    known = [row.name for row in transaction.scopes()]
    if not known:
        return (
            f"scope {name!r} does not exist in this ledger, which has none; "
            f"create it first: ledger.create({name!r}, epsilon=..., delta=...)"
        )
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]!r}? It" if near else "it"
    listed = ", ".join(map(repr, known[:_LISTED])) + (f" and {len(known) - _LISTED} more" * (len(known) > _LISTED))
    return f"scope {name!r} does not exist in this ledger; {meant} has {listed}; create {name!r} first if it is new"


def charged_scopes(transaction: Transaction, names: tuple[str, ...]) -> list[ScopeRow]:
    """Return the scopes with these names and those they lie in, by name."""
    found = {name: existing(transaction, name) for name in names}
    for name in names:
        # mutant: scopes-around-scope-forgotten
        for outer in _names.ancestors(name):
            row = transaction.scope(outer)
            if row is not None:
                found[outer] = row
    charged = [found[name] for name in sorted(found)] if len(found) > 1 else list(found.values())
    if len(charged) > 1 and len({row.terms.neighboring_relation for row in charged}) > 1:
        listed = ", ".join(f"{row.name!r} {row.terms.neighboring_relation.value}" for row in charged)
        raise InvalidParameter(f"scopes must have one neighboring relation to be charged together, got {listed}")
    return charged


def priced(scopes: list[ScopeRow], event: PrivacyEvent, plan_delta: float | None) -> Charges:
    """Return what an event costs in each scope: by its measure, or as the (ε, δ) of a plan fixed in advance."""
    if plan_delta is None:
        return {row.name: row.terms.costs(event) for row in scopes}
    stated = {row.name: _certified(event, plan_delta, row.terms.neighboring_relation) for row in scopes}
    return {row.name: row.terms.costs(stated[row.name]) for row in scopes}


def key_used(transaction: Transaction, names: tuple[str, ...], event: PrivacyEvent, key: str) -> bool:
    """Return whether the release of a key has begun; refuse a key of something else."""
    place = rows.slot(names, key)
    known = None if place is None else transaction.ticket_of(place)
    if known is not None and known.fingerprint != _fingerprint(names, event, 1, None):
        raise _used_otherwise(key)
    return known is not None and known.state is not TicketState.HELD


def charged(scopes: list[ScopeRow], charges: Charges, event: PrivacyEvent, count: int) -> list[ScopeRow]:
    """Return the scopes with `count` releases charged to each, or refuse: the message names the scope that is full."""
    found = []
    for row in scopes:
        # mutant: frozen-scope-takes-charges
        if row.frozen:
            raise ScopeFrozen(f"scope {row.name!r} is frozen: nothing may be charged to it")
        costs = charges[row.name]
        spent = _measures.added(row.spent, _measures.scaled(costs, count))
        if not row.terms.fits(spent, row.caps):
            where = f"scope {row.name!r}"
            raise BudgetExceeded(
                _measures.refusal(where, row.terms, row.spent, row.caps, event, costs=costs, count=count)
            )
        found.append(ScopeRow(row.name, row.terms, row.caps, spent, row.frozen, row.version, row.counts))
    return found


def _used_otherwise(key: str | None) -> TicketError:
    return TicketError(f"key {key!r} was used for another reservation; give this one a key of its own")


def reserve(
    transaction: Transaction,
    names: tuple[str, ...],
    event: PrivacyEvent,
    *,
    key: str | None,
    count: int = 1,
    plan_delta: float | None = None,
    state: TicketState = TicketState.HELD,
    lease: bool = False,
    again_ok: bool = False,
    statistics: tuple[ReleasedStatistic, ...] = (),
) -> tuple[TicketRow, bool]:
    """Charge `count` releases; return the ticket, or the one that this key got before, and whether it is new.

    What is released, in words, is part of the record of the charge. A key that was used without words, as by earlier
    versions, takes any; other words are another reservation.
    """
    place, fingerprint = rows.slot(names, key), ""
    if place is not None:
        fingerprint = _fingerprint(names, event, count, plan_delta)
        known = transaction.ticket_of(place)
        if known is not None:
            # mutant: what-key-used-for-not-compared
            if known.fingerprint != fingerprint or (lease and known.state is TicketState.HELD):
                raise _used_otherwise(key)
            said = statistics and words_of(transaction, known)
            # mutant: key-of-another-statistic-taken
            if said and said != _plain(statistics):
                raise _used_otherwise(key)
            # mutant: used-key-given-again-unasked
            if known.state is not TicketState.HELD and not again_ok:
                raise KeyUsed(
                    f"key {key!r} has paid for a release that began already: its ticket {known.id} is "
                    f"{known.state.value}; another release needs another key"
                )
            return known, False
    scopes = charged_scopes(transaction, names)
    charges = priced(scopes, event, plan_delta)
    changed = charged(scopes, charges, event, count)
    identity = rows.ticket_name(transaction.head.sequence + 1, os.urandom(10).hex())
    fields: dict[str, Any] = {} if key is None else {"key": key, "fingerprint": fingerprint}
    if plan_delta is not None:
        fields["plan_delta"] = plan_delta
    # mutant: charge-recorded-without-its-words
    if statistics:
        fields["statistics"] = records.plain(_plain(statistics))
    sequence = transaction.record(
        "lease" if lease else "reserve",
        ticket=identity,
        scopes=rows.names_text(names),
        event=rows.event_text(event),
        charges=rows.charges_text(charges),
        count=count,
        state=state.value,
        **fields,
    )
    ticket = TicketRow(identity, key, fingerprint, state, event, charges, count, names, sequence)
    for row in changed:
        transaction.put_scope(row)
    transaction.put_ticket(ticket)
    return ticket, True


def words_of(transaction: Transaction, ticket: TicketRow) -> Any:
    """Return in words what a ticket was reserved for, as the record says it; None if it does not."""
    return records.parsed(transaction.record_of(ticket.sequence)).get("statistics")


def _plain(statistics: tuple[ReleasedStatistic, ...]) -> list[dict[str, str]]:
    return [each.to_dict() for each in statistics]


def spend(
    transaction: Transaction,
    names: tuple[str, ...],
    event: PrivacyEvent,
    *,
    key: str | None,
    again_ok: bool = False,
    statistics: tuple[ReleasedStatistic, ...] = (),
) -> bool:
    """Charge one release that happens elsewhere; return whether this did it, and not an earlier one with the same key.

    A ticket that was held under the key is used up for it.
    """
    ticket, is_new = reserve(
        transaction, names, event, key=key, state=TicketState.SPENT, again_ok=again_ok, statistics=statistics
    )
    # mutant: spend-does-not-use-up-ticket-held-under-key
    if ticket.state is not TicketState.HELD:
        # mutant: spend-with-used-key-says-that-it-new
        return is_new
    arm(transaction, ticket.id, statistics)
    finish(transaction, ticket.id)
    return True


def arm(transaction: Transaction, identity: str, statistics: tuple[ReleasedStatistic, ...] = ()) -> None:
    """Record that random bits are about to be drawn for a ticket, and for what, unless it was reserved with words."""
    row = _ticket(transaction, identity)
    if row.state is not TicketState.HELD:
        raise TicketError(f"ticket {identity} is {row.state.value}; its cost is spent, whoever armed it")
    # mutant: tickets-armed-in-frozen-scope
    refuse_frozen(transaction, row.charges)
    said = statistics and not words_of(transaction, row)
    # mutant: release-recorded-without-its-words
    words = {"statistics": records.plain(_plain(statistics))} if said else {}
    transaction.record("arm", ticket=identity, **words)
    transaction.put_ticket(row.moved(TicketState.ARMED))


def refuse_frozen(transaction: Transaction, names: Iterable[str]) -> None:
    """Raise if one of these scopes is frozen, or one that they lie in, also if that was made later than the charge."""
    for name in names:
        # mutant: scope-around-made-later-freezes-nothing
        for each in (*_names.ancestors(name), name):
            row = transaction.scope(each)
            if row is not None and row.frozen:
                raise ScopeFrozen(f"scope {each!r} is frozen: nothing may be released")


def finish(transaction: Transaction, identity: str) -> None:
    """Note that a release is done."""
    row = _ticket(transaction, identity)
    if row.state is TicketState.ARMED:
        transaction.record("finish", ticket=identity)
        transaction.put_ticket(row.moved(TicketState.SPENT))


def cancel(transaction: Transaction, identity: str, reason: str | None = None) -> None:
    """Give a held ticket back, and its key; an operator who does that for somebody else says why."""
    row = _ticket(transaction, identity)
    # mutant: armed-ticket-given-back
    if row.state is not TicketState.HELD:
        raise TicketError(f"ticket {identity} is {row.state.value}; only a held one can be cancelled")
    refunds = _refunded(transaction, row, row.times)
    transaction.record("cancel", ticket=identity, **({} if reason is None else {"reason": reason}))
    for scope in refunds:
        transaction.put_scope(scope)
    transaction.put_ticket(row._replace(key=None, state=TicketState.CANCELLED), freed=row.slot)


def give_back(transaction: Transaction, identity: str, unused: int) -> None:
    """End a lease, and give back what it did not use."""
    row = _ticket(transaction, identity)
    if row.state is not TicketState.ARMED or not 0 <= unused <= row.times:
        raise TicketError(f"lease {identity} has ended")
    # mutant: lease-gives-back-one-more-than-left
    refunds = _refunded(transaction, row, unused)
    transaction.record("return", ticket=identity, count=unused)
    for scope in refunds:
        transaction.put_scope(scope)
    transaction.put_ticket(row._replace(times=row.times - unused, state=TicketState.SPENT))


def set_budget(
    transaction: Transaction, name: str, epsilon: Real, delta: Real | None, reason: str, *, more: bool
) -> None:
    """Raise or lower what a scope allows in all; what was spent stays."""
    row = existing(transaction, name)
    old = row.terms
    terms = _measures.checked_terms(
        measure=old.measure,
        epsilon=epsilon,
        delta=old.delta if delta is None else delta,
        neighboring_relation=old.neighboring_relation,
        orders=old.orders or None,
    )
    # mutant: lowered-cap-loses-orders-without-budget
    terms = _measures.succeeding(old, terms)
    got = f"got {float(terms.epsilon)!r} and {float(terms.delta)!r}"
    if terms.raised and terms.highest is not None:
        most = f"{float(terms.highest[0])!r} and {float(terms.highest[1])!r}"
        raise InvalidParameter(
            f"epsilon and delta must be at most {most}, the highest that was declared when the scope was made, {got}; "
            "a larger budget is that of a new scope"
        )
    steps = [(terms.epsilon, old.epsilon), (terms.delta, old.delta)]
    if any(new < now if more else new > now for new, now in steps):
        accepted = f"{'at least' if more else 'at most'} what they are, {float(old.epsilon)!r} and {float(old.delta)!r}"
        other = "lower_cap lowers them" if more else "raise_cap raises them"
        raise InvalidParameter(f"epsilon and delta must be {accepted}, {got}; {other}")
    caps = terms.caps()
    transaction.record("cap", scope=name, terms=terms.text, caps=rows.amounts_text(caps), reason=reason)
    transaction.put_scope(row._replace(terms=terms, caps=caps))


def set_frozen(transaction: Transaction, name: str, frozen: bool, reason: str) -> None:
    """Forbid or allow charges and releases in a scope."""
    row = existing(transaction, name)
    if row.frozen is frozen:
        return
    transaction.record("freeze" if frozen else "thaw", scope=name, reason=reason)
    transaction.put_scope(row._replace(frozen=frozen))


def _ticket(transaction: Transaction, identity: str) -> TicketRow:
    row = transaction.ticket(identity)
    if row is None:
        raise LedgerDamaged(
            f"ticket {identity} is not in this ledger: it is another one, or an earlier state was put back; "
            "tickets() lists those that there are"
        )
    return row


def _refunded(transaction: Transaction, ticket: TicketRow, count: int) -> list[ScopeRow]:
    """Return the scopes of a ticket, and those made around them later, without the cost of `count` releases."""
    refunds = dict(sorted(ticket.charges.items()))
    around = _nesting.later_around(ticket.charges, lambda outer: transaction.scope(outer) is not None)
    for name in around if count else ():
        length = len(existing(transaction, name).spent)
        refunds[name] = _nesting.given_back(
            ticket.charges, name, lambda each: existing(transaction, each).terms, length
        )
    found = []
    for name, costs in refunds.items():
        row = existing(transaction, name)
        found.append(row._replace(spent=_measures.taken(row.spent, _measures.scaled(costs, count))))
    return found


@functools.lru_cache(maxsize=1024)
def _fingerprint(names: tuple[str, ...], event: PrivacyEvent, count: int, plan_delta: float | None) -> str:
    text = records.plain([list(names), rows.event_text(event), count, plan_delta])
    return hashlib.sha256(text.encode()).hexdigest()


@functools.lru_cache(maxsize=256)
def _certified(event: PrivacyEvent, delta: float, relation: NeighboringRelation) -> EpsilonDeltaEvent:
    accountant = PldAccountant(neighboring_relation=relation)
    accountant.compose(event)
    return EpsilonDeltaEvent(epsilon=accountant.epsilon(delta), delta=delta)
