"""Replays of choices with chosen words: coins, randomized answers, candidates, samples of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
from chosen_words import Call, block_of, drawn, further, lay
from mpmath import mp, mpf

import ferrodp as fd
from ferrodp import _native
from ferrodp.random import fixed_size_sample, poisson_sample, random_allocation
from reference import coins, responses, samples, selection

AGREE = (20, 30, 36, 40, *range(43, 49), *range(50, 64, 2), 63, 64, 65, 80, 100, 127, 128, 191, 192, 230, 300)
"""After how many digits a uniform number parts from a threshold: where floats stop to tell, and beyond."""


def choose(call: Call, index: int, digits: int, blocks: int, first: int = 1) -> None:
    """Choose the word of a sample and its further digits, in blocks of streams from `first` on."""
    lay({index: digits >> 128 * blocks}, 64, call.key, call.blocks)
    for number in range(blocks):
        call.blocks[first + number, index] = further(digits >> 128 * (blocks - 1 - number) & (1 << 128) - 1)


# coins ------------------------------------------------------------------------------------------------------------


def tossed(gamma: float | Fraction, blocks: int = 3, cases: int = 108) -> bool:
    """Whether a coin next to its probability falls on another side, if all have one γ or each has its own."""
    call = Call(f"coin {gamma}")
    bits = 64 + 128 * blocks
    threshold = coins.threshold(Fraction(gamma), bits)
    zeros = bits - threshold.bit_length()
    for index in range(cases):
        choose(call, index, call.near(threshold, bits, zeros + AGREE[index % len(AGREE)] - 20 * (zeros > 0)), blocks)
        if index % 5 == 0:  # further digits are those of the key
            for number in range(blocks):
                del call.blocks[1 + number, index]
    with call.drawn() as source:
        found = [drawn(lambda: source.bernoulli_exp(gamma, cases).tolist())]
    if isinstance(gamma, float):
        with call.drawn() as source:
            found.append(drawn(lambda: source.bernoulli_exp(np.full(cases, gamma)).tolist()))
    with call.drawn():
        expected = [coins.toss(call.key, index, Fraction(gamma), blocks) for index in range(cases)]
    return any(each != expected for each in found)


# answers ----------------------------------------------------------------------------------------------------------


def answered(noise_parameter: float, categories: int) -> bool:
    """Whether an answer at a tie of its coin, or at the seam of two categories, is another one."""
    call = Call(f"answer {noise_parameter} {categories}")
    scaled = int(Fraction(noise_parameter) * 2**128)
    threshold, beyond = scaled >> 64, scaled & (1 << 64) - 1
    least = 2**64 % categories
    seams = [-(-m * 2**64 // categories) + d for m in (0, 1, 2, categories - 1) for d in (-1, 0, 1)]
    if categories % 2:  # the lower half of the product is the last that is drawn again, or the first that is not
        seams += [(least + d) * pow(categories, -1, 2**64) for d in (-1, 0, 1)]
    index = 0
    for tie in (threshold - 1, threshold, threshold + 1, 0):
        for seam in seams:
            for more in (beyond - 1, beyond, beyond + 1, 2**64 - 1):
                call.blocks[0, index] = block_of(tie % 2**64, seam % 2**64)
                call.blocks[1, index] = block_of(more % 2**64, call.digits(64))
                index += 1
    answers = call.rng.integers(-1, min(categories, 2**31 - 2) + 2, size=index)
    noised = answers.copy()
    with call.drawn() as source:
        found = drawn(lambda: _native.randomize_responses(noised, noise_parameter, categories, source._key(), 1))
        expected = [
            selection.respond(call.key, i, int(answer), noise_parameter, categories) for i, answer in enumerate(answers)
        ]
    return found is not None or noised.tolist() != expected


def coded_answers(made: fd.HadamardResponse) -> bool:
    """Whether a coded answer at the seam of two products is another one."""
    call = Call(f"coded {made}")
    seams = [each * made.weight + d for each in range(made.field_size) for d in (-1, 0, 1)]
    for index in range(8 * len(seams)):
        call.blocks[0, index] = block_of(seams[index % len(seams)] % 2**64, call.digits(64))
    answers = call.rng.integers(-1, made.num_categories + 1, size=8 * len(seams))
    noised = answers.copy()
    given = (made.weight, made.num_categories, made.field_size)
    with call.drawn() as source:
        found = drawn(lambda: _native.code_responses(noised, *given, source._key(), 1))
        expected = responses.coded_answers(made, call.key, answers.tolist())
    return found is not None or noised.tolist() != expected


def answered_vectors(made: fd.VectorResponse) -> bool:
    """Whether a code word is another one: at the seams of sets and of signs, and where a choice is drawn again."""
    call = Call(f"vectors {made}")
    vectors = call.rng.normal(size=(24, made.dimension)) * made.l2_clip_norm
    vectors[::3] *= 0.1 / np.linalg.norm(vectors[::3], axis=1, keepdims=True)
    for index, row in enumerate(vectors):
        near = made.weight + index % 3 - 1
        call.blocks[0, index] = block_of(near, 0 if index % 4 == 0 else call.digits(64))
        _, keeping = responses.direction(row.tolist(), made.l2_clip_norm)
        if index % 2:
            call.blocks[1, index] = block_of(call.digits(64), (keeping + index % 3 - 1) % 2**64)
    with call.drawn() as source:
        found = drawn(lambda: made.release(vectors, source=source))
        expected = responses.vector_answers(made, call.key, vectors.tolist())
    return isinstance(found, str) or found.tolist() != expected


def answers_in_bits(made: fd.UnaryResponse | fd.SubsetResponse) -> bool:
    """Whether a row of bits is another one: of sets, where the own category is at its seam and draws are repeated."""
    call = Call(f"bits {made}")
    is_set = isinstance(made, fd.SubsetResponse)
    for index in range(40 if is_set else 0):
        call.blocks[0, index] = block_of(made.weight + index % 3 - 1, call.digits(64))
        call.blocks[index + 1, 0] = block_of(call.digits(64) >> 32 << 32 if index % 4 else 0, call.digits(64))
    answers = call.rng.integers(-1, made.num_categories + 1, size=40)
    of = responses.sets if is_set else responses.bits
    with call.drawn() as source:
        found = drawn(lambda: made.release(answers, source=source))
        expected = of(made, call.key, answers.tolist())
    if isinstance(found, str):
        return True
    return [sum(word << 64 * i for i, word in enumerate(row)) for row in found.tolist()] != expected


# candidates -------------------------------------------------------------------------------------------------------


def second_uniform(noise: str, first: int, lead: Fraction, signs: tuple[bool, bool], bits: int) -> int | None:
    """Return the digits with which the lower of two candidates would be exactly as good as the higher one."""
    with mp.workprec(2 * bits):
        u = (mpf(first) + mpf(1) / 2) / mpf(2) ** bits
        d = mpf(lead.numerator) / lead.denominator
        if noise == "gumbel":
            other = -mpmath.expm1(mpmath.exp(-d) * mpmath.log1p(-u))
        elif signs == (False, False):
            other = u * mpmath.exp(-d)
        elif signs == (True, True):
            other = u * mpmath.exp(d)
        elif signs == (True, False):
            other = mpmath.exp(-d) / u
        else:
            return None
        return int(mpmath.floor(mpmath.ldexp(other, bits))) if other < 1 else None


def selected(noise: str, factor: int, cases: int = 60) -> bool:
    """Whether another candidate wins where the noises of two agree in many digits."""
    bits, blocks = selection.DIGITS, (selection.DIGITS - 64) // 128
    call = Call(f"candidates {noise} {factor}")
    for case in range(cases):
        lead = Fraction(float(call.rng.choice([0.25, 1.0, 2.5, 0.3, 5.0])))
        scale = Fraction(float(call.rng.choice([1.0, 2.0, 0.7])))
        signs = (bool(call.digits(1)), bool(call.digits(1))) if noise == "laplace" else (False, False)
        first = call.digits(bits) | 1 << (bits - 3)
        second = second_uniform(noise, first, lead / (factor * scale), signs, bits)
        if second is None:
            continue
        call.blocks.clear()
        flip = case % 2  # which of the two comes first
        choose(call, flip, first, blocks, 2)
        choose(call, 1 - flip, call.near(second, bits, 30 + (case * 7) % 220), blocks, 2)
        for i, negative in ((flip, signs[0]), (1 - flip, signs[1])):
            call.blocks[1, i] = block_of(negative << 63 | call.digits(63), call.digits(64))
        utilities = np.zeros(2)
        utilities[flip] = float(lead)
        with call.drawn() as source:
            found = drawn(partial(_native.choose_candidate, utilities, noise, 1.0, float(scale), factor, source._key()))
            if found != selection.choose(noise, call.key, utilities.tolist(), factor * scale):
                return True
    return False


# samples ----------------------------------------------------------------------------------------------------------


def members_by_gaps(probability: float, population: int = 2000, cases: int = 40, reach: float = 1.5) -> bool:
    """Whether a gap between members of a Poisson sample is another one where its word is next to a power of 1 − q.

    Gaps are up to `reach` times the mean; those of 41 times the mean and more begin with words of which few digits are
    known.
    """
    call = Call(f"gaps {probability} {reach}")
    bits = 64 + 128 * 3
    for index in range(cases):
        most = int(reach / probability)
        power = (1 - Fraction(probability)) ** int(call.rng.integers(1 if reach < 40 else most * 9 // 10, 1 + most))
        digits = int(power * 2**bits)
        agree = AGREE[index % len(AGREE)] if reach < 40 else 68 + index % 9  # a digit of it at least
        choose(call, index, call.near(digits, bits, agree), 3)
    with call.drawn() as source:
        found = drawn(lambda: poisson_sample(population, probability, source=source).tolist())
        return found != samples.poisson_by_gaps(call.key, population, Fraction(probability), 3)


def members_by_coins(probability: float) -> bool:
    """Whether a record joins at its threshold."""
    call = Call(f"joins {probability}")
    threshold = int(Fraction(probability) * 2**64)
    lay({i: threshold + i % 3 - 1 for i in range(90)}, 64, call.key, call.blocks)
    with call.drawn() as source:
        found = drawn(lambda: poisson_sample(90, probability, source=source).tolist())
    return found != [i for i in range(90) if i % 3 == 0]


def uneven_draws(population: int, size: int) -> bool:
    """Whether a word that would make some record likelier is kept."""
    call = Call(f"uneven {population} {size}")
    words = {}
    for i in range(size):
        bound = population - size + i + 1
        member = int(call.rng.integers(min(bound, 2**62)))
        words[i] = -(-member * 2**64 // bound) % 2**64  # the first word of that member: left out if 2⁶⁴ is no multiple
    lay(words, 64, call.key, call.blocks)
    with call.drawn() as source:
        found = drawn(lambda: fixed_size_sample(population, size, source=source).tolist())
        if found != samples.floyd(call.key, population, size):
            return True
    return False


def uneven_allocations(population: int, steps: int) -> bool:
    """Whether a word that would make some step likelier is kept."""
    call = Call(f"steps {population} {steps}")
    lay({i: -(-(i % steps) * 2**64 // steps) for i in range(population)}, 64, call.key, call.blocks)
    with call.drawn() as source:
        found = drawn(lambda: [batch.tolist() for batch in random_allocation(population, steps, 1, source=source)])
        draws = samples.uniform_integers(call.key)
        expected: list[list[int]] = [[] for _ in range(steps)]
        for record in range(population):
            expected[next(draws)(steps)].append(record)
    return found != expected


GAMMAS: tuple[float | Fraction, ...] = (1e-9, 0.3, 1.0, 2.5, 20.0, Fraction(1, 3), Fraction(45, 7))


def _audits() -> Iterator[tuple[str, Callable[[], bool]]]:
    yield "replay: coins", lambda: any(tossed(gamma) for gamma in GAMMAS)
    yield "replay: rare coins", lambda: any(tossed(gamma, 15, 54) for gamma in (100.0, 690.0, 700.5, 999.0))
    yield (
        "replay: answers",
        lambda: any(
            answered(p, k) for p in (0.5, 0.1, 0.1 * 2.0**-20, 1.0 / 3) for k in (2, 3, 7, 10, 1001, 2**31 - 1)
        ),
    )
    yield (
        "replay: coded answers",
        lambda: any(
            coded_answers(fd.HadamardResponse(weight=weight, num_categories=k, field_size=q))
            for weight, k, q in ((2**61, 9, 4), (2**62, 9, 2), (3, 1024, 4))
        ),
    )
    yield (
        "replay: answers in bits",
        lambda: any(
            answers_in_bits(fd.UnaryResponse(weight=weight, digits=digits, num_categories=k))
            for weight, digits, k in ((3, 4, 9), (275, 10, 70), (1, 20, 3))
        ),
    )
    yield (
        "replay: answers in sets",
        lambda: any(
            answers_in_bits(fd.SubsetResponse(weight=weight, num_categories=k, size=d))
            for weight, k, d in ((2**61, 9, 3), (2**60, 70, 40), (2**62, 2, 1))
        ),
    )
    yield (
        "replay: answers as vectors",
        lambda: any(
            answered_vectors(fd.VectorResponse(weight=weight, dimension=2, num_directions=n, size=m, l2_clip_norm=1.0))
            for weight, n, m in ((2**61, 4, 3), (2**62, 1, 1))
        ),
    )
    for noise in ("gumbel", "exponential", "laplace"):
        yield f"replay: candidates with {noise} noise", lambda noise=noise: selected(noise, 1) or selected(noise, 2)
    yield (
        "replay: samples",
        lambda: (
            any(members_by_gaps(q) for q in (0.03, 0.01, 2.0**-6, 1e-2 / 3))
            or members_by_gaps(0.03, 18_500, 12, 45.0)
            or any(members_by_coins(q) for q in (1 / 32, 0.1, 0.5, 0.9))
            or any(uneven_draws(n, m) for n, m in ((20, 3), (1000, 40), (3 * 2**60, 40)))
            or uneven_allocations(200, 7)
        ),
    )


AUDITS: dict[str, Callable[[], bool]] = dict(_audits())
"""Whether a replay is not what the definition says: certain, at no level."""
