"""The noise that an engine asks for: enough by its own accounting, and never below the certified truth."""

import dataclasses
import math

import pytest

from ferrodp.accounting import calibrate_noise_multiplier
from ferrodp.engine import AccountingMethod, DifferentialPrivacyEngine, DPConfig, NoiseMechanism, Sampling
from ferrodp.errors import CalibrationError, InvalidParameter

METHODS = list(AccountingMethod)
UNSAMPLED = [(a, b) for a in NoiseMechanism for b in METHODS if (a, b) != ("discrete_gaussian", "pld")]


def test_the_noise_multiplier_is_never_below_the_certified_truth():
    truth = calibrate_noise_multiplier(target_epsilon=8, target_delta=1e-5, sampling_probability=0.01, count=1000)
    tightest = DifferentialPrivacyEngine(DPConfig(accounting="pld")).get_noise_multiplier(8, 1e-5, 0.01, 1000)

    assert truth.limit <= tightest <= truth * (1 + 1e-8)  # both within 2e-9 of the edge
    for method in METHODS:
        if method is not AccountingMethod.ZCDP:
            engine = DifferentialPrivacyEngine(DPConfig(accounting=method, target_epsilon=100.0))
            assert engine.get_noise_multiplier(8, 1e-5, 0.01, 1000) >= truth.limit


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize(("mechanism", "method"), UNSAMPLED)
def test_an_engine_with_the_calibrated_noise_runs_as_many_rounds(mechanism, method, sampling):
    config = DPConfig(mechanism, method, noise_multiplier=20.0, target_epsilon=2.0, sampling_rate=1.0)
    engine = DifferentialPrivacyEngine(
        dataclasses.replace(config, target_epsilon=100.0), sampling=sampling, population_size=200
    )

    multiplier = engine.get_noise_multiplier(2.0, 1e-5, 1.0, 5)

    enough = dataclasses.replace(config, noise_multiplier=multiplier)
    less = dataclasses.replace(
        config, noise_multiplier=multiplier * (1 - 1e-5)
    )  # ten times what a search is accurate to
    assert engine.compute_privacy_spent(enough, 5).estimated_rounds_left >= 0
    assert engine.compute_privacy_spent(enough, 5).epsilon_spent <= 2.0
    assert engine.compute_privacy_spent(less, 5).epsilon_spent > 2.0


def test_what_cannot_be_reached_says_so():
    """At α ≤ 2 the conversion alone costs ln(1/4δ) = 10.1, whatever the noise."""
    engine = DifferentialPrivacyEngine(DPConfig(renyi_orders=(2,), target_epsilon=50))

    with pytest.raises(CalibrationError, match="noise_multiplier"):
        engine.get_noise_multiplier(1.0, 1e-5, 0.01, 10)


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 1e-5, 0.1, 1),
        (1, 0, 0.1, 1),
        (1, 1e-5, 0, 1),
        (1, 1e-5, 1.1, 1),
        (1, 1e-5, 0.1, 0),
        (math.inf, 1e-5, 0.1, 1),
    ],
)
def test_calibration_refuses_bad_targets(arguments):
    with pytest.raises(InvalidParameter):
        DifferentialPrivacyEngine().get_noise_multiplier(*arguments)
