"""Who takes part in a round: `ferrodp.random.samples` under the specification's names."""

from __future__ import annotations

import enum

from ferrodp.engine.records import sampling_rate as checked_rate
from ferrodp.random import samples
from ferrodp.random.samples import Indices

__all__ = ["Sampling", "poisson_sample", "uniform_sample"]


class Sampling(enum.StrEnum):
    """How the clients of a round are drawn, and which datasets the guarantee tells apart."""

    POISSON = "poisson"
    """Each client joins with the same chance, independently; neighbors have one client more or less."""
    UNIFORM = "uniform"
    """A fixed number of clients, without replacement; neighbors have another client in one place."""


def poisson_sample(population_size: int, sampling_rate: float) -> Indices:
    """Return the members of a Poisson sample: each of the indices with exactly this chance, independently.

    Parameters
    ----------
    population_size : int
        Number of clients there are; ≥ 0.
    sampling_rate : float
        The chance of each; in (0, 1].

    Returns
    -------
    (m,) ndarray of int64
        Indices in increasing order, perhaps none. *Secret:* amplification holds for those who do not know them; and how
        many they are is a release too.

    Raises
    ------
    InvalidParameter, InvalidType, MemoryError
        If a parameter is not accepted. Nothing was drawn.
    EntropyError
        If the operating system gives no key.

    Examples
    --------
    >>> members = poisson_sample(10_000, 0.1)
    >>> 700 < len(members) < 1300
    True
    """
    return samples.poisson_sample(population_size, checked_rate(sampling_rate))


def uniform_sample(population_size: int, sample_size: int) -> Indices:
    """Return a sample of fixed size, drawn without replacement: every set of so many indices is equally likely.

    Parameters
    ----------
    population_size : int
        Number of clients there are; ≥ 0.
    sample_size : int
        Number of clients to draw; from 0 to `population_size`.

    Returns
    -------
    (sample_size,) ndarray of int64
        Indices in increasing order. *Secret:* amplification holds for those who do not know them.

    Raises
    ------
    InvalidParameter, InvalidType, MemoryError
        If a parameter is not accepted. Nothing was drawn.
    EntropyError
        If the operating system gives no key.

    Examples
    --------
    >>> len(uniform_sample(1000, 10))
    10
    """
    return samples.fixed_size_sample(population_size, sample_size)
