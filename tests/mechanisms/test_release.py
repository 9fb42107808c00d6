"""What both mechanisms do with values: the same noise however they lie in memory, the input untouched, errors first."""

import math
import time
import timeit
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ferrodp import NoiseSource, _native
from ferrodp.errors import EntropyError, InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
from ferrodp.mechanisms import GaussianMechanism, LaplaceMechanism
from ferrodp.testing import seeded

KEY = b"mechanisms: what release does   "
MECHANISMS = {
    "gaussian": GaussianMechanism(noise_multiplier=1.5, l2_sensitivity=2.0),
    "laplace": LaplaceMechanism(scale=3.0, l1_sensitivity=2.0),
}
DTYPES = [np.float32, np.float64]

pytestmark = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def source():
    return seeded(KEY)


def noise_added_to(values, mechanism):
    """What the noise source itself makes of a contiguous copy."""
    out = np.array(values, order="C", copy=True)
    if isinstance(mechanism, GaussianMechanism):
        source().add_gaussian_(out, standard_deviation=mechanism.standard_deviation)
    else:
        source().add_laplace_(out, scale=mechanism.scale)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (1,), (17,), (4097,), (3, 5), (1,) * 64])
def test_a_release_is_the_value_with_noise_of_the_mechanisms_scale(mechanism, dtype, shape):
    values = np.arange(math.prod(shape), dtype=dtype).reshape(shape)

    released = mechanism.release(values, source=source())

    assert isinstance(released, np.ndarray)
    assert (values.shape, values.dtype) == (released.shape, released.dtype)
    assert noise_added_to(values, mechanism).tobytes() == released.tobytes()
    assert np.array_equal(np.arange(math.prod(shape), dtype=dtype).reshape(shape), values)


@settings(max_examples=50)
@given(
    base=hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=1, max_dims=4, max_side=6)),
    data=st.data(),
)
def test_layout_does_not_show_and_the_input_is_never_written(mechanism, base, data):
    step = data.draw(st.sampled_from([1, -1, 2]))
    view = base[..., ::step].transpose(data.draw(st.permutations(range(base.ndim))))
    view = view.astype(view.dtype.newbyteorder()) if data.draw(st.booleans()) else view
    before = base.tobytes()

    released = mechanism.release(view, source=source())

    assert noise_added_to(view.astype(base.dtype), mechanism).tobytes() == released.tobytes()
    assert before == base.tobytes()


def test_read_only_values_are_fine(mechanism):
    values = np.zeros(5)
    values.flags.writeable = False

    assert mechanism.release(values).shape == (5,)


@pytest.mark.parametrize(
    "value", [1.0, 1, np.float64(1.0), np.float32(1.0), np.int16(1)], ids=lambda v: type(v).__name__
)
def test_scalars_give_floats_of_one_law(mechanism, value):
    released = mechanism.release(value, source=source())

    assert type(released) is float
    assert released == float(noise_added_to(np.array(1.0), mechanism))
    assert type(mechanism.release(value)) is float


def test_the_fast_path_draws_from_the_same_law(mechanism, monkeypatch):
    """Same function, scale and grid as an array of one; only the key differs, so the key is fixed here."""
    calls = []
    draw = _native.release_scalar

    def release_scalar(value, law, scale, exponent, key):
        calls.append(key)
        return draw(value, law, scale, exponent, _native.derive_key(KEY, 0))

    monkeypatch.setattr(_native, "release_scalar", release_scalar)

    assert mechanism.release(0.625) == float(noise_added_to(np.array(0.625), mechanism))
    assert calls == [None]


def test_releases_differ(mechanism):
    # two float64 samples agree with probability below 2⁻³⁰: 32 digits of the scale
    assert len({mechanism.release(0.0) for _ in range(10)}) == 10
    assert len({mechanism.release(np.zeros(1)).item() for _ in range(10)}) == 10


