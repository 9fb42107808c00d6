"""Arrays of every kind: taken as they are, copied in shape, or refused by type alone, before anything happens."""

import array
import math
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ferrodp as fd
from ferrodp import _native
from ferrodp._base import _arrays
from ferrodp._base._arrays import as_float_array, out_target, writable_target
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter

LENGTHS = [0, 1, 2, 3, 7, 8, 15, 16, 17, 4095, 4096, 4097]
DTYPES = [np.float32, np.float64]


def unaligned(values):
    """The same numbers one byte off."""
    raw = np.zeros(values.nbytes + 1, np.uint8)
    out = raw[1:].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


LAYOUTS = {
    "contiguous": lambda a: a.copy(),
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[..., ::-1].copy()[..., ::-1],
    "fortran": np.asfortranarray,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": unaligned,
    "offset": lambda a: np.concatenate([a.ravel()[:0], np.zeros(3, a.dtype), a.ravel()])[3:].reshape(a.shape),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("rows", [None, 3])
def test_every_layout_gives_the_same_values_in_the_same_shape(dtype, layout, length, rows):
    values = np.arange(length * (rows or 1), dtype=dtype).reshape((length,) if rows is None else (rows, length))

    taken = as_float_array(LAYOUTS[layout](values), "value")

    assert np.array_equal(values, taken)
    assert (values.shape, values.dtype) == (taken.shape, taken.dtype)
    assert type(taken) is np.ndarray
    assert taken.flags.c_contiguous
    assert taken.flags.aligned
    assert taken.dtype.isnative


@given(hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)), st.data())
def test_any_view_keeps_its_bits(base, data):
    view = base[data.draw(hnp.basic_indices(base.shape, allow_newaxis=True))] if base.ndim else base
    view = np.asarray(view).transpose(data.draw(st.permutations(range(np.ndim(view)))))

    assert view.tobytes() == as_float_array(view, "value").tobytes()


def test_plain_arrays_are_not_copied():
    values = np.zeros((3, 4), np.float32)

    assert as_float_array(values, "value") is values
    assert np.shares_memory(as_float_array(values.view(np.recarray), "value"), values)


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (1,) * 64])
def test_unusual_shapes_are_kept(shape):
    assert shape == as_float_array(np.zeros(shape), "value").shape
    assert shape == writable_target(np.zeros(shape), "array").shape


def test_broadcast_and_overlapping_elements_are_copied_apart():
    broadcast = as_float_array(np.broadcast_to(np.float32(2.5), (3, 4)), "value")
    windows = as_float_array(np.lib.stride_tricks.as_strided(np.arange(5.0), (3, 3), (8, 8)), "value")

    assert np.array_equal(np.full((3, 4), 2.5), broadcast)
    assert np.array_equal([[0, 1, 2], [1, 2, 3], [2, 3, 4]], windows)
    for copied in (broadcast, windows):
        copied[0, 0] = 99.0
        assert (copied == 99.0).sum() == 1


