"""What else bounds an event: the end of every refusal. It is found by asking, so that it is true of today's rules."""

from __future__ import annotations

from ferrodp.accounting._types import Unsupported
from ferrodp.events import NeighboringRelation, PrivacyEvent


def advice(event: PrivacyEvent, relation: NeighboringRelation, refused_by: str) -> str:
    """Return the way out of a refusal, as the end of a sentence: other accountants, or else other relations.

    Parameters
    ----------
    event : PrivacyEvent
        A simple event.
    relation : NeighboringRelation
        The one for which it was refused.
    refused_by : str
        Name of the class that refused it, of which nothing is said. For a filter the others are filters, too.
    """
    others = [other for other in NeighboringRelation if other is not relation]
    able = accepting(event, relation, refused_by)
    if able:
        own = [other.name for other in others if refused_by in _names(event, other, refused_by)]
        return f"; use {' or '.join(able)}" + (f", or state its sensitivities for {' or '.join(own)}" if own else "")
    places = [(other, _names(event, other, refused_by)) for other in others]
    found = [f"{' or '.join(names)} under {other.name}" for other, names in places if names]
    if found:
        return f"; if its sensitivities are stated for another relation: {'; '.join(found)}"
    return "; no other one bounds it either"


def accepting(event: PrivacyEvent, relation: NeighboringRelation, refused_by: str = "") -> tuple[str, ...]:
    """Return the names of accountants that bound a simple event, or of filters if a filter asks."""
    return tuple(name for name in _names(event, relation, refused_by) if name != refused_by)


def _names(event: PrivacyEvent, relation: NeighboringRelation, asking: str) -> list[str]:
    return _filters(event, relation) if asking.endswith("Filter") else _accountants(event, relation)


def _accountants(event: PrivacyEvent, relation: NeighboringRelation) -> list[str]:
    from ferrodp.accounting.accountants.pld import (
        PldAccountant,  # not before: they import the base class, which asks here
    )
    from ferrodp.accounting.accountants.pure import PureDpAccountant
    from ferrodp.accounting.accountants.rdp import RdpAccountant
    from ferrodp.accounting.accountants.zcdp import ZcdpAccountant

    classes = (PldAccountant, RdpAccountant, ZcdpAccountant, PureDpAccountant)
    return [each.__name__ for each in classes if each(neighboring_relation=relation)._supports(event) is None]


def _filters(event: PrivacyEvent, relation: NeighboringRelation) -> list[str]:
    from ferrodp.accounting._solve import costs as _costs
    from ferrodp.accounting.rdp.costs import RdpPrice

    prices = {
        "RdpFilter": RdpPrice([2.0], relation)(event),
        "ZcdpFilter": _costs.zcdp(event, relation),
        "PureDpFilter": _costs.pure(event, relation),
        "GdpFilter": _costs.squared_mu(event),
    }
    return [name for name, price in prices.items() if not isinstance(price, Unsupported)]
