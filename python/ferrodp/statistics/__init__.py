"""Counts, sums, means, histograms and quantiles of a column, with declared bounds and exact sensitivity.

Each function says what it protects: `max_contributions` rows of one unit of privacy, for a neighboring relation.
Values are clamped to public bounds and put on a grid; what is released is an integer statistic of integers plus integer
noise, so that the sensitivity holds in machine arithmetic. Every result carries the event that an accountant composes.
"""

from ferrodp.statistics.counts import private_count, private_histogram
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.quantiles import private_quantile
from ferrodp.statistics.sums import private_mean, private_sum

__all__ = ["Estimate", "private_count", "private_histogram", "private_mean", "private_quantile", "private_sum"]
