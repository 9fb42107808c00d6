r"""Answers about many categories, each as a set of d of them: subset selection [YB18], [WHNXLWY16].

*Design.* The set has the answer's own category with probability p, and else not; the others in it are a uniform
subset of the k − 1 other categories.

*Privacy.* A set with the own category has probability :math:`p/\binom{k-1}{d-1}`, another one
:math:`(1-p)/\binom{k-1}{d}`, whatever the answer. Their ratio is :math:`e^\varepsilon = p(k-d)/((1-p)d)`. Of two
answers x and y, the sets with x and without y have probability :math:`p(k-d)/(k-1)` under x and :math:`(1-p)d/(k-1)`
under y, those with y and without x the other way around, and all others have the same under both. So
:math:`\delta(\varepsilon) = \max(p(k-d) - e^\varepsilon(1-p)d, 0)/(k-1)`.

*Exact.* 1 − p = m/2⁶⁴ with a whole number m, which a word of 64 random bits is compared with. The subset is drawn by
Floyd's algorithm from unbiased integers: `choice::respond::sets` in the core.
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
from ferrodp.errors import CalibrationError
from ferrodp.events import EpsilonDeltaEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms import _answers
from ferrodp.random import NoiseSource
from ferrodp.tickets import Ticket

__all__ = ["SubsetResponse"]

_WORDS = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetResponse:
    r"""Release answers about categories, each as a set of them: the least variance for any number of categories.

    Each answer is ε-differentially private for the unit that gave it, ε = ln(p(k − d)/((1 − p)d)), in the local
    model: the neighboring relation is that one unit's answer is replaced. A unit that gives several answers spends ε
    for each. The probabilities are rationals, and the draw has exactly these.

    Parameters
    ----------
    weight : int
        m, the number of words of 64 bits for which the own category is left out: p = 1 − m/2⁶⁴; from 1 to 2⁶⁴ − 1.
    num_categories : int
        k, from 2 to 2²⁴.
    size : int
        d, the number of categories in a set, from 1 to k − 1. 1 is `RandomizedResponse` with other bits.

    Attributes
    ----------
    guarantee : str
        "exact": the law of the output is proven to be the stated one.

    Raises
    ------
    InvalidParameter, InvalidType
        If a parameter is out of its domain, or categories would be likelier if they are not the answer.

    Notes
    -----
    The proof is in the docstring of this module. With r the probability that a set has a category that is not the
    answer, an estimated frequency of n answers has the variance :math:`r(1 - r)/(n(p - r)^2)`, and :math:`(p(1 - p) -
    r(1 - r))/(n(p - r)^2)` more times the category's own share. No ε-locally private protocol has a smaller total for
    the uniform distribution [YB18] Section III. For many categories `HadamardResponse` and `UnaryResponse` come
    within a percent of it, and draw faster.

    References
    ----------
    [WHNXLWY16] Wang, Huang, Nie, Xu, Li, Wang, Yang, "Mutual information optimally local private discrete distribution
    estimation", arXiv:1607.08025.
    [YB18] Ye, Barg, "Optimal schemes for discrete distribution estimation under locally differential privacy", IEEE
    Trans. Inf. Theory 64, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = SubsetResponse.calibrated(epsilon=1.0, num_categories=10)
    >>> messages = mechanism.release(np.repeat([3, 7], 100_000))
    >>> estimated = mechanism.estimate_frequencies(messages)
    >>> mechanism.size, bool(abs(estimated[7] - 100_000) < 6_000), round(mechanism.variance(1), 2)
    (2, True, 2.82)
    >>> mechanism.epsilon() <= 1.0
    True
    """

    guarantee: ClassVar[str] = "exact"

    weight: int
    num_categories: int
    size: int

    def __post_init__(self) -> None:
        categories = _validate.count("num_categories", self.num_categories, minimum=2, maximum=_answers.MOST_CATEGORIES)
        size = _validate.count("size", self.size, maximum=categories - 1)
        # p ≥ d/k: a category is not likelier if it is not the answer
        weight = _validate.count("weight", self.weight, maximum=_WORDS * (categories - size) // categories)
        settle(self, weight=weight, num_categories=categories, size=size)

    @classmethod
    def calibrated(cls, *, epsilon: Real, num_categories: int, size: int | None = None) -> SubsetResponse:
        """Return the ε-differentially private mechanism with the least variance: d next to k/(e^ε + 1).

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        num_categories : int
            From 2 to 2²⁴.
        size : int, optional
            d; by default the one with the smallest variance.

        Returns
        -------
        SubsetResponse
            Its weight, 2⁶⁴·(k − d)/(d·e^ε + k − d), is rounded up.

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
        >>> SubsetResponse.calibrated(epsilon=1.0, num_categories=1024).size
        275
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        _validate.count("num_categories", num_categories, minimum=2, maximum=_answers.MOST_CATEGORIES)
        best = math.floor(num_categories / (math.exp(min(float(target), 700.0)) + 1.0))
        made = []
        for each in (
            sorted({min(max(best + more, 1), num_categories - 1) for more in (0, 1)}) if size is None else (size,)
        ):
            _validate.count("size", each, maximum=num_categories - 1)

            def enclose(r: Arithmetic, size: int = each) -> Interval:
                others = r.mul(point(num_categories - size), r.exp(r.ratio(-target)))
                return r.div(others, r.add(point(size), others))

            most = _WORDS * (num_categories - each) // num_categories
            # mutant: weight-of-a-set-rounded-down
            weight = min(math.ceil(Fraction(float_up(tight(enclose, _answers.DIGITS).upper)) * _WORDS), most)
            if weight < 2**16:
                raise CalibrationError(f"epsilon={epsilon!r} asks for less noise than the smallest supported")
            made.append(cls(weight=weight, num_categories=num_categories, size=each))
        warn_if_weak(epsilon)
        return min(made, key=lambda each: each.variance(1))

    @property
    def _laws(self) -> tuple[Fraction, Fraction]:
        """The probabilities of sets with the own one of two categories alone, and with the other one alone."""
        lie = Fraction(self.weight, _WORDS)
        k, d = self.num_categories, self.size
        # mutant: sets-of-two-answers-of-another-number
        return (1 - lie) * Fraction(k - d, k - 1), lie * Fraction(d, k - 1)

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
            ln((p(k − d) − δ(k − 1))/((1 − p)d)), at least 0: the inverse of `delta`.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.

        Examples
        --------
        >>> SubsetResponse(weight=2**63, num_categories=4, size=2).epsilon()
        0.0
        """
        return _answers.epsilon_of(*self._laws, delta)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one answer is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            (p(k − d) − e^ε(1 − p)d)/(k − 1), at least 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.

        Examples
        --------
        >>> SubsetResponse(weight=2**62, num_categories=2, size=1).delta(0.0)
        0.5
        """
        return _answers.delta_of(*self._laws, epsilon)

    @property
    def _shares(self) -> tuple[float, float]:
        """The probabilities p and r that a set has a category that is the answer, and one that is not."""
        lie, others = self.weight / _WORDS, self.num_categories - 1
        return 1.0 - lie, ((1.0 - lie) * (self.size - 1) + lie * self.size) / others

    def variance(self, num_answers: int) -> float:
        """Return the variance of the estimated frequency of a category that nobody has, as a share of the answers.

        Parameters
        ----------
        num_answers : int
            n ≥ 1.

        Returns
        -------
        float
            Infinite for ε = 0.

        Raises
        ------
        InvalidParameter, InvalidType
            If `num_answers` is out of its domain.

        Examples
        --------
        >>> mechanism = SubsetResponse.calibrated(epsilon=1.0, num_categories=1024)
        >>> round(mechanism.variance(100), 4)
        0.0367
        """
        answers = _validate.count("num_answers", num_answers)
        truth, other = self._shares
        return math.inf if truth <= other else other * (1.0 - other) / (truth - other) ** 2 / answers

    @_arrays.quiet
    def release(
        self,
        answers: Any,
        *,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> npt.NDArray[np.uint64]:
        """Return a set for each answer, as bits by category, randomized independently.

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
            Bit c mod 64 of word ⌊c/64⌋ is that of category c: d of them are 1. Bits beyond the categories are 0.

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
        >>> SubsetResponse.calibrated(epsilon=1.0, num_categories=100).release([3, 70, 5]).shape
        (3, 2)
        """
        threads = _validate.threads(threads)

        def draw(given: npt.NDArray[np.int64], into: npt.NDArray[np.uint64], key: Any) -> None:
            _native.subset_responses(given, into, self.weight, self.size, self.num_categories, key, threads)

        return _answers.rows_of_bits(self, answers, source, ticket, draw)

    @_arrays.quiet
    def estimate_frequencies(self, messages: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return unbiased estimates of how many answers of each category there were, from messages.

        Post-processing: it costs nothing. Estimates may be negative; see `variance`.

        Parameters
        ----------
        messages : (..., ⌈k/64⌉) array of uint64
            What `release` returned.

        Returns
        -------
        (k,) float64 ndarray
            The estimated counts.

        Raises
        ------
        InvalidArray, InvalidArrayType
            If they are not of uint64 or of another number of words, or have bits beyond the categories.
        InvalidParameter
            If ε = 0: the messages say nothing.

        Examples
        --------
        >>> mechanism = SubsetResponse(weight=1, size=1, num_categories=3)
        >>> mechanism.estimate_frequencies(mechanism.release([0, 1, 1, 2] * 3000)).round(-3).tolist()
        [3000.0, 6000.0, 3000.0]
        """
        truth, other = self._shares
        if truth <= other:
            raise _validate.out_of_domain("weight", "below 2^64*(k - d)/k to estimate anything", self.weight)
        size, counts = _answers.counted(messages, self.num_categories)
        return np.asarray((counts - size * other) / (truth - other), np.float64)
