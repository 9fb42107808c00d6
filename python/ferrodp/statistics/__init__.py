"""Private statistics of a column: counts, sums, means, histograms and quantiles.

`private_count`, `private_histogram`, `private_sum`, `private_mean` and `private_quantile` return an `Estimate`: the
released number, its standard error, its `Interval`, and the event that an accountant composes. Each guarantee is for a
unit of privacy that contributes at most `max_contributions` rows, under a stated neighboring relation.

Columns are those of numpy, pandas, polars and Arrow, and lists. Missing values are left out. Values are clamped to
public bounds and put on a grid. What is released is an integer statistic of integers plus integer noise, so the
sensitivity holds in machine arithmetic.
"""

from ferrodp.statistics.counts import private_count, private_histogram
from ferrodp.statistics.estimate import Estimate, Interval
from ferrodp.statistics.quantiles import private_quantile
from ferrodp.statistics.sums import private_mean, private_sum

__all__ = [
    "Estimate",
    "Interval",
    "private_count",
    "private_histogram",
    "private_mean",
    "private_quantile",
    "private_sum",
]
