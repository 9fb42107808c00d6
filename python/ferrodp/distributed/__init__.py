"""Sums of clipped vectors, and statistics of tables, spread over threads, processes or machines and released once.

Sums are integers, so they are the same however the work is divided, repeated or grouped. `clipped_sum` takes any
executor of `concurrent.futures`; `ferrodp.integrations.dask` and `ferrodp.integrations.ray` have the same function for
clusters. `private_statistic` releases counts, sums, groups, tables and quantiles of tables in partitions.
"""

from ferrodp.distributed.executors import clipped_sum
from ferrodp.distributed.statistics import private_statistic

__all__ = ["clipped_sum", "private_statistic"]
