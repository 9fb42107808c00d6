"""Random subsets from their definitions, on the words that the library reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from . import keystream


def uniform_integers(key: bytes) -> Iterator[Callable[[int], int]]:
    """Yield functions that draw below a bound: word i of stream 0, then block i of streams 1, 2, …, without bias."""
    index = 0
    while True:
        words = [keystream.first_word(key, index, 64)]

        def below(bound: int, words: list[int] = words, index: int = index) -> int:
            for stream in range(1, 100):
                high, low = divmod(words[0] * bound, 2**64)
                if low >= 2**64 % bound:
                    return high
                words[0] = keystream.block_words(key, stream, index)[0]
            raise AssertionError("99 rejections")

        yield below
        index += 1


def floyd(key: bytes, population: int, size: int) -> list[int]:
    """Return a sample of fixed size."""
    draws = uniform_integers(key)
    chosen = set[int]()
    for last in range(population - size, population):
        drawn = next(draws)(last + 1)
        chosen.add(last if drawn in chosen else drawn)
    return sorted(chosen)


def poisson_by_gaps(key: bytes, population: int, probability: Fraction, blocks: int = 1) -> list[int]:
    """Return a Poisson sample by its gaps: the largest k with U < (1 − q)^k, U from so many blocks of digits."""
    members, position, j = list[int](), 0, 0
    while True:
        digits = keystream.first_word(key, j, 64)
        for number in range(blocks):
            digits = digits << 128 | keystream.extension(key, j, number)
        uniform = Fraction(digits, 2 ** (64 + 128 * blocks))
        gap, power = 0, 1 - probability
        while uniform < power and position + gap < population:
            gap, power = gap + 1, power * (1 - probability)
        position += gap
        if position >= population:
            return members
        members.append(position)
        position, j = position + 1, j + 1
