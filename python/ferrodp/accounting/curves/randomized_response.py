"""Randomized response: δ(ε) and ε(δ) of one answer out of k."""

from __future__ import annotations

from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._upper_bounds import upper_end_of
from ferrodp.accounting.curves.hockey_stick import hockey_stick_delta, hockey_stick_epsilon
from ferrodp.events import NeighboringRelation, RandomizedResponseEvent

_REPLACE = NeighboringRelation.REPLACE_ONE


def randomized_response_delta_bounds(
    *, epsilon: Real, noise_parameter: Real, num_buckets: int, neighboring_relation: NeighboringRelation = _REPLACE
) -> Bounds:
    """Return bounds on the exact δ(ε) of one randomized response.

    Parameters
    ----------
    epsilon, noise_parameter, num_buckets, neighboring_relation
        As for `randomized_response_delta`.

    Returns
    -------
    Bounds
        Both hold.

    Raises
    ------
    InvalidParameter, InvalidType, UnsupportedEventError
        As for `randomized_response_delta`.

    Examples
    --------
    >>> lower, upper = randomized_response_delta_bounds(epsilon=1.0, noise_parameter=0.5, num_buckets=4)
    >>> 0 <= upper - lower < 1e-12
    True
    """
    event = RandomizedResponseEvent(noise_parameter=noise_parameter, num_buckets=num_buckets)  # type: ignore[arg-type]
    return hockey_stick_delta(event, epsilon, neighboring_relation=neighboring_relation)


@upper_end_of(randomized_response_delta_bounds)
def randomized_response_delta() -> None:
    """Return the smallest δ for which one randomized response is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Any finite number; the curve is defined for negative ones too. Rounded down if not exactly representable.
    noise_parameter : float
        Probability p with which the answer is drawn uniformly from all k, the true one included; in [0, 1]. Rounded
        down if not exactly representable.
    num_buckets : int
        k, from 2 to 2⁶³ − 1.
    neighboring_relation : NeighboringRelation
        `REPLACE_ONE`: two true answers. `REPLACE_SPECIAL`: a true answer and a uniform one.

    Returns
    -------
    float
        An upper bound on the exact δ.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.
    UnsupportedEventError
        For `ADD_OR_REMOVE_ONE`: an answer is replaced, not added.

    Notes
    -----
    Between two true answers δ = max(0, a − e^ε·b) for ε ≥ 0, with a = 1 − p + p/k and b = p/k: [War65]; [KOV14]
    Section 3.

    Examples
    --------
    >>> print(f"{randomized_response_delta(epsilon=1.0, noise_parameter=0.5, num_buckets=4):.12f}")
    0.285214771443
    """


def randomized_response_epsilon_bounds(
    *,
    delta: Real = 0.0,
    noise_parameter: Real,
    num_buckets: int,
    neighboring_relation: NeighboringRelation = _REPLACE,
) -> Bounds:
    """Return bounds on the exact ε(δ) of one randomized response.

    Parameters
    ----------
    delta, noise_parameter, num_buckets, neighboring_relation
        As for `randomized_response_epsilon`.

    Returns
    -------
    Bounds
        Both hold.

    Raises
    ------
    InvalidParameter, InvalidType, UnsupportedEventError
        As for `randomized_response_delta`.

    Examples
    --------
    >>> lower, upper = randomized_response_epsilon_bounds(noise_parameter=0.5, num_buckets=4)
    >>> 0 <= upper - lower < 1e-12
    True
    """
    event = RandomizedResponseEvent(noise_parameter=noise_parameter, num_buckets=num_buckets)  # type: ignore[arg-type]
    return hockey_stick_epsilon(event, delta, neighboring_relation=neighboring_relation)


@upper_end_of(randomized_response_epsilon_bounds)
def randomized_response_epsilon() -> None:
    """Return the smallest ε ≥ 0 for which one randomized response is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    delta : float
        0, or at least 1e-300 and below 1. Rounded down if not exactly representable.
    noise_parameter, num_buckets, neighboring_relation
        As for `randomized_response_delta`.

    Returns
    -------
    float
        The inverse of `randomized_response_delta`. With δ = 0 and two true answers it is ln(1 + k(1 − p)/p).

    Raises
    ------
    InvalidParameter, InvalidType, UnsupportedEventError
        As for `randomized_response_delta`.

    Examples
    --------
    >>> print(f"{randomized_response_epsilon(noise_parameter=0.5, num_buckets=4):.12f}")  # ln 5
    1.609437912434
    """
