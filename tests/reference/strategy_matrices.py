"""Strategies of correlated noise, slow and obvious: whole matrices of rationals, every pattern, every sign."""

import itertools
from fractions import Fraction


def toeplitz(coefficients, num_steps):
    """Return the lower triangular Toeplitz matrix as rows of rationals."""
    column = [*map(Fraction, coefficients), *[Fraction(0)] * num_steps]
    return [[column[i - j] if i >= j else Fraction(0) for j in range(num_steps)] for i in range(num_steps)]


def buffered(decays, weights, num_steps):
    """Return the matrix of a buffered Toeplitz strategy."""
    terms = list(zip(map(Fraction, decays), map(Fraction, weights), strict=True))
    column = [sum(weight * decay ** (t - 1) for decay, weight in terms) for t in range(1, num_steps)]
    return toeplitz([Fraction(1), *column], num_steps)


def tree(num_steps):
    """Return a row for each complete block of 2^i steps."""
    rows, size = [], 1
    while size <= num_steps:
        rows += [
            [Fraction(start <= step < start + size) for step in range(num_steps)]
            for start in range(0, num_steps - size + 1, size)
        ]
        size *= 2
    return rows


def patterns(num_steps, num_participations, min_separation):
    """Yield all sets of at most so many steps, any two of which are at least so far apart."""
    for count in range(num_participations + 1):
        for steps in itertools.combinations(range(num_steps), count):
            if all(b - a >= min_separation for a, b in itertools.pairwise(steps)):
                yield steps


def sensitivity_squared(matrix, num_participations, min_separation):
    """Return the largest ‖C·u‖² over patterns and u of −1 and 1 there: what units of one direction can reach."""
    num_steps = len(matrix[0])
    best = Fraction(0)
    for steps in patterns(num_steps, num_participations, min_separation):
        for signs in itertools.product((1, -1), repeat=max(len(steps) - 1, 0)):
            vector = [sum(s * row[j] for s, j in zip((1, *signs), steps, strict=False)) for row in matrix]
            best = max(best, sum(x * x for x in vector))
    return best


def inverse(matrix):
    """Return the inverse of a lower triangular matrix."""
    size = len(matrix)
    found = [[Fraction(0)] * size for _ in range(size)]
    for j in range(size):
        for i in range(j, size):
            rest = Fraction(i == j) - sum(matrix[i][k] * found[k][j] for k in range(j, i))
            found[i][j] = rest / matrix[i][i]
    return found


def error_variances(matrix):
    """Return the variance of the noise in each prefix sum, at noise multiplier 1."""
    rows = inverse(matrix)
    sums = [[sum(rows[i][j] for i in range(t + 1)) for j in range(len(rows))] for t in range(len(rows))]
    return [sum(x * x for x in row) for row in sums]
