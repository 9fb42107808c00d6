"""The given test values of closed forms; and that no value is left out by all the tests together."""

import importlib
import math
from pathlib import Path

import pytest

from ferrodp import accounting
from ferrodp.accounting import (
    DiscreteLaplaceEvent,
    GaussianEvent,
    GdpAccountant,
    LaplaceEvent,
    NeighboringRelation,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    TreeAggregationEvent,
    TruncatedPoissonSampledEvent,
)
from ferrodp.errors import UnsupportedEventError
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism
from support import vectors
from vectors import verify_accounting

VECTORS = vectors.accounting()

REPLACED = 2  # a replaced unit moves a sum by twice its norm


def hockey_stick(inputs):
    if inputs["mechanism"] == "gaussian":
        factor = REPLACED if inputs["adjacency"] == "REPLACE" else 1
        z = inputs["sigma"] / (factor * inputs["l2_sensitivity"])
        return accounting.gaussian_delta(epsilon=inputs["epsilon"], noise_multiplier=z)
    z = inputs["scale"] / inputs["l1_sensitivity"]
    return accounting.laplace_delta(epsilon=inputs["epsilon"], noise_multiplier=z)


def calibrated(inputs):
    if inputs["mechanism"] == "laplace":
        return LaplaceMechanism.calibrated(epsilon=inputs["epsilon"], l1_sensitivity=inputs["sensitivity"]).scale
    factor = REPLACED if inputs["adjacency"] == "REPLACE" else 1
    sensitivity = factor * inputs["sensitivity"]
    budget = {"epsilon": inputs["epsilon"], "delta": inputs["delta"]}
    return GaussianMechanism.calibrated(**budget, l2_sensitivity=sensitivity).standard_deviation


def composed(events):
    accountant = GdpAccountant()
    for event in events:
        accountant.compose(GaussianEvent(noise_multiplier=event["sigma"]), event["count"])
    return accountant


def calibrated_for_many(inputs):
    """n releases with noise σ are one with σ/√n; n = 25 here, so the root is exact."""
    single = accounting.curves.gaussian_standard_deviation(
        epsilon=inputs["epsilon"], delta=inputs["delta"], l2_sensitivity=inputs["sensitivity"]
    )
    return single * math.sqrt(inputs["num_queries"])


def gaussian_delta(inputs):
    keywords = {"epsilon": inputs["epsilon"], "noise_multiplier": inputs["sigma"]}
    return {
        "delta": accounting.gaussian_delta(**keywords),
        "log_delta": accounting.curves.gaussian_log_delta(**keywords),
    }


def gaussian_sigma(inputs):
    budget = {"epsilon": inputs["epsilon"], "delta": inputs["delta"]}
    return accounting.curves.gaussian_standard_deviation(**budget, l2_sensitivity=inputs.get("sensitivity", 1.0))


COMPUTED = {
    "hockey_stick_delta_single_step": hockey_stick,
    "calibrate_noise_single_step": calibrated,
    "calibrate_gaussian_composition": calibrated_for_many,
    "delta_composition": lambda inputs: composed(inputs["events"]).delta(inputs["epsilon"]),
    "epsilon_composition": lambda inputs: composed(inputs["events"]).epsilon(inputs["delta"]),
    "gaussian_delta": gaussian_delta,
    "gaussian_epsilon": lambda i: accounting.gaussian_epsilon(delta=i["delta"], noise_multiplier=i["sigma"]),
    "gaussian_sigma": gaussian_sigma,
    "gdp_to_delta": lambda i: accounting.gaussian_delta(epsilon=i["epsilon"], noise_multiplier=1 / i["mu"]),
    "laplace_delta": lambda i: accounting.laplace_delta(
        epsilon=i["epsilon"], noise_multiplier=i["scale"] / i["l1_sensitivity"]
    ),
}


def calibrated_scale(inputs, event):
    target = {"target_epsilon": inputs["epsilon"], "target_delta": inputs["delta"], "count": inputs["num_queries"]}
    return accounting.calibrate_parameter(event, **target, bounds=(1e-2, 1e4))


def calibrated_sampled(inputs):
    return inputs["sensitivity"] * accounting.calibrate_noise_multiplier(
        target_epsilon=inputs["epsilon"],
        target_delta=inputs["delta"],
        sampling_probability=inputs["q"],
        count=inputs["num_queries"],
    )