def test_arrays_too_large_to_copy_are_memory_errors_at_once():
    with pytest.raises(MemoryError, match="value stands for 562949953421312 bytes, more than this machine has"):
        as_float_array(np.broadcast_to(np.float32(0), (2**47,)), "value")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, np.float64(1.5)),
        (3, np.float64(3)),
        (np.float64(1.5), np.float64(1.5)),
        (np.float32(1.5), np.float32(1.5)),
        (np.int64(-3), np.float64(-3)),
        (np.uint8(3), np.float64(3)),
        ([], np.zeros(0)),
        ([[], []], np.zeros((2, 0))),
        ([1, 2.5, np.float32(3.5), np.int8(4)], np.array([1, 2.5, 3.5, 4])),
        (((1.0, 2.0), [3.0, math.nan]), np.array([[1.0, 2.0], [3.0, math.nan]])),
        (array.array("d", [1.0, 2.0]), np.array([1.0, 2.0])),
        (array.array("f", [1.0, 2.0]), np.array([1.0, 2.0], np.float32)),
        (memoryview(array.array("d", [1.0])), np.array([1.0])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_numbers_lists_and_buffers_are_taken(value, expected):
    taken = as_float_array(value, "value")

    assert np.array_equal(expected, taken, equal_nan=True)
    assert (expected.dtype, expected.shape) == (taken.dtype, taken.shape)


@pytest.mark.parametrize("scale", [1, -1])
def test_integers_beyond_floats_are_clamped(scale):
    """Whether an integer fits is data, so it cannot raise; and clamping, unlike rounding, moves no two values apart."""
    largest = float(np.finfo(np.float64).max)
    for integer, expected in (
        (int(largest) + 1, largest),
        (10**400, largest),
        (2**64, 2.0**64),
        (np.int64(2**62), 2.0**62),
    ):
        taken = as_float_array([[scale * integer]], "value")

        assert np.array_equal([[scale * expected]], taken)


def test_integers_that_no_float_denotes_are_told_apart_by_their_places():
    assert _arrays.long_integers([[1, 2**53 + 1], [0.5, -(2**60) - 1]]) == {1: 2**53 + 1, 3: -(2**60) - 1}
    assert _arrays.long_integers(np.int64(2**62 + 1)) == {0: 2**62 + 1}
    assert _arrays.long_integers([2**53, 2**60, 10**400, 1.0]) == {}
    assert as_float_array([2**53 + 1], "value").tolist() == [2.0**53]


def nested(depth):
    value = [1.0]
    for _ in range(depth - 1):
        value = [value]
    return value


def test_lists_of_up_to_64_levels_are_taken():
    assert as_float_array(nested(64), "value").shape == (1,) * 64
    with pytest.raises(InvalidArray, match="value must have at most 64 dimensions"):
        as_float_array(nested(65), "value")


def cyclic():
    inside_itself, twice, later = [], [], [1.0]
    inside_itself.append(inside_itself)
    twice.extend([twice, twice])
    later.append(later)
    return [inside_itself, twice, later]


def test_lists_that_hold_themselves_end_in_an_error():
    for value in cyclic():
        with pytest.raises(InvalidArray):
            as_float_array(value, "value")


def test_lists_that_would_unfold_without_end_are_refused_first():
    value = [1.0]
    for _ in range(45):
        value = [value, value]

    with pytest.raises((MemoryError, InvalidParameter)):
        as_float_array(value, "value")


WRONG_DTYPES = [
    np.zeros(2, np.float16),
    np.zeros(2, np.longdouble),
    np.zeros(2, np.int64),
    np.zeros(2, np.uint8),
    np.zeros(2, bool),
    np.zeros(2, complex),
    np.array([1.0], dtype=object),
    np.array(["1"]),
    np.array([b"1"]),
    np.array([0], "M8[s]"),
    np.array([0], "m8[s]"),
    np.zeros(2, [("a", "f8")]),
    np.zeros(2, "V8"),
    np.float16(1),
    np.longdouble(1),
    array.array("i", [1]),
]
if hasattr(np.dtypes, "StringDType"):
    WRONG_DTYPES.append(np.array(["1"], dtype=np.dtypes.StringDType()))


@pytest.mark.parametrize("value", WRONG_DTYPES, ids=lambda value: str(getattr(value, "dtype", value)))
def test_other_dtypes_are_refused_with_those_accepted(value):
    with pytest.raises(InvalidArrayType, match="value must have dtype float32 or float64, got ") as caught:
        as_float_array(value, "value")

    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


def test_numeric_dtypes_are_told_how_to_convert():
    with pytest.raises(InvalidArrayType, match=r"got int64; convert it with value\.astype\(.float64.\)"):
        as_float_array(np.zeros(2, np.int64), "value")


class Raises:
    def __array__(self, dtype=None, copy=None):
        raise KeyError("secret")


class Recurses:
    def __array__(self, dtype=None, copy=None):
        return np.asarray(self)


class GivesAList:
    def __array__(self, dtype=None, copy=None):
        return [1.0]


class GivesAMask:
    def __array__(self, dtype=None, copy=None):
        return np.ma.array([1.0, 2.0], mask=[False, True])


class GivesObjects:
    def __array__(self, dtype=None, copy=None):
        return np.array([None])


class OnADevice:
    def __dlpack_device__(self):
        return (2, 0)

    def __array__(self, dtype=None, copy=None):
        return np.zeros(2)


class BrokenDevice:
    def __dlpack_device__(self):
        raise KeyError("secret")


def released_buffer():
    view = memoryview(array.array("d", [1.0]))
    view.release()
    return view


NO_ARRAYS = [
    None,
    True,
    np.True_,
    "1.0",
    b"1.0",
    bytearray(8),
    1j,
    {},
    {"a": 1.0},
    {1.0},
    iter([1.0]),
    object(),
    Decimal(1),
    Fraction(1),
    [True],
    ["1"],
    [None],
    [1j],
    [Decimal(1)],
    [np.float16(1)],
    [np.zeros(2)],
    [[1.0], [2.0, 3.0]],
    [1.0, [2.0]],
    [[1.0], 2.0],
    np.ma.array([1.0]),
    np.ma.masked,
    np.ones((1, 1)).view(np.matrix),
    np.timedelta64(1),
    Raises(),
    Recurses(),
    GivesAList(),
    GivesAMask(),
    GivesObjects(),
    OnADevice(),
    BrokenDevice(),
    released_buffer(),
]


@pytest.mark.parametrize("value", NO_ARRAYS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("take", [as_float_array, writable_target])
def test_what_is_no_array_of_numbers_is_a_type_error(take, value):
    with pytest.raises(InvalidArrayType, match=r"^value must ") as caught:
        take(value, "value")

    chain = f"{caught.value!r}{caught.value.__cause__!r}{caught.value.__context__!r}"
    assert "secret" not in chain  # what foreign code raises may quote data


def test_objects_are_judged_by_their_type_not_by_what_they_say_it_is():
    class Liar:
        @property
        def __class__(self):
            raise KeyError("secret")

    with pytest.raises(InvalidArrayType, match="value must be a number or an array of numbers, got Liar"):
        as_float_array(Liar(), "value")


def of_package(module, name, **attributes):
    """An object whose class says that it comes from a package, which need not be installed."""
    return type(name, (), {"__module__": module, **attributes})()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pandas.core.series", "Series"),
        ("pandas.core.frame", "DataFrame"),
        ("pyarrow.lib", "DoubleArray"),
        ("polars.series.series", "Series"),
        ("scipy.sparse._csr", "csr_matrix"),
        ("xarray.core.dataarray", "DataArray"),
    ],
)
def test_arrays_with_nulls_or_labels_are_refused_by_type(module, name):
    """By type, not by looking for nulls: whether there are any is data."""
    foreign = of_package(module, name, __array__=lambda self, dtype=None, copy=None: np.zeros(2))

    with pytest.raises(
        InvalidArrayType, match=f"got {module.partition('.')[0]} {name}: nulls or labels would be dropped"
    ):
        as_float_array(foreign, "value")


