"""The strategy of a binary tree."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.correlated import prefix_errors
from ferrodp.correlated.strategy import Strategy, known, participation, steps_of
from ferrodp.events import PrivacyEvent, TreeAggregationEvent, tree_sensitivity_squared
from ferrodp.events.base import settle

__all__ = ["Tree"]

Doubles = npt.NDArray[np.float64]


@known
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class Tree(Strategy):
    """A binary tree of partial sums, each node with noise of its own, and the best estimates from below.

    Parameters
    ----------
    num_steps : int
        T, from 1 to 2²⁴: leaves of the tree.

    Raises
    ------
    InvalidParameter, InvalidType
        If it is out of its domain.

    Notes
    -----
    C has a row for each complete block of 2ˡ steps; a node is estimated from its own noise and from its halves
    ([Hon15]; [KMSTTX21] Section 4), a prefix sum is the sum of the estimates of its blocks. The other strategies have
    smaller errors: this one is for comparison, and for streams that others have begun. Its sensitivity is that of
    `ferrodp.events.tree_sensitivity_squared`, whose `min_separation` counts the steps between two participations, one
    fewer than here.

    Examples
    --------
    >>> round(Tree(num_steps=1024).rms_error(), 2)
    5.65
    """

    kind: ClassVar[str] = "tree"
    num_steps: int

    def __init__(self, *, num_steps: int) -> None:
        settle(self, num_steps=steps_of(num_steps))

    def event(self, *, noise_multiplier: Real, num_participations: int = 1, min_separation: int = 1) -> PrivacyEvent:
        """Return what all steps of a stream cost together, as `Strategy.event`: the event of a tree.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of Z divided by the largest norm of a step's vector; finite, > 0. Rounded down if not
            exactly representable.
        num_participations, min_separation : int
            As for `Strategy.sensitivity`.

        Returns
        -------
        PrivacyEvent
            A `TreeAggregationEvent`.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.

        Examples
        --------
        >>> from ferrodp.correlated import Tree
        >>> Tree(num_steps=8).event(noise_multiplier=2.0).num_steps
        8
        """
        participations, separation = participation(num_participations, min_separation)
        return TreeAggregationEvent(
            noise_multiplier=noise_multiplier,  # type: ignore[arg-type]  # rounded down
            num_steps=self.num_steps,
            max_participation=participations,
            min_separation=separation - 1,
        )

    def _numbers(self) -> dict[str, Any]:
        return {}

    def _sensitivity(self, participations: int, separation: int) -> float:
        squared = tree_sensitivity_squared(
            num_steps=self.num_steps, max_participation=participations, min_separation=separation - 1
        )
        return sqrt_up(Fraction(squared))

    def _errors(self) -> Doubles:
        return prefix_errors.of_tree(self.num_steps)
