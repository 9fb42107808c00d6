"""Groups of rows, with all of their statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ferrodp._base import _validate
from ferrodp.errors import InvalidParameter
from ferrodp.statistics.estimate import Estimate
from ferrodp.statistics.groups.choices import ChoicesByGroup
from ferrodp.statistics.groups.rows import Ints
from ferrodp.statistics.groups.sums import SumsByGroup

__all__ = ["PrivateGroups"]


class PrivateGroups(SumsByGroup, ChoicesByGroup):
    """Rows in groups with public keys; made by `private_group_by`. Each statistic is one release about all groups.

    Attributes
    ----------
    keys : tuple
        The keys, in the order in which numbers are released.
    event : PrivacyEvent or None
        What finding the keys cost; None if they were given.
    found_counts : Estimate or None
        The noised counts by which a `KeyThreshold` found the keys: `event` has paid for them. Keys are there because
        their noise was not too low, so counts near the threshold are too high on average, and so are their intervals.

    Examples
    --------
    >>> import ferrodp as fd
    >>> frame = {"region": ["north"] * 600 + ["south"] * 400, "age": [30.0] * 600 + [50.0] * 400}
    >>> groups = fd.private_group_by(frame, "region", keys=["north", "south"])
    >>> len(groups), groups.mean("age", bounds=(0, 100), epsilon=1.0).labels
    (2, ('north', 'south'))
    >>> groups.count(epsilon=1.0).value.dtype, groups.sum("age", bounds=(0, 100), epsilon=1.0).value.dtype
    (dtype('int64'), dtype('float64'))
    >>> groups.quantile("age", 0.5, bounds=(0, 100), num_candidates=11, epsilon=2.0).value
    array([30., 50.])
    """

    def most_frequent(self, number: int) -> Estimate[Ints]:
        """Return the found keys with the largest released counts, in descending order: heavy hitters of unknown keys.

        Post-processing of `found_counts`, which `event` has paid for: it costs nothing, with any number, again and
        again. Of equal counts the one whose key comes first in `keys` is first.

        Parameters
        ----------
        number : int
            How many, ≥ 1; all of them if fewer were found.

        Returns
        -------
        Estimate
            Counts with the noise of `found_counts`, and keys as labels. The largest of noised counts are too high on
            average, and so are their intervals.

        Raises
        ------
        InvalidParameter, InvalidType
            If `number` is out of its domain, or the keys were not found by a `KeyThreshold`.

        Examples
        --------
        >>> import ferrodp as fd
        >>> frame = {"word": ["sea"] * 300 + ["whale"] * 900 + ["ship"] * 500 + ["Ishmael"]}
        >>> groups = fd.private_group_by(frame, "word", keys=fd.KeyThreshold(epsilon=1.0, delta=1e-6))
        >>> groups.most_frequent(2).labels
        ('whale', 'ship')
        """
        number = _validate.count("number", number)
        if self.found_counts is None:
            raise InvalidParameter(
                "keys must have been found by a KeyThreshold, which releases counts, to be ordered by them"
            )
        order = np.argsort(-self.found_counts.value, kind="stable")[:number]
        labels = tuple(self.keys[place] for place in order.tolist())
        return replace(self.found_counts, value=self.found_counts.value[order], labels=labels)
