"""What the ways to answer share: who may pay for answers, the curve of two laws, the estimates, rows of bits.

*The curve.* Let a set of messages have probability a under one answer and b ≤ a under another one, let its mirror
image have b and a, and all other messages equal probabilities; then the hockey-stick divergence is δ(ε) = max(a −
e^ε·b, 0), and ε(δ) = ln((a − δ)/b).

*Estimates.* Let a message support the category that was answered with probability p, and each other one with
probability r. Of n answers, c of them of a category, the number S of messages that support it has the mean c·p + (n −
c)·r, so (S − n·r)/(p − r) is an unbiased estimate of c. Where c = 0, S is binomial, and the share (S − n·r)/(n·(p − r))
has the variance r(1 − r)/(n(p − r)²): the pure protocols of Wang, Blocki, Li, Jha, "Locally differentially private
protocols for frequency estimation", USENIX Security 2017, Theorems 1 and 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, tight
from ferrodp._observer import OBSERVER
from ferrodp.errors import InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import EpsilonDeltaEvent, NeighboringRelation
from ferrodp.mechanisms._additive import source_of
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import payer_of

DTYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.int32, np.int64))
DIGITS = (40, 110)
MOST_CATEGORIES = 2**24
Rows = npt.NDArray[np.uint64]


class Randomizer(ABC):
    """A way to answer, of whatever: two probabilities give its event and its curve."""

    __slots__ = ()

    guarantee: ClassVar[str] = "exact"
    _useful: ClassVar[str]
    """Which weights estimate anything, in the words of the refusal of others."""

    weight: int

    @property
    @abstractmethod
    def _laws(self) -> tuple[Fraction, Fraction]:
        """The probabilities a and b of the module docstring, of messages that support one of two answers alone."""

    @property
    def event(self) -> EpsilonDeltaEvent:
        """What an accountant needs to know about one unit's answer; `ShuffledEvent` takes it as a randomizer."""
        return EpsilonDeltaEvent(epsilon=self.epsilon(), delta=0.0)

    def epsilon(self, delta: Real = 0.0) -> float:
        """Return the smallest ε ≥ 0 for which one answer is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            ln((a − δ)/b), at least 0: the inverse of `delta`.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.

        Notes
        -----
        a and b are the probabilities of the messages that support the answer and not another one, under the answer and
        under the other one:

        ==================  =====================  =====================
        way to answer       a                      b
        ==================  =====================  =====================
        `UnaryResponse`     (1 − q)/2              q/2
        `SubsetResponse`    p(k − d)/(k − 1)       (1 − p)d/(k − 1)
        `HadamardResponse`  (1 − 1/q)A             (1 − 1/q)P
        `VectorResponse`    p                      (1 − p)m/(2N − m)
        ==================  =====================  =====================

        For vectors they are those of one vector and its opposite, of which no message supports both.

        Examples
        --------
        >>> from ferrodp.mechanisms import SubsetResponse
        >>> SubsetResponse(weight=2**63, num_categories=4, size=2).epsilon()
        0.0
        """
        return epsilon_of(*self._laws, delta)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one answer is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            a − e^ε·b with the probabilities of `epsilon`, at least 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.

        Examples
        --------
        >>> from ferrodp.mechanisms import HadamardResponse, SubsetResponse, UnaryResponse
        >>> UnaryResponse(weight=1, digits=2, num_categories=2).delta(0.0)
        0.25
        >>> SubsetResponse(weight=2**62, num_categories=2, size=1).delta(0.0)
        0.5
        >>> HadamardResponse(weight=2**63, num_categories=2, field_size=2).delta(0.0)
        0.0
        """
        return delta_of(*self._laws, epsilon)


class Response(Randomizer):
    """A way to answer about categories: its probabilities give the estimates made from messages as well."""

    __slots__ = ()

    num_categories: int

    @property
    @abstractmethod
    def _shares(self) -> tuple[float, float]:
        """The probabilities p and r of the module docstring."""

    @abstractmethod
    def _support(self, messages: npt.ArrayLike) -> tuple[int, npt.NDArray[Any]]:
        """Return how many messages there are, and how many support each category; refuse what are no messages."""

    def variance(self, num_answers: int) -> float:
        """Return the variance of the estimated frequency of a category that nobody has, as a share of the answers.

        Parameters
        ----------
        num_answers : int
            n ≥ 1.

        Returns
        -------
        float
            r(1 − r)/(n(p − r)²), p and r being the probabilities that a message supports the category that was
            answered, and another one. Infinite for ε = 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `num_answers` is out of its domain.

        Examples
        --------
        >>> from ferrodp.mechanisms import HadamardResponse, SubsetResponse, UnaryResponse
        >>> ways = UnaryResponse, SubsetResponse, HadamardResponse
        >>> made = [way.calibrated(epsilon=1.0, num_categories=1024) for way in ways]
        >>> [round(each.variance(100), 4) for each in made]
        [0.0369, 0.0367, 0.0369]
        """
        answers = _validate.count("num_answers", num_answers)
        own, other = self._shares
        return math.inf if own <= other else other * (1.0 - other) / (own - other) ** 2 / answers

    @_arrays.quiet
    def estimate_frequencies(self, messages: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return unbiased estimates of how many answers of each category there were, from messages.

        Post-processing: it costs nothing. Estimates may be negative; see `variance`.

        Parameters
        ----------
        messages : ndarray
            What `release` returned: of its dtype, with rows as long as it makes them.

        Returns
        -------
        (k,) float64 ndarray
            The estimated counts.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If they are of another dtype or number of words, or are numbers or bits that no message has.
        InvalidParameter
            If ε = 0: the messages say nothing.

        Examples
        --------
        >>> from ferrodp.mechanisms import HadamardResponse, UnaryResponse
        >>> mechanism = HadamardResponse(weight=1, num_categories=3, field_size=2)
        >>> mechanism.estimate_frequencies(mechanism.release([0, 1, 1, 2] * 3000)).round(-3).tolist()
        [3000.0, 6000.0, 3000.0]
        >>> mechanism = UnaryResponse(weight=1, digits=40, num_categories=3)
        >>> mechanism.estimate_frequencies(mechanism.release([0, 1, 1, 2] * 3000)).round(-3).tolist()
        [3000.0, 6000.0, 3000.0]
        """
        own, other = self._shares
        if own <= other:
            raise _validate.out_of_domain("weight", f"{self._useful} to estimate anything", self.weight)
        size, counts = self._support(messages)
        return np.asarray((counts - size * other) / (own - other), np.float64)


