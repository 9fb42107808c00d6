"""The grid method against compositions known otherwise: closed form, exact sums, direct convolution, contour."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp import _native
from ferrodp.accounting._solve import contour as _contour
from reference import gaussian_dp, hockey_stick
from reference import pld_reference as reference

TOLERANCE = 1e-4
WORK = 2e6


def grid(quantity, at, *directions, step=None, tolerance=TOLERANCE, log2_max_nodes=21):
    return _native.pld_bounds(
        [list(parts) for parts in directions], quantity, at, tolerance, step, (log2_max_nodes, WORK)
    )[:2]


def test_reference_sums_are_those_of_the_binomial_law():
    """δ of n times (ε₀, 0) at ε = 0, from Kairouz, Oh, Viswanath 2015, Theorem 3.3, n = 3."""
    pair = ("epsilon_delta", 1.0, 0.0)
    atoms = reference.atoms_of(pair, [mp.mpf(-1), mp.mpf(1)])
    p = 1 / (1 + mp.exp(-1))
    expected = p**3 * (1 - mp.exp(-3)) + 3 * p**2 * (1 - p) * (1 - mp.exp(-1))
    assert reference.exact_delta([(*atoms, 3)], 0.0) == pytest.approx(float(expected), rel=1e-14)


@settings(max_examples=60)
@given(
    z=st.floats(0.2, 50.0),
    count=st.integers(1, 3000),
    log_delta=st.floats(math.log(1e-30), math.log(0.2)),
)
def test_gaussians_hold_the_closed_form_between_their_bounds(z, count, log_delta):
    delta = math.exp(log_delta)
    lower, upper = grid("epsilon", delta, [(("gaussian", z), count)])
    with mp.workdps(60):
        mu = mp.sqrt(count) / mp.mpf(z)
        below, above = (gaussian_dp.delta(epsilon, mu) for epsilon in (upper, lower))
    assert below <= delta
    assert above >= delta or lower == 0.0
    assert upper - lower <= 2 * TOLERANCE * upper + 1e-9


@settings(max_examples=25)
@given(
    z=st.floats(0.5, 10.0),
    log_q=st.floats(math.log(1e-3), math.log(0.9)),
    count=st.integers(1, 5000),
    log_delta=st.floats(math.log(1e-20), math.log(0.1)),
    add=st.booleans(),
)
def test_grid_and_contour_overlap(z, log_q, count, log_delta, add):
    q, delta = math.exp(log_q), math.exp(log_delta)
    pair = ("poisson_sampled", q, ("gaussian", z))
    lower, upper = grid("epsilon", delta, [(("reversed", pair) if add else pair, count)], tolerance=1e-3)
    other = _contour.by_direction([_contour.Release(z, q, count)], "epsilon", [log_delta])["add" if add else "remove"][
        0
    ]
    assert lower <= other.upper
    assert other.lower <= upper


LAWS = [
    # pair, its finite losses
    (("epsilon_delta", 1.0, 0.0), [-1, 1]),
    (("epsilon_delta", 0.5, 1e-7), [-0.5, 0.5]),
    (("randomized_response", 0.5, 2.0), [-mp.log(3), mp.log(3)]),
    (("randomized_response", 0.5, 4.0), [-mp.log(5), mp.mpf(0), mp.log(5)]),
    (("randomized_response_or_uniform", 0.25, 4.0), [mp.log(mp.mpf(1) / 4), mp.log(mp.mpf("3.25"))]),
    (("discrete_laplace", 2.0, 3), [mp.mpf(j) / 2 for j in (-3, -1, 1, 3)]),
]


def sampled(q, loss):
    return mp.log1p(mp.mpf(q) * mp.expm1(loss))


def each_law():
    for pair, losses in LAWS:
        yield pair, [mp.mpf(loss) for loss in losses]
        mapped = [mp.log(mp.mpf("0.875")), *(sampled(0.125, mp.mpf(loss)) for loss in losses)]  # the first from −∞
        yield ("poisson_sampled", 0.125, pair), mapped
        yield ("reversed", ("poisson_sampled", 0.125, pair)), [-loss for loss in mapped]


@pytest.mark.parametrize(("pair", "losses"), list(each_law()), ids=lambda x: str(x)[:60])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_discrete_laws_hold_exact_sums_between_their_bounds(pair, losses, count):
    inner = pair[1] if pair[0] == "reversed" else pair
    direct = losses if pair[0] != "reversed" else [-loss for loss in losses]
    if pair[0] == "reversed":
        width = mp.mpf(10) ** -15
        law = [(-loss, hockey_stick.masses(inner, loss - width, loss + width)[1]) for loss in direct]
        infinity = hockey_stick.infinite(inner)[1]
    else:
        law, infinity = reference.atoms_of(pair, losses)
    for epsilon in (0.0, 0.05, 0.4, 1.7):
        exact = reference.exact_delta([(law, infinity, count)], epsilon)
        lower, upper = grid("delta", epsilon, [(pair, count)])
        assert lower <= exact <= upper
        assert upper - lower <= 1e-3 * float(exact) + 1e-12


def test_atoms_get_nodes_whatever_the_grid():
    """A stride of many nodes, and node 0 between two atoms."""
    pair = ("epsilon_delta", 2.0, 0.0)
    for step in (4.0, 1.0, 0.5, 1e-3):
        lower, upper = grid("delta", 26.0, [(pair, 20)], step=step)
        exact = reference.exact_delta([(*reference.atoms_of(pair, [-2, 2]), 20)], 26.0)
        assert lower <= exact <= upper
        assert upper / lower - 1 < 1e-8


@pytest.mark.parametrize(
    "pair",
    [
        ("laplace", 1.0),
        ("poisson_sampled", 0.5, ("laplace", 1.0)),
        ("reversed", ("poisson_sampled", 0.5, ("laplace", 1.0))),
        ("antipodal_gaussian", 0.3, 0.7),
        ("poisson_sampled", 0.3, ("gaussian", 0.7)),
        ("mixture_of_gaussians", 1.5, (0.0, 1.0, 2.0), (0.5, 0.25, 0.25)),
    ],
    ids=str,
)
def test_continuous_laws_meet_direct_convolution(pair):
    step, reach = 0.1, 10.0
    for count in (1, 2, 3):
        for epsilon in (0.1, 0.5, 1.5):
            low, high = reference.rounded_delta([(pair, count)], epsilon, step, reach)
            lower, upper = grid("delta", epsilon, [(pair, count)])
            assert lower <= high * (1 + 1e-12)
            assert upper >= low * (1 - 1e-12)
            assert 0.0 <= upper - lower <= 1e-3 * upper + 1e-12


def test_mixed_compositions_meet_direct_convolution():
    parts = [(("laplace", 1.0), 2), (("poisson_sampled", 0.3, ("gaussian", 0.7)), 1), (("epsilon_delta", 0.3, 1e-4), 1)]
    low, high = reference.rounded_delta(parts, 0.7, 0.1, 10.0)
    lower, upper = grid("delta", 0.7, parts)
    assert low * (1 - 1e-12) <= upper
    assert lower <= high * (1 + 1e-12)
    assert upper / lower - 1 < 1e-3


def test_order_does_not_matter_and_counts_are_repetitions():
    one = [(("laplace", 1.0), 2), (("gaussian", 3.0), 5), (("poisson_sampled", 0.1, ("gaussian", 1.0)), 7)]
    apart = [(pair, 1) for pair, count in one for _ in range(count)]
    answers = [grid("epsilon", 1e-6, parts) for parts in (one, one[::-1], apart)]
    for lower, upper in answers:
        assert lower <= min(upper for _, upper in answers)
        assert upper - lower <= 2 * TOLERANCE * upper


def test_directions_are_both_composed():
    """For two Laplace steps sampled with probability ½, adding a record is worse for small ε (Lebeda et al. 2024)."""
    remove = ("poisson_sampled", 0.5, ("laplace", 1.0))
    lower, upper, index, *_ = _native.pld_bounds(
        [[(remove, 2)], [(("reversed", remove), 2)]], "delta", 0.2, TOLERANCE, None, (21, WORK)
    )
    assert index == 1
    assert lower > grid("delta", 0.2, [(remove, 2)])[1]
    assert upper == pytest.approx(0.1848, abs=5e-5)


def test_memory_limit_makes_the_answer_wider_never_wrong():
    pair = ("poisson_sampled", 0.01, ("gaussian", 1.0))
    fine = grid("epsilon", 1e-5, [(pair, 1000)])
    for limit in (17, 13, 11, 9):
        coarse = grid("epsilon", 1e-5, [(pair, 1000)], log2_max_nodes=limit)
        assert coarse[0] <= fine[1]
        assert coarse[1] >= fine[0]
    assert coarse[1] - coarse[0] > 100 * (fine[1] - fine[0])


def test_upper_laws_are_connect_the_dots_and_sum_to_one():
    for pair in (("gaussian", 1.0), ("laplace", 1.0), ("poisson_sampled", 0.25, ("gaussian", 0.5))):
        (start, masses, lower), (infinity, _) = _native.pld_laws(pair, 0.25, 0.0, (-3.0, 4.0))
        first, last = round(start / 0.25), round(start / 0.25) + len(masses) - 1
        dots, beyond = reference.connect_the_dots(lambda x, pair=pair: hockey_stick.delta(pair, x), 0.25, first, last)
        # rounding of a difference of two masses, divided by the step: some 100 units of 2⁻⁵³/0.25
        np.testing.assert_allclose(masses, dots, atol=1e-13)
        assert infinity == pytest.approx(beyond, abs=1e-13)
        assert math.fsum([*masses, infinity]) == pytest.approx(1.0, abs=1e-14)
        assert math.fsum(lower) <= 1.0
