"""Blocks of code that spend one budget: what is charged, refused, shared, and seen from threads, tasks and forks."""

import asyncio
import contextvars
import os
import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.accounting import EpsilonDeltaEvent, GaussianEvent, LaplaceEvent, PldAccountant
from ferrodp.budget.blocks import for_types
from ferrodp.errors import (
    BudgetExceeded,
    EntropyError,
    FerroError,
    InvalidParameter,
    InvalidType,
    KeyUsed,
    LedgerError,
    TicketError,
    UnknownScope,
    UnsupportedEventError,
)
from ferrodp.tickets import TicketState
from ferrodp.tickets.payer import PAYER, Share
from support.tickets import ADD_OR_REMOVE, CASES, REPLACE, Book, ticket_for

COLUMN = [1.0, 2.0, 3.5]
LAPLACE = fd.LaplaceMechanism(scale=2.0, l1_sensitivity=1.0)
WIDE = fd.LaplaceMechanism(scale=8.0, l1_sensitivity=1.0)
GAUSSIAN = fd.GaussianMechanism(noise_multiplier=10.0, l2_sensitivity=1.0)


@pytest.fixture
def ledger(tmp_path):
    with fd.PrivacyLedger.open(tmp_path / "budget.db", allow_unsafe_file_system=True) as opened:
        yield opened


class Purse:
    """A payer that writes down what it is asked for."""

    next_share = Share(0.75, 0.0)

    def __init__(self, relation, before=lambda ticket: None):
        self.neighboring_relation, self.tickets, self.book = relation, [], Book(before)

    def ticket(self, event, promised=None):
        self.tickets.append(ticket_for(promised or event, self.book, self.neighboring_relation))
        self.asked = event, promised
        return self.tickets[-1]


def paid_by(purse, release):
    def run():
        PAYER.set(purse)
        return release()

    return contextvars.copy_context().run(run)


def contents(case):
    return None if case.buffer is None else case.buffer.tobytes()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_release_is_charged_once_to_the_open_budget_before_anything_is_written(case):
    before, untouched = [], contents(case)
    purse = Purse(case.relation, lambda ticket: before.append(contents(case)))

    assert paid_by(purse, case.release) is not None

    assert [ticket.state for ticket in purse.tickets] == [TicketState.ARMED]
    assert purse.book.calls == ["arm"]
    assert before == [untouched]
    assert case.event in purse.asked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_charges_nothing_to_the_open_budget(case):
    untouched = contents(case)
    for bad in [*case.bad, {"source": 3}, {"source": fd.testing.seeded(bytes(32))}]:
        purse = Purse(case.relation)
        with pytest.raises(FerroError):
            paid_by(purse, lambda bad=bad: case.release(**bad))
        assert purse.book.calls == []
    assert contents(case) == untouched


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_ticket_of_its_own_pays_for_a_release_within_a_block(case):
    purse, book = Purse(case.relation), Book()

    paid_by(purse, lambda: case.release(ticket=ticket_for(case.event, book, case.relation)))

    assert (purse.tickets, book.calls) == ([], ["arm"])


def test_a_float_is_charged_as_the_decimal_that_it_is_written_as():
    with fd.budget(epsilon=1.0) as spending:
        for _ in range(10):
            assert fd.private_count(COLUMN, epsilon=0.1).epsilon <= Fraction(1, 10)
        with pytest.raises(BudgetExceeded, match=r"epsilon 1e-09 does not fit into the open budget"):
            fd.private_count(COLUMN, epsilon=1e-9)
    assert len(spending.report().charges) == 10
    assert sum(Fraction(each.epsilon) for each in spending.report().charges) <= 1


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 10, 97])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.1, 1e-7), (Fraction(1, 3), 0.0)])
def test_all_parts_fit_and_no_more(parts, epsilon, delta):
    with fd.budget(epsilon=epsilon, delta=delta, parts=parts) as spending:
        found = [fd.private_count(COLUMN).epsilon for _ in range(parts)]
        with pytest.raises(BudgetExceeded, match=f"all {parts} parts"):
            fd.private_count(COLUMN)
    assert sum(map(Fraction, found)) <= Fraction(epsilon)
    assert found == pytest.approx([float(epsilon) / parts] * parts, rel=1e-14)
    assert spending.report().parts_left == 0


