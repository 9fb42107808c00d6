"""Answers about categories and vectors, by the definitions: in a field, as bits, sets, words; laws by enumeration."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from math import comb, isfinite, sqrt
from typing import Any

from reference import keystream, rounded_noise

TIMES = ((0, 0, 0, 0), (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2))
"""Products of the field with four elements 0, 1, ω, ω + 1, of which the second bit is that of ω."""


def own(answer: int, categories: int) -> int:
    """Return the category that an answer counts as."""
    return answer if 0 <= answer < categories else 0


def vector(category: int, digits: int, field_size: int) -> list[int]:
    """Return the digits of a category, the highest one last, and a one."""
    rest = digits - 1
    if field_size == 2:
        return [category >> i & 1 for i in range(rest)] + [1]
    return [category >> i & 1 | (category >> (rest + i) & 1) << 1 for i in range(rest)] + [1]


def product(one: list[int], other: list[int], field_size: int) -> int:
    """Return the product of two vectors: sums are those of bits."""
    found = 0
    for a, b in zip(one, other, strict=True):
        found ^= a * b if field_size == 2 else TIMES[a][b]
    return found


def coded(made: Any, answer: int, choice: int, word: int) -> int:
    """Return the message for a word that chooses the product and one that has its digits."""
    q, digits = made.field_size, made._digits
    wanted = sum(choice < each * made.weight for each in range(1, q))
    low, high = word & (1 << digits) - 1, word >> 32 & (1 << digits) - 1 if q == 4 else 0
    message = [low >> i & 1 | (high >> i & 1) << 1 for i in range(digits)]
    coder = vector(own(answer, made.num_categories), digits, q)
    message[-1] ^= product(message, coder, q) ^ wanted
    assert product(message, coder, q) == wanted
    return sum((digit & 1) << i | digit >> 1 << (digits + i) for i, digit in enumerate(message))


def coded_answers(made: Any, key: bytes, answers: list[int]) -> list[int]:
    """Return the messages of a call."""
    return [coded(made, answer, *keystream.block_words(key, 0, i)) for i, answer in enumerate(answers)]


def coded_law(made: Any, answer: int) -> list[Fraction]:
    """Return the probability of every message: the words of each product, and all digits."""
    q, digits = made.field_size, made._digits
    ends = [0, *(each * made.weight for each in range(1, q)), 2**64]
    found = [Fraction(0)] * made.num_messages
    for start, end in itertools.pairwise(ends):
        for digit in range(made.num_messages) if end > start else ():
            word = digit & (1 << digits) - 1 | digit >> digits << 32
            found[coded(made, answer, start, word)] += Fraction(end - start, 2**64 * made.num_messages)
    return found


def bits(made: Any, key: bytes, answers: list[int]) -> list[int]:
    """Return the rows of a call as one number each: bit c is that of category c."""
    words, t = -(-made.num_categories // 64), made.digits

    def digit(word: int, number: int) -> int:
        at = (word // 16 * t + number) * 16 + word % 16
        return keystream.block_words(key, 0, at // 2)[at % 2]

    found = []
    for i, answer in enumerate(answers):
        row = 0
        for c in range(made.num_categories):
            drawn = [digit(i * words + c // 64, number) >> c % 64 & 1 for number in range(t)]
            number = int("".join(map(str, drawn)), 2)
            row |= (drawn[0] if c == own(answer, made.num_categories) else number < made.weight) << c
        found.append(row)
    return found


def bits_law(made: Any, answer: int) -> dict[int, Fraction]:
    """Return the probability of every row of bits."""
    share = Fraction(made.weight, 2**made.digits)
    found = {}
    for row in range(2**made.num_categories):
        found[row] = Fraction(1)
        for c in range(made.num_categories):
            one = Fraction(1, 2) if c == own(answer, made.num_categories) else share
            found[row] *= one if row >> c & 1 else 1 - one
    return found


def sets(made: Any, key: bytes, answers: list[int]) -> list[int]:
    """Return the sets of a call as one number each."""
    found = []
    for i, answer in enumerate(answers):
        mine = own(answer, made.num_categories)
        others = [c for c in range(made.num_categories) if c != mine]
        draws = iter_draws(key, i + 1)
        is_in = keystream.block_words(key, 0, i)[0] >= made.weight
        taken: set[int] = {mine} if is_in else set()
        for number, last in enumerate(range(len(others) - made.size, len(others))):
            drawn = others[draws(last + 1)]
            if number or not is_in:
                taken.add(others[last] if drawn in taken else drawn)
        found.append(sum(1 << c for c in taken))
    return found


def iter_draws(key: bytes, stream: int) -> Any:
    """Return what gives one of the first so many numbers, from words of 32 bits."""
    words = (
        word >> shift & (1 << 32) - 1
        for block in itertools.count()
        for word in keystream.block_words(key, stream, block)
        for shift in (0, 32)
    )

    def below(bound: int) -> int:
        while True:
            found = next(words) * bound
            if found % 2**32 >= 2**32 % bound:
                return found >> 32

    return below


def sets_law(made: Any, answer: int) -> dict[int, Fraction]:
    """Return the probability of every set: those with the own category are equally likely, and those without."""
    k, d, lie = made.num_categories, made.size, Fraction(made.weight, 2**64)
    mine, found = own(answer, k), Counter[int]()
    for chosen in itertools.combinations(range(k), d):
        is_in = mine in chosen
        found[sum(1 << c for c in chosen)] = (
            (1 - lie) / comb(k - 1, d - 1) if is_in else lie / comb(k - 1, d)  # type: ignore[assignment]
        )
    return dict(found)  # type: ignore[arg-type]


def direction(row: list[float], clip_norm: float) -> tuple[list[int], int]:
    """Return a vector's direction in steps of 2^-30, and how many of 2^64 words keep its sign."""
    if not all(map(isfinite, row)) or not any(row):
        return [0] * len(row), 2**63
    largest = max(map(abs, row))
    norm, one = 0.0, 2.0**30
    for x in row:
        norm += x / largest * (x / largest)
    norm = sqrt(norm)
    share = largest / clip_norm * norm
    keeping = 2**64 if share >= 1.0 else 2**63 + int(share * 2.0**63)
    return [round(x / largest / norm * one) for x in row], keeping


