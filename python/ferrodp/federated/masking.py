"""A reference protocol of secure aggregation with recovery of dropouts: for tests and simulations, NOT for production.

It follows Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, in the
honest-but-curious form: pairwise masks from X25519 keys, a mask of each client's own, and threshold shares of the seeds
of both. It has no signatures, no proof that the server shows all clients the same sets, and no transport; code that
runs in one process does not protect anybody. For production, take an audited implementation and give
it the messages of `SecureSum`.

It serves to see that the server's view is masked, that sums decode exactly whoever drops out, and what a round costs.
It needs the package `cryptography`.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ferrodp.errors import FerroError, InvalidParameter, MissingPackage
from ferrodp.federated._moduli import MODULI, Modulus, Residues

_PRIME = 2**521 - 1
"""Of the field in which secrets of 32 bytes are shared."""
_SHARE = 66
"""Bytes of a share: an element of the field."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What a client tells the server of others.

    A share of the mask key of each that dropped out, and of the seed of each that did not. Never both of one client:
    together they would unmask its message.
    """

    keys: dict[int, int]
    seeds: dict[int, int]


@dataclass(slots=True)
class MaskingClient:
    """One client's side of a round.

    Parameters
    ----------
    number : int
        Its number among the clients, from 0.
    modulus : str
        That of the vectors.
    threshold : int
        How many clients have to finish, and how many shares recover a secret.
    session : bytes
        Names the round: masks of two rounds must differ.
    """

    number: int
    modulus: str
    threshold: int
    session: bytes
    _mask_key: Any = field(init=False, repr=False)
    _channel_key: Any = field(init=False, repr=False)
    _seed: bytes = field(init=False, repr=False)
    _public: dict[int, tuple[bytes, bytes]] = field(init=False, repr=False, default_factory=dict)
    _received: dict[int, tuple[int, int]] = field(init=False, repr=False, default_factory=dict)
    _has_masked: bool = field(init=False, repr=False, default=False)
    _has_revealed: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        x25519 = _primitives().x25519
        self._mask_key = x25519.X25519PrivateKey.generate()
        self._channel_key = x25519.X25519PrivateKey.generate()
        self._seed = secrets.token_bytes(32)

    def advertise(self) -> tuple[bytes, bytes]:
        """Return the public keys of masks and of channels."""
        return _public_bytes(self._mask_key), _public_bytes(self._channel_key)

    def share(self, public: Mapping[int, tuple[bytes, bytes]]) -> dict[int, bytes]:
        """Return shares of this client's secrets, encrypted for each client whose keys are given."""
        if len(public) < self.threshold:
            raise FerroError(f"{self.threshold} clients must take part, and {len(public)} do")
        self._public = dict(public)
        points = [other + 1 for other in public]
        keys = _split(_private_bytes(self._mask_key), self.threshold, points)
        seeds = _split(self._seed, self.threshold, points)
        out = {}
        for other in public:
            plain = keys[other + 1].to_bytes(_SHARE, "big") + seeds[other + 1].to_bytes(_SHARE, "big")
            nonce = secrets.token_bytes(12)
            sealed = self._channel(other).encrypt(nonce, plain, self._route(self.number, other))
            out[other] = nonce + sealed
        return out

    def mask(self, vector: Residues, encrypted: Mapping[int, bytes]) -> Residues:
        """Return the vector with all masks, once, given the shares that others sent: those are the round's clients."""
        if self._has_masked:
            raise FerroError("a client must mask one vector a round: the difference of two would be bare")
        for other, sealed in encrypted.items():
            plain = self._channel(other).decrypt(sealed[:12], sealed[12:], self._route(other, self.number))
            self._received[other] = int.from_bytes(plain[:_SHARE], "big"), int.from_bytes(plain[_SHARE:], "big")
        if len(self._received) < self.threshold:
            raise FerroError(f"{self.threshold} clients must have sent shares, and {len(self._received)} did")
        self._has_masked = True
        modulus = MODULI[self.modulus]
        masked = np.array(vector)
        modulus.add(masked, expand(modulus, self._seed, self.session, vector.size))
        for other in self._received:
            if other != self.number:
                modulus.add(
                    masked,
                    _pair_mask(modulus, self._mask_key, self.number, other, self._public, self.session, vector.size),
                )
        return masked

    def reveal(self, survivors: Collection[int]) -> Shares:
        """Return shares of the seeds of those who sent a vector, and of the mask keys of those who did not, once."""
        if self._has_revealed:
            raise FerroError("a client must reveal shares once a round: two answers could unmask a client")
        alive = set(survivors)
        if len(alive) < self.threshold or not alive <= self._received.keys():
            raise FerroError(f"{self.threshold} clients of the round must have sent a vector, and {len(alive)} did")
        self._has_revealed = True
        return Shares(
            keys={other: key for other, (key, _) in self._received.items() if other not in alive},
            seeds={other: seed for other, (_, seed) in self._received.items() if other in alive},
        )

    def _channel(self, other: int) -> Any:
        primitives = _primitives()
        public = primitives.x25519.X25519PublicKey.from_public_bytes(self._public[other][1])
        return primitives.AESGCM(_derived(self._channel_key.exchange(public), b"channel", self.session))

    def _route(self, sender: int, receiver: int) -> bytes:
        return self.session + sender.to_bytes(8, "big") + receiver.to_bytes(8, "big")


