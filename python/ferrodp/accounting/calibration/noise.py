"""The least noise that keeps a target, from above."""

from __future__ import annotations

import math
from collections.abc import Callable

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.base import ROUGH_EFFORT
from ferrodp.accounting.accountants.registry import AccountantChoice
from ferrodp.accounting.calibration._search import Margins, find_edge
from ferrodp.accounting.calibration._target import Target
from ferrodp.accounting.calibration.answer import CalibratedValue, Cost
from ferrodp.errors import CalibrationError, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, PoissonSampledEvent, PrivacyEvent
from ferrodp.events.sampling import checked_null_distance

_LOWEST, _HIGHEST = 1e-3, 1e12  # of noise multipliers


def calibrate_noise_multiplier(
    *,
    target_epsilon: Real,
    target_delta: Real,
    sampling_probability: Real = 1.0,
    count: int = 1,
    accountant: AccountantChoice = "pld",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    null_distance: Real = math.inf,
) -> CalibratedValue:
    """Return the least noise multiplier for which `count` Poisson-sampled Gaussian releases are (ε, δ)-DP.

    The answer is proven to be enough: the accountant's upper bound for it, rounding included, does not exceed the
    target.

    Parameters
    ----------
    target_epsilon : float
        Finite, > 0. Rounded down if not exactly representable.
    target_delta : float
        In (0, 1). Rounded down if not exactly representable.
    sampling_probability : float
        Chance that a record takes part in a step, independently of all others; in [0, 1], 1 for no sampling.
    count : int
        Number of steps, from 1.
    accountant : str or callable
        "pld" (certified from both sides), "rdp", "moments", "gdp" or "zcdp" (without sampling), or a function that
        returns a fresh accountant; that one brings its own neighboring relation.
    neighboring_relation : NeighboringRelation
        The relation in which the guarantee is to hold, and in which the sensitivity is stated.
    null_distance : float
        That of `PoissonSampledEvent`, for sampling under `REPLACE_ONE`: 0.5 where what is released are sums of
        contributions clipped to half the sensitivity, as in DP-SGD.

    Returns
    -------
    CalibratedValue
        A float; its `gap` bounds how far the best possible multiplier is below.

    Raises
    ------
    CalibrationError
        If even the largest supported multiplier, 10¹², is not proven to be enough.

    Notes
    -----
    δ(ε) never grows with the noise: more noise is post-processing (add independent noise to every release,
    sampled or not). A root of ln δ(ε) − ln δ in ln z is found by Brent's method ("Algorithms for minimization without
    derivatives", 1973), starting from the central limit of Bu, Dong, Long, Su ("Deep learning with Gaussian
    differential privacy", 2020); both only propose. Relative accuracy 2·10⁻⁹, unless the accountant's own bounds are
    wider.

    Examples
    --------
    >>> noise = calibrate_noise_multiplier(target_epsilon=3.0, target_delta=1e-5, sampling_probability=0.01, count=5000)
    >>> round(noise, 6), noise.gap < 1e-6
    (1.210886, True)
    """
    probability = _validate.probability("sampling_probability", sampling_probability)
    count = _validate.count("count", count)
    target = Target(target_epsilon, target_delta, accountant, neighboring_relation)
    _validate.delta(target_delta, name="target_delta")
    distance = checked_null_distance(null_distance)

    def event_of(noise_multiplier: float) -> PrivacyEvent:
        event = GaussianEvent(noise_multiplier=noise_multiplier)
        return PoissonSampledEvent(sampling_probability=probability, event=event, null_distance=distance)

    start = _central_limit(target, probability, count)
    return calibrated("noise_multiplier", event_of, target, count, start, (_LOWEST, _HIGHEST), larger_is_safer=True)


