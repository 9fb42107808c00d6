"""Trees of many arrays: added as their definition says, however they are looked at, or refused as by Python."""

import pickle
import threading
import time
import weakref
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ferrodp as fd
from ferrodp._base import _arrays
from ferrodp.errors import InvalidArray
from support import row_cases
from support.row_cases import CLIP_NORM, LAYOUTS, VALUES

DTYPES = {name: dtype for name, dtype in row_cases.dtypes().items() if name != "bfloat16"}
PLAIN = ("C", "Fortran", "every other row", "every other column", "some columns", "rows backwards", "columns backwards")


def sum_like(leaves, structure, **keywords):
    """Return an empty sum for rows in these leaves; `structure` makes a tree of them."""
    dtype = np.float64 if leaves[0].dtype.newbyteorder("=") == np.float64 else np.float32
    return fd.ClippedSum(structure([leaf.shape[1:] for leaf in leaves]), clip_norm=CLIP_NORM, dtype=dtype, **keywords)


def looked_at_in_python(total, tree, *, stacked=True):
    """Return the sum of the tree in `total`, an empty one, by the way that every tree can be added."""
    leaves, count = total._layout.stacked_rows(tree) if stacked else (total._layout.rows(tree, "update"), 1)
    _arrays.add_rows(total._native, leaves, count, None)
    return total


def is_plain(total, tree, *, stacked=True):
    """Say whether native code takes a tree as it is. It is added then."""
    return total._native.add_tree(total._layout.template, tree, stacked, 1)


def flat(total):
    """Return the integers of a sum in one array."""
    return total._native.snapshot()[1]


def in_turn(leaves):
    """Return a tree of containers of all kinds, each with some of the leaves."""
    rest = list(leaves)
    tree = {"first": rest[0], "tuple": tuple(rest[1:4]), 7: {"list": rest[4:9], "more": [[each] for each in rest[9:]]}}
    return [tree, []]


STRUCTURES = {
    "list": list,
    "tuple": tuple,
    "dict": lambda leaves: {f"layer {i}": leaf for i, leaf in enumerate(leaves)},
    "nested": in_turn,
}


@st.composite
def matrices(draw):
    """Rows in many leaves: a kind of values, of widths, of memory for each of them, and of the tree."""
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    widths = draw(
        st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40)), min_size=1, max_size=6).map(
            lambda runs: [width for width, leaves in runs for _ in range(leaves)]
        )
    )
    widths += [1] * max(1, 10 - len(widths))
    count = draw(st.sampled_from([1, 2, 3, 4, 17, 33]))
    rows = row_cases.matrix(draw(st.sampled_from(sorted(VALUES))), dtype, (count, sum(widths)))
    leaves = [np.ascontiguousarray(part) for part in np.split(rows, np.cumsum(widths)[:-1], axis=1)]
    layouts = draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3))
    leaves = [LAYOUTS[layouts[i % len(layouts)]](leaf) for i, leaf in enumerate(leaves)]
    return leaves, STRUCTURES[draw(st.sampled_from(sorted(STRUCTURES)))]


@given(matrices(), st.sampled_from([1, 2]))
@settings(deadline=None)
def test_trees_of_many_arrays_have_the_sums_of_the_definition(case, threads):
    leaves, structure = case
    total, one_by_one = sum_like(leaves, structure), sum_like(leaves, structure)

    total.add_many(structure(leaves), threads=threads)
    for i in range(len(leaves[0])):
        one_by_one.add(structure([leaf[i] for leaf in leaves]), threads=threads)

    expected, within = row_cases.sums(leaves, CLIP_NORM)
    assert (expected == flat(total)).all()
    assert (expected == flat(one_by_one)).all()
    assert within == total.within_bound == one_by_one.within_bound
    assert len(leaves[0]) == total.count == one_by_one.count


@pytest.mark.parametrize("count", [3, 4, 7, 8, 15, 16])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_wide_arrays_of_few_rows_in_fortran_order_have_the_sums_of_the_definition(dtype, count):
    """Which are turned to rows, four at a time, in blocks of columns."""
    widths = [300, 128, 129, 5, 9, 31, 33, 4097]
    rows = row_cases.matrix("half of them beyond", dtype, (count, sum(widths)))
    parts = np.split(rows, np.cumsum(widths)[:-1], axis=1)
    total = sum_like(parts, list)

    total.add_many([np.asfortranarray(part) for part in parts])

    expected, within = row_cases.sums([np.ascontiguousarray(part) for part in parts], CLIP_NORM)
    assert (expected == flat(total)).all()
    assert within == total.within_bound


