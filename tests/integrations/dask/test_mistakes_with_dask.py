"""Mistakes of those who sum on Dask, and what they are told."""

import numpy as np
import pytest

from distributed import Client
from ferrodp.errors import FerroError
from ferrodp.integrations.dask import clipped_sum


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as made:
        yield made


ROWS = [np.zeros((5, 3))]


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda c: clipped_sum(ROWS, (3,), clip_norm=1.0, client="tcp://x"),
            ("client must be a distributed.Client",),
        ),
        (lambda c: clipped_sum(ROWS, (3,), clip_norm=-1.0, client=c), ("clip_norm must be finite and > 0, got -1.0",)),
        (lambda c: clipped_sum(ROWS, (3,), client=c), ("clipped_sum() is missing 'clip_norm'",)),
        (
            lambda c: clipped_sum(ROWS, (3,), max_grad_norm=1.0, client=c),
            ("did you mean 'clip_norm'",),
        ),
        (lambda c: clipped_sum(ROWS, (3,), clip_norm=1.0, load=5, client=c), ("load must be callable, got int",)),
        (lambda c: clipped_sum(ROWS, None, clip_norm=1.0, client=c), ("template must be", "got NoneType", "(length,)")),
        (
            lambda c: clipped_sum([np.zeros((5, 4))], (3,), clip_norm=1.0, stacked=True, client=c),
            ("updates must have shape (5, 3), got (5, 4)",),
        ),
    ],
)
def test_a_mistake_with_dask_is_told_with_what_is_allowed(client, mistake, words):
    with pytest.raises((FerroError, ValueError, TypeError)) as caught:
        mistake(client)

    assert [word for word in words if word not in str(caught.value)] == [], caught.value
