"""Sums of clipped rows: exact integers inside, noise at the door, once."""

from ferrodp.sums.clipped import ClippedSum, GridSum
from ferrodp.sums.outer import UnitRows

__all__ = ["ClippedSum", "GridSum", "UnitRows"]
