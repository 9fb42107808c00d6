"""The given test values of one step: curves, their inverses, calibrated noise."""

import math

import pytest

from ferrodp import accounting as ac
from ferrodp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PoissonSampledEvent,
)
from support import vectors

VECTORS = vectors.accounting()
REPLACED = 2  # their sensitivity is that of one contribution, ours the distance of two


def relation_of(inputs):
    if inputs["adjacency"] == "REPLACE":
        return {"neighboring_relation": NeighboringRelation.REPLACE_ONE}
    return {"direction": inputs["adjacency"].lower()}


def event_of(inputs, noise):
    moved = REPLACED if inputs["adjacency"] == "REPLACE" else 1
    sensitivity = inputs.get("sensitivity") or inputs.get("l2_sensitivity") or inputs.get("l1_sensitivity")
    match inputs["mechanism"]:
        case "gaussian":
            event = GaussianEvent(noise_multiplier=noise / (moved * sensitivity))
        case "laplace":
            event = LaplaceEvent(noise_multiplier=noise / (moved * sensitivity))
        case "discrete_laplace":
            event = DiscreteLaplaceEvent(scale=noise, l1_sensitivity=moved * sensitivity)
        case "discrete_gaussian":
            event = DiscreteGaussianEvent(scale=noise, l2_sensitivity=moved * sensitivity)
        case "mixture_of_gaussians":
            event = MixtureOfGaussiansEvent(
                noise_multiplier=noise, shifts=inputs["sensitivities"], probabilities=inputs["probs"]
            )
    q = inputs.get("sampling_prob", 1.0)
    if q == 1.0:
        return event
    return PoissonSampledEvent(sampling_probability=q, event=event, null_distance=1 / moved if moved > 1 else math.inf)


def hockey_stick(inputs):
    if "truncation_bound" in inputs:
        return ac.curves.discrete_gaussian_delta(
            epsilon=inputs["epsilon"],
            scale=inputs["sigma"],
            l2_sensitivity=inputs["sensitivity"],
            truncation_bound=inputs["truncation_bound"],
            sampling_probability=inputs["sampling_prob"],
            direction=inputs["adjacency"].lower(),
        )
    noise = inputs.get("sigma") or inputs.get("scale") or 1 / inputs["a"]
    return ac.curves.hockey_stick_delta(event_of(inputs, noise), inputs["epsilon"], **relation_of(inputs)).upper


def calibrated(inputs):
    """Their Laplace calibrations are for pure ε whatever δ says, and for the discrete law they give 1/b.

    That of the sampled discrete Gaussian is for the worse direction, whichever is named: to add, δ(1) = 0 at q = ½.
    """
    mechanism = inputs["mechanism"]
    delta = 0.0 if mechanism in ("laplace", "discrete_laplace") else inputs["delta"]
    relation = {} if mechanism == "discrete_gaussian" else relation_of(inputs)
    noise = ac.curves.single_step_noise(
        lambda parameter: event_of(inputs, parameter), epsilon=inputs["epsilon"], delta=delta, **relation
    )
    return 1 / noise if mechanism == "discrete_laplace" else noise


COMPUTED = {
    "hockey_stick_delta_single_step": hockey_stick,
    "calibrate_noise_single_step": calibrated,
    "discrete_gaussian_delta": lambda i: ac.curves.discrete_gaussian_delta(
        epsilon=i["epsilon"], scale=i["sigma"], l2_sensitivity=i["sensitivity"]
    ),
    "discrete_gaussian_variance": lambda i: ac.curves.discrete_gaussian_variance(i["sigma"]),
    "profile_to_epsilon": lambda i: ac.curves.profile_to_epsilon(lambda epsilon: math.exp(-epsilon), i["delta"]),
}
COVERED = [vector for vector in VECTORS if vector["quantity"] in COMPUTED]


def test_the_file_still_has_the_values_that_are_covered():
    assert len(COVERED) == 101 + 17 + 4 + 3 + 1


@pytest.mark.parametrize("vector", COVERED, ids=lambda vector: vector["id"])
def test_given_values(vector):
    actual = COMPUTED[vector["quantity"]](vector["inputs"])

    assert actual == pytest.approx(vector["expected"], **{"rel": 0.0, "abs": 0.0, **vector["tolerance"]})
