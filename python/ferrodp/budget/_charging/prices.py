"""What a charge is checked for before it is queued: its scopes, its event, and what it costs there.

A price may take milliseconds to certify. It is worked out here, in the caller's own time, and remembered where it is
worked out (`_measures`, `_rules`); so the transaction that charges finds it and nobody waits.
"""

from __future__ import annotations

from typing import Any

from ferrodp._base import _validate
from ferrodp.budget import _names
from ferrodp.budget._charging import rules as _rules
from ferrodp.budget._charging.access import Access
from ferrodp.events import NeighboringRelation
from ferrodp.events.base import check_event

_MAX_KNOWN = 4096


class Prices:
    """Checks the arguments of charges, and knows the neighboring relations of scopes, which never change."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: set[tuple[Any, ...]] = set()
        self._relations: dict[str, NeighboringRelation] = {}

    def checked(self, scopes: object, event: object, plan_delta: object = None) -> tuple[tuple[str, ...], float | None]:
        """Return the names of the scopes and the δ of the plan, once the event is known to have a price."""
        names = _names.scopes(scopes)
        check_event("event must be", event)
        planned = None if plan_delta is None else _validate.delta(plan_delta, name="plan_delta")
        mark = (names, event, planned)
        if mark not in self._known:
            with self._access.reading() as transaction:
                rows = _rules.charged_scopes(transaction, names)
            self._relations[names[0]] = rows[0].terms.neighboring_relation  # nothing has to be read after the commit
            _rules.priced(rows, event, planned)  # type: ignore[arg-type]  # checked above
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known.add(mark)
        return names, planned

    def relation(self, names: tuple[str, ...]) -> NeighboringRelation:
        """Return the neighboring relation of scopes that are charged together."""
        found = self._relations.get(names[0])
        if found is None:
            with self._access.reading() as transaction:
                found = _rules.existing(transaction, names[0]).terms.neighboring_relation
            self._relations[names[0]] = found
        return found