def unmask(
    modulus: str,
    masked: Mapping[int, Residues],
    revealed: Mapping[int, Shares],
    public: Mapping[int, tuple[bytes, bytes]],
    *,
    members: Iterable[int],
    threshold: int,
    session: bytes,
) -> Residues:
    """Return the sum of the vectors behind masked ones: the server's side of a round.

    Parameters
    ----------
    modulus : str
        That of the vectors.
    masked : mapping of int to ndarray
        What clients sent.
    revealed : mapping of int to Shares
        What clients that are still there told.
    public : mapping of int to pair of bytes
        The public keys of all clients.
    members : iterable of int
        The clients that sent shares, and so are in the others' masks.
    threshold : int
        How many shares recover a secret.
    session : bytes
        Names the round.

    Raises
    ------
    FerroError
        If fewer than `threshold` clients revealed shares: then nobody can unmask the sum.
    """
    if len(revealed) < threshold:
        raise FerroError(f"{threshold} clients must reveal shares, and {len(revealed)} did: the sum stays masked")
    ring = MODULI[modulus]
    x25519 = _primitives().x25519
    size = next(iter(masked.values())).size
    total = np.zeros(size, ring.dtype)
    for vector in masked.values():
        ring.add(total, vector)
    for client in masked:
        points = {other + 1: shares.seeds[client] for other, shares in revealed.items()}
        seed = _joined(points, threshold).to_bytes(32, "big")
        ring.add(total, negated(ring, expand(ring, seed, session, size)))
    for client in set(members) - masked.keys():
        points = {other + 1: shares.keys[client] for other, shares in revealed.items()}
        key = x25519.X25519PrivateKey.from_private_bytes(_joined(points, threshold).to_bytes(32, "big"))
        for other in masked:  # what the lost client would have added, the others took off
            ring.add(total, _pair_mask(ring, key, client, other, public, session, size))
    return total


def masked_sum(
    modulus: str,
    vectors: Mapping[int, Residues],
    *,
    threshold: int,
    lost_before_masking: Collection[int] = (),
    lost_before_revealing: Collection[int] = (),
) -> tuple[Residues, dict[int, Residues]]:
    """Return the sum of the vectors of all clients that were not lost before they sent them, and what the server saw.

    Runs all parties of a round in this process: a simulation.

    Parameters
    ----------
    modulus : str
        That of the vectors.
    vectors : mapping of int to ndarray
        Messages by the number of the client.
    threshold : int
        How many clients have to finish; more than half of them.
    lost_before_masking, lost_before_revealing : collection of int
        Who drops out: after sending shares, or after sending a masked vector, which is in the sum then.

    Raises
    ------
    FerroError
        If too few clients are left.
    InvalidParameter
        If the threshold is half of the clients or fewer: two answers of the rest could unmask a client.
    """
    if 2 * threshold <= len(vectors):
        raise InvalidParameter("threshold must be more than half of the clients")
    session = secrets.token_bytes(16)
    clients = {number: MaskingClient(number, modulus, threshold, session) for number in vectors}
    public = {number: client.advertise() for number, client in clients.items()}
    shares = {number: client.share(public) for number, client in clients.items()}
    masked = {
        number: client.mask(vectors[number], {other: sent[number] for other, sent in shares.items()})
        for number, client in clients.items()
        if number not in lost_before_masking
    }
    left = [number for number in masked if number not in lost_before_revealing]
    revealed = {number: clients[number].reveal(masked.keys()) for number in left}
    total = unmask(modulus, masked, revealed, public, members=clients, threshold=threshold, session=session)
    return total, masked