def test_weights_are_taken_in_the_order_of_the_releases():
    with fd.budget(epsilon=1.0, weights=[1, 2, 5]) as spending:
        found = [fd.private_sum(COLUMN, bounds=(0, 4)).epsilon for _ in range(3)]
    assert found == [0.125, 0.25, 0.625]
    assert spending.report().epsilon_spent == 1.0


def test_parts_of_a_zcdp_budget_fit_and_are_larger_than_those_of_pure_epsilon():
    shares = {}
    for measure in ("pure", "zcdp"):
        with fd.budget(epsilon=1.0, delta=1e-6, parts=100, measure=measure) as spending:
            shares[measure] = spending.next_share.epsilon
            for _ in range(100):
                fd.private_count(COLUMN)
            with pytest.raises(BudgetExceeded):
                fd.private_count(COLUMN)
        assert spending.report().epsilon_spent <= 1.0
    assert shares["zcdp"] > 1.8 * shares["pure"]


def test_a_part_pays_for_noise_without_a_pure_epsilon_that_is_calibrated_to_it():
    with fd.budget(epsilon=1.0, delta=1e-6, weights=[3, 1]) as spending:
        for _ in range(2):
            share = spending.next_share
            mechanism = fd.GaussianMechanism.calibrated(epsilon=share[0], delta=share[1], l2_sensitivity=2.0)
            weaker = fd.GaussianMechanism(noise_multiplier=0.98 * mechanism.noise_multiplier, l2_sensitivity=2.0)
            with pytest.raises(BudgetExceeded, match="costs more than its part"):
                weaker.release(1.0)
            mechanism.release(1.0)
            accountant = PldAccountant()
            accountant.compose(mechanism.event)
            assert accountant.delta(share.epsilon) <= share.delta
    assert (spending.report().epsilon_spent, spending.report().delta_spent) == (1.0, 1e-6)


def test_a_release_takes_no_more_than_its_part():
    with fd.budget(epsilon=1.0, parts=4) as spending:
        with pytest.raises(BudgetExceeded, match="costs more than its part"):
            fd.private_count(COLUMN, epsilon=0.3)
        fd.private_count(COLUMN, epsilon=0.2)
        with pytest.raises(BudgetExceeded, match="costs more than its part"):
            LAPLACE.release(1.0)
    assert spending.report().parts_left == 3


def test_what_states_no_epsilon_is_refused_outside_of_parts():
    for release in (fd.private_count, fd.private_histogram, fd.private_median):
        extra = {fd.private_histogram: {"bins": [0, 4]}, fd.private_median: {"bounds": (0, 4)}}.get(release, {})
        with pytest.raises(InvalidType, match="epsilon must be given"):
            release(COLUMN, **extra)
        with fd.budget(epsilon=1.0), pytest.raises(InvalidType, match="parts=3"):
            release(COLUMN, **extra)


def test_mechanisms_are_charged_their_events_by_need():
    with fd.budget(epsilon=1.0, delta=1e-6, measure="zcdp") as spending:
        assert spending.remaining_count(GAUSSIAN.event) == 3 + 1
        GAUSSIAN.release(1.0)
        GAUSSIAN.release(np.ones(3))
        fd.DiscreteGaussianMechanism(scale=10.0, dimension=1).release(3)
        total = fd.ClippedSum((3,), clip_norm=1.0)
        total.add(np.ones(3))
        total.release(noise_multiplier=10.0)
        with pytest.raises(BudgetExceeded):
            GAUSSIAN.release(1.0)
    report = spending.report()
    assert [type(each).__name__ for each in report.charges] == [
        "GaussianEvent",
        "GaussianEvent",
        "DiscreteGaussianEvent",
        "GaussianEvent",
    ]
    assert report.epsilon_spent <= 1.0 < report.epsilon_certified  # read at a time that results may have chosen


