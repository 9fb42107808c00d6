"""Mistakes of those who sum on Dask, and what they are told."""

import numpy as np
import pytest

from distributed import Client
from ferrodp.integrations.dask import clipped_sum
from support.mistakes import Mistake, Reason, objections


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as made:
        yield made


ROWS = [np.zeros((5, 3))]

MISTAKES = [
    Mistake(
        "an address for a client",
        lambda c: clipped_sum(ROWS, (3,), clip_norm=1.0, client="tcp://x"),
        "client",
        "got str",
        "a distributed.Client",
        "for example client=Client(address)",
    ),
    Mistake(
        "a negative norm",
        lambda c: clipped_sum(ROWS, (3,), clip_norm=-1.0, client=c),
        "clip_norm",
        "got -1.0",
        "finite and > 0",
        "for example clip_norm=1.0",
    ),
    Mistake(
        "no norm",
        lambda c: clipped_sum(ROWS, (3,), client=c),
        "clipped_sum() is missing 'clip_norm'",
        Reason.NOTHING_GIVEN,
        "float: The bound on the L2 norm of an update",
        "write clipped_sum(..., clip_norm=...)",
    ),
    Mistake(
        "another library's keyword",
        lambda c: clipped_sum(ROWS, (3,), max_grad_norm=1.0, client=c),
        "'max_grad_norm'",
        Reason.NOT_LOOKED_AT,
        "it takes partitions, template, clip_norm",
        "did you mean 'clip_norm'",
    ),
    Mistake(
        "a number for a function",
        lambda c: clipped_sum(ROWS, (3,), clip_norm=1.0, load=5, client=c),
        "load",
        "got int 5",
        "callable",
        "for example load=numpy.load",
    ),
    Mistake(
        "nothing for a shape",
        lambda c: clipped_sum(ROWS, None, clip_norm=1.0, client=c),
        "template",
        "got NoneType",
        "an array or a shape, a tuple of ints",
        "for a vector write (length,)",
    ),
    Mistake(
        "rows of another length",
        lambda c: clipped_sum([np.zeros((5, 4))], (3,), clip_norm=1.0, stacked=True, client=c),
        "updates",
        "got (5, 4)",
        "shape (5, 3)",
        "give it that shape, or the template another",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_with_dask_is_told_in_four_parts(client, mistake):
    assert objections(mistake, client) == []
