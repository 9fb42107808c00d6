"""Audits of messages under secure aggregation: the integers they stand for, and the residues that are sent.

Noise is so little here that it is zero but with a probability below e⁻¹⁰⁰, so an alarm is no matter of chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ferrodp as fd
from ferrodp.federated import SecureSum

PRIMES = {
    "uint32": 2**32,
    "uint64": 2**64,
    "field64": 2**64 - 2**32 + 1,
    "field128": 2**128 - 7 * 2**66 + 1,
}
"""Moduli, as the documentation states them."""


def certain(size: int, clip_norm: float, **options: Any) -> SecureSum:
    """Return a sum whose noise is next to none: its scale is at most a twentieth of a step of its grid."""
    settings: dict[str, Any] = {"clip_norm": clip_norm, "min_clients": 1, "max_clients": 4} | options
    made = SecureSum((size,), noise_multiplier=1.0, **settings)
    while made.share_scale > 0.05:
        made = SecureSum((size,), noise_multiplier=0.03 * made.granularity / clip_norm, **settings)
    return made


def decoded(made: SecureSum, message: np.ndarray) -> np.ndarray:
    total = made.zero()
    made.add(total, message)
    return np.asarray(made.decode(total, num_clients=1).value)


def integers_of_clients() -> bool:
    """Whether an update's integers are others than those of a clipped sum, divided and cut toward zero."""
    rng = np.random.default_rng(44)
    for dtype in (np.float32, np.float64):
        for clip, most in ((1.0, 4), (0.7, 50), (3.0, 3000), (1.3, 1 << 20), (5.0, 1 << 24)):
            update = rng.normal(size=200).astype(dtype)
            update *= dtype(0.9 * clip) / np.linalg.norm(update)
            made = certain(200, clip, max_clients=most, dtype=dtype)
            clipped = fd.ClippedSum((200,), clip_norm=clip, dtype=dtype)
            clipped.add(update)
            whole = [int(k) for k in clipped.integers]
            by = round(made.granularity / clipped.granularity)
            expected = np.array([(abs(k) // by) * (1 if k > 0 else -1) for k in whole]) * made.granularity
            if not np.array_equal(decoded(made, made.encode(update)), expected.astype(dtype)):
                return True
    return False


def residues_of_clients() -> bool:
    """Whether a message holds other residues than those of its integers, or a total is read as other integers."""
    rng = np.random.default_rng(45)
    near = [0, 1, 2, 3, 1000, *(2**bits + d for bits in range(8, 64) for d in (-1, 0, 1))]
    for name, modulus in PRIMES.items():
        half = min((modulus - 1) // 2, 2**63 - 1)
        found = [k for k in (*near, half // 2, half // 2 + 1, half - 1, half) if k <= half]
        chosen = [sign * k for k in found for sign in (1, -1)]
        made = certain(len(chosen), 1.0, modulus=name)
        bits = 8 * len(made.to_bytes(made.zero())) // len(chosen)
        step = made.granularity
        sent = made.from_bytes(b"".join((k % modulus).to_bytes(bits // 8, "little") for k in chosen))
        if not np.array_equal(decoded(made, sent), np.array(chosen, dtype=np.int64) * step):
            return True
        update = rng.normal(size=len(chosen))
        update *= 0.9 / np.linalg.norm(update)
        message = made.encode(update)
        words = made.to_bytes(message)
        values = [int.from_bytes(words[i : i + bits // 8], "little") for i in range(0, len(words), bits // 8)]
        if values != [int(x / step) % modulus for x in update]:
            return True
    return False


AUDITS: dict[str, Callable[[], bool]] = {
    "integers of clients": integers_of_clients,
    "residues of clients": residues_of_clients,
}
"""Whether an audit raises an alarm: never by chance."""
