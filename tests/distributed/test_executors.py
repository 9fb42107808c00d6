"""Sums over partitions on executors: the integers of one process, whatever runs, in whatever order."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.distributed import tree

TEMPLATE = {"w": (3, 2), "b": (5,)}


def update(seed):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=(3, 2)).astype(np.float32), "b": rng.normal(size=5).astype(np.float32)}


def updates(seeds):
    return [update(seed) for seed in seeds]


def stack(seeds):
    loaded = updates(seeds)
    return {key: np.stack([each[key] for each in loaded]) for key in TEMPLATE}


def one_process(seeds, stability=None):
    total = fd.ClippedSum(TEMPLATE, clip_norm=0.7, stability=stability, dtype=np.float32)
    for seed in seeds:
        total.add(update(seed))
    return total.state()


def summed(partitions, **options):
    return fd.distributed.clipped_sum(partitions, TEMPLATE, clip_norm=0.7, dtype=np.float32, **options)


class Late(Executor):
    """Runs everything twice, and tells in an order of its own: engines promise none."""

    def __init__(self, seed=0):
        self.rng, self.waiting, self.most, self.calls = np.random.default_rng(seed), [], 0, 0
        self.lock = threading.Lock()

    def submit(self, function, /, *args):
        future = Future()
        with self.lock:
            self.waiting.append((future, function, args))
            self.most = max(self.most, len(self.waiting))
        threading.Timer(0.001, self.finish).start()  # as many as there are tasks: each finishes one
        return future

    def finish(self):
        with self.lock:
            future, function, args = self.waiting.pop(self.rng.integers(len(self.waiting)))
            function(*args)  # a run that is lost, and one that counts
            self.calls += 2
        future.set_result(function(*args))


SEEDS = range(23)
PARTITIONS = [range(5), range(5, 6), range(6, 6), range(6, 20), range(20, 23)]


@pytest.mark.parametrize("stacked", [False, True])
def test_threads_give_the_integers_of_one_process(stacked):
    parts = [part for part in PARTITIONS if len(part)]
    total = summed(parts, load=stack if stacked else updates, stacked=stacked, expected_count=23)

    assert total.state() == one_process(SEEDS)


def test_normalized_updates_are_summed_as_in_one_process():
    total = summed(PARTITIONS, load=updates, stability=0.01, expected_count=23)

    assert total.stability == 0.01
    assert total.state() == one_process(SEEDS, 0.01) != one_process(SEEDS)


def test_processes_give_the_integers_of_one_process():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        total = summed([list(part) for part in PARTITIONS], load=updates, executor=pool, expected_count=23)

        assert total.state() == one_process(SEEDS)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_is_an_error_and_nothing_is_returned():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        pytest.raises(BrokenExecutor),
    ):
        summed([1, 2], load=die, executor=pool)


@pytest.mark.parametrize("seed", range(5))
def test_order_and_repeated_runs_change_nothing(seed):
    engine = Late(seed)
    total = summed(PARTITIONS, load=updates, executor=engine, max_pending=3)

    assert total.state() == one_process(SEEDS)
    assert engine.most <= 3
    assert engine.calls == 2 * len(PARTITIONS)


@given(
    sizes=st.lists(st.integers(0, 4), max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_any_division_and_any_tree_gives_the_same_sum(sizes, order):
    ends = np.cumsum([0, *sizes])
    parts = [range(a, b) for a, b in pairwise(ends)]
    order.shuffle(parts)
    _, leaf = tree.start(TEMPLATE, clip_norm=0.7, stability=None, dtype=np.float32, load=updates, stacked=False)

    root = tree.reduced(parts, lambda number, part: leaf(part), lambda height, number, nodes: tree.join(*nodes))

    if not sizes:
        assert root is None
    else:
        assert fd.ClippedSum.from_state(root).state() == one_process(range(ends[-1]))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 100])
def test_every_leaf_is_in_the_tree_once_and_no_node_has_more_than_four(count):
    most = []

    def join(height, number, nodes):
        most.append(len(nodes))
        return [leaf for node in nodes for leaf in node]

    root = tree.reduced(range(count), lambda number, part: [part], join)

    assert sorted(root or []) == list(range(count))
    assert all(2 <= size <= tree.FAN_IN for size in most)


def test_a_leaf_is_pure_and_can_be_pickled():
    _, leaf = tree.start(TEMPLATE, clip_norm=0.7, stability=None, dtype=np.float32, load=updates, stacked=False)
    again = pickle.loads(pickle.dumps(leaf))

    assert leaf(range(5)) == leaf(range(5)) == again(range(5))


def test_a_leaf_sums_several_partitions():
    _, leaf = tree.start(TEMPLATE, clip_norm=0.7, stability=None, dtype=np.float32, load=updates, stacked=False)

    assert fd.ClippedSum.from_state(leaf(*PARTITIONS)).state() == one_process(SEEDS)


class Flaky:
    """A loader that raises once for each partition, after it has given an update."""

    def __init__(self, most=1, error=OSError):
        self.attempts, self.most, self.error = {}, most, error

    def __call__(self, seeds):
        attempt = self.attempts[seeds] = self.attempts.get(seeds, 0) + 1
        for seed in seeds:
            yield update(seed)
            if attempt <= self.most:
                raise self.error("the shard broke off")


def retrying(load, retries):
    return tree.start(
        TEMPLATE, clip_norm=0.7, stability=None, dtype=np.float32, load=load, stacked=False, retries=retries
    )[1]


@pytest.mark.parametrize("most", [1, 2])
def test_partitions_whose_loaders_raise_are_loaded_again_and_count_once(most):
    load = Flaky(most)
    parts = [range(5), range(5, 6), range(6, 23)]
    state = retrying(load, most)(*parts)

    assert fd.ClippedSum.from_state(state).state() == one_process(SEEDS)
    assert set(load.attempts.values()) == {most + 1}


def test_a_loader_that_raises_each_time_is_given_up():
    load = Flaky(99)
    with pytest.raises(OSError, match="broke off"):
        retrying(load, 3)(range(5), range(5, 23))
    assert load.attempts == {range(5): 5}

    with pytest.raises(OSError, match="broke off"):
        retrying(Flaky(1), 0)(range(5))


def test_what_no_attempt_changes_is_not_tried_again():
    load = Flaky(99, fd.errors.InvalidParameter)
    with pytest.raises(fd.errors.InvalidParameter):
        retrying(load, 3)(range(5))
    assert load.attempts == {range(5): 1}


def test_iterators_are_not_read_again():
    """What an iterator has given is gone: the rest of it must not pass for all of it."""
    load = Flaky(1)
    with pytest.raises(OSError, match="broke off"):
        retrying(None, 3)(iter(load(range(5))))
    with pytest.raises(OSError, match="broke off"):
        retrying(lambda part: load(part) if isinstance(part, range) else part, 3)(iter(updates([1])), range(6))


@pytest.mark.parametrize(
    ("count", "workers", "sizes"),
    [
        (0, 2, []),
        (5, 2, [1] * 5),
        (8, 2, [1] * 8),
        (9, 2, [2, 2, 2, 2, 1]),
        (200, 2, [25] * 8),
        (3, 0, [1] * 3),
        (10, 0, [3, 3, 3, 1]),
    ],
)
def test_partitions_are_divided_into_four_leaves_for_each_worker(count, workers, sizes):
    groups = list(tree.grouped(range(count), count, workers, lambda part: False))

    assert [part for group in groups for part in group] == list(range(count))
    assert [len(group) for group in groups] == sizes


def test_partitions_that_lie_on_a_worker_and_iterators_are_leaves_of_their_own():
    reader = iter([])
    parts = [1, 2, 3, reader, 4, 5, 6, 7]

    groups = list(tree.grouped(parts, 80, 5, lambda part: part in (2, 5)))

    assert groups == [[2], [reader], [5], [1, 3, 4, 6], [7]]
    assert list(tree.grouped(iter([1, 2]), None, 1, lambda part: False)) == [[1], [2]]


def test_callables_iterables_and_files_are_partitions(tmp_path):
    np.savez(tmp_path / "update.npz", **update(0))
    parts = [tmp_path / "update.npz", partial(updates, [1, 2]), updates([3]), iter(updates([4]))]

    assert summed(parts).state() == one_process(range(5))


def test_a_file_of_one_array_is_an_update_of_one_array(tmp_path):
    np.save(tmp_path / "update.npy", np.full(4, 0.5))
    total = fd.distributed.clipped_sum([str(tmp_path / "update.npy")], (4,), clip_norm=2.0)

    assert total.to_float().tolist() == [0.5] * 4


def test_the_result_has_the_containers_of_the_template():
    arrays = [np.zeros(2, np.float32), (np.zeros(3, np.float32),)]
    total = fd.distributed.clipped_sum([[arrays]], arrays, clip_norm=1.0)
    released = total.release(noise_multiplier=1.0)

    assert [type(released), type(released[1]), released[1][0].dtype] == [list, tuple, np.float32]


@pytest.mark.parametrize(
    "partitions",
    [[1, 2, 1], ["a", "a"], [Path("a"), Path("b"), Path("a")], [(1, 2), (1, 2)], [b"a", b"a"]],
)
def test_a_partition_that_is_given_twice_is_refused(partitions):
    with pytest.raises(fd.errors.InvalidParameter, match="one is given twice"):
        summed(partitions, load=lambda _: [])


def test_the_same_object_twice_is_refused_where_a_sequence_holds_it():
    part = updates([1])
    for given_twice in (part, partial(updates, [1])):
        with pytest.raises(fd.errors.InvalidParameter, match="one is given twice"):
            summed([given_twice, given_twice])

    assert summed([updates([1]), updates([1])]).count == 2
    assert summed([(part,), (list(part),)], load=lambda pair: pair[0]).count == 2


def test_a_tuple_of_arrays_that_is_given_twice_is_refused():
    """It has no hash, so it is known as the object that it is."""
    pair = np.ones(4), np.zeros(4)
    with pytest.raises(fd.errors.InvalidParameter, match="one is given twice"):
        fd.distributed.clipped_sum([pair, pair], (4,), clip_norm=1.0)
    assert fd.distributed.clipped_sum([pair, (np.ones(4), np.zeros(4))], (4,), clip_norm=1.0).count == 4


def test_a_file_that_is_given_by_two_names_is_refused(tmp_path, monkeypatch):
    """Its update would weigh two clip norms."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.ones(4))
    (tmp_path / "link.npy").symlink_to("a.npy")
    for other in ("./a.npy", Path("a.npy"), str(tmp_path / "a.npy"), tmp_path / "link.npy"):
        with pytest.raises(fd.errors.InvalidParameter, match="one is given twice"):
            fd.distributed.clipped_sum(["a.npy", "b.npy", other], (4,), clip_norm=1.0)
    assert fd.distributed.clipped_sum(["a.npy", tmp_path / "b.npy"], (4,), clip_norm=1.0).count == 2
    os.link("a.npy", "hard.npy")
    for load in (None, np.load):
        for other in ("hard.npy", tmp_path / "hard.npy", "link.npy"):
            with pytest.raises(fd.errors.InvalidParameter, match="one is given twice"):
                fd.distributed.clipped_sum(["a.npy", "b.npy", other], (4,), clip_norm=1.0, load=load)
    names_of_something_else = {"load": lambda _: [np.ones(4)]}
    assert fd.distributed.clipped_sum(["a", "./a"], (4,), clip_norm=1.0, **names_of_something_else).count == 2


