"""Sums of clipped rows: integers by definition, the same in any order, and noise once."""

import contextlib
import hashlib
import itertools
import math
import os
import pickle
import subprocess
import sys
import threading
from copy import copy, deepcopy
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.events import GaussianEvent, NonPrivateEvent
from reference import clipping as reference
from reference import keystream, rounded_noise
from support.clipping import DTYPES, LENGTHS, RANGES, rows_and_bounds


def accumulate(rows, template=None, **keywords):
    acc = fd.ClippedSum(rows[0] if template is None else template, **keywords)
    for row in rows:
        acc.add(row)
    return acc


def normal(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@given(rows_and_bounds())
def test_a_row_becomes_the_integers_of_the_definition(case):
    row, bound = case

    total = fd.clip_and_sum(row[None], clip_norm=bound)

    expected = reference.quantize([row], bound)
    assert expected == total.integers.tolist()
    assert sum(k * k for k in expected) <= (Fraction(bound) / Fraction(2) ** reference.grid(bound)) ** 2
    assert total.granularity == 2.0 ** reference.grid(bound)
    assert Fraction(bound) / 2**30 < Fraction(total.granularity) <= Fraction(bound) / 2**29


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_of_rows_of_every_length_are_those_of_the_definition(dtype, length):
    matrix = normal(5, length, dtype=dtype, seed=length) / np.float32(0.5 + math.sqrt(length))
    expected = [reference.quantize([row], 0.9) for row in matrix]

    total = fd.clip_and_sum(matrix, clip_norm=0.9)

    assert [sum(column) for column in zip(*expected, strict=True)] == total.integers.tolist()
    assert total.count == 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_removing_a_row_moves_the_sum_by_at_most_the_clip_norm(dtype):
    """Sensitivity, measured on the integers that are noised: rows at the bound, beyond and within, in many scales."""
    rng = np.random.default_rng(4)
    for bound in (1.0, 0.3, RANGES[dtype][0], RANGES[dtype][1]):
        matrix = rng.normal(size=(8, 50)) * np.float64(2.0) ** rng.integers(-30, 30, size=(8, 1))
        matrix[2] = matrix[2] / np.linalg.norm(matrix[2])
        matrix[3] = np.eye(50)[7]
        with np.errstate(over="ignore", under="ignore"):
            matrix = (matrix * bound).astype(dtype)
        whole = fd.clip_and_sum(matrix, clip_norm=bound).integers
        for gone in range(8):
            without = fd.clip_and_sum(np.delete(matrix, gone, axis=0), clip_norm=bound).integers

            squares = sum(int(k) ** 2 for k in whole - without)
            assert squares * Fraction(2) ** (2 * reference.grid(bound)) <= Fraction(bound) ** 2


@given(st.permutations(range(12)), st.lists(st.integers(1, 11), max_size=4), st.integers(1, 4))
def test_order_batches_merges_and_threads_change_no_bit(order, cuts, threads):
    matrix = normal(12, 40, seed=5)
    expected = fd.clip_and_sum(matrix, clip_norm=2.0).integers
    parts = np.split(matrix[order], sorted(set(cuts)))

    merged = fd.ClippedSum((40,), clip_norm=2.0, dtype=np.float32)
    for part in parts:
        acc = fd.ClippedSum((40,), clip_norm=2.0, dtype=np.float32)
        acc.add_many(part, threads=threads)
        merged.merge(acc)

    assert (expected == merged.integers).all()
    assert merged.count == 12


def test_adding_many_is_adding_one_by_one():
    template = {"w": np.zeros((3, 4), np.float32), "b": [np.zeros((), np.float32), np.zeros(0, np.float32)]}
    many = {"w": normal(6, 3, 4), "b": (normal(6, seed=2), np.zeros((6, 0), np.float32))}
    one_by_one = fd.ClippedSum(template, clip_norm=1.0)
    for i in range(6):
        one_by_one.add({"b": [many["b"][0][i], many["b"][1][i]], "w": many["w"][i]})
    at_once = fd.ClippedSum(template, clip_norm=1.0)
    at_once.add_many(many)
    at_once.add_many({"w": many["w"][:0], "b": [many["b"][0][:0], many["b"][1][:0]]})

    assert at_once.count == one_by_one.count == 6
    assert (at_once.integers["w"] == one_by_one.integers["w"]).all()
    assert at_once.integers["b"][0] == one_by_one.integers["b"][0]


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_rows_or_columns_with_the_same_sums(threads):
    for shape in [(300, 1000), (2, 70_001), (1, 300_000)]:
        matrix = normal(*shape)

        alone = fd.clip_and_sum(matrix, clip_norm=10.0, threads=1)
        shared = fd.clip_and_sum(matrix, clip_norm=10.0, threads=threads)

        assert (alone.integers == shared.integers).all()


def test_updates_from_many_threads_all_count():
    rows = normal(40, 3000)
    acc = fd.ClippedSum(rows[0], clip_norm=1.0)
    other = fd.ClippedSum(rows[0], clip_norm=1.0)

    def work(part):
        for row in part:
            acc.add(row)
            other.add(row)
            acc.merge(empty)
            empty.merge(fd.ClippedSum(rows[0], clip_norm=1.0))
            assert 0 < acc.count <= 40

    empty = fd.ClippedSum(rows[0], clip_norm=1.0)
    workers = [threading.Thread(target=work, args=(part,)) for part in np.split(rows, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert (fd.clip_and_sum(rows, clip_norm=1.0).integers == acc.integers).all()
    assert acc.count == other.count == 40


def test_merging_in_both_directions_at_once_ends():
    left, right = (fd.ClippedSum((1000,), clip_norm=1.0) for _ in range(2))

    def work(a, b):
        for _ in range(200):
            a.merge(b)

    workers = [threading.Thread(target=work, args=pair) for pair in ((left, right), (right, left))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=30)

    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_update_that_is_not_finite_counts_as_zeros(bad):
    update = {"a": np.ones(3), "b": np.array([0.1, bad])}
    acc = fd.ClippedSum(update, clip_norm=1.0)

    acc.add(update)
    acc.add({"a": np.zeros(3), "b": np.array([0.5, 0.0])})

    assert acc.count == 2
    assert acc.to_float()["a"].tolist() == [0.0] * 3
    assert acc.to_float()["b"].tolist() == [0.5, 0.0]


def seed_of(name):
    return hashlib.sha256(name.encode()).digest()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("bound", "multiplier"), [(1.0, 1.1), (0.3, 1e-6), (1.9, 1e-4), (0.7, 60.0), (7.7, 300.0)])
def test_a_release_is_sum_plus_noise_by_definition(dtype, bound, multiplier):
    """Bit for bit: the sum with noise is rounded to the grid of the noise, and that integer once to a float."""
    seed = seed_of(f"release {np.dtype(dtype)} {bound} {multiplier}")
    matrix = normal(4, 30, dtype=dtype)
    total = fd.clip_and_sum(matrix, clip_norm=bound)
    integers = total.integers.tolist()

    released = total.release(noise_multiplier=multiplier, source=fd.testing.seeded(seed))

    key = keystream.call_key(seed, 0)
    scale = Fraction(multiplier * bound)
    if scale < Fraction(multiplier) * Fraction(bound):
        scale = Fraction(math.nextafter(multiplier * bound, math.inf))
    unit = grid = Fraction(total.granularity)
    if dtype is np.float32:
        while grid * 2**13 <= scale and grid < unit * 2**24:
            grid *= 2
    sampled = (rounded_noise.sample(key, i, "gaussian", k * unit, scale, grid) for i, k in enumerate(integers))
    expected = [rounded_noise.output(n, grid, np.dtype(dtype)) for n in sampled]
    assert released.dtype == dtype
    assert expected == released.tolist()


def test_every_leaf_gets_noise_of_its_own_and_the_shape_of_the_template():
    template = {"w": np.zeros((2, 3), np.float32), "b": (np.zeros((), np.float32), np.zeros(0, np.float32))}
    acc = fd.ClippedSum(template, clip_norm=1.0)

    released = acc.release(noise_multiplier=1.0)

    assert released["w"].shape == (2, 3)
    assert [leaf.shape for leaf in released["b"]] == [(), (0,)]
    values = [*released["w"].ravel().tolist(), released["b"][0].item()]
    assert len(set(values)) == 7  # equal floats of 24 bits: below 21 pairs · 2⁻²⁰
    assert all(leaf.dtype == np.float32 for leaf in (released["w"], *released["b"]))


def test_a_sum_of_no_rows_is_noised_like_any_other():
    released = fd.ClippedSum((1000,), clip_norm=1.0).release(noise_multiplier=2.0)

    # χ² with 1000 degrees of freedom: beyond ±6.5 standard deviations with probability below 1e-9.
    assert abs(np.sum(released**2) / 4 - 1000) < 6.5 * math.sqrt(2000)
    empty = fd.clip_and_sum(np.zeros((0, 7)), clip_norm=1.0)
    assert empty.count == 0
    assert np.count_nonzero(empty.release(noise_multiplier=1.0)) == 7  # an integer below 2³⁰ is 0 once in 2³⁰


def test_a_mean_is_the_sum_divided_by_a_public_number():
    matrix = normal(10, 6)
    seed = seed_of("mean")
    total = fd.clip_and_sum(matrix, clip_norm=1.0).release(noise_multiplier=1.0, source=fd.testing.seeded(seed))
    mean = fd.clip_and_sum(matrix, clip_norm=1.0)

    released = mean.release(noise_multiplier=1.0, denominator=10, source=fd.testing.seeded(seed))

    assert ((total.astype(np.float64) / 10).astype(np.float32) == released).all()


def test_values_beyond_the_dtype_become_its_largest_number():
    acc = fd.ClippedSum((4,), clip_norm=2.0**127, dtype=np.float32)
    acc.add(np.array([2.0**127, 0, 0, 0], np.float32))
    acc.add(np.array([2.0**127, 0, 0, 0], np.float32))

    released = acc.release(noise_multiplier=1e-9, denominator=0.5)

    assert released[0] == np.finfo(np.float32).max


def test_a_sum_is_released_once():
    acc = accumulate(normal(3, 5), clip_norm=1.0)
    other = accumulate(normal(3, 5), clip_norm=1.0)
    with pytest.raises(fd.errors.FerroError, match="event is known after the release"):
        _ = acc.event
    acc.release(noise_multiplier=1.5)

    assert acc.event == GaussianEvent(noise_multiplier=1.5)
    attempts = [
        lambda: acc.release(noise_multiplier=1.5),
        lambda: acc.add(np.zeros(5, np.float32)),
        lambda: acc.add_many(np.zeros((2, 5), np.float32)),
        lambda: acc.add_many(np.zeros((0, 5), np.float32)),
        lambda: acc.merge(other),
        lambda: other.merge(acc),
        lambda: acc.state(),
    ]
    for attempt in attempts:
        with pytest.raises(fd.errors.FerroError, match="this sum has been released"):
            attempt()
    assert (acc.count, other.count) == (3, 3)


def test_what_refuses_first_leaves_the_sum_to_be_released():
    acc = accumulate(normal(3, 5), clip_norm=1.0)
    bad = [
        ({"noise_multiplier": 0.0}, "noise_multiplier must be finite and > 0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier must be finite and > 0"),
        ({"noise_multiplier": 1e9}, "noise_multiplier must be such that its product with clip_norm"),
        ({"noise_multiplier": 1e-12}, "noise_multiplier must be such that its product with clip_norm"),
        ({"noise_multiplier": 1.0, "denominator": 0}, "denominator must be finite and > 0"),
        ({"noise_multiplier": 1.0, "denominator": math.inf}, "denominator must be finite and > 0"),
        ({"noise_multiplier": 1.0, "threads": 0}, "threads must be"),
    ]
    for keywords, message in bad:
        with pytest.raises(fd.errors.InvalidParameter, match=message):
            acc.release(**keywords)
    for keywords in ({"noise_multiplier": "1"}, {"noise_multiplier": 1.0, "source": 1}):
        with pytest.raises(fd.errors.InvalidType):
            acc.release(**keywords)
    with pytest.raises(TypeError):
        acc.release(1.0)

    assert acc.release(noise_multiplier=1.0).shape == (5,)


def test_noise_from_a_seed_is_no_private_event():
    acc = fd.ClippedSum((3,), clip_norm=1.0)
    acc.release(noise_multiplier=1.0, source=fd.testing.seeded(bytes(32)))

    assert acc.event == NonPrivateEvent()


def test_racing_releases_give_one_result():
    acc = fd.ClippedSum((100_000,), clip_norm=1.0)
    outcomes = []

    def work():
        try:
            outcomes.append(acc.release(noise_multiplier=1.0) is not None)
        except fd.errors.FerroError:
            outcomes.append(False)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert sorted(outcomes) == [False] * 7 + [True]


def test_a_sum_is_not_copied_and_shows_no_data():
    acc = accumulate([np.array([0.5, 0.25])], clip_norm=1.0)

    for how in (copy, deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="could be released again"):
            how(acc)
    assert repr(acc) == "<ClippedSum of 2 float64, clip_norm=1.0>"
    with pytest.raises(AttributeError):
        acc.clip_norm = 2.0


def test_sums_that_differ_do_not_merge():
    acc = fd.ClippedSum({"a": (2,)}, clip_norm=1.0)
    others = [
        fd.ClippedSum({"a": (2,)}, clip_norm=math.nextafter(1.0, 2)),
        fd.ClippedSum({"a": (2,)}, clip_norm=1.0, dtype=np.float32),
        fd.ClippedSum({"b": (2,)}, clip_norm=1.0),
        fd.ClippedSum({"a": (1, 2)}, clip_norm=1.0),
        fd.ClippedSum([(2,)], clip_norm=1.0),
        fd.ClippedSum((2,), clip_norm=1.0),
    ]
    for other in others:
        with pytest.raises(fd.errors.InvalidParameter, match=r"clip_norm|same template"):
            acc.merge(other)
    with pytest.raises(fd.errors.FerroError, match="every row would count twice"):
        acc.merge(acc)
    with pytest.raises(fd.errors.InvalidType, match="other must be a ClippedSum"):
        acc.merge(fd.clip_and_sum(np.zeros((1, 2)), clip_norm=1.0))
    assert acc.count == 0


def test_an_array_that_changes_while_it_is_added_breaks_the_sum_or_is_summed_as_it_was():
    """Whatever a racing writer does, the sum is either broken or moved by rows within the bound."""
    row = np.zeros(200_000, np.float32)
    stop = threading.Event()

    def scribble():
        for value in itertools.cycle([0.0, 3e38, math.nan, 1e-3]):
            row[::7] = value
            if stop.is_set():
                return

    writer = threading.Thread(target=scribble)
    writer.start()
    try:
        for _ in range(100):
            acc = fd.ClippedSum(row, clip_norm=1.0)
            with contextlib.suppress(fd.errors.InvalidArray):
                acc.add(row, threads=1)
                integers = acc.integers
                assert sum(int(k) ** 2 for k in integers[integers != 0]) <= 2**58
                continue
            with pytest.raises(fd.errors.InvalidArray, match="changed by another thread"):
                acc.release(noise_multiplier=1.0)
    finally:
        stop.set()
        writer.join()


SCRIPT = """
import hashlib
import numpy as np
import ferrodp as fd
assert fd._native.isa == {isa!r}
digest = hashlib.sha256()
for dtype in (np.float32, np.float64):
    matrix = np.random.default_rng(1).normal(size=(70, 5003)).astype(dtype)
    matrix[3] *= dtype(1e-3)
    acc = fd.clip_and_sum(matrix, clip_norm=1.0)
    digest.update(acc.integers)
    digest.update(acc.release(noise_multiplier=1.0, source=fd.testing.seeded(bytes(32))))
    for order in (1, 2, np.inf):
        for out in fd.clip_rows(matrix, clip_norm=1.0, ord=order):
            digest.update(out)
print(digest.hexdigest())
"""


def test_every_instruction_set_gives_the_same_bits():
    def run(isa):
        environment = {**os.environ, "FERRODP_ISA": isa}
        command = [sys.executable, "-c", SCRIPT.format(isa=isa)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({run(isa) for isa in fd._native.available_isas}) == 1


@pytest.mark.parametrize("shape", [(2**62, 0, 2**62), (2**60, 0), (0, 2**63)])
def test_a_shape_that_no_result_can_have_is_refused_before_anything_is_added(shape):
    """numpy counts a length of 0 as 1 when it multiplies: such a sum would be released and then lost."""
    with pytest.raises(fd.errors.InvalidParameter, match="must"):
        fd.ClippedSum({"w": shape}, clip_norm=1.0)
    with pytest.raises(fd.errors.InvalidParameter, match="template must stand for at most"):
        fd.ClippedSum(np.zeros((2**60, 0), np.float32), clip_norm=1.0)


def test_a_sum_of_no_elements_is_released():
    total = fd.ClippedSum((2**50, 0), clip_norm=1.0)
    total.add(np.zeros((2**50, 0)))

    assert total.release(noise_multiplier=1.0).shape == (2**50, 0)
