"""Trees of arrays, and arrays of every kind, on their way into clipping."""

import collections
import math
import types

import numpy as np
import pytest

import ferrodp as fd

Layer = collections.namedtuple("Layer", ["w", "b"])


def leaf(*shape, dtype=np.float32, value=0.125):
    return np.full(shape, value, dtype)


def unaligned(array):
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    view = buffer[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "negative strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": unaligned,
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "subclass": lambda a: a.view(type("Sub", (np.ndarray,), {})),
    "transposed twice": lambda a: a.T.copy().T,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 5), (2, 16), (1, 4097), (17, 1)])
def test_every_layout_gives_the_same_bits(dtype, layout, shape):
    plain = np.random.default_rng(1).normal(size=shape).astype(dtype)
    array = layout(plain)

    for a, b in zip(fd.clip_rows(plain, clip_norm=0.5), fd.clip_rows(array, clip_norm=0.5), strict=True):
        assert (a == b).all()
    assert (fd.clip_and_sum(plain, clip_norm=0.5).integers == fd.clip_and_sum(array, clip_norm=0.5).integers).all()
    assert fd.clip_by_global_norm([array], clip_norm=0.5)[1] == fd.clip_by_global_norm([plain], clip_norm=0.5)[1]
    acc = fd.ClippedSum(array, clip_norm=0.5)
    acc.add(array)
    acc.add_many(layout(plain)[None])
    other = fd.ClippedSum(plain, clip_norm=0.5)
    other.add(plain)
    assert (2 * other.integers == acc.integers).all()


def test_broadcast_rows_are_clipped_apart():
    row = np.array([3.0, 4.0])

    clipped, norms = fd.clip_rows(np.broadcast_to(row, (4, 2)), clip_norm=10.0)

    assert norms.tolist() == [5.0] * 4
    assert clipped.tolist() == [[3.0, 4.0]] * 4
    assert fd.clip_and_sum(np.broadcast_to(row, (4, 2)), clip_norm=10.0).to_float().tolist() == [12.0, 16.0]
    with pytest.raises(MemoryError):
        fd.clip_rows(np.broadcast_to(np.float32(1), (2**33, 2**10)), clip_norm=1.0)
    with pytest.raises(fd.errors.InvalidParameter, match="at most 4294967296 rows"):  # nothing is copied
        fd.clip_and_sum(np.broadcast_to(np.float32(1), (2**33, 2**10)), clip_norm=1.0)


BAD_ARRAYS = {
    "object": np.array([[None]]),
    "string": np.array([["a"]]),
    "int64": np.zeros((1, 1), np.int64),
    "float16": np.zeros((1, 1), np.float16),
    "longdouble": np.zeros((1, 1), np.longdouble),
    "complex": np.zeros((1, 1), complex),
    "bool": np.zeros((1, 1), bool),
    "datetime": np.zeros((1, 1), "M8[s]"),
    "structured": np.zeros((1, 1), [("a", "f4")]),
    "masked": np.ma.masked_array([[1.0]], mask=[[True]]),
    "None": None,
    "text": "1.0",
    "set": {1.0},
}