def test_real_sparse_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")

    with pytest.raises(InvalidArrayType, match=r"convert it with value\.toarray\(\)"):
        as_float_array(sparse.csr_matrix(np.eye(2)), "value")


def test_jax_tracers_are_refused_and_concrete_arrays_taken():
    tracer_base = type("Tracer", (), {"__module__": "jax._src.core"})
    tracer = type("DynamicJaxprTracer", (tracer_base,), {"__module__": "jax._src.interpreters.partial_eval"})()
    concrete = of_package("jaxlib.xla_extension", "ArrayImpl", __array__=lambda self, dtype=None, copy=None: np.ones(2))

    with pytest.raises(InvalidArrayType, match="got a jax tracer; call this outside of jit, grad and vmap"):
        as_float_array(tracer, "value")
    assert np.array_equal(np.ones(2), as_float_array(concrete, "value"))


def tensor(numbers, *, device="cpu", requires_grad=False):
    """What this package asks of a torch tensor, and no more."""
    return of_package(
        "torch",
        "Tensor",
        device=types.SimpleNamespace(type=device),
        requires_grad=requires_grad,
        numpy=lambda self: numbers,
    )


def test_torch_tensors_on_the_cpu_share_their_memory():
    numbers = np.zeros(3, np.float32)

    assert as_float_array(tensor(numbers), "value") is numbers
    assert writable_target(tensor(numbers), "array") is numbers


@pytest.mark.parametrize("wrong", [{"device": "cuda"}, {"requires_grad": True}, {"device": "meta"}])
def test_other_torch_tensors_are_told_to_detach(wrong):
    with pytest.raises(InvalidArrayType, match=r"pass value\.detach\(\)\.cpu\(\)"):
        as_float_array(tensor(np.zeros(3), **wrong), "value")


