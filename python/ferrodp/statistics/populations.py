"""Intervals for a population of which the rows are a sample: of the noise and of the sampling together.

*One mean.* Let the n rows be independent draws from a population of clamped values, with mean μ and variance V between
the bounds a and b. The released mean differs from μ by noise and by the error of sampling, which are independent. Let
r be how far the noise's own interval reaches at the level, and z the two-sided quantile of a normal law. The interval
holds each μ with

    (released − μ)² ≤ r² + z²·V/n.

The squares of half widths add up, as those of normal laws do; a sum of Laplace noise and a normal error has lighter
tails than the Laplace law, so its half width is no larger at the levels that people use. V is not known. Without
`variance` it is the most that a population with this mean can have, (b − μ)·(μ − a) [BD00]: of truth values that is
their variance, and the interval becomes Wilson's [Wil27], widened by the noise. With `variance`, public or released by
`private_variance`, it is that number. The number of rows is noised as well: n is the lower end of its own interval.

*A difference* of two means d = m₁ − m₂, of independent samples, with intervals (l₁, u₁) and (l₂, u₂), is between
d − √((m₁ − l₁)² + (u₂ − m₂)²) and d + √((u₁ − m₁)² + (m₂ − l₂)²) [New98].

All of this is post-processing of what was released. The level holds approximately, as that of every interval for a
population that is not known; simulations of both are among the tests of this package.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.errors import InvalidParameter
from ferrodp.statistics.estimate import Estimate, Interval, Sample

__all__ = ["population_interval"]


@_arrays.quiet
def population_interval(
    mean: Estimate[Any],
    *,
    minus: Estimate[Any] | None = None,
    variance: Real | Estimate[float] | None = None,
    level: Real = 0.95,
) -> Interval[Any]:
    """Return an interval for the mean, or proportion, of the population of which the rows are a sample.

    `Estimate.interval` holds what the statistic of these very rows is without noise. This one also covers that other
    rows might have been sampled. It is computed from what was released, and costs nothing.

    Parameters
    ----------
    mean : Estimate
        Of `private_mean`, for a unit with one row; of truth values with bounds (0, 1) it is a proportion. Or of
        `PrivateGroups.mean`: then there is an interval for each group.
    minus : Estimate, optional
        Another mean, of other people: the interval is then about the difference of the two.
    variance : float or Estimate, optional
        The variance of the population, in squared units; public, or released by `private_variance`. By default the
        largest that is possible within the bounds, which is right for proportions and too wide for most other columns.
    level : float
        Between 0 and 1, both excluded.

    Returns
    -------
    Interval
        Its ends, within the bounds; arrays for groups.

    Raises
    ------
    InvalidParameter, InvalidType
        If an argument is no such estimate, or outside its domain.

    Notes
    -----
    Wilson's interval [Wil27] with the noise's own half width added in squares, and Newcombe's [New98] for a difference:
    the formulas are in the docstring of `ferrodp.statistics.populations`. The level holds approximately, and supposes
    rows that were drawn independently; units with several rows are refused.

    References
    ----------
    [BD00] Bhatia, Davis, "A better bound on the variance", American Mathematical Monthly 107, 2000.
    [New98] Newcombe, "Interval estimation for the difference between independent proportions", Statistics in Medicine
    17, 1998.
    [Wil27] Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> answers = np.arange(1000) < 300
    >>> share = fd.private_mean(answers, bounds=(0, 1), epsilon=2.0, source=fd.testing.seeded(bytes(32)))
    >>> [round(end, 2) for end in fd.statistics.population_interval(share)]
    [0.27, 0.33]
    """
    checked = _validate.probability("level", level)
    if not 0.0 < checked < 1.0:
        raise _validate.out_of_domain("level", "between 0 and 1, both excluded", level)
    spread = _variance(variance)
    value, lower, upper = _ends("mean", mean, spread, checked)
    if minus is None:
        return _interval(mean, lower, upper)
    other, low, high = _ends("minus", minus, spread, checked)
    if value.size != other.size:
        raise InvalidParameter(f"minus must be of as many groups as mean, {value.size}, got {other.size}")
    difference = value - other
    # mutant: ends-of-a-difference-of-one-mean-alone
    below = np.hypot(value - lower, high - other)
    above = np.hypot(upper - value, other - low)
    return _interval(mean, difference - below, difference + above)


def _interval(like: Estimate[Any], lower: Any, upper: Any) -> Interval[Any]:
    if isinstance(like.value, np.ndarray):
        return Interval(lower, upper)
    return Interval(float(lower[0]), float(upper[0]))


def _variance(variance: Any) -> float | None:
    if variance is None:
        return None
    if isinstance(variance, Estimate):
        if isinstance(variance.value, np.ndarray):
            raise InvalidParameter("variance must be one number, got an Estimate of several")
        return max(float(variance.value), 0.0)
    return _validate.non_negative("variance", variance)


def _ends(name: str, mean: Any, variance: float | None, level: float) -> tuple[Any, Any, Any]:
    """Return released means, and the ends of an interval for each of their populations."""
    if not isinstance(mean, Estimate):
        raise _validate.wrong_type(name, "an Estimate of a mean", mean, write="fd.private_mean(...)")
    sample: Sample | None = mean._sample
    if sample is None:
        raise InvalidParameter(
            f"{name} must be a mean as it was released, of units with one row each, got a {mean.statistic}: "
            "rows of one unit are not independent"
        )
    values = np.atleast_1d(np.asarray(mean.value, np.float64))
    inner = mean.interval(level)
    ends = np.atleast_1d(inner.lower), np.atleast_1d(inner.upper)
    rows = np.maximum(np.asarray(sample.rows, np.float64) - sample.reach(level), 0.0)
    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    lower, upper = sample.bounds
    return values, *(
        _end(values, values - end, sign, rows, z, variance, lower, upper)
        for sign, end in ((-1.0, ends[0]), (1.0, ends[1]))
    )


def _end(
    values: Any, reach: Any, sign: float, rows: Any, z: float, variance: float | None, lower: float, upper: float
) -> Any:
    """Return the last μ, from the released mean on, whose distance from it is within noise and sampling."""
    # In units of the bounds' distance, so that no square overflows.
    width = upper - lower
    at, noise = (values - lower) / width, reach / width
    with np.errstate(divide="ignore", invalid="ignore"):
        if variance is None:
            half = z * z / (2.0 * rows)  # (at − μ)² ≤ noise² + 2·half·μ·(1 − μ) is quadratic in μ
            root = np.sqrt(np.maximum((at + half) ** 2 - (1.0 + 2.0 * half) * (at * at - noise * noise), 0.0))
            found = (at + half + sign * root) / (1.0 + 2.0 * half)
        else:
            spread = math.sqrt(variance) / width * z
            found = at + sign * np.hypot(noise, spread / np.sqrt(rows))
    end = 0.0 if sign < 0 else 1.0
    found = np.where((rows > 0) & np.isfinite(found), found, end)
    return lower + width * np.clip(found, 0.0, 1.0)