def test_noise_without_a_price_is_refused_with_a_way_out():
    with fd.budget(epsilon=1.0, delta=1e-6), pytest.raises(UnsupportedEventError, match='measure="rdp"'):
        GAUSSIAN.release(1.0)
    keys = fd.KeyThreshold(epsilon=0.5, delta=1e-7)
    frame = {"key": ["a"] * 50}
    with fd.budget(epsilon=1.0, delta=1e-6, measure="rdp"), pytest.raises(UnsupportedEventError, match='"pure"'):
        fd.private_group_by(frame, "key", keys=keys)
    with fd.budget(epsilon=1.0, delta=1e-6) as spending:
        assert fd.private_group_by(frame, "key", keys=keys).keys == ("a",)
    assert (spending.report().epsilon_spent, spending.report().delta_spent) == (0.5, 1e-7)


def test_parallel_groups_cost_what_one_of_them_costs():
    groups = fd.private_group_by({"key": ["a", "b", "a"], "value": COLUMN}, "key", keys=["a", "b"])
    with fd.budget(epsilon=1.0, delta=1e-6, measure="zcdp") as spending:
        groups.quantile("value", 0.5, bounds=(0, 4), epsilon=0.1)
    with fd.budget(epsilon=1.0, delta=1e-6, measure="zcdp") as single:
        fd.private_quantile(COLUMN, 0.5, bounds=(0, 4), epsilon=0.1)
    assert spending.report().epsilon_spent == pytest.approx(single.report().epsilon_spent, rel=1e-9)


def test_groups_of_public_keys_cost_nothing():
    with fd.budget(epsilon=1.0) as spending:
        fd.private_group_by({"key": ["a"]}, "key", keys=["a"])
        fd.NoiseSource().gaussian(3, standard_deviation=1.0)
    assert spending.report().charges == ()
    assert spending.report().epsilon_spent == 0.0


def test_what_was_released_stays_charged_if_the_block_fails():
    class OwnError(Exception):
        pass

    spending = fd.budget(epsilon=1.0)

    def analysis():
        with spending:
            fd.private_count(COLUMN, epsilon=0.5)
            raise OwnError

    with pytest.raises(OwnError):
        analysis()
    assert spending.report().epsilon_spent == 0.5
    assert PAYER.get() is None
    with spending:
        fd.private_count(COLUMN, epsilon=0.5)
        with pytest.raises(BudgetExceeded):
            fd.private_count(COLUMN, epsilon=0.5)


def test_a_release_that_fails_after_its_first_bit_stays_charged_and_one_that_fails_before_does_not(monkeypatch):
    def fail(*_):
        raise EntropyError("no more")

    with fd.budget(epsilon=1.0, parts=2) as spending:
        with pytest.raises(FerroError):
            fd.private_histogram(COLUMN, bins=[3, 1])
        assert spending.report().parts_left == 2
        whole = spending._account
        monkeypatch.setattr(whole, "spend", fail)  # the outcome is unknown: it counts as spent
        with pytest.raises(EntropyError):
            fd.private_count(COLUMN)
    assert (spending.report().parts_left, len(spending.report().charges)) == (1, 1)


def test_a_block_within_a_block_charges_both():
    with fd.budget(epsilon=1.0) as outer:
        fd.private_count(COLUMN, epsilon=0.25)
        with fd.budget(epsilon=0.5, parts=2) as inner:
            fd.private_count(COLUMN)
            fd.private_count(COLUMN)
        with fd.budget(epsilon=10.0) as large:
            with pytest.raises(BudgetExceeded):
                fd.private_count(COLUMN, epsilon=0.5)
            fd.private_count(COLUMN, epsilon=0.25)
        with pytest.raises(BudgetExceeded):
            fd.private_count(COLUMN, epsilon=0.25)
    assert [each.report().epsilon_spent for each in (outer, inner, large)] == [1.0, 0.5, 0.25]


