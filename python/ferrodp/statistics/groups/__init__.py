"""Statistics of groups of rows, and how many rows one unit of privacy may have in all of them.

*Groups.* Rows of different groups are disjoint, so a row moves one number of a vector with one number a group: counts
by at most 1, sums by at most the larger bound M. A unit with at most k rows moves the vector by at most kM in L1 and in
L2, in however many groups its rows lie; one that is replaced by 2kM (k rows leave, k others come). With at most r rows
in a group the bound of L2 is M times that of `keys.contributions`: √g·r·M for r rows in each of g groups; r·M if there
is one group in all. That is parallel composition, by the sensitivity of the vector. The bins of a histogram are cells
of the groups, and disjoint too: r rows of a group move L2 most if they lie in one cell. Quantiles are choices, one a
group: what they cost is in the docstring of `disjoint`.

*Units.* `unit` names a column; of each unit a random subset of `rows_per_unit` rows counts, or its first ones. Which
they are depends on the rows of that unit and on coins of their own, so a unit that comes or goes changes nothing about
the rows of others: the proof is in `keys.contributions`. Rows without a unit are left out. Ids are compared exactly,
as Python compares them: rounded to floats two people could be one unit, and one person whose id is written as 7 and as
7.0 must not be two.
"""

from ferrodp.statistics.groups.grouped import PrivateGroups

__all__ = ["PrivateGroups"]
