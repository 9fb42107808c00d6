"""The given test values of composition theorems and of concentrated differential privacy."""

import pytest

from ferrodp import accounting
from support import vectors

VECTORS = vectors.accounting()


def pairs(inputs):
    return [(inputs["epsilon"], inputs.get("delta", 0.0))]


def advanced(inputs, method):
    total = accounting.compose_advanced(
        pairs(inputs), count=inputs["num_queries"], extra_delta=inputs["delta_prime"], method=method
    )
    return total._asdict()


def optimal(inputs):
    total = {"delta": inputs["total_delta"], "count": inputs["num_queries"], "on_grid": True}
    return accounting.compose_optimal(pairs(inputs), **total).epsilon


COMPUTED = {
    "advanced_composition_drv": lambda i: advanced(i, "drv"),
    "advanced_composition_kl": lambda i: advanced(i, "kl"),
    "optimal_composition_kov": optimal,
    "optimal_composition_kov_inverse": lambda i: accounting.composition.optimal_epsilon_per_query(
        epsilon=i["total_epsilon"], delta=i["total_delta"], count=i["num_queries"], delta_per_query=i["delta"]
    ),
    "pure_dp_optimal_composition_delta": lambda i: accounting.composition.compose_optimal_delta(
        pairs(i), epsilon=i["epsilon_total"], count=i["num_queries"]
    ),
    "zcdp_to_delta_cks": lambda i: accounting.curves.zcdp_delta(**i),
    "zcdp_to_epsilon_bs16": lambda i: accounting.zcdp_epsilon(**i, method="simple"),
    "zcdp_to_epsilon_cks": lambda i: accounting.zcdp_epsilon(**i),
}
COVERED = [vector for vector in VECTORS if vector["quantity"] in COMPUTED]


def test_the_file_still_has_every_quantity():
    assert {vector["quantity"] for vector in COVERED} == set(COMPUTED)


@pytest.mark.parametrize("vector", COVERED, ids=lambda vector: vector["id"])
def test_given_values(vector):
    actual = COMPUTED[vector["quantity"]](vector["inputs"])

    assert actual == pytest.approx(vector["expected"], **{"rel": 0.0, "abs": 0.0, **vector["tolerance"]})
