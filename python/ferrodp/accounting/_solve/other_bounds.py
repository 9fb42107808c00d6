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
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from ferrodp._base import _validate
from ferrodp.accounting._laws import costs
from ferrodp.accounting._laws.costs import Cost, CostOf
from ferrodp.accounting._solve import zcdp_curve
from ferrodp.accounting._solve.renyi import renyi_sum
from ferrodp.accounting._types import Unsupported
from ferrodp.errors import UnsupportedEventError
from ferrodp.events import NeighboringRelation, PrivacyEvent

BASIC = "the sum of all ε, which the stated δ allow (basic composition, Dwork et al. 2006, Theorem 1)"
ZCDP = "zero-concentrated differential privacy, converted at the best order (Canonne, Kamath, Steinke 2020)"
RENYI = "the sum of all Rényi divergences at one order, converted (Balle et al. 2020, Theorem 21)"

_LARGEST = Fraction(2) ** 1000

Events: TypeAlias = Sequence[tuple[PrivacyEvent, int]]
Quantity: TypeAlias = Literal["epsilon", "delta"]


def upper_bounds(
    quantity: Quantity, at: float, events: Events, relation: NeighboringRelation
) -> Iterator[tuple[float, str]]:
    """Yield upper bounds on ε at a δ in (0, 1), or on δ at an ε ≥ 0, each with its method; none where none applies."""
    is_epsilon = quantity == "epsilon"
    pure = _summed(costs.pure, events, relation)
    if pure is not None:
        yield _basic(quantity, at, pure), BASIC
    zcdp = _summed(costs.zcdp, events, relation)
    if zcdp is not None and zcdp.amount < _LARGEST:
        yield (zcdp_curve.epsilon_of if is_epsilon else zcdp_curve.delta_of)(zcdp, at), ZCDP
    try:
        total = renyi_sum(events, relation)
    except UnsupportedEventError:
        return
    yield (total.epsilon(at).value if is_epsilon else total.delta(at)), RENYI


def _summed(cost_of: CostOf, events: Events, relation: NeighboringRelation) -> Cost | None:
    """Return what all events cost together, the failures composed; None if one of them has no such cost."""
    found = costs.priced(cost_of, events, relation)
    if isinstance(found, Unsupported):
        return None
    return Cost(costs.total(found).amount, costs.failure((cost.delta, count) for cost, count in found))


def _basic(quantity: Quantity, at: float, cost: Cost) -> float:
    if quantity == "epsilon":
        return _validate.rounded(cost.amount, "up") if cost.delta <= Fraction(at) else math.inf
    return min(_validate.rounded(cost.delta, "up"), 1.0) if cost.amount <= Fraction(at) else 1.0
