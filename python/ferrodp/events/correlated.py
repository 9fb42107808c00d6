"""Streams of releases with correlated noise: what they cost together is one Gaussian release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ferrodp import _validate
from ferrodp.events.base import PrivacyEvent, register, settle

__all__ = ["MatrixMechanismEvent", "TreeAggregationEvent"]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAggregationEvent(PrivacyEvent):
    """All prefix sums of a stream, from one tree of partial sums with Gaussian noise at each node.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of a node's noise divided by the L2 sensitivity of one contribution; finite, > 0. Rounded
        down if it is no float.
    num_steps : int
        Leaves of the tree, from 0 to 2⁶³ − 1. A node's sum is released when its last leaf is known, so that the nodes
        are the complete blocks of 2ⁱ steps.
    max_participation : int
        In how many steps one unit of privacy may take part; at least 1.
    min_separation : int
        How many steps at least lie between two of them; ≥ 0.

    Notes
    -----
    The cost is that of one Gaussian release with sensitivity √S, S the largest sum of squared contributions over the
    nodes: Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, "Practical and private (deep) learning without sampling or
    shuffling", ICML 2021, section 4 and appendix D.2. `tree_sensitivity_squared` returns S.
    """

    kind: ClassVar[str] = "tree_aggregation"
    noise_multiplier: float
    num_steps: int
    max_participation: int = 1
    min_separation: int = 0

    def __post_init__(self) -> None:
        settle(
            self,
            noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier, toward="down"),
            num_steps=_validate.count("num_steps", self.num_steps, minimum=0),
            max_participation=_validate.count("max_participation", self.max_participation),
            min_separation=_validate.count("min_separation", self.min_separation, minimum=0),
        )


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixMechanismEvent(PrivacyEvent):
    """A whole stream of releases with noise C⁻¹Z, Z Gaussian: a matrix mechanism, DP-FTRL with correlated noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of Z divided by the L2 sensitivity of one contribution; finite, > 0. Rounded down if it is no
        float.
    sensitivity : float
        Largest L2 norm of C·G over all that one unit can contribute: G has a row of norm at most 1 for each step in
        which the unit takes part, and zeros elsewhere. Finite, > 0. Rounded up if it is no float. See the notes.

    Notes
    -----
    It costs one Gaussian release with multiplier `noise_multiplier`/`sensitivity`: Denisov, McMahan, Rush, Smith,
    Thakurta, "Improved differential privacy for SGD via optimal private linear operators on adaptive streams", NeurIPS
    2022, Theorem 2.1; several participations: Choquette-Choo, McMahan, Rush, Thakurta, "Multi-epoch matrix
    factorization mechanisms for private machine learning", ICML 2023, section 2.

    With X = CᵀC and P the steps of one pattern of participation, ‖C·G‖² is Σ X[i, j]·⟨gᵢ, gⱼ⟩ over i, j in P. If no
    such X[i, j] is negative, equal rows are the worst ones, and the sensitivity is the largest ‖C·u‖ over vectors u of
    zeros and ones. Otherwise contributions of different signs, or directions, are worse than that: take the square root
    of the largest Σ |X[i, j]| over a pattern, a bound for all of them (Choquette-Choo, Ganesh, McKenna, McMahan, Rush,
    Thakurta, Xu, "(Amplified) banded matrix factorization: a unified approach to private training", NeurIPS 2023).
    """

    kind: ClassVar[str] = "matrix_mechanism"
    noise_multiplier: float
    sensitivity: float

    def __post_init__(self) -> None:
        settle(
            self,
            noise_multiplier=_validate.positive("noise_multiplier", self.noise_multiplier, toward="down"),
            sensitivity=_validate.positive("sensitivity", self.sensitivity, toward="up"),
        )
