r"""Answers about many categories, each as one number: the local model with the variance of one bit a category.

*Design.* F is the field with q = 2 or 4 elements, t the least number with :math:`q^{t-1} \ge k`. Category x is the
vector :math:`v_x = (1, w_x) \in F^t`, w the digits of x. A message is a vector u of :math:`F^t`. Its product with
:math:`v_x` is 0 with probability A and each other element of F with probability P, and u is uniform among the vectors
with that product. There are :math:`q^{t-1}` such vectors for each product, so every message has one of two
probabilities, and their ratio is A/P. For another category y the vectors :math:`v_x, v_y` are linearly independent,
so the product with :math:`v_y` is uniform: 0 with probability 1/q.

*Exact.* P = m/2⁶⁴ with a whole number m, and A = 1 − (q − 1)P: the product is chosen by comparing a word of 64 random
bits with whole numbers, and u by t·log₂ q further bits of which the first digit is then set to what the product
requires: `choice::respond::coded` in the core.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, point, tight
from ferrodp._observer import drawn_in_place
from ferrodp.errors import CalibrationError, InvalidArray
from ferrodp.events.base import settle
from ferrodp.mechanisms import _answers
from ferrodp.random import NoiseSource
from ferrodp.tickets import Ticket

__all__ = ["HadamardResponse"]

_WORDS = 2**64
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardResponse(_answers.Response):
    r"""Release answers about many categories, each as one number that tells categories apart by a factor e^ε at most.

    Each answer is ε-differentially private for the unit that gave it, ε = ln(A/P), in the local model: the neighboring
    relation is that one unit's answer is replaced. A unit that gives several answers spends ε for each. The
    probabilities are rationals, and the draw has exactly these.

    Parameters
    ----------
    weight : int
        m, the number of words of 64 bits for each product other than 0: P = m/2⁶⁴; from 1 to 2⁶⁴/q.
    num_categories : int
        k, from 2 to 2²⁴.
    field_size : {2, 4}
        q, the number of elements of the field. 2 is for small ε.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain.

    Notes
    -----
    With q = 2 it is the response of [ASZ19] Section 3, with q = 4 the affine form of [FNNT22] Section 3; the proof is
    in the docstring of this module. For n answers an estimated frequency has the variance
    :math:`(1 - 1/q)/q / (n (A - 1/q)^2)`, and less than 1/n more for what the category itself has. At ε = 1 and q = 4
    the first is 3.69/n, where optimal unary encoding has 3.68/n [WBLJ17]; `RandomizedResponse` has (k + 0.7)/2.95n.

    References
    ----------
    [ASZ19] Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately, efficiently, and with little
    communication", AISTATS 2019.
    [FNNT22] Feldman, Nelson, Nguyen, Talwar, "Private frequency estimation via projective geometry", ICML 2022.
    [WBLJ17] Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security
    2017.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = HadamardResponse.calibrated(epsilon=1.0, num_categories=1024)
    >>> messages = mechanism.release(np.repeat([3, 700], 100_000))
    >>> estimated = mechanism.estimate_frequencies(messages)
    >>> messages.shape, bool(abs(estimated[700] - 100_000) < 6_000), round(mechanism.variance(1), 2)
    ((200000,), True, 3.69)
    >>> mechanism.epsilon() <= 1.0, mechanism.num_messages
    (True, 4096)
    """

    _useful: ClassVar[str] = "below 2^64/q"

    weight: int
    num_categories: int
    field_size: int = 4

    def __post_init__(self) -> None:
        size = _validate.count("field_size", self.field_size, minimum=2, maximum=4)
        if size == 3:
            raise _validate.out_of_domain("field_size", "2 or 4", self.field_size)
        weight = _validate.count("weight", self.weight, maximum=_WORDS // size)
        categories = _validate.count("num_categories", self.num_categories, minimum=2, maximum=_answers.MOST_CATEGORIES)
        settle(self, weight=weight, num_categories=categories, field_size=size)

    @classmethod
    def calibrated(cls, *, epsilon: Real, num_categories: int, field_size: int | None = None) -> HadamardResponse:
        """Return the ε-differentially private mechanism with the least variance: m = 2⁶⁴/(e^ε + q − 1), rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        num_categories : int
            From 2 to 2²⁴.
        field_size : {2, 4}, optional
            By default the one with the smaller variance.

        Returns
        -------
        HadamardResponse
            Its weight is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If m would be below 2¹⁶, where rounding it would cost much of ε.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.

        Examples
        --------
        >>> HadamardResponse.calibrated(epsilon=0.3, num_categories=100).field_size
        2
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        _validate.count("num_categories", num_categories, minimum=2, maximum=_answers.MOST_CATEGORIES)
        made = []
        for size in (2, 4) if field_size is None else (field_size,):
            _validate.count("field_size", size, minimum=2, maximum=4)

            def enclose(r: Arithmetic, size: int = size) -> Interval:
                decay = r.exp(r.ratio(-target))
                return r.div(decay, r.add(point(1), r.mul(point(size - 1), decay)))

            # mutant: weight-of-a-response-rounded-down
            weight = min(math.ceil(Fraction(float_up(tight(enclose, _answers.DIGITS).upper)) * _WORDS), _WORDS // size)
            if weight < 2**16:
                raise CalibrationError(f"epsilon={epsilon!r} asks for less noise than the smallest supported")
            made.append(cls(weight=weight, num_categories=num_categories, field_size=size))
        warn_if_weak(epsilon)
        return min(made, key=lambda each: each.variance(1))

    @property
    def _digits(self) -> int:
        """The length t of vectors."""
        bits = self.field_size.bit_length() - 1
        return 1 + -(-(self.num_categories - 1).bit_length() // bits)

    @property
    def num_messages(self) -> int:
        """How many different messages there are, q^t: they are numbers from 0 to one less."""
        return int(self.field_size**self._digits)

    @property
    def _laws(self) -> tuple[Fraction, Fraction]:
        """The probabilities that the product is 0 for the own one of two answers alone, and for the other alone."""
        share, apart = Fraction(self.weight, _WORDS), Fraction(self.field_size - 1, self.field_size)
        return (1 - (self.field_size - 1) * share) * apart, share * apart

    @property
    def _shares(self) -> tuple[float, float]:
        """The probabilities that the product is 0 for the category that was answered, and for another: A and 1/q."""
        return float(1 - Fraction((self.field_size - 1) * self.weight, _WORDS)), 1.0 / self.field_size

    @_arrays.quiet
    def release(
        self,
        answers: Any,
        *,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> npt.NDArray[np.int64]:
        """Return a message for each answer, randomized independently.

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
        ndarray of int64
            Of the shape of `answers`, from 0 to `num_messages` − 1.

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
        """
        drawn_from = _answers.payable(self, source, ticket)
        threads = _validate.threads(threads)
        array = _arrays.as_integer_array(answers, "answers", dtypes=_answers.DTYPES)
        _validate.fits_in_memory("answers", 8 * array.size)
        out = np.array(array, np.int64, order="C", copy=True)

        def draw(into: npt.NDArray[Any]) -> None:
            key = drawn_from._key()
            _native.code_responses(into, self.weight, self.num_categories, self.field_size, key, threads)

        drawn_in_place(out, draw, self, "L0", 1)  # one unit, one answer
        return out

    def _vectors(self, categories: npt.NDArray[np.int64]) -> tuple[Words, Words | None]:
        """Return the vectors of categories as bits of their digits: the first digit, the highest bit, is 1."""
        rest = self._digits - 1
        mask, first = (1 << rest) - 1, 1 << rest
        lower = ((categories & mask) | first).astype(np.uint32)
        return lower, (categories >> rest).astype(np.uint32) if self.field_size == 4 else None

    def _support(self, messages: npt.ArrayLike) -> tuple[int, npt.NDArray[np.float64]]:
        """Return how many messages there are, and how many of them have product 0 with each category's vector."""
        seen = np.asarray(messages).ravel()
        if seen.size and (seen.dtype.kind not in "iu" or not 0 <= seen.min() <= seen.max() < self.num_messages):
            raise InvalidArray(f"messages must be integers from 0 to {self.num_messages - 1}")
        counts = np.bincount(seen.astype(np.int64), minlength=self.num_messages)
        sums = _transform(counts)
        lower, upper = self._vectors(np.arange(self.num_categories))
        total = sums[lower.astype(np.int64)] if upper is None else _characters(sums, lower, upper, self._digits)
        # the sum over all characters of the product is q where it is 0, and 0 elsewhere
        return seen.size, (seen.size + total) / self.field_size


def _transform(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sums of counts with the signs of all characters of vectors of bits: exact integers."""
    found = counts.astype(np.int64).reshape(1, -1)
    while found.shape[1] > 1:
        half = found.shape[1] // 2
        found = np.concatenate([found[:, :half] + found[:, half:], found[:, :half] - found[:, half:]], axis=1).reshape(
            -1, half
        )
    return found.reshape(-1)


def _characters(sums: npt.NDArray[np.int64], lower: Words, upper: Words, digits: int) -> npt.NDArray[np.int64]:
    """Return for each vector v the sum over the three nontrivial characters χ of Σ counts[u]·χ(⟨u, v⟩).

    They are the parities of either bit of the product, and of their sum; each is one character of the bits of u.
    """
    low, high = lower.astype(np.int64), upper.astype(np.int64)
    # of the bits (u₁, u₀): the lower bit of the product takes (v₁, v₀), the higher one (v₀ + v₁, v₁)
    masks = ((high << digits) | low, ((low ^ high) << digits) | high, (low << digits) | (low ^ high))
    found: npt.NDArray[np.int64] = sums[masks[0]] + sums[masks[1]] + sums[masks[2]]
    return found
