"""ε of DP-SGD for whole grids of parameters at once."""

from __future__ import annotations

from typing import overload

import numpy as np

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Reals


@overload
def dp_sgd_epsilon(  # type: ignore[overload-overlap]  # numbers are array_like too
    noise_multiplier: Real, sampling_probability: Real, count: int, *, delta: Real, threads: int | None = ...
) -> float: ...
@overload
def dp_sgd_epsilon(
    noise_multiplier: Reals, sampling_probability: Reals, count: Reals, *, delta: Real, threads: int | None = ...
) -> _arrays.Array: ...
def dp_sgd_epsilon(
    noise_multiplier: Reals,
    sampling_probability: Reals,
    count: Reals,
    *,
    delta: Real,
    threads: int | None = None,
) -> float | _arrays.Array:
    """Return upper bounds on the ε of DP-SGD training runs, for arrays of parameters that broadcast.

    Each is what an `RdpAccountant` answers for `count` Poisson-sampled Gaussian releases, adding or removing one
    record: for tables, plots and searches over parameters, some 20 µs a value and thread. For a single training run
    use a `PldAccountant`, whose bounds are tighter.

    Parameters
    ----------
    noise_multiplier : float or array_like
        Standard deviation of the noise divided by the clip norm; finite, > 0.
    sampling_probability : float or array_like
        Chance of each record to be in a step's sample; in [0, 1].
    count : int or array_like
        Number of steps, ≥ 0. Numbers beyond 2⁵³ are rounded up.
    delta : float
        In (0, 1).
    threads : int, optional
        Largest number of threads; the results do not depend on it.

    Returns
    -------
    float or float64 ndarray
        ε ≥ 0, in the shape that the parameters broadcast to.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain or of another type.

    Examples
    --------
    >>> from ferrodp.accounting import dp_sgd_epsilon
    >>> table = dp_sgd_epsilon([[1.0], [2.0]], 0.01, [100, 1000, 10000], delta=1e-5)
    >>> table.round(3).tolist()
    [[1.214, 2.101, 6.712], [0.257, 0.686, 2.353]]
    """
    checked = _validate.delta(delta)
    counts = _counts(count)
    shape, (sigma, chance, times) = _arrays.broadcast(
        _arrays.positive("noise_multiplier", noise_multiplier),
        _arrays.probability("sampling_probability", sampling_probability),
        counts,
    )
    threads = _validate.threads(threads)
    found = _native.rdp_poisson_gaussian_epsilon(sigma, chance, times, np.full(times.shape, checked), threads)
    return found.reshape(shape) if shape else float(found[0])


def _counts(value: Reals) -> _arrays.Array:
    """Return whole numbers ≥ 0 as floats, rounded up."""
    if not isinstance(value, (np.ndarray, list, tuple)):
        return np.asarray(_validate.rounded(_validate.count("count", value, minimum=0), "up"))
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iu":
        raise _validate.out_of_domain("count", "whole numbers >= 0", array.dtype)
    floats = _arrays.checked("count", array, "whole numbers >= 0", lambda array: array >= 0.0)
    # A float64 of an integer is the nearest one: up by one where that is not the integer itself.
    return np.where(floats < 2.0**53, floats, np.nextafter(floats, np.inf))
