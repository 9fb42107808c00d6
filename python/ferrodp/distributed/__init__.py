"""Sums of clipped vectors that are spread over threads, processes or machines, released once.

Sums are integers, so they are the same however the work is divided, repeated or grouped. `clipped_sum` takes any
executor of `concurrent.futures`; `ferrodp.integrations.dask` and `ferrodp.integrations.ray` have the same function for
clusters.
"""

from ferrodp.distributed.executors import clipped_sum

__all__ = ["clipped_sum"]
