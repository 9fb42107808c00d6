"""The largest number of steps, and the largest sampling probability, that keep a target."""

from __future__ import annotations

import math
from collections.abc import Callable

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting._solve.counts import largest_count
from ferrodp.accounting.accountants.base import ROUGH_EFFORT
from ferrodp.accounting.accountants.registry import AccountantChoice
from ferrodp.accounting.calibration._search import Margins
from ferrodp.accounting.calibration._target import Target
from ferrodp.accounting.calibration.answer import CalibratedCount, CalibratedValue, Cost
from ferrodp.accounting.calibration.noise import calibrated
from ferrodp.errors import InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, PoissonSampledEvent, PrivacyEvent
from ferrodp.events.sampling import checked_null_distance

_SMALLEST_PROBABILITY = 1e-15
_MAX_STEPS = 22


def calibrate_count(
    event: PrivacyEvent,
    *,
    target_epsilon: Real,
    target_delta: Real,
    accountant: AccountantChoice = "pld",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> CalibratedCount:
    """Return how often `event` can happen within (ε, δ): the last count that is proven safe, never one more.

    Parameters
    ----------
    event : PrivacyEvent
        What happens each time.
    target_epsilon, target_delta : float
        The guarantee to keep. Rounded down if not exactly representable.
    accountant, neighboring_relation
        As in `calibrate_noise_multiplier`.

    Returns
    -------
    CalibratedCount
        An int, 0 if even one is too many; 2⁶³ − 1 stands for no limit. Its `gap` says how many more might be possible:
        0 where one more is proven to be too many.

    Raises
    ------
    UnsupportedEventError
        If the accountant cannot bound the event.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    A prefix of a composition is post-processing of the whole, so δ(ε) grows with the count and bisection
    finds the edge. The steps need not be chosen in advance for that, but their number does: see the filters for budgets
    that are watched.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, PoissonSampledEvent, calibrate_count
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.1))
    >>> calibrate_count(step, target_epsilon=3.0, target_delta=1e-5)
    3712
    """
    if not isinstance(event, PrivacyEvent):
        raise InvalidType(f"event must be a privacy event, got {type(event).__name__}")
    target = Target(target_epsilon, target_delta, accountant, neighboring_relation)
    known: dict[int, Margins] = {}

    def margins(count: int) -> Margins:
        if count not in known:
            known[count] = target.margins(event, count)
        return known[count]

    limit = _validate.MAX_COUNT + 1

    def rough(count: int) -> float:
        return target.margins(event, count, ROUGH_EFFORT).upper

    count = largest_count(lambda n: margins(n).upper, rough if target.is_costly(event) else None)
    count, cost = _kept_twice(lambda n: target.cost(event, n), count, target)
    too_many = _proven_too_many(margins, known, count, limit)
    gap = too_many - count - 1 if too_many else 0 if count + 1 == limit else math.inf
    return CalibratedCount(count, too_many, gap, cost)


def calibrate_sampling_probability(
    *,
    target_epsilon: Real,
    target_delta: Real,
    noise_multiplier: Real,
    count: int = 1,
    accountant: AccountantChoice = "pld",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    null_distance: Real = math.inf,
) -> CalibratedValue:
    """Return the largest probability of Poisson sampling for which `count` Gaussian releases are (ε, δ)-DP.

    Parameters
    ----------
    target_epsilon, target_delta : float
        The guarantee to keep. Rounded down if not exactly representable.
    noise_multiplier : float
        Standard deviation of the noise divided by the L2 sensitivity; finite, > 0.
    count : int
        Number of steps, from 1.
    accountant, neighboring_relation, null_distance
        As in `calibrate_noise_multiplier`.

    Returns
    -------
    CalibratedValue
        A float in (0, 1], proven to keep the target.

    Raises
    ------
    CalibrationError
        If even a probability of 10⁻¹⁵ is not proven to keep it.

    Notes
    -----
    Sampling less is post-processing: a sample taken with probability q′ < q is a sample of a sample.

    Examples
    --------
    >>> rate = calibrate_sampling_probability(target_epsilon=1.0, target_delta=1e-6, noise_multiplier=1.0, count=1000)
    >>> round(rate, 7)
    0.004871
    """
    noise_multiplier = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    distance = checked_null_distance(null_distance)

    def event_of(probability: float) -> PrivacyEvent:
        event = GaussianEvent(noise_multiplier=noise_multiplier)
        return PoissonSampledEvent(sampling_probability=probability, event=event, null_distance=distance)

    count = _validate.count("count", count)
    target = Target(target_epsilon, target_delta, accountant, neighboring_relation)
    _validate.delta(target_delta, name="target_delta")
    start = _central_limit(target, noise_multiplier, count)
    ends = (_SMALLEST_PROBABILITY, 1.0)
    return calibrated("sampling_probability", event_of, target, count, start, ends, larger_is_safer=False)


def _central_limit(target: Target, noise_multiplier: float, count: int) -> float:
    """Return the probability whose Gaussian limit, μ = q·√(T(e^{1/z²} − 1)), has the target: a guess."""
    mu = math.sqrt(_native.gaussian_largest_squared_mu(target.epsilon, target.delta))
    exponent = min(noise_multiplier**-2.0, 700.0) if noise_multiplier > 1e-3 else 700.0
    return min(max(mu / math.sqrt(count * math.expm1(exponent)), _SMALLEST_PROBABILITY), 1.0)


def _kept_twice(cost_of: Callable[[int], Cost], count: int, target: Target) -> tuple[int, Cost]:
    """Return a count, the given one or a little less, where the bound on ε keeps the target too.

    A bound on δ at the target's ε that keeps its δ proves the guarantee. The bound on ε at that δ answers a slightly
    different question and may miss by its width; the answer keeps both, so that its two certificates agree.
    ε grows at least like the root of a large count: twice the excess, then more, is almost always enough.
    """
    n, cost, step = count, cost_of(count), 0.0
    while n and cost[0].upper > target.epsilon:
        excess = cost[0].upper / target.epsilon - 1.0
        step = max(4.0 * step, min(2.0 * excess, 0.125) * count, 1.0)
        n = max(count - math.ceil(step), 0)
        cost = cost_of(n)
    return n, cost


def _proven_too_many(
    margins: Callable[[int], Margins], known: dict[int, Margins], count: int, limit: int
) -> int | None:
    """Return a count whose cost is proven to be beyond the target, as small as steps that grow eightfold find it."""
    nearest = min((n for n, seen in known.items() if n > count and seen.lower > 0.0), default=None)
    step = 1
    for _ in range(_MAX_STEPS):
        n = count + step
        if nearest is not None and n >= nearest:
            return nearest
        if n >= limit:
            return None
        seen = margins(n)
        if seen.lower > 0.0:
            return n
        if seen.lower == -math.inf:  # an accountant without lower bounds
            return nearest
        step *= 8
    return nearest
