"""Rounds: clipped, summed and noised as stated, exactly as many as the budget allows, and refused before any bit."""

import copy
import math
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ferrodp.accounting import GaussianEvent, NeighboringRelation, PoissonSampledEvent
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, _counter, _sums
from ferrodp.errors import BudgetExceeded, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType, TicketError
from ferrodp.tickets import Ticket

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
        ({"template": np.zeros(2)}, InvalidType),
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
    monkeypatch.setattr(_counter._fork, "generation", lambda: -1)  # what a child sees

    with pytest.raises(TicketError, match="forked"):
        engine.round([], template=TEMPLATE)
    with pytest.raises(TicketError, match="forked"):
        assert engine.remaining_rounds


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

    def reserve(self, scopes, event, *, key=None, statistics=()):
        if not self.allowed:
            raise BudgetExceeded("nothing is left")
        self.allowed -= 1
        self.asked.append((scopes, event, key))
        return Ticket(event, id="t", key=key, scopes=(scopes,), neighboring_relation=self.relation, book=self)

    def remaining_count(self, scope, event):
        return self.allowed

    def arm(self, ticket):
        pass

    def proceed(self, ticket):
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