@pytest.mark.parametrize("value", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_what_is_no_float_array_is_refused_by_its_name(value):
    acc = fd.ClippedSum({"a": (1, 1), "b": (1,)}, clip_norm=1.0)
    calls = {
        "matrix": lambda: fd.clip_rows(value, clip_norm=1.0),
        r"tree\['a'\]": lambda: fd.clip_by_global_norm({"a": value}, clip_norm=1.0),
        r"update\['a'\]": lambda: acc.add({"a": value, "b": np.zeros(1)}),
        r"updates\['a'\]": lambda: acc.add_many({"a": value, "b": np.zeros((1, 1))}),
        r"template\[0\]": lambda: fd.ClippedSum([value], clip_norm=1.0),
    }
    for name, call in calls.items():
        with pytest.raises(fd.errors.InvalidArrayType, match=f"^{name} must"):
            call()
    assert acc.count == 0


def test_containers_come_back_as_they_were():
    tree = collections.OrderedDict(
        z=[leaf(2), (leaf(3), leaf())],
        a=Layer(w=leaf(2, 2), b=leaf(1)),
        m=types.MappingProxyType({"x": leaf(1)}),
        d=collections.defaultdict(list, {"y": leaf(1)}),
    )

    clipped, _ = fd.clip_by_global_norm(tree, clip_norm=1.0)

    assert list(clipped) == ["z", "a", "m", "d"]
    assert isinstance(clipped, collections.OrderedDict)
    assert isinstance(clipped["z"][1], tuple)
    assert isinstance(clipped["a"], Layer)
    assert isinstance(clipped["m"], types.MappingProxyType)
    assert type(clipped["d"]) is dict  # a defaultdict is not built from a dict alone
    assert clipped["a"].w.shape == (2, 2)
    acc = fd.ClippedSum(tree, clip_norm=1.0)
    acc.add(tree)
    released = acc.release(noise_multiplier=1.0)
    assert isinstance(released["a"], Layer)
    assert released["z"][1][1].shape == ()


def test_mappings_match_by_key_and_sequences_by_place():
    acc = fd.ClippedSum({"a": (2,), "b": [(1,), (1,)]}, clip_norm=1.0, dtype=np.float32)

    acc.add({"b": (leaf(1, value=0.25), leaf(1, value=0.5)), "a": leaf(2)})
    acc.add(types.MappingProxyType({"a": leaf(2), "b": [leaf(1, value=0.25), leaf(1, value=0.5)]}))

    found = acc.to_float()
    assert found["a"].tolist() == [0.25, 0.25]
    assert [found["b"][0].item(), found["b"][1].item()] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"a": leaf(2)}, r"update must have the keys of the template, 'b' is missing"),
        ({"a": leaf(2), "b": [leaf(1)], "c": 1}, r"update must have the keys of the template, got 'c' as well"),
        ({"a": leaf(2), "b": []}, r"update\['b'\] must have 1 entries as in the template, got 0"),
        ({"a": leaf(2), "b": {"0": leaf(1)}}, r"update\['b'\] must be a list as in the template, got dict"),
        ({"a": leaf(2), "b": leaf(1)}, r"update\['b'\] must be a list as in the template, got ndarray"),
        ([leaf(2), [leaf(1)]], r"update must be a dict as in the template, got list"),
        ({"a": leaf(3), "b": [leaf(1)]}, r"update\['a'\] must have shape \(2,\), got \(3,\)"),
        ({"a": leaf(2), "b": [leaf(1, 1)]}, r"update\['b'\]\[0\] must have shape \(1,\), got \(1, 1\)"),
        (
            {"a": leaf(2, dtype=np.float64), "b": [leaf(1)]},
            r"update\['a'\] must have the dtype of the template, float32",
        ),
    ],
)
def test_updates_that_differ_from_the_template_are_refused_by_path(update, message):
    acc = fd.ClippedSum({"a": (2,), "b": [(1,)]}, clip_norm=1.0, dtype=np.float32)

    with pytest.raises(fd.errors.InvalidArray, match=message):
        acc.add(update)
    assert acc.count == 0


def test_batches_need_one_more_axis_of_one_length():
    acc = fd.ClippedSum({"a": (2,), "b": ()}, clip_norm=1.0, dtype=np.float32)

    with pytest.raises(fd.errors.InvalidArray, match=r"updates\['b'\] must have shape \(3,\), got \(4,\)"):
        acc.add_many({"a": leaf(3, 2), "b": leaf(4)})
    with pytest.raises(fd.errors.InvalidArray, match=r"updates\['a'\] must have shape \(2, 2\), got \(2,\)"):
        acc.add_many({"a": leaf(2), "b": leaf()})
    scalar = fd.ClippedSum((), clip_norm=1.0)
    with pytest.raises(fd.errors.InvalidArray, match="updates must have one more axis"):
        scalar.add_many(np.zeros(()))


def test_trees_without_arrays_are_refused():
    for tree in ([], {}, (), [[], {}]):
        with pytest.raises(fd.errors.InvalidArray, match="must hold at least one array"):
            fd.clip_by_global_norm(tree, clip_norm=1.0)
    for template in ([], {}, [[], {}]):
        with pytest.raises(fd.errors.InvalidArray, match="must hold at least one array"):
            fd.ClippedSum(template, clip_norm=1.0)