def test_the_count_of_updates_is_compared_with_what_is_expected():
    assert summed(PARTITIONS, load=updates, expected_count=23).count == 23
    for wrong in (0, 22, 24):
        with pytest.raises(fd.errors.FerroError, match="hold another number"):
            summed(PARTITIONS, load=updates, expected_count=wrong)


def test_no_partitions_are_the_sum_of_no_updates():
    total = summed([], expected_count=0)

    assert (total.count, total.release(noise_multiplier=1.0)["w"].shape) == (0, (3, 2))


def test_an_error_of_a_leaf_ends_the_call_and_cancels_what_has_not_begun():
    begun = []

    def load(number):
        begun.append(number)
        if number == 0:
            raise RuntimeError("no such shard")
        time.sleep(0.01)
        return []

    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="no such shard"):
        summed(range(100), load=load, executor=pool, max_pending=50)

    assert len(begun) < 10


def test_partitions_are_taken_in_step_with_the_work():
    taken, finished = [], []

    def partitions():
        for number in range(20):
            taken.append(number)
            assert len(taken) - len(finished) <= 4
            yield number

    def load(number):
        finished.append(number)
        return updates([number])

    assert summed(partitions(), load=load, max_pending=2).count == 20


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"partitions": "abc"}, fd.errors.InvalidType),
        ({"partitions": {"a": 1}}, fd.errors.InvalidType),
        ({"partitions": 5}, fd.errors.InvalidType),
        ({"load": 5}, fd.errors.InvalidType),
        ({"stacked": 1}, fd.errors.InvalidParameter),
        ({"expected_count": -1}, fd.errors.InvalidParameter),
        ({"expected_count": 1.0}, fd.errors.InvalidType),
        ({"max_pending": 0}, fd.errors.InvalidParameter),
        ({"executor": "threads"}, fd.errors.InvalidType),
        ({"clip_norm": 0.0}, fd.errors.InvalidParameter),
        ({"dtype": np.int64}, fd.errors.InvalidArrayType),
        ({"partitions": [[{"w": np.zeros((3, 2), np.float32)}]]}, fd.errors.InvalidArray),
    ],
)
def test_what_is_not_accepted_is_refused(options, error):
    asked = {"partitions": [], "clip_norm": 1.0, "dtype": np.float32} | options
    with pytest.raises(error):
        fd.distributed.clipped_sum(asked.pop("partitions"), TEMPLATE, **asked)
