"""Rounds: clipped, summed and noised as stated, exactly as many as the budget allows, and refused before any bit."""

import copy
import math
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from ferrodp.accounting import GaussianEvent, NeighboringRelation, PoissonSampledEvent
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, _counter, _sums
from ferrodp.engine._step import Step
from ferrodp.errors import BudgetExceeded, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
from ferrodp.tickets import Ticket, TicketState

MECHANISMS = ["gaussian", "laplace", "discrete_gaussian"]
TEMPLATE = {"w": np.zeros((2, 2)), "b": np.zeros(2)}
FEW = DPConfig(noise_multiplier=4.0, sampling_rate=1.0, target_epsilon=3.0)


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


class Releases:
    """Counts releases of sums, before the first bit of each."""

    def __init__(self, monkeypatch):
        self.count = 0
        for kind in (_sums._GaussianSum, _sums._LaplaceSum, _sums._DiscreteSum):
            monkeypatch.setattr(kind, "release", self._counting(kind.release))

    def _counting(self, release):
        def counted(total, ticket, denominator):
            self.count += 1
            return release(total, ticket, denominator)

        return counted


# the budget


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", ["moments", "renyi", "basic", "advanced", "optimal", "zcdp"])
def test_exactly_as_many_rounds_run_as_the_budget_allows(monkeypatch, mechanism, method):
    releases = Releases(monkeypatch)
    config = DPConfig(mechanism, method, noise_multiplier=12.0, sampling_rate=1.0, target_epsilon=2.0)
    engine = DifferentialPrivacyEngine(config)
    allowed = engine.remaining_rounds
    assert allowed >= 3
    assert engine.compute_privacy_spent(config, allowed).epsilon_spent <= 2.0
    assert engine.compute_privacy_spent(config, allowed + 1).epsilon_spent > 2.0

    for done in range(allowed):
        assert engine.budget.rounds_consumed == done
        engine.round([], template=TEMPLATE)

    seen = []
    with pytest.raises(BudgetExceeded, match=r"exceed epsilon=2\.0 at delta=1e-05"):
        engine.round((seen.append(1) for _ in range(1)), template=TEMPLATE)
    assert releases.count == allowed
    assert seen == []
    assert engine.remaining_rounds == 0
    assert engine.budget.rounds_consumed == allowed
    assert engine.check_budget(engine.budget)
    assert engine.budget.consumed_epsilon == engine.compute_privacy_spent(config, allowed).epsilon_spent


def test_a_budget_for_no_round_refuses_the_first(monkeypatch):
    releases = Releases(monkeypatch)
    engine = DifferentialPrivacyEngine(DPConfig(noise_multiplier=0.1, sampling_rate=1.0, target_epsilon=1.0))

    with pytest.raises(BudgetExceeded, match="allows 0 rounds"):
        engine.round([update(1.0)], template=TEMPLATE)
    assert list(DifferentialPrivacyEngine(engine.config, population_size=3).run_rounds(len, template=TEMPLATE)) == []
    assert releases.count == 0


def test_racing_threads_get_as_many_rounds_as_there_are():
    engine = DifferentialPrivacyEngine(FEW)
    allowed, barrier = engine.remaining_rounds, threading.Barrier(8)

    def race(_):
        barrier.wait()
        done = 0
        while True:
            try:
                engine.round([update(0.1)], template=TEMPLATE)
            except BudgetExceeded:
                return done
            done += 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(race, range(8))) == allowed
    assert engine.budget.rounds_consumed == allowed


