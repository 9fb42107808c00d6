"""Automatic clipping: every row is scaled by the clip norm over its norm plus a stability, and none is ever longer."""

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp.events import GaussianEvent
from reference import clipping as reference
from support.clipping import DTYPES, LENGTHS, RANGES, clip_norms, far_rows_and_bounds, rows_and_bounds


def normal(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def longest(bound):
    """The square of the largest norm of a row of integers, exactly."""
    return (Fraction(bound) / Fraction(2) ** reference.grid(bound)) ** 2


@given(st.data())
def test_a_row_becomes_the_integers_of_the_definition_and_is_never_too_long(data):
    row, bound = data.draw(st.one_of(rows_and_bounds(), far_rows_and_bounds()))
    stability = data.draw(st.one_of(clip_norms(row.dtype.type), st.just(0.01)))

    total = fd.clip_and_sum(row[None], clip_norm=bound, stability=stability)

    expected = reference.quantize([row], bound, stability)
    assert expected == total.integers.tolist()
    assert sum(k * k for k in expected) <= longest(bound)
    assert total.within_bound == (np.isfinite(row).all() and reference.within(row, bound, 2))


@given(far_rows_and_bounds(), st.data())
def test_a_row_has_the_length_and_the_direction_that_the_formula_gives(case, data):
    """Against exact arithmetic: off by less than a step of the grid and what rounding may take of the length."""
    row, bound = case
    stability = data.draw(clip_norms(row.dtype.type))
    norm_squared = reference.exact_power_sum(row, 2)
    norm = Fraction(math.isqrt(int(norm_squared * 4**1200)), 2**1200)

    integers = fd.clip_and_sum(row[None], clip_norm=bound, stability=stability).integers.tolist()

    g = Fraction(2) ** reference.grid(bound)
    for x, k in zip(row, integers, strict=True):
        ideal = abs(Fraction(float(x))) * Fraction(bound) / (norm + Fraction(stability)) / g
        # The slack of the factor is 4 (148 + 2) 2^-53 < 2^-43, its roundings and those of the norm less.
        assert ideal * (1 - Fraction(1, 2**42)) - 1 <= abs(k) <= ideal
        assert k == 0 or (k > 0) == (x > 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_every_length_are_those_of_the_definition(dtype, length):
    matrix = normal(4, length, dtype=dtype, seed=length) * np.array([[1e-6], [1], [1e6], [0]], dtype)
    expected = [reference.quantize([row], 0.9, 0.25) for row in matrix]

    total = fd.clip_and_sum(matrix, clip_norm=0.9, stability=0.25)

    assert [sum(column) for column in zip(*expected, strict=True)] == total.integers.tolist()
    assert expected[3] == [0] * length


@pytest.mark.parametrize("dtype", DTYPES)
def test_removing_a_row_moves_the_sum_by_at_most_the_clip_norm(dtype):
    for bound in (1.0, 0.3, *RANGES[dtype]):
        for stability in (0.01, *RANGES[dtype]):
            with np.errstate(over="ignore", under="ignore"):
                matrix = normal(6, 50, dtype=dtype) * (dtype(2) ** np.arange(-60, 60, 20, dtype=dtype))[:, None]
            whole = fd.clip_and_sum(matrix, clip_norm=bound, stability=stability).integers
            for gone in range(6):
                without = fd.clip_and_sum(
                    np.delete(matrix, gone, axis=0), clip_norm=bound, stability=stability
                ).integers

                assert sum(int(k) ** 2 for k in whole - without) <= longest(bound)


@given(st.permutations(range(12)), st.lists(st.integers(1, 11), max_size=4), st.integers(1, 4))
def test_order_batches_merges_and_threads_change_no_bit(order, cuts, threads):
    matrix = normal(12, 40, seed=5) * np.float32(2) ** np.arange(-6, 6, dtype=np.float32)[:, None]
    expected = fd.clip_and_sum(matrix, clip_norm=2.0, stability=0.5)
    settings = {"clip_norm": 2.0, "stability": 0.5, "dtype": np.float32}

    merged = fd.ClippedSum((40,), **settings)
    for part in np.split(matrix[order], sorted(set(cuts))):
        acc = fd.ClippedSum((40,), **settings)
        acc.add_many(part, threads=threads)
        merged.merge(fd.ClippedSum.from_state(acc.state()))

    assert (expected.integers == merged.integers).all()
    assert (merged.count, merged.stability, merged.within_bound) == (12, 0.5, expected.within_bound)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(300, 1000), (2, 70_001), (1, 300_000)])
