"""Scopes created around others that were charged already: what they begin with, and what they are given back.

A scope counts everything charged within it, so one that is created later begins with the sums of those inside. Only the
outermost ones are counted, because their sums hold those of the scopes in them. What was charged in one step to several
of these counts once for each, which may be more than it cost, and never less. When a ticket or the rest of a lease from
before is given back, the scope around gets back exactly what it took over with it, by the same rule.

Sums are taken over in whole units: only from the same measure, and in "rdp" only at orders that were kept inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ferrodp.budget import _measures, _names
from ferrodp.budget._measures import Amounts, Terms

Sums = Mapping[str, tuple[Terms, Amounts]]
"""By scope, in which terms how much."""


def outermost(names: Iterable[str]) -> list[str]:
    """Return those names that lie in none of the others, in order."""
    among = set(names)
    # mutant: scope-within-scope-counts-twice-around-them
    return sorted(name for name in among if among.isdisjoint(_names.ancestors(name)))


def is_countable(inner: Terms, outer: Terms) -> bool:
    """Whether sums in one scope can be taken over by another."""
    same = (inner.measure, inner.neighboring_relation) == (outer.measure, outer.neighboring_relation)
    return same and set(outer.orders) <= set(inner.orders)


def carried(inside: Sums, outer: Terms, length: int) -> Amounts:
    """Return what a scope around some others counts of their sums; `length` is how many amounts it has."""
    total: Amounts = (0,) * length
    for name in outermost(inside):
        terms, amounts = inside[name]
        # mutant: scope-made-around-others-begins-at-nothing
        if any(amounts) and is_countable(terms, outer):  # `rules.create` refuses others; 0.1.0 did not
            total = _measures.added(total, _at_orders(amounts, terms, outer))
    return total


def given_back(charges: Mapping[str, Amounts], name: str, terms_of: Callable[[str], Terms], length: int) -> Amounts:
    """Return what a scope took over of each release of a ticket that was charged before it was made."""
    inside = {each: (terms_of(each), costs) for each, costs in charges.items() if each.startswith(f"{name}/")}
    return carried(inside, terms_of(name), length)


def later_around(charges: Iterable[str], exists: Callable[[str], bool]) -> list[str]:
    """Return the scopes around those charged that were made after the charge, in order.

    Those that were there before were charged themselves; and no scope ever goes away.
    """
    charged = set(charges)
    around = {outer for name in charged for outer in _names.ancestors(name)} - charged
    # mutant: scope-made-later-keeps-what-given-back
    return sorted(name for name in around if exists(name))


def _at_orders(amounts: Amounts, inner: Terms, outer: Terms) -> Amounts:
    if inner.orders == outer.orders:
        return amounts
    by_order = dict(zip(inner.orders, amounts, strict=True))
    return tuple(by_order[order] for order in outer.orders)
