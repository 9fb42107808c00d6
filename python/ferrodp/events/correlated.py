"""Streams of releases with correlated noise: all releases together cost as much as one Gaussian release."""

from __future__ import annotations

from typing import ClassVar

from ferrodp.events import base
from ferrodp.events.base import PrivacyEvent, event_class


@event_class
class TreeAggregationEvent(PrivacyEvent):
    """All prefix sums of a stream, from one tree of partial sums with Gaussian noise at each node.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of a node's noise divided by the L2 sensitivity of one contribution; finite, > 0. Rounded
        down if not exactly representable.
    num_steps : int
        Leaves of the tree, from 0 to 2⁶³ − 1. A node's sum is released when its last leaf is known; the nodes are
        therefore the complete blocks of 2ⁱ steps.
    max_participation : int
        In how many steps one unit of privacy may take part; at least 1.
    min_separation : int
        Least number of steps between two participations of a unit; ≥ 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or of another type.

    Notes
    -----
    The cost is that of one Gaussian release with sensitivity √S, where S is the largest sum of squared contributions
    over the nodes ([KMSTTX21] Section 4 and Appendix D.2). `tree_sensitivity_squared` returns S.

    Examples
    --------
    >>> from ferrodp.events import decompose
    >>> list(decompose(TreeAggregationEvent(noise_multiplier=2.0, num_steps=15)))  # four levels: 2/√4
    [(GaussianEvent(noise_multiplier=1.0), 1)]
    """

    kind: ClassVar[str] = "tree_aggregation"
    checks: ClassVar[base.Checks] = {
        "noise_multiplier": base.POSITIVE_DOWN,
        "num_steps": base.COUNT_FROM_0,
        "max_participation": base.COUNT_FROM_1,
        "min_separation": base.COUNT_FROM_0,
    }
    noise_multiplier: float
    num_steps: int
    max_participation: int = 1
    min_separation: int = 0


@event_class
class MatrixMechanismEvent(PrivacyEvent):
    """A whole stream of releases with noise C⁻¹Z, Z Gaussian: a matrix mechanism, or DP-FTRL with correlated noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of Z divided by the L2 sensitivity of one contribution; finite, > 0. Rounded down if not
        exactly representable.
    sensitivity : float
        Largest L2 norm of C·G over all that one unit can contribute: G has a row of norm at most 1 for each step in
        which the unit takes part, and zeros elsewhere. Finite, > 0. Rounded up if not exactly representable. See the
        notes.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is outside its domain, or not a real number.

    Notes
    -----
    It costs as much as one Gaussian release with multiplier `noise_multiplier`/`sensitivity`: [DMRST22] Theorem 2.1;
    for several participations [CMRT23] Section 2.

    With X = CᵀC and P the steps of one pattern of participation, ‖C·G‖² is Σ X[i, j]·⟨gᵢ, gⱼ⟩ over i, j in P. If no
    such X[i, j] is negative, equal rows are the worst case, and the sensitivity is the largest ‖C·u‖ over vectors u of
    zeros and ones. Otherwise contributions of different signs or directions are worse: take the square root of the
    largest ``Σ |X[i, j]|`` over a pattern, which bounds all of them ([CGMMRTX23]).

    Examples
    --------
    >>> from ferrodp.events import decompose
    >>> list(decompose(MatrixMechanismEvent(noise_multiplier=3.0, sensitivity=2.0)))
    [(GaussianEvent(noise_multiplier=1.5), 1)]
    """

    kind: ClassVar[str] = "matrix_mechanism"
    # mutant: sensitivity-rounded-down
    checks: ClassVar[base.Checks] = {"noise_multiplier": base.POSITIVE_DOWN, "sensitivity": base.POSITIVE_UP}
    noise_multiplier: float
    sensitivity: float
