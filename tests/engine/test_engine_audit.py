"""The engine's hypothesis test of its own noise."""

import numpy as np
import pytest

from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, NoiseMechanism
from ferrodp.errors import InvalidParameter


@pytest.mark.parametrize("mechanism", list(NoiseMechanism))
def test_the_noise_of_an_engine_keeps_its_epsilon_and_uses_most_of_it(mechanism):
    """At 99.9 %: above 1.2 of the claim with probability far below 1e-9."""
    config = DPConfig(mechanism=mechanism, noise_multiplier=1.5, max_grad_norm=2.0)
    report = DifferentialPrivacyEngine(config).audit(200_000, delta=1e-3)
    assert report.epsilon_lower_bound_999 < 1.2 * report.epsilon
    assert report.epsilon_lower_bound > 0.6 * report.epsilon
    assert report.neighbors == ("0.0", "2.0")


def test_an_engine_with_too_little_noise_is_caught():
    class Broken(DifferentialPrivacyEngine):
        """Adds half of its noise."""

        def add_noise(self, gradients, config, *, ticket=None):
            zeros = super().add_noise({name: np.zeros_like(value) for name, value in gradients.items()}, config)
            return {name: gradients[name] + 0.5 * zeros[name] for name in gradients}

    assert Broken(DPConfig(noise_multiplier=2.0)).audit(200_000, delta=1e-3).violation
    with pytest.raises(InvalidParameter):
        Broken().audit(10)
