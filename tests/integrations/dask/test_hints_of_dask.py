"""Each way out that a message of `integrations.dask` names is taken, and no place with one is without a row."""

import numpy as np
import pytest

from distributed import Client, LocalCluster
from ferrodp.integrations.dask import clipped_sum
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out


def summed(client):
    return clipped_sum([np.ones((5, 3))], (3,), clip_norm=1.0, stacked=True, client=client)


def by_address():
    """Sum on a cluster that a client is made for by its address."""
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(protocol="tcp", host="127.0.0.1", **options) as cluster:
        address = cluster.scheduler_address
        with Client(address) as client:
            assert summed(client).count == 5


HINTS = [Hint("for example client=Client(address)", lambda c: summed("tcp://127.0.0.1:8786"), lambda c: by_address())]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_dask_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_dask_is_without_a_test():
    assert_all_lead_out("dask", HINTS)
