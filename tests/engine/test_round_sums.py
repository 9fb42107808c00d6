"""What a round computes: a sum of clipped updates, exact until its noise, and noise of the stated law and price."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, _counter, _sums
from ferrodp.engine._step import Step
from ferrodp.errors import InvalidArray, InvalidParameter
from ferrodp.sums import absolute
from ferrodp.tickets import TicketState

MECHANISMS = ["gaussian", "laplace", "discrete_gaussian"]
TEMPLATE = {"w": np.zeros((2, 2)), "b": np.zeros(2)}


def update(value, dtype=np.float64):
    return {"w": np.full((2, 2), value, dtype), "b": np.full(2, value, dtype)}


def flat(tree):
    return np.concatenate([leaf.reshape(-1) for leaf in tree.values()])


def quiet(mechanism="gaussian", **changes):
    """An engine whose noise is small, and whose budget is no matter."""
    settings = {
        "noise_multiplier": 1e-4,
        "target_epsilon": 1e12,
        "sampling_rate": 1.0,
        "accounting": "basic",
        **changes,
    }
    return DifferentialPrivacyEngine(DPConfig(mechanism, **settings))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_round_is_the_noised_sum_of_clipped_updates(mechanism, dtype):
    """Six equal coordinates: clipped to C = 1 they are 1/√6 in L2 and 1/6 in L1. 40 scales of noise: see e⁻⁴⁰."""
    template = update(0.0, dtype)
    updates = [update(value, dtype) for value in (10.0, -3.0, 0.01, math.nan, 5.0)]
    full = 1 / 6 if mechanism == "laplace" else 1 / math.sqrt(6)

    noised = quiet(mechanism).round(iter(updates), template=template)

    assert noised["w"].dtype == dtype
    assert np.abs(flat(noised).astype(float) - (full + 0.01)).max() < 40e-4
    assert len(set(flat(noised).tolist())) > 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_stacked_updates_count_like_single_ones(mechanism):
    rng = np.random.default_rng(2)
    stacked = {"w": rng.normal(size=(7, 2, 2)), "b": rng.normal(size=(7, 2))}
    single = [{name: leaf[i] for name, leaf in stacked.items()} for i in range(7)]
    step = Step(DPConfig(mechanism))

    one, many = _sums.sum_for(step, TEMPLATE), _sums.sum_for(step, TEMPLATE)
    for each in single:
        one.add(each)
    many.add_many(stacked)

    np.testing.assert_array_equal(integers(one), integers(many))
    assert np.abs(integers(one)).max() > 0
    assert quiet(mechanism).round(stacked, template=TEMPLATE)["w"].shape == (2, 2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_update_moves_the_sum_by_more_than_the_norm(mechanism, dtype):
    """In integers, so without a tolerance: Σk² ≤ (C/g)², or Σ|k| ≤ C/g for Laplace noise."""
    rng = np.random.default_rng(3)
    bound = 0.7
    for scale in (1e-3, 1.0, 1e30):
        total = _sums.sum_for(Step(DPConfig(mechanism, max_grad_norm=bound)), {"w": np.zeros(50, dtype)})
        total.add({"w": (rng.normal(size=50) * scale).astype(dtype)})

        k = [int(x) for x in integers(total)]

        units = Fraction(bound) / Fraction(summed(total).granularity)
        if mechanism == "laplace":
            assert sum(map(abs, k)) <= units
        else:
            assert sum(x * x for x in k) <= units**2
        assert any(k)


def summed(total):
    return total._total


def integers(total):
    return total._sum._integers if isinstance(total, _sums._LaplaceSum) else flat(total._total.integers)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("value", [6.7e300, 1.7e308, 1e277, -1e285, 1e-30, 5e-324])
def test_no_update_is_refused_for_its_size(mechanism, value):
    """Whether a round fails depends on shapes and settings, not on how far an update is beyond the bound."""
    total = _sums.sum_for(Step(DPConfig(mechanism, max_grad_norm=2e-23)), {"w": np.zeros(1)})
    total.add({"w": np.array([value])})
    total.add_many({"w": np.array([[value], [0.0]])})

    assert (integers(total)[0] != 0) == (value != 5e-324)  # which is less than a step of the grid


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_batches_around_the_block_size_add_up(monkeypatch, mechanism):
    monkeypatch.setattr(absolute, "_ROWS", 12)  # two rows of six
    rng = np.random.default_rng(4)
    for count in (0, 1, 2, 3, 5):
        stacked = {"w": rng.normal(size=(count, 2, 2)), "b": rng.normal(size=(count, 2))}
        total, again = (_sums.sum_for(Step(DPConfig(mechanism)), TEMPLATE) for _ in range(2))
        total.add_many(stacked)
        for i in range(count):
            again.add({name: leaf[i] for name, leaf in stacked.items()})
        np.testing.assert_array_equal(integers(total), integers(again))


def test_more_updates_than_floats_can_add_are_refused_for_laplace_noise(monkeypatch):
    monkeypatch.setattr(absolute, "_FLOATS", 3 * 2**30)
    total = _sums.sum_for(Step(DPConfig("laplace")), TEMPLATE)
    most = total._sum._most

    with pytest.raises(InvalidParameter, match="at most"):
        total.add_many({"w": np.zeros((most + 1, 2, 2)), "b": np.zeros((most + 1, 2))})
    total.add_many({"w": np.zeros((most, 2, 2)), "b": np.zeros((most, 2))})


def test_an_update_that_changed_while_it_was_clipped_is_refused(monkeypatch):
    """Another thread's doing: stood for by a clipper that returns what it was given."""
    monkeypatch.setattr(absolute, "clip_rows", lambda rows, **how: (rows, None))
    engine = quiet("laplace")

    for value in (1.0, math.nan, 1e200):
        with pytest.raises(InvalidArray, match="changed"):
            engine.round([update(value)], template=TEMPLATE)
    engine.round([update(1 / 6)], template=TEMPLATE)

    assert engine.budget.rounds_consumed == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_empty_model_is_released_and_counts(mechanism):
    engine = quiet(mechanism)

    assert engine.round([{"e": np.zeros((0, 2))}], template={"e": np.zeros((0, 2))})["e"].shape == (0, 2)

    assert engine.budget.rounds_consumed == 1
    assert engine.add_noise({"e": np.zeros(0)}, DPConfig(mechanism))["e"].shape == (0,)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_round_without_clients_is_noise(mechanism):
    noised = quiet(mechanism, noise_multiplier=1.0).round([], template=TEMPLATE)

    assert (flat(noised) != 0.0).all()  # each is 0 with probability 2⁻²⁹ at most


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_noise_of_a_round_has_the_stated_scale(mechanism):
    """10⁶ coordinates, z·C/denominator = 3: mean squares within 6 standard deviations, see the gradients' test."""
    engine = quiet(mechanism, noise_multiplier=2.0, max_grad_norm=6.0)

    noise = engine.round([], template={"w": np.zeros(10**6, np.float32)}, denominator=4)["w"].astype(float)

    variance = 18.0 if mechanism == "laplace" else 9.0
    assert np.mean(noise**2) == pytest.approx(variance, rel=6 * math.sqrt(5) * 1e-3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("sampling", ["poisson", "uniform"])
def test_what_is_released_is_what_is_paid_for(monkeypatch, mechanism, sampling):
    """The ticket of a round covers its release, and would not cover one with less noise."""
    tickets = []
    reserve = _counter.RoundCounter.reserve

    def spy(counter, event, relation):
        tickets.append(reserve(counter, event, relation))
        return tickets[-1]

    monkeypatch.setattr(_counter.RoundCounter, "reserve", spy)
    config = DPConfig(mechanism, "basic", noise_multiplier=3.0, sampling_rate=0.5, target_epsilon=1e6)
    engine = DifferentialPrivacyEngine(config, sampling=sampling, population_size=10)

    engine.round([update(1.0)], template=TEMPLATE)

    (ticket,) = tickets
    assert ticket.state is TicketState.SPENT
    noise = ticket.event.event
    if mechanism == "discrete_gaussian":
        assert noise.scale * (2 if sampling == "uniform" else 1) == pytest.approx(3.0 * noise.l2_sensitivity)
    else:
        assert noise.noise_multiplier == (1.5 if sampling == "uniform" else 3.0)
