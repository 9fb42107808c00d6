"""The given values of Rényi divergences, their conversions, and accountants on them."""

import math

import numpy as np
import pytest

from ferrodp.accounting import (
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RdpAccountant,
    rdp,
    rdp_to_delta,
    rdp_to_epsilon,
)
from support import vectors

VECTORS = vectors.accounting()

OPACUS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
TENSORFLOW = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64)) + [128, 256, 512]


def sampled(inputs):
    return inputs.get("steps", 1) * rdp.poisson_sampled_gaussian(inputs["sigma"], inputs["q"], float(inputs["alpha"]))


def answered(inputs):
    return rdp.randomized_response(
        inputs["noise_parameter"],
        inputs["num_buckets"],
        float(inputs["alpha"]),
        neighboring_relation=NeighboringRelation[inputs["neighboring"]],
    )


def to_delta(inputs):
    if "sigma" in inputs:
        orders = np.arange(1000, 100000) * 0.001
        return rdp_to_delta(orders, rdp.gaussian(inputs["sigma"], orders), epsilon=inputs["epsilon"]).value
    return rdp_to_delta(inputs["orders"], inputs["rdp"], epsilon=inputs["epsilon"]).value


def composed(inputs):
    accountant = RdpAccountant(OPACUS if inputs["orders"].startswith("[1+x/10") else TENSORFLOW)
    for event in inputs["events"]:
        release = GaussianEvent(noise_multiplier=event["sigma"])
        step = PoissonSampledEvent(sampling_probability=event["q"], event=release)
        accountant.compose(step, event["count"])
    return accountant.epsilon(inputs["delta"])


COMPUTED = {
    "rdp_poisson_subsampled_gaussian": sampled,
    "sgm_log_A_alpha": lambda inputs: (inputs["alpha"] - 1) * sampled(inputs),
    "rdp_k_ary_randomized_response": answered,
    "rdp_exponential_mechanism_bounded_range": lambda i: rdp.exponential_mechanism(i["epsilon"], i["alpha"]),
    "rdp_laplace": lambda i: rdp.laplace(1 / i["epsilon"], i["alpha"]),
    "rdp_discrete_gaussian_exact": lambda i: rdp.discrete_gaussian(
        i["sigma"], i["alpha"], l2_sensitivity=i["sensitivity"]
    ),
    "rdp_to_epsilon": lambda i: rdp_to_epsilon(i["orders"], i["rdp"], delta=i["delta"]).value,
    "rdp_to_delta": to_delta,
    "epsilon_composition": composed,
}
COVERED = [
    vector
    for vector in VECTORS
    if vector["quantity"] in COMPUTED
    and (vector["quantity"] != "epsilon_composition" or vector["inputs"].get("accountant") == "rdp")
]


def test_the_file_still_has_the_values_that_are_covered():
    assert len(COVERED) == 162


@pytest.mark.parametrize("vector", COVERED, ids=lambda vector: vector["id"])
def test_given_values(vector):
    actual, tolerance = COMPUTED[vector["quantity"]](vector["inputs"]), vector["tolerance"]

    if "min" in tolerance:
        assert tolerance["min"] <= actual <= tolerance["max"]
    else:
        assert actual == pytest.approx(float(vector["expected"]), **{"rel": 0.0, "abs": 0.0, **tolerance})


COMPOSITIONS = [
    vector
    for vector in VECTORS
    if vector["quantity"] == "epsilon_composition"
    and vector["inputs"].get("direction") == "REMOVE"
    and all(event["mech"] == "poisson_gaussian" for event in vector["inputs"]["events"])
]


@pytest.mark.parametrize("vector", COMPOSITIONS, ids=lambda vector: vector["id"])
def test_the_accountant_is_above_the_exact_value_and_not_far(vector):
    accountant = RdpAccountant()
    for event in vector["inputs"]["events"]:
        release = GaussianEvent(noise_multiplier=event["sigma"])
        accountant.compose(PoissonSampledEvent(sampling_probability=event["q"], event=release), event["count"])
    exact, found = vector["expected"], accountant.epsilon(vector["inputs"]["delta"])

    assert exact - vector["tolerance"]["abs"] <= found
    assert found <= 1.2 * exact
    assert math.isfinite(accountant.delta(exact))
