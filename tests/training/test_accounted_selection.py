"""A search draws the number of its runs from the stated law, publishes the best alone, and costs its event."""

import math
import secrets

import numpy as np
import pytest
from scipy import stats

import ferrodp as fd
from ferrodp.accounting import RdpAccountant
from ferrodp.errors import BudgetExceeded, InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation, RepeatAndSelectEvent
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch
from ferrodp.training import select
from ferrodp.training._repeats import num_runs

RUN = GaussianEvent(noise_multiplier=5.0)


def law(mean, shape):
    return RepeatAndSelectEvent(event=RUN, mean=mean, shape=shape)


def masses(mean, shape, most):
    """P[K = 0 … most] from the definition of [PS22], with γ found by bisection: another route than the recurrence."""
    k = np.arange(most + 1)
    if shape == math.inf:
        return stats.poisson(mean).pmf(k)

    def mean_of(gamma):
        if shape == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return shape * (1 - gamma) / (gamma * (1 - gamma**shape))

    low, high = 1e-9, 1.0 - 1e-12
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_of(middle) > mean else (low, middle)
    if shape == 0:
        return np.concatenate([[0.0], stats.logser(1 - low).pmf(k[1:])])
    whole = stats.nbinom(shape, low)
    return np.where(k > 0, whole.pmf(k) / (1 - whole.pmf(0)), 0.0)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("mean", [1.5, 8.0])
def test_every_number_of_runs_has_its_probability(mean, shape):
    """The inverse distribution function steps where the sums of the definition's masses do; no randomness."""
    cumulative = np.cumsum(masses(mean, shape, 60))
    for k, share in enumerate(cumulative[:40]):
        for offset, expected in ((-1e-9, k), (1e-9, k + 1)):
            u = share + offset
            if 0 < u < 1 and (k == 0 or u > cumulative[k - 1]) and u < cumulative[min(k + 1, 60)]:
                bits = int(u * 2**128)
                assert expected == num_runs(law(mean, shape), lambda count, bits=bits: bits)


@pytest.mark.statistical
@pytest.mark.parametrize(("mean", "shape"), [(4.0, 0.0), (4.0, 1.0), (4.0, math.inf)])
def test_drawn_numbers_follow_the_law(mean, shape):
    """4000 draws, chi-squared over 0 … 11 and the rest; false alarms 1e-6 a case. Bits are seeded."""
    rng = np.random.default_rng(11)

    def bits(count):
        return int.from_bytes(rng.bytes(count // 8), "big")

    drawn = [num_runs(law(mean, shape), bits) for _ in range(4000)]

    expected = masses(mean, shape, 11)
    expected = np.append(expected, 1 - expected.sum())
    observed = np.bincount(np.minimum(drawn, 12), minlength=13)
    possible = expected > 0
    assert not observed[~possible].any()
    assert stats.chisquare(observed[possible], 4000 * expected[possible]).pvalue > 1e-6


def test_a_mean_of_one_is_one_run():
    assert {1} == {num_runs(law(1.0, shape)) for shape in (0.0, 1.0, 2.0) for _ in range(5)}


def test_more_bits_are_drawn_where_they_decide():
    asked = []

    def bits(count):
        asked.append(count)
        return 2**127 if len(asked) == 1 else 1  # u begins like the edge between 1 and 2 runs: γ = 1/2

    found = num_runs(law(2.0, 1.0), bits)

    assert found in (1, 2)
    assert len(asked) >= 1


def test_the_best_run_is_returned(monkeypatch):
    monkeypatch.setattr("ferrodp.training.selection.num_runs", lambda event: 50)
    seen = []

    def train_one(candidate):
        seen.append(candidate)
        return f"model {candidate}", candidate if candidate < 3 else math.nan

    best = select(train_one, [1, 2, 3], one_run=RUN, mean=50)

    assert (best.candidate, best.result, best.score) == (2, "model 2", 2.0)
    assert {1, 2, 3} == set(seen)
    assert len(seen) == 50


def test_no_run_is_an_answer_of_the_poisson_law(monkeypatch):
    monkeypatch.setattr("ferrodp.training.selection.num_runs", lambda event: 0)

    best = select(lambda candidate: (1, 1.0), [1], one_run=RUN, mean=0.5, shape=math.inf)

    assert (None, None, -math.inf) == (best.candidate, best.result, best.score)


def test_a_search_over_a_plan_costs_the_search_event_of_the_whole_plan():
    plan = fd.PrivacyPlan(
        population_size=10,
        sampling=FullBatch(),
        num_steps=4,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(10.0),
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    best = select(lambda candidate: (None, 0.0), [1], one_run=plan, mean=3.0)
    alone = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    alone.compose(RepeatAndSelectEvent(event=plan.event, mean=3.0, shape=1.0))

    assert alone.epsilon(1e-5) == best.epsilon(1e-5) > plan.epsilon(1e-5, accountant="rdp")


def test_the_ledger_pays_before_the_first_run(tmp_path):
    paid = []
    with fd.PrivacyLedger.open(tmp_path / "ledger.db") as ledger:
        ledger.create("a", epsilon=3.0, delta=1e-5)

        def train_one(candidate):
            paid.append(ledger.epsilon_charged("a"))
            return None, 0.0

        best = select(train_one, [1], one_run=RUN, mean=4, ledger=ledger, scope="a")
        charged = ledger.epsilon_charged("a")
        ledger.create("b", epsilon=3.0, delta=1e-5)
        ledger.spend("b", best.event)
        assert charged == ledger.epsilon_charged("b")
        with pytest.raises(BudgetExceeded):
            select(train_one, [1], one_run=GaussianEvent(noise_multiplier=1.0), mean=4, ledger=ledger, scope="a")

        assert {charged} == set(paid)
        assert charged == ledger.epsilon_charged("a") > 0


def test_a_ledger_that_counts_other_neighbors_than_the_plan_pays_nothing(tmp_path):
    plan = fd.PrivacyPlan(
        population_size=10, sampling=FullBatch(), num_steps=1, clipping=FlatClipping(1.0), noise=ConstantNoise(10.0)
    )
    with fd.PrivacyLedger.open(tmp_path / "ledger.db") as ledger:
        ledger.create("a", epsilon=3.0, delta=1e-5, neighboring_relation=NeighboringRelation.REPLACE_ONE)
        with pytest.raises(InvalidParameter, match="ADD_OR_REMOVE_ONE"):
            select(lambda candidate: (None, 0.0), [1], one_run=plan, mean=2, ledger=ledger, scope="a")

        assert ledger.epsilon_charged("a") == 0


@pytest.mark.parametrize(
    "options",
    [
        {"candidates": []},
        {"mean": 0.5},
        {"shape": -0.5},
        {"one_run": "plan"},
        {"train_one": 3},
        {"scope": "a"},
    ],
)
def test_what_is_not_accepted_is_refused_before_anything_is_run(options):
    ran = []
    settings = {
        "train_one": lambda candidate: ran.append(candidate),
        "candidates": [1],
        "one_run": RUN,
        "mean": 2.0,
    } | options

    with pytest.raises((InvalidParameter, InvalidType)):
        select(settings.pop("train_one"), settings.pop("candidates"), **settings)
    assert not ran


def test_the_number_of_runs_comes_from_the_operating_system():
    assert num_runs.__defaults__ == (secrets.randbits,)
