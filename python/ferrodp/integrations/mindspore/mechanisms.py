"""Noise and clip mechanisms under the names of the earlier toolkit, as descriptions from which a plan is made."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import product_up
from ferrodp.correlated import Strategy
from ferrodp.errors import InvalidParameter
from ferrodp.integrations.mindspore import _settings
from ferrodp.integrations.mindspore._settings import NOISE_DECAYS
from ferrodp.plan import (
    AdaptiveClipping,
    Clipping,
    ConstantNoise,
    CorrelatedNoise,
    ExponentialDecay,
    FlatClipping,
    InverseTimeDecay,
    L1Clipping,
    NoiseSchedule,
    StepDecay,
)
from ferrodp.testing import SeededNoiseSource

__all__ = [
    "AdaClippingWithGaussianRandom",
    "ClipMechanismsFactory",
    "NoiseAdaGaussianRandom",
    "NoiseCorrelatedGaussianRandom",
    "NoiseGaussianRandom",
    "NoiseLaplaceRandom",
    "NoiseMechanismsFactory",
]

Seed = int | SeededNoiseSource
_LEAST_MULTIPLIER = 2.0**-14
"""Decay ends here: ε is beyond 10⁸ long before."""


class NoiseGaussianRandom:
    """Gaussian noise whose standard deviation is the norm bound times a constant noise multiplier.

    Describes the noise of a `DPModel` or of a private optimizer; the accounting is made from the same object. Called
    with an array or tensor, it returns noise of that shape: noise alone, which protects nothing unless it is added to a
    value of that sensitivity and accounted for.

    Parameters
    ----------
    norm_bound : float
        L2 norm that each vector is clipped to; finite, > 0. Rounded up if not exactly representable.
    initial_noise_multiplier : float
        Standard deviation of the noise divided by `norm_bound`; finite, > 0. Rounded up if not exactly representable.
    seed : int or SeededNoiseSource
        0: randomness of the operating system. Other numbers are refused; tests may pass `ferrodp.testing.seeded`.
    decay_policy : None
        This noise does not decay.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the seed another number than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.mindspore import NoiseGaussianRandom
    >>> mechanism = NoiseGaussianRandom(norm_bound=0.5, initial_noise_multiplier=1.2)
    >>> mechanism(np.zeros(3, dtype=np.float32)).shape, mechanism.is_adaptive
    ((3,), False)
    >>> mechanism.schedule()
    ConstantNoise(noise_multiplier=1.2)
    """

    is_adaptive: ClassVar[bool] = False
    """Whether the noise decays with the steps."""

    def __init__(
        self,
        norm_bound: Real = 1.0,
        initial_noise_multiplier: Real = 1.0,
        seed: Seed = 0,
        decay_policy: str | None = None,
    ) -> None:
        self._describe(norm_bound, initial_noise_multiplier, seed)
        if decay_policy is not None:
            raise InvalidParameter(
                f"decay_policy must be None for Gaussian noise, got {_validate.shown(decay_policy)}; AdaGaussian decays"
            )

    def _describe(self, norm_bound: Real, initial_noise_multiplier: Real, seed: Seed) -> None:
        self._norm_bound = _validate.positive("norm_bound", norm_bound)
        self._multiplier = _validate.positive("initial_noise_multiplier", initial_noise_multiplier)
        self._source = _settings.noise_source(seed)
        self._seed = seed

    @property
    def norm_bound(self) -> float:
        """L2 norm that each vector is clipped to."""
        return self._norm_bound

    @property
    def initial_noise_multiplier(self) -> float:
        """Noise multiplier of the first step."""
        return self._multiplier

    @property
    def decay_policy(self) -> str | None:
        """How the noise decays; None if it does not."""
        return None

    @property
    def noise_decay_rate(self) -> float:
        """Rate of the decay; 0 if there is none."""
        return 0.0

    @property
    def seed(self) -> Seed:
        """0, or the source that a test passed."""
        return self._seed

    def schedule(self, first_step: int = 0) -> NoiseSchedule:
        """Return the plan's schedule of noise multipliers.

        Parameters
        ----------
        first_step : int
            How many steps came before, in an earlier training; at least 0.

        Returns
        -------
        NoiseSchedule
            Its first value is that of `first_step`.

        Raises
        ------
        InvalidParameter, InvalidType
            If `first_step` is no integer, or negative.
        """
        _validate.count("first_step", first_step, minimum=0)
        return ConstantNoise(self._multiplier)

    def clipping(self) -> Clipping:
        """Return how the plan clips vectors.

        Returns
        -------
        Clipping
            `FlatClipping` for Gaussian noise, `L1Clipping` for Laplace noise.

        Examples
        --------
        >>> from ferrodp.integrations.mindspore import NoiseGaussianRandom
        >>> NoiseGaussianRandom(norm_bound=2.0, initial_noise_multiplier=1.1).clipping()
        FlatClipping(clip_norm=2.0)
        """
        return FlatClipping(self._norm_bound)

    def _noise(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return noise of the first step."""
        deviation = product_up(self._norm_bound, self._multiplier)
        noise: npt.NDArray[Any] = self._source.gaussian(shape, standard_deviation=deviation, dtype=dtype)
        return noise

    def __call__(self, gradients: Any) -> Any:
        """Return noise like an array or a tensor, as in the first step."""
        is_tensor = hasattr(gradients, "asnumpy")
        array = gradients.asnumpy() if is_tensor else np.asarray(gradients)
        dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.dtype(np.float32)
        noise = self._noise(array.shape, dtype)
        return noise if not is_tensor else _settings.imported().Tensor(noise).astype(gradients.dtype)

    def __repr__(self) -> str:
        decay = f", decay_policy={self.decay_policy!r}" if self.is_adaptive else ""
        return f"<{type(self).__name__}, norm_bound={self._norm_bound}, noise_multiplier={self._multiplier}{decay}>"