def test_blocks_that_cannot_be_nested_are_refused_before_anything():
    with (
        fd.budget(epsilon=1.0, parts=2),
        pytest.raises(FerroError, match="no room for another block"),
        fd.budget(epsilon=0.1),
    ):
        pass
    with fd.budget(epsilon=1.0) as spending, pytest.raises(FerroError, match="open here already"), spending:
        pass
    other = fd.budget(epsilon=1.0, neighboring_relation=REPLACE)
    with fd.budget(epsilon=1.0), other, pytest.raises(InvalidParameter, match="block around this one"):
        fd.private_sum([1, 2], bounds=(0, 4), epsilon=0.5, neighboring_relation=REPLACE)
    assert PAYER.get() is None


def test_neighbors_of_a_statistic_are_those_of_the_budget():
    with fd.budget(epsilon=1.0), pytest.raises(InvalidParameter, match="that of the open budget, ADD_OR_REMOVE_ONE"):
        fd.private_sum([1, 2], bounds=(0, 4), epsilon=0.5, neighboring_relation=REPLACE)
    update = fd.federated.LocalNoise(clip_norm=1.0, noise_multiplier=1.5)
    with fd.budget(epsilon=9.0, delta=1e-6, measure="zcdp"), pytest.raises(InvalidParameter, match="REPLACE_ONE"):
        update.privatize({"w": np.ones(3)})
    settings = {"neighboring_relation": REPLACE, "measure": "zcdp"}
    with fd.budget(epsilon=20.0, delta=1e-6, **settings) as spending:
        update.privatize({"w": np.ones(3)})
    assert spending.report().charges == (GaussianEvent(noise_multiplier=0.75),)


def test_threads_share_a_block_that_they_enter_and_never_overspend():
    spending = fd.budget(epsilon=1.0)
    outcomes = []

    def run(_):
        with spending:
            for _ in range(20):
                try:
                    outcomes.append(fd.private_count(COLUMN, epsilon=1 / 64).epsilon)
                except BudgetExceeded:
                    outcomes.append(0.0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))

    assert outcomes.count(1 / 64) == 64
    assert spending.report().epsilon_spent == 1.0


def test_a_thread_that_does_not_enter_is_outside():
    found = []
    with fd.budget(epsilon=1.0) as spending:
        thread = threading.Thread(target=lambda: found.append(fd.private_count(COLUMN, epsilon=5.0)))
        thread.start()
        thread.join(30)
        inside = contextvars.copy_context()
        with pytest.raises(BudgetExceeded):
            inside.run(fd.private_count, COLUMN, epsilon=5.0)
    assert found[0].epsilon == 5.0
    assert spending.report().charges == ()


def test_tasks_that_are_started_inside_are_charged_and_refused_after_the_end():
    spending = fd.budget(epsilon=1.0)

    async def late(ended):
        fd.private_count(COLUMN, epsilon=0.25)
        await ended.wait()
        with pytest.raises(BudgetExceeded, match="has ended"):
            fd.private_count(COLUMN, epsilon=0.25)
        with spending:
            fd.private_count(COLUMN, epsilon=0.25)

    async def main():
        ended = asyncio.Event()
        with spending:
            task = asyncio.create_task(late(ended))
            await asyncio.sleep(0)
            await asyncio.to_thread(fd.private_count, COLUMN, epsilon=0.5)
        ended.set()
        await task
        fd.private_count(COLUMN, epsilon=7.0)  # not charged: nothing is open here

    asyncio.run(main())
    assert spending.report().epsilon_spent == 1.0


def test_a_generator_ends_its_block_wherever_it_is_closed():
    def steps(block):
        with block:
            yield fd.private_count(COLUMN, epsilon=0.25)
            yield

    block, outer = fd.budget(epsilon=1.0), fd.budget(epsilon=1.0)
    running = steps(block)
    next(running)
    with outer:
        fd.private_count(COLUMN, epsilon=0.25)  # within both: the block of the generator is open here
        running.close()
    assert PAYER.get() is None
    assert (block.report().epsilon_spent, outer.report().epsilon_spent) == (0.5, 0.25)

    elsewhere = steps(fd.budget(epsilon=1.0))
    contextvars.copy_context().run(next, elsewhere)
    elsewhere.close()
    assert PAYER.get() is None


