"""Where the noise of a plan's rounds is drawn, if not by the server: local, distributed and shuffled placements."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ferrodp._base import _trees, _validate
from ferrodp.errors import InvalidArray
from ferrodp.events import NeighboringRelation
from ferrodp.federated.local import LocalNoise
from ferrodp.federated.secure import SecureSum
from ferrodp.federated.shuffled import ShuffledReports
from ferrodp.plan import PrivacyPlan
from ferrodp.random import NoiseSource

__all__ = ["DistributedPlacement", "LocalPlacement", "Placement", "ShuffledPlacement"]

Mechanism = TypeVar("Mechanism", LocalNoise, SecureSum, ShuffledReports)
_REPLACED = NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Total:
    """What a protocol of secure aggregation showed: the sum of the messages of so many clients."""

    residues: Any
    clients: int


class Placement(abc.ABC, Generic[Mechanism]):
    """Where the noise of a plan's rounds is drawn, if not by the server.

    Examples
    --------
    >>> from ferrodp.federated import DistributedPlacement, LocalPlacement, Placement, ShuffledPlacement
    >>> [isinstance(each, Placement) for each in (LocalPlacement(), DistributedPlacement(min_clients=8))]
    [True, True]
    """

    relations: tuple[NeighboringRelation, ...] = (_REPLACED,)

    @abc.abstractmethod
    def _mechanism(self, plan: PrivacyPlan, number: int, template: Any, seed: bytes) -> Mechanism:
        """Return what clients do in a round; `seed` is public."""

    @abc.abstractmethod
    def _message(self, mechanism: Mechanism, update: Any, source: NoiseSource | None) -> Any:
        """Return what a client sends."""

    @abc.abstractmethod
    def _sum(self, mechanism: Mechanism, template: Any, messages: list[Any], denominator: float) -> Any:
        """Return what the server makes of messages, like the template; refuse too few of them."""


@dataclass(frozen=True, slots=True)
class LocalPlacement(Placement[LocalNoise]):
    """Each client noises its own update: the plan's noise multiplier is that of each message.

    Protects against everybody. The plan must have the neighboring relation ``REPLACE_ONE``, in which its own ε is that
    of each client's messages.

    Examples
    --------
    >>> from ferrodp.federated import LocalPlacement
    >>> LocalPlacement()
    LocalPlacement()
    """

    def _mechanism(self, plan: PrivacyPlan, number: int, template: Any, seed: bytes) -> LocalNoise:
        norm, multiplier = plan.clipping.initial_norm, plan.noise.at(number, plan.num_steps)
        return LocalNoise(clip_norm=norm, noise_multiplier=multiplier)

    def _message(self, mechanism: LocalNoise, update: Any, source: NoiseSource | None) -> Any:
        return mechanism.privatize(update, source=source)

    def _sum(self, mechanism: LocalNoise, template: Any, messages: list[Any], denominator: float) -> Any:
        leaves, found = _trees.take_apart(template, "template")
        structure = _trees.with_shapes(found, [leaf.shape for _, leaf in leaves])
        totals = [np.zeros(leaf.shape) for _, leaf in leaves]
        for message in messages:
            parts = _trees.matching_leaves(message, structure, "message")
            for total, (path, leaf) in zip(totals, parts, strict=True):
                if np.shape(leaf) != total.shape:
                    raise InvalidArray(f"{_trees.where(path)} must have shape {total.shape}, got {np.shape(leaf)}")
                total += leaf
        dtype = leaves[0][1].dtype
        largest = np.finfo(dtype).max
        means = [np.clip(total / denominator, -largest, largest).astype(dtype) for total in totals]
        return _trees.put_together(structure, means)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedPlacement(Placement[SecureSum]):
    """Each client adds a share of the noise, under secure aggregation: see `SecureSum`.

    The plan's noise multiplier is that of the sum of `min_clients` shares. Protects against everybody, the server
    included, for plans with ``REPLACE_SPECIAL`` (an update becomes zeros) or ``REPLACE_ONE``.

    Parameters
    ----------
    min_clients, num_dishonest, modulus
        As for `SecureSum`.
    rotation : bool
        Whether updates are rotated, by a public seed of each round.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> from ferrodp.federated import DistributedPlacement
    >>> DistributedPlacement(min_clients=80, rotation=True).modulus
    'uint32'
    """

    min_clients: int
    num_dishonest: int = 0
    modulus: str = "uint32"
    rotation: bool = False
    relations = (NeighboringRelation.REPLACE_SPECIAL, _REPLACED)

    def __post_init__(self) -> None:
        _validate.count("min_clients", self.min_clients)
        _validate.count("num_dishonest", self.num_dishonest, minimum=0)
        _validate.truth("rotation", self.rotation)

    def _mechanism(self, plan: PrivacyPlan, number: int, template: Any, seed: bytes) -> SecureSum:
        return SecureSum(
            template,
            clip_norm=plan.clipping.initial_norm,
            noise_multiplier=plan.noise.at(number, plan.num_steps),
            min_clients=self.min_clients,
            max_clients=plan.population_size or 1,
            num_dishonest=self.num_dishonest,
            modulus=self.modulus,
            rotation_seed=seed if self.rotation else None,
            neighboring_relation=plan.neighboring_relation,
        )

    def _message(self, mechanism: SecureSum, update: Any, source: NoiseSource | None) -> Any:
        return mechanism.encode(update, source=source)

    def _sum(self, mechanism: SecureSum, template: Any, messages: list[Any], denominator: float) -> Any:
        total, clients = mechanism.zero(), 0
        for message in messages:
            part, count = (message.residues, message.clients) if isinstance(message, Total) else (message, 1)
            mechanism.add(total, part)
            # mutant: clients-of-a-total-count-as-all-who-were-asked
            clients += count
        return mechanism._decoded(total, clients, denominator).value  # the round is paid for by its run


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPlacement(Placement[ShuffledReports]):
    """Each client sends one randomized bit, and a shuffler hides who sent which: see `ShuffledReports`.

    The plan's noise multiplier is that of the estimated sum. Protects against everybody but the shuffler, for plans
    with ``REPLACE_ONE``.

    Parameters
    ----------
    min_clients, coordinate_bound
        As for `ShuffledReports`.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> from ferrodp.federated import ShuffledPlacement
    >>> ShuffledPlacement(min_clients=900).coordinate_bound
    3.0
    """

    min_clients: int | None = None
    coordinate_bound: float = 3.0

    def __post_init__(self) -> None:
        if self.min_clients is not None:
            _validate.count("min_clients", self.min_clients)
        _validate.positive("coordinate_bound", self.coordinate_bound)

    def _mechanism(self, plan: PrivacyPlan, number: int, template: Any, seed: bytes) -> ShuffledReports:
        return ShuffledReports(
            template,
            clip_norm=plan.clipping.initial_norm,
            noise_multiplier=plan.noise.at(number, plan.num_steps),
            num_clients=plan.population_size or 1,
            min_clients=self.min_clients,
            rotation_seed=seed,
            coordinate_bound=self.coordinate_bound,
        )

    def _message(self, mechanism: ShuffledReports, update: Any, source: NoiseSource | None) -> Any:
        return mechanism.encode(update, source=source)

    def _sum(self, mechanism: ShuffledReports, template: Any, messages: list[Any], denominator: float) -> Any:
        return mechanism.decode(mechanism.shuffled(messages), denominator=denominator)
