"""Rényi curves of fixed-size samples: against definitions, tiny datasets that are enumerated, and given values."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrodp.accounting import NeighboringRelation
from ferrodp.accounting.rdp import fixed_size
from ferrodp.errors import InvalidParameter, InvalidType
from reference import sampling_schemes as reference
from support import vectors
from support.exact_numbers import ends
from support.native_testing import testing

REPLACED = NeighboringRelation.REPLACE_ONE
QUANTITIES = {"rdp_wor_gaussian_replace_one", "rdp_fixed_size_wor_gaussian_add_remove"}
ALL_VECTORS = vectors.accounting()
VECTORS = [vector for vector in ALL_VECTORS if vector["quantity"] in QUANTITIES]

# The docstring's promise, which the head of fixed_size.rs derives: some 300 units plus the e⁻³⁴ a panel may miss.
TOLERANCE = 1e-12

SETTINGS = [
    (1, 0.01, 2),
    (2.5, 0.01, 5),
    (4, 0.1, 16),
    (1, 0.01, 1.5),
    (10, 0.3, 1.01),
    (0.5, 0.2, 8),
    (0.5, 0.01, 40.5),
    (100, 1e-4, 256),
    (1000, 0.5, 3.3),
    (2, 0.9, 32),
    (0.3, 0.01, 3),
    (5, 1e-6, 64),
]


def replaced(z, q, orders, **keywords):
    return fixed_size.fixed_size_sampled_gaussian(z, q, orders, neighboring_relation=REPLACED, **keywords)


@pytest.mark.parametrize(("z", "q", "order"), SETTINGS)
def test_replacing_a_record_is_bounded_as_closely_as_promised(z, q, order):
    with mp.workdps(40):
        exact = mp.log(reference.replace_one_moment(z, q, order)) / (mp.mpf(order) - 1)

        bound = float(replaced(z, q, order))

        assert exact <= bound <= exact * (1 + TOLERANCE)


@pytest.mark.parametrize(("z", "q", "order"), [(1, 0.3, 2), (0.7, 0.05, 4.5), (3, 0.2, 1.3)])
def test_the_moment_is_the_one_of_the_amplified_profile(z, q, order):
    """Independent of the derivation: δ′(ε) = q·δ(ln(1 + (e^ε − 1)/q)), integrated."""

    def amplified(e):
        return q * reference.gaussian_delta(z, mp.log1p(mp.expm1(e) / q))

    expected = reference.moment_of_profile(amplified, order)

    # mpmath's quadrature of the tabulated pieces reaches 1e-12 here
    assert float(mp.log(expected) / (order - 1)) == pytest.approx(float(replaced(z, q, order)), rel=1e-9)


@pytest.mark.parametrize("order", [1.5, 2, 6])
@pytest.mark.parametrize("sigma", [0.6, 2.0])
@pytest.mark.parametrize(
    ("values", "other", "size"), [((1, -1, -1), (-1, -1, -1), 1), ((1, 1, -1, 0), (-1, 1, -1, 0), 2)]
)
def test_no_enumerated_dataset_exceeds_the_bound_for_replaced_records(values, other, size, sigma, order):
    laws = (*reference.fixed_size_sums(values, size), *reference.fixed_size_sums(other, size))
    exact = mp.log(reference.mixture_moment(*laws, sigma, order)) / (order - 1)

    assert 0 < exact <= float(replaced(sigma / 2, size / len(values), order))


@pytest.mark.parametrize("order", [1.5, 2, 6])
@pytest.mark.parametrize("sigma", [0.6, 2.0])
def test_adding_a_record_costs_what_enumeration_says(sigma, order):
    """The worst case is attained: all others at −1, the record at 1."""
    with_record = reference.fixed_size_sums((1, -1, -1), 2)
    without = reference.fixed_size_sums((-1, -1), 2)

    exact = mp.log(reference.mixture_moment(*with_record, *without, sigma, order)) / (order - 1)
    back = mp.log(reference.mixture_moment(*without, *with_record, sigma, order)) / (order - 1)
    bound = float(fixed_size.fixed_size_sampled_gaussian(sigma, 2 / 3, order))

    assert back <= exact
    assert float(exact) == pytest.approx(bound, rel=1e-12)  # the Poisson curve's 1e-13 and the quadrature's 1e-15


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_given_values(vector):
    inputs = vector["inputs"]
    if vector["quantity"] == "rdp_wor_gaussian_replace_one":
        found = replaced(inputs["sigma"], inputs["q"], inputs["alpha"], method="ternary_divergence")
    else:
        found = fixed_size.fixed_size_sampled_gaussian(inputs["sigma"], inputs["q"], inputs["alpha"])
    assert float(found) == pytest.approx(vector["expected"], **vector["tolerance"])


def test_there_are_given_values():
    assert len(VECTORS) >= 5


@settings(max_examples=30)
@given(
    st.floats(0.2, 50),
    st.floats(1e-4, 0.9),
    st.floats(1.05, 60),
)
def test_the_profile_is_no_worse_than_the_older_bound_nor_than_no_sampling(z, q, order):
    found = float(replaced(z, q, order))

    assert 0.0 < found <= float(replaced(z, q, order, method="ternary_divergence")) * (1 + TOLERANCE)
    assert found <= order / (2 * z * z) * (1 + 1e-15)


@given(st.floats(0.1, 1e3), st.floats(1e-9, 1.0), st.floats(1.001, 1e4))
def test_more_sampling_noise_and_lower_orders_cost_less(z, q, order):
    base, *others = replaced([z, z * 1.1, z, z], [q, q, q * 0.9, q], [order, order, order, 1 + (order - 1) * 0.9])

    for other in others:
        assert 0.0 <= other <= base * (1 + TOLERANCE * (1 + order * base))


def test_one_call_broadcasts_and_each_element_stands_alone():
    noise, orders = np.array([[0.8], [2.0]]), np.array([1.5, 3, 40])

    found = replaced(noise, 0.05, orders, threads=2)

    assert found.shape == (2, 3)
    assert found.tolist() == [[float(replaced(z, 0.05, order)) for order in orders] for z in (0.8, 2.0)]


def test_edges_are_total():
    assert float(replaced(1.0, 0.0, 2.0)) == 0.0
    assert float(replaced(2.0, 1.0, 4.0)) == pytest.approx(0.5, rel=1e-15)
    assert float(replaced(2.0, 1.0, 4.0)) >= 0.5
    assert float(replaced(1.0, 0.1, math.inf)) == math.inf
    assert 0.0 < float(replaced(1e150, 1e-300, 2.0)) < 1e-280
    assert 0.0 < float(replaced(1e-3, 0.5, 1e6)) < math.inf
    assert replaced(1.0, 0.1, []).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        ((0.0, 0.1, 2), {}, InvalidParameter),
        ((1.0, 1.1, 2), {}, InvalidParameter),
        ((1.0, 0.1, 1.0), {}, InvalidParameter),
        ((1.0, math.nan, 2), {}, InvalidParameter),
        ((1.0, 0.1, "2"), {}, InvalidType),
        ((1.0, 0.1, 2), {"neighboring_relation": 1}, InvalidType),
        ((1.0, 0.1, 2), {"method": "best"}, InvalidParameter),
        ((1.0, 0.1, 2000), {"method": "ternary_divergence", "neighboring_relation": REPLACED}, InvalidParameter),
        ((1.0, 0.1, 2), {"method": "ternary_divergence"}, InvalidParameter),
    ],
)
def test_bad_parameters_are_refused(arguments, keywords, error):
    with pytest.raises(error):
        fixed_size.fixed_size_sampled_gaussian(*arguments, **keywords)


@pytest.mark.parametrize("z", [0.4, 1.0, 30.0])
def test_central_moments_are_means_of_powers(z):
    """E_Q[(r − 1)^l] by quadrature."""
    found = testing.certified_central_moments(z, 9)

    with mp.workdps(40):
        for power, bounds in enumerate(found):
            points = [k / 2 for k in range(-28, 30 + int(2 * power / z))]
            exact = mp.quad(
                lambda t, k=power: mp.npdf(t) * mp.expm1(t / z - 1 / (2 * mp.mpf(z) ** 2)) ** k,
                points,
                method="gauss-legendre",
                maxdegree=4,
            )
            lower, upper = ends(bounds)
            assert exact == pytest.approx(lower, rel=1e-20, abs=1e-25)
            with mp.workdps(100):
                assert lower <= upper <= lower * (1 + mp.mpf("1e-60"))


def test_theorem_9_with_the_gaussian_curve_is_what_theorem_27_improves():
    generic = fixed_size.fixed_size_sampled(lambda order: order / 18, 0.05, [2.0, 5.5, 32.0])

    assert (generic >= replaced(3.0, 0.05, [2.0, 5.5, 32.0], method="ternary_divergence") * (1 - 1e-14)).all()


@pytest.mark.parametrize(("epsilon", "q", "order"), [(1.0, 0.01, 2), (0.1, 0.5, 7.5), (5.0, 0.2, 30), (800.0, 0.01, 3)])
def test_pure_privacy_by_randomized_response(epsilon, q, order):
    """A dataset of n answers with one sampled: laws (1 − q)·μ₀ + q·μ and (1 − q)·μ₀ + q·μ′, μ₀ = μ or μ′."""
    with mp.workdps(60):
        keep, change = 1 / (1 + mp.exp(-mp.mpf(epsilon))), 1 / (1 + mp.exp(mp.mpf(epsilon)))
        truth, lie = (keep, change), (change, keep)
        mixed = [(1 - mp.mpf(q)) * a + mp.mpf(q) * b for a, b in zip(lie, truth, strict=True)]
        exact = mp.log(mp.fsum(p**order * r ** (1 - order) for p, r in zip(mixed, lie, strict=True))) / (order - 1)
        u = 1 + mp.mpf(q) * mp.expm1(mp.mpf(epsilon))
        claimed = mp.log1p((u**order - 1) * (1 - u ** (1 - mp.mpf(order))) * change) / (order - 1)

        bound = float(fixed_size.fixed_size_sampled_pure(epsilon, q, order))

        assert exact <= claimed <= bound <= claimed * (1 + 1e-11)  # 1e-14·(1 + αl + ε) of the moment