class NoiseAdaGaussianRandom(NoiseGaussianRandom):
    """Gaussian noise whose multiplier decays with the steps of the training.

    As `NoiseGaussianRandom`; with z₀ the initial multiplier and r the rate, step t = 0, 1, … has the multiplier
    z₀/(1 + rt) ("Time"), z₀(1 − r)ᵗ ("Step") or z₀e⁻ʳᵗ ("Exp"), and at least 2⁻¹⁴. Called by itself it returns noise of
    the first step.

    Parameters
    ----------
    norm_bound, initial_noise_multiplier, seed
        As for `NoiseGaussianRandom`.
    noise_decay_rate : float
        r, in [0, 1).
    decay_policy : {"Exp", "Time", "Step"}
        The rule. None means "Exp".

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the seed another number than 0.
    UnknownName
        If there is no such policy.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import NoiseAdaGaussianRandom
    >>> mechanism = NoiseAdaGaussianRandom(initial_noise_multiplier=2.0, noise_decay_rate=0.5, decay_policy="Step")
    >>> [mechanism.schedule().at(step, 3) for step in range(3)]
    [2.0, 1.0, 0.5]
    """

    is_adaptive: ClassVar[bool] = True

    def __init__(
        self,
        norm_bound: Real = 1.0,
        initial_noise_multiplier: Real = 1.0,
        seed: Seed = 0,
        noise_decay_rate: Real = 6e-6,
        decay_policy: str | None = "Exp",
    ) -> None:
        self._describe(norm_bound, initial_noise_multiplier, seed)
        self._rate = _settings.decay_rate(noise_decay_rate)
        self._policy = _settings.one_of("decay_policy", "Exp" if decay_policy is None else decay_policy, NOISE_DECAYS)

    @property
    def decay_policy(self) -> str | None:
        """How the noise decays."""
        return self._policy

    @property
    def noise_decay_rate(self) -> float:
        """Rate of the decay."""
        return self._rate

    def schedule(self, first_step: int = 0) -> NoiseSchedule:
        """Return the plan's schedule of noise multipliers.

        Parameters
        ----------
        first_step : int
            As for `NoiseGaussianRandom.schedule`.

        Returns
        -------
        NoiseSchedule
            Its first value is that of `first_step`.

        Raises
        ------
        InvalidParameter, InvalidType
            As for `NoiseGaussianRandom.schedule`.
        """
        return decaying(self._multiplier, self._policy, self._rate, first_step)


