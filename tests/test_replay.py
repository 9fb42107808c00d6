"""Code around releases, tried by recording a run and replaying it on a neighboring dataset."""

import dataclasses
import math
import threading
from fractions import Fraction

import numpy as np
import pytest

import ferrodp as fd
from ferrodp import demo
from ferrodp.accounting import ComposedEvent, EpsilonDeltaEvent, GaussianEvent, ParallelEvent
from ferrodp.federated import LocalNoise
from ferrodp.testing import record, replay
from support.tickets import CASES

CLIENTS = [{"update": np.full(3, 0.1 * k, np.float32), "improved": k % 2 == 0} for k in range(1, 8)]


def federated_round(clients, *, copies=1, denominator=8, noise_multiplier=lambda clients: 1.0, follow_up=None):
    """One round: how many clients improved, which of two clip norms to use next, and the mean update.

    The keyword arguments are mistakes.
    """
    improved = fd.private_count(np.array([client["improved"] for client in clients]), epsilon=1.0)
    clip_norm = 1.0 if improved.value > len(CLIENTS) / 2 else 0.5
    total = fd.ClippedSum((3,), clip_norm=clip_norm, dtype=np.float32)
    for client in clients:
        for _ in range(copies):
            total.add(client["update"])
    chosen = denominator(clients) if callable(denominator) else denominator
    mean = total.release(noise_multiplier=noise_multiplier(clients), denominator=chosen)
    if follow_up is not None:
        follow_up(clients, mean)
    return improved.value, clip_norm, mean.tolist()


def replayed(code, dataset, neighbor):
    """Return what the code returns on both, or raise `AssertionError`."""
    with record() as log:
        first = code(dataset)
    with replay(log) as again:
        second = code(neighbor)
    assert [each.event for each in again] == [each.event for each in log]
    return first, second


@pytest.mark.parametrize("left_out", range(len(CLIENTS)))
def test_a_round_returns_the_same_for_neighbors_that_get_the_same_noised_values(left_out):
    neighbor = CLIENTS[:left_out] + CLIENTS[left_out + 1 :]
    for datasets in [(CLIENTS, neighbor), (neighbor, CLIENTS)]:
        first, second = replayed(federated_round, *datasets)
        assert first == second


laplace = fd.LaplaceMechanism(scale=1.0, l1_sensitivity=1.0)
choice = fd.ExponentialMechanism(scale=2.0, sensitivity=1.0)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"copies": 2}, "further from the recorded one than its declared L2 sensitivity"),
        ({"denominator": len}, "another public parameters"),
        ({"noise_multiplier": lambda clients: 1.0 + len(clients)}, "another event"),
        ({"follow_up": lambda clients, _: len(clients) < 7 and laplace.release(0.0)}, "is not in the record"),
        ({"follow_up": lambda clients, _: len(clients) == 7 and laplace.release(0.0)}, "the record has 3"),
        ({"follow_up": lambda clients, _: laplace.release(2.0 * len(clients))}, "declared L1 sensitivity"),
        ({"follow_up": lambda clients, _: laplace.release(np.zeros(len(clients)))}, "another shape of the input"),
        ({"follow_up": lambda clients, _: choice.release([0, 2 * len(clients)])}, "declared Linf sensitivity"),
        ({"follow_up": lambda clients, _: choice.release([0, 1], candidates=[0, len(clients)])}, "public parameters"),
    ],
)
def test_mistakes_of_a_round_are_found(mistake, message):
    def round_with_a_mistake(clients):
        return federated_round(clients, **mistake)

    with pytest.raises(AssertionError, match=message):
        replayed(round_with_a_mistake, CLIENTS, CLIENTS[:-1])


def test_the_demo_is_private_for_a_client_that_sends_zeros_instead():
    data = demo.load_digits()
    few = dataclasses.replace(data, clients=data.clients[:5])
    silent = dataclasses.replace(few.clients[0], images=np.full_like(few.clients[0].images, np.nan))
    neighbor = dataclasses.replace(few, clients=(silent, *few.clients[1:]))

    def train(dataset, rounds=3):
        return demo.train(dataset, demo.Settings(rounds=rounds, epsilon=100.0))

    with np.errstate(invalid="ignore"):
        first, second = replayed(train, few, neighbor)
    assert first.rounds == second.rounds
    for name in first.model:
        np.testing.assert_array_equal(first.model[name], second.model[name])


def test_the_number_of_clients_of_the_demo_is_public():
    """The releases of a round do not tell whether a client is missing; the mean that is published does."""
    data = demo.load_digits()
    few, fewer = (dataclasses.replace(data, clients=data.clients[:count]) for count in (5, 4))
    first, second = replayed(lambda dataset: demo.train(dataset, demo.Settings(rounds=1)), few, fewer)
    for name in first.model:
        np.testing.assert_allclose(5 * first.model[name], 4 * second.model[name], rtol=2**-21)  # 4 roundings