class BitResponse(Response):
    """A way to answer with a row of bits, one a category: a message supports the categories whose bits are 1."""

    __slots__ = ()

    @abstractmethod
    def _draw(self, answers: npt.NDArray[np.int64], into: Rows, key: Any, threads: int | None) -> None:
        """Write the message of each answer."""

    def _support(self, messages: npt.ArrayLike) -> tuple[int, npt.NDArray[np.int64]]:
        return counted(messages, self.num_categories)

    @_arrays.quiet
    def release(
        self,
        answers: Any,
        *,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> Rows:
        """Return a row of bits for each answer, randomized independently.

        Parameters
        ----------
        answers : array or list of uint8, int32 or int64
            Categories from 0 to k − 1. Anything out of range counts as 0: whether an answer is valid is data.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. One pays for one answer of each unit, under `REPLACE_ONE`.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        (..., ⌈k/64⌉) ndarray of uint64
            Bit c mod 64 of word ⌊c/64⌋ is that of category c; those of a set's d members are 1, and bits beyond
            the categories are 0.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            If an argument is not accepted, by its type, dtype or shape alone. Nothing was drawn.
        TicketError
            If `ticket` was used or cancelled before. Nothing was drawn.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        =================================  =============================================================
        answer below 0 or above k − 1      counts as 0
        array of size 0                    an array of size 0
        =================================  =============================================================

        Examples
        --------
        >>> from ferrodp.mechanisms import SubsetResponse
        >>> SubsetResponse.calibrated(epsilon=1.0, num_categories=100).release([3, 70, 5]).shape
        (3, 2)
        """
        threads = _validate.threads(threads)

        def draw(given: npt.NDArray[np.int64], into: Rows, key: Any) -> None:
            self._draw(given, into, key, threads)

        return rows_of_bits(self, answers, source, ticket, draw)


def payable(mechanism: Any, source: NoiseSource | None, ticket: Ticket | None) -> NoiseSource:
    """Return what answers are drawn from, if who pays knows that answers are replaced."""
    payer = payer_of(source_or_default(source)) if ticket is None else ticket if isinstance(ticket, Ticket) else None
    # mutant: response-paid-for-as-if-an-answer-came
    if payer is not None and payer.neighboring_relation is not NeighboringRelation.REPLACE_ONE:
        what = "an open budget" if ticket is None else "ticket"
        raise InvalidParameter(f"{what} must be under REPLACE_ONE for answers, got {payer.neighboring_relation.name}")
    number = getattr(mechanism, "num_categories", None)
    if number is None:
        return source_of(
            mechanism, source, ticket, ("vectors", "vector", f"L2 norm at most {mechanism.l2_clip_norm:g}")
        )
    return source_of(mechanism, source, ticket, (f"answers among {number} categories", "answer", None))


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