class NoiseLaplaceRandom(NoiseGaussianRandom):
    """Laplace noise whose scale is the norm bound times a constant noise multiplier; gradients are clipped in L1 norm.

    In a `DPModel` the plan has `ferrodp.plan.L1Clipping`: the vector of each record is scaled down to an *L1* norm of
    at most `norm_bound`, sums are exact, and accounting is that of Laplace noise under the sampling of the training.
    One step about all records costs ε = 1/`initial_noise_multiplier`, with δ = 0. A gradient of d coordinates has an L1
    norm of up to √d times its L2 norm: for most networks Gaussian noise is far less.

    Parameters
    ----------
    norm_bound : float
        L1 norm that each vector is clipped to; finite, > 0.
    initial_noise_multiplier : float
        Scale of the noise divided by `norm_bound`; its standard deviation is √2 of that. Finite, > 0. Rounded up if not
        exactly representable.
    seed, decay_policy
        As for `NoiseGaussianRandom`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the seed another number than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.integrations.mindspore import NoiseLaplaceRandom
    >>> mechanism = NoiseLaplaceRandom(norm_bound=0.5, initial_noise_multiplier=2.0)
    >>> mechanism(np.zeros(3, dtype=np.float32)).shape, mechanism.clipping()
    ((3,), L1Clipping(clip_norm=0.5))
    """

    def clipping(self) -> Clipping:
        """Return how the plan clips vectors.

        Returns
        -------
        L1Clipping
        """
        # mutant: laplace-noise-for-gradients-clipped-in-l2
        return L1Clipping(self._norm_bound)

    def _noise(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        scale = product_up(self._norm_bound, self._multiplier)
        noise: npt.NDArray[Any] = self._source.laplace(shape, scale=scale).astype(dtype)
        return noise


class NoiseCorrelatedGaussianRandom(NoiseGaussianRandom):
    """Gaussian noise that cancels over the steps of a training: the sums of steps have far less of it.

    Describes the noise of a `DPModel`, as `ferrodp.plan.CorrelatedNoise` does that of a plan. A training is charged as
    one release before its first step, for the steps in which a record takes part. Each training of a model begins a
    stream of its own. Called by itself it returns independent noise of the standard deviation of Z: what a step gets
    comes from the run of the plan alone.

    Parameters
    ----------
    strategy : ferrodp.correlated.Strategy
        Of as many steps as a training has, or more. Not a `Tree`.
    norm_bound, initial_noise_multiplier, seed
        As for `NoiseGaussianRandom`; the multiplier is that of `CorrelatedNoise`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, the strategy is none, or a tree.

    See Also
    --------
    ferrodp.plan.CorrelatedNoise : the guarantee, and which sampling it goes with.

    Notes
    -----
    With an `IndexedDataset` of ``sampling=CyclicPoisson(1.0, num_parts=…)`` records take part once an epoch, in a fixed
    order. A loader that shuffles anew has participations one step apart, and is charged for that. Clip norms that adapt
    and groups of records are refused.

    Examples
    --------
    >>> from ferrodp.correlated import BufferedToeplitz
    >>> from ferrodp.integrations.mindspore import NoiseCorrelatedGaussianRandom
    >>> strategy = BufferedToeplitz(num_steps=40, buffers=2, num_participations=4, min_separation=10)
    >>> mechanism = NoiseCorrelatedGaussianRandom(strategy, norm_bound=1.0, initial_noise_multiplier=2.0)
    >>> mechanism.schedule().noise_multiplier, mechanism.is_adaptive
    (2.0, False)
    """

    def __init__(
        self, strategy: Strategy, norm_bound: Real = 1.0, initial_noise_multiplier: Real = 1.0, seed: Seed = 0
    ) -> None:
        self._describe(norm_bound, initial_noise_multiplier, seed)
        self._schedule = CorrelatedNoise(strategy, self._multiplier)

    @property
    def strategy(self) -> Strategy:
        """How the noise of the steps is correlated."""
        return self._schedule.strategy

    def schedule(self, first_step: int = 0) -> NoiseSchedule:
        """Return the noise of a training.

        Parameters
        ----------
        first_step : int
            As for `NoiseGaussianRandom.schedule`; each training has a stream of its own, which begins at 0.

        Returns
        -------
        CorrelatedNoise

        Raises
        ------
        InvalidParameter, InvalidType
            As for `NoiseGaussianRandom.schedule`.
        """
        _validate.count("first_step", first_step, minimum=0)
        return self._schedule


def decaying(initial: float, policy: str | None, rate: float, first_step: int = 0) -> NoiseSchedule:
    """Return the schedule of a decay rule, from a step on: each of the rules is one of its own tails."""
    done = _validate.count("first_step", first_step, minimum=0)
    if policy is None or rate == 0.0:
        return ConstantNoise(initial)
    least = min(initial, _LEAST_MULTIPLIER)
    if policy == "Time":
        grown = 1.0 + rate * done
        now = max(initial / grown, least)
        return InverseTimeDecay(now, rate=rate / grown, floor=least)
    if policy == "Step":
        return StepDecay(max(initial * (1.0 - rate) ** done, least), factor=1.0 - rate, floor=least)
    return ExponentialDecay(max(initial * math.exp(-rate * done), least), rate=rate, floor=least)


class AdaClippingWithGaussianRandom:
    """A clip norm that follows a quantile of the norms, learned from a noised fraction.

    In a `DPModel` the plan does it: the count of vectors within the norm is noised with `fraction_stddev` times the
    number of vectors of a step, its cost is charged with that of the sum, and noise moves with the norm
    (`ferrodp.plan.AdaptiveClipping`). Called with a fraction and a norm bound, it returns the next norm bound: an
    illustration, whose cost nobody counts.

    Parameters
    ----------
    decay_policy : {"Linear", "Geometric"}
        With b the noised fraction, γ the target and η the learning rate, "Geometric" makes C·exp(−η(b − γ)) of C, and
        "Linear" C − η(b − γ), at least a thousandth of the first norm.
    learning_rate : float
        η; finite, > 0.
    target_unclipped_quantile : float
        γ; in (0, 1).
    fraction_stddev : float
        Standard deviation of the noise of the fraction; finite, > 0.
    seed : int or SeededNoiseSource
        As for `NoiseGaussianRandom`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or the seed another number than 0.
    UnknownName
        If there is no such policy.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import AdaClippingWithGaussianRandom
    >>> mechanism = AdaClippingWithGaussianRandom("Geometric", learning_rate=0.1, target_unclipped_quantile=0.5)
    >>> mechanism(0.9, 1.0) < 1.0 < mechanism(0.1, 1.0)  # too many within the bound: it falls
    True
    >>> mechanism.clipping(1.0, num_vectors=256, unit_of_count=0.5).count_noise_multiplier
    5.12
    """

    def __init__(
        self,
        decay_policy: str = "Linear",
        learning_rate: Real = 0.001,
        target_unclipped_quantile: Real = 0.9,
        fraction_stddev: Real = 0.01,
        seed: Seed = 0,
    ) -> None:
        self._policy = _settings.one_of("decay_policy", decay_policy, ("Linear", "Geometric"))
        self._learning_rate = _validate.positive("learning_rate", learning_rate)
        self._quantile = _validate.positive("target_unclipped_quantile", target_unclipped_quantile)
        if self._quantile >= 1.0:
            raise _validate.out_of_domain("target_unclipped_quantile", "in (0, 1)", target_unclipped_quantile)
        self._deviation = _validate.positive("fraction_stddev", fraction_stddev)
        self._source = _settings.noise_source(seed)
        self._seed = seed

    @property
    def seed(self) -> Seed:
        """0, or the source that a test passed."""
        return self._seed

    def clipping(self, norm_bound: float, *, num_vectors: float, unit_of_count: float) -> AdaptiveClipping:
        """Return the plan's clipping.

        Parameters
        ----------
        norm_bound : float
            The first clip norm.
        num_vectors : float
            Expected number of vectors of a step: a fraction is a count divided by it.
        unit_of_count : float
            Sensitivity of the count.

        Returns
        -------
        AdaptiveClipping

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is not a number > 0.
        """
        norm = _validate.positive("norm_bound", norm_bound)
        deviation = self._deviation * _validate.positive("num_vectors", num_vectors)
        return AdaptiveClipping(
            norm,
            target_quantile=self._quantile,
            learning_rate=self._learning_rate,
            count_noise_multiplier=deviation / _validate.positive("unit_of_count", unit_of_count),
            rule="linear" if self._policy == "Linear" else "geometric",
        )

    def __call__(self, empirical_fraction: Any, norm_bound: Any) -> Any:
        """Return the next norm bound, as a number or a tensor like `norm_bound`."""
        noise = self._source.gaussian(1, standard_deviation=self._deviation)[0]
        fraction, bound = float(_number(empirical_fraction)), float(_number(norm_bound))
        rule = self.clipping(bound, num_vectors=1.0, unit_of_count=1.0)
        found = rule.next_norm(bound, fraction + float(noise))
        if not hasattr(norm_bound, "asnumpy"):
            return found
        return _settings.imported().Tensor(np.float32(found)).reshape(norm_bound.shape)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, decay_policy={self._policy!r}, target_unclipped_quantile={self._quantile}>"


def _number(value: Any) -> Any:
    """Return the only number of a tensor or array, or a number itself."""
    return np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value).reshape(())[()]


