"""Who takes part in a step: random subsets with exactly the law that is accounted, from cryptographic bits.

Amplification by sampling rests on bits that nobody can guess and on the very law that is accounted. A shuffled data set
cut into batches has another law, and costs more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.random.noise import NoiseSource, source_or_default

__all__ = ["fixed_size_sample", "poisson_sample", "random_allocation"]

Indices = npt.NDArray[np.int64]
_MAX_POPULATION = 2**62
_MAX_STEPS = 2**32 - 1


def poisson_sample(population_size: int, sampling_probability: Real, *, source: NoiseSource | None = None) -> Indices:
    """Return a Poisson sample: each index joins with exactly this probability, independently of all others.

    Parameters
    ----------
    population_size : int
        Number of records; from 0 to 2^62.
    sampling_probability : float
        In [0, 1]. Rounded up if not exactly representable, as events do: what is drawn is what is accounted.
    source : NoiseSource, optional
        Where the bits come from; by default a fresh key of the operating system.

    Returns
    -------
    (m,) ndarray of int64
        Indices below `population_size` in increasing order, perhaps none. *Secret:* amplification holds against those
        who do not know them, and how many they are is private too.

    Raises
    ------
    InvalidParameter, InvalidType, MemoryError
        Before anything is drawn.
    EntropyError
        If the operating system gives no key.

    Notes
    -----
    The probability is the float to its last bit. Below 1/32 the gaps between members are drawn, geometric variables by
    inversion with as many digits as each needs, so time and memory grow with the sample and not with the population;
    from 1/32 on each record costs one comparison.

    Examples
    --------
    >>> members = poisson_sample(1_000_000, 0.001)
    >>> 700 < len(members) < 1300
    True
    """
    size = _validate.count("population_size", population_size, minimum=0, maximum=_MAX_POPULATION)
    probability = _validate.probability("sampling_probability", sampling_probability)
    drawn_from = source_or_default(source)
    _validate.fits_in_memory("population_size", int(8 * size * probability))
    return _native.poisson_members(size, probability, drawn_from._key())


def fixed_size_sample(population_size: int, sample_size: int, *, source: NoiseSource | None = None) -> Indices:
    """Return a sample of fixed size, drawn without replacement: every set of so many indices is equally likely.

    Parameters
    ----------
    population_size : int
        Number of records; from 0 to 2^62.
    sample_size : int
        Number of records to draw; from 0 to `population_size`.
    source : NoiseSource, optional
        Where the bits come from; by default a fresh key of the operating system.

    Returns
    -------
    (sample_size,) ndarray of int64
        Indices in increasing order. *Secret:* amplification holds against those who do not know them.

    Raises
    ------
    InvalidParameter, InvalidType, MemoryError
        Before anything is drawn.
    EntropyError
        If the operating system gives no key.

    Examples
    --------
    >>> len(fixed_size_sample(1000, 10))
    10
    """
    size = _validate.count("population_size", population_size, minimum=0, maximum=_MAX_POPULATION)
    drawn = _validate.count("sample_size", sample_size, minimum=0, maximum=size)
    drawn_from = source_or_default(source)
    _validate.fits_in_memory("sample_size", 32 * drawn)  # the set that it is drawn into, too
    return _native.fixed_size_members(size, drawn, drawn_from._key())


def random_allocation(
    population_size: int, num_steps: int, num_selected: int = 1, *, source: NoiseSource | None = None
) -> list[Indices]:
    """Return the members of each step of a random allocation: every index joins `num_selected` steps drawn at random.

    Each index draws its steps independently of all others, every set of so many steps equally likely.

    Parameters
    ----------
    population_size : int
        Number of records; ≥ 0.
    num_steps : int
        Number of steps; from 1 to 2^32 - 1.
    num_selected : int
        In how many different steps each record takes part; from 0 to `num_steps`.
    source : NoiseSource, optional
        Where the bits come from; by default a fresh key of the operating system.

    Returns
    -------
    list of (m,) ndarray of int64
        One array a step, indices in increasing order. *Secret:* amplification holds against those who do not know them.

    Raises
    ------
    InvalidParameter, InvalidType, MemoryError
        Before anything is drawn.
    EntropyError
        If the operating system gives no key.

    Examples
    --------
    >>> batches = random_allocation(1000, 10)
    >>> len(batches), sum(len(batch) for batch in batches)
    (10, 1000)
    """
    steps = _validate.count("num_steps", num_steps, minimum=1, maximum=_MAX_STEPS)
    selected = _validate.count("num_selected", num_selected, minimum=0, maximum=steps)
    size = _validate.count("population_size", population_size, minimum=0, maximum=_MAX_POPULATION // max(selected, 1))
    drawn_from = source_or_default(source)
    _validate.fits_in_memory("population_size", 12 * size * selected + 16 * steps)
    members, starts = _native.allocated_members(size, steps, selected, drawn_from._key())
    return np.split(members, starts[1:-1])
