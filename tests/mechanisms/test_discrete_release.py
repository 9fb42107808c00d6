"""What the discrete mechanisms do with integers: the source's noise however they lie in memory, and errors first."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ferrodp import NoiseSource, _native
from ferrodp.errors import EntropyError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from ferrodp.testing import seeded
from support.tickets import Book, ticket_for

KEY = b"mechanisms: releases of integers"
LAWS = ["gaussian", "laplace"]
DTYPES = [np.int32, np.int64]
LIMITS = {np.int32: (-(2**31), 2**31 - 1), np.int64: (-(2**63), 2**63 - 1)}

pytestmark = pytest.mark.parametrize("law", LAWS)


def made(law, values=0, scale=3.0):
    if law == "laplace":
        return DiscreteLaplaceMechanism(scale=scale)
    return DiscreteGaussianMechanism(scale=scale, dimension=max(np.size(values), 1))


def source():
    return seeded(KEY)


def noise_added_to(values, law, scale=3.0, **options):
    """What the noise source itself makes of a contiguous copy."""
    out = np.array(values, order="C", copy=True)
    getattr(source(), f"add_discrete_{law}_")(out, scale=scale, **options)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (17,), (4097,), (3, 5), (1,) * 64])
def test_a_release_is_the_value_with_noise_of_the_mechanisms_scale(law, dtype, shape):
    values = np.arange(math.prod(shape), dtype=dtype).reshape(shape)

    released = made(law, values).release(values, source=source())

    assert isinstance(released, np.ndarray)
    assert (values.shape, values.dtype) == (released.shape, released.dtype)
    assert np.array_equal(noise_added_to(values, law), released)
    assert np.array_equal(np.arange(math.prod(shape), dtype=dtype).reshape(shape), values)


@settings(max_examples=40)
@given(
    base=hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=1, max_dims=4, max_side=6)),
    data=st.data(),
)
def test_layout_does_not_show_and_the_input_is_never_written(law, base, data):
    step = data.draw(st.sampled_from([1, -1, 2]))
    view = base[..., ::step].transpose(data.draw(st.permutations(range(base.ndim))))
    view = view.astype(view.dtype.newbyteorder()) if data.draw(st.booleans()) else view
    before = base.tobytes()

    released = made(law, view).release(view, source=source())

    assert np.array_equal(noise_added_to(view.astype(base.dtype), law), released)
    assert released.dtype == base.dtype
    assert before == base.tobytes()


@pytest.mark.parametrize(
    "value", [5, np.int8(5), np.int32(5), np.int64(5), np.uint64(5)], ids=lambda v: type(v).__name__
)
def test_scalars_give_ints(law, value):
    released = made(law).release(value, source=source())

    assert type(released) is int
    assert released == int(noise_added_to(np.array(5), law))


def test_lists_of_integers_are_int64(law):
    for value in ([[1, 2], [0, -1]], ((1, 2), (0, -1)), [[np.int8(1), 2], [0, -1]]):
        released = made(law, [1] * 4).release(value, source=source())

        assert released.dtype == np.int64
        assert np.array_equal(noise_added_to(np.array([[1, 2], [0, -1]]), law), released)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_stay_in_the_range_of_their_dtype(law, dtype):
    low, high = LIMITS[dtype]
    values = np.array([low, high] * 500, dtype)
    released = made(law, values, scale=1e6).release(values).reshape(-1, 2)

    assert (released[:, 0] < 0).all()
    assert (released[:, 1] > 0).all()
    # half of each were cut off; none of a thousand with probability 2⁻⁵⁰⁰
    assert 0 < (released[:, 0] == low).sum() < 500
    assert 0 < (released[:, 1] == high).sum() < 500
    for value, limit in ((10**30, high), (-(10**30), low)) if dtype is np.int64 else ():
        assert abs(made(law).release(value) - limit) < 1000


def test_releases_differ(law):
    assert len({made(law, scale=2.0**57).release(0) for _ in range(10)}) == 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_out_may_be_the_value_itself(law, dtype):
    values = np.arange(100, dtype=dtype)
    expected = noise_added_to(values, law)

    assert made(law, values).release(values, out=values, source=source()) is values
    assert np.array_equal(expected, values)


@pytest.mark.parametrize("value", [np.arange(6), np.arange(12)[::-2], [0, 1, 2, 3, 4, 5]], ids=repr)
def test_out_may_be_other_memory(law, value):
    out = np.full(6, 77)
    before = np.array(value)

    assert made(law, value).release(value, out=out, source=source()) is out
    assert np.array_equal(noise_added_to(before, law), out)
    assert np.array_equal(before, value)


def read_only():
    out = np.zeros(4, int)
    out.flags.writeable = False
    return out


BAD_OUTS = {
    "read-only": (read_only, InvalidArray),
    "strided": (lambda: np.zeros(8, int)[::2], InvalidArray),
    "wrong shape": (lambda: np.zeros(5, int), InvalidArray),
    "wrong dtype": (lambda: np.zeros(4, np.int32), InvalidArrayType),
    "floats": (lambda: np.zeros(4), InvalidArrayType),
    "byte-swapped": (lambda: np.zeros(4, np.dtype("i8").newbyteorder()), InvalidArrayType),
    "list": (lambda: [0] * 4, InvalidArrayType),
    "masked": (lambda: np.ma.zeros(4, int), InvalidArrayType),
}


@pytest.mark.parametrize("bad", BAD_OUTS)
def test_bad_targets_are_refused_before_anything_is_drawn(law, bad):
    make, error = BAD_OUTS[bad]
    out, drawn_from, values = make(), source(), np.ones(4, int)

    with pytest.raises(error, match=r"^out must"):
        made(law, values).release(values, out=out, source=drawn_from)

    assert not np.any(out)
    assert np.array_equal(noise_added_to(values, law), made(law, values).release(values, source=drawn_from))


def test_partial_overlap_is_refused(law):
    buffer = np.zeros(10, int)

    with pytest.raises(InvalidArray, match="out must be the value itself or share no memory with it"):
        made(law, buffer[:5]).release(buffer[:5], out=buffer[1:6])
    assert not buffer.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_in_fixed_time_is_that_of_the_source(law, dtype):
    values = np.arange(100, dtype=dtype)
    expected = noise_added_to(values, law, fixed_time=True)
    options = {"fixed_time": True, "threads": 2}
    assert not np.array_equal(noise_added_to(values, law), expected)  # other bits, so the option is seen to arrive

    assert np.array_equal(expected, made(law, values).release(values, source=source(), **options))
    out = np.zeros(100, dtype)
    assert made(law, values).release(values, out=out, source=source(), **options) is out
    assert np.array_equal(expected, out)
    assert made(law, values).release(values, out=values, source=source(), **options) is values
    assert np.array_equal(expected, values)
    released = made(law).release(7, source=source(), fixed_time=True)
    assert type(released) is int
    assert released == int(noise_added_to(np.array(7), law, fixed_time=True))


def test_scales_without_fixed_time_are_refused_before_anything_is_drawn(law):
    largest, shown = (64.0, "64") if law == "gaussian" else (2.0**50, r"2\^50")
    out, drawn_from = np.full(1, 77), source()
    too_wide = made(law, scale=math.nextafter(largest, math.inf))
    book = Book()
    ticket = ticket_for(too_wide.event, book)

    for keywords in ({"source": drawn_from}, {"ticket": ticket}):
        with pytest.raises(InvalidParameter, match=f"scale must be at most {shown} .* with fixed_time=True, got"):
            too_wide.release([5], out=out, fixed_time=True, **keywords)
    for wrong in (1, None, "yes", np.True_):
        with pytest.raises(InvalidParameter, match="fixed_time must be True or False, got"):
            made(law).release([5], out=out, source=drawn_from, fixed_time=wrong)

    assert out.tolist() == [77]
    assert drawn_from._calls == 0
    assert book.calls == []  # nor was anything paid for
    assert type(made(law, scale=largest).release(5, fixed_time=True)) is int


@pytest.mark.parametrize("fixed_time", [False, True])
@pytest.mark.parametrize("in_place", [True, False])
def test_without_entropy_nothing_changes(law, in_place, fixed_time, monkeypatch):
    def no_entropy(*_):
        raise EntropyError("no random bytes")

    values, out = np.arange(5), np.full(5, 77)
    target = values if in_place else out
    before = target.copy()
    monkeypatch.setattr(_native, f"add_discrete_noise{'_in_fixed_time' * fixed_time}", no_entropy)

    with pytest.raises(EntropyError):
        made(law, values).release(values, out=target, fixed_time=fixed_time)

    assert np.array_equal(before, target)


@pytest.mark.parametrize("wrong", [0, "os", np.random.default_rng(0), NoiseSource, True], ids=str)
def test_sources_are_noise_sources(law, wrong):
    with pytest.raises(InvalidType, match="source must be a NoiseSource or None, got"):
        made(law).release(1, source=wrong)


@pytest.mark.parametrize("wrong", [0, 257, 1.5, "2"])
def test_threads_are_checked_and_do_not_show(law, wrong):
    values = np.zeros(100_000, np.int64)
    with pytest.raises((InvalidParameter, InvalidType), match="threads must be an int"):
        made(law, values).release(values, threads=wrong)
    one, three = (made(law, values).release(values, source=source(), threads=threads) for threads in (1, 3))
    assert np.array_equal(one, three)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.0,
        "1",
        1j,
        {},
        [1.0],
        [True],
        [[1], [2, 3]],
        np.zeros(1),
        np.zeros(1, np.int16),
        np.zeros(1, np.uint64),
        np.zeros(1, bool),
        np.timedelta64(1),
        np.ma.zeros(1, int),
        np.array(["a"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_type_errors(law, value):
    with pytest.raises(InvalidArrayType, match=r"^value must"):
        made(law).release(value)


def test_the_number_of_elements_is_that_of_the_mechanism(law):
    if law == "laplace":
        assert made(law).release(np.zeros((0, 3), int)).shape == (0, 3)
        return
    for count in (0, 2, 4):
        with pytest.raises(InvalidArray, match=f"value must have as many elements as dimension=3, got {count}"):
            DiscreteGaussianMechanism(scale=1.0, dimension=3).release(np.zeros(count, int))
    with pytest.raises(InvalidArray, match="value must have as many elements as dimension=3, got 1"):
        DiscreteGaussianMechanism(scale=1.0, dimension=3).release(7)


def test_messages_hold_no_values(law):
    with pytest.raises(InvalidArrayType) as caught:
        made(law).release([123456.5])

    assert "123456" not in str(caught.value)