def calibrate_parameter(
    make_event: Callable[[float], PrivacyEvent],
    *,
    target_epsilon: Real,
    target_delta: Real,
    bounds: tuple[float, float],
    larger_is_safer: bool = True,
    count: int = 1,
    accountant: AccountantChoice = "pld",
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> CalibratedValue:
    """Return the parameter, of any event, closest to the edge of (ε, δ)-DP on the safe side.

    Parameters
    ----------
    make_event : callable
        From a float within `bounds` to an event.
    target_epsilon, target_delta : float
        The guarantee to keep; δ may be 0 if the accountant has pure bounds.
    bounds : (float, float)
        Smallest and largest value to try, both > 0.
    larger_is_safer : bool
        Whether the cost falls with the parameter (noise) or grows (a sampling probability, an ε). That it is monotone
        is the caller's promise; what is returned is proven in any case.
    count, accountant, neighboring_relation
        As in `calibrate_noise_multiplier`.

    Returns
    -------
    CalibratedValue
        A float; its `gap` bounds how far the best possible value is.

    Raises
    ------
    CalibrationError
        If no value within the bounds is proven to be enough; the message holds the best one and its ε.
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent
    >>> def laplace(scale):
    ...     return LaplaceEvent(noise_multiplier=scale)
    >>> target = {"target_epsilon": 1.0, "target_delta": 1e-4}
    >>> scale = calibrate_parameter(laplace, **target, bounds=(1e-2, 1e4), count=20)
    >>> round(scale, 4)
    13.5471
    """
    larger_is_safer = _validate.truth("larger_is_safer", larger_is_safer)
    if not callable(make_event):
        raise InvalidType(f"make_event must be a function, got {type(make_event).__name__}")
    low = _validate.positive("the lower end of bounds", bounds[0])
    high = _validate.positive("the upper end of bounds", bounds[1], toward="down")
    if not low < high:
        raise _validate.out_of_domain("bounds", "in ascending order", bounds, write=f"({high!r}, {low!r})")
    count = _validate.count("count", count)
    target = Target(target_epsilon, target_delta, accountant, neighboring_relation)
    start = math.sqrt(low) * math.sqrt(high)
    return calibrated("parameter", make_event, target, count, start, (low, high), larger_is_safer=larger_is_safer)


def calibrated(
    name: str,
    event_of: Callable[[float], PrivacyEvent],
    target: Target,
    count: int,
    start: float,
    ends: tuple[float, float],
    *,
    larger_is_safer: bool,
) -> CalibratedValue:
    """Return the value between `ends` closest to the edge, on its safe side."""
    sign = 1.0 if larger_is_safer else -1.0
    low, high = sorted(sign * math.log(end) for end in ends)

    def value_at(t: float) -> float:
        return min(max(math.exp(sign * t), ends[0]), ends[1])

    def margins(t: float) -> Margins:
        return target.margins(event_of(value_at(t)), count)

    def rough(t: float) -> Margins:
        return target.margins(event_of(value_at(t)), count, ROUGH_EFFORT)

    is_costly = target.is_costly(event_of(value_at(high)))
    edge = find_edge(margins, sign * math.log(start), low, high, rough if is_costly else None)
    if edge is None:
        best = value_at(high)
        epsilon = target.spent(event_of(best), count).epsilon_bounds(target.delta).upper
        raise CalibrationError(
            f"no {name} from {ends[0]!r} to {ends[1]!r} is proven to keep {target}: "
            f"the best, {best!r}, has epsilon {epsilon!r}; allow more epsilon or delta, or fewer releases"
        )
    point, cost = _kept_twice(lambda t: target.cost(event_of(value_at(t)), count), edge.enough, high, target)
    value = value_at(point)
    limit = None if edge.too_little is None else value_at(edge.too_little)
    at_end = edge.enough == low
    gap = abs(value - limit) if limit is not None else 0.0 if at_end else math.inf
    return CalibratedValue(value, limit, gap, cost)


def _kept_twice(cost_at: Callable[[float], Cost], enough: float, high: float, target: Target) -> tuple[float, Cost]:
    """Return a point, `enough` or a few units of a float beyond it, where the bound on ε keeps the target too.

    A bound on δ at the target's ε that keeps its δ proves the guarantee. The bound on ε at that δ answers a slightly
    different question and may miss by its width; the answer keeps both, so that its two certificates agree.
    """
    t, cost, step = enough, cost_at(enough), 0.0
    while cost[0].upper > target.epsilon and t < high:
        # ε falls about as fast as the noise grows, or faster: twice its excess, then more, is almost always enough.
        step = max(4.0 * step, 2.0 * (min(cost[0].upper / target.epsilon, 2.0) - 1.0), 1e-15)
        t = min(enough + step, high)
        cost = cost_at(t)
    return t, cost


def _central_limit(target: Target, probability: float, count: int) -> float:
    """Return the multiplier whose Gaussian limit has the target: a guess."""
    mu = math.sqrt(_native.gaussian_largest_squared_mu(target.epsilon, target.delta))
    if not (probability and mu):
        return 1.0
    if probability == 1.0:
        return min(max(math.sqrt(count) / mu, _LOWEST), _HIGHEST)
    ratio = (mu / probability) ** 2 / count
    return min(max(1.0 / math.sqrt(math.log1p(ratio)), _LOWEST), _HIGHEST)
