"""Clipping and noise by the call."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ferrodp import clip_by_global_norm, clip_rows
from ferrodp.accounting import DiscreteGaussianEvent, GaussianEvent, LaplaceEvent, NeighboringRelation
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, _sums
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
from ferrodp.tickets import Ticket, TicketState

ENGINE = DifferentialPrivacyEngine()
MECHANISMS = ["gaussian", "laplace", "discrete_gaussian"]


def model(dtype=np.float64, value=0.0, count=3):
    return {"w": np.full((2, count), value, dtype), "b": np.full(count, value, dtype)}


def flat(tree):
    return np.concatenate([leaf.reshape(-1) for leaf in tree.values()])


def test_gradients_are_clipped_as_one_vector():
    gradients = {"w": np.array([[3.0]]), "b": np.array([4.0])}

    clipped, norm = ENGINE.clip_gradients(gradients, 1.0)

    expected, _ = clip_by_global_norm(gradients, clip_norm=1.0)
    assert norm == 5.0
    assert {name: leaf.tolist() for name, leaf in clipped.items()} == {k: v.tolist() for k, v in expected.items()}
    assert sum(Fraction(x) ** 2 for x in flat(clipped).tolist()) <= 1
    assert gradients["w"][0, 0] == 3.0


@pytest.mark.parametrize("ord", [1, 2, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_sample_is_clipped_by_itself(ord, dtype):
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(5, 9)).astype(dtype)
    matrix[3] = np.nan
    gradients = {"w": matrix[:, :6].reshape(5, 2, 3).copy(), "b": matrix[:, 6:].copy()}

    clipped, norms = ENGINE.per_sample_clip(gradients, 1.5, ord=ord)

    rows, expected = clip_rows(matrix, clip_norm=1.5, ord=ord)
    assert clipped["w"].shape == (5, 2, 3)
    assert clipped["w"].dtype == dtype
    np.testing.assert_array_equal(rows, np.concatenate([clipped["w"].reshape(5, 6), clipped["b"]], axis=1))
    np.testing.assert_array_equal(expected, norms)


def test_no_samples_and_scalars_and_empty_arrays():
    clipped, norms = ENGINE.per_sample_clip({"w": np.zeros((0, 2)), "b": np.zeros(0)}, 1.0)
    assert (clipped["w"].shape, norms.shape) == ((0, 2), (0,))

    clipped, norms = ENGINE.per_sample_clip({"s": np.array([3.0, 0.5]), "e": np.zeros((2, 0))}, 1.0)
    assert clipped["s"].tolist() == [pytest.approx(1.0), 0.5]
    assert clipped["s"][0] <= 1.0
    assert clipped["e"].shape == (2, 0)


@pytest.mark.parametrize("gradients", [{"a": np.zeros((2, 1)), "b": np.zeros((3, 1))}, {"a": np.array(1.0)}])
def test_samples_need_one_leading_axis(gradients):
    with pytest.raises(InvalidArray, match="one more axis"):
        ENGINE.per_sample_clip(gradients, 1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_keeps_shapes_and_dtype_and_leaves_the_input_alone(mechanism, dtype):
    gradients = model(dtype, 0.5)
    config = DPConfig(mechanism, noise_multiplier=1e-6)

    noised = ENGINE.add_noise(gradients, config)

    assert {name: (leaf.shape, leaf.dtype) for name, leaf in noised.items()} == {
        name: (leaf.shape, leaf.dtype) for name, leaf in gradients.items()
    }
    assert (flat(gradients) == 0.5).all()
    # 40 scales of noise, beyond which a Laplace variable is with probability e⁻⁴⁰
    assert np.abs(flat(noised).astype(float) - 0.5).max() < 1e-6 * 40 + 2e-8
    assert (flat(noised) != 0.5).any()


@pytest.mark.parametrize(("mechanism", "variance"), [("gaussian", 1), ("laplace", 2), ("discrete_gaussian", 1)])
def test_noise_has_the_stated_scale(mechanism, variance):
    """10⁶ draws of scale 1.5·4: mean squares within 6 standard deviations, at most √5·10⁻³: 2e-9 false alarms.

    The kurtosis of a Laplace variable is 6, so its square has a standard deviation of √5 variances.
    """
    config = DPConfig(mechanism, noise_multiplier=1.5, max_grad_norm=4.0)

    noise = ENGINE.add_noise({"w": np.zeros(10**6)}, config)["w"]

    assert np.mean(noise**2) == pytest.approx(variance * 36.0, rel=6 * math.sqrt(5) * 1e-3)


def test_discrete_noise_lies_on_the_grid_and_is_scaled_to_what_cutting_costs():
    """C = 3 lies between 2 and 4, so g = 2⁻²⁸; twelve coordinates that are cut move at most ⌈√12⌉ units apart."""
    config = DPConfig("discrete_gaussian", noise_multiplier=2.0, max_grad_norm=3.0)
    seen = {}

    class Spy(_sums.DiscreteGaussianMechanism):
        def release(self, value, **options):
            seen["event"], seen["value"] = self.event, value.copy()
            return super().release(value, **options)

    values = np.linspace(-2.0, 2.0, 12)
    original = _sums.DiscreteGaussianMechanism
    _sums.DiscreteGaussianMechanism = Spy
    try:
        noised = ENGINE.add_noise({"w": values}, config)["w"]
    finally:
        _sums.DiscreteGaussianMechanism = original

    units = 3 * 2**28 + 4
    assert seen["event"] == DiscreteGaussianEvent(scale=2.0 * units, l2_sensitivity=units, dimension=12)
    assert seen["value"].tolist() == [math.trunc(Fraction(value) * 2**28) for value in values.tolist()]
    assert all(Fraction(value) * 2**28 % 1 == 0 for value in noised.tolist())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_values_that_are_not_finite_count_as_zero(mechanism):
    gradients = {"w": np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324])}
    noised = ENGINE.add_noise(gradients, DPConfig(mechanism, noise_multiplier=1.0))["w"]

    assert np.isfinite(noised).all()
    assert np.abs(noised[:3]).max() < 50.0
    assert np.abs(noised[5]) < 50.0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("gradients", "error"),
    [
        (iter([np.zeros(2)]), InvalidType),
        (np.zeros(2), InvalidType),
        (None, InvalidType),
        ({}, InvalidArray),
        ({"w": np.zeros(2, np.int64)}, InvalidArrayType),
        ({"w": np.zeros(2), "b": np.zeros(2, np.float32)}, InvalidArrayType),
        ({"w": np.zeros(2, complex)}, InvalidArrayType),
        ({"w": "text"}, InvalidArrayType),
    ],
)
def test_other_gradients_are_refused(mechanism, gradients, error):
    with pytest.raises(error):
        ENGINE.add_noise(gradients, DPConfig(mechanism))
    with pytest.raises(error):
        ENGINE.clip_gradients(gradients, 1.0)
    with pytest.raises(error):
        ENGINE.per_sample_clip(gradients, 1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_beyond_the_samplers_is_refused(mechanism):
    with pytest.raises(InvalidParameter):
        ENGINE.add_noise(model(), DPConfig(mechanism, noise_multiplier=1e300, max_grad_norm=1e300))


@pytest.mark.parametrize(
    ("mechanism", "event"),
    [("gaussian", GaussianEvent(noise_multiplier=1.1)), ("laplace", LaplaceEvent(noise_multiplier=1.1))],
)
def test_a_ticket_pays_once(mechanism, event):
    def ticket_for(what):
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        return Ticket(what, id="t", key=None, scopes=("s",), neighboring_relation=relation)

    ticket = ticket_for(event)
    ENGINE.add_noise(model(), DPConfig(mechanism), ticket=ticket)
    assert ticket.state is TicketState.ARMED
    with pytest.raises(TicketError):
        ENGINE.add_noise(model(), DPConfig(mechanism), ticket=ticket)

    less = ticket_for(type(event)(noise_multiplier=1.2))
    with pytest.raises(InvalidParameter):
        ENGINE.add_noise(model(), DPConfig(mechanism), ticket=less)
    assert less.state is TicketState.HELD
