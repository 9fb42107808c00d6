"""Arrays that were added are not kept: a server's memory must not grow with the number of its clients."""

import gc
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