@pytest.mark.parametrize(
    "updates",
    [
        [{"w": np.zeros((2, 2))}],
        [update(1.0), update(1.0, np.float32)],
        [np.zeros(6)],
        {"w": np.zeros((3, 2, 2)), "b": np.zeros((2, 2))},
        {"w": np.zeros((2, 2)), "b": np.zeros(2)},
        ["text"],
        [None],
    ],
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_updates_of_another_shape_give_the_round_back(monkeypatch, mechanism, updates):
    releases = Releases(monkeypatch)
    engine = quiet(mechanism)
    allowed = engine.remaining_rounds

    with pytest.raises((InvalidArray, InvalidArrayType)):
        engine.round(updates, template=TEMPLATE)

    assert (engine.remaining_rounds, releases.count) == (allowed, 0)
    assert engine.budget.rounds_consumed == 0


def test_an_error_while_clients_train_gives_the_round_back():
    engine = DifferentialPrivacyEngine(FEW, population_size=4)
    allowed = engine.remaining_rounds

    def train(clients):
        yield update(1.0)
        raise ConnectionError("a client is gone")

    with pytest.raises(ConnectionError):
        next(engine.run_rounds(train, template=TEMPLATE))

    assert engine.remaining_rounds == allowed


def test_a_round_that_drew_is_spent_whatever_happens(monkeypatch):
    engine = DifferentialPrivacyEngine(FEW)
    allowed = engine.remaining_rounds

    def fail(total, ticket, denominator):
        ticket.arm()
        raise KeyboardInterrupt

    monkeypatch.setattr(_sums._GaussianSum, "release", fail)
    with pytest.raises(KeyboardInterrupt):
        engine.round([], template=TEMPLATE)

    assert engine.remaining_rounds == allowed - 1
    assert engine.budget.rounds_consumed == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"updates": 3}, InvalidType),
        ({"updates": None}, InvalidType),
        ({"template": [np.zeros(2)]}, InvalidType),
        ({"template": {}}, InvalidArray),
        ({"template": {"w": np.zeros(2, int)}}, InvalidArrayType),
        ({"denominator": 0}, InvalidParameter),
        ({"denominator": math.nan}, InvalidParameter),
        ({"key": "round-1"}, InvalidParameter),
    ],
)
def test_other_arguments_are_refused_and_cost_nothing(arguments, error):
    engine = DifferentialPrivacyEngine(FEW)
    allowed = engine.remaining_rounds

    with pytest.raises(error):
        engine.round(**{"updates": [], "template": TEMPLATE, **arguments})

    assert engine.remaining_rounds == allowed


def test_copies_would_have_budgets_of_their_own():
    engine = DifferentialPrivacyEngine(FEW)

    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            duplicate(engine)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_cannot_spend_the_budget_again(monkeypatch):
    engine = DifferentialPrivacyEngine(FEW)
    monkeypatch.setattr(_counter.os, "getpid", lambda: -1)  # what a child sees: another process id

    with pytest.raises(TicketError, match="forked"):
        engine.round([], template=TEMPLATE)
    with pytest.raises(TicketError, match="forked"):
        assert engine.remaining_rounds


# what a round computes


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
    return total._like if isinstance(total, _sums._LaplaceSum) else total._total


def integers(total):
    return total._integers if isinstance(total, _sums._LaplaceSum) else flat(total._total.integers)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_batches_around_the_block_size_add_up(monkeypatch, mechanism):
    monkeypatch.setattr(_sums, "_ROWS", 12)  # two rows of six
    rng = np.random.default_rng(4)
    for count in (0, 1, 2, 3, 5):
        stacked = {"w": rng.normal(size=(count, 2, 2)), "b": rng.normal(size=(count, 2))}
        total, again = (_sums.sum_for(Step(DPConfig(mechanism)), TEMPLATE) for _ in range(2))
        total.add_many(stacked)
        for i in range(count):
            again.add({name: leaf[i] for name, leaf in stacked.items()})
        np.testing.assert_array_equal(integers(total), integers(again))


def test_more_updates_than_floats_can_add_are_refused_for_laplace_noise(monkeypatch):
    monkeypatch.setattr(_sums, "_FLOATS", 3 * 2**30)
    total = _sums.sum_for(Step(DPConfig("laplace")), TEMPLATE)
    most = total._most

    with pytest.raises(InvalidParameter, match="at most"):
        total.add_many({"w": np.zeros((most + 1, 2, 2)), "b": np.zeros((most + 1, 2))})
    total.add_many({"w": np.zeros((most, 2, 2)), "b": np.zeros((most, 2))})


def test_an_update_that_changed_while_it_was_clipped_is_refused(monkeypatch):
    """Another thread's doing: stood for by a clipper that returns what it was given."""
    monkeypatch.setattr(_sums, "clip_rows", lambda rows, **how: (rows, None))
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


# rounds in a row


def test_rounds_run_until_the_budget_is_gone():
    engine = DifferentialPrivacyEngine(FEW, population_size=5)
    allowed, seen = engine.remaining_rounds, []

    def train(clients):
        seen.append(clients.tolist())
        return (update(0.1) for _ in clients)

    assert len(list(engine.run_rounds(train, template=TEMPLATE))) == allowed
    assert seen == [[0, 1, 2, 3, 4]] * allowed
    with pytest.raises(BudgetExceeded):
        engine.round([], template=TEMPLATE)


def test_too_many_rounds_are_refused_at_the_call():
    engine = DifferentialPrivacyEngine(FEW, population_size=5)
    allowed, seen = engine.remaining_rounds, []

    with pytest.raises(BudgetExceeded, match=f"at most {allowed}, .* got {allowed + 1}"):
        engine.run_rounds(seen.append, template=TEMPLATE, num_rounds=allowed + 1)

    assert seen == []
    assert len(list(engine.run_rounds(lambda _: [], template=TEMPLATE, num_rounds=allowed))) == allowed


