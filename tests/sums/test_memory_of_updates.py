"""Arrays that were added are not kept: a server's memory must not grow with the number of its clients."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import ferrodp as fd


class Watched(np.ndarray):
    """An array that can be referred to weakly."""


def array(*shape):
    return np.ones(shape, np.float32).view(Watched)


@pytest.mark.parametrize(
    ("template", "make"),
    [
        ((3,), lambda *front: array(*front, 3)),
        ({"w": (3,), "b": [(2,), ()]}, lambda *front: {"w": array(*front, 3), "b": [array(*front, 2), array(*front)]}),
    ],
)
def test_what_was_added_is_freed_at_once(template, make):
    total = fd.ClippedSum(template, clip_norm=1.0, dtype=np.float32)
    gc.disable()  # nothing may wait for a collection of cycles
    try:
        for add, front in ((total.add, ()), (total.add_many, (2,))):
            update = make(*front)
            leaf = weakref.ref(update["w"] if isinstance(update, dict) else update)
            add(update)
            del update

            assert leaf() is None
    finally:
        gc.enable()


def test_a_clipped_tree_is_freed_at_once():
    gc.disable()
    try:
        tree = [array(3), array(2)]
        leaf = weakref.ref(tree[0])
        fd.clip_by_global_norm(tree, clip_norm=1.0)
        del tree

        assert leaf() is None
    finally:
        gc.enable()


GROWTH = """
import resource
import numpy as np
import ferrodp as fd

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # in MB

swapped = np.dtype(np.float32).newbyteorder()
records = np.dtype([("kind", np.uint8), ("number", np.float32)])
rows = np.full(SHAPE, 0.5, swapped, order=ORDER) if ORDER else np.full(SHAPE, 0.5, records)["number"]
total = fd.ClippedSum(SHAPE[1:], clip_norm=1.0, dtype=np.float32)
before = peak()
CALL
print(peak() - before)
"""


@pytest.mark.parametrize(
    ("shape", "order"), [((20_000, 1000), "C"), ((20_000, 1000), "F"), ((20_000, 1000), None), ((4, 5_000_000), "C")]
)
@pytest.mark.parametrize(
    ("call", "results"),
    [("total.add_many(rows)", 0), ("total.add(rows[1])", 0), ("fd.clip_rows(rows, clip_norm=1.0)", 77)],
)
def test_rows_that_are_not_read_where_they_lie_take_little_memory(call, results, shape, order):
    """Of 80 MB, not as a kernel reads them, a block or one long row is copied; a result of `clip_rows` is as large."""
    program = GROWTH.replace("SHAPE", repr(shape)).replace("ORDER", repr(order)).replace("CALL", call)
    sums, row = 8 * shape[1] >> 20, 4 * shape[1] >> 20

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)

    assert int(found.stdout) <= results + sums + row + 8
