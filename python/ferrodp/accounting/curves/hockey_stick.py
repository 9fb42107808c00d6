"""One step of any mechanism: its privacy curve δ(ε), the inverse, and the least noise for a target.

A step is seen through its privacy loss L = ln dP/dQ, and δ(ε) = P[L > ε] − e^ε·Q[L > ε] is the hockey-stick
divergence of the pair of laws that dominates it (Zhu, Dong, Wang, "Optimal accounting of differential privacy via
characteristic function", AISTATS 2022, Theorem 10). Laws that are discrete are taken as what they are, never as
their continuous relatives. The masses have proven relative errors, which are part of both bounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ferrodp import _native, _validate
from ferrodp._numerics.intervals import ORDINAL_OF_INFINITY, Bounds, first, float_of, ordinal
from ferrodp._validate import Real
from ferrodp.accounting._solve.dominating_pairs import EventPairs, Spec, pairs_of
from ferrodp.accounting._types import Direction
from ferrodp.accounting.curves import gaussian, laplace
from ferrodp.errors import CalibrationError, InvalidType, UnsupportedEventError
from ferrodp.events import GaussianEvent, LaplaceEvent, NeighboringRelation, PrivacyEvent, decompose

_STEP = 0.99
SMALLEST_DELTA = 1e-300
"""Below it the masses that δ is made of would no longer be normal numbers."""


def hockey_stick_delta(
    event: PrivacyEvent,
    epsilon: Real,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the smallest δ for which one step is (ε, δ)-differentially private.

    Parameters
    ----------
    event : PrivacyEvent
        A single mechanism, sampled or not; not a composition.
    epsilon : float
        Any finite number; negative ones are on the curve too. Rounded down if it is no float.
    neighboring_relation : NeighboringRelation
        The one for which the event's sensitivity was stated.
    direction : {"remove", "add"}, optional
        One direction alone: "remove" compares the dataset with the record to the one without, "add" the other way
        round. By default the worse of the two, which is what a guarantee needs.

    Returns
    -------
    Bounds
        `upper` is proven. `lower` is too, where the dominating pair is attained by some datasets; otherwise it is 0
        (samples of fixed size, the exponential mechanism, noise other than Gaussian sampled under replacement).

    Raises
    ------
    UnsupportedEventError
        For compositions, and for events without a known pair of laws.

    Notes
    -----
    Sources: Balle, Wang, ICML 2018, Theorem 8 (Gaussian); Canonne, Kamath, Steinke, NeurIPS 2020, Theorem 7 (discrete
    Gaussian); Zhu, Dong, Wang, AISTATS 2022, Theorem 11 (Poisson sampling); `accounting._pairs` has the rest.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PoissonSampledEvent
    >>> event = PoissonSampledEvent(sampling_probability=0.3, event=GaussianEvent(noise_multiplier=1.0))
    >>> bounds = hockey_stick_delta(event, 2.0)
    >>> print(f"{bounds.upper:.6e}, {bounds.upper / bounds.lower - 1 < 1e-12}")
    3.341103e-04, True
    >>> hockey_stick_delta(event, 2.0, direction="add").upper
    0.0
    """
    epsilon = gaussian.real("epsilon", epsilon)
    simple = _single(event)
    if simple is None:
        return _of_nothing(epsilon)
    exact = _closed_form(simple)
    if exact is not None:
        _chosen(direction, _pairs(simple, neighboring_relation))
        return exact(epsilon)
    pairs = _pairs(simple, neighboring_relation)
    bounds = Bounds(*_native.pair_delta(_chosen(direction, pairs), epsilon))
    return bounds if pairs.is_exact else Bounds(0.0, bounds.upper)


