"""Certified accounting for Flower's own wrappers, behind its protocol of accountants."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp.accounting import PldAccountant
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import FixedSizeSampledEvent, GaussianEvent, NeighboringRelation, PoissonSampledEvent, PrivacyEvent
from ferrodp.integrations.flower._library import library

__all__ = ["PlanAccountant"]


class PlanAccountant:
    """Implement `flwr.serverapp.PrivacyAccountant` with a certified accountant, for Flower's own wrappers.

    Parameters
    ----------
    config : flwr.supercore.privacy_accounting.PrivacyConfig
        Target δ, population, neighboring relation, sampling method and perhaps a largest ε.

    Raises
    ------
    InvalidType
        If it is no such configuration.
    MissingPackage
        If Flower is not installed.

    Notes
    -----
    ε is a proven upper bound on the loss of the *stated* events; the noise of Flower's wrappers is Flower's own. Noise
    multipliers are noise over clip norm; under replace-one the sensitivity is twice that, so events have half of them.

    Examples
    --------
    >>> from flwr.supercore.privacy_accounting import GaussianPrivacyEvent, PrivacyConfig
    >>> from flwr.supercore.privacy_accounting import NeighboringRelation, SamplingMethod
    >>> relation, method = NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.POISSON
    >>> config = PrivacyConfig(1e-5, 100, relation, method, max_epsilon=8.0)
    >>> accountant = PlanAccountant(config)
    >>> event = GaussianPrivacyEvent(noise_multiplier=2.0, sample_size=10, population_size=100)
    >>> accountant.compose(event, 30)
    >>> accountant.get_privacy_spent().num_releases, accountant.would_exceed(event, count=10_000)
    (30, True)
    >>> round(accountant.get_epsilon(1e-5), 3), accountant.get_delta(2.0) < 1e-5
    (1.295, True)
    >>> again = PlanAccountant(config)
    >>> again.load_state_dict(accountant.state_dict())
    >>> again.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    True
    """

    def __init__(self, config: Any) -> None:
        if not isinstance(config, library("flwr.supercore.privacy_accounting").PrivacyConfig):
            raise InvalidType(f"config must be a PrivacyConfig of Flower, got {type(config).__name__}")
        self._config = config
        self._relation = NeighboringRelation[config.neighboring_relation.name]
        self._accountant = PldAccountant(neighboring_relation=self._relation)
        self._count = 0

    @property
    def config(self) -> Any:
        """The configuration."""
        return self._config

    @property
    def num_releases(self) -> int:
        """Number of releases that were composed."""
        return self._count

    def compose(self, event: Any, count: int = 1) -> None:
        """Add releases.

        Parameters
        ----------
        event : flwr.supercore.privacy_accounting.GaussianPrivacyEvent
            What happens each time.
        count : int
            How often; at least 1.

        Raises
        ------
        InvalidParameter, InvalidType
            If an argument is not accepted. Nothing was added.
        """
        count = _validate.count("count", count)
        self._accountant.compose(self._event(event), count)
        self._count += count

    def get_epsilon(self, delta: Real) -> float:
        """Return an upper bound on ε.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        float

        Raises
        ------
        InvalidParameter, InvalidType
            If δ is out of its domain.
        """
        return self._accountant.epsilon(delta)

    def get_delta(self, epsilon: Real) -> float:
        """Return an upper bound on δ.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0.

        Returns
        -------
        float

        Raises
        ------
        InvalidParameter, InvalidType
            If ε is out of its domain.
        """
        return self._accountant.delta(epsilon)

    def get_privacy_spent(self, delta: Real | None = None) -> Any:
        """Return what was spent, as Flower reports it.

        Parameters
        ----------
        delta : float, optional
            By default the configuration's.

        Returns
        -------
        flwr.supercore.privacy_accounting.PrivacySpent

        Raises
        ------
        InvalidParameter, InvalidType
            If δ is out of its domain.
        """
        at = _validate.delta(self._config.target_delta if delta is None else delta)
        spent = library("flwr.supercore.privacy_accounting").PrivacySpent
        return spent(epsilon=self.get_epsilon(at), delta=at, num_releases=self._count, accounting_method="ferrodp-pld")

    def would_exceed(self, event: Any, max_epsilon: Real | None = None, count: int = 1) -> bool:
        """Return whether more releases would exceed a largest ε; adds nothing.

        Parameters
        ----------
        event : flwr.supercore.privacy_accounting.GaussianPrivacyEvent
            What might happen.
        max_epsilon : float, optional
            By default the configuration's.
        count : int
            How often; at least 1.

        Returns
        -------
        bool

        Raises
        ------
        InvalidParameter, InvalidType
            If an argument is not accepted, or there is no largest ε.
        """
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise InvalidParameter("max_epsilon must be given, here or in the configuration")
        target = self._config.target_delta
        return self._accountant.would_exceed(self._event(event), epsilon=limit, delta=target, count=count)

    def state_dict(self) -> dict[str, object]:
        """Return plain JSON data, for `load_state_dict`."""
        return {"accountant": self._accountant.state_dict(), "num_releases": self._count}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take on what `state_dict` of an accountant with the same relation returned.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.

        Raises
        ------
        InvalidParameter, InvalidType
            If it is not that. Nothing changed.
        """
        if not isinstance(state, Mapping) or state.keys() != {"accountant", "num_releases"}:
            raise InvalidParameter("state must be what PlanAccountant.state_dict() returned")
        restored = PldAccountant.from_state_dict(state["accountant"])  # type: ignore[arg-type]
        if restored.neighboring_relation is not self._relation:
            raise InvalidParameter(f"state must have the neighboring relation {self._relation.name}")
        count = _validate.count("num_releases", state["num_releases"], minimum=0)
        self._accountant, self._count = restored, count

    def _event(self, event: Any) -> PrivacyEvent:
        flower = library("flwr.supercore.privacy_accounting")
        if not isinstance(event, flower.GaussianPrivacyEvent):
            raise InvalidType(f"event must be a GaussianPrivacyEvent of Flower, got {type(event).__name__}")
        if event.population_size != self._config.population_size:
            raise InvalidParameter(
                f"event must be about the population of {self._config.population_size}, got {event.population_size}"
            )
        # mutant: flower-replaced-client-counted-once
        distance = 2 if self._relation is NeighboringRelation.REPLACE_ONE else 1
        noise = GaussianEvent(noise_multiplier=event.noise_multiplier / distance)
        method = self._config.sampling_method
        if method is flower.SamplingMethod.NO_AMPLIFICATION:
            return noise
        if method is flower.SamplingMethod.POISSON:
            chance = Fraction(event.sample_size, event.population_size)
            return PoissonSampledEvent(sampling_probability=chance, event=noise)  # type: ignore[arg-type]
        return FixedSizeSampledEvent(population_size=event.population_size, sample_size=event.sample_size, event=noise)
