"""Rounds that a ledger on disk pays for: its budget holds across engines, processes and threads."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ferrodp import PrivacyLedger
from ferrodp.accounting import NeighboringRelation
from ferrodp.engine import DifferentialPrivacyEngine, DPConfig, _sums
from ferrodp.errors import BudgetExceeded, InvalidParameter, KeyUsed, UnsupportedEventError

TEMPLATE = {"w": np.zeros(3)}
CONFIG = DPConfig(noise_multiplier=3.0, sampling_rate=0.5, target_epsilon=1e-6, accounting="pld")


@pytest.fixture
def ledger(tmp_path):
    with PrivacyLedger.open(tmp_path / "budget.db") as opened:
        yield opened


def drained(engine):
    done = 0
    while True:
        try:
            engine.round([], template=TEMPLATE)
        except BudgetExceeded:
            return done
        done += 1


@pytest.mark.parametrize(
    ("mechanism", "rate", "measure", "sampling"),
    [
        ("gaussian", 0.5, "rdp", "poisson"),
        ("gaussian", 1.0, "gdp", "poisson"),
        ("gaussian", 1.0, "zcdp", "uniform"),
        ("gaussian", 0.5, "rdp", "uniform"),
        ("laplace", 0.5, "rdp", "poisson"),
        ("laplace", 0.5, "pure", "uniform"),
        ("discrete_gaussian", 1.0, "zcdp", "poisson"),
        ("discrete_gaussian", 1.0, "rdp", "uniform"),
    ],
)
def test_exactly_as_many_rounds_run_as_the_ledger_allows(ledger, mechanism, rate, measure, sampling):
    relation = NeighboringRelation.REPLACE_ONE if sampling == "uniform" else NeighboringRelation.ADD_OR_REMOVE_ONE
    delta = 0.0 if measure == "pure" else 1e-5
    ledger.create("a", epsilon=6.0, delta=delta, measure=measure, neighboring_relation=relation)
    config = DPConfig(mechanism, "basic", noise_multiplier=4.0, sampling_rate=rate, target_epsilon=1e-6)
    engine = DifferentialPrivacyEngine(config, sampling=sampling, population_size=10, ledger=ledger, scope="a")
    allowed = engine.remaining_rounds
    assert allowed >= 2

    assert drained(engine) == allowed

    assert engine.remaining_rounds == 0
    assert engine.budget.rounds_consumed == allowed
    assert ledger.verify()


class WithoutReports:
    """What an engine requires of a ledger, and no more."""

    def __init__(self, ledger):
        self.reserve, self.remaining_count = ledger.reserve, ledger.remaining_count


def test_the_engine_counts_the_rounds_of_a_ledger_that_has_no_reports(ledger):
    ledger.create("a", epsilon=3.0, delta=1e-5)
    engine = DifferentialPrivacyEngine(CONFIG, ledger=WithoutReports(ledger), scope="a")

    for _ in range(2):
        engine.round([], template=TEMPLATE)

    assert engine.budget.rounds_consumed == 2


def test_another_engine_continues_where_the_first_one_stopped(ledger, tmp_path):
    ledger.create("a", epsilon=3.0, delta=1e-5)
    first = DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="a")
    allowed = first.remaining_rounds
    for number in range(2):
        first.round([], template=TEMPLATE, key=f"round-{number}")

    with PrivacyLedger.open(tmp_path / "budget.db") as again:
        second = DifferentialPrivacyEngine(CONFIG, ledger=again, scope="a")
        assert second.remaining_rounds == allowed - 2
        with pytest.raises(KeyUsed):  # its noise was drawn: a repetition is neither charged nor released
            second.round([], template=TEMPLATE, key="round-1")
        assert second.remaining_rounds == allowed - 2
        assert drained(second) == allowed - 2


def test_a_round_that_fails_before_its_first_bit_is_given_back(ledger):
    ledger.create("a", epsilon=3.0, delta=1e-5)
    engine = DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="a")
    allowed = engine.remaining_rounds

    def broken():
        yield {"w": np.ones(3)}
        raise ConnectionError("a client is gone")

    with pytest.raises(ConnectionError):
        engine.round(broken(), template=TEMPLATE, key="round-0")

    assert engine.remaining_rounds == allowed
    assert engine.budget.rounds_consumed == 0
    engine.round([], template=TEMPLATE, key="round-0")
    assert engine.remaining_rounds == allowed - 1


def test_nothing_is_drawn_when_the_ledger_refuses(ledger, monkeypatch):
    ledger.create("a", epsilon=0.5, delta=1e-5)
    config = DPConfig(noise_multiplier=0.5, sampling_rate=0.5)
    engine = DifferentialPrivacyEngine(config, ledger=ledger, scope="a", population_size=4)
    seen = []
    monkeypatch.setattr(_sums._GaussianSum, "release", lambda *_: seen.append("release"))

    with pytest.raises(BudgetExceeded):
        engine.round((seen.append("update") for _ in range(1)), template=TEMPLATE)
    with pytest.raises(BudgetExceeded):
        engine.run_rounds(seen.append, template=TEMPLATE, num_rounds=1)

    assert list(engine.run_rounds(seen.append, template=TEMPLATE)) == []
    assert seen == []


def test_threads_share_what_there_is(ledger):
    ledger.create("a", epsilon=3.0, delta=1e-5)
    engines = [DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="a") for _ in range(4)]
    allowed = engines[0].remaining_rounds

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(drained, engines)) == allowed


def _drain_in_a_process(path):
    with PrivacyLedger.open(path) as ledger:
        return drained(DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="a"))


def test_processes_share_what_there_is(ledger, tmp_path):
    ledger.create("a", epsilon=3.0, delta=1e-5)
    allowed = DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="a").remaining_rounds

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert sum(pool.map(_drain_in_a_process, [tmp_path / "budget.db"] * 2)) == allowed


def test_what_the_ledger_cannot_bound_is_refused_when_the_engine_is_made(ledger):
    ledger.create("a", epsilon=3.0, delta=1e-5, measure="gdp")

    with pytest.raises(UnsupportedEventError):
        DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="a")
    with pytest.raises(InvalidParameter):
        DifferentialPrivacyEngine(CONFIG, ledger=ledger, scope="no such scope")


def test_a_scope_of_another_relation_is_refused_and_not_charged(ledger):
    ledger.create("a", epsilon=3.0, delta=1e-5, measure="zcdp")
    config = DPConfig(noise_multiplier=3.0, sampling_rate=1.0)
    engine = DifferentialPrivacyEngine(config, sampling="uniform", population_size=5, ledger=ledger, scope="a")
    allowed = engine.remaining_rounds

    with pytest.raises(InvalidParameter, match="neighboring_relation REPLACE_ONE"):
        engine.round([], template=TEMPLATE)

    assert engine.remaining_rounds == allowed
