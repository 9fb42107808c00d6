"""Noise and random bytes from keys of the operating system."""

from ferrodp.random.noise import BitGenerator, NoiseSource

__all__ = ["BitGenerator", "NoiseSource"]
