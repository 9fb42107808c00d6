"""Private statistics of columns and tables: counts, sums, means, histograms and quantiles.

`private_count`, `private_histogram`, `private_sum`, `private_mean` and `private_quantile` return an `Estimate`: the
released number, its standard error, its `Interval`, and the event that an accountant composes. Each guarantee is for a
unit of privacy that contributes at most `max_contributions` rows, under a stated neighboring relation.
`private_variance` and `private_standard_deviation` spend thirds of their budget. `private_group_by` returns
`PrivateGroups`, of which statistics are released together; a `KeyThreshold`, `KeySelection` or `KeyUnion` finds their
keys. `private_median` and `private_quantiles` are choices like `private_quantile`, and so are `private_min` and
`private_max`; `private_bounds` finds bounds for the others. `private_distinct` counts different values, `private_top`
finds the most frequent ones, `private_rows_per_unit` how many rows of a unit should count. `private_marginals` returns
`PrivateMarginals`: contingency tables of several columns, measured together; a `Residual` is what other programs take.
`population_interval` adds the error of sampling to that of noise. `private_quantile_bins` finds edges of bins with
about as many rows each, of several columns at once.
`release` returns a `ReleasedTable` of counts and sums that are paid for at once.

Columns are those of numpy, pandas, polars and Arrow, and lists: numbers, labels, and with bounds or edges of their kind
dates, datetimes, durations and times of day; `CalendarBins` are months or hours of them. With `unit` of each unit only
so many rows count. Missing values are left out. Values are clamped to
public bounds and put on a grid. What is released is an integer statistic of integers plus integer noise, so the
sensitivity holds in machine arithmetic.
"""

from ferrodp.statistics.bins import private_quantile_bins
from ferrodp.statistics.counts import private_count, private_histogram
from ferrodp.statistics.estimate import Estimate, Interval
from ferrodp.statistics.grouping import private_group_by
from ferrodp.statistics.groups import PrivateGroups
from ferrodp.statistics.keys import KeySelection, KeyThreshold, KeyUnion
from ferrodp.statistics.marginals.release import private_marginals
from ferrodp.statistics.marginals.released import PrivateMarginals, Residual
from ferrodp.statistics.moments import private_standard_deviation, private_variance
from ferrodp.statistics.populations import population_interval
from ferrodp.statistics.ranks.extremes import private_bounds, private_max, private_min
from ferrodp.statistics.ranks.quantiles import private_median, private_quantile, private_quantiles
from ferrodp.statistics.ranks.rows_of_units import private_rows_per_unit
from ferrodp.statistics.rows.calendars import CalendarBins
from ferrodp.statistics.sums import private_mean, private_sum
from ferrodp.statistics.tables import ReleasedTable, release
from ferrodp.statistics.values import private_distinct, private_top

__all__ = [
    "CalendarBins",
    "Estimate",
    "Interval",
    "KeySelection",
    "KeyThreshold",
    "KeyUnion",
    "PrivateGroups",
    "PrivateMarginals",
    "ReleasedTable",
    "Residual",
    "population_interval",
    "private_bounds",
    "private_count",
    "private_distinct",
    "private_group_by",
    "private_histogram",
    "private_marginals",
    "private_max",
    "private_mean",
    "private_median",
    "private_min",
    "private_quantile",
    "private_quantile_bins",
    "private_quantiles",
    "private_rows_per_unit",
    "private_standard_deviation",
    "private_sum",
    "private_top",
    "private_variance",
    "release",
]