def test_trees_of_two_dtypes_are_refused():
    tree = {"a": leaf(2), "b": leaf(2, dtype=np.float64)}

    for call in (fd.clip_by_global_norm, fd.ClippedSum):
        with pytest.raises(fd.errors.InvalidArrayType, match=r"\['b'\] must have the dtype of .*float32, got float64"):
            call(tree, clip_norm=1.0)


def test_an_array_in_two_places_is_refused():
    """Shared parameters would be clipped and noised as if they were two."""
    shared = leaf(2)
    acc = fd.ClippedSum([(2,), (2,)], clip_norm=1.0, dtype=np.float32)
    for call in (
        lambda: fd.clip_by_global_norm([shared, shared], clip_norm=1.0),
        lambda: fd.ClippedSum([shared, shared], clip_norm=1.0),
        lambda: acc.add([shared, shared]),
    ):
        with pytest.raises(fd.errors.InvalidArray, match=r"\[1\] must be an array of its own.*\[0\]"):
            call()
    acc.add([shared, shared.copy()])


def test_trees_that_hold_themselves_end_in_an_error():
    tree = [leaf(1)]
    tree.append(tree)

    for call in (fd.clip_by_global_norm, fd.ClippedSum):
        with pytest.raises(fd.errors.InvalidArrayType, match="must be nested at most 64 deep"):
            call(tree, clip_norm=1.0)


def test_an_update_that_holds_itself_does_not_match():
    acc = fd.ClippedSum([(1,), [(1,)]], clip_norm=1.0)
    update = [np.zeros(1)]
    update.append(update)

    with pytest.raises(fd.errors.InvalidArray, match="must have 1 entries"):
        acc.add(update)


@pytest.mark.parametrize("template", [5, 5.0, [5], [3, 4], {"a": np.float32(1)}])
def test_numbers_are_no_templates(template):
    with pytest.raises(fd.errors.InvalidArrayType, match="an array or a shape, a tuple of ints"):
        fd.ClippedSum(template, clip_norm=1.0)


@pytest.mark.parametrize("shape", [(-1,), (2**62, 4), (1,) * 65])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(fd.errors.InvalidParameter, match="template"):
        fd.ClippedSum(shape, clip_norm=1.0)


def test_shapes_beyond_memory_are_memory_errors_at_once():
    with pytest.raises(MemoryError):
        fd.ClippedSum([(2**35,), (2**35,)], clip_norm=1.0)


def test_dtype_belongs_to_shapes():
    assert fd.ClippedSum((2,), clip_norm=1.0).dtype == np.float64
    assert fd.ClippedSum((2,), clip_norm=1.0, dtype="float32").dtype == np.float32
    assert fd.ClippedSum(leaf(2), clip_norm=1.0).dtype == np.float32
    with pytest.raises(fd.errors.InvalidType, match="dtype must be left out"):
        fd.ClippedSum(leaf(2), clip_norm=1.0, dtype=np.float32)
    for bad in (np.int64, "float16", "nonsense"):
        with pytest.raises(fd.errors.InvalidArrayType, match="dtype must be float32 or float64"):
            fd.ClippedSum((2,), clip_norm=1.0, dtype=bad)


def test_keys_of_templates_can_be_written_down():
    with pytest.raises(
        fd.errors.InvalidArrayType, match=r"template\['a'\] must have keys that are str or int, got float"
    ):
        fd.ClippedSum({"a": {1.5: (1,)}}, clip_norm=1.0)
    assert fd.clip_by_global_norm({1.5: leaf(1)}, clip_norm=1.0)[0].keys() == {1.5}


def test_numbers_count_as_arrays_without_axes():
    clipped, norm = fd.clip_by_global_norm([3.0, np.float64(4.0)], clip_norm=1.0)

    assert norm == 5.0
    assert [array.shape for array in clipped] == [(), ()]


def test_the_input_is_never_written():
    tree = {"a": leaf(100, value=3.0), "b": leaf(5, value=math.nan)}
    before = {key: array.copy() for key, array in tree.items()}

    fd.clip_by_global_norm(tree, clip_norm=1.0)
    acc = fd.ClippedSum(tree, clip_norm=1.0)
    acc.add(tree)

    assert all(np.array_equal(tree[key], before[key], equal_nan=True) for key in tree)
