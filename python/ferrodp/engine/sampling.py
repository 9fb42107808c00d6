"""Who takes part in a round: samples that are what the accounting says they are, drawn from cryptographic bits.

Amplification by sampling rests on bits that nobody can guess and on the very law that is accounted. A permutation that
is cut into batches is another law, and costs more.
"""

from __future__ import annotations

import enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ferrodp import _validate
from ferrodp.engine.records import sampling_rate as checked_rate
from ferrodp.random import BitGenerator
from ferrodp.random.noise import DEFAULT_SOURCE

__all__ = ["Sampling", "poisson_sample", "uniform_sample"]

Indices = npt.NDArray[np.int64]
_CHUNK = 2**20
_WORD = 2**64


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

    Notes
    -----
    A uniform number with as many binary digits as it takes is compared with the rate, so the chance is the float to its
    last bit. Cost: eight random bytes a client.

    Examples
    --------
    >>> members = poisson_sample(10_000, 0.1)
    >>> 700 < len(members) < 1300
    True
    """
    size = _validate.count("population_size", population_size, minimum=0)
    rate = checked_rate(sampling_rate)
    _validate.fits_in_memory("population_size", 8 * size)
    if rate == 1.0:
        return np.arange(size, dtype=np.int64)
    threshold, rest = divmod(Fraction(rate) * _WORD, 1)
    found = [_joining(start, min(_CHUNK, size - start), int(threshold), rest) for start in range(0, size, _CHUNK)]
    return np.concatenate([np.empty(0, np.int64), *found])


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

    Examples
    --------
    >>> len(uniform_sample(1000, 10))
    10
    """
    size = _validate.count("population_size", population_size, minimum=0)
    chosen = _validate.count("sample_size", sample_size, minimum=0, maximum=size)
    _validate.fits_in_memory("population_size", 8 * size)
    if chosen == size:
        return np.arange(size, dtype=np.int64)
    rng = np.random.Generator(BitGenerator())  # type: ignore[arg-type]  # numpy asks for its capsule alone
    return np.sort(rng.choice(size, chosen, replace=False, shuffle=False)).astype(np.int64)


def _joining(start: int, size: int, threshold: int, rest: Fraction) -> Indices:
    words = np.frombuffer(DEFAULT_SOURCE.bytes(8 * size), np.uint64)
    joins = words < np.uint64(threshold)
    if rest:
        for tie in np.flatnonzero(words == np.uint64(threshold)).tolist():
            joins[tie] = _is_below(rest)
    return np.flatnonzero(joins) + start


def _is_below(chance: Fraction) -> bool:
    """Return True with exactly this chance."""
    while chance:
        threshold, chance = divmod(chance * _WORD, 1)
        word = int.from_bytes(DEFAULT_SOURCE.bytes(8), "little")
        if word != threshold:
            return word < threshold
    return False