def test_results_lie_on_the_grid_whatever_the_value(mechanism):
    scale = mechanism.standard_deviation if isinstance(mechanism, GaussianMechanism) else mechanism.scale
    grid = 2.0 ** (math.floor(math.log2(scale)) - 32)

    for value in (0.1, -1e-300, 12345.678, math.pi):
        assert (mechanism.release(value) / grid).is_integer()
    released = mechanism.release(np.full(100, 0.1, np.float32))
    assert np.array_equal(np.rint(released / np.float32(grid * 2**12)), released / np.float32(grid * 2**12))


def test_lists_of_numbers_are_float64(mechanism):
    released = mechanism.release([[1, 2.5], [0.0, -1]], source=source())

    assert released.dtype == np.float64
    assert noise_added_to(np.array([[1, 2.5], [0.0, -1]]), mechanism).tobytes() == released.tobytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.uint64(0x7FF0000000000001)], ids=str)
@pytest.mark.parametrize("position", [0, 8, 16])
def test_coordinates_that_are_not_finite_count_as_zero(mechanism, bad, position):
    bad = np.uint64(bad).view(np.float64) if isinstance(bad, np.uint64) else bad  # a signaling NaN
    values, zeroed = np.arange(17.0), np.arange(17.0)
    values[position], zeroed[position] = bad, 0.0

    assert mechanism.release(zeroed, source=source()).tobytes() == mechanism.release(values, source=source()).tobytes()
    assert math.isfinite(mechanism.release(float(bad)))


@pytest.mark.parametrize("value", [math.nan, [0.0, math.inf], np.array([0.0, -math.inf], np.float32)], ids=str)
def test_raising_on_non_finite_values_must_be_asked_for(mechanism, value):
    with pytest.raises(InvalidArray) as caught:
        mechanism.release(value, nonfinite="raise")

    assert str(caught.value) == "values must be finite"  # neither where nor how many
    assert np.shape(mechanism.release(0.0, nonfinite="raise")) == ()


@pytest.mark.parametrize("wrong", ["ignore", "", None, True, ["zero"], np.array(["zero", "raise"])], ids=str)
def test_other_treatments_of_non_finite_values_are_refused(mechanism, wrong):
    with pytest.raises(InvalidParameter, match='nonfinite must be "zero" or "raise", got'):
        mechanism.release(np.zeros(2), nonfinite=wrong)


def test_large_values_stay_in_the_range_of_their_dtype(mechanism):
    for dtype in DTYPES:
        largest = np.finfo(dtype).max
        released = mechanism.release(np.array([largest, -largest], dtype))

        assert np.isfinite(released).all()
        assert np.array_equal([largest, -largest], released)


# in place and into other memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_out_may_be_the_value_itself(mechanism, dtype):
    values = np.arange(100, dtype=dtype)
    expected = noise_added_to(values, mechanism)

    assert mechanism.release(values, out=values, source=source()) is values
    assert np.array_equal(expected, values)


@pytest.mark.parametrize("value", [np.arange(6.0), np.arange(12.0)[::-2], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]], ids=repr)
def test_out_may_be_other_memory(mechanism, value):
    out = np.full(6, 77.0)
    before = np.array(value)

    assert mechanism.release(value, out=out, source=source()) is out
    assert noise_added_to(before, mechanism).tobytes() == out.tobytes()
    assert np.array_equal(before, value)


def test_out_may_take_a_scalar(mechanism):
    out = np.zeros(())

    assert mechanism.release(1.0, out=out, source=source()) is out
    assert out == noise_added_to(np.array(1.0), mechanism)


def read_only():
    out = np.zeros(4)
    out.flags.writeable = False
    return out


