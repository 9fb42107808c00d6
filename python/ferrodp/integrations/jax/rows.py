"""Batches of a random size for compiled code, which wants a fixed one: how many rows are enough, padding, masks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ferrodp import plan
from ferrodp._base import _validate
from ferrodp.errors import InvalidArray, InvalidParameter, InvalidType

__all__ = ["batch_rows", "pad_rows"]


def pad_rows(indices: npt.ArrayLike | None, num_rows: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return the rows of a batch, filled up to a fixed number, and which of them are real.

    Parameters
    ----------
    indices : (n,) int array
        Rows of the dataset, such as those of a step. None, as of a step whose plan draws no rows, is refused.
    num_rows : int
        n or more.

    Returns
    -------
    rows : (num_rows,) int32 ndarray
        The indices, then zeros.
    mask : (num_rows,) bool ndarray
        True for the first n.

    Raises
    ------
    InvalidParameter, InvalidType
        If there are more indices than `num_rows`, or `num_rows` is no int ≥ 0. How many there are is secret, and the
        message does not say it.
    InvalidArray
        If `indices` is not one-dimensional, or an index is not an integer below 2³¹.

    Examples
    --------
    >>> from ferrodp.integrations.jax import pad_rows
    >>> pad_rows([3, 17], 4)
    (array([ 3, 17,  0,  0], dtype=int32), array([ True,  True, False, False]))
    """
    size = _validate.count("num_rows", num_rows, minimum=0)
    if indices is None:
        raise InvalidType(
            "indices must be rows, got None: a plan without population_size draws none; "
            "write population_size=... in the plan"
        )
    found = np.asarray(indices)
    if found.ndim != 1 or (found.size and (found.dtype.kind not in "iu" or int(found.max()) >= 2**31)):
        raise InvalidArray(
            f"indices must be one-dimensional, of integers below 2^31, got {found.ndim} dimensions of "
            f"{found.dtype}; pass step.indices"
        )
    if len(found) > size:
        raise InvalidParameter(
            f"num_rows must be at least the number of rows drawn, got {size}; batch_rows(plan) is enough"
        )
    rows = np.zeros(size, np.int32)
    rows[: len(found)] = found
    return rows, np.arange(size) < len(found)


def batch_rows(of: plan.PrivacyPlan, *, failure_probability: float = 2.0**-40) -> int:
    """Return a number of rows that is enough for every batch of a plan, but for a stated probability.

    Parameters
    ----------
    of : PrivacyPlan
        With a known `population_size`, unless its sampling has a fixed size.
    failure_probability : float
        That any of the plan's batches is larger; in (0, 1).

    Returns
    -------
    int
        Rows for `pad_rows` and `JaxRun.sample`. A batch that is larger after all is refused there, never cut.

    Raises
    ------
    InvalidParameter, InvalidType
        If the population is needed and not known, or a parameter is out of its domain.

    Notes
    -----
    Batches of Poisson samples and of random allocations are binomial. The union bound over the steps holds for both.

    Examples
    --------
    >>> from ferrodp.integrations.jax import batch_rows
    >>> from ferrodp.plan import ConstantNoise, FlatClipping, PoissonSampling, PrivacyPlan
    >>> plan = PrivacyPlan(
    ...     population_size=60_000,
    ...     sampling=PoissonSampling(0.01),
    ...     num_steps=1000,
    ...     clipping=FlatClipping(1.0),
    ...     noise=ConstantNoise(1.1),
    ... )
    >>> batch_rows(plan)
    805
    """
    chance = _validate.probability("failure_probability", failure_probability)
    if not 0.0 < chance < 1.0:
        raise _validate.out_of_domain("failure_probability", "in (0, 1)", failure_probability)
    sampling, population = of.sampling, of.population_size
    if isinstance(sampling, plan.FixedSizeSampling):
        return sampling.size
    if isinstance(sampling, plan.GivenOrder):
        return sampling.batch_size
    if population is None:
        raise InvalidParameter("population_size must be known for the size of a batch; choose num_rows yourself")
    if isinstance(sampling, plan.PoissonSampling):
        trials, share = population, sampling.probability
    elif isinstance(sampling, plan.CyclicPoisson):
        trials, share = -(-population // sampling.num_parts), sampling.probability
    elif isinstance(sampling, plan.RandomAllocation):
        trials, share = population, sampling.num_selected / sampling.num_steps
    else:
        return population
    from scipy.stats import binom  # slow to import

    return min(trials, int(binom.isf(chance / of.num_steps, trials, share)) + 1)
