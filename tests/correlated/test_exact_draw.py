"""Native streams of correlated noise against the definition, bit for bit, and their joint law."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ferrodp import _native
from ferrodp.errors import InvalidParameter
from reference import correlated_noise
from support import forked

KEY = bytes(range(32))
NOTHING = np.empty(0)
ROOT = [1.0, 0.5, 0.375, 0.3125]
ROWS = [[1.0, 0.5, -0.25], [1.25, 0.5, 0.5], [0.75, -0.5, 0.125], [1.0, 1.0, 1.0], [2.0, 0.5, 0.0], [1.0, 0.25, 0.75]]
DECAYS, WEIGHTS = [0.98, 0.7, 0.2], [0.06, 0.2, 0.24]

SYSTEMS = {
    "white": (("banded", [1.0], [], 0), correlated_noise.banded([1.0])),
    "root": (("banded", ROOT, [], 0), correlated_noise.banded(ROOT)),
    "rows": (("rows", [c for row in ROWS for c in row], [], 3), correlated_noise.listed(ROWS)),
    "buffers": (("buffered", DECAYS, WEIGHTS, 0), correlated_noise.buffered(DECAYS, WEIGHTS)),
    "inverse": (("inverse", [1.0, -0.5, -0.125], [], 0), None),
}


def opened(name, *, totals, deviation, exponent, length, key=KEY, widening=0.0):
    kind, numbers, further, width = SYSTEMS[name][0]
    given = np.array(numbers), np.array(further, dtype=float)
    return _native.CorrelatedStream(kind, *given, width, totals, deviation, exponent, length, key, widening)


def row_of(name, step, totals):
    if name == "inverse":
        return correlated_noise.of_inverse(SYSTEMS[name][0][1], step, totals)
    return correlated_noise.inverse_row(SYSTEMS[name][1], step, totals)


@pytest.mark.parametrize("exponent", [2, 0, -10])
@pytest.mark.parametrize("totals", [False, True])
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_released_number_is_that_of_the_definition(name, totals, exponent):
    deviation, length = 1.7, 5
    of_floats = opened(name, totals=totals, deviation=deviation, exponent=exponent, length=length)
    of_integers = opened(name, totals=totals, deviation=deviation, exponent=exponent, length=length)
    grid, ratio = Fraction(2) ** exponent, Fraction(deviation) / Fraction(2) ** exponent
    for step in range(5):
        values = np.linspace(-3.0, 40.0, length) * (step + 1)
        integers = np.arange(length, dtype=np.int64) * 1013 - 77 * step
        floats, noised = values.copy(), integers.copy()
        of_floats.add(floats, None)
        of_integers.add_to_integers(noised, 4, None)
        row = row_of(name, step, totals)
        for i in range(length):
            expected = correlated_noise.release(KEY, row, i, Fraction(values[i]) / grid, ratio)
            assert floats[i] == expected * 2.0**exponent
            assert noised[i] == correlated_noise.release(KEY, row, i, Fraction(int(integers[i]), 16), ratio)


@pytest.mark.parametrize("widening", [0.125, 0.5])
def test_a_widened_margin_changes_no_bit(widening):
    for name in SYSTEMS:
        for totals in (False, True):
            arguments = {"totals": totals, "deviation": 3.0, "exponent": -4, "length": 200}
            plain, widened = opened(name, **arguments), opened(name, **arguments, widening=widening)
            for _ in range(4):
                first, second = np.zeros(200, dtype=np.float32), np.zeros(200, dtype=np.float32)
                plain.add(first, None)
                widened.add(second, None)
                assert first.tobytes() == second.tobytes()


def rounded_law(deviation, grid, reach):
    """Return P[round(deviation·Z/grid) = k] for |k| ≤ reach."""
    edges = (np.arange(-reach, reach + 2) - 0.5) * grid / deviation
    return np.diff(stats.norm.cdf(edges))


@pytest.mark.parametrize("totals", [False, True])
@pytest.mark.parametrize("name", ["root", "buffers", "inverse"])
def test_the_joint_law_is_the_rounded_real_one(name, totals):
    """On a grid so coarse that outputs are a few integers; each test has a rate of false alarms of 1e-9.

    Marginal laws by chi-square, and all pairs of steps by the chi-square of their joint law, whose cells come from the
    bivariate normal distribution.
    """
    steps, draws, deviation, reach = 6, 200_000, 1.0, 2
    stream = opened(name, totals=totals, deviation=deviation, exponent=1, length=draws, key=bytes(31) + b"\x07")
    found = []
    for _ in range(steps):
        values = np.zeros(draws, dtype=np.int64)
        stream.add_to_integers(values, 0, None)
        found.append(np.clip(values, -reach, reach))
    rows = np.array([[*map(float, row_of(name, t, totals)), *[0.0] * (steps - t - 1)] for t in range(steps)])
    covariance = rows @ rows.T
    edges = np.array([-math.inf, *(2.0 * (np.arange(-reach, reach) + 0.5)), math.inf])
    for i in range(steps):
        law = np.diff(stats.norm.cdf(edges / math.sqrt(covariance[i, i])))
        counts = np.array([np.count_nonzero(found[i] == k) for k in range(-reach, reach + 1)])
        kept = law * draws > 20
        observed = [*counts[kept], counts[~kept].sum() + 1e-9]
        expected = [*(law[kept] * draws), law[~kept].sum() * draws + 1e-9]
        assert stats.chisquare(observed, expected).pvalue > 1e-9
        for j in range(i):
            pair = stats.multivariate_normal(cov=covariance[np.ix_([j, i], [j, i])])
            cumulative = np.array([[_below(pair, a, b, covariance, j, i) for b in edges] for a in edges])
            joint = np.diff(np.diff(cumulative, axis=0), axis=1)
            counts = np.zeros_like(joint)
            np.add.at(counts, (found[j] + reach, found[i] + reach), 1)
            kept = joint * draws > 20
            observed = [*counts[kept], counts[~kept].sum() + 1e-9]
            expected = np.array([*(joint[kept] * draws), max(joint[~kept].sum(), 0.0) * draws + 1e-9])
            assert stats.chisquare(observed, expected * sum(observed) / expected.sum()).pvalue > 1e-9


def _below(pair, a, b, covariance, j, i):
    """Return P[X ≤ a, Y ≤ b]."""
    if -math.inf in (a, b):
        return 0.0
    if a == math.inf:
        return 1.0 if b == math.inf else stats.norm.cdf(b / math.sqrt(covariance[i, i]))
    if b == math.inf:
        return stats.norm.cdf(a / math.sqrt(covariance[j, j]))
    return pair.cdf([a, b])


def test_second_moments_of_sixty_four_steps_are_those_of_the_matrix():
    """All 2080 covariances at once, on a grid of half a standard deviation; with 6 standard errors the rate is 1e-5."""
    steps, draws = 64, 60_000
    stream = opened("buffers", totals=False, deviation=1.0, exponent=-1, length=draws)
    found = np.zeros((steps, draws))
    for step in range(steps):
        stream.add(found[step], None)
    coefficients = [1.0, *(sum(w * d**j for w, d in zip(WEIGHTS, DECAYS, strict=True)) for j in range(steps - 1))]
    c = np.array([[coefficients[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])
    inverse = np.linalg.inv(c)
    expected = inverse @ inverse.T + np.eye(steps) * 0.25 / 12
    # Rounding adds g²/12 to variances, within 1e-4 on this grid; products of two have a variance of at most 2·v².
    error = 6 * math.sqrt(2 * expected.max() ** 2 / draws) + 1e-4
    assert np.abs(found @ found.T / draws - expected).max() < error
    assert np.abs(found.mean(axis=1)).max() < 6 * math.sqrt(expected.max() / draws)


def test_a_stream_stays_its_owners_after_a_fork():
    stream = opened("root", totals=False, deviation=1.0, exponent=0, length=3)

    assert forked.answer(os.fork, lambda: stream.is_own) == "False"
    assert stream.is_own


@pytest.mark.parametrize("make", forked.MAKERS)
def test_a_stream_is_refused_in_a_child(make):
    begin = (
        "import numpy as np\n"
        "from ferrodp import _native\n"
        "given = 'banded', np.array([1.0, 0.5]), np.empty(0), 0, False, 1.0, 0, 3, bytes(32), 0.0\n"
        "stream = _native.CorrelatedStream(*given)\n"
        "assert stream.is_own"
    )

    told = forked.answer_alone(make, begin, "stream.add(np.zeros(3), None)")

    assert told.startswith("FerroError")
    assert "forked child" in told


def test_what_a_stream_cannot_have_is_refused():
    with pytest.raises(InvalidParameter, match="standard_deviation"):
        opened("root", totals=False, deviation=-1.0, exponent=0, length=3)
    with pytest.raises(InvalidParameter, match="granularity"):
        opened("root", totals=False, deviation=1.0, exponent=-60, length=3)
    with pytest.raises(MemoryError):
        opened("root", totals=False, deviation=1.0, exponent=0, length=2**60)