def test_clients_train_only_when_the_round_before_was_used():
    engine = DifferentialPrivacyEngine(FEW, population_size=5)
    trained = []

    def train(clients):
        trained.append(clients)
        return []

    seen = [len(trained) for _ in engine.run_rounds(train, template=TEMPLATE, num_rounds=3)]

    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"train": None}, InvalidType),
        ({"num_rounds": -1}, InvalidParameter),
        ({"num_rounds": 1.0}, InvalidType),
        ({"template": None}, InvalidType),
        ({"denominator": -1}, InvalidParameter),
    ],
)
def test_runs_are_checked_at_the_call(arguments, error):
    engine = DifferentialPrivacyEngine(FEW, population_size=5)

    with pytest.raises(error):
        engine.run_rounds(**{"train": lambda _: [], "template": TEMPLATE, **arguments})
    with pytest.raises(InvalidParameter, match="population_size"):
        DifferentialPrivacyEngine(FEW).run_rounds(lambda _: [], template=TEMPLATE)


def test_federated_training_learns_under_its_budget():
    """Linear regression with 400 clients of one point each. The error begins at 1.25.

    The noise of a step is 2/100 in each coordinate: what is left of twenty of them, halved, is below 0.3 with
    certainty for all purposes (0.0003 on average).
    """
    rng = np.random.default_rng(5)
    truth = np.array([1.0, -0.5])
    inputs = rng.normal(size=(400, 2))
    targets = inputs @ truth
    config = DPConfig(noise_multiplier=2.0, sampling_rate=0.25, target_epsilon=6.0, accounting="pld")
    engine = DifferentialPrivacyEngine(config, population_size=400)
    model = {"w": np.zeros(2)}

    def train(clients):
        errors = inputs[clients] @ model["w"] - targets[clients]
        return {"w": -errors[:, None] * inputs[clients]}

    for mean in engine.run_rounds(train, template=model, num_rounds=20, denominator=100):
        model["w"] = model["w"] + 0.5 * mean["w"]

    assert np.sum((model["w"] - truth) ** 2) < 0.3
    assert engine.budget.rounds_consumed == 20
    assert 0.0 < engine.budget.consumed_epsilon <= 6.0


# with a ledger


class FakeLedger:
    """Allows so many tickets, and remembers what it was asked."""

    def __init__(self, allowed, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
        self.allowed, self.relation, self.asked, self.cancelled = allowed, relation, [], 0

    def reserve(self, scopes, event, *, key=None):
        if not self.allowed:
            raise BudgetExceeded("nothing is left")
        self.allowed -= 1
        self.asked.append((scopes, event, key))
        return Ticket(event, id="t", key=key, scopes=(scopes,), neighboring_relation=self.relation, book=self)

    def remaining_count(self, scope, event):
        return self.allowed

    def arm(self, ticket):
        pass

    def cancel(self, ticket):
        self.allowed += 1
        self.cancelled += 1

    def finish(self, ticket):
        pass


def test_a_ledger_decides_instead_of_the_counter():
    ledger = FakeLedger(2)
    config = DPConfig(noise_multiplier=0.1, sampling_rate=0.5, target_epsilon=1e-3, accounting="pld")
    engine = DifferentialPrivacyEngine(config, ledger=ledger, scope="a")

    engine.round([], template=TEMPLATE, key="one")
    assert engine.remaining_rounds == 1
    with pytest.raises(InvalidArray):
        engine.round([{"w": np.zeros(1)}], template=TEMPLATE)
    engine.round([], template=TEMPLATE)
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        engine.round([], template=TEMPLATE)

    event = PoissonSampledEvent(sampling_probability=0.5, event=GaussianEvent(noise_multiplier=0.1))
    assert ledger.asked == [("a", event, "one"), ("a", event, None), ("a", event, None)]
    assert ledger.cancelled == 1
    assert engine.budget.rounds_consumed == 2
    assert not engine.check_budget(engine.budget)


def test_a_ledger_of_another_relation_is_refused():
    ledger = FakeLedger(2)
    engine = DifferentialPrivacyEngine(FEW, sampling="uniform", population_size=5, ledger=ledger, scope="a")

    with pytest.raises(InvalidParameter, match="neighboring_relation REPLACE_ONE"):
        engine.round([], template=TEMPLATE)

    assert ledger.allowed == 2


@pytest.mark.parametrize("arguments", [{"ledger": FakeLedger(1)}, {"scope": "a"}])
def test_ledger_and_scope_come_together(arguments):
    with pytest.raises(InvalidParameter, match="together"):
        DifferentialPrivacyEngine(**arguments)
