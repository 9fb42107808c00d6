"""Noise, random bytes and random samples from keys of the operating system.

`NoiseSource` draws noise that is released; `BitGenerator` drives numpy's generators. `poisson_sample`,
`fixed_size_sample` and `random_allocation` draw who takes part in a step.
"""

from ferrodp.random.bit_generator import BitGenerator
from ferrodp.random.noise import NoiseSource
from ferrodp.random.samples import fixed_size_sample, poisson_sample, random_allocation

__all__ = ["BitGenerator", "NoiseSource", "fixed_size_sample", "poisson_sample", "random_allocation"]
