"""Updates as clients send them: lists and tuples of arrays, mixed float types, integer counters."""

import numpy as np
import pytest

from ferrodp.engine import AccountingMethod, DifferentialPrivacyEngine, DPConfig, NoiseMechanism
from ferrodp.errors import FerroError, InvalidArrayType, InvalidParameter

QUIET = {"noise_multiplier": 1e-6, "sampling_rate": 1.0, "target_epsilon": 1e30, "max_grad_norm": 100.0}
MIXED = {
    "layer.weight": np.zeros((2, 3), np.float16),
    "layer.bias": np.zeros(3, np.float64),
    "norm.num_batches_tracked": np.array(7),
}


def engine(**settings):
    return DifferentialPrivacyEngine(DPConfig(**QUIET | {"accounting": "basic"} | settings))


@pytest.mark.parametrize("mechanism", list(NoiseMechanism))
@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_and_tuples_of_arrays_are_updates(mechanism, kind):
    model = kind([np.zeros((2, 3), np.float32), np.zeros(3, np.float32)])
    updates = [kind(array + 1.0 for array in model) for _ in range(4)]
    released = engine(mechanism=mechanism).round(updates, template=model, denominator=4)
    assert type(released) is kind
    assert [(each.shape, each.dtype) for each in released] == [((2, 3), np.float32), ((3,), np.float32)]
    assert all(np.abs(each - 1.0).max() < 0.01 for each in released)  # noise of 1e-4 a coordinate


@pytest.mark.parametrize("mechanism", list(NoiseMechanism))
@pytest.mark.parametrize("stacked", [False, True])
def test_mixed_types_are_cast_and_counters_left_out(mechanism, stacked):
    update = {name: array + array.dtype.type(1) for name, array in MIXED.items()}
    updates = {name: np.stack([array] * 3) for name, array in update.items()} if stacked else [update] * 3
    skip = ("num_batches_tracked",)
    released = engine(mechanism=mechanism).round(updates, template=MIXED, denominator=3, cast=np.float64, skip=skip)
    assert {name: array.dtype for name, array in released.items()} == {
        "layer.weight": np.float16,
        "layer.bias": np.float64,
    }
    assert all(np.abs(array - 1.0).max() < 0.01 for array in released.values())


def test_what_is_cast_is_clipped_together():
    model = [np.zeros(1, np.float16), np.zeros(1, np.float32)]
    update = [np.array([3000.0], np.float16), np.array([4000.0], np.float32)]
    released = engine().round([update], template=model, cast=np.float32)
    assert np.allclose(np.concatenate(released), [60.0, 80.0], atol=0.05)  # of norm 100; float16 rounds by 0.03


def test_rounds_run_with_casts_too():
    config = DPConfig(**QUIET | {"accounting": "basic"})
    runner = DifferentialPrivacyEngine(config, population_size=3)
    model = [np.zeros(2, np.float16)]
    rounds = runner.run_rounds(lambda clients: [model for _ in clients], template=model, num_rounds=2, cast="float32")
    assert [each[0].dtype for each in rounds] == [np.float16, np.float16]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"template": MIXED}, InvalidArrayType, 'cast="float32"'),
        ({"template": MIXED, "cast": np.float32}, InvalidArrayType, "skip"),
        ({"template": MIXED, "skip": ("norm.num_batches_tracked",)}, InvalidParameter, "cast must be given"),
        ({"template": MIXED, "cast": np.int8, "skip": ("num_batches_tracked",)}, InvalidParameter, "cast must be"),
        ({"template": MIXED, "cast": np.float32, "skip": "num"}, FerroError, "skip must be a collection"),
        ({"template": 3}, FerroError, "mapping, list or tuple"),
    ],
)
def test_what_would_have_to_be_guessed_is_refused_and_costs_nothing(arguments, error, message):
    fresh = engine()
    with pytest.raises(error, match=message):
        fresh.round([], **arguments)
    assert fresh.budget.rounds_consumed == 0


@pytest.mark.parametrize("stacked", [False, True])
def test_updates_of_other_types_than_the_template_are_refused_before_a_bit(stacked):
    fresh = engine()
    other = {name: array.astype(np.float64) for name, array in MIXED.items()}
    updates = {name: array[None] for name, array in other.items()} if stacked else [other]
    with pytest.raises(InvalidArrayType, match="template"):
        fresh.round(updates, template=MIXED, cast=np.float64, skip=("num_batches_tracked",))
    assert fresh.budget.rounds_consumed == 0


def test_gradients_may_be_lists_too():
    gradients = [np.array([3.0, 0.0]), np.array([4.0])]
    clipped, norm = engine().clip_gradients(gradients, 1.0)
    assert (type(clipped), norm) == (list, 5.0)
    assert [each.shape for each in engine().add_noise(gradients, DPConfig())] == [(2,), (1,)]
    rows, norms = engine().per_sample_clip([np.array([[3.0], [0.3]]), np.array([[4.0], [0.4]])], 1.0)
    assert (type(rows), norms.tolist()) == (list, [5.0, 0.5])


def test_the_report_says_what_the_six_default_orders_cost():
    config = DPConfig(sampling_rate=0.05)  # otherwise the defaults: z = 1.1, (8, 1e-5), orders 2, 5, 10, 20, 50, 100
    report = DifferentialPrivacyEngine(config).compute_privacy_spent(config, 0)
    assert (report.estimated_rounds_left, report.certified_rounds_left) == (518, 779)
    text = str(report)
    assert text == report.explain()
    assert "renyi, which allows 518 more" in text
    assert "allows 779 more: renyi forgoes 261" in text


def test_a_report_of_the_certified_method_forgoes_nothing():
    config = DPConfig(sampling_rate=0.05, accounting=AccountingMethod.PLD)
    text = DifferentialPrivacyEngine(config).compute_privacy_spent(config, 779).explain()
    assert "779 rounds cost ε = " in text
    assert "at δ = 1e-05 by the configured method, pld, which allows 0 more" in text
    assert "forgoes" not in text