def test_a_subclass_with_a_hostile_hook_is_taken_as_its_base():
    class Hostile(np.ndarray):
        angry = False

        def __array_finalize__(self, base):
            if Hostile.angry:
                raise KeyError("secret")

        def view(self, *arguments):
            raise KeyError("secret")

    hostile = np.ndarray.view(np.arange(3.0), Hostile)
    Hostile.angry = True

    assert np.array_equal([0.0, 1.0, 2.0], as_float_array(hostile, "value"))


# in place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["strided", "unaligned", "read-only"])
def test_targets_must_be_plain_and_writeable(layout):
    target = LAYOUTS[layout](np.arange(6.0))

    with pytest.raises(InvalidArray, match=r"array must be (writeable|C-contiguous and aligned)"):
        writable_target(target, "array")
    assert np.array_equal(np.arange(6.0), target)


def test_fortran_order_is_no_target_unless_it_is_c_order_too():
    with pytest.raises(InvalidArray, match="array must be C-contiguous"):
        writable_target(np.asfortranarray(np.zeros((2, 3))), "array")
    vector = np.asfortranarray(np.zeros(3))
    assert writable_target(vector, "array") is vector


@pytest.mark.parametrize("value", [*WRONG_DTYPES, np.zeros(2, np.dtype("f8").newbyteorder())])
def test_targets_of_other_dtypes_are_refused(value):
    with pytest.raises(InvalidArrayType, match="array must have dtype float32 or float64, got"):
        writable_target(value, "array")


@pytest.mark.parametrize("value", [1.0, [1.0], (1.0,), 1])
def test_targets_that_hold_nothing_to_write_to_are_refused(value):
    with pytest.raises(InvalidArrayType, match=r"array must be a numpy array, got .*: nothing to write to"):
        writable_target(value, "array")


def test_the_value_itself_is_a_target_for_its_result():
    value = np.zeros((2, 3))

    assert out_target(value, value, source=value) is value
    alias = value[:]
    assert out_target(alias, value, source=value) is alias


OVERLAPS = {
    "shifted by one": lambda buffer: (buffer[:4], buffer[1:5]),
    "reversed": lambda buffer: (buffer[3::-1], buffer[:4]),
    "every other": lambda buffer: (buffer[:8:2], buffer[:4]),
    "byte-swapped alias": lambda buffer: (buffer[:4].view(buffer.dtype.newbyteorder()), buffer[:4]),
    "broadcast": lambda buffer: (np.broadcast_to(buffer[:1], (4,)), buffer[:4]),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_partial_overlap_is_refused(overlap):
    source, out = OVERLAPS[overlap](np.zeros(10))
    like = as_float_array(source, "value")

    with pytest.raises(InvalidArray, match="out must be the value itself or share no memory with it"):
        out_target(out, like, source=source)


def test_results_need_the_shape_and_dtype_of_the_value():
    like = np.zeros((2, 3), np.float32)

    with pytest.raises(InvalidArray, match=r"out must have the shape of the value, \(2, 3\), got \(3, 2\)"):
        out_target(np.zeros((3, 2), np.float32), like, source=like)
    with pytest.raises(InvalidArrayType, match="out must have the dtype of the value, float32, got float64"):
        out_target(np.zeros((2, 3)), like, source=like)
    assert _arrays.out_target(np.zeros((2, 3), np.float32), like, source=like).shape == (2, 3)


def test_an_array_that_another_call_writes_to_is_refused_by_name():
    """The other call is one that a ticket arms in the middle of: the array is borrowed by then, and nothing drawn."""
    floats, integers, source = np.zeros(4), np.zeros(4, np.int64), fd.NoiseSource()
    refused = []

    def use_again() -> None:
        for again in (
            lambda: source.add_gaussian_(floats, standard_deviation=1.0),
            lambda: source.add_discrete_laplace_(integers, scale=1.0),
            lambda: fd.clip_rows(floats[None], clip_norm=1.0),
        ):
            with pytest.raises(InvalidArray, match="must not be in use by a call in another thread") as error:
                again()
            refused.append(error)

    first = _native.Permit(lambda: _native.add_discrete_noise(integers, "laplace", 1, 1, _native.Permit(use_again), 1))
    _native.add_noise(floats, "laplace", 1.0, -32, first, 1, False)

    assert len(refused) == 3
    source.add_gaussian_(floats, standard_deviation=1.0)  # free again
