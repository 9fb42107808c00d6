"""An upper bound on δ(ε) of a composition by the curves δᵢ of its single steps, for few steps far out in the tail.

There, rounding errors dominate transforms: δ is far below 10⁻¹⁶ of the mass near 0, and the characteristic function of
rarely sampled steps does not decay. The curve of one step is known to the last digits, and rare losses do not add up:

**Theorem.** Let Lᵢ, i = 1..N, be the privacy losses of the dominating pairs (Pᵢ, Qᵢ), S their sum, ε > 0 and
0 < η ≤ ε/N. Then δ(ε) ≤ Σᵢ δᵢ(ε − (N − 1)·η) + (Σᵢ pᵢ)²/2, where pᵢ ≥ Pᵢ[Lᵢ > η].

*Proof.* δ(ε) = E[(1 − e^(ε − S))₊] under P, where the Lᵢ are independent. At least two of them exceed η with a
probability of at most Σ_{i<j} pᵢpⱼ ≤ (Σ pᵢ)²/2; then the integrand is at most 1. If none does, S ≤ Nη ≤ ε, and the
integrand is 0. If Lᵢ alone does, S ≤ Lᵢ + (N − 1)η, so that it is at most (1 − e^(ε − (N − 1)η − Lᵢ))₊, whose
expectation is δᵢ(ε − (N − 1)η). ∎

With x = η/2, δᵢ(x) ≥ (1 − e^(x − η))·Pᵢ[Lᵢ > η], and 1 − e^(−x) ≥ x/(1 + x): pᵢ = δᵢ(x)·(1 + x)/x will do.

For any fixed η the bound rises with each count and falls as ε rises; and so does 1 − ∏(1 − δᵢ(ε/N)), basic composition
(Dwork et al., "Our data, ourselves", EUROCRYPT 2006, Theorem 1; the failures composed), which holds at ε = 0, too. The
η are powers of 2 up to ε/N, of which there are the fewer, the more steps there are: the least of all rises with the
counts. All sums are rational, and rounded up at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from ferrodp._base import _validate
from ferrodp.accounting._laws import costs as _costs

Curve = Callable[[float], float]

_MAX_HALVINGS = 60


def delta_of_singles(epsilon: float, curves: Sequence[tuple[Curve, int]], known: float) -> float:
    """Return an upper bound on δ at an ε ≥ 0, or a value of at least `known` if no smaller bound was found.

    Parameters
    ----------
    epsilon : float
        Finite, not negative.
    curves : sequence of (callable, int)
        For each kind of step, an upper bound on its own δ at an ε ≥ 0, and how often it happened, at least once.
    known : float
        An upper bound that is known already.
    """
    if _sum(curves, epsilon) >= known:
        return math.inf
    number = sum(count for _, count in curves)
    share = _validate.rounded(Fraction(epsilon) / number, "down")
    best = _costs.failure((Fraction(curve(share)), count) for curve, count in curves)
    if share < 2.0**-1000 or number == 1:
        return _rounded(best)
    eta = math.ldexp(1.0, math.frexp(share)[1] - 1)
    for _ in range(_MAX_HALVINGS):
        x = Fraction(eta) / 2
        many = (_sum(curves, float(x)) * (1 + x) / x) ** 2 / 2
        if many >= min(best, Fraction(known)):
            break
        left = _validate.rounded(Fraction(epsilon) - (number - 1) * Fraction(eta), "down")
        best = min(best, many + _sum(curves, left))
        eta /= 2.0
    return _rounded(best)


def _sum(curves: Sequence[tuple[Curve, int]], epsilon: float) -> Fraction:
    return sum((count * Fraction(curve(epsilon)) for curve, count in curves), Fraction(0))


def _rounded(delta: Fraction) -> float:
    return min(_validate.rounded(delta, "up"), 1.0)
