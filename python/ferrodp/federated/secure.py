"""Sums under secure aggregation: each client adds a share of the noise, and the server sees only the noised sum."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _trees, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.rounding import sqrt_up
from ferrodp.accounting.accountants.registry import AccountantChoice, accountant_maker
from ferrodp.errors import FerroError, InvalidParameter, InvalidType
from ferrodp.events import DistributedDiscreteGaussianEvent, NeighboringRelation, PrivacyEvent
from ferrodp.events.base import check_relation
from ferrodp.federated._moduli import SUMMED, Residues
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.sums.layout import from_template
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import PAYER
from ferrodp.tickets.statistic import changed, found_statistic

__all__ = ["SecureSum", "SecureTotal"]

Tree = TypeVar("Tree")

_FORMAT, _VERSION = "ferrodp.secure_sum", 1
_MAX_SHIFT = 29
_COARSEST = 16
"""Grid steps in the clip norm, at least: coarser grids would round most of an update away."""
_RELATIONS = (NeighboringRelation.REPLACE_SPECIAL, NeighboringRelation.REPLACE_ONE)


@dataclass(frozen=True, slots=True)
class SecureTotal(Generic[Tree]):
    """What a server makes of the sum of messages.

    Attributes
    ----------
    value : tree of ndarrays
        The noised sum, like the template, or divided by a denominator.
    num_clients : int
        How many messages it holds.
    standard_deviation : float
        Of the noise in every coordinate of the sum if all clients were honest. Shares of scale σ count as variance σ²;
        below one grid step theirs is slightly less, which the event takes into account.
    surplus_variance : float
        Variance above the planned one, from shares of more clients than the least number; in squares of the units of an
        update. It costs accuracy and is not counted in the guarantee.
    """

    value: Tree
    num_clients: int
    standard_deviation: float
    surplus_variance: float


class SecureSum:
    r"""Sum clients' vectors under secure aggregation, each with a share of the noise.

    A client clips its update to `clip_norm`, quantizes it, adds a discrete Gaussian share from its own entropy and
    sends the residues modulo a public number, under whatever protocol hides all but their sum. If at least
    `min_clients` honest clients finish, the sum has their shares, of scale `noise_multiplier * clip_norm` together, and
    not even the server learns more than `event` states. The guarantee protects one client's update, replaced by zeros
    or, with `REPLACE_ONE`, by another; that the client took part is not hidden.

    Parameters
    ----------
    template : tree of ndarrays, or tree of shapes
        What one update looks like, as for `ClippedSum`.
    clip_norm : float
        The bound on the L2 norm of an update, in its units; finite, > 0. Rounded down if not exactly representable.
    noise_multiplier : float
        Standard deviation of the noise of `min_clients` shares together, divided by `clip_norm`; finite, > 0.
    min_clients : int
        Honest clients that finish, at least: their shares alone carry the guarantee. Fewer release nothing.
    max_clients : int
        Messages in a sum, at most.
    num_dishonest : int
        Clients that may add no noise, or tell the server theirs: so many messages do not count toward `min_clients`.
    modulus : {"uint32", "uint64", "field64", "field128", "uint31"}
        What residues are taken of: 2³², 2⁶⁴, the primes of Prio3, 2⁶⁴ − 2³² + 1 and 2¹²⁸ − 7·2⁶⁶ + 1, or 2³¹ (what
        Flower's SecAgg+ holds).
    rotation_seed : bytes, optional
        32 public bytes, the same for all clients of a round: updates are rotated by a randomized Hadamard transform,
        which spreads the error of rounding evenly. Then vectors are as long as the next power of two.
    wrap_probability : float
        Bound on the probability that any coordinate of the noised sum leaves the range of the modulus; in (0, 1e-6].
    neighboring_relation : NeighboringRelation
        `REPLACE_SPECIAL` (an update becomes zeros) or `REPLACE_ONE` (another update), which moves the sum twice as far.
    dtype : float32 or float64, optional
        For a template of shapes; float64 if not given.

    Attributes
    ----------
    granularity : float
        Grid width, a power of two, in the units of an update: the finest that fits the modulus.
    share_scale : float
        σ of one client's share, in grid steps; rounded up.
    length : int
        Words in a message.

    Raises
    ------
    InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
        If a parameter is not accepted, or the sum could leave the range of the modulus with more than
        `wrap_probability` on any grid of at least 16 steps to the clip norm.

    Notes
    -----
    With grid g and :math:`K = C/g`, the integers of an update have :math:`\sum k^2 \le K^2` exactly: it is clipped
    after the rotation, and truncated toward zero. Sums of n ≤ `max_clients` updates are at most nK in magnitude. The
    noise is subgaussian with variance proxy nσ² ([CKS20] for one share), so with D coordinates it stays below
    :math:`\sigma\sqrt{2n\ln(2D/\beta)}` except with probability β. g is the least power of two for which both together
    are below m/2. Reduction modulo m is post-processing, so β costs no privacy; `epsilon` charges it to δ nevertheless,
    so that the statement also covers what is proven of the unreduced sum [KLS21].

    ==============================  ==================================================================
    NaN or infinity in an update    counts as zeros, with its share of noise
    a rotation that overflows       likewise
    fewer messages than needed      `decode` raises; the sum must be thrown away
    ==============================  ==================================================================

    References
    ----------
    [CKS20] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
    [KLS21] Kairouz, Liu, Steinke, "The distributed discrete Gaussian mechanism for federated learning with secure
    aggregation", ICML 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import ferrodp as fd
    >>> secure = fd.federated.SecureSum((100,), clip_norm=1.0, noise_multiplier=1.0, min_clients=8, max_clients=10)
    >>> clients = [fd.federated.SecureSum.from_json(secure.to_json()) for _ in range(9)]  # one of ten is missing
    >>> total = secure.zero()
    >>> for client in clients:
    ...     secure.add(total, client.encode(np.full(100, 0.01)))
    >>> result = secure.decode(total, num_clients=9, denominator=9)
    >>> result.value.shape, result.surplus_variance > 0
    ((100,), True)
    >>> round(secure.epsilon(1e-5), 2)  # by the sum's Rényi divergences; 4.38 for one continuous Gaussian
    4.73
    >>> secure.from_bytes(secure.to_bytes(total)).dtype, secure.event.num_shares
    (dtype('uint32'), 8)
    """

    __slots__ = (
        "_dtype", "_exponent", "_layout", "_modulus", "_padded", "_seed", "_shift",
        "clip_norm", "max_clients", "min_clients", "neighboring_relation", "noise_multiplier", "num_dishonest",
        "share_scale", "wrap_probability",
    )  # fmt: skip

    def __init__(
        self,
        template: object,
        *,
        clip_norm: Real,
        noise_multiplier: Real,
        min_clients: int,
        max_clients: int,
        num_dishonest: int = 0,
        modulus: str = "uint32",
        rotation_seed: bytes | None = None,
        wrap_probability: Real = 2.0**-40,
        neighboring_relation: NeighboringRelation = NeighboringRelation.REPLACE_SPECIAL,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        self._layout = from_template(template, dtype)
        _trees.check_keys(self._layout.structure, "template")
        self.clip_norm = _validate.positive("clip_norm", clip_norm, toward="down")
        self.noise_multiplier = _validate.positive("noise_multiplier", noise_multiplier)
        self.min_clients = _validate.count("min_clients", min_clients, maximum=2**31)
        self.num_dishonest = _validate.count("num_dishonest", num_dishonest, minimum=0, maximum=2**31)
        self.max_clients = _validate.count("max_clients", max_clients, maximum=2**31)
        if self.min_clients + self.num_dishonest > self.max_clients:
            least = self.min_clients + self.num_dishonest
            raise InvalidParameter(
                f"max_clients must be at least min_clients + num_dishonest = {least}, got {self.max_clients}; "
                f"for example max_clients={least}"
            )
        if not isinstance(modulus, str) or modulus not in SUMMED:
            raise _validate.out_of_domain("modulus", f"one of {', '.join(SUMMED)}", modulus)
        self._modulus = SUMMED[modulus]
        if rotation_seed is not None and not (isinstance(rotation_seed, bytes) and len(rotation_seed) == 32):
            raise _validate.wrong_type(
                "rotation_seed", "32 bytes, or None", rotation_seed, write="secrets.token_bytes(32)"
            )
        self._seed = rotation_seed
        self.wrap_probability = _validate.positive("wrap_probability", wrap_probability, toward="down")
        if self.wrap_probability > 1e-6:
            raise _validate.out_of_domain("wrap_probability", "at most 1e-6", wrap_probability)
        values = [relation.value for relation in _RELATIONS]
        if neighboring_relation not in (*_RELATIONS, *values):
            raise _validate.out_of_domain("neighboring_relation", f"one of {', '.join(values)}", neighboring_relation)
        self.neighboring_relation = check_relation(neighboring_relation)
        size = self._layout.size
        if size == 0:
            raise InvalidParameter("template must have at least one value")
        self._padded = size if self._seed is None else 1 << (size - 1).bit_length()
        self._exponent = _native.check_clip_norm(self.clip_norm, self._layout.dtype.name)
        self._shift, self.share_scale = self._grid()

    def _grid(self) -> tuple[int, float]:
        """Return by how many bits the finest grid that fits is coarser than that of a clipped sum, and σ of a share."""
        half = min((self._modulus.value - 1) // 2, 2**62)
        for shift in range(_MAX_SHIFT + 1):
            steps = Fraction(self.clip_norm) / Fraction(2) ** (self._exponent + shift)
            if steps < _COARSEST:
                break
            variance = (Fraction(self.noise_multiplier) * steps) ** 2 / self.min_clients
            # mutant: share-of-noise-rounded-down
            scale = sqrt_up(variance)
            # All shares together; the logarithm and the product are off by less than 1e-12 of themselves.
            spread = 2.0 * self.max_clients * math.log(2.0 * self._padded / self.wrap_probability)
            # mutant: noise-left-out-of-the-range
            beyond = math.floor(steps) * self.max_clients + math.ceil(scale * math.sqrt(spread) * (1.0 + 1e-9))
            if beyond <= half:
                _validate.discrete_scale("noise_multiplier, as grid steps a share,", scale)
                return shift, scale
        raise InvalidParameter(
            f"modulus must be larger: {self._modulus.name} does not hold the sum of {self.max_clients} updates and "
            f"their noise with {_COARSEST} grid steps to the clip norm"
        )

    @property
    def granularity(self) -> float:
        """Grid width, a power of two, in the units of an update."""
        return math.ldexp(1.0, self._exponent + self._shift)

    @property
    def length(self) -> int:
        """Words in a message."""
        return self._padded * self._modulus.words

    @property
    def modulus(self) -> str:
        """Name of what residues are taken of."""
        return self._modulus.name

    @property
    def event(self) -> PrivacyEvent:
        """What an accountant needs to know about one sum, seen by the server."""
        steps = Fraction(self.clip_norm) / Fraction(self.granularity)  # a float
        # mutant: distributed-sum-of-replaced-clients
        sensitivity = float(steps) * (2 if self.neighboring_relation is NeighboringRelation.REPLACE_ONE else 1)
        return DistributedDiscreteGaussianEvent(
            share_scale=self.share_scale,
            # mutant: all-clients-count-as-honest
            num_shares=self.min_clients,
            l2_sensitivity=sensitivity,
            dimension=self._padded,
        )

    def epsilon(self, delta: Real, *, count: int = 1, accountant: AccountantChoice = "pld") -> float:
        """Return an upper bound on the ε of sums, with the probability of wrapping around charged to δ.

        Parameters
        ----------
        delta : float
            Above `count` times `wrap_probability`, below 1. Rounded down if not exactly representable.
        count : int
            How many sums; ≥ 1.
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
        allowed = _validate.delta(delta)
        number = _validate.count("count", count)
        left = math.nextafter(allowed - number * self.wrap_probability, 0.0)
        if left <= 0.0:
            raise _validate.out_of_domain("delta", f"above {number} times wrap_probability", delta)
        counted = accountant_maker(accountant, self.neighboring_relation)()
        counted.compose(self.event, number)
        return counted.epsilon(left)

    # the client

    @_arrays.quiet
    def encode(self, update: object, *, source: NoiseSource | None = None) -> Residues:
        """Return what a client sends: its update, clipped and quantized, with its share of noise, as residues.

        Each call draws a fresh share. Send one message a round: two messages of one update have half the noise.

        Parameters
        ----------
        update : tree of ndarrays
            Structure, shapes and dtype of the template; any memory layout. Never written to.
        source : NoiseSource, optional
            None, or a seeded source for tests.

        Returns
        -------
        ndarray of uint32 or uint64
            Of shape (`length`,). Without secure aggregation it is no secret, and protects little: the share is small.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If the update does not look like the template. Nothing was drawn.
        EntropyError
            If the operating system gives no key.
        """
        leaves = self._layout.leaves(update, "update")
        if self._seed is not None:
            flat = np.zeros(self._padded, self._layout.dtype)
            np.concatenate([leaf.ravel() for leaf in leaves], out=flat[: self._layout.size])
            _native.rotate_vector(flat, self._seed, False)
            leaves = [flat]
            del flat
        integers = _native.quantized_vector(leaves, self.clip_norm, self._shift, 1)
        del leaves  # a rotated copy is freed before residues take its place: the allocator returns large rests at once
        # mutant: a-client-adds-no-noise
        source_or_default(source).add_discrete_gaussian_(integers, scale=self.share_scale, threads=1)
        return self._modulus.reduced(integers, reuse=True)

    # the server

    def zero(self) -> Residues:
        """Return the sum of no messages.

        Returns
        -------
        ndarray of uint32 or uint64
            Of shape (`length`,).
        """
        return np.zeros(self.length, self._modulus.dtype)

    def add(self, total: Residues, message: object) -> None:
        """Add a message, or another total, to a total, in place.

        Parameters
        ----------
        total : ndarray
            From `zero`.
        message : ndarray
            From `encode`, or what a protocol of secure aggregation shows.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter
            If one of the two is no vector of residues of this sum. Nothing was added.
        """
        self._modulus.add(self._modulus.checked(total, self.length), message)

    def decode(
        self, total: object, *, num_clients: int, denominator: Real | None = None, ticket: Ticket | None = None
    ) -> SecureTotal[Any]:
        """Return the noised sum that residues stand for.

        Parameters
        ----------
        total : ndarray
            The sum of the messages of `num_clients` clients.
        num_clients : int
            How many finished: public. From `min_clients + num_dishonest` to `max_clients`.
        denominator : float, optional
            Divides the result: a public number. Post-processing.
        ticket : Ticket, optional
            What pays for the sum: reserved for `event` alone, in a scope with this sum's neighboring relation. Reserve
            it before clients are asked, since whoever adds their messages has the sum: `PlacedRun` does, and takes its
            own before the first message. Without one, a budget that is open here is charged.

        Returns
        -------
        SecureTotal
            The sum, or mean, and the variance that it has.

        Raises
        ------
        TicketError, BudgetExceeded
            If the ticket was used for another release or cancelled, or its scope is frozen.
        FerroError
            If too few or too many clients finished. Throw the total away: it may have too little noise.
        InvalidParameter, InvalidType, InvalidArray, InvalidArrayType
            If a parameter is not accepted.
        """
        payer = PAYER.get() if ticket is None else None
        # mutant: secure-sum-in-a-block-is-free
        if payer is not None:
            if payer.neighboring_relation is not self.neighboring_relation:
                raise InvalidParameter(
                    f"the open budget must have the neighboring_relation {self.neighboring_relation.name} of the sum, "
                    f"got {payer.neighboring_relation.name}"
                )
            ticket = payer.ticket(self.event)
        return self._decoded(total, num_clients, denominator, ticket)

    @_arrays.quiet
    def _decoded(
        self, total: object, num_clients: int, denominator: Real | None, ticket: Ticket | None = None
    ) -> SecureTotal[Any]:
        """Return what `decode` does, without asking who else pays."""
        clients = _validate.count("num_clients", num_clients, minimum=0)
        divisor = None if denominator is None else _validate.positive("denominator", denominator)
        # mutant: too-few-clients-released
        if clients < self.min_clients + self.num_dishonest:
            needed = f"{self.min_clients} honest clients and {self.num_dishonest} others"
            raise FerroError(f"{needed} must finish, and {clients} did: throw the sum away, its noise may be too small")
        if clients > self.max_clients:
            raise FerroError(f"at most {self.max_clients} clients may be in one sum, and {clients} are")
        checked = self._modulus.checked(total, self.length)
        if ticket is not None:
            self._take(ticket)
        integers = self._modulus.centered(checked)
        flat = integers * self.granularity
        if self._seed is not None:
            _native.rotate_vector(flat, self._seed, True)
        flat = flat[: self._layout.size]
        if divisor is not None:
            flat /= divisor
        largest = np.finfo(self._layout.dtype).max
        value = self._layout.split(np.clip(flat, -largest, largest).astype(self._layout.dtype))
        share = (self.share_scale * self.granularity) ** 2
        return SecureTotal(value, clients, math.sqrt(share * clients), share * (clients - self.min_clients))

    def _take(self, ticket: Ticket) -> None:
        if not isinstance(ticket, Ticket):
            raise InvalidType(f"ticket must be a Ticket or None, got {type(ticket).__name__}")
        # mutant: secure-sum-paid-for-another-release
        if ticket.neighboring_relation is not self.neighboring_relation or not ticket.pays_for(self.event):
            raise InvalidParameter("ticket must be for `event`, in a scope with the neighboring relation of the sum")
        bounds = f"L2 norm of each update at most {self.clip_norm:g}"
        unit = f"one client, {changed(self.neighboring_relation, 'client')}"
        ticket.arm(statistic=found_statistic("secure sum of updates", None, bounds, unit))

    # on the wire

    def to_bytes(self, message: Residues) -> bytes:
        """Return a message as bytes: elements one after the other, little endian, as Prio3 encodes vectors of fields.

        Parameters
        ----------
        message : ndarray
            From `encode`, or a total.

        Returns
        -------
        bytes
            4, 8 or 16 for each element.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If it is no vector of residues of this sum.
        """
        return self._modulus.to_bytes(self._modulus.checked(message, self.length))

    def from_bytes(self, data: bytes) -> Residues:
        """Return the message that bytes stand for.

        Parameters
        ----------
        data : bytes
            What `to_bytes` returned. Whether elements are below the modulus is seen when they are added.

        Returns
        -------
        ndarray of uint32 or uint64
            Of shape (`length`,).

        Raises
        ------
        InvalidType, InvalidParameter, InvalidArray
            If it is no such message.
        """
        if not isinstance(data, bytes):
            raise InvalidType(f"data must be bytes, got {type(data).__name__}")
        return self._modulus.checked(self._modulus.from_bytes(data), self.length)

    def to_json(self) -> str:
        """Return the parameters as JSON, for the clients; nothing in it is secret.

        Returns
        -------
        str
            In a format that later versions read.
        """
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "template": _trees.to_plain(self._layout.structure),
                "dtype": self._layout.dtype.name,
                "clip_norm": self.clip_norm.hex(),
                "noise_multiplier": self.noise_multiplier.hex(),
                "min_clients": self.min_clients,
                "max_clients": self.max_clients,
                "num_dishonest": self.num_dishonest,
                "modulus": self._modulus.name,
                "rotation_seed": None if self._seed is None else self._seed.hex(),
                "wrap_probability": self.wrap_probability.hex(),
                "neighboring_relation": self.neighboring_relation.value,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> SecureSum:
        """Return the sum that `to_json` described.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        SecureSum
            Containers of its template are plain dicts, lists and tuples.

        Raises
        ------
        InvalidParameter, InvalidType, InvalidArrayType
            If it is no such text, or describes a sum that is not accepted.
        """
        try:
            plain = json.loads(text)
            wanted = {"format": _FORMAT, "version": _VERSION}
            if not isinstance(plain, dict) or {key: plain.pop(key, None) for key in wanted} != wanted:
                raise _malformed("it is of another format or version")
            structure = _trees.from_plain(plain.pop("template"), _malformed)
            for name in ("clip_norm", "noise_multiplier", "wrap_probability"):
                plain[name] = float.fromhex(plain[name])
            plain["neighboring_relation"] = NeighboringRelation(plain["neighboring_relation"])
            if plain["rotation_seed"] is not None:
                plain["rotation_seed"] = bytes.fromhex(plain["rotation_seed"])
            return cls(_shapes(structure), **plain)
        except (TypeError, KeyError, ValueError, RecursionError, OverflowError) as error:
            if isinstance(error, FerroError):
                raise
            raise _malformed("a field is missing, unknown or of another type") from None

    def __repr__(self) -> str:
        return (
            f"<SecureSum of {self._layout.size} {self._layout.dtype}, clip_norm={self.clip_norm!r}, "
            f"{self.min_clients} to {self.max_clients} clients, {self._modulus.name}>"
        )


def _shapes(structure: _trees.Node) -> Any:
    return _trees.put_together(structure, _trees.shapes(structure))


def _malformed(reason: str) -> InvalidParameter:
    return InvalidParameter(f"text must be what SecureSum.to_json() returned, and is not: {reason}")
