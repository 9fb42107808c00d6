"""AES-256, one block at a time, straight from FIPS 197 (2001, updated 2023).

Slow and obvious: every table is computed from its definition, so nothing here can agree with the core by having been
copied from the same place. Section numbers are those of FIPS 197.
"""

from __future__ import annotations

from functools import cache


def _times(a: int, b: int) -> int:
    """Multiply in GF(2⁸) modulo x⁸ + x⁴ + x³ + x + 1 (section 4.2)."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return product


def _inverse(a: int) -> int:
    """Invert in GF(2⁸), with 0 for 0: a²⁵⁴, because the non-zero elements form a group of order 255 (section 4.4)."""
    result = 1
    for _ in range(254):
        result = _times(result, a)
    return result


def _affine(b: int) -> int:
    """Apply the affine map of the S-box, bit by bit (equation 5.2)."""

    def bit(i: int) -> int:
        return b >> (i % 8) & 1

    mixed = (bit(i) ^ bit(i + 4) ^ bit(i + 5) ^ bit(i + 6) ^ bit(i + 7) ^ (0x63 >> i & 1) for i in range(8))
    return sum(value << i for i, value in enumerate(mixed))


S_BOX = bytes(_affine(_inverse(a)) for a in range(256))
_DOUBLE = bytes(_times(a, 2) for a in range(256))


@cache
def _round_keys(key: bytes) -> tuple[bytes, ...]:
    """Expand a 32-byte key into fifteen round keys (section 5.2)."""
    if len(key) != 32:
        raise ValueError("an AES-256 key has 32 bytes")
    words = [key[i : i + 4] for i in range(0, 32, 4)]
    constant = 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = bytes(S_BOX[b] for b in word[1:] + word[:1])
            word = bytes((word[0] ^ constant,)) + word[1:]
            constant = _times(constant, 2)
        elif i % 8 == 4:
            word = bytes(S_BOX[b] for b in word)
        words.append(bytes(a ^ b for a, b in zip(words[-8], word, strict=True)))
    return tuple(b"".join(words[i : i + 4]) for i in range(0, 60, 4))


# Byte 4c + r of a block is row r of column c; ShiftRows moves row r left by r columns (section 5.1.2).
_SHIFT_ROWS = [4 * ((column + row) % 4) + row for column in range(4) for row in range(4)]


def _mix_column(a: bytes) -> bytes:
    """Replace each byte by 2aᵢ + 3aᵢ₊₁ + aᵢ₊₂ + aᵢ₊₃ (section 5.1.3): the sum of all, plus aᵢ, plus 2(aᵢ + aᵢ₊₁)."""
    whole = a[0] ^ a[1] ^ a[2] ^ a[3]
    return bytes(a[i] ^ whole ^ _DOUBLE[a[i] ^ a[(i + 1) % 4]] for i in range(4))


def encrypt_block(key: bytes, block: bytes) -> bytes:
    """Encrypt one 16-byte block under a 32-byte key (section 5.1)."""
    if len(block) != 16:
        raise ValueError("an AES block has 16 bytes")
    keys = _round_keys(key)
    state = bytes(a ^ b for a, b in zip(block, keys[0], strict=True))
    for number in range(1, 15):
        state = bytes(S_BOX[b] for b in state)
        state = bytes(state[i] for i in _SHIFT_ROWS)
        if number < 14:
            state = b"".join(_mix_column(state[i : i + 4]) for i in range(0, 16, 4))
        state = bytes(a ^ b for a, b in zip(state, keys[number], strict=True))
    return state
