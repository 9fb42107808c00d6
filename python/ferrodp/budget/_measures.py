"""What a scope allows, in which measure, and what events cost in it, as exact integers.

A scope is a privacy filter whose sums outlive the process. Costs are integers rounded up and caps integers rounded
down, in units so small and so divisible that decimals of twenty digits, floats, and their ratios to whole numbers up to
a hundred add up without rounding: ten times 0.1 is 1, and so is three times 1/3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from ferrodp._base import _validate
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.accounting.curves.gaussian import gaussian_epsilon
from ferrodp.accounting.curves.zcdp import zcdp_epsilon
from ferrodp.accounting.filters import RdpFilter, privacy_filter
from ferrodp.accounting.filters.additive import Measure
from ferrodp.accounting.rdp.conversion import rdp_to_epsilon
from ferrodp.budget import records
from ferrodp.errors import BudgetExceeded, InvalidParameter, LedgerDamaged
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation, PrivacyEvent

Amounts: TypeAlias = tuple[int, ...]
Budget: TypeAlias = "tuple[float | Fraction, float | Fraction]"
"""ε and δ."""

_FINE = math.lcm(*range(1, 101)) * 10**20 * 2**64
UNITS: dict[str, int] = {"pure": _FINE, "zcdp": _FINE, "gdp": _FINE, "rdp": 2**96}
"""How many units make 1, by measure. Divergences at Rényi orders are floats, rounded up, and many: short numbers do."""
_IMPOSSIBLE = -1
"""The cap of an order that leaves no budget: nothing fits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """The promise of a scope, and in which measure it is kept. Ratios only where ε adds up by itself, in "pure".

    Terms are equal if their texts are: a text is compared and hashed sooner than a hundred orders are.
    """

    measure: Measure
    epsilon: float | Fraction
    delta: float | Fraction
    neighboring_relation: NeighboringRelation
    orders: tuple[float, ...] = ()
    original: Budget | None = None
    """ε and δ with which the scope was made, if they were changed since."""
    highest: Budget | None = None
    """The most that may ever be allowed, if that was said when the scope was made."""
    raised: bool = False
    """Whether more was allowed, at any time, than was said when the scope was made."""
    text: records.Encoded = field(init=False, repr=False)
    """What `to_dict` returns, as JSON."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", records.plain(self.to_dict()))

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Terms) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        plain: dict[str, Any] = {
            "measure": self.measure,
            "epsilon": _plain(self.epsilon),
            "delta": _plain(self.delta),
            "neighboring_relation": self.neighboring_relation.value,
        }
        if self.orders:
            plain["orders"] = list(self.orders)
        for name, budget in (("original", self.original), ("highest", self.highest)):
            if budget is not None:
                plain[name] = {"epsilon": _plain(budget[0]), "delta": _plain(budget[1])}
        if self.raised:
            plain["raised"] = True
        return plain

    @property
    def first(self) -> Terms:
        """The terms with which the scope was made."""
        # mutant: constants-of-reading-follow-cap
        if self.original is None:
            return self
        return dataclasses.replace(self, epsilon=self.original[0], delta=self.original[1], original=None, raised=False)

    @property
    def promised(self) -> Budget | None:
        """What is promised however caps were changed: the most that may ever be allowed; None if that was not said."""
        return None if self.raised else self.highest or (self.first.epsilon, self.first.delta)

    @staticmethod
    def from_dict(plain: Mapping[str, Any]) -> Terms:
        """Return what `to_dict` wrote down.

        Its numbers are checked, and no filter is made of them: that calibrates, which takes milliseconds a scope. Who
        prices or caps by these terms makes it, and a budget that no filter can keep is refused there.
        """
        try:
            measure, is_pure = plain["measure"], plain["measure"] == "pure"
            epsilon, delta = _budget(plain, is_pure)
            kept = {name: _budget(plain[name], is_pure) for name in ("original", "highest") if name in plain}
            orders = tuple(plain["orders"]) if "orders" in plain else ()
            if measure not in UNITS or bool(orders) is not (measure == "rdp") or not _are_orders(orders):
                raise ValueError
            return Terms(
                measure=measure,
                epsilon=epsilon,
                delta=delta,
                neighboring_relation=NeighboringRelation(plain["neighboring_relation"]),
                orders=orders,
                raised=plain.get("raised") is True,
                **kept,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerDamaged("the ledger holds a scope that no version of this program wrote") from error

    @staticmethod
    def from_text(text: object) -> Terms:
        """Return the terms of a JSON text; they follow from it alone, so most texts are read once."""
        return _terms(text)

    def caps(self) -> Amounts:
        """Return what may be charged in all, rounded down."""
        found = _filter(self)
        unit = UNITS[self.measure]
        # mutant: caps-rounded-up
        amounts = [math.floor(cap * unit) for cap in found.exact_caps()]
        if isinstance(found, RdpFilter):
            by_order = dict(zip(found.orders, amounts, strict=True))
            return tuple(by_order.get(order, _IMPOSSIBLE) for order in self.orders)
        return tuple(amounts)

    def costs(self, event: PrivacyEvent) -> Amounts:
        """Return what an event costs, rounded up.

        Raises
        ------
        UnsupportedEventError
            If that is not known in this measure.
        BudgetExceeded
            If the event protects nobody.
        """
        global _last_price
        last = _last_price
        # mutant: price-of-another-event
        if last[1] is not event or last[0] is not self:
            last = _last_price = self, event, _costs(self, event)
        return last[2]

    def fits(self, spent: Amounts, caps: Amounts) -> bool:
        """Whether the sums keep the promise: all of them, or at one order."""
        # mutant: spent-within-caps
        within = map(operator.le, spent, caps)
        # mutant: one-sum-within-cap-enough-in-every-measure
        return any(within) if self.measure == "rdp" else all(within)

    def remaining(self, spent: Amounts, caps: Amounts, costs: Amounts) -> int:
        """Return how many more times something fits; 2⁶³ − 1 stands for no limit, too."""
        if not self.fits(spent, caps):
            return 0
        counts = [
            ((cap - total) // cost if cost else _validate.MAX_COUNT) if total <= cap else 0
            for total, cap, cost in zip(spent, caps, costs, strict=True)
        ]
        return min(max(counts) if self.measure == "rdp" else min(counts), _validate.MAX_COUNT)

    def epsilon_of(self, spent: Amounts, caps: Amounts) -> float:
        """Return the ε, at the scope's δ, that a filter with just so much budget would promise; rounded up.

        A promise about a budget fixed in advance, not about a moment at which so much was charged: for that see
        `_odometer`. Sums within the caps keep the scope's own ε, whatever the rounding on the way back says.
        """
        if not any(spent):
            return 0.0
        found = self._epsilon_of(spent)
        return min(found, _validate.rounded(self.epsilon, "up")) if self.fits(spent, caps) else found

    def _epsilon_of(self, spent: Amounts) -> float:
        amounts = [Fraction(amount, UNITS[self.measure]) for amount in spent]
        if self.measure == "rdp":
            divergences = [_validate.rounded(amount, "up") for amount in amounts]
            share = Fraction(self.delta) / len(self.orders)
            return rdp_to_epsilon(self.orders, divergences, delta=share).value
        if self.measure == "zcdp":
            if amounts[1]:  # a stated δ, which no scope of this measure has room for
                return math.inf
            return zcdp_epsilon(rho=amounts[0], delta=self.delta)
        if self.measure == "gdp":
            multiplier = _validate.rounded(1 / sqrt_up(amounts[0]), "down")
            return gaussian_epsilon(delta=self.delta, noise_multiplier=multiplier)
        return _validate.rounded(amounts[0], "up")

    def exact_epsilon_of(self, spent: Amounts) -> Fraction | None:
        """Return the sum of all ε, where they add up by themselves."""
        return Fraction(spent[0], UNITS["pure"]) if self.measure == "pure" else None

    def delta_of(self, spent: Amounts) -> float:
        """Return the δ that goes with `epsilon_of`."""
        if self.measure == "pure":
            return _validate.rounded(Fraction(spent[1], UNITS["pure"]), "up")
        return float(self.delta) if any(spent) else 0.0


@functools.lru_cache(maxsize=1024)
def _terms(text: object) -> Terms:
    return Terms.from_dict(records.loaded(text))


def _are_orders(orders: tuple[object, ...]) -> bool:
    """Whether these are orders that differ, as a filter keeps them: also those that have no budget now."""
    return len(set(orders)) == len(orders) and all(
        isinstance(order, float) and 1.0 < order < math.inf for order in orders
    )


def _budget(plain: Mapping[str, Any], is_pure: bool) -> Budget:
    """Return ε and δ as `to_dict` wrote them down."""
    epsilon, delta = (_validate.ratio_of_text(name, plain[name]) for name in ("epsilon", "delta"))
    return _rounded(epsilon, delta, is_pure)


def _rounded(epsilon: object, delta: object, is_pure: bool) -> Budget:
    """Return ε and δ as floats, ε rounded down; in "pure" as short ratios, where these are not floats."""
    floats = _validate.non_negative("epsilon", epsilon, toward="down"), _validate.delta(delta, zero=is_pure)
    if not is_pure:
        return floats
    return _validate.short_ratio(epsilon, floats[0]), _validate.short_ratio(delta, floats[1])


def succeeding(old: Terms, new: Terms) -> Terms:
    """Return new terms of a scope that remember what was said when it was made."""
    first = old.original or (old.epsilon, old.delta)
    most = old.highest or first
    # mutant: raised-cap-forgotten-when-it-lowered
    raised = old.raised or new.epsilon > most[0] or new.delta > most[1]
    return dataclasses.replace(new, orders=old.orders, original=first, highest=old.highest, raised=raised)


def _plain(value: float | Fraction) -> float | str:
    return str(value) if isinstance(value, Fraction) else value


def checked_terms(
    *,
    measure: object,
    epsilon: object,
    delta: object,
    neighboring_relation: NeighboringRelation,
    orders: tuple[float, ...] | None = None,
    highest_epsilon: object = None,
    highest_delta: object = None,
) -> Terms:
    """Return the terms of a scope; refuse a budget that the measure cannot keep, or that allows nothing."""
    settings: dict[str, Any] = {"neighboring_relation": neighboring_relation}
    if orders is not None:
        if measure != "rdp":
            raise InvalidParameter(f'orders must be left out unless measure is "rdp", got {_validate.shown(orders)}')
        settings["orders"] = orders
    found = privacy_filter(measure, epsilon=epsilon, delta=delta, **settings)  # type: ignore[arg-type]  # checks them
    stated = _rounded(epsilon, delta, measure == "pure")
    terms = Terms(
        measure=measure,  # type: ignore[arg-type]
        epsilon=stated[0],
        delta=stated[1],
        neighboring_relation=neighboring_relation,
        orders=found.orders if isinstance(found, RdpFilter) else (),
    )
    if highest_epsilon is None and highest_delta is None:
        return terms
    if highest_epsilon is not None:
        _validate.non_negative("highest_epsilon", highest_epsilon)
    if highest_delta is not None:
        _validate.delta(highest_delta, name="highest_delta", zero=measure == "pure")
    most = checked_terms(
        measure=measure,
        epsilon=epsilon if highest_epsilon is None else highest_epsilon,
        delta=delta if highest_delta is None else highest_delta,
        neighboring_relation=neighboring_relation,
    )
    if most.epsilon < terms.epsilon or most.delta < terms.delta:
        raise InvalidParameter(
            "highest_epsilon and highest_delta must be at least epsilon and delta, "
            f"{float(terms.epsilon)!r} and {float(terms.delta)!r}, got {float(most.epsilon)!r} and "
            f"{float(most.delta)!r}; leave them out where no more is ever to be granted"
        )
    return dataclasses.replace(terms, highest=(most.epsilon, most.delta))


def scaled(costs: Amounts, count: int) -> Amounts:
    """Return the cost of `count` of the same."""
    return costs if count == 1 else tuple([cost * count for cost in costs])


def added(spent: Amounts, costs: Amounts) -> Amounts:
    """Return the sums after a charge."""
    # mutant: sums-kept-as-floats
    return tuple(map(operator.add, spent, costs))


def taken(spent: Amounts, costs: Amounts) -> Amounts:
    """Return the sums after a charge was cancelled."""
    return tuple(map(operator.sub, spent, costs))


@functools.lru_cache(maxsize=256)
def _filter(terms: Terms) -> Any:
    settings: dict[str, Any] = {"orders": terms.orders} if terms.orders else {}
    relation = terms.neighboring_relation
    return privacy_filter(
        terms.measure, epsilon=terms.epsilon, delta=terms.delta, neighboring_relation=relation, **settings
    )


@functools.lru_cache(maxsize=256)
def _pricing(terms: Terms) -> Any:
    """Return the filter that prices events under some terms."""
    found = _filter(terms)
    if not terms.orders or found.orders == terms.orders:
        return found
    budgets = [0.0] * len(terms.orders)  # an order without budget still has its sum
    return RdpFilter(budgets=budgets, neighboring_relation=terms.neighboring_relation, orders=terms.orders)


_last_price: tuple[Terms | None, PrivacyEvent | None, Amounts] = None, None, ()
"""The last price that was requested: most events are charged many times, and to hash one takes longer than this."""


@functools.lru_cache(maxsize=16384)
def _costs(terms: Terms, event: PrivacyEvent) -> Amounts:
    exact, unit = _pricing(terms).exact_costs(event), UNITS[terms.measure]
    if exact is None:
        raise BudgetExceeded(f"{type(event).__name__} protects nobody: no budget allows it")
    # mutant: costs-rounded-down
    return tuple(math.ceil(cost * unit) for cost in exact)


def refusal(
    where: str, terms: Terms, spent: Amounts, caps: Amounts, event: PrivacyEvent, *, costs: Amounts, count: int = 1
) -> str:
    """Return why `count` releases do not fit. What is charged and requested is rounded up, what is allowed down."""
    exact = Fraction(spent[0], UNITS["pure"]) if terms.measure == "pure" else None
    used, delta = exact or terms.epsilon_of(spent, caps), f"{float(terms.delta):.6g}"
    # mutant: refusal-rounds-what-is-charged-down
    charged = _validate.few_digits(used, "up")
    allowed = _validate.few_digits(terms.epsilon, "down")
    return (
        f"{_releases(event, count)} does not fit into {where}: epsilon {charged} of {allowed} at delta {delta} is "
        f"charged ({terms.measure}), and there is room for {terms.remaining(spent, caps, costs)} more"
    )


def _releases(event: PrivacyEvent, count: int) -> str:
    what = "a release" if count == 1 else f"a charge of {count} releases"
    if not isinstance(event, EpsilonDeltaEvent):
        return f"{what} of {type(event).__name__}"
    delta = f" and delta {_validate.few_digits(event.delta, 'up')}" if event.delta else ""
    return f"{what} with epsilon {_validate.few_digits(event.epsilon, 'up')}{delta}"
