"""Upper bounds by other theorems, for compositions of which the certified interval stays wide.

Each is an upper bound on the same ε or δ, so that the least of them is one, too: a minimum needs no further proof. They
are asked where the grid and the contour leave a wide interval: for δ so small that masses are no longer normal numbers,
more steps than any grid can convolve, pairs that only dominate.

============  =====================================================================================================
basic         Σε with probability of failure as below (Dwork et al., "Our data, ourselves", EUROCRYPT 2006, Theorem 1)
zCDP          Σρ, converted at the best order (Canonne, Kamath, Steinke, "The discrete Gaussian for differential
              privacy", NeurIPS 2020, Proposition 12); orders without limit
Rényi         Σρ(α), by the same conversion; orders from 1 + 10⁻⁴ to 10⁸, which is what its curves are certified for
============  =====================================================================================================

A stated δ is a probability of failure: an (ε, δ)-private mechanism is (ε, 0)-private but for an event of probability δ
(Kairouz, Oh, Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3's proof), and a
composition fails if any of its parts does: δ(ε) = I + (1 − I)·δ′(ε) with I = 1 − ∏(1 − δᵢ) and δ′ that of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from ferrodp import _validate
from ferrodp._numerics.intervals import arithmetic, float_up
from ferrodp.accounting._solve import costs as _costs
from ferrodp.accounting._solve import zcdp_curve as _zcdp_curve
from ferrodp.accounting._solve.costs import Cost, CostOrUnsupported
from ferrodp.accounting._types import Unsupported
from ferrodp.accounting.accountants.rdp import RdpAccountant
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent

BASIC = "the sum of all ε, which the stated δ allow (basic composition, Dwork et al. 2006, Theorem 1)"
ZCDP = "zero-concentrated differential privacy, converted at the best order (Canonne, Kamath, Steinke 2020)"
RENYI = "the sum of all Rényi divergences at one order, converted (Balle et al. 2020, Theorem 21)"

_DIGITS = 60
_LARGEST = Fraction(2) ** 1000

Events: TypeAlias = Sequence[tuple[PrivacyEvent, int]]
Quantity: TypeAlias = Literal["epsilon", "delta"]


def upper_bounds(
    quantity: Quantity, at: float, events: Events, relation: NeighboringRelation
) -> Iterator[tuple[float, str]]:
    """Yield upper bounds on ε at a δ in (0, 1), or on δ at an ε ≥ 0, each with its method; none where none applies."""
    pure = _summed(events, lambda event: _costs.pure(event, relation))
    if pure is not None:
        yield _basic(quantity, at, pure), BASIC
    zcdp = _summed(events, lambda event: _costs.zcdp(event, relation))
    if zcdp is not None and zcdp.amount < _LARGEST:
        yield _concentrated(quantity, at, zcdp), ZCDP
    try:
        accountant = RdpAccountant.of_events(events, relation)
    except UnsupportedEventError:
        return
    bounds = accountant.epsilon_bounds(at) if quantity == "epsilon" else accountant.delta_bounds(at)
    yield bounds.upper, RENYI


def _summed(events: Events, cost_of: Callable[[PrivacyEvent], CostOrUnsupported]) -> Cost | None:
    """Return what all events cost together, the failures composed; None if one of them has no such cost."""
    costs = []
    for event, count in events:
        cost = cost_of(event)
        if isinstance(cost, Unsupported):
            return None
        costs.append((cost, count))
    return Cost(_costs.total(costs).amount, _costs.failure((cost.delta, count) for cost, count in costs))


def _basic(quantity: Quantity, at: float, cost: Cost) -> float:
    if quantity == "epsilon":
        return _validate.rounded(cost.amount, "up") if cost.delta <= Fraction(at) else math.inf
    return min(_validate.rounded(cost.delta, "up"), 1.0) if cost.amount <= Fraction(at) else 1.0


def _concentrated(quantity: Quantity, at: float, cost: Cost) -> float:
    rho = arithmetic(_DIGITS).ratio(cost.amount)
    if quantity == "epsilon":
        target = _costs.without_failure(Fraction(at), cost.delta)
        return float_up(_zcdp_curve.epsilon(rho, target)) if target > 0.0 else math.inf
    return _costs.with_failure(Fraction(_zcdp_curve.delta(rho, at)), cost.delta)