@pytest.mark.parametrize("stability", [None, 0.01])
@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_plain_trees_are_taken_by_native_code_with_the_same_bits(dtype, structure, stability):
    rows = row_cases.matrix("half of them beyond", dtype, (40, 36 * 5))
    for layout in PLAIN:
        leaves = [LAYOUTS[layout](part) for part in row_cases.cut(rows, 36)]
        total = sum_like(leaves, structure, stability=stability)

        assert is_plain(total, structure(leaves)), layout

        expected = looked_at_in_python(sum_like(leaves, structure, stability=stability), structure(leaves))
        assert (flat(expected) == flat(total)).all()
        assert expected.within_bound == total.within_bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_all_ranks_and_orders_have_the_same_bits(dtype):
    """Some axes continue each other in memory; where they do not, it is left to Python."""
    rng = np.random.default_rng(3)
    shapes = [(), (3,), (2, 4), (2, 3, 2), (1, 5, 1), (2, 1, 2, 1, 3), (4, 1), (0, 3)] * 3
    orders = [np.ascontiguousarray, np.asfortranarray, lambda a: np.repeat(a, 2, axis=-1)[..., ::2]]
    orders += [lambda a: a.swapaxes(-1, -2).copy().swapaxes(-1, -2) if a.ndim > 1 else a]
    plain = []
    for order in orders:
        updates = [rng.normal(size=(5, *shape)).astype(dtype) for shape in shapes]
        updates = [order(each) if each.ndim > 1 else each for each in updates]
        total, expected = (fd.ClippedSum(shapes, clip_norm=2.0, dtype=dtype) for _ in range(2))

        total.add_many(updates)
        total.add([each[2] for each in updates])

        looked_at_in_python(expected, updates)
        looked_at_in_python(expected, [each[2] for each in updates], stacked=False)
        assert (flat(expected) == flat(total)).all()
        plain.append(is_plain(total, updates))
    assert plain[0]


def test_keys_in_another_order_and_lists_for_tuples_are_taken_as_well():
    leaves = [np.full((3, 2), i, np.float32) for i in range(30)]
    names = [f"layer {i}" for i in range(30)]
    total = sum_like(leaves, STRUCTURES["dict"])

    total.add_many(dict(reversed(list(zip(names, leaves, strict=True)))))
    total.add_many(dict(zip(["".join(list(name)) for name in names], leaves, strict=True)))  # equal, not the same

    expected = looked_at_in_python(sum_like(leaves, list), leaves)
    assert (2 * flat(expected) == flat(total)).all()
    total = sum_like(leaves, tuple)
    assert is_plain(total, leaves)
    assert (flat(expected) == flat(total)).all()


def broken(tree, how):
    """Return a tree with something that is not plainly what a template of 30 arrays of shape (3, 2) asks for."""
    leaf = tree[13]
    others = {
        "a row less": lambda: leaf[:2],
        "a row more": lambda: np.ones((4, 2), np.float32),
        "a column less": lambda: leaf[:, :1],
        "a column more": lambda: np.ones((3, 3), np.float32),
        "an axis more": lambda: leaf[None],
        "an axis less": lambda: leaf[0],
        "no axis": lambda: np.float32(1.0)[()],
        "the array before": lambda: tree[12],
        "the first array": lambda: tree[0],
        "float64": lambda: leaf.astype(np.float64),
        "float16": lambda: leaf.astype(np.float16),
        "integers": lambda: leaf.astype(np.int32),
        "objects": lambda: leaf.astype(object),
        "another byte order": lambda: leaf.astype(">f4"),
        "not aligned": lambda: LAYOUTS["not aligned"](leaf),
        "columns not aligned": lambda: np.ndarray((3, 2), np.float32, np.zeros(64, np.uint8), 0, (12, 5)),
        "None": lambda: None,
        "a list": lambda: leaf.tolist(),
        "a number": lambda: 1.5,
        "a subclass": lambda: leaf.view(type("Sub", (np.ndarray,), {})),
        "a masked array": lambda: np.ma.array(leaf),
        "a container": lambda: [leaf],
        "a class": lambda: np.ndarray,
    }
    if how in others:
        tree[13] = others[how]()
        return tree
    if how == "the first not aligned":
        return [LAYOUTS["not aligned"](tree[0]), *tree[1:]]
    if how == "the first array, after another layout":
        return [*tree[:12], np.asfortranarray(tree[12]), tree[0], *tree[14:]]
    return {
        "an array less": lambda: tree[:-1],
        "an array more": lambda: [*tree, np.ones((3, 2), np.float32)],
        "nothing": list,
        "a dict": lambda: dict(enumerate(tree)),
        "an iterator": lambda: iter(tree),
        "a subclass of list": lambda: type("List", (list,), {})(tree),
        "one array": lambda: np.stack(tree),
    }[how]()


