"""Randomized response: δ(ε) and ε(δ) of one answer out of k."""

from __future__ import annotations

from ferrodp._numerics.intervals import Bounds
from ferrodp._validate import Real
from ferrodp.accounting.curves.hockey_stick import hockey_stick_delta, hockey_stick_epsilon
from ferrodp.events import NeighboringRelation, RandomizedResponseEvent

_REPLACE = NeighboringRelation.REPLACE_ONE


def randomized_response_delta(
    *, epsilon: Real, noise_parameter: Real, num_buckets: int, neighboring_relation: NeighboringRelation = _REPLACE
) -> float:
    """Return the smallest δ for which one randomized response is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; negative ones are on the curve too. Rounded down if it is no float.
    noise_parameter : float
        Probability p with which the answer is drawn uniformly from all k, the true one included; in [0, 1]. Rounded
        down if it is no float.
    num_buckets : int
        k, from 2 to 2⁶³ − 1.
    neighboring_relation : NeighboringRelation
        `REPLACE_ONE`: two truths. `REPLACE_SPECIAL`: a truth and a uniform answer.

    Notes
    -----
    Between two truths δ = max(0, a − e^ε·b) for ε ≥ 0, with a = 1 − p + p/k and b = p/k: Warner, "Randomized
    response", JASA 1965; Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", NeurIPS 2014,
    Section 3.

    Examples
    --------
    >>> print(f"{randomized_response_delta(epsilon=1.0, noise_parameter=0.5, num_buckets=4):.12f}")
    0.285214771443
    """
    return randomized_response_delta_bounds(
        epsilon=epsilon,
        noise_parameter=noise_parameter,
        num_buckets=num_buckets,
        neighboring_relation=neighboring_relation,
    ).upper


def randomized_response_delta_bounds(
    *, epsilon: Real, noise_parameter: Real, num_buckets: int, neighboring_relation: NeighboringRelation = _REPLACE
) -> Bounds:
    """Return bounds on the exact δ(ε); see `randomized_response_delta`."""
    event = RandomizedResponseEvent(noise_parameter=noise_parameter, num_buckets=num_buckets)  # type: ignore[arg-type]
    return hockey_stick_delta(event, epsilon, neighboring_relation=neighboring_relation)


def randomized_response_epsilon(
    *,
    delta: Real = 0.0,
    noise_parameter: Real,
    num_buckets: int,
    neighboring_relation: NeighboringRelation = _REPLACE,
) -> float:
    """Return the smallest ε ≥ 0 for which one randomized response is (ε, δ)-DP, rounded up.

    With δ = 0 and two truths it is ln(1 + k(1 − p)/p). `delta` is 0, or at least 1e-300 and below 1.

    Examples
    --------
    >>> print(f"{randomized_response_epsilon(noise_parameter=0.5, num_buckets=4):.12f}")  # ln 5
    1.609437912434
    """
    return randomized_response_epsilon_bounds(
        delta=delta,
        noise_parameter=noise_parameter,
        num_buckets=num_buckets,
        neighboring_relation=neighboring_relation,
    ).upper


def randomized_response_epsilon_bounds(
    *,
    delta: Real = 0.0,
    noise_parameter: Real,
    num_buckets: int,
    neighboring_relation: NeighboringRelation = _REPLACE,
) -> Bounds:
    """Return bounds on the exact ε(δ); see `randomized_response_epsilon`."""
    event = RandomizedResponseEvent(noise_parameter=noise_parameter, num_buckets=num_buckets)  # type: ignore[arg-type]
    return hockey_stick_epsilon(event, delta, neighboring_relation=neighboring_relation)
