"""One step of any mechanism: its privacy curve δ(ε), the inverse, and the least noise for a target.

A step is represented by its privacy loss L = ln dP/dQ, and δ(ε) = P[L > ε] − e^ε·Q[L > ε] is the hockey-stick
divergence of the pair of distributions that dominates it ([ZDW22] Theorem 10). Discrete distributions are used as they
are, never approximated by continuous ones. The proven relative errors of all masses are part of both bounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds, first_float
from ferrodp.accounting._laws.dominating_pairs import EventPairs, Spec, pairs_of
from ferrodp.accounting._types import Direction, Unsupported
from ferrodp.accounting.curves import gaussian, laplace
from ferrodp.errors import CalibrationError, InvalidType, UnsupportedEventError
from ferrodp.events import GaussianEvent, LaplaceEvent, NeighboringRelation, PrivacyEvent, decompose
from ferrodp.events.base import check_relation

_SEARCH_FACTOR = 0.99
"""By which parameters fall while the least one that is enough is bracketed."""
SMALLEST_DELTA = 1e-300
"""For smaller δ the masses that it is made of would not be normal numbers."""


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
        Any finite number; the curve is defined for negative ones too. Rounded down if not exactly representable.
    neighboring_relation : NeighboringRelation
        The one for which the event's sensitivity was stated.
    direction : {"remove", "add"}, optional
        One direction alone: "remove" compares the dataset with the record to the one without, "add" the reverse. By
        default the worse of the two, which is what a guarantee needs.

    Returns
    -------
    Bounds
        `upper` always holds. `lower` holds too where some datasets attain the dominating pair; otherwise it is 0
        (samples of fixed size, the exponential mechanism, noise other than Gaussian sampled under replacement).

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.
    UnsupportedEventError
        For compositions, and for events without a known pair of distributions.

    Notes
    -----
    [BW18] Theorem 8 (Gaussian); [CKS20] Theorem 7 (discrete Gaussian); [ZDW22] Theorem 11 (Poisson sampling);
    `ferrodp.accounting._laws.dominating_pairs` has the others.

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
    epsilon = _validate.finite("epsilon", epsilon)
    step = _step(event, neighboring_relation, direction)
    if step is None and epsilon >= 0.0:
        return Bounds(0.0, 0.0)
    if step is None:
        return Bounds(*_native.pair_delta([("epsilon_delta", 0.0, 0.0)], epsilon))  # max(0, 1 − e^ε)
    if isinstance(step.event, GaussianEvent):
        return gaussian.gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=step.event.noise_multiplier)
    if isinstance(step.event, LaplaceEvent):
        return laplace.laplace_delta_bounds(epsilon=epsilon, noise_multiplier=step.event.noise_multiplier)
    return step.bounds(_native.pair_delta, epsilon)


def hockey_stick_epsilon(
    event: PrivacyEvent,
    delta: Real,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    direction: Direction | None = None,
) -> Bounds:
    """Return bounds on the smallest ε ≥ 0 for which one step is (ε, δ)-differentially private.

    Parameters
    ----------
    event, neighboring_relation, direction
        As for `hockey_stick_delta`.
    delta : float
        0, or in [1e-300, 1); with 0 the answer is infinite unless the loss is bounded. Rounded down if not exactly
        representable.

    Returns
    -------
    Bounds
        As for `hockey_stick_delta`, whose inverse this is: δ(upper) ≤ `delta` has been proven.

    Raises
    ------
    InvalidParameter, InvalidType, UnsupportedEventError
        As for `hockey_stick_delta`.

    Examples
    --------
    >>> from ferrodp.accounting import DiscreteLaplaceEvent
    >>> bounds = hockey_stick_epsilon(DiscreteLaplaceEvent(scale=2.0), 0.0)
    >>> f"{bounds.lower:.12f} {bounds.upper:.12f}"
    '0.500000000000 0.500000000000'
    """
    target = usable_delta(delta)
    step = _step(event, neighboring_relation, direction)
    if step is None:
        return Bounds(0.0, 0.0)
    if isinstance(step.event, GaussianEvent) and not target:
        return Bounds(math.inf, math.inf)
    if isinstance(step.event, GaussianEvent):
        return gaussian.gaussian_epsilon_bounds(delta=target, noise_multiplier=step.event.noise_multiplier)
    if isinstance(step.event, LaplaceEvent):
        return laplace.laplace_epsilon_bounds(delta=target, noise_multiplier=step.event.noise_multiplier)
    return step.bounds(_native.pair_epsilon, target)


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

    Parameters
    ----------
    mechanism : callable
        Returns the event for a parameter > 0, its noise multiplier or scale. The δ of a discrete Gaussian may rise with
        its scale, so that several intervals of parameters may be enough; the result is then the lower end of the
        highest one, gaps between them being found if they are wider than 1 %.
    epsilon : float
        Finite, ≥ 0. Rounded down if not exactly representable.
    delta : float
        0, or in [1e-300, 1). Rounded down if not exactly representable.
    neighboring_relation, direction
        As for `hockey_stick_delta`.
    smallest, largest : float
        The range of parameters to try.

    Returns
    -------
    float
        δ(ε) ≤ `delta` has been proven for it, and could not be proven for the float below it.

    Raises
    ------
    InvalidParameter, InvalidType, UnsupportedEventError
        As for `hockey_stick_delta`.
    CalibrationError
        If even `largest` is not enough; the message states the δ that it reaches.

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
        safe, below = below, max(below * _SEARCH_FACTOR, least)
    return first_float(lambda parameter: reached(parameter) <= target, safe, below, safe)


def profile_to_epsilon(profile: Callable[[float], float], delta: Real) -> float:
    """Return the least float ε ≥ 0 with profile(ε) ≤ `delta`, for a privacy profile that falls.

    Parameters
    ----------
    profile : callable
        Takes an ε ≥ 0 and returns δ(ε); called at most 140 times.
    delta : float
        In [0, 1). Rounded down if not exactly representable.

    Returns
    -------
    float
        An upper bound on ε if the profile returns upper bounds on δ(ε); infinite if the profile stays above `delta`.

    Raises
    ------
    InvalidParameter
        If `delta` is outside its domain.
    InvalidType
        If `delta` is not a real number, or the profile returns anything but a float.

    Examples
    --------
    >>> import math
    >>> profile_to_epsilon(lambda epsilon: math.exp(-epsilon), 1e-7)
    16.11809565095832
    """
    target = _validate.delta(delta, zero=True)

    def is_enough(epsilon: float) -> bool:
        value = profile(epsilon)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidType(f"profile must return a float, got {type(value).__name__}")
        return value <= target  # NaN is not enough

    return first_float(is_enough, 1.0)


def usable_delta(delta: Real) -> float:
    """Return a δ that is 0 or large enough for masses to be normal numbers."""
    checked = _validate.delta(delta, zero=True)
    if 0.0 < checked < SMALLEST_DELTA:
        raise _validate.out_of_domain("delta", f"0 or at least {SMALLEST_DELTA}, the smallest usable one", delta)
    return checked


def check_direction(direction: object) -> None:
    """Refuse anything but a direction, or None for both."""
    if direction is not None and (not isinstance(direction, str) or direction not in ("remove", "add")):
        raise _validate.out_of_domain("direction", '"remove", "add" or None', direction)


def sampled_pairs(spec: Spec, probability: object, direction: Direction | None) -> list[Spec]:
    """Return the pairs, for the requested directions, of a Poisson sample of a symmetric pair."""
    q = _validate.probability("sampling_probability", probability)
    check_direction(direction)
    if q == 0.0:
        return [("epsilon_delta", 0.0, 0.0)]
    if q == 1.0:
        return [spec]
    remove: Spec = ("poisson_sampled", q, spec)
    both: dict[str, Spec] = {"remove": remove, "add": ("reversed", remove)}
    return list(both.values()) if direction is None else [both[direction]]


class _Step(NamedTuple):
    event: PrivacyEvent
    pairs: list[Spec]
    """Those for the requested directions."""
    below: list[Spec]
    """Those that it dominates; the same where some datasets attain the pairs."""

    def bounds(self, ask: Callable[[list[Spec], float], tuple[float, float]], at: float) -> Bounds:
        """Return the bounds for the pairs as bounds for the step."""
        lower, upper = ask(self.pairs, at)
        if self.below != self.pairs:
            lower = ask(self.below, at)[0] if self.below else 0.0
        return Bounds(min(lower, upper), upper)


def _step(event: PrivacyEvent, relation: NeighboringRelation, direction: Direction | None) -> _Step | None:
    """Return the one step that an event is, or None for nothing."""
    parts = [part for part in decompose(event) if part[1]]
    if not parts:
        return None
    if len(parts) > 1 or parts[0][1] > 1:
        raise UnsupportedEventError(
            f"a composition is more than one step, got {type(event).__name__}; use an accountant for it"
        )
    event = parts[0][0]
    relation = check_relation(relation)
    pairs = pairs_of(event, relation)
    if isinstance(pairs, Unsupported):
        others = [each.name for each in NeighboringRelation if not isinstance(pairs_of(event, each), Unsupported)]
        way_out = f"; it has one under {' and '.join(others)}" if others else ""
        raise UnsupportedEventError(f"no curve of {type(event).__name__} under {relation.name}: {pairs}{way_out}")
    check_direction(direction)

    def chosen(pairs: EventPairs | None) -> list[Spec]:
        if pairs is None:
            return []
        return {None: pairs.specs, "remove": [pairs.remove], "add": [pairs.add]}[direction]

    return _Step(event, chosen(pairs), chosen(pairs.lower))
