"""Shuffled placement: each client sends one randomized bit of its update, and nobody sees who sent which."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.errors import FerroError, InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation, ShuffledEvent
from ferrodp.mechanisms import RandomizedResponse
from ferrodp.random import NoiseSource, fixed_size_sample, poisson_sample
from ferrodp.sums.layout import from_template

__all__ = ["ShuffledReports"]

Reports = npt.NDArray[np.uint32]


class ShuffledReports:
    r"""Estimate a sum of updates from one randomized bit of each client, seen in no order.

    A client rotates its update by a public random rotation, clips it, draws one coordinate, rounds it to one of two
    values at random, and sends the coordinate's number and the bit after randomized response. A shuffler, or anything
    else that hides senders, shows the server nothing but the multiset of messages: `shuffled`. The guarantee is against
    everybody but the shuffler, for a client whose update is replaced by any other.

    Parameters
    ----------
    template : tree of ndarrays, or tree of shapes
        What one update looks like, as for `ClippedSum`.
    clip_norm : float
        The bound C on the L2 norm of an update, in its units; finite, > 0.
    noise_multiplier : float
        Standard deviation of the estimated sum in each coordinate, divided by `clip_norm`, for updates of zeros; others
        have slightly less. Above ``coordinate_bound * sqrt(num_clients)``, which no randomization at all would have.
    num_clients : int
        How many are asked.
    min_clients : int, optional
        How many surely send a message; fewer release nothing. By default all of `num_clients`.
    rotation_seed : bytes
        32 public bytes, the same for all clients of a round; new ones for each round.
    coordinate_bound : float
        Coordinates of a rotated update are cut to this times :math:`C/\sqrt d`: the root mean square of an update of
        norm C. Larger means less bias, and more noise for the same privacy; finite, > 0.
    dtype : float32 or float64, optional
        For a template of shapes; float64 if not given.

    Attributes
    ----------
    local_epsilon : float
        ε of one message by itself, against everybody, the shuffler included; rounded up.
    length : int
        Coordinates of a rotated update, d: the next power of two.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If a parameter is not accepted, or there is less noise than that of rounding to bits.

    Notes
    -----
    With p the probability that randomized response replaces a bit, n = `num_clients` and B the bound of a coordinate, a
    message contributes :math:`\pm dB/(1-p)` to its coordinate, without bias, and the sum of n has variance
    :math:`ndB^2/(1-p)^2`: this is solved for p. The coordinate is drawn without looking at the update, so a message is
    as private as its bit, ε₀ = ln((2 − p)/p). `event` amplifies it by [FMT21] Theorem 3.1 for any randomizer of ε₀,
    which asks nothing of how a message is made.

    ==============================  ==============================================================
    NaN or infinity in an update    counts as zeros, whose bit is fair
    fewer messages than needed      `decode` raises; they must be thrown away
    ==============================  ==============================================================

    References
    ----------
    [FMT21] Feldman, McMillan, Talwar, "Hiding among the clones: a simple and nearly optimal analysis of privacy
    amplification by shuffling", FOCS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.federated import ShuffledReports
    >>> seed = bytes(32)
    >>> reports = ShuffledReports((16,), clip_norm=1.0, noise_multiplier=300.0, num_clients=5000, rotation_seed=seed)
    >>> round(reports.local_epsilon, 2), round(reports.epsilon(1e-6), 2)
    (1.76, 0.18)
    >>> messages = [reports.encode(np.full(16, 0.2)) for _ in range(5000)]
    >>> reports.decode(reports.shuffled(messages), denominator=5000).shape
    (16,)
    """

    __slots__ = ("_bound", "_layout", "_response", "_seed", "clip_norm", "length", "min_clients", "num_clients")

    def __init__(
        self,
        template: object,
        *,
        clip_norm: Real,
        noise_multiplier: Real,
        num_clients: int,
        rotation_seed: bytes,
        min_clients: int | None = None,
        coordinate_bound: Real = 3.0,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self._layout = from_template(template, dtype)
        self.clip_norm = _validate.positive("clip_norm", clip_norm, toward="down")
        multiplier = _validate.positive("noise_multiplier", noise_multiplier)
        self.num_clients = _validate.count("num_clients", num_clients, maximum=2**31)
        least = self.num_clients if min_clients is None else min_clients
        self.min_clients = _validate.count("min_clients", least, maximum=self.num_clients)
        if not isinstance(rotation_seed, bytes) or len(rotation_seed) != 32:
            raise InvalidParameter("rotation_seed must be 32 bytes")
        self._seed = rotation_seed
        if not 0 < self._layout.size <= 2**31:
            raise InvalidParameter("template must have from 1 to 2^31 values")
        self.length = 1 << (self._layout.size - 1).bit_length()
        factor = _validate.positive("coordinate_bound", coordinate_bound)
        self._bound = factor * self.clip_norm / math.sqrt(self.length)
        rounding = factor * math.sqrt(self.num_clients)
        replaced = 1.0 - rounding / multiplier
        if not replaced >= 2.0**-30:
            raise InvalidParameter(f"noise_multiplier must be above {rounding:.6g}, the noise of rounding to bits")
        self._response = RandomizedResponse(noise_parameter=replaced, num_categories=2)

    @property
    def local_epsilon(self) -> float:
        """ε of one message by itself."""
        return self._response.epsilon()

    @property
    def event(self) -> ShuffledEvent:
        """What an accountant needs to know about the messages of one round."""
        # mutant: reports-clone-like-plain-randomized-response
        local = EpsilonDeltaEvent(epsilon=self.local_epsilon, delta=0.0)
        return ShuffledEvent(randomizer=local, population_size=self.min_clients)

    def epsilon(self, delta: Real, *, count: int = 1, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of rounds.

        Parameters
        ----------
        delta : float
            In (0, 1). Rounded down if not exactly representable.
        count : int
            How many rounds; ≥ 1.
        accountant : str or callable
            As for `PrivacyPlan.epsilon`.

        Returns
        -------
        float
            Rounded up.

        Raises
        ------
        InvalidParameter, InvalidType, UnsupportedEventError
            If a parameter is not accepted, or the accountant does not take the event.
        """
        counted = accountant_maker(accountant, NeighboringRelation.REPLACE_ONE)()
        counted.compose(self.event, _validate.count("count", count))
        return counted.epsilon(delta)

    @_arrays.quiet
    def encode(self, update: object, *, source: NoiseSource | None = None) -> Reports:
        """Return what a client sends: the number of a coordinate, and a randomized bit of it.

        Each call is a message with its own cost. Keep what was sent and send it again.

        Parameters
        ----------
        update : tree of ndarrays
            Structure, shapes and dtype of the template. Never written to.
        source : NoiseSource, optional
            None, or a seeded source for tests.

        Returns
        -------
        (2,) ndarray of uint32

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the update does not look like the template. Nothing was drawn.
        EntropyError
            If the operating system gives no key.
        """
        flat = np.zeros(self.length)
        np.concatenate([leaf.ravel() for leaf in self._layout.leaves(update, "update")], out=flat[: self._layout.size])
        norm = float(np.linalg.norm(flat))
        flat = flat * min(1.0, self.clip_norm / norm) if 0.0 < norm < math.inf else np.zeros(self.length)
        _native.rotate_vector(flat, self._seed, False)
        place = int(fixed_size_sample(self.length, 1, source=source)[0])
        chance = (1.0 + min(max(float(flat[place]) / self._bound, -1.0), 1.0)) / 2.0
        bit = chance > 0.0 and len(poisson_sample(1, chance, source=source)) == 1
        # mutant: reports-whose-bit-is-not-randomized
        sent = self._response.release(bit, source=source)
        return np.array([place, int(sent)], np.uint32)

    def shuffled(self, messages: object) -> Reports:
        """Return messages in an order that does not depend on their senders: sorted.

        Parameters
        ----------
        messages : sequence of (2,) ndarrays of uint32
            From `encode`, in any order.

        Returns
        -------
        (n, 2) ndarray of uint32

        Raises
        ------
        InvalidArray, InvalidArrayType
            If they are no messages.
        """
        stacked = np.asarray(messages)
        if stacked.size == 0:
            return np.zeros((0, 2), np.uint32)
        if stacked.dtype != np.uint32:
            raise InvalidArrayType(f"messages must be of uint32, got {stacked.dtype}")
        if stacked.ndim != 2 or stacked.shape[1] != 2 or stacked[:, 0].max() >= self.length or stacked[:, 1].max() > 1:
            raise InvalidArray(f"messages must be numbers of {self.length} coordinates, each with a bit")
        return stacked[np.lexsort((stacked[:, 1], stacked[:, 0]))]

    def decode(self, messages: object, *, denominator: Real | None = None) -> Any:
        """Return the estimated sum that messages stand for.

        Parameters
        ----------
        messages : (n, 2) ndarray of uint32
            From `shuffled`.
        denominator : float, optional
            Divides the result: a public number. Post-processing.

        Returns
        -------
        tree of ndarrays
            Like the template.

        Raises
        ------
        FerroError
            If fewer than `min_clients` or more than `num_clients` sent a message.
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted.
        """
        divisor = 1.0 if denominator is None else _validate.positive("denominator", denominator)
        found = self.shuffled(messages)
        # mutant: too-few-reports-decoded
        if not self.min_clients <= len(found) <= self.num_clients:
            needed = f"from {self.min_clients} to {self.num_clients} clients"
            raise FerroError(f"{needed} must send a message, and {len(found)} did: throw them away")
        signs = 2.0 * found[:, 1] - 1.0
        counts = np.bincount(found[:, 0].astype(np.int64), weights=signs, minlength=self.length)
        flat = counts.astype(np.float64) * (self.length * self._bound / (1.0 - self._response.noise_parameter))
        _native.rotate_vector(flat, self._seed, True)
        flat = flat[: self._layout.size] / divisor
        largest = np.finfo(self._layout.dtype).max
        return self._layout.split(np.clip(flat, -largest, largest).astype(self._layout.dtype))

    def __repr__(self) -> str:
        return (
            f"<ShuffledReports of {self._layout.size} values, {self.num_clients} clients, ε₀ {self.local_epsilon:.3g}>"
        )


def public_seed(name: str, number: int) -> bytes:
    """Return the public rotation of a round: another one in each round of each training."""
    return hashlib.sha256(f"{name}/{number}".encode()).digest()
