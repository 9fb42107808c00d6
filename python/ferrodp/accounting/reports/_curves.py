"""Curves of an accountant's answers, as arrays of lower and upper bounds at the points of a grid."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.curve import Curve
from ferrodp.events import PrivacyEvent

Array = npt.NDArray[np.float64]


def epsilon_over_counts(accountant: Any, event: PrivacyEvent, counts: Sequence[int], delta: Real) -> Curve:
    """Return ε(δ) after each of the rising `counts` of `event` added to an accountant, or to what acts as one."""
    if isinstance(accountant, PrivacyAccountant):
        return accountant.epsilon_over_counts(event, counts, delta=delta)
    running, before, bounds = copy.copy(accountant), 0, []
    for count in counts:
        running.compose(event, count - before)
        before = count
        bounds.append(running.epsilon_bounds(delta))
    return _curve(np.array(counts, dtype=np.float64), bounds)


def privacy_profile(accountant: Any, epsilons: Array) -> Curve:
    """Return δ(ε) at each of `epsilons`."""
    if isinstance(accountant, PrivacyAccountant):
        return accountant.delta_curve(epsilons)
    return _curve(epsilons, [accountant.delta_bounds(float(epsilon)) for epsilon in epsilons])


def trade_off(profile: Curve, false_positive_rates: Array) -> Curve:
    r"""Return bounds on the least false negative rate of any test that tells neighbors apart.

    Notes
    -----
    With δ the larger one of both directions, the trade-off function is (Dong, Roth, Su, "Gaussian differential
    privacy", JRSS B 2022, Proposition 2.12)

        f(α) = sup over ε ≥ 0 of max{0, 1 − δ(ε) − e^ε·α, e^{−ε}(1 − δ(ε) − α)}.

    *Lower* (what is guaranteed): the supremum over the points of the profile alone, with δ from above. *Upper*: δ falls
    in ε, so that between two points it is at least its lower bound at the right one, and both expressions, where they
    are not negative, are largest for e^ε at the left one; beyond the last point δ is at least 0. The profile has to
    begin at ε = 0. Rounding, of some units in the last place, is not accounted for: these are numbers to draw.
    """
    alpha = false_positive_rates[:, np.newaxis]
    with np.errstate(over="ignore"):
        factor = np.exp(profile.x)
    lower = _largest(alpha, profile.upper, factor)
    # mutant: shade-of-trade-off-begins-at-wrong-side
    upper = _largest(alpha, np.append(profile.lower[1:], 0.0), factor)
    return Curve(false_positive_rates, lower, np.maximum(lower, upper))


def _largest(alpha: Array, delta: Array, factor: Array) -> Array:
    with np.errstate(invalid="ignore"):  # 0·∞ at α = 0
        right = np.where(alpha > 0.0, 1.0 - delta - factor * alpha, 1.0 - delta)
    left = (1.0 - delta - alpha) / factor
    largest: Array = np.maximum(np.maximum(right, left).max(axis=1), 0.0)
    return largest


def _curve(x: Array, bounds: list[Bounds]) -> Curve:
    return Curve(x, np.array([each.lower for each in bounds]), np.array([each.upper for each in bounds]))
