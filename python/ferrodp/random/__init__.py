"""Noise and random bytes from keys of the operating system."""

from ferrodp.random.noise import BitGenerator, NoiseSource
from ferrodp.random.samples import fixed_size_sample, poisson_sample, random_allocation

__all__ = ["BitGenerator", "NoiseSource", "fixed_size_sample", "poisson_sample", "random_allocation"]
