"""Copies of a process or of an object never share noise.

Every draw here is of fresh keys, so the tests are not repeatable; two honest draws agree with probability below 2^-128.
"""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import ferrodp as fd
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism

SHARED = fd.NoiseSource()
DRAW = 64  # bytes


def draw(source: fd.NoiseSource = SHARED) -> bytes:
    """Return noise of every kind, cut to its low-order bytes, which are those that are random."""
    gaussian = source.gaussian(16, standard_deviation=1.0).tobytes()
    laplace = source.laplace(16, scale=1.0).tobytes()
    array = np.zeros(16, np.float32)
    source.add_gaussian_(array, standard_deviation=1.0)
    return b"".join((gaussian[:16], laplace[:16], array.tobytes()[:16], source.bytes(16)))


def draw_with_threads() -> bytes:
    """Make a large draw, which starts threads of its own, and then a small one."""
    SHARED.gaussian(600_000, standard_deviation=1.0, threads=2)
    return draw()


def parts(draws: list[bytes]) -> list[bytes]:
    """Cut draws into runs of 16 bytes, none of which may appear twice."""
    assert all(len(one) == DRAW for one in draws)
    return [one[i : i + 16] for one in draws for i in range(0, DRAW, 16)]


def assert_all_differ(draws: list[bytes]) -> None:
    found = parts(draws)
    assert len(set(found)) == len(found)


def in_fork(work: Callable[[], bytes]) -> bytes:
    """Return what `work` returns in a bare forked child, which runs nothing else and is killed after 30 seconds."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of threads of the test process, which the child leaves alone
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            os.write(writer, work())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def test_calls_never_repeat():
    assert_all_differ([draw() for _ in range(200)])


def test_sources_never_repeat():
    assert_all_differ([draw(fd.NoiseSource()) for _ in range(50)])


def test_copies_of_a_source_draw_their_own_noise():
    copies = [copy.copy(SHARED), copy.deepcopy(SHARED), pickle.loads(pickle.dumps(SHARED))]

    assert_all_differ([draw(source) for source in (SHARED, *copies) for _ in range(3)])


def test_pickling_a_source_saves_no_state():
    before = pickle.dumps(SHARED)
    draw()

    assert pickle.dumps(SHARED) == before
    assert len(before) < 100


MECHANISMS = {
    "gaussian": GaussianMechanism(noise_multiplier=1.0, l2_sensitivity=1.0),
    "laplace": LaplaceMechanism(scale=1.0, l1_sensitivity=1.0),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_copies_of_a_mechanism_draw_their_own_noise(name):
    mechanism = MECHANISMS[name]
    copies = [mechanism, copy.copy(mechanism), copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))]

    def release(one):
        return one.release(np.zeros(DRAW // 8)).tobytes()

    assert_all_differ([*(release(one) for one in copies for _ in range(3)), in_fork(lambda: release(mechanism))])


def test_forked_children_and_grandchildren_draw_their_own_noise():
    """All start from the same memory, after the source has been used."""
    draw()
    family = [in_fork(draw) for _ in range(3)]
    family.append(in_fork(lambda: in_fork(draw)))
    family.append(in_fork(lambda: draw() + in_fork(draw))[DRAW:])

    assert_all_differ([*family, draw()])


def test_a_fork_between_two_draws_splits_the_streams():
    both = in_fork(lambda: b"".join(draw() for _ in range(3)))
    ours = [draw() for _ in range(3)]

    assert_all_differ([both[i : i + DRAW] for i in range(0, len(both), DRAW)] + ours)


def test_a_child_forked_while_threads_draw_neither_hangs_nor_repeats():
    stop = threading.Event()
    drawn: list[bytes] = []

    def keep_drawing() -> None:
        while not stop.is_set():
            SHARED.gaussian(50_000, standard_deviation=1.0, threads=2)
            drawn.append(draw())

    threads = [threading.Thread(target=keep_drawing) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        # Large draws start threads of their own in the child too.
        children = [
            in_fork(lambda: SHARED.gaussian(600_000, standard_deviation=1.0)[:0].tobytes() + draw()) for _ in range(8)
        ]
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert len(drawn) > 4
    assert_all_differ(children + drawn)


def test_threads_draw_their_own_noise():
    drawn: list[bytes] = []
    barrier = threading.Barrier(16)

    def work() -> None:
        barrier.wait()
        drawn.extend(draw() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(drawn) == 320
    assert_all_differ(drawn)


def test_spawned_workers_draw_their_own_noise():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        drawn = pool.map(draw, [SHARED, fd.NoiseSource()] * 4, chunksize=1)

    assert_all_differ([*drawn, draw()])


def test_restarted_processes_draw_their_own_noise():
    script = f"import sys; sys.path[:] = {sys.path!r}; import test_stream_copies as t; sys.stdout.write(t.draw().hex())"
    command = [sys.executable, "-c", script]
    runs = [
        subprocess.run(command, capture_output=True, check=True, cwd=os.path.dirname(__file__), text=True).stdout
        for _ in range(2)
    ]

    assert_all_differ([bytes.fromhex(run) for run in runs])


def test_a_bit_generator_diverges_in_forked_children_and_grandchildren():
    """It has state, in the middle of a buffer here, which the kernel wipes in every child."""
    rng = np.random.Generator(fd.random.BitGenerator())

    def words() -> bytes:
        return rng.integers(0, 2**64, DRAW // 8, dtype=np.uint64).tobytes()

    before = words()
    family = [in_fork(words) for _ in range(3)]
    family.append(in_fork(lambda: in_fork(words)))
    family.append(in_fork(lambda: words() + in_fork(words))[DRAW:])

    assert_all_differ([before, *family, words()])


def test_two_releases_of_one_restored_sum_draw_their_own_noise():
    """That is a second release, which the caller has to account for; the noise is not the first one's again."""
    accumulator = fd.ClippedSum((DRAW // 8,), clip_norm=1.0)
    state = accumulator.state()
    sums = [accumulator, fd.ClippedSum.from_state(state), fd.ClippedSum.from_state(state)]

    assert_all_differ([one.release(noise_multiplier=1.0).tobytes() for one in sums])


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_sum_refuses_to_be_copied(copier):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copier(fd.ClippedSum((3,), clip_norm=1.0))


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_seeded_source_refuses_to_be_copied(copier):
    """A copy would replay what the original draws next, and nobody would have asked for it."""
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copier(fd.testing.seeded(bytes(32)))
