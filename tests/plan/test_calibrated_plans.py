"""Every plan can be calibrated: the search for noise tries no plan that would be refused."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ferrodp.errors import CalibrationError, InvalidParameter
from ferrodp.plan import (
    AdaptiveClipping,
    ConstantNoise,
    FlatClipping,
    FullBatch,
    PerGroupClipping,
    PiecewiseNoise,
    PoissonSampling,
    PrivacyPlan,
)

DELTA = 1e-5
LOW, HIGH = 2.0**-30, 2.0**13


def plan_of(clipping, *, noise=1.0, sampling=None, steps=1):
    return PrivacyPlan(
        population_size=1000,
        sampling=sampling or FullBatch(),
        num_steps=steps,
        clipping=clipping,
        noise=noise if isinstance(noise, PiecewiseNoise) else ConstantNoise(noise),
    )


def assert_calibrates(plan):
    """A plan keeps its own ε with the noise that it has, so a calibration for that ε has to find as little."""
    target = 1.001 * plan.epsilon(DELTA)  # a search that scales the noise by 1 − 2⁻¹⁰ at the ends may stop there
    calibrated = plan.calibrated(epsilon=target, delta=DELTA)
    assert calibrated.epsilon(DELTA) <= target
    assert calibrated.noise_multipliers[0] <= plan.noise_multipliers[0] * (1.0 + 2.0**-30)


@pytest.mark.parametrize(
    ("norms", "sampling"),
    [
        ([0.9, 0.3], PoissonSampling(0.3)),
        ([0.9, 0.3], FullBatch()),
        ([1.0] * 5, FullBatch()),
        ([1.0] * 64, PoissonSampling(0.3)),
        ([1.0, 0.01], FullBatch()),
        ([2.0**-i for i in range(9)], FullBatch()),
    ],
)
def test_groups_of_any_number_are_calibrated_for_a_target(norms, sampling):
    """No plan has more noise than it needs for any of its groups: the same multiplier as with one clip norm for all."""
    clipping = PerGroupClipping({f"layer {i:02d}": norm for i, norm in enumerate(norms)})
    found = plan_of(clipping, sampling=sampling, steps=60).calibrated(epsilon=4.0, delta=DELTA)
    flat = plan_of(FlatClipping(1.0), sampling=sampling, steps=60).calibrated(epsilon=4.0, delta=DELTA)

    ratio = found.noise.noise_multiplier / flat.noise.noise_multiplier
    assert abs(ratio - 1.0) < 1e-6  # the search ends within 1e-6 of the edge
    step = next(found.start(dict.fromkeys(clipping.clip_norms, (2,))))
    step.add({name: np.ones((len(step.indices), 2)) for name in clipping.clip_norms})
    assert set(step.release()) == set(clipping.clip_norms)


@given(
    count=st.integers(1, 64),
    ratio=st.floats(1.0, 8192.0),
    noise=st.floats(-29.0, 12.9).map(lambda power: 2.0**power),
)
@example(count=64, ratio=1.0, noise=1000.0)
@example(count=2, ratio=8000.0, noise=1.0)
@example(count=1, ratio=1.0, noise=2.0**-29)
@settings(max_examples=30, deadline=None)
def test_every_plan_of_groups_that_is_accepted_is_calibrated(count, ratio, noise):
    norms = {str(i): ratio if i else 1.0 for i in range(count)}
    try:
        plan = plan_of(PerGroupClipping(norms), noise=noise)
    except InvalidParameter:
        assume(False)
    assert_calibrates(plan)


@given(
    excess=st.floats(-40.0, 40.0).map(lambda power: 1.0 + 2.0**power),
    noise=st.floats(-7.0, 12.9).map(lambda power: 2.0**power),
)
@example(excess=1.0 + 2.0**-20, noise=1.0)
@example(excess=1e150, noise=1.0)
@settings(max_examples=30, deadline=None)
def test_every_plan_of_an_adaptive_norm_that_is_accepted_is_calibrated(excess, noise):
    try:
        plan = plan_of(AdaptiveClipping(1.0, count_noise_multiplier=excess * noise), noise=noise)
    except InvalidParameter:
        assume(False)
    assert_calibrates(plan)


@given(least=st.floats(-30.0, 13.0), most=st.floats(-30.0, 13.0))
@example(least=-30.0, most=12.0)
@example(least=12.5, most=13.0)
@settings(max_examples=30, deadline=None)
def test_every_plan_of_a_schedule_that_is_accepted_is_calibrated(least, most):
    assume(abs(most - least) < 42.9)
    plan = plan_of(FlatClipping(1.0), noise=PiecewiseNoise((2.0**least, 2.0**most), boundaries=(1,)), steps=2)
    assert_calibrates(plan)


def test_a_schedule_from_end_to_end_cannot_be_scaled():
    plan = plan_of(FlatClipping(1.0), noise=PiecewiseNoise((LOW, HIGH), boundaries=(1,)), steps=2)
    with pytest.raises(CalibrationError, match="no factor but 1 is possible"):
        plan.calibrated(epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize(
    ("count", "match"),
    [(1.0 + 4e-16, "too close to the noise multipliers"), (1e300, "count_noise_multiplier must be at most")],
)
def test_noise_of_a_count_that_no_step_could_be_released_with_is_refused(count, match):
    """Accepted, it would fail when the first step is released, after that was paid for."""
    with pytest.raises(InvalidParameter, match=match):
        plan_of(AdaptiveClipping(1.0, count_noise_multiplier=count))


@pytest.mark.parametrize("count", [1.0 + 2.0**-26, 2.0**500])
def test_noise_of_a_count_at_the_ends_is_drawn(count):
    step = next(plan_of(AdaptiveClipping(1.0, count_noise_multiplier=count)).start((2,)))
    step.add(np.ones((1000, 2)))
    assert np.isfinite(step.release()).all()