BROKEN = [
    "a row less",
    "a row more",
    "a column less",
    "a column more",
    "an axis more",
    "an axis less",
    "no axis",
    "the array before",
    "the first array",
    "float64",
    "float16",
    "integers",
    "objects",
    "another byte order",
    "not aligned",
    "the first not aligned",
    "the first array, after another layout",
    "columns not aligned",
    "None",
    "a list",
    "a number",
    "a subclass",
    "a masked array",
    "a container",
    "a class",
    "an array less",
    "an array more",
    "nothing",
    "a dict",
    "an iterator",
    "a subclass of list",
    "one array",
]


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_not_plain_is_left_to_python_and_refused_as_it_refuses(how):
    """Or taken, as a copy: native code takes only what it can read as it lies."""
    leaves = [np.full((3, 2), 0.01 * i, np.float32) for i in range(30)]
    total, other = sum_like(leaves, list), sum_like(leaves, list)
    tree = broken(list(leaves), how)

    assert not is_plain(total, tree)
    assert total.count == 0
    refusal = refused(lambda: looked_at_in_python(other, broken(list(leaves), how)))
    assert refusal == refused(lambda: total.add_many(tree))
    assert (flat(other) == flat(total)).all()
    assert total.count == (0 if refusal else 3)


def refused(call):
    """Return type and text of the error that a call ends with, if it does."""
    try:
        call()
    except fd.errors.FerroError as error:
        return type(error), str(error)
    return None


def test_keys_that_are_missing_or_too_many_are_refused_and_nothing_is_added():
    leaves = [np.ones((3, 2), np.float32) for _ in range(30)]
    tree = STRUCTURES["dict"](leaves)
    total = sum_like(leaves, STRUCTURES["dict"])

    with pytest.raises(InvalidArray, match="'layer 7' is missing"):
        total.add_many({key: leaf for key, leaf in tree.items() if key != "layer 7"})
    with pytest.raises(InvalidArray, match="got 'more' as well"):
        total.add_many(tree | {"more": np.ones((3, 2), np.float32)})
    with pytest.raises(InvalidArray, match="'layer 7' is missing"):
        total.add_many({key.replace("7", "x"): leaf for key, leaf in tree.items()})
    assert total.count == 0


def test_a_released_sum_refuses_trees_and_one_of_no_rows_adds_nothing():
    leaves = [np.ones((0, 2), np.float32) for _ in range(30)]
    total = sum_like(leaves, list)
    total.add_many(leaves)
    assert total.count == 0

    total.release(noise_multiplier=1.0)

    for rows in (0, 3):
        with pytest.raises(fd.errors.FerroError, match="has been released"):
            total.add_many([np.ones((rows, 2), np.float32) for _ in range(30)])


def test_arrays_live_as_long_as_they_are_added():
    """What is large is added without the interpreter's lock: others may drop the arrays meanwhile."""
    leaves = [np.full((1, 20_000), 1e-3, np.float32) for _ in range(40)]
    shapes = {"list": [leaf.shape[1:] for leaf in leaves[:20]], "dict": dict.fromkeys(range(20), (20_000,))}
    total = fd.ClippedSum(shapes, clip_norm=CLIP_NORM, dtype=np.float32)
    expected = 2 * flat(looked_at_in_python(total, {"list": leaves[:20], "dict": dict(enumerate(leaves[20:]))}))
    tree = {"list": leaves[:20], "dict": dict(enumerate(leaves[20:]))}
    references = [weakref.ref(leaf) for leaf in leaves]
    # The sum is busy for a while, with rows that lie in one place.
    rows = [np.broadcast_to(np.float32(0.0), (9000, 20_000)) for _ in range(40)]
    busy = {"list": rows[:20], "dict": dict(enumerate(rows[20:]))}
    first = threading.Thread(target=total.add_many, args=(busy,), kwargs={"threads": 1})
    second = threading.Thread(target=total.add_many, args=(tree,), kwargs={"threads": 1})
    first.start()
    time.sleep(0.1)
    second.start()
    time.sleep(0.1)

    tree["list"].clear()
    tree["dict"].clear()
    leaves.clear()

    alive = [reference() is not None for reference in references]
    is_waiting = first.is_alive()
    first.join()
    second.join()
    assert is_waiting, "the machine is too fast for this test"
    assert all(alive)
    assert (expected == flat(total)).all()
    assert not any(reference() is not None for reference in references)


def test_threads_that_add_trees_to_one_sum_lose_nothing():
    leaves = [np.full((4, 3), 0.01, np.float32) for _ in range(300)]
    total = sum_like(leaves, list)

    def add():
        for _ in range(50):
            total.add_many(list(leaves))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    expected = looked_at_in_python(sum_like(leaves, list), leaves)
    assert total.count == 800
    assert (200 * flat(expected) == flat(total)).all()


def test_a_layout_that_was_used_can_be_copied():
    leaves = [np.ones((2, 3), np.float32) for _ in range(20)]
    total = sum_like(leaves, STRUCTURES["nested"])
    total.add_many(STRUCTURES["nested"](leaves))

    for layout in (pickle.loads(pickle.dumps(total._layout)), deepcopy(total._layout)):
        assert total._layout == layout
        again = fd.ClippedSum(layout, clip_norm=CLIP_NORM)
        assert is_plain(again, STRUCTURES["nested"](leaves))
        assert (flat(total) == flat(again)).all()
