"""Keys of groups that are found in the data, and which rows of a unit of privacy count."""

from ferrodp.statistics.keys.selection import KeySelection
from ferrodp.statistics.keys.threshold import KeyThreshold
from ferrodp.statistics.keys.union import KeyUnion

__all__ = ["KeySelection", "KeyThreshold", "KeyUnion"]
