"""Each way out that a message of `integrations.ray` names is taken, and no place with one is without a row."""

import numpy as np
import pytest
import ray

from ferrodp.integrations.ray import clipped_sum
from support.hints import Hint, assert_all_lead_out, identifiers, lead_out


def summed():
    return clipped_sum([np.ones((5, 3))], (3,), clip_norm=1.0, stacked=True)


def after_init():
    """Sum on a cluster of one process, which is ended again."""
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=100_000_000,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        configure_logging=False,
    )
    try:
        assert summed().count == 5
    finally:
        ray.shutdown()


HINTS = [Hint("; call ray.init first", lambda c: summed(), lambda c: after_init())]


@pytest.mark.parametrize("hint", HINTS, ids=identifiers(HINTS))
def test_a_way_out_of_ray_leads_out(hint):
    lead_out(hint)


def test_no_way_out_of_ray_is_without_a_test():
    assert_all_lead_out("ray", HINTS)