class NoiseMechanismsFactory:
    """Makes noise mechanisms by name.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import NoiseMechanismsFactory
    >>> NoiseMechanismsFactory().create("AdaGaussian")
    <NoiseAdaGaussianRandom, norm_bound=1.0, noise_multiplier=1.0, decay_policy='Exp'>
    """

    @staticmethod
    def create(
        mech_name: str,
        norm_bound: Real = 1.0,
        initial_noise_multiplier: Real = 1.0,
        seed: Seed = 0,
        noise_decay_rate: Real = 6e-6,
        decay_policy: str | None = None,
    ) -> NoiseGaussianRandom:
        """Return a noise mechanism.

        Parameters
        ----------
        mech_name : {"Gaussian", "AdaGaussian", "Laplace"}
            Constant or decaying noise, or Laplace noise for gradients that are clipped in L1 norm.
        norm_bound, initial_noise_multiplier, seed, noise_decay_rate
            As for `NoiseAdaGaussianRandom`. "Gaussian" and "Laplace" have no use for the rate.
        decay_policy : str, optional
            For "AdaGaussian": "Exp" by default.

        Returns
        -------
        NoiseGaussianRandom, NoiseAdaGaussianRandom or NoiseLaplaceRandom

        Raises
        ------
        UnknownName
            If there is no such mechanism or policy.
        InvalidParameter, InvalidType
            As for the classes.
        """
        name = _settings.one_of("mech_name", mech_name, ("Gaussian", "AdaGaussian", "Laplace"))
        if name != "AdaGaussian":
            kind = NoiseGaussianRandom if name == "Gaussian" else NoiseLaplaceRandom
            return kind(norm_bound, initial_noise_multiplier, seed, decay_policy)
        return NoiseAdaGaussianRandom(norm_bound, initial_noise_multiplier, seed, noise_decay_rate, decay_policy)


