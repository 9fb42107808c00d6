"""Sums of clipped rows: exact integers inside, noise at the door, once."""

from ferrodp.sums.clipped import ClippedSum, GridSum

__all__ = ["ClippedSum", "GridSum"]