CALIBRATED = {
    "calibrate_laplace_composition": lambda i: calibrated_scale(
        i, lambda scale: LaplaceEvent(noise_multiplier=scale / i["sensitivity"])
    ),
    # they give 1/b
    "calibrate_discrete_laplace_composition": lambda i: (
        1 / calibrated_scale(i, lambda scale: DiscreteLaplaceEvent(scale=scale, l1_sensitivity=i["sensitivity"]))
    ),
    "calibrate_poisson_gaussian_composition": calibrated_sampled,
}


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["quantity"] in CALIBRATED], ids=lambda vector: vector["id"])
def test_calibrations_of_compositions(vector):
    actual = CALIBRATED[vector["quantity"]](vector["inputs"])

    assert actual == pytest.approx(vector["expected"], **{"rel": 0.0, "abs": 0.0, **vector["tolerance"]})


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["quantity"] == "epsilon_tree_aggregation_single_epoch"])
def test_a_tree_of_one_epoch(vector):
    inputs = vector["inputs"]
    accountant = RdpAccountant([1 + x / 10 for x in range(1, 100)] + list(range(12, 64)))
    accountant.compose(TreeAggregationEvent(noise_multiplier=inputs["noise_multiplier"], num_steps=inputs["steps"]))

    assert 0.8 * vector["expected"] < accountant.epsilon(inputs["delta"]) < vector["expected"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["id"] == "pld-truncpoisson"])
def test_truncated_samples_cost_no_more_than_published(vector):
    """Theirs takes two opposite contributions for a full batch, of a record that may be zeroed.

    To remove one from so many, our pair has δ = 10⁻⁶ at ε = 16.45652, by contour; to add one costs more.
    """
    inputs = vector["inputs"]
    accountant = PldAccountant()
    zeroed = PldAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    for event in inputs["events"]:
        step = TruncatedPoissonSampledEvent(
            population_size=event["dataset_size"],
            sampling_probability=event["q"],
            truncated_batch_size=event["max_batch"],
            event=GaussianEvent(noise_multiplier=event["sigma"]),
        )
        accountant.compose(step, event["count"])
        zeroed.compose(step, event["count"])

    assert 16.45652 < zeroed.epsilon(inputs["delta"]) < vector["expected"]
    assert accountant.epsilon(inputs["delta"]) > 16.45652


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["quantity"] == "gdp_clt_underestimate"])
def test_no_accountant_returns_the_central_limit(vector):
    inputs, expected = vector["inputs"], vector["expected"]
    step = PoissonSampledEvent(sampling_probability=inputs["q"], event=GaussianEvent(noise_multiplier=inputs["sigma"]))
    accountant = PldAccountant()
    accountant.compose(step, inputs["steps"])

    assert accountant.epsilon(inputs["delta"]) == pytest.approx(
        expected["true_epsilon"], rel=0.0, **vector["tolerance"]
    )
    with pytest.raises(UnsupportedEventError):
        GdpAccountant().compose(step, inputs["steps"])


def is_covered(vector):
    """Gaussian and Laplace without sampling, Gaussian compositions; a scale for δ > 0 is defined otherwise there."""
    inputs = vector["inputs"]
    if vector["quantity"] not in COMPUTED:
        return False
    if "mechanism" in inputs:
        pure = inputs["mechanism"] == "laplace" and "scale" not in inputs and inputs.get("delta", 0.0) == 0.0
        known = inputs["mechanism"] == "gaussian" or "scale" in inputs or pure
        return inputs["mechanism"] in ("gaussian", "laplace") and known and inputs["sampling_prob"] == 1.0
    return all(event["mech"] == "gaussian" for event in inputs.get("events", []))


COVERED = [vector for vector in VECTORS if is_covered(vector)]


def vectors_of(module):
    """Yield the vectors that a module's tests are parametrized by."""
    for function in vars(module).values():
        for mark in getattr(function, "pytestmark", []):
            if mark.name == "parametrize":
                yield from (value for value in mark.args[1] if value in VECTORS)


def test_no_given_value_is_left_out(monkeypatch):
    folder = Path(__file__).parent
    paths = [path for path in folder.parent.rglob("test_*.py") if "vectors.accounting(" in path.read_text()]
    for path in paths:
        monkeypatch.syspath_prepend(path.parent)
    modules = [path.stem for path in paths]
    checked = {vector["id"] for name in modules for vector in vectors_of(importlib.import_module(name))}
    left_out = [vector["id"] for vector in VECTORS if vector["id"] not in checked]

    assert len(VECTORS) == len({vector["id"] for vector in VECTORS}) == 479
    assert left_out == []


@pytest.mark.parametrize("vector", COVERED, ids=lambda vector: vector["id"])
def test_given_values(vector):
    actual, expected = COMPUTED[vector["quantity"]](vector["inputs"]), vector["expected"]
    if isinstance(actual, dict):
        expected = expected if isinstance(expected, dict) else {"delta": expected}
        actual = {name: actual[name] for name in expected}

    assert actual == pytest.approx(expected, **{"rel": 0.0, "abs": 0.0, **vector["tolerance"]})


@vectors.each([vector for vector in VECTORS if verify_accounting.has_road(vector)])
def test_a_given_value_is_right_by_another_road(vector):
    verify_accounting.verify(vector)


def test_what_has_no_other_road_is_listed_with_its_reason():
    without = {vector["quantity"] for vector in VECTORS if not verify_accounting.has_road(vector)}
    compositions = {"delta_composition", "epsilon_composition", "epsilon_composition_prv_upper"}

    assert without - compositions == verify_accounting.ONE_ROAD.keys()