def test_a_forked_child_is_refused_and_leaves_the_block_of_its_parent_alone():
    with fd.budget(epsilon=1.0) as spending:
        child = os.fork()
        if child == 0:
            try:
                fd.private_count(COLUMN, epsilon=0.5)
            except TicketError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        fd.private_count(COLUMN, epsilon=1.0)
    assert spending.report().epsilon_spent == 1.0


def test_a_scope_of_a_ledger_outlives_the_block_and_charges_what_it_lies_in(ledger):
    ledger.create("survey", epsilon=2.0, delta=0.0, measure="pure")
    for spent in (0.5, 1.0):
        with fd.budget(epsilon=1.0, ledger=ledger, scope="survey/ages") as spending:
            fd.private_count(COLUMN, epsilon=0.5)
        assert ledger.report("survey/ages").epsilon_charged == spent
        assert spending.report().epsilon_spent == 0.5
    with fd.budget(epsilon=1.0, ledger=ledger, scope="survey/ages"), pytest.raises(BudgetExceeded, match="survey/ages"):
        fd.private_count(COLUMN, epsilon=0.5)
    assert ledger.report("survey").epsilon_charged == 1.0
    report = ledger.report("survey/ages")
    assert (report.spent, report.held, report.armed) == (2, 0, 0)
    with fd.budget(ledger=ledger, scope="survey") as spending:
        assert spending.remaining_count(EpsilonDeltaEvent(epsilon=0.25)) == 4


def test_a_charge_is_in_the_ledger_before_the_first_bit(ledger, monkeypatch):
    charged = []
    with fd.budget(epsilon=1.0, ledger=ledger, scope="a"):
        spend = ledger.spend
        monkeypatch.setattr(ledger, "spend", lambda *a, **k: (charged.append(spend(*a, **k)), 1 / 0))
        target = np.full(3, 7.0)
        with pytest.raises(ZeroDivisionError):
            LAPLACE.release(target, out=target)
    assert charged == [True]
    assert target.tolist() == [7.0] * 3
    assert ledger.report("a").epsilon_charged == 0.5


def test_a_run_that_is_repeated_under_its_key_is_refused(ledger):
    def run():
        with fd.budget(epsilon=1.0, ledger=ledger, scope="a", key="monday"):
            return fd.private_count(COLUMN, epsilon=0.25), fd.private_sum(COLUMN, bounds=(0, 4), epsilon=0.25)

    run()
    with pytest.raises(KeyUsed):
        run()
    assert ledger.report("a").epsilon_charged == 0.5


def test_a_frozen_scope_releases_nothing_more(ledger):
    with fd.budget(epsilon=1.0, ledger=ledger, scope="a"):
        run = fd.SparseVector(threshold=1e6, sensitivity=1.0, epsilon=0.25)
        ledger.freeze("a", reason="incident")
        for release in (lambda: fd.private_count(COLUMN, epsilon=0.25), lambda: run.query(0.0)):
            with pytest.raises(BudgetExceeded, match="frozen"):
                release()
        ledger.thaw("a", reason="over")
        assert run.query(0.0) is False