def test_threads_and_layouts_change_no_bit(shape, threads):
    matrix = normal(*shape) * np.float32(0.01)
    matrix[0, 5] = 1e10
    expected = fd.clip_and_sum(matrix, clip_norm=10.0, stability=1.0, threads=1)
    for data in (matrix, np.asfortranarray(matrix), matrix[::-1, ::-1], matrix.astype(">f4")):
        total = fd.clip_and_sum(data[::-1, ::-1] if data.strides[0] < 0 else data, clip_norm=10.0, stability=1.0)

        assert (expected.integers == total.integers).all()
    shared = fd.clip_and_sum(matrix, clip_norm=10.0, stability=1.0, threads=threads)
    assert (shared.integers == expected.integers).all()
    assert shared.within_bound == expected.within_bound


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_update_that_is_not_finite_counts_as_zeros(bad):
    acc = fd.ClippedSum({"a": (3,), "b": (2,)}, clip_norm=1.0, stability=0.5)
    acc.add({"a": np.ones(3), "b": np.array([0.1, bad])})
    acc.add({"a": np.zeros(3), "b": np.zeros(2)})

    assert acc.to_float()["a"].tolist() == [0.0] * 3
    assert acc.to_float()["b"].tolist() == [0.0] * 2
    assert (acc.count, acc.within_bound) == (2, 1)


def test_leaves_of_no_axes_and_of_no_elements_are_part_of_the_vector():
    acc = fd.ClippedSum([(), (0,), (2, 0)], clip_norm=3.0, stability=1.0)
    acc.add([np.array(-5.0), np.zeros(0), np.zeros((2, 0))])

    assert acc.to_float()[0] == pytest.approx(-3.0 * 5.0 / 6.0)


def test_the_release_is_a_gaussian_event_of_sensitivity_one_clip_norm():
    acc = fd.ClippedSum((1000,), clip_norm=4.0, stability=0.01)
    released = acc.release(noise_multiplier=0.5)

    assert acc.event == GaussianEvent(noise_multiplier=0.5)
    # χ² with 1000 degrees of freedom and standard deviation 2: beyond ±6.5 of its own with probability below 1e-9.
    assert abs(np.sum(released**2) / 4 - 1000) < 6.5 * math.sqrt(2000)


def test_a_stability_outside_of_the_range_of_clip_norms_is_refused():
    accepted = {np.float32: "2^-120 and below 2^128", np.float64: "2^-500 and below 2^500"}
    for dtype in DTYPES:
        for bad in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(fd.errors.InvalidParameter, match="stability must be finite and > 0"):
                fd.ClippedSum((2,), clip_norm=1.0, stability=bad, dtype=dtype)
        low, high = RANGES[dtype]
        for bad in (math.nextafter(low, 0), math.nextafter(high, math.inf)):
            with pytest.raises(
                fd.errors.InvalidParameter, match=f"stability must be at least {accepted[dtype]}".replace("^", r"\^")
            ):
                fd.clip_and_sum(np.zeros((1, 2), dtype), clip_norm=1.0, stability=bad)
        for good in (low, high):
            assert fd.ClippedSum((2,), clip_norm=1.0, stability=good, dtype=dtype).stability == good
    with pytest.raises(fd.errors.InvalidType, match="stability"):
        fd.ClippedSum((2,), clip_norm=1.0, stability="0.01")


def test_a_stability_that_no_float_denotes_is_rounded_up():
    assert fd.ClippedSum((2,), clip_norm=1.0, stability=Fraction(1, 3)).stability > Fraction(1, 3)
    assert fd.ClippedSum((2,), clip_norm=1.0).stability is None


def test_sums_of_different_stability_do_not_merge():
    acc = fd.ClippedSum((2,), clip_norm=1.0, stability=0.5)
    for other in (0.25, None, math.nextafter(0.5, 1)):
        with pytest.raises(fd.errors.InvalidParameter, match="differ in stability"):
            acc.merge(fd.ClippedSum((2,), clip_norm=1.0, stability=other))
        with pytest.raises(fd.errors.InvalidParameter, match="differ in stability"):
            fd.ClippedSum((2,), clip_norm=1.0, stability=other).merge(acc)
    assert acc.count == 0


SCRIPT = """
import hashlib
import numpy as np
import ferrodp as fd
assert fd._native.isa == {isa!r}
digest = hashlib.sha256()
for dtype in (np.float32, np.float64):
    matrix = np.random.default_rng(1).normal(size=(70, 5003)).astype(dtype)
    matrix *= dtype(10) ** np.linspace(-30, 30, 70).astype(dtype)[:, None]
    acc = fd.clip_and_sum(matrix, clip_norm=1.0, stability=0.1)
    digest.update(acc.integers)
    digest.update(bytes([acc.within_bound]))
print(digest.hexdigest())
"""


def test_every_instruction_set_gives_the_same_bits():
    def run(isa):
        environment = {**os.environ, "FERRODP_ISA": isa}
        command = [sys.executable, "-c", SCRIPT.format(isa=isa)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({run(isa) for isa in fd._native.available_isas}) == 1
