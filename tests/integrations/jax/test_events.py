"""Events of the real dp_accounting and jax_privacy go to ours and back, and cost what their accountants say."""

import dp_accounting as dp
import jax_privacy
import numpy as np
import pytest
from jax_privacy.experimental import accounting as theirs
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig
from small_runs import plan

from ferrodp.accounting import PldAccountant, RdpAccountant, from_dp_accounting, to_dp_accounting
from ferrodp.accounting.reports import from_jax_privacy
from ferrodp.events import FixedSizeSampledEvent, GaussianEvent, NeighboringRelation, PoissonSampledEvent
from ferrodp.plan import ConstantNoise, FixedSizeSampling, PiecewiseNoise, PoissonSampling

DELTA = 1e-5


INTERVAL = 1e-3
"""Of their grid of privacy losses, to which they round up the loss of each step."""


def costing(accountant, event):
    accountant.compose(event)
    return accountant


def bounds_of(event, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    return costing(PldAccountant(neighboring_relation=relation), event).epsilon_bounds(DELTA)


def is_cost(theirs, ours, steps):
    """Whether their ε is at least the exact one, and above our bound by no more than what their grid explains."""
    return ours.lower - 1e-9 <= theirs <= ours.upper + steps * INTERVAL


@pytest.mark.parametrize(
    "event",
    [
        theirs.dpsgd_event(1.1, 100, sampling_prob=0.01),
        theirs.fixed_dpsgd_event(1.1, 100, dataset_size=1000, batch_size=10),
        theirs.truncated_dpsgd_event(1.1, 100, sampling_prob=0.01, num_examples=1000, truncated_batch_size=20),
        theirs.amplified_bandmf_event(1.1, 100, num_bands=4, sampling_prob=0.04),
        theirs.truncated_amplified_bandmf_event(
            1.1, 100, num_bands=4, sampling_prob=0.04, largest_group_size=250, truncated_batch_size=20
        ),
        dp.ComposedDpEvent([dp.GaussianDpEvent(2.0), dp.LaplaceDpEvent(3.0)]),
        dp.dp_event.RepeatAndSelectDpEvent(dp.GaussianDpEvent(3.0), mean=10.0, shape=1.0),
        dp.dp_event.SingleEpochTreeAggregationDpEvent(2.0, 16),
        dp.NonPrivateDpEvent(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_their_events_come_back_as_they_were(event):
    assert to_dp_accounting(from_dp_accounting(event)) == event


def test_what_has_no_counterpart_is_refused():
    with pytest.raises(ValueError, match="'SampledWithReplacementDpEvent' has no counterpart"):
        from_dp_accounting(theirs.fixed_dpsgd_event(1.1, 10, dataset_size=100, batch_size=10, replace=True))


def test_the_event_of_a_plan_costs_the_same_in_their_accountant():
    run = plan(12, 1000, sampling=PoissonSampling(0.05), noise=ConstantNoise(2.0))
    accountant = dp.pld.PLDAccountant(value_discretization_interval=INTERVAL)
    accountant.compose(to_dp_accounting(run.event))

    assert is_cost(accountant.get_epsilon(DELTA), run.epsilon_bounds(DELTA), 12)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"noise": PiecewiseNoise((2.0, 1.0), boundaries=(20,))},
        {"sampling": FixedSizeSampling(50), "neighboring_relation": NeighboringRelation.REPLACE_ONE},
    ],
)
def test_the_event_of_a_plan_goes_there_and_back(changes):
    run = plan(50, 1000, **changes)
    back = from_dp_accounting(to_dp_accounting(run.event))
    relation = run.neighboring_relation

    ours, again = (costing(RdpAccountant(neighboring_relation=relation), event) for event in (run.event, back))
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        assert again.epsilon(DELTA) == ours.epsilon(DELTA)
    assert again.events == ours.events or back == run.event or type(back) is type(run.event)


def test_an_execution_plan_of_jax_privacy_has_the_event_that_we_read():
    config = BandMFExecutionPlanConfig(
        iterations=100, strategy=np.ones(1), epsilon=None, delta=None, noise_multiplier=1.5, sampling_prob=0.02
    )

    event = from_dp_accounting(config.plan.dp_event)

    assert event.count == 100
    assert event.event == PoissonSampledEvent(sampling_probability=0.02, event=GaussianEvent(noise_multiplier=1.5))


def dp_params(**changes):
    fields = {"noise_multipliers": 2.0, "num_samples": 1000, "delta": DELTA, "batch_size": 50}
    return jax_privacy.accounting.DpParams(**fields | changes)


def their_epsilon(params, num_updates, accountant=jax_privacy.accounting.DpsgdTrainingAccountant):
    config = jax_privacy.accounting.PldAccountantConfig(value_discretization_interval=INTERVAL)
    return accountant(config).compute_epsilon(num_updates, params)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"noise_multipliers": [(0, 3.0), (5, 2.0), (70, 9.0)]},
        {"batch_size_scale_schedule": {4: 2, 8: 2}},
        {"noise_multipliers": [(0, 3.0), (7, 2.0)], "batch_size_scale_schedule": {4: 2}},
        {"cycle_length": 5},
    ],
    ids=str,
)
def test_the_parameters_of_a_training_cost_what_their_accountant_says(changes):
    params = dp_params(**changes)

    assert is_cost(their_epsilon(params, 12), bounds_of(from_jax_privacy(params, 12)), 12)


def test_a_training_without_steps_or_without_clipping_costs_what_their_accountant_says():
    unclipped = dp_params(is_finite_guarantee=False)

    assert their_epsilon(dp_params(), 0) == bounds_of(from_jax_privacy(dp_params(), 0)).upper == 0.0
    assert their_epsilon(unclipped, 1) == bounds_of(from_jax_privacy(unclipped, 1)).upper == np.inf


def test_truncated_batches_cost_at_most_what_their_accountant_says():
    """Theirs is for examples that are zeroed; for added and removed ones a tighter bound is known."""
    params = dp_params(truncated_batch_size=80)

    assert bounds_of(from_jax_privacy(params, 4)).upper <= their_epsilon(params, 4) + 1e-9


def test_batches_of_fixed_size_are_samples_of_noise_halved():
    params = dp_params(sampling_method=jax_privacy.accounting.SamplingMethod.FIXED_BATCH_SIZE, noise_multipliers=3.0)

    [part] = from_jax_privacy(params, 60).events

    assert part.count == 60
    assert part.event == FixedSizeSampledEvent(
        population_size=1000, sample_size=50, event=GaussianEvent(noise_multiplier=1.5)
    )


def test_users_with_several_examples_cost_what_their_accountant_says():
    params = dp_params(examples_per_user=3)
    expected = their_epsilon(params, 4, jax_privacy.accounting.DpsgdTrainingUserLevelAccountant)

    assert is_cost(expected, bounds_of(from_jax_privacy(params, 4)), 4)


def test_a_plan_and_their_parameters_of_the_same_training_cost_the_same():
    run = plan(60, 1000, sampling=PoissonSampling(0.05), noise=ConstantNoise(2.0))

    assert run.epsilon(DELTA) == bounds_of(from_jax_privacy(dp_params(), 60)).upper
