"""Mistakes of those who sum on Ray, and what they are told."""

import numpy as np
import pytest

from ferrodp.integrations.ray import clipped_sum
from support.mistakes import Mistake, Reason, objections

ROWS = [np.zeros((5, 3))]

MISTAKES = [
    Mistake(
        "a negative norm",
        lambda c: clipped_sum(ROWS, (3,), clip_norm=-1.0),
        "clip_norm",
        "got -1.0",
        "finite and > 0",
        "for example clip_norm=1.0",
    ),
    Mistake(
        "no norm",
        lambda c: clipped_sum(ROWS, (3,)),
        "clipped_sum() is missing 'clip_norm'",
        Reason.NOTHING_GIVEN,
        "float: The bound on the L2 norm of an update",
        "write clipped_sum(..., clip_norm=...)",
    ),
    Mistake(
        "a misspelt keyword",
        lambda c: clipped_sum(ROWS, (3,), clip_norn=1.0),
        "'clip_norn'",
        Reason.NOT_LOOKED_AT,
        "it takes partitions, template, clip_norm",
        "did you mean 'clip_norm'",
    ),
    Mistake(
        "nothing for a shape",
        lambda c: clipped_sum(ROWS, None, clip_norm=1.0),
        "template",
        "got NoneType",
        "an array or a shape, a tuple of ints",
        "for a vector write (length,)",
    ),
    Mistake(
        "a number for a function",
        lambda c: clipped_sum(ROWS, (3,), clip_norm=1.0, load=5),
        "load",
        "got int 5",
        "callable",
        "for example load=numpy.load",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_ray_is_told_in_four_parts(mistake):
    assert objections(mistake) == []
