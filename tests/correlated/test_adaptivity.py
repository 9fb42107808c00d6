"""Adaptive adversaries of two and three steps, all of them: no divergence above the charge, equality for the worst.

The charge of a strategy is that of one Gaussian release: of its sensitivity, whatever later inputs depend on.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ferrodp.accounting.curves import gaussian_delta_bounds
from ferrodp.correlated import BandedMatrix, BandedToeplitz

SIGMA = 3.0
MOVES = (-1, 0, 1)


def moment(shift, order):
    """Return Σ p^α·q^(1−α) of two discrete Gaussians that are so far apart: tails beyond 20σ are below 10⁻⁸⁰."""
    at = np.arange(-80, 81)
    weights = np.exp(-(at**2) / (2 * SIGMA**2))
    log_p = -(at**2) / (2 * SIGMA**2) - math.log(weights.sum())
    log_q = -((at - shift) ** 2) / (2 * SIGMA**2) - math.log(weights.sum())
    return float(np.exp(order * log_p + (1 - order) * log_q).sum())


def worst(matrix, order, past=()):
    """Return the largest moment of all rows from here on, over everything that an adversary can do after each of them.

    The conditional moment of a row is one number for all outputs, since integers shift discrete Gaussians into
    themselves; so the best answer to each output is the best answer to any.
    """
    step = len(past)
    if step == len(matrix):
        return 1.0
    best = 0.0
    for move in MOVES:
        shift = sum(matrix[step][j] * each for j, each in enumerate((*past, move)))
        best = max(best, moment(shift, order) * worst(matrix, order, (*past, move)))
    return best


@pytest.mark.parametrize("order", [1.25, 2.0, 3.0, 6.0])
@pytest.mark.parametrize(
    "matrix",
    [
        [[2, 0], [1, 2]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
        [[2, 0, 0], [1, 2, 0], [0, 1, 2]],
        [[1, 0, 0], [-1, 1, 0], [0, 2, 1]],
    ],
)
def test_integer_streams_cost_what_one_release_of_their_sensitivity_costs(matrix, order):
    strategy = BandedMatrix(np.array(matrix))
    rho = strategy.sensitivity(len(matrix)) ** 2 / (2 * SIGMA**2)
    reached = worst(matrix, order)

    assert reached <= math.exp(order * (order - 1) * rho) * (1 + 1e-12)
    nonnegative = np.array(matrix).min() >= 0
    if order == int(order) and nonnegative:  # where the divergence of a shift is α·s²/2σ², and no direction is better
        assert reached == pytest.approx(math.exp(order * (order - 1) * rho), rel=1e-9)


def test_less_than_the_sensitivity_is_exceeded():
    """The largest column alone, as if a unit took part once: what the test above would miss."""
    matrix = [[2, 0], [1, 2]]
    rho = BandedMatrix(np.array(matrix)).sensitivity(1) ** 2 / (2 * SIGMA**2)

    assert worst(matrix, 2.0) > 1.05 * math.exp(2 * rho)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_real_streams_have_the_curve_of_one_gaussian_release_and_no_adversary_another(epsilon):
    """δ(ε) over two rows by quadrature on 0.02σ, for adversaries who choose the second move by the first row's place.

    All 3·3⁴ of them that tell four parts of the line apart. Errors of the trapezoidal rule on a kink: below 10⁻⁴.
    """
    sigma, coefficients = 1.5, (1.0, 0.75)
    strategy = BandedToeplitz(num_steps=2, bands=2, coefficients=coefficients)
    bound = gaussian_delta_bounds(epsilon=epsilon, noise_multiplier=sigma / strategy.sensitivity(2)).upper
    grid = np.arange(-8.0 * sigma, 8.0 * sigma, 0.02 * sigma)
    width = (0.02 * sigma) ** 2
    rows = stats.norm.pdf(grid, scale=sigma)
    part = np.digitize(grid, [-1.0, 0.0, 1.0])
    found = {}
    inner = {}
    for first in MOVES:
        p0 = stats.norm.pdf(grid, loc=first, scale=sigma)
        for move in MOVES:
            p1 = stats.norm.pdf(grid, loc=coefficients[1] * first + move, scale=sigma)
            joint = np.maximum(np.outer(p0, p1) - math.exp(epsilon) * np.outer(rows, rows), 0.0).sum(axis=1) * width
            inner[first, move] = np.bincount(part, joint, minlength=4)
        for moves in itertools.product(MOVES, repeat=4):
            found[first, moves] = sum(inner[first, move][place] for place, move in enumerate(moves))

    assert len(found) == 243
    assert max(found.values()) <= bound + 1e-4
    assert found[1, (1, 1, 1, 1)] == pytest.approx(bound, abs=1e-4)
