"""The engine as a face of plans: the same samples, noise and cost under the specification's names."""

import pytest

from ferrodp.engine import DifferentialPrivacyEngine, DPConfig
from ferrodp.errors import InvalidParameter
from ferrodp.plan import ConstantNoise, FlatClipping


@pytest.mark.parametrize("sampling", ["poisson", "uniform"])
@pytest.mark.parametrize("rate", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("noise_multiplier", [0.8, 3.0])
def test_a_plan_of_rounds_costs_what_the_engine_says(sampling, rate, noise_multiplier):
    config = DPConfig(noise_multiplier=noise_multiplier, sampling_rate=rate, accounting="pld", max_grad_norm=0.5)
    engine = DifferentialPrivacyEngine(config, sampling=sampling, population_size=1000)
    plan = engine.plan(20)

    assert plan.charges()[0].event == engine.event
    assert plan.neighboring_relation is engine.neighboring_relation
    for rounds in (1, 20):
        assert plan.epsilon_after(rounds, 1e-5) == engine.compute_privacy_spent(config, rounds).epsilon_spent
    assert plan.max_steps(epsilon=8.0, delta=1e-5) == engine.remaining_rounds
    assert (plan.unit, plan.clipping, plan.noise) == ("client", FlatClipping(0.5), ConstantNoise(noise_multiplier))
    assert plan.expected_batch_size == 1000 * rate


def test_noise_that_plans_do_not_have_is_refused():
    engine = DifferentialPrivacyEngine(DPConfig(mechanism="laplace"), population_size=1000)

    with pytest.raises(InvalidParameter, match="mechanism must be gaussian for a plan, got laplace"):
        engine.plan(3)