def flat(event):
    """What an event consists of, one release after another: of disjoint groups, too."""
    composed = isinstance(event, (ComposedEvent, ParallelEvent))
    return tuple(part for each in event.events for part in flat(each)) if composed else (event,)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_release_reports_what_it_costs(case):
    before = None if case.buffer is None else case.buffer.tolist()
    with record() as log:
        released = case.release()
    if type(released).__module__.startswith("ferrodp.statistics"):
        event = released.event
    else:  # a sum states its event for rows that come and go, whatever the ticket is about
        of_sum = isinstance(case.owner, type) and issubclass(case.owner, (fd.GridSum, LocalNoise))
        event = GaussianEvent(noise_multiplier=1.5) if of_sum else case.event
    events = tuple(each.event for each in log)
    if case.owner is fd.private_group_by:  # keys found cost delta too
        assert isinstance(event, EpsilonDeltaEvent)
        assert event.epsilon >= log[0].sensitivity / float(events[0].scale)
        event = events[0]
    assert flat(event) == events
    assert all(0.0 < each.sensitivity < math.inf for each in log)
    if case.buffer is not None:
        assert log[0].output.tolist() == case.buffer.tolist()
        assert log[0].value.tolist() in (before, np.ones(case.buffer.size).tolist())


@pytest.mark.parametrize("case", [case for case in CASES if case.buffer is None], ids=lambda case: case.name)
def test_a_replay_returns_what_was_recorded(case):
    def run(_):
        released = case.release()
        if isinstance(released, fd.SparseVector):
            return [released.query(value) for value in (10.0, -1e3, 10.0) if released.remaining]
        return released.value if isinstance(released, fd.statistics.Estimate) else released

    first, second = replayed(run, None, None)
    assert type(first) is type(second)
    assert str(first) == str(second)


def test_queries_of_a_run_cost_nothing_further_and_end_where_they_ended():
    def answers(values):
        run = fd.SparseVector(threshold=1e3, sensitivity=1.0, epsilon=1.0, max_answers=2)
        return [run.query(value) for value in values if run.remaining]

    with record() as log:
        first = answers([0.0, 1e6, 0.0, 1e6, 0.0])
    assert [each.event for each in log] == [EpsilonDeltaEvent(epsilon=1.0), *[ComposedEvent(events=())] * 4]
    with replay(log):
        assert answers([1.0, 1e6 + 1.0, 0.0, 1e6, 5.0]) == first
    with pytest.raises(AssertionError, match="declared Linf"), replay(log):
        answers([1.5, 1e6, 0.0, 1e6, 0.0])


@pytest.mark.parametrize(
    ("mechanism", "near", "far"),
    [
        (fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=5.0), [3.0, 4.0], [3.0, math.nextafter(4.0, 5.0)]),
        (fd.LaplaceMechanism(scale=1.0, l1_sensitivity=7.0), [3.0, -4.0], [3.0, -math.nextafter(4.0, 5.0)]),
        (fd.DiscreteGaussianMechanism(scale=1.0, l2_sensitivity=5.0, dimension=2), [3, 4], [4, 4]),
        (fd.DiscreteLaplaceMechanism(scale=1.0, l1_sensitivity=7), [3, -4], [4, -4]),
        (fd.RandomizedResponse(noise_parameter=0.5, num_categories=9), [0, 8], [1, 8]),
        (fd.UnaryResponse(weight=3, digits=4, num_categories=9), [0, 8], [1, 8]),
        (
            fd.VectorResponse(weight=3, dimension=2, num_directions=2, size=1, l2_clip_norm=1.0),
            [[3.0, -4.0], [0.0, 0.0]],
            [[3.0, 0.0], [1.0, 2.0]],
        ),
        (fd.ReportNoisyMax(scale=1.0, sensitivity=4.0), [3.0, -4.0], [3.0, -math.nextafter(4.0, 5.0)]),
        (fd.GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1e-200), [math.nan, math.inf], [0.0, 1e-199]),
    ],
)
def test_distances_are_exact_up_to_the_declared_sensitivity(mechanism, near, far):
    with record() as log:
        mechanism.release(np.zeros_like(np.array(near)))
    with replay(log):
        mechanism.release(np.array(near))
    with pytest.raises(AssertionError, match="sensitivity"), replay(log):
        mechanism.release(np.array(far))


def test_a_sum_is_measured_in_units_of_its_grid():
    total = fd.clip_and_sum(np.array([[3.0, 4.0]]), clip_norm=1.0)
    with record() as log:
        total.release(noise_multiplier=1.0)
    (seen,) = log
    assert seen.mechanism == "GridSum"
    assert seen.event == GaussianEvent(noise_multiplier=1.0)
    assert seen.unit == total.granularity
    assert seen.value.tolist() == total.integers.tolist()
    longest = sum((Fraction(k) * Fraction(seen.unit)) ** 2 for k in seen.value.tolist())
    assert 0.999 < longest <= 1


def test_nothing_is_seen_outside_the_block_or_of_other_threads():
    laplace.release(1.0)
    with record() as log:
        other = threading.Thread(target=laplace.release, args=(1.0,))
        other.start()
        other.join()
        with pytest.raises(ZeroDivisionError):
            fail_while_recording()
        laplace.release(2.0)
    laplace.release(3.0)
    assert [float(each.value) for each in log] == [2.0]


def fail_while_recording():
    with record():
        raise ZeroDivisionError


def test_the_noise_of_a_recorded_release_is_real():
    with record():
        assert laplace.release(1.0) != laplace.release(1.0)
