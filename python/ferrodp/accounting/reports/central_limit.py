"""The central limit of composed privacy: an estimate, not a bound.

The composition of many small losses looks like a Gaussian mechanism (Dong, Roth, Su, "Gaussian differential privacy",
JRSS B 2022, Theorem 3.5). The formula does not bound the error, which can have either sign: with q = 0.01, σ = 1, 1000
steps and δ = 10⁻⁵ it gives ε = 1.618 where 1.828 is true. These functions are named estimates, accepted by no
accountant, filter or calibration, and meant for comparison with papers that used them.
"""

from __future__ import annotations

import math
from typing import Literal

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Interval, arithmetic, point
from ferrodp.accounting._laws import gaussian_curve as curve
from ferrodp.accounting.explanation import Explanation

Sampling = Literal["poisson", "uniform"]
_SMALLEST_NOISE = 1e-3  # below it e^{1/σ²} and μ exceed all floats


def estimate_central_limit_mu(
    *, noise_multiplier: Real, sampling_probability: Real, count: int, sampling: Sampling = "poisson"
) -> float:
    """Return the μ of the Gaussian mechanism that the composition approaches: an estimate, not a bound.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise divided by the sensitivity; finite, > 0.
    sampling_probability : float
        Chance of each record; in [0, 1].
    count : int
        Number of steps; from 0 to 2⁶³ − 1.
    sampling : {"poisson", "uniform"}
        Poisson samples (add or remove one), or samples of fixed size (replace one).

    Returns
    -------
    float
        μ ≥ 0; infinite for noise below 10⁻³ of the sensitivity.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Notes
    -----
    "poisson": q·√(T(e^{1/σ²} − 1)); "uniform": q·√(2T(e^{1/σ²}·Φ(3/2σ) + 3Φ(−1/2σ) − 2)). Bu, Dong, Long, Su, "Deep
    learning with Gaussian differential privacy", Harvard Data Science Review 2020, Theorem 5; Dong, Roth, Su 2022,
    Corollary 5.4.

    Examples
    --------
    >>> round(estimate_central_limit_mu(noise_multiplier=1.0, sampling_probability=0.01, count=1000), 6)
    0.414522
    """
    multiplier = _validate.positive("noise_multiplier", noise_multiplier, toward="down")
    chance = _validate.probability("sampling_probability", sampling_probability)
    steps = _validate.count("count", count, minimum=0)
    if not isinstance(sampling, str) or sampling not in ("poisson", "uniform"):
        raise _validate.out_of_domain("sampling", '"poisson" or "uniform"', sampling)
    if not chance or not steps:
        return 0.0
    if multiplier < _SMALLEST_NOISE:
        return math.inf
    return _native.central_limit_mu(multiplier, chance, steps, sampling == "poisson")


def estimate_central_limit_epsilon(
    *, delta: Real, noise_multiplier: Real, sampling_probability: Real, count: int, sampling: Sampling = "poisson"
) -> float:
    """Return the ε of the Gaussian mechanism that the composition approaches: an estimate, not a bound.

    Parameters
    ----------
    delta : float
        In (0, 1).
    noise_multiplier, sampling_probability, count, sampling
        As for `estimate_central_limit_mu`.

    Returns
    -------
    float
        ε ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> step = {"noise_multiplier": 1.0, "sampling_probability": 0.01}
    >>> round(estimate_central_limit_epsilon(delta=1e-5, count=1000, **step), 4)
    1.6177
    """
    mu = estimate_central_limit_mu(
        noise_multiplier=noise_multiplier, sampling_probability=sampling_probability, count=count, sampling=sampling
    )
    target = _validate.delta(delta)
    return mu if not 0.0 < mu < math.inf else curve.epsilon(target, _squared(mu)).upper


def estimate_central_limit_delta(
    *, epsilon: Real, noise_multiplier: Real, sampling_probability: Real, count: int, sampling: Sampling = "poisson"
) -> float:
    """Return the δ of the Gaussian mechanism that the composition approaches: an estimate, not a bound.

    Parameters
    ----------
    epsilon : float
        Finite, ≥ 0.
    noise_multiplier, sampling_probability, count, sampling
        As for `estimate_central_limit_mu`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting.reports import estimate_central_limit_delta
    >>> step = {"noise_multiplier": 1.0, "sampling_probability": 0.01}
    >>> round(estimate_central_limit_delta(epsilon=1.6177, count=1000, **step), 7)
    1e-05
    """
    mu = estimate_central_limit_mu(
        noise_multiplier=noise_multiplier, sampling_probability=sampling_probability, count=count, sampling=sampling
    )
    at = _validate.non_negative("epsilon", epsilon, toward="down")
    if not 0.0 < mu < math.inf:
        return 1.0 if mu else 0.0
    return curve.delta(at, _squared(mu)).upper


def explain_central_limit(
    *, delta: Real, noise_multiplier: Real, sampling_probability: Real, count: int, sampling: Sampling = "poisson"
) -> Explanation:
    """Return the estimate of ε as an explanation that says that it is not a bound.

    Parameters
    ----------
    delta : float
        In (0, 1).
    noise_multiplier, sampling_probability, count, sampling
        As for `estimate_central_limit_mu`.

    Returns
    -------
    Explanation
        With `is_bound` False.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> answer = explain_central_limit(delta=1e-5, noise_multiplier=1.0, sampling_probability=0.01, count=1000)
    >>> answer.is_bound
    False
    """
    keywords = {"noise_multiplier": noise_multiplier, "sampling_probability": sampling_probability}
    value = estimate_central_limit_epsilon(delta=delta, count=count, sampling=sampling, **keywords)
    mu = estimate_central_limit_mu(count=count, sampling=sampling, **keywords)
    given = {name: float(each) for name, each in keywords.items()}
    return Explanation(
        quantity="epsilon",
        value=value,
        method="the central limit theorem of Gaussian differential privacy (Bu, Dong, Long, Su 2020, Theorem 5)",
        parameters={"delta": float(delta), **given, "count": count, "mu": mu},
        assumptions=("The number of steps is so large, and each so small, that the limit is near: nothing proves it.",),
        is_bound=False,
    )


def _squared(mu: float) -> Interval:
    return arithmetic(curve.DIGITS_OF_MU).square(point(mu))
