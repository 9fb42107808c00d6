"""The Rényi curve of a Poisson-sampled Gaussian under replacement, against its definition."""

import functools
import math
import random

import numpy as np
import pytest

from ferrodp.accounting import GaussianEvent, NeighboringRelation, PoissonSampledEvent, RdpAccountant, rdp
from reference import rdp_reference as reference
from support import vectors
from support.native_testing import testing

REPLACE = NeighboringRelation.REPLACE_ONE
VECTORS = vectors.accounting()
SOURCE = random.Random(5)
SETTINGS = [
    (10 ** SOURCE.uniform(-0.2, 1.3), 10 ** SOURCE.uniform(-6, 0), 1 + 10 ** SOURCE.uniform(-4, 1)) for _ in range(6)
]
HARD = [(1.0, 0.5, 1.0), (0.3, 0.999, 1.7), (20.0, 1e-9, 300.0), (0.25, 0.1, 1.2), (1.0, 1e-4, 25.5)]


@functools.cache
def definition(q, sigma, order):
    return reference.poisson_gaussian_replaced(q, sigma, order)


def curve(sigma, q, orders):
    return rdp.poisson_sampled_gaussian(sigma, q, orders, neighboring_relation=REPLACE, null_distance=0.5)


@pytest.mark.parametrize(("sigma", "q", "order"), SETTINGS + HARD)
def test_it_is_just_above_the_definition(sigma, q, order):
    exact = definition(q, sigma, order)

    assert exact <= curve(sigma, q, order) <= exact * (1 + 1e-12)


@pytest.mark.parametrize(("sigma", "q", "order"), [(1.0, 0.01, 3.3), (20.0, 1e-5, 40.5), (2.0, 0.1, 60.0)])
def test_poor_rules_widen_the_bound_and_do_not_break_it(sigma, q, order):
    exact = definition(q, sigma, order)
    for depth, reach in [(1.0, 8.75), (3.0, 8.75), (8.0, 8.75), (34.0, 0.5), (34.0, 1.5), (34.0, 2.5)]:
        upper = testing.rdp_poisson_replaced_by_rule(sigma, q, np.array([order]), depth, reach)[0]

        assert exact * (1 + 1e-9) <= upper


def test_few_nodes_miss_the_definition_without_the_aliasing_term():
    """What the rule gives, less its stated error, is off by more than rounding."""
    missed = 0
    for sigma, q, order in [(1.0, 0.01, 3.3), (20.0, 1e-5, 40.5), (2.0, 0.1, 60.0)]:
        exact = definition(q, sigma, order)
        for depth in (1.0, 1.5, 2.0):
            upper = testing.rdp_poisson_replaced_by_rule(sigma, q, np.array([order]), depth, 8.75)[0]
            plain = math.log1p(math.expm1((order - 1) * upper) * (1 - math.exp(-depth))) / (order - 1)
            missed += abs(plain - exact) > 1e-6 * exact

    assert missed > 4


def test_it_lies_between_nothing_and_the_unsampled_curve():
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-6, 1e9, 150), [math.inf]])
    for sigma, q in [(1.0, 0.01), (0.01, 0.5), (300.0, 0.9), (1e6, 1e-12), (1e-3, 1e-3)]:
        found = curve(sigma, q, orders)
        assert (found >= 0).all()
        assert (found <= orders / (2 * sigma**2) * (1 + 1e-14)).all()
        assert (np.diff(found[:-1]) >= -1e-10 * found[1:-1]).all()
    assert curve(2.0, 0.0, [1.0, 3.0, math.inf]).tolist() == [0.0, 0.0, 0.0]
    assert curve(2.0, 1.0, 8.0) == pytest.approx(1.0, rel=1e-14)


def test_replacing_by_a_record_costs_less_than_by_nothing_twice_as_far():
    """Both pairs have parts at a distance of one sensitivity; here each is displaced by half of it."""
    orders = np.linspace(1.1, 20, 40)

    assert (curve(1.0, 0.01, orders) <= rdp.poisson_sampled_gaussian(1.0, 0.01, orders)).all()


def test_each_value_depends_on_its_own_order_alone():
    orders = 1 + np.geomspace(1e-3, 1e4, 60)
    np.random.default_rng(0).shuffle(orders)

    assert curve(1.3, 0.05, orders).tolist() == [curve(1.3, 0.05, order) for order in orders]


REPLACED = [
    vector
    for vector in VECTORS
    if vector["quantity"] == "epsilon_composition" and vector["inputs"].get("direction") == "REPLACE"
]


@pytest.mark.parametrize("vector", REPLACED, ids=lambda vector: vector["id"])
def test_the_accountant_is_above_given_values_and_not_far(vector):
    """Theirs are ±1 from the middle: a distance of two, and noise multipliers half as large."""
    accountant = RdpAccountant(neighboring_relation=REPLACE)
    for event in vector["inputs"]["events"]:
        release = GaussianEvent(noise_multiplier=event["sigma"] / 2)
        step = PoissonSampledEvent(sampling_probability=event["q"], event=release, null_distance=0.5)
        accountant.compose(step, event["count"])
    found = accountant.epsilon(vector["inputs"]["delta"])

    assert vector["expected"] - vector["tolerance"]["abs"] <= found <= 1.25 * vector["expected"]