def coordinates(nonce: int, direction: int, dimension: int, bits: int) -> list[int]:
    """Return the coordinates of one direction of a code, rounded to multiples of 2^-bits."""
    code = nonce.to_bytes(8, "little") + bytes(24)
    first = direction * -(-dimension // 1024) * 1024
    return [
        rounded_noise.decide(
            "gaussian",
            keystream.first_word(code, index, 64),
            64,
            lambda number, index=index: keystream.extension(code, index, number),  # type: ignore[misc]
            Fraction(0),
            Fraction(2**bits),
        )
        for index in range(first, first + dimension)
    ]


def top(made: Any, nonce: int, steps: list[int]) -> list[int]:
    """Return the numbers of the code words that are near to a direction."""
    products = [0] * made.num_directions
    if any(steps):
        for j in range(made.num_directions):
            products[j] = sum(x * z for x, z in zip(steps, coordinates(nonce, j, made.dimension, 60), strict=True))
    ranked = sorted(range(made.num_directions), key=lambda j: (-abs(products[j]), j))
    return sorted(2 * j + (products[j] < 0) for j in ranked[: made.size])


def vector_answers(made: Any, key: bytes, vectors: list[list[float]]) -> list[list[int]]:
    """Return the messages of a call."""
    found = []
    for i, row in enumerate(vectors):
        (coin, choice), (nonce, sign) = keystream.block_words(key, 0, i), keystream.block_words(key, 1, i)
        steps, keeping = direction(row, made.l2_clip_norm)
        near = top(made, nonce, steps)
        if sign >= keeping:
            near = [number ^ 1 for number in near]
        others = [number for number in range(2 * made.num_directions) if number not in near]
        among = near if coin >= made.weight else others
        stream = 2
        while choice * len(among) % 2**64 < 2**64 % len(among):
            choice = keystream.block_words(key, stream, i)[0]
            stream += 1
        found.append([nonce, sorted(among)[choice * len(among) >> 64]])
    return found


def tops(made: Any) -> list[tuple[int, ...]]:
    """Return all sets of code words that can be near to a vector: so many directions, each with a sign."""
    return [
        tuple(2 * j + sign for j, sign in zip(chosen, signs, strict=True))
        for chosen in itertools.combinations(range(made.num_directions), made.size)
        for signs in itertools.product((0, 1), repeat=made.size)
    ]


def vector_law(made: Any, near: tuple[int, ...]) -> list[Fraction]:
    """Return the probability of every code word where those are near."""
    lie, words = Fraction(made.weight, 2**64), 2 * made.num_directions
    return [(1 - lie) / made.size if number in near else lie / (words - made.size) for number in range(words)]
