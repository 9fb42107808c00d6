"""Private optimizers under the name of the earlier toolkit: MindSpore's own, which carry the mechanism to the model."""

from __future__ import annotations

from typing import Any

from ferrodp._base import _validate
from ferrodp.errors import FerroError, InvalidParameter
from ferrodp.integrations.mindspore import _settings
from ferrodp.integrations.mindspore.mechanisms import NoiseGaussianRandom, NoiseMechanismsFactory

__all__ = ["DPOptimizerClassFactory"]

_OPTIMIZERS = {"sgd": "SGD", "momentum": "Momentum", "adam": "Adam"}


class DPOptimizerClassFactory:
    """Makes optimizer classes that carry a noise mechanism to the `DPModel` that trains with them.

    The model clips and noises; the optimizer only uses what was released, which is post-processing. Used anywhere else,
    on gradients that nobody clipped, an optimizer of these classes refuses to step.

    Parameters
    ----------
    micro_batches : int, optional
        Into how many groups a batch is cut, as for `DPModel`, which has to agree; None for one record each.

    Raises
    ------
    InvalidParameter, InvalidType
        If `micro_batches` is out of its domain.

    Examples
    --------
    >>> from mindspore import nn
    >>> from ferrodp.integrations.mindspore import DPOptimizerClassFactory
    >>> factory = DPOptimizerClassFactory(micro_batches=2)
    >>> factory.set_mechanisms("Gaussian", norm_bound=1.0, initial_noise_multiplier=1.5)
    >>> optimizer = factory.create("Momentum")(nn.Dense(3, 2).trainable_params(), learning_rate=0.1, momentum=0.9)
    >>> optimizer.noise_mech
    <NoiseGaussianRandom, norm_bound=1.0, noise_multiplier=1.5>
    """

    def __init__(self, micro_batches: int | None = 2) -> None:
        self._micro_batches = None if not micro_batches else _validate.count("micro_batches", micro_batches)
        self._mechanism: NoiseGaussianRandom | None = None

    def set_mechanisms(self, policy: str, *args: Any, **kwargs: Any) -> None:
        """Choose the noise of the classes that are made from now on.

        Parameters
        ----------
        policy : {"Gaussian", "AdaGaussian", "Laplace"}
            As for `NoiseMechanismsFactory.create`.
        *args, **kwargs
            As for `NoiseMechanismsFactory.create`.

        Raises
        ------
        UnknownName, InvalidParameter, InvalidType
            As for `NoiseMechanismsFactory.create`.
        """
        self._mechanism = NoiseMechanismsFactory.create(policy, *args, **kwargs)

    def create(self, policy: str) -> type[Any]:
        """Return a subclass of a MindSpore optimizer, to be called as that optimizer is.

        Parameters
        ----------
        policy : {"SGD", "Momentum", "Adam"}
            Which one, in upper or lower case.

        Returns
        -------
        type
            With the attributes `noise_mech` and `micro_batches`.

        Raises
        ------
        UnknownName
            If there is no such optimizer.
        InvalidParameter
            If no mechanism was set.
        MissingPackage
            If MindSpore is not installed.
        """
        known = isinstance(policy, str) and policy.lower() in _OPTIMIZERS
        name = _OPTIMIZERS[policy.lower()] if known else _settings.one_of("policy", policy, _OPTIMIZERS.values())
        if self._mechanism is None:
            raise InvalidParameter("a noise mechanism must be set by set_mechanisms before a class is made")
        return _private(getattr(_settings.imported().nn, name), self._mechanism, self._micro_batches)


def _private(base: type[Any], mechanism: NoiseGaussianRandom, micro_batches: int | None) -> type[Any]:
    class DPOptimizer(base):  # type: ignore[misc]
        """A MindSpore optimizer that steps only on gradients that a `DPModel` released."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.noise_mech = mechanism
            self.micro_batches = micro_batches
            self.is_released = False

        def __call__(self, *gradients: Any) -> Any:
            if not self.is_released:
                raise FerroError(
                    "a private optimizer steps only in DPModel.train, which clips and noises the gradients"
                )
            return super().__call__(*gradients)

        def construct(self, gradients: Any) -> Any:
            if not self.is_released:
                raise ValueError(
                    "a private optimizer steps only in DPModel.train, which clips and noises the gradients"
                )
            return super().construct(gradients)

    return DPOptimizer


def is_private(optimizer: object) -> bool:
    """Return whether an optimizer carries a mechanism of its own."""
    return isinstance(getattr(optimizer, "noise_mech", None), NoiseGaussianRandom)