BAD_OUTS = {
    "read-only": (read_only, InvalidArray),
    "strided": (lambda: np.zeros(8)[::2], InvalidArray),
    "wrong shape": (lambda: np.zeros(5), InvalidArray),
    "broadcastable shape": (lambda: np.zeros((1, 4)), InvalidArray),
    "wrong dtype": (lambda: np.zeros(4, np.float32), InvalidArrayType),
    "byte-swapped": (lambda: np.zeros(4, np.dtype("f8").newbyteorder()), InvalidArrayType),
    "list": (lambda: [0.0] * 4, InvalidArrayType),
    "masked": (lambda: np.ma.zeros(4), InvalidArrayType),
    "scalar": (lambda: 0.0, InvalidArrayType),
}


@pytest.mark.parametrize("bad", BAD_OUTS)
def test_bad_targets_are_refused_before_anything_is_drawn(mechanism, bad):
    make, error = BAD_OUTS[bad]
    out, drawn_from = make(), source()

    with pytest.raises(error, match=r"^out must"):
        mechanism.release(np.ones(4), out=out, source=drawn_from)

    assert not np.any(out)
    # the seeded source counts calls: its next one is still the first
    assert (
        noise_added_to(np.zeros(4), mechanism).tobytes() == mechanism.release(np.zeros(4), source=drawn_from).tobytes()
    )


def test_partial_overlap_is_refused(mechanism):
    buffer = np.zeros(10)

    with pytest.raises(InvalidArray, match="out must be the value itself or share no memory with it"):
        mechanism.release(buffer[:5], out=buffer[1:6])
    assert not buffer.any()


@pytest.mark.parametrize("in_place", [True, False])
def test_without_entropy_nothing_changes(mechanism, in_place, monkeypatch):
    """An output that held the bare value after an error would be the worst leak of all."""

    def no_entropy(*_):
        raise EntropyError("no random bytes")

    values, out = np.arange(5.0), np.full(5, 77.0)
    target = values if in_place else out
    before = target.copy()
    monkeypatch.setattr(_native, "add_noise", no_entropy)

    with pytest.raises(EntropyError):
        mechanism.release(values, out=target)

    assert np.array_equal(before, target)


# parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, "os", np.random.default_rng(0), NoiseSource, True], ids=str)
def test_sources_are_noise_sources(mechanism, wrong):
    with pytest.raises(InvalidType, match="source must be a NoiseSource or None, got"):
        mechanism.release(np.zeros(2), source=wrong)


@pytest.mark.parametrize("wrong", [0, 257, 1.5, "2"])
def test_threads_are_checked_and_do_not_show(mechanism, wrong):
    with pytest.raises((InvalidParameter, InvalidType), match="threads must be an int"):
        mechanism.release(np.zeros(2), threads=wrong)
    values = np.zeros(100_000, np.float32)
    one, three = (mechanism.release(values, source=source(), threads=threads) for threads in (1, 3))
    assert one.tobytes() == three.tobytes()


@pytest.mark.parametrize(
    "value",
    [None, True, "1", 1j, {}, np.zeros(2, np.int64), np.zeros(2, np.float16), np.ma.zeros(2), [[1.0], [2.0, 3.0]]],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_type_errors(mechanism, value):
    with pytest.raises(InvalidArrayType, match=r"^value must"):
        mechanism.release(value)


def test_value_comes_first_and_the_rest_by_name(mechanism):
    with pytest.raises(TypeError):
        mechanism.release(np.zeros(2), np.zeros(2))
    with pytest.raises(TypeError):
        mechanism.release(np.zeros(2), noise_multiplier=0.0)


def test_a_private_source_may_be_named(mechanism):
    assert mechanism.release(np.zeros(3), source=NoiseSource()).shape == (3,)


def test_a_scalar_release_takes_microseconds(mechanism):
    """1.1 µs measured; the least processor time of many repeats, so that a busy machine does not show."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls = 1000
        clock = time.process_time
        best = min(timeit.repeat(lambda: mechanism.release(1.0), timer=clock, number=calls, repeat=30)) / calls

    assert best < 5e-6
