"""Local placement: each client clips and noises its own update before it leaves the device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ferrodp._base import _validate
from ferrodp._base._casting import casting
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.errors import InvalidParameter, InvalidType
from ferrodp.events import GaussianEvent, NeighboringRelation
from ferrodp.random import NoiseSource
from ferrodp.sums import ClippedSum
from ferrodp.tickets import ReleasedStatistic, Ticket
from ferrodp.tickets.payer import PAYER
from ferrodp.tickets.statistic import changed, known_as

__all__ = ["LocalNoise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNoise:
    r"""Clip and noise a client's own update: local differential privacy, against everybody, the server included.

    Any two updates that a client might send are at most 2C apart after clipping, so a noise multiplier z, relative to
    C, gives the guarantee of z/2: each message is a Gaussian mechanism of that multiplier. A mean of n messages has
    noise of standard deviation :math:`zC/\sqrt n`, where a server that is trusted needs zC/2n for the same ε.

    Parameters
    ----------
    clip_norm : float
        The bound C on the L2 norm of an update, in its units; finite, > 0. Rounded down if not exactly representable.
    noise_multiplier : float
        Standard deviation of the noise in each coordinate, divided by `clip_norm`; finite, > 0.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.federated import LocalNoise
    >>> local = LocalNoise(clip_norm=1.0, noise_multiplier=4.0)
    >>> message = local.privatize({"w": np.ones(3, np.float32)})
    >>> message["w"].shape, local.event, round(local.epsilon(1e-5), 2)
    ((3,), GaussianEvent(noise_multiplier=2.0), 1.99)
    """

    clip_norm: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip_norm", _validate.positive("clip_norm", self.clip_norm, toward="down"))
        object.__setattr__(self, "noise_multiplier", _validate.positive("noise_multiplier", self.noise_multiplier))

    @property
    def event(self) -> GaussianEvent:
        """What one message costs, under replacement of the client's data by any other."""
        # mutant: local-sensitivity-of-one-clip-norm
        return GaussianEvent(noise_multiplier=self.noise_multiplier / 2.0)

    def epsilon(self, delta: Real, *, count: int = 1, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of a client's messages.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        count : int
            How many messages the client sends; ≥ 1.
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        """
        counted = accountant_maker(accountant, NeighboringRelation.ADD_OR_REMOVE_ONE)()
        counted.compose(self.event, _validate.count("count", count))  # the event has the distance of two updates
        return counted.epsilon(delta)

    def privatize(
        self,
        update: Any,
        *,
        cast: npt.DTypeLike | None = None,
        skip: Collection[str] = (),
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
    ) -> Any:
        """Return the update, clipped and noised, to be sent.

        Each call is a message with its own cost, also where it repeats an update: keep what was sent and send it again.

        Parameters
        ----------
        update : tree of ndarrays
            Arrays in lists, tuples and mappings; its structure, shapes and dtypes must be public. NaN or infinity
            anywhere makes all of it zeros, under the same noise.
        cast, skip
            As for `FederatedRun`.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the message: reserved for `event` in a scope with `REPLACE_ONE`.

        Returns
        -------
        tree of ndarrays
            Like the update, in its dtypes, without the keys that are skipped.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
            If an argument is not accepted. Nothing was drawn.
        TicketError, EntropyError
            As `ClippedSum.release`.
        """
        if ticket is not None and not isinstance(ticket, Ticket):
            raise InvalidType(
                f"ticket must be a Ticket or None, got {type(ticket).__name__}; "
                "ledger.reserve(scope, event) returns one"
            )
        pays = PAYER.get() if ticket is None else ticket
        # mutant: message-charged-as-if-an-update-could-be-left-out
        if pays is not None and pays.neighboring_relation is not NeighboringRelation.REPLACE_ONE:
            what = "ticket must be of a scope" if ticket is not None else "the open budget must be one"
            raise InvalidParameter(f"{what} with REPLACE_ONE: a client's data are replaced by others")
        cast_as = casting(update, cast, skip)
        total: ClippedSum[Any] = ClippedSum(cast_as.template, clip_norm=self.clip_norm)
        total.add(cast_as.vector(update))
        bounds = f"L2 norm of an update at most {self.clip_norm:g}"
        unit = f"one client, {changed(NeighboringRelation.REPLACE_ONE, 'client')}"
        with known_as(ReleasedStatistic(statistic="a client's randomized update", bounds=bounds, unit=unit)):
            released = total.release(noise_multiplier=self.noise_multiplier, source=source, ticket=ticket)
        return cast_as.restored(released)
