"""What the ways to answer share: who may pay for answers, how they are read, the curve of two laws, rows of bits.

*The curve.* Let a set of messages have probability a under one answer and b ≤ a under another one, let its mirror
image have b and a, and all other messages equal probabilities; then the hockey-stick divergence is δ(ε) = max(a −
e^ε·b, 0), and ε(δ) = ln((a − δ)/b).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, tight
from ferrodp._observer import OBSERVER
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import NeighboringRelation
from ferrodp.mechanisms._additive import source_of
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import payer_of

DTYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.int32, np.int64))
DIGITS = (40, 110)
MOST_CATEGORIES = 2**24
Rows = npt.NDArray[np.uint64]


def payable(mechanism: Any, source: NoiseSource | None, ticket: Ticket | None) -> NoiseSource:
    """Return what answers are drawn from, if who pays knows that answers are replaced."""
    payer = payer_of(source_or_default(source)) if ticket is None else ticket if isinstance(ticket, Ticket) else None
    # mutant: response-paid-for-as-if-an-answer-came
    if payer is not None and payer.neighboring_relation is not NeighboringRelation.REPLACE_ONE:
        what = "an open budget" if ticket is None else "ticket"
        raise InvalidParameter(f"{what} must be under REPLACE_ONE for answers, got {payer.neighboring_relation.name}")
    return source_of(mechanism, source, ticket)


def epsilon_of(likely: Fraction, unlikely: Fraction, delta: Real) -> float:
    """Return ε(δ) of the module docstring, at least 0, rounded up."""
    # mutant: curve-of-answers-forgets-a-delta
    ratio = (likely - Fraction(_validate.delta(delta, zero=True))) / unlikely
    return 0.0 if ratio <= 1 else float_up(tight(lambda r: r.ln(r.ratio(ratio)), DIGITS).upper)


def delta_of(likely: Fraction, unlikely: Fraction, epsilon: Real) -> float:
    """Return δ(ε) of the module docstring, rounded up."""
    at = Fraction(_validate.non_negative("epsilon", epsilon, toward="down"))
    if at > 800:
        return 0.0  # e^800 is above all ratios of probabilities

    def enclose(r: Arithmetic) -> Interval:
        return r.sub(r.ratio(likely), r.mul(r.exp(r.ratio(at)), r.ratio(unlikely)))

    if not at:
        return _validate.rounded(max(likely - unlikely, Fraction(0)), "up")
    return max(float_up(tight(enclose, DIGITS).upper), 0.0)


def rows_of_bits(
    mechanism: Any,
    answers: object,
    source: NoiseSource | None,
    ticket: Ticket | None,
    draw: Callable[[npt.NDArray[np.int64], Rows, Any], None],
) -> Rows:
    """Return a row of words for each answer, of which each bit stands for a category."""
    drawn_from = payable(mechanism, source, ticket)
    array = _arrays.as_integer_array(answers, "answers", dtypes=DTYPES)
    words = words_per_row(mechanism.num_categories)
    _validate.fits_in_memory("answers", 8 * (words + 1) * array.size)
    flat = np.array(array, np.int64, order="C").reshape(-1)
    out = np.zeros((flat.size, words), np.uint64)
    draw(flat, out, drawn_from._key())
    out = out.reshape((*array.shape, words))
    observer = OBSERVER.get()
    if observer is not None:
        out = observer.saw(mechanism, flat, out, event=mechanism.event, norm="L0", sensitivity=1)
    return out


def words_per_row(num_categories: int) -> int:
    """Return how many words of 64 bits have a bit for each category."""
    return -(-num_categories // 64)


def counted(messages: npt.ArrayLike, num_categories: int) -> tuple[int, npt.NDArray[np.int64]]:
    """Return how many messages there are, and how many have the bit of each category."""
    seen, words = np.asarray(messages), words_per_row(num_categories)
    if seen.dtype != np.uint64:
        raise InvalidArrayType(f"messages must be uint64, got {seen.dtype}: give what `release` returned")
    if not seen.ndim or seen.shape[-1] != words:
        raise InvalidArray(f"messages must have {words} words each, got an array of shape {seen.shape}")
    counts = np.zeros(64 * words, np.int64)
    rows = np.ascontiguousarray(seen).reshape(-1, words)
    _native.count_bits(rows, counts)
    if counts[num_categories:].any():
        raise InvalidArray(f"messages must have no bits beyond those of {num_categories} categories")
    return len(rows), counts[:num_categories]
