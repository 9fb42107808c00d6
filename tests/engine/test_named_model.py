"""The Gaussian mechanism for a whole model."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ferrodp import GaussianMechanism, PrivacyLedger
from ferrodp.accounting import GdpAccountant, NeighboringRelation
from ferrodp.engine import GaussianDifferentialPrivacy, model
from ferrodp.errors import BudgetExceeded, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType


def update(dtype=np.float32, value=1.0):
    return {"layer": {"w": np.full((2, 3), value, dtype)}, "b": np.full(3, value, dtype)}


class Recorded:
    """Keeps what the mechanism was asked to release, in place of noise."""

    def __init__(self, monkeypatch):
        self.mechanisms, self.values = [], []

        def release(mechanism, value, **options):
            self.mechanisms.append(mechanism)
            self.values.append(value.copy())
            return value

        monkeypatch.setattr(GaussianMechanism, "release", release)


def test_the_model_is_clipped_jointly_before_noise(monkeypatch):
    recorded = Recorded(monkeypatch)

    noised = GaussianDifferentialPrivacy(0.5).apply_privacy(update(), 1.0, 1e-6)

    (values,) = recorded.values
    squares = sum(Fraction(float(x)) ** 2 for x in values)
    assert Fraction(1, 4) * Fraction(999, 1000) < squares <= Fraction(1, 4)
    np.testing.assert_array_equal(np.concatenate([noised["layer"]["w"].reshape(-1), noised["b"]]), values)


@pytest.mark.parametrize(
    ("relation", "distance"), [("REPLACE_SPECIAL", 1), ("ADD_OR_REMOVE_ONE", 1), ("REPLACE_ONE", 2)]
)
def test_noise_is_calibrated_to_the_distance_of_the_neighbors(monkeypatch, relation, distance):
    recorded = Recorded(monkeypatch)
    privacy = GaussianDifferentialPrivacy(0.5, neighboring_relation=NeighboringRelation[relation])

    privacy.apply_privacy(update(), 2.0, 1e-5)

    expected = GaussianMechanism.calibrated(epsilon=2.0, delta=1e-5, l2_sensitivity=0.5 * distance)
    assert recorded.mechanisms == [expected]
    assert expected.epsilon(1e-5) <= 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_result_is_like_the_model(dtype):
    given = update(dtype)
    noised = GaussianDifferentialPrivacy().apply_privacy(given, 5.0, 1e-5)

    assert noised["layer"]["w"].shape == (2, 3)
    assert noised["b"].dtype == dtype
    assert (given["b"] == 1.0).all()
    assert not (noised["b"] == 1.0).all()


def test_what_is_consumed_is_the_exact_composition():
    privacy = GaussianDifferentialPrivacy()
    assert privacy.privacy_budget_consumed == (0.0, 0.0)

    accountant, deltas = GdpAccountant(), Fraction(0)
    for epsilon, delta in [(1.0, 1e-6), (0.5, 1e-5), (2.0, 1e-6)]:
        privacy.apply_privacy(update(), epsilon, delta)
        accountant.compose(GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, l2_sensitivity=1.0).event)
        deltas += Fraction(delta)

    consumed = privacy.privacy_budget_consumed
    assert Fraction(consumed.delta) >= deltas
    assert consumed.delta == pytest.approx(1.2e-5, rel=1e-15)
    assert consumed.epsilon == accountant.epsilon(consumed.delta) < 3.5


def test_a_single_release_consumes_what_it_was_calibrated_to():
    privacy = GaussianDifferentialPrivacy()
    privacy.apply_privacy(update(), 1.0, 1e-6)

    epsilon, delta = privacy.privacy_budget_consumed
    assert delta == 1e-6
    assert 1.0 - 1e-9 < epsilon <= 1.0


def test_failures_that_add_up_to_one_leave_nothing_to_promise():
    privacy = GaussianDifferentialPrivacy()
    for _ in range(2):
        privacy.apply_privacy(update(), 1.0, 0.6)

    assert privacy.privacy_budget_consumed == (0.0, 1.0)


def test_a_reset_begins_a_new_count():
    privacy = GaussianDifferentialPrivacy()
    privacy.apply_privacy(update(), 1.0, 1e-6)
    before = privacy.privacy_budget_consumed

    privacy.reset()

    assert privacy.privacy_budget_consumed == (0.0, 0.0)
    assert before.epsilon > 0.9
    assert "stays spent" in GaussianDifferentialPrivacy.reset.__doc__


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda p: p.apply_privacy([np.zeros(2)], 1.0, 1e-5), InvalidType),
        (lambda p: p.apply_privacy({}, 1.0, 1e-5), InvalidArray),
        (lambda p: p.apply_privacy({"w": np.zeros(2, int)}, 1.0, 1e-5), InvalidArrayType),
        (lambda p: p.apply_privacy(update(), 0.0, 1e-5), InvalidParameter),
        (lambda p: p.apply_privacy(update(), math.inf, 1e-5), InvalidParameter),
        (lambda p: p.apply_privacy(update(), math.nan, 1e-5), InvalidParameter),
        (lambda p: p.apply_privacy(update(), 1.0, 0.0), InvalidParameter),
        (lambda p: p.apply_privacy(update(), 1.0, 1.0), InvalidParameter),
        (lambda p: p.apply_privacy(update(), "1", 1e-5), InvalidType),
    ],
)
def test_what_is_refused_costs_nothing(monkeypatch, call, error):
    recorded = Recorded(monkeypatch)
    privacy = GaussianDifferentialPrivacy()

    with pytest.raises(error):
        call(privacy)

    assert privacy.privacy_budget_consumed == (0.0, 0.0)
    assert recorded.values == []


@pytest.mark.parametrize("clip_norm", [0, -1.0, math.nan, math.inf, "1", None, True])
def test_other_norms_are_refused(clip_norm):
    with pytest.raises((InvalidParameter, InvalidType), match="clip_norm"):
        GaussianDifferentialPrivacy(clip_norm)


def test_name_and_norm_are_there_to_read():
    privacy = GaussianDifferentialPrivacy(clip_norm=2)

    assert (privacy.name, privacy.clip_norm) == ("gaussian", 2.0)
    with pytest.raises(AttributeError):
        privacy.clip_norm = 3.0
    with pytest.raises(InvalidType, match="neighboring_relation"):
        GaussianDifferentialPrivacy(neighboring_relation=1)


def test_the_cost_is_charged_before_the_noise(monkeypatch):
    """Whatever happens then: here the draw fails."""
    privacy = GaussianDifferentialPrivacy()

    def fail(mechanism, value, **options):
        raise OSError("no entropy")

    monkeypatch.setattr(model.GaussianMechanism, "release", fail)
    with pytest.raises(OSError, match="no entropy"):
        privacy.apply_privacy(update(), 1.0, 1e-6)

    assert privacy.privacy_budget_consumed.epsilon > 0.9


def test_a_ledger_refuses_what_does_not_fit(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "budget.db")
    ledger.create("models", epsilon=1.1, delta=1e-6, measure="gdp")
    privacy = GaussianDifferentialPrivacy(ledger=ledger, scope="models")
    privacy.apply_privacy(update(), 1.0, 1e-6)

    with pytest.raises(BudgetExceeded):
        privacy.apply_privacy(update(), 1.0, 1e-6)

    assert privacy.privacy_budget_consumed.epsilon <= 1.0
    other = GaussianDifferentialPrivacy(
        ledger=ledger, scope="models", neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    with pytest.raises(InvalidParameter, match="neighboring_relation"):
        other.apply_privacy(update(), 0.01, 1e-9)
    with pytest.raises(InvalidParameter, match="together"):
        GaussianDifferentialPrivacy(ledger=ledger)
    ledger.close()
