"""Mechanisms: immutable values that release data with noise, and say what a release costs."""

from ferrodp.mechanisms.gaussian import GaussianMechanism
from ferrodp.mechanisms.laplace import LaplaceMechanism

__all__ = ["GaussianMechanism", "LaplaceMechanism"]
