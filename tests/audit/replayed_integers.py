"""Replays of integer noise with chosen words: by rejection, whatever decides on an attempt, and in fixed time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import mpmath
from chosen_words import Call, block_of, drawn, further, lay
from mpmath import mp, mpf

from reference import discrete_noise, fixed_time_noise
from support.native_testing import testing

AGREE = (15, 16, 17, 20, 24, 30, 31, 32, 36, 38, 40, 44, 47, 50, 52, 55, 60, 64, 94, 95, 96, 120, 158, 159, 200, 280)
"""After how many digits U parts from what accepts: those of the first stage, of a first word, of floats, and beyond."""
DIGITS = 31 + 64 * 10


def put(call: Call, index: int, number: int, first: int, words: list[int]) -> None:
    """Choose the words of an attempt of a sample: of each but the first attempt, blocks begin with its first word."""
    given = [first, *words] if number else words
    padded = [*given, *(call.digits(64) for _ in range(16 - len(given)))]
    for k in range(8):
        call.blocks[1 + (number << 24) + k, index] = block_of(*padded[2 * k : 2 * k + 2])


def acceptance(law: str, scale: Fraction, x: int, factor: Fraction) -> int:
    """Return the first digits of the probability that x is accepted, all of them ones if it is certain."""
    extra = max(factor.numerator.bit_length() - factor.denominator.bit_length(), 0)
    value = discrete_noise.weight_bounds(law, scale, x, DIGITS + 64 + extra)[0] * factor
    return min(int(value * 2**DIGITS), 2**DIGITS - 1)


def words_of(uniform: int, known: int) -> tuple[int, list[int]]:
    """Return the first digits of U, and words of the rest."""
    rest = DIGITS - known
    words = rest // 64
    shifted = (uniform & (1 << rest) - 1) >> (rest - 64 * words)
    return uniform >> rest, [shifted >> 64 * (words - 1 - i) & (1 << 64) - 1 for i in range(words)]


def attempt(
    call: Call, law: str, scale: Fraction, envelope: discrete_noise.Envelope, agree: int
) -> tuple[int, list[int]]:
    """Return the first word and further ones of an attempt whose U agrees with its acceptance in so many digits."""
    cells = envelope.cells()
    # Cells at random, the tail's as often as others, as it has few.
    tails = [i for i, cell in enumerate(cells) if cell is None]
    cell = int(call.rng.choice(tails)) if call.rng.random() < 0.3 else int(call.rng.integers(len(cells)))
    sign, payload_bits, s = call.digits(1), 63 - discrete_noise.CELL_BITS, envelope.offset_bits
    word = (cell << 1 | sign) << payload_bits
    proposed = cells[cell]
    if proposed is None:
        zeros = int(call.rng.choice([0, 1, 2, 5, 63, 64, 70]))
        leading = [0] * (zeros // 64) + [(1 << 63 - zeros % 64) | call.digits(max(63 - zeros % 64, 0))]
        offset = call.digits(64)
        shift = offset >> (64 - envelope.tail_bits)
        x = envelope.tail_start + (zeros << envelope.tail_bits) + shift
        factor = Fraction(2) ** (zeros + 1 + envelope.tail_bits - s) * (2 if envelope.signed else 1)
        uniform = acceptance(law, scale, x, envelope.height * discrete_noise.UNIT * factor / envelope.tail_count)
        return word | call.digits(payload_bits), [*leading, offset, *words_of(call.near(uniform, DIGITS, agree), 0)[1]]
    block = proposed[0]
    last = (1 << s) - 1
    offset = int(call.rng.choice([0, last, last, last // 2])) if s < 62 else call.digits(s)
    factor = envelope.height * discrete_noise.UNIT / envelope.counts[block]
    uniform = call.near(acceptance(law, scale, (block << s) + offset, factor), DIGITS, agree)
    if s > discrete_noise.NARROW_BITS:
        digits, words = words_of(uniform, 31)
        rest = payload_bits - 31
        return word | digits << rest | call.digits(rest), [offset << (64 - s) | call.digits(64 - s), *words]
    known = min(payload_bits - s, 31)
    digits, words = words_of(uniform, known)
    rest = payload_bits - s - known
    return word | (offset << known | digits) << rest | call.digits(rest), words


def by_rejection(law: str, scale: Fraction, cases: int = 160) -> bool:
    """Whether a sample is another one than its words make it, by an envelope that is above the law."""
    envelope = discrete_noise.Envelope(*testing.discrete_envelope(law, scale.numerator, scale.denominator))
    if discrete_noise.violations(law, scale, envelope):
        return True
    call = Call(f"{law} {scale}")
    bodies = [i for i, each in enumerate(envelope.cells()) if each is not None]
    words = {}
    for index in range(cases):
        first, more = attempt(call, law, scale, envelope, AGREE[index % len(AGREE)])
        if index % 3 == 0:  # it is the second attempt, after one that ends with U next to 1
            put(call, index, 1, first, more)
            first, more = (
                (int(call.rng.choice(bodies)) << 51) | ((1 << 50) - 1 >> envelope.offset_bits),
                [2**64 - 1] * 10,
            )
        words[index] = first
        if index % 5:  # else further words are those of the key
            put(call, index, 0, first, more)
    lay(words, 64, call.key, call.blocks)
    with call.drawn() as source:
        found = drawn(lambda: getattr(source, f"discrete_{law}")(cases, scale=scale).tolist())
        expected = [discrete_noise.sample(call.key, i, law, scale, envelope) for i in range(cases)]
    return found != [min(max(each, -(2**63)), 2**63 - 1) for each in expected]


def ties(call: Call, digits: int, count: int, agree: int) -> tuple[int, list[bytes]]:
    """Return `count` digits that agree with these of `count + 256` so far, and blocks of the others."""
    near = call.near(digits, count + 256, agree)
    return near >> 256, [further(near >> 128 & (1 << 128) - 1), further(near & (1 << 128) - 1)]


FIXED_AGREE = (30, 60, 63, 64, 65, 100, 120, 126, 127, 128, 140, 190, 254, 256)
"""The same where 127 or 128 digits are compared at once."""


def gaussian_in_fixed_time(scale: Fraction) -> bool:
    """Whether a sample next to a sum of masses is another one than its digits make it."""
    call = Call(f"fixed {scale}")
    sums = fixed_time_noise.masses(scale)
    wanted = [0, 1, 2, len(sums) // 8, *(k for k in range(len(sums)) if sums[k] < 1 - mpf(2) ** -126)]
    blocks = dict[int, int]()
    with mp.workprec(fixed_time_noise.BITS):
        for index in range(140):
            k = wanted[index % len(wanted)] if index % 2 else wanted[-1 - index % 12 // 2]
            digits = int(mpmath.floor(mpmath.ldexp(sums[min(k, len(sums) - 1)], 127 + 256)))
            first, more = ties(call, digits, 127, FIXED_AGREE[index % len(FIXED_AGREE)])
            blocks[index] = first << 1 | call.digits(1)
            if index % 5:
                call.blocks.update({(1 + n, index): each for n, each in enumerate(more)})
    call.blocks.update({(0, index): block.to_bytes(16, "little") for index, block in blocks.items()})
    with call.drawn() as source:
        found = drawn(lambda: source.discrete_gaussian(140, scale=scale, fixed_time=True).tolist())
        return found != [fixed_time_noise.gaussian(call.key, index, scale) for index in range(140)]


def laplace_in_fixed_time(scale: Fraction) -> bool:
    """Whether a digit of geometric variables, or what is beyond them, is another one than its digits make it."""
    call = Call(f"fixed Laplace {scale}")
    odds = fixed_time_noise.probabilities(scale)
    count = 60
    with mp.workprec(fixed_time_noise.BITS):
        for decision in range(2 * count * len(odds)):
            digits = int(mpmath.floor(mpmath.ldexp(odds[decision % len(odds)], 128 + 256)))
            agree = FIXED_AGREE[int(call.rng.integers(len(FIXED_AGREE)))]
            if decision % len(odds) == len(odds) - 1:
                agree = int(call.rng.choice([127, 160, 200, 250, 280]))
            first, more = ties(call, digits, 128, agree)
            call.blocks[0, decision] = first.to_bytes(16, "little")
            if decision % 5:
                call.blocks.update({(1 + n, decision): each for n, each in enumerate(more)})
    with call.drawn() as source:
        found = drawn(lambda: source.discrete_laplace(count, scale=scale, fixed_time=True).tolist())
        expected = [fixed_time_noise.laplace(call.key, index, scale) for index in range(count)]
    return found != [min(max(each, -(2**63)), 2**63 - 1) for each in expected]


SCALES = [
    Fraction(3, 5),
    Fraction(2),
    Fraction(50),
    Fraction(201, 2),
    Fraction(3000),
    Fraction(10**7),
    Fraction(10**14),
]


def _audits() -> Iterator[tuple[str, Callable[[], bool]]]:
    for law in ("gaussian", "laplace"):
        yield f"replay: discrete {law} noise", lambda law=law: any(by_rejection(law, scale) for scale in SCALES)
    yield (
        "replay: discrete gaussian noise in fixed time",
        lambda: any(gaussian_in_fixed_time(Fraction(scale)) for scale in (Fraction(3, 5), 3, 40)),
    )
    yield (
        "replay: discrete laplace noise in fixed time",
        lambda: any(laplace_in_fixed_time(Fraction(scale)) for scale in (Fraction(3, 5), 3, 10**6)),
    )


AUDITS: dict[str, Callable[[], bool]] = dict(_audits())
"""Whether a replay is not what the definition says: certain, at no level."""
