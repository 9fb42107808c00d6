"""Masses of privacy losses against the definitions in mpmath, within the errors that each pair states of itself."""

import math
import random

import mpmath as mp
import pytest

from ferrodp import _native
from reference import hockey_stick
from support.native_testing import testing

INFINITE = math.inf
UNCUT = INFINITE
SMALLEST_NORMAL = 2.3e-308


def wide(seed, count):
    """Pairs with parameters over many orders of magnitude; the same ones every time."""
    draw = random.Random(seed)

    def log(low, high):
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    def base():
        kind = draw.randrange(6)
        if kind == 0:
            return ("gaussian", log(0.01, 1e6))
        if kind == 1:
            return ("laplace", log(0.01, 1e4))
        if kind == 2:
            return ("discrete_gaussian", log(0.2, 30.0), draw.choice([1, 1, 2, 5]), UNCUT)
        if kind == 3:
            return ("discrete_laplace", log(0.05, 100.0), draw.choice([1, 2, 3, 40]))
        if kind == 4:
            return ("randomized_response", draw.choice([log(1e-6, 1.0), 0.5]), draw.choice([2, 3, 1000]))
        return ("epsilon_delta", log(1e-3, 30.0), draw.choice([0.0, 1e-6, 0.1]))

    def probability():
        return draw.choice([log(1e-6, 1.0), 1.0 - log(1e-9, 0.5)])

    for _ in range(count):
        kind = draw.randrange(8)
        if kind < 2:
            yield base()
        elif kind == 2:
            yield ("reversed", base())
        elif kind == 3:
            yield ("poisson_sampled", probability(), base())
        elif kind == 4:
            yield ("reversed", ("poisson_sampled", probability(), base()))
        elif kind == 5:
            size = draw.randrange(1, 5)
            shifts = tuple(float(i) for i in range(size + 1))
            weights = tuple(math.comb(size, i) * 0.3**i * 0.7 ** (size - i) for i in range(size + 1))
            mixture = ("mixture_of_gaussians", log(0.1, 100.0), shifts, weights)
            yield draw.choice([mixture, ("reversed", mixture)])
        elif kind == 6:
            yield ("antipodal_gaussian", probability(), log(0.05, 1e3))
        else:
            yield (
                "fixed_size_sampled",
                probability(),
                draw.choice([("gaussian", log(0.1, 100.0)), ("laplace", log(0.1, 10.0))]),
            )


def cells(pair, seed):
    """Tails and cells of many widths over the range of the losses, none of them at an atom."""
    draw = random.Random(seed)
    (low, high), _ = testing.pair_range(pair, 1e-290)
    ends = sorted(draw.uniform(low, high) for _ in range(3)) + [draw.gauss(0.0, 0.01) * (high - low) for _ in range(2)]
    for lower in ends:
        yield lower, INFINITE
        yield -INFINITE, lower
        width = (high - low) * 10.0 ** draw.uniform(-7, 0)
        yield lower, lower + width


def check(pair, lower, upper, digits=60):
    _, (mass_error, loss_error), _, _ = testing.pair_facts(pair)
    p, q = testing.pair_mass(pair, lower, upper)
    again, scaled = testing.pair_cell(pair, lower, upper) if math.isfinite(lower) else (p, 0.0)
    assert p * (1 - 2 * mass_error) <= again <= p * (1 + 2 * mass_error)

    def moved(end, sign):
        return mp.mpf(end) + sign * mp.mpf(loss_error) * max(1, abs(mp.mpf(end))) if math.isfinite(end) else mp.mpf(end)

    with mp.workdps(digits):
        least = hockey_stick.masses(pair, moved(lower, 1), moved(upper, -1), digits)
        most = hockey_stick.masses(pair, moved(lower, -1), moved(upper, 1), digits)
        slack = mp.mpf(mass_error)
        shift = mp.exp(mp.mpf(lower)) if math.isfinite(lower) else mp.mpf(0)
        if pair[0] == "fixed_size_sampled" and lower < 0 <= upper:  # what is at 0 is rounded up by 2η + 8u, η itself
            most = tuple(each + 6 * slack for each in most)
        for computed, low, high in ((p, *_ends(least, most, 0)), (q, *_ends(least, most, 1))):
            assert low * (1 - slack) - SMALLEST_NORMAL <= mp.mpf(computed), (pair, lower, upper)
            assert mp.mpf(computed) <= high * (1 + slack) + SMALLEST_NORMAL, (pair, lower, upper)
        if math.isfinite(lower) and p > 0:
            # the exponent is one more rounding where the pair does not take it into its own
            rounding = slack + mp.mpf(2) ** -50
            assert least[1] * shift * (1 - rounding) - SMALLEST_NORMAL <= scaled, (pair, lower, upper)
            assert scaled <= most[1] * shift * (1 + rounding) + SMALLEST_NORMAL, (pair, lower, upper)


