"""Which accountants and filters can bound an event: the way out that every refusal names.

The rules that accountants and filters follow are asked, so that what a refusal recommends is always accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ferrodp.accounting._laws import costs
from ferrodp.accounting._solve import renyi, solver
from ferrodp.accounting._types import Unsupported
from ferrodp.events import NeighboringRelation, PrivacyEvent

Rule: TypeAlias = Callable[[PrivacyEvent, NeighboringRelation], object]
"""Returns how a simple event is bounded, or `Unsupported`."""

_ACCOUNTANTS: dict[str, Rule] = {
    "PldAccountant": solver.pairs_or_curve,
    "RdpAccountant": renyi.known_curve,
    "ZcdpAccountant": costs.zcdp,
    "PureDpAccountant": costs.pure,
}
_FILTERS: dict[str, Rule] = {
    "RdpFilter": renyi.certain_curve,
    "ZcdpFilter": costs.zcdp,
    "PureDpFilter": costs.pure,
    "GdpFilter": costs.squared_mu,
}


def advice(event: PrivacyEvent, relation: NeighboringRelation, refused_by: str) -> str:
    """Return the way out of a refusal, as the end of a sentence: other accountants, or else other relations.

    Parameters
    ----------
    event : PrivacyEvent
        A simple event.
    relation : NeighboringRelation
        The one for which it was refused.
    refused_by : str
        Name of the class that refused it, which is not recommended. A filter is advised of other filters.
    """
    others = [other for other in NeighboringRelation if other is not relation]
    able = [name for name in _names(event, relation, refused_by) if name != refused_by]
    if able:
        own = [other.name for other in others if refused_by in _names(event, other, refused_by)]
        return f"; use {' or '.join(able)}" + (f", or state its sensitivities for {' or '.join(own)}" if own else "")
    places = [(other, _names(event, other, refused_by)) for other in others]
    found = [f"{' or '.join(names)} under {other.name}" for other, names in places if names]
    if found:
        return f"; if its sensitivities are stated for another relation: {'; '.join(found)}"
    return "; no other one bounds it either"


def _names(event: PrivacyEvent, relation: NeighboringRelation, asking: str) -> list[str]:
    """Return the names of accountants that bound a simple event, or of filters if a filter asks."""
    rules = _FILTERS if asking.endswith("Filter") else _ACCOUNTANTS
    return [name for name, rule in rules.items() if not isinstance(rule(event, relation), Unsupported)]