def expand(modulus: Modulus, seed: bytes, session: bytes, size: int) -> Residues:
    """Return a vector of `size` words, uniform over residues: a keystream of AES-256 without what is no residue."""
    key = _derived(seed, b"mask", session)
    words = np.frombuffer(_keystream(key, 0, size * modulus.dtype.itemsize), modulus.dtype.newbyteorder("<"))
    words = words.astype(modulus.dtype)
    if modulus.value == 1 << (8 * modulus.dtype.itemsize * modulus.words):
        return words
    elements = words.reshape(-1, modulus.words)
    for place in np.flatnonzero(_too_large(modulus, elements)):
        attempt = 1
        while _too_large(modulus, elements[place : place + 1])[0]:
            again = _keystream(key, (int(place) << 16) + attempt << 1, 8 * modulus.words, stream=1)
            elements[place] = np.frombuffer(again, "<u8")
            attempt += 1
    return elements.reshape(-1)


def negated(modulus: Modulus, residues: Residues) -> Residues:
    """Return the vector that adds up to zero with `residues`."""
    if modulus.name.startswith("uint"):
        return np.zeros_like(residues) - residues
    if modulus.words == 1:
        return np.where(residues == 0, residues, np.uint64(modulus.value) - residues)
    low, high = residues[::2], residues[1::2]
    mask = (1 << 64) - 1
    out = np.empty_like(residues)
    borrow = low > np.uint64(modulus.value & mask)
    out[::2] = np.uint64(modulus.value & mask) - low
    out[1::2] = np.uint64(modulus.value >> 64) - high - borrow
    zero = (low == 0) & (high == 0)
    out[::2][zero], out[1::2][zero] = 0, 0
    return out


def _too_large(modulus: Modulus, elements: Residues) -> Any:
    if modulus.words == 1:
        return elements[:, 0] >= np.uint64(modulus.value)
    high, low = np.uint64(modulus.value >> 64), np.uint64(modulus.value & ((1 << 64) - 1))
    return (elements[:, 1] > high) | ((elements[:, 1] == high) & (elements[:, 0] >= low))


def _pair_mask(
    modulus: Modulus,
    key: Any,
    own: int,
    other: int,
    public: Mapping[int, tuple[bytes, bytes]],
    session: bytes,
    size: int,
) -> Residues:
    """Return what client `own` adds for `other`, who adds the opposite."""
    shared = key.exchange(_primitives().x25519.X25519PublicKey.from_public_bytes(public[other][0]))
    pair = min(own, other).to_bytes(8, "big") + max(own, other).to_bytes(8, "big")
    mask = expand(modulus, _derived(shared, b"pair" + pair, session), session, size)
    # mutant: pairwise-masks-do-not-cancel
    return mask if own < other else negated(modulus, mask)


def _split(secret: bytes, threshold: int, points: Iterable[int]) -> dict[int, int]:
    """Return Shamir's shares of a secret: values of a random polynomial of degree threshold − 1."""
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(_PRIME) for _ in range(threshold - 1))]
    shares = {}
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % _PRIME
        shares[point] = value
    return shares


def _joined(shares: Mapping[int, int], threshold: int) -> int:
    """Return the secret behind shares: the polynomial at zero."""
    points = list(shares)[:threshold]
    secret = 0
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above, below = above * -other % _PRIME, below * (point - other) % _PRIME
        secret = (secret + shares[point] * above * pow(below, -1, _PRIME)) % _PRIME
    return secret


def _keystream(key: bytes, block: int, length: int, stream: int = 0) -> bytes:
    ciphers = _primitives()
    counter = stream.to_bytes(8, "big") + block.to_bytes(8, "big")
    encryptor = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CTR(counter)).encryptor()
    out: bytes = encryptor.update(bytes(length))
    return out


def _derived(secret: bytes, purpose: bytes, session: bytes) -> bytes:
    primitives = _primitives()
    hkdf = primitives.HKDF(algorithm=primitives.SHA256(), length=32, salt=session, info=b"ferrodp " + purpose)
    key: bytes = hkdf.derive(secret)
    return key


def _public_bytes(key: Any) -> bytes:
    data: bytes = key.public_key().public_bytes_raw()
    return data


def _private_bytes(key: Any) -> bytes:
    data: bytes = key.private_bytes_raw()
    return data


class _Primitives:
    """What is used of `cryptography`, imported once it is needed."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import x25519
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError as error:
            raise MissingPackage(
                'ferrodp.federated.masking needs cryptography: pip install "ferrodp[masking]"'
            ) from error
        self.x25519, self.Cipher, self.algorithms, self.modes = x25519, Cipher, algorithms, modes
        self.AESGCM, self.SHA256, self.HKDF = AESGCM, SHA256, HKDF


_FOUND: list[_Primitives] = []


def _primitives() -> Any:
    if not _FOUND:
        _FOUND.append(_Primitives())
    return _FOUND[0]