def _ends(least, most, index):
    return least[index], most[index]


@pytest.mark.parametrize("seed", range(6))
def test_masses_are_within_the_stated_errors(seed):
    for index, pair in enumerate(wide(seed, 10)):
        for lower, upper in cells(pair, 1000 * seed + index):
            if lower < upper:
                check(pair, lower, upper)


@pytest.mark.parametrize("scale", [57.0, 200.0, 1e3, 3e4, 1e6])
@pytest.mark.parametrize("shift", [1, 1000])
def test_sums_over_many_integers_keep_their_relative_error(scale, shift):
    """The Euler–Maclaurin formula, in the body and far out, against the sum of its terms; 20 to 900 of them."""
    pair = ("discrete_gaussian", scale, shift, UNCUT)
    spacing = shift / scale / scale
    draw = random.Random(round(scale) + shift)
    for deviations in (-30.0, -6.0, 0.0, 0.5, 4.0, 20.0, 34.0):
        start = round(deviations * scale)
        width = draw.choice([20, 150, 900])
        lower, upper = ((start + end + 0.5 - 0.5 * shift) * spacing for end in (0, width))

        check(pair, lower, upper, digits=30)


@pytest.mark.parametrize("scale", [0.3, 0.5, 0.8, 5.0, 60.0])
def test_tails_of_the_discrete_gaussian_keep_their_relative_error(scale):
    pair = ("discrete_gaussian", scale, 1, UNCUT)
    for deviations in (-20.0, -1.0, 0.0, 3.0, 30.0):
        boundary = (round(deviations * scale) + 0.5) / scale / scale

        check(pair, boundary, INFINITE, digits=40)
        check(pair, -INFINITE, boundary, digits=40)


@pytest.mark.parametrize("cut", [0, 1, 5, 300])
@pytest.mark.parametrize(("scale", "shift"), [(0.5, 1), (3.0, 2), (40.0, 7)])
def test_cut_laws_have_infinite_losses_where_only_one_reaches(cut, scale, shift):
    pair = ("discrete_gaussian", scale, shift, cut)
    infinite, (mass_error, _), _, _ = testing.pair_facts(pair)

    for computed, exact in zip(infinite, hockey_stick.infinite(pair), strict=True):
        assert abs(computed - exact) <= mass_error * exact + SMALLEST_NORMAL
    for boundary in (-1.01, -0.01, 0.013, 0.51):
        check(pair, boundary, INFINITE)
        check(pair, -INFINITE, boundary)
    assert sum(testing.pair_mass(pair, -INFINITE, INFINITE)[:1]) + infinite[0] == pytest.approx(1.0, rel=4 * mass_error)


@pytest.mark.parametrize("lower", [-1e3, -1e6, -1e300])
def test_a_factor_that_underflows_takes_nothing_from_the_other_mass(lower):
    for pair in wide(79, 60):
        mass, cell = testing.pair_mass(pair, lower, INFINITE), testing.pair_cell(pair, lower, INFINITE)

        assert cell[0] == pytest.approx(mass[0], rel=1e-12)
        assert cell[1] == 0.0


def test_ranges_leave_no_more_than_they_promise():
    for pair in wide(77, 60):
        for x in (0.3, 1e-5, 1e-40, 1e-280):
            ranges = testing.pair_range(pair, x)
            for under_q, (low, high) in enumerate(ranges):
                assert math.isfinite(high)
                above = testing.pair_mass(pair, high, INFINITE)[under_q]
                below = testing.pair_mass(pair, -INFINITE, low)[under_q] if math.isfinite(low) else 0.0

                assert max(above, below) <= x, (pair, x, under_q)


