"""Errors of prefix sums: how far noise C⁻¹·Z of multiplier 1 moves the sum of the first steps.

With B = A·C⁻¹, A the matrix of prefix sums, the sum of the steps 0 to t has noise of variance Σⱼ B[t, j]². What is
computed here are the standard deviations, in float arithmetic: they compare strategies, no guarantee rests on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_LONG = 2**22
"""Products from which on a series is inverted by transforms."""
_COLUMNS = 256
"""Of C⁻¹, at a time."""


def inverse_series(column: Doubles, num_terms: int) -> Doubles:
    """Return the first coefficients of 1/c(x), c₀ = 1."""
    if column.size * num_terms <= _LONG:
        from scipy import signal  # slow to import

        impulse = np.zeros(num_terms)
        impulse[0] = 1.0
        return np.asarray(signal.lfilter([1.0], column, impulse), dtype=np.float64)
    found = np.ones(1)
    while found.size < num_terms:  # Newton: d ← d·(2 − c·d), with twice as many terms each time
        size = min(2 * found.size, num_terms)
        both = product(column[:size], found, size)
        both = -both
        both[0] += 2.0
        found = product(found, both, size)
    return found


def product(first: Doubles, second: Doubles, num_terms: int) -> Doubles:
    """Return the first coefficients of a product of series."""
    from scipy import fft  # slow to import

    size = fft.next_fast_len(min(first.size, num_terms) + min(second.size, num_terms), real=True)
    transformed = fft.rfft(first[:num_terms], size) * fft.rfft(second[:num_terms], size)
    found = np.zeros(num_terms)
    whole = fft.irfft(transformed, size)[:num_terms]
    found[: whole.size] = whole
    return found


def of_toeplitz(column: Doubles, num_steps: int) -> Doubles:
    """Return the standard deviation of each prefix sum's noise, for a Toeplitz strategy."""
    return of_response(np.cumsum(inverse_series(column, num_steps)))


def of_response(response: Doubles) -> Doubles:
    """Return the standard deviations, given the first column of B."""
    return np.sqrt(np.cumsum(response * response))


def of_banded(diagonals: Doubles) -> Doubles:
    """Return the standard deviations for any lower triangular matrix with few diagonals: (b, T) as in `sensitivity`."""
    from scipy import linalg  # slow to import

    _, num_steps = diagonals.shape
    squares = np.zeros(num_steps)
    for start in range(0, num_steps, _COLUMNS):
        columns = min(_COLUMNS, num_steps - start)
        unit = np.zeros((num_steps - start, columns))
        unit[np.arange(columns), np.arange(columns)] = 1.0
        inverse = linalg.solve_banded((diagonals.shape[0] - 1, 0), diagonals[:, start:], unit, check_finite=False)
        squares[start:] += np.sum(np.cumsum(inverse, axis=0) ** 2, axis=1)
    return np.sqrt(squares)


def of_tree(num_steps: int) -> Doubles:
    """Return the standard deviations of a tree's prefix sums by the estimates of [Hon15] from below.

    A node over 2ˡ steps is known from its own noise, of variance 1, and from the sum of its halves. The best weights
    make the variance vₗ = 1/(1 + 1/(2·vₗ₋₁)) = 2ˡ/(2ˡ⁺¹ − 1). A prefix is the sum of a node for each binary digit.
    """
    levels = num_steps.bit_length()
    variances = [2.0**level / (2.0 ** (level + 1) - 1.0) for level in range(levels)]
    ends = np.arange(1, num_steps + 1)
    return np.sqrt(sum((ends >> level & 1) * each for level, each in enumerate(variances)))


def of_buffers(decays: Sequence[float], weights: Sequence[float], num_steps: int) -> Doubles:
    """Return the first column of B for a buffered Toeplitz strategy."""
    rates, parts = inverse_buffers(decays, weights)
    response = np.ones(num_steps)
    steps = np.arange(num_steps)
    for rate, part in zip(rates, parts, strict=True):
        response -= part * (1.0 - rate**steps) / (1.0 - rate)
    return response


def inverse_buffers(decays: Sequence[float], weights: Sequence[float]) -> tuple[Doubles, Doubles]:
    """Return λ and w of 1/c(x) = 1 − Σᵢ wᵢ·x/(1 − λᵢ·x), for c(x) = 1 + Σᵢ ωᵢ·x/(1 − θᵢ·x) with ω > 0.

    The state of the inverse moves by diag(θ) − ω·1ᵀ, which √ω makes symmetric: eigenvalues λ are real and lie between
    the decays, and wᵢ is the squared product of eigenvector i with √ω.
    """
    from scipy import linalg  # slow to import

    root = np.sqrt(np.asarray(weights))
    rates, vectors = linalg.eigh(np.diag(np.asarray(decays)) - np.outer(root, root))
    return rates, (vectors.T @ root) ** 2