def hockey_stick_epsilon(
    event: PrivacyEvent,
    delta: Real,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the smallest ε ≥ 0 for which one step is (ε, δ)-differentially private.

    The inverse of `hockey_stick_delta`, certified: δ(upper) ≤ `delta` was proven for the returned float. `delta` is
    0, or in [1e-300, 1); with 0 the answer is infinite unless the loss is bounded.

    Examples
    --------
    >>> from ferrodp.accounting import DiscreteLaplaceEvent
    >>> bounds = hockey_stick_epsilon(DiscreteLaplaceEvent(scale=2.0), 0.0)
    >>> f"{bounds.lower:.12f} {bounds.upper:.12f}"
    '0.500000000000 0.500000000000'
    """
    target = usable_delta(delta)
    simple = _single(event)
    if simple is None:
        return Bounds(0.0, 0.0)
    pairs = _pairs(simple, neighboring_relation)
    specs = _chosen(direction, pairs)
    if isinstance(simple, GaussianEvent):
        if not target:
            return Bounds(math.inf, math.inf)
        return gaussian.gaussian_epsilon_bounds(delta=target, noise_multiplier=simple.noise_multiplier)
    if isinstance(simple, LaplaceEvent):
        return laplace.laplace_epsilon_bounds(delta=target, noise_multiplier=simple.noise_multiplier)
    bounds = Bounds(*_native.pair_epsilon(specs, target))
    return bounds if pairs.is_exact else Bounds(0.0, bounds.upper)


def single_step_noise(
    mechanism: Callable[[float], PrivacyEvent],
    *,
    epsilon: Real,
    delta: Real = 0.0,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    direction: Direction | None = None,
    smallest: Real = 1e-9,
    largest: Real = 1e9,
) -> float:
    """Return the least noise parameter that makes one step (ε, δ)-differentially private, rounded up.

    δ(ε) ≤ `delta` was proven for the returned float; for the float before it that failed.

    Parameters
    ----------
    mechanism : callable
        Returns the event for a parameter > 0, its noise multiplier or scale. The curve of a discrete Gaussian may rise
        with its scale: of several stretches that are enough, the result begins the one at the top, where gaps are
        looked for in steps of 1 %.
    epsilon : float
        Finite, ≥ 0. Rounded down if it is no float.
    delta : float
        0, or in [1e-300, 1). Rounded down if it is no float.
    neighboring_relation, direction
        See `hockey_stick_delta`.
    smallest, largest : float
        The range of parameters to try.

    Raises
    ------
    CalibrationError
        If even `largest` is not enough; the message has the δ that it reaches.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PoissonSampledEvent
    >>> def step(noise_multiplier):
    ...     inner = GaussianEvent(noise_multiplier=noise_multiplier)
    ...     return PoissonSampledEvent(sampling_probability=0.01, event=inner)
    >>> f"{single_step_noise(step, epsilon=1.0, delta=1e-6):.9f}"
    '0.776436406'
    """
    epsilon = _validate.non_negative("epsilon", epsilon, toward="down")
    target = usable_delta(delta)
    least = _validate.positive("smallest", smallest)
    most = _validate.positive("largest", largest, toward="down")
    if not least <= most:
        raise _validate.out_of_domain("smallest", f"at most largest={most!r}", smallest)

    @functools.cache
    def reached(parameter: float) -> float:
        event = mechanism(parameter)
        return hockey_stick_delta(event, epsilon, neighboring_relation=neighboring_relation, direction=direction).upper

    safe = min(max(1.0, least), most)
    while reached(safe) > target and safe < most:
        safe = min(2.0 * safe, most)
    if not reached(safe) <= target:
        best = reached(most)
        raise CalibrationError(f"no parameter up to largest={most!r} gives delta={target!r}: that one gives {best!r}")
    below = safe
    while reached(below) <= target:
        if below == least:
            return least
        safe, below = below, max(below * _STEP, least)
    number = first(lambda n: reached(float_of(n)) <= target, ordinal(safe), ordinal(below), ordinal(safe))
    return float_of(number)


def profile_to_epsilon(profile: Callable[[float], float], delta: Real) -> float:
    """Return the least float ε ≥ 0 with profile(ε) ≤ `delta`, for a curve that falls.

    The result is on the safe side of whatever `profile` returns: if those are upper bounds on δ(ε), it is an upper
    bound on ε. Infinite if the curve stays above `delta`; at most 140 calls. `delta` in [0, 1).

    Raises
    ------
    InvalidType
        If the profile returns anything but a float.

    Examples
    --------
    >>> import math
    >>> profile_to_epsilon(lambda epsilon: math.exp(-epsilon), 1e-7)
    16.11809565095832
    """
    target = _validate.delta(delta, zero=True)

    def is_enough(number: int) -> bool:
        value = profile(float_of(number))
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidType(f"profile must return a float, got {type(value).__name__}")
        return value <= target  # not a number is not enough

    number = first(is_enough, ordinal(1.0), 0, ORDINAL_OF_INFINITY)
    return float_of(number)


def usable_delta(delta: Real) -> float:
    """Return a δ that is 0 or large enough for masses to be normal numbers."""
    checked = _validate.delta(delta, zero=True)
    if 0.0 < checked < SMALLEST_DELTA:
        raise _validate.out_of_domain("delta", f"0 or at least {SMALLEST_DELTA}, the smallest usable one", delta)
    return checked


def _single(event: PrivacyEvent) -> PrivacyEvent | None:
    """Return the one event that a step is made of, or None for nothing."""
    parts = [part for part in decompose(event) if part[1]]
    if not parts:
        return None
    if len(parts) > 1 or parts[0][1] > 1:
        raise UnsupportedEventError(
            f"a composition is more than one step, got {type(event).__name__}; use an accountant for it"
        )
    return parts[0][0]


def _pairs(event: PrivacyEvent, relation: NeighboringRelation) -> EventPairs:
    if not isinstance(relation, NeighboringRelation):
        raise InvalidType(f"neighboring_relation must be a NeighboringRelation, got {type(relation).__name__}")
    found = pairs_of(event, relation)
    if isinstance(found, str):
        others = [each.name for each in NeighboringRelation if not isinstance(pairs_of(event, each), str)]
        way_out = f"; it has one under {' and '.join(others)}" if others else ""
        raise UnsupportedEventError(f"no curve of {type(event).__name__} under {relation.name}: {found}{way_out}")
    return found


def _chosen(direction: Direction | None, pairs: EventPairs) -> list[Spec]:
    if direction is None:
        return pairs.specs
    if not isinstance(direction, str) or direction not in ("remove", "add"):
        raise _validate.out_of_domain("direction", '"remove", "add" or None', direction)
    return [pairs.remove if direction == "remove" else pairs.add]


def _closed_form(event: PrivacyEvent) -> Callable[[float], Bounds] | None:
    if isinstance(event, GaussianEvent):
        z = event.noise_multiplier
        return lambda epsilon: gaussian.gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=z)
    if isinstance(event, LaplaceEvent):
        b = event.noise_multiplier
        return lambda epsilon: laplace.laplace_delta_bounds(epsilon=epsilon, noise_multiplier=b)
    return None


def _of_nothing(epsilon: float) -> Bounds:
    """Return δ(ε) where the same is released whatever the data: max(0, 1 − e^ε)."""
    if epsilon >= 0.0:
        return Bounds(0.0, 0.0)
    return Bounds(*_native.pair_delta([("epsilon_delta", 0.0, 0.0)], epsilon))
