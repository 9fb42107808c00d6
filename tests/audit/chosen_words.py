"""Calls that draw chosen words: the native samplers and `tests/reference` see the same blocks in the keystream's place.

A call of a seeded source has a key of its own. For the length of `chosen` the keystream of one call gives the blocks
that an audit chose, and its own bits everywhere else; so a replay reaches what fresh bits reach in one draw of 2⁶⁴.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import ferrodp as fd
from reference import keystream
from support.native_testing import testing

Blocks = dict[tuple[int, int], bytes]
"""16 bytes by stream and index."""


def block_of(high: int, low: int) -> bytes:
    """Return a block of two words, as further digits are read: the first one counts most."""
    return high.to_bytes(8, "little") + low.to_bytes(8, "little")


def further(number: int) -> bytes:
    """Return a block of 128 further digits."""
    return block_of(number >> 64, number & (1 << 64) - 1)


def lay(words: dict[int, int], bits: int, key: bytes, blocks: Blocks) -> None:
    """Lay first words of so many bits into blocks of stream 0, whose other words stay those of the key."""
    size = bits // 8
    for index, word in words.items():
        counter, place = divmod(index, 16 // size)
        before = blocks.get((0, counter)) or keystream.block(key, 0, counter)
        after = before[: place * size] + word.to_bytes(size, "little") + before[(place + 1) * size :]
        blocks[0, counter] = after


@contextlib.contextmanager
def chosen(key: bytes, blocks: Blocks) -> Iterator[None]:
    """Have the keystream of this key give these blocks, in native code and in the reference."""
    keystream.CHOSEN.update({(key, *place): block for place, block in blocks.items()})
    testing.choose_words(key, [(*place, block) for place, block in blocks.items()])
    try:
        yield
    finally:
        testing.forget_words()
        keystream.CHOSEN.clear()


class Call:
    """The first call of a seeded source, whose words are being chosen."""

    def __init__(self, name: str) -> None:
        self._seed = hashlib.sha256(name.encode()).digest()
        self.key = keystream.call_key(self._seed, 0)
        self.rng = np.random.default_rng(list(self._seed[:8]))
        self.blocks: Blocks = {}

    @contextlib.contextmanager
    def drawn(self) -> Iterator[fd.NoiseSource]:
        """Give a source whose next call draws the chosen words."""
        with chosen(self.key, self.blocks):
            yield fd.testing.seeded(self._seed)

    def digits(self, bits: int) -> int:
        """Return a random number of so many bits."""
        return int.from_bytes(self.rng.bytes(-(-bits // 8)), "little") & (1 << bits) - 1

    def near(self, digits: int, bits: int, agree: int) -> int:
        """Return digits that agree with these in the first so many, and differ in the next one, if there are more."""
        if agree >= bits:
            return digits
        rest = bits - agree - 1
        return (digits >> rest ^ 1) << rest | (self.digits(1) * ((1 << rest) - 1) if rest % 3 else self.digits(rest))


PANIC = "a panic"


def drawn(draw: Callable[[], Any]) -> Any:
    """Return what a call draws, or that it ended in a panic: an outcome like any other, and none that a law has."""
    try:
        return draw()
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            return PANIC
        raise
