"""Updates that arrive in any order, late, or whenever they like: what a sum then moves by, on all small schedules."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ferrodp.errors import FerroError
from ferrodp.events import NeighboringRelation
from ferrodp.federated import FederatedRun, RoundCheckpoint
from ferrodp.plan import ConstantNoise, FlatClipping, FullBatch, PrivacyPlan
from ferrodp.plan import _kept as kept

CLIENTS, TICKS, CLOCK, ENOUGH = 3, 4, 2, 2
VALUES = (-1, 0, 1)  # of updates that are clipped to 1


def schedules():
    """All schedules in which one client may send at each tick, or nobody: who, by tick."""
    return itertools.product((None, *range(CLIENTS)), repeat=TICKS)


def by_clock(arrivals):
    """Rounds that end every two ticks: lists of clients with the number of their update."""
    return [arrivals[start : start + CLOCK] for start in range(0, TICKS, CLOCK)]


def by_count(arrivals):
    """Rounds that end once two updates have come."""
    there = [each for each in arrivals if each is not None]
    return [there[start : start + ENOUGH] for start in range(0, len(there), ENOUGH)]


def once_a_round(rounds):
    """At most one update of a client in a round: a second one is dropped here."""
    return [list(dict.fromkeys(each for each in members if each is not None)) for members in rounds]


def sums(rounds, updates, number):
    found = [sum(updates[each] for each in members) for members in rounds]
    return np.array(found + [0] * (number - len(found)))


def largest_move(closing, relation):
    """The most that one client moves the sum of a round, over all schedules, values and clients."""
    worst = 0
    for arrivals in schedules():
        for victim in range(CLIENTS):
            with_it = once_a_round(closing(list(arrivals)))
            if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
                others = [None if each == victim else each for each in arrivals]
                without = once_a_round(closing(others))
            else:
                without = with_it
            for values in itertools.product(VALUES, repeat=CLIENTS):
                updates = dict(enumerate(values))
                left = updates if without is not with_it else updates | {victim: 0}
                moved = sums(with_it, updates, TICKS) - sums(without, left, TICKS)
                worst = max(worst, int(np.abs(moved).max()))
    return worst


def test_rounds_that_end_by_the_clock_move_by_one_update_whoever_is_left_out():
    assert largest_move(by_clock, NeighboringRelation.ADD_OR_REMOVE_ONE) == 1
    assert largest_move(by_clock, NeighboringRelation.REPLACE_SPECIAL) == 1


def test_rounds_that_end_by_a_count_move_by_one_update_only_where_its_client_still_arrives():
    """Without a client the updates after it belong to other rounds: that moves a sum by more than the clip norm."""
    assert largest_move(by_count, NeighboringRelation.REPLACE_SPECIAL) == 1
    assert largest_move(by_count, NeighboringRelation.ADD_OR_REMOVE_ONE) > 1


def plan_of(rounds=2):
    return PrivacyPlan(
        unit="client",
        population_size=40,
        sampling=FullBatch(),
        num_steps=rounds,
        clipping=FlatClipping(1.0),
        noise=ConstantNoise(1.0),
        neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    )


def released(path, orders, threads, monkeypatch):
    """The releases of rounds whose updates come in these orders, from so many threads, under the same keys."""
    monkeypatch.setattr(kept, "_fresh_key", lambda step: bytes([step]) * 32)
    updates = np.random.default_rng(7).normal(size=(40, 301)).astype(np.float32)
    out = []
    with RoundCheckpoint(path) as checkpoint:
        run = FederatedRun(plan_of(), np.zeros(301, np.float32), checkpoint=checkpoint)
        run.save({"w": np.zeros(301)})
        for round_, order in zip(run, orders, strict=True):
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda client: round_.add(updates[client]), order))  # noqa: B023  # ends in this round
            round_.add_missing(40 - len(order))
            out.append(round_.release(denominator=10))
            run.save({"w": out[-1]})
    return out


def test_the_order_of_arrival_and_the_threads_change_no_bit(tmp_path, monkeypatch):
    chance = np.random.default_rng(1)
    members = [list(range(25)), list(range(10, 40))]
    expected = released(tmp_path / "one", members, 1, monkeypatch)
    for number in range(3):
        orders = [list(chance.permutation(each)) for each in members]
        found = released(tmp_path / f"order{number}", orders, 1 + number, monkeypatch)
        assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))


def test_an_update_of_a_round_that_is_over_is_refused_and_goes_into_the_one_that_is_open():
    """A late update is a difference from the model that its client was sent, and moves the sum by the clip norm."""
    run = FederatedRun(plan_of(), np.zeros(3))
    first = next(run)
    first.add_missing(40)
    first.release()
    stale, late = np.zeros(3), np.full(3, 1e6)
    with pytest.raises(FerroError):
        first.add(late, minus=stale)
    second = next(run)
    second.add(late, minus=stale)
    second.add_missing(39)
    change = second.release(denominator=1)
    # The clipped update has norm 1, and the noise of three coordinates is beyond 12 with probability below 1e-29.
    assert np.linalg.norm(change) < 1 + 12