class ClipMechanismsFactory:
    """Makes clip mechanisms by name.

    Examples
    --------
    >>> from ferrodp.integrations.mindspore import ClipMechanismsFactory
    >>> ClipMechanismsFactory().create("Gaussian", decay_policy="Geometric")
    <AdaClippingWithGaussianRandom, decay_policy='Geometric', target_unclipped_quantile=0.9>
    """

    @staticmethod
    def create(
        mech_name: str,
        decay_policy: str = "Linear",
        learning_rate: Real = 0.001,
        target_unclipped_quantile: Real = 0.9,
        fraction_stddev: Real = 0.01,
        seed: Seed = 0,
    ) -> AdaClippingWithGaussianRandom:
        """Return a clip mechanism.

        Parameters
        ----------
        mech_name : {"Gaussian"}
            Adaptive clipping with a noised fraction.
        decay_policy, learning_rate, target_unclipped_quantile, fraction_stddev, seed
            As for `AdaClippingWithGaussianRandom`.

        Returns
        -------
        AdaClippingWithGaussianRandom

        Raises
        ------
        UnknownName
            If there is no such mechanism or policy.
        InvalidParameter, InvalidType
            As for the class.
        """
        _settings.one_of("mech_name", mech_name, ("Gaussian",))
        return AdaClippingWithGaussianRandom(
            decay_policy, learning_rate, target_unclipped_quantile, fraction_stddev, seed
        )