def test_the_budget_has_to_be_that_of_the_scope(ledger):
    ledger.create("a", epsilon=1.0, delta=1e-6)
    for wrong in (
        {"epsilon": 2.0, "delta": 1e-6},
        {"epsilon": 1.0, "delta": 1e-7},
        {"measure": "pure"},
        {"neighboring_relation": REPLACE},
    ):
        with pytest.raises(InvalidParameter, match="must be that of scope 'a'"):
            fd.budget(ledger=ledger, scope="a", **wrong)
    fd.budget(epsilon=1.0, delta=1e-6, measure="rdp", neighboring_relation=ADD_OR_REMOVE, ledger=ledger, scope="a")
    with pytest.raises(InvalidParameter, match='measure must be "pure" or "zcdp"'):
        fd.budget(ledger=ledger, scope="a", parts=2)
    with pytest.raises(UnknownScope):
        fd.budget(ledger=ledger, scope="b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "epsilon must be given"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "parts": 0}, "parts"),
        ({"epsilon": 1.0, "parts": 2, "weights": [1, 1]}, "at most one of parts and weights"),
        ({"epsilon": 1.0, "weights": [1, 0]}, "weights"),
        ({"epsilon": 1.0, "weights": []}, "weights"),
        ({"epsilon": 1.0, "weights": "12"}, "weights"),
        ({"epsilon": 1.0, "measure": "pld"}, "measure"),
        ({"epsilon": 1.0, "measure": "zcdp"}, "delta"),
        ({"epsilon": 1.0, "scope": "a"}, "ledger is missing"),
        ({"epsilon": 1.0, "ledger": "budget.db"}, "PrivacyLedger.open"),
        ({"epsilon": 1.0, "key": "a"}, "key"),
        ({"epsilon": 1.0, "eps": 2}, "epsilon"),
    ],
)
def test_what_is_not_a_budget_is_refused_with_the_name_of_what_is_wrong(arguments, message):
    with pytest.raises((FerroError, TypeError), match=message):
        fd.budget(**arguments)


def test_the_package_is_still_a_package():
    import ferrodp.budget

    assert ferrodp.budget is fd.budget
    assert set(vars(fd.budget)["__all__"]) <= set(vars(for_types.budget))  # what type checkers take it for
    assert fd.budget.PrivacyLedger is fd.PrivacyLedger
    assert isinstance(fd.budget(epsilon=1.0), fd.budget.Spending)
    with pytest.raises(AttributeError, match="did you mean"):
        _ = fd.budget.PrivacyLedgr


def test_the_report_says_what_was_spent_in_words():
    with fd.budget(epsilon=1.0, delta=1e-6, measure="zcdp") as spending:
        WIDE.release(1.0)
    text = str(spending.report())
    assert "of 1 at δ = 1e-06 of 1e-06 was spent in 1 release" in text
    assert "except with probability 1e-06" in text
    assert repr(spending).startswith("<Spending: ε = 0.")
    assert spending._repr_html_().startswith("<pre>ε = ")
    assert spending.report().charges == (LaplaceEvent(noise_multiplier=8.0),)
    with pytest.raises(TypeError, match="cannot be copied"):
        spending.__reduce__()


def test_a_lost_ledger_leaves_the_outcome_charged(ledger):
    with fd.budget(epsilon=1.0, ledger=ledger, scope="a") as spending:
        fd.private_count(COLUMN, epsilon=0.25)
        ledger.close()
        with pytest.raises(LedgerError):
            fd.private_count(COLUMN, epsilon=0.25)
    assert spending.report().epsilon_spent == 0.25


def test_looking_for_an_open_budget_costs_less_than_50_ns_where_there_is_none():
    """Processor time, the least of 50 rounds of 2·10⁴ looks, the empty loop taken off; others may use the machine."""
    look, loop = (
        min(timeit.repeat(text, setup, timer=time.process_time, number=20_000, repeat=50)) / 2e4
        for text in ("PAYER.get() is None", "pass")
        for setup in ["from ferrodp.tickets.payer import PAYER"]
    )
    assert look - loop < 50e-9


def test_keys_are_found_at_what_the_open_budget_is_charged(monkeypatch):
    """A float such as 0.1 is more than the decimal: ten of them would not fit into 1."""
    frame, made = {"key": ["a"] * 3000 + ["b"]}, []
    noise = fd.KeyThreshold._noise
    monkeypatch.setattr(fd.KeyThreshold, "_noise", lambda self, rows: made.append(noise(self, rows)) or made[-1])
    with fd.budget(epsilon=1.0, delta=1e-5) as spending:
        for _ in range(10):
            found = fd.private_group_by(frame, "key", keys=fd.KeyThreshold(epsilon=0.1, delta=1e-6))
            charged = spending.report().charges[-1]
            assert found.event == charged
            assert Fraction(charged.epsilon) <= Fraction(1, 10) < Fraction(0.1)
            assert Fraction(made[-1].l1_sensitivity) / Fraction(made[-1].scale) <= Fraction(charged.epsilon)
