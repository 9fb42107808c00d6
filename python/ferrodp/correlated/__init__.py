"""Strategies of correlated noise: how the noise of a stream's steps cancels in their prefix sums.

A strategy is a lower triangular matrix C of `num_steps` rows. A stream of vectors g is released as g + C⁻¹·Z, with Z of
independent Gaussian rows: all releases together are one Gaussian release of C·g, and the noise of a sum of consecutive
releases is far smaller than with independent noise.

`BandedToeplitz`, `SquareRoot`, `BufferedToeplitz`, `Tree`, `BandedMatrix`
    Strategies (`Strategy`): their `sensitivity` is certified, `rms_error` and `max_error` compare them, `event` is what
    a stream costs.
`NoiseStream`
    Releases one vector a step with such noise, each number rounded exactly.
"""

from ferrodp.correlated.matrix import BandedMatrix
from ferrodp.correlated.strategy import Strategy
from ferrodp.correlated.streams import NoiseStream
from ferrodp.correlated.toeplitz import BandedToeplitz, BufferedToeplitz, SquareRoot
from ferrodp.correlated.tree import Tree

__all__ = ["BandedMatrix", "BandedToeplitz", "BufferedToeplitz", "NoiseStream", "SquareRoot", "Strategy", "Tree"]
