"""The keystream and who owns which word of it, on the AES of `aes.py`.

Block input: 8 bytes big-endian stream number, 8 bytes big-endian block counter. Words are little-endian.
Sample `i` owns word `i` of stream 0, and block `i` of every stream from 1 on.
"""

from __future__ import annotations

from .aes import encrypt_block

SEED_STREAM = 2**64 - 1

CHOSEN: dict[tuple[bytes, int, int], bytes] = {}
"""Blocks by key, stream and counter that a replay has put in the place of the cipher's."""


def block(key: bytes, stream: int, counter: int) -> bytes:
    """Return the 16 bytes of one block of one stream."""
    return CHOSEN.get((key, stream, counter)) or encrypt_block(
        key, stream.to_bytes(8, "big") + counter.to_bytes(8, "big")
    )


def block_words(key: bytes, stream: int, counter: int) -> tuple[int, int]:
    """Return the two 64-bit words of one block."""
    data = block(key, stream, counter)
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")


def first_word(key: bytes, index: int, bits: int) -> int:
    """Return the word of 32 or 64 bits that sample `index` owns."""
    size = bits // 8
    counter, place = divmod(index, 16 // size)
    return int.from_bytes(block(key, 0, counter)[place * size : (place + 1) * size], "little")


def extension(key: bytes, index: int, number: int) -> int:
    """Return the 128 bits of extension block `number` of sample `index`, the bit that counts most first."""
    data = block(key, 1 + number, index)
    return int.from_bytes(data[:8], "little") << 64 | int.from_bytes(data[8:], "little")


def call_key(seed: bytes, call: int) -> bytes:
    """Return the key of call number `call` of a seeded source."""
    return block(seed, SEED_STREAM, 2 * call) + block(seed, SEED_STREAM, 2 * call + 1)