def test_nothing_lies_beyond_the_support():
    for pair in wide(78, 60):
        _, _, (low, high), _ = testing.pair_facts(pair)
        if math.isfinite(high):
            assert testing.pair_mass(pair, high, INFINITE)[:2] == (0.0, 0.0)
        if math.isfinite(low):
            assert testing.pair_mass(pair, -INFINITE, low)[:2] == (0.0, 0.0)


def test_losses_lie_on_the_lattice_that_a_pair_says():
    pairs = [
        ("discrete_gaussian", 2.3, 3, UNCUT),
        ("discrete_gaussian", 2.3, 3, 7),
        ("discrete_laplace", 1.7, 5),
        ("randomized_response", 0.3, 4),
        ("randomized_response_or_uniform", 0.3, 4),
        ("epsilon_delta", 1.5, 0.01),
    ]
    for pair in [*pairs, *(("reversed", pair) for pair in pairs)]:
        _, _, _, (offset, spacing) = testing.pair_facts(pair)
        whole = testing.pair_mass(pair, -INFINITE, INFINITE)
        atoms = [
            testing.pair_mass(pair, offset + (k - 1e-6) * spacing, offset + (k + 1e-6) * spacing)
            for k in range(-60, 61)
        ]

        assert sum(atom[0] for atom in atoms) == pytest.approx(whole[0], rel=1e-13)
        assert sum(atom[1] for atom in atoms) == pytest.approx(whole[1], rel=1e-13)
        for k, atom in zip(range(-60, 61), atoms, strict=True):
            if min(atom[:2]) > 1e-290:
                assert math.log(atom[0] / atom[1]) == pytest.approx(offset + k * spacing, rel=1e-12, abs=1e-12)
    assert testing.pair_facts(("gaussian", 1.0))[3] is None


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("gaussian", 0.0), "noise_multiplier must be finite and > 0"),
        (("gaussian", math.nan), "noise_multiplier must be finite and > 0"),
        (("discrete_gaussian", 1.0, 1.5, UNCUT), "l2_sensitivity must be a whole number"),
        (("discrete_gaussian", 2.0**47, 1.0, UNCUT), "scale must be finite, > 0 and at most 2\\^46"),
        (("discrete_laplace", 1.0, 2**54), "l1_sensitivity must be a whole number"),
        (("poisson_sampled", 0.0, ("gaussian", 1.0)), "sampling_probability must be in"),
        (("poisson_sampled", math.nan, ("gaussian", 1.0)), "sampling_probability must be in"),
        (("mixture_of_gaussians", 1.0, [0.0, 1.0], [1.0]), "probabilities must have length 2"),
        (("mixture_of_gaussians", 1.0, [0.0], [0.0]), "probabilities must be not all 0"),
        (("epsilon_delta", -1.0, 0.0), "epsilon must be finite and >= 0"),
        (("nonsense",), "no mechanism is called"),
    ],
)
def test_bad_pairs_are_refused(pair, message):
    with pytest.raises(ValueError, match=message):
        testing.pair_mass(pair, 0.0, 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_curves_are_enclosed_down_to_the_smallest_delta(seed):
    draw = random.Random(seed)
    for pair in wide(500 + seed, 12):
        _, (mass_error, loss_error), _, _ = testing.pair_facts(pair)
        (low, high), _ = testing.pair_range(pair, 1e-250)
        for epsilon in [draw.uniform(low, high) for _ in range(4)] + [draw.uniform(0, high / 10)]:
            lower, upper = _native.pair_delta([pair], epsilon)

            truth = hockey_stick.delta(pair, epsilon, digits=90)
            above = hockey_stick.masses(pair, epsilon - 4 * loss_error * max(1.0, abs(epsilon)), INFINITE, digits=90)[0]
            # the mass at 0 of a sample of fixed size is rounded up
            extra = 6 * mass_error if pair[0] == "fixed_size_sampled" else 0
            width = (6 * mass_error + 16 * loss_error * max(1.0, abs(epsilon))) * (
                above + hockey_stick.infinite(pair)[0]
            )
            assert truth <= upper, (pair, epsilon)
            assert lower <= truth + extra, (pair, epsilon)
            assert upper
            -lower <= width + extra + 1e-306, (pair, epsilon)
