"""Randomized response over k categories: each unit randomizes its own answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ferrodp import _arrays, _native, _validate
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, point, tight
from ferrodp._observer import drawn_in_place
from ferrodp._validate import Real
from ferrodp.errors import CalibrationError, InvalidArray, InvalidArrayType
from ferrodp.events import RandomizedResponseEvent
from ferrodp.mechanisms import _additive
from ferrodp.random import NoiseSource
from ferrodp.tickets import Ticket

__all__ = ["RandomizedResponse"]

_DTYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.int32, np.int64))
_DIGITS = (40, 110)
_SMALLEST = 2.0**-64


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse:
    r"""Release answers, each of which is replaced by a uniformly random one with probability p = `noise_parameter`.

    Each answer is ε-differentially private for the unit that gave it, ε = ln(1 + k(1 − p)/p), whoever sees it and
    whatever else is known: the relation is that one unit's answer is replaced. A unit that gives several answers spends
    ε for each. p is a float, so a dyadic number, and the draw has exactly these probabilities.

    Parameters
    ----------
    noise_parameter : float
        p, from 2⁻⁶⁴ to 1. Rounded up if it is no float. Truth is told with probability 1 − p + p/k.
    num_categories : int
        k, from 2 to 2³¹ − 1; 2 for yes and no.

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
    Warner, "Randomized response: a survey technique for eliminating evasive answer bias", JASA 1965; for k categories:
    Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", NeurIPS 2014. The proof: category c
    comes out with probability 1 − p + p/k if it is the truth, and p/k if it is not.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_categories=4)
    >>> answers = mechanism.release(np.array([0, 1, 3, 3, 2]))
    >>> answers.shape, answers.dtype
    ((5,), dtype('int64'))
    """

    guarantee: ClassVar[str] = "exact"

    noise_parameter: float
    num_categories: int = 2

    def __post_init__(self) -> None:
        parameter = _validate.probability("noise_parameter", self.noise_parameter)
        if parameter < _SMALLEST:
            raise _validate.out_of_domain("noise_parameter", "from 2^-64 to 1", self.noise_parameter)
        categories = _validate.count("num_categories", self.num_categories, minimum=2, maximum=2**31 - 1)
        object.__setattr__(self, "noise_parameter", parameter)
        object.__setattr__(self, "num_categories", categories)

    @classmethod
    def calibrated(cls, *, epsilon: Real, num_categories: int = 2) -> RandomizedResponse:
        """Return the mechanism that lies as little as ε-differential privacy allows: p = k/(e^ε + k − 1), rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        num_categories : int
            From 2 to 2³¹ − 1.

        Raises
        ------
        CalibrationError
            If p would be below 2⁻⁶⁴: no noise to speak of.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        categories = _validate.count("num_categories", num_categories, minimum=2, maximum=2**31 - 1)

        def enclose(r: Arithmetic) -> Interval:
            # k·e^−ε/(1 + (k − 1)·e^−ε)
            decay = r.exp(r.ratio(-target))
            return r.div(r.mul(point(categories), decay), r.add(point(1), r.mul(point(categories - 1), decay)))

        # mutant: noise-of-answer-rounded-down
        parameter = min(float_up(tight(enclose, _DIGITS).upper), 1.0)
        if parameter < _SMALLEST:
            raise CalibrationError(f"epsilon={epsilon!r} asks for less noise than the smallest supported, 2^-64")
        mechanism = cls(noise_parameter=parameter, num_categories=categories)
        _additive.warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> RandomizedResponseEvent:
        """What an accountant needs to know about one unit's answer."""
        return RandomizedResponseEvent(noise_parameter=self.noise_parameter, num_buckets=self.num_categories)

    @property
    def truth_probability(self) -> float:
        """Chance that an answer leaves as it came, 1 − p + p/k, to the nearest float."""
        return float(1 - Fraction(self.noise_parameter) * Fraction(self.num_categories - 1, self.num_categories))

    def epsilon(self, delta: Real = 0.0) -> float:
        """Return the smallest ε ≥ 0 for which one answer is (ε, δ)-differentially private, rounded up.

        It is ln(1 + (1 − p − δ)·k/p), at least 0: the inverse of `delta`.
        """
        allowed = 1 - Fraction(self.noise_parameter) - Fraction(_validate.delta(delta, zero=True))
        if allowed <= 0:
            return 0.0
        # mutant: truth-and-lie-told-apart-by-half
        ratio = 1 + allowed * self.num_categories / Fraction(self.noise_parameter)
        return float_up(tight(lambda r: r.ln(r.ratio(ratio)), _DIGITS).upper)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one answer is (ε, δ)-differentially private, rounded up; `epsilon` ≥ 0.

        It is 1 − p − (e^ε − 1)·p/k, at least 0: only the true answer is likelier than under another truth.
        """
        at = Fraction(_validate.non_negative("epsilon", epsilon, toward="down"))
        share = Fraction(self.noise_parameter) / self.num_categories
        if at > 800 or not self.noise_parameter < 1.0:
            return 0.0  # e^800·2⁻⁶⁴/2³¹ > 1
        if not at:
            return _validate.rounded(1 - Fraction(self.noise_parameter), "up")

        def enclose(r: Arithmetic) -> Interval:
            lost = r.mul(r.sub(r.exp(r.ratio(at)), point(1)), r.ratio(share))
            return r.sub(r.ratio(1 - Fraction(self.noise_parameter)), lost)

        return max(float_up(tight(enclose, _DIGITS).upper), 0.0)

    @_arrays.quiet
    def release(
        self,
        answers: Any,
        *,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> npt.NDArray[Any] | int | bool:
        """Return the answers, each randomized independently.

        Parameters
        ----------
        answers : int, bool, or array of bool, uint8, int32 or int64
            Categories from 0 to k − 1; for k = 2 also truth values. Never written to. Anything out of range counts as
            0: whether an answer is valid is data.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after every check, right before the first
            random bit, and spent from then on, whatever happens. One pays for one answer of each unit.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        int, bool or ndarray
            Of the type, shape and dtype of `answers`; lists of integers give int64.

        Raises
        ------
        InvalidArray, InvalidArrayType, InvalidParameter, InvalidType
            Before anything is drawn, by type, dtype and shape alone.
        TicketError
            If `ticket` was used or cancelled before: before anything is drawn or written.
        EntropyError
            If the operating system gives no key.

        Notes
        -----
        =================================  =============================================================
        answer below 0 or above k − 1      counts as 0
        more than 256 categories, uint8    refused: a random answer might not fit
        array of size 0                    an array of size 0
        =================================  =============================================================
        """
        # mutant: randomized-response-forgets-ticket
        drawn_from = _additive.source_of(self, source, ticket)
        threads = _validate.threads(threads)
        scalar = isinstance(answers, (bool, int, np.bool_, np.integer))
        array = np.array(answers) if isinstance(answers, (bool, np.bool_)) else answers
        boolean = isinstance(array, np.ndarray) and array.dtype == np.bool_
        if boolean and self.num_categories != 2:
            raise InvalidArray(f"answers must be integers for {self.num_categories} categories, got truth values")
        array = _arrays.as_integer_array(array.view(np.uint8) if boolean else array, "answers", dtypes=_DTYPES)
        if self.num_categories > 256 and array.dtype == np.uint8:
            raise InvalidArray(f"answers must have a dtype that holds {self.num_categories} categories, got uint8")
        _validate.fits_in_memory("answers", array.nbytes)
        out = np.array(array, order="C", copy=True)

        def draw(into: npt.NDArray[Any]) -> None:
            _native.randomize_responses(into, self.noise_parameter, self.num_categories, drawn_from._key(), threads)

        drawn_in_place(out, draw, self, "L0", 1)  # one unit, one answer
        if scalar:
            return bool(out) if boolean else int(out)
        return out.view(np.bool_) if boolean else out

    @_arrays.quiet
    def estimate_frequencies(self, answers: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return unbiased estimates of how many answers of each category there were, from randomized ones.

        Post-processing: it costs nothing. Estimates may be negative; their standard deviation is that of the randomized
        counts over 1 − p.

        Parameters
        ----------
        answers : array of integers or truth values
            What `release` returned.

        Raises
        ------
        InvalidArrayType, InvalidArray
            If they are neither, or out of the range of the categories.
        InvalidParameter
            If p = 1: the answers say nothing.

        Examples
        --------
        >>> RandomizedResponse(noise_parameter=0.5, num_categories=2).estimate_frequencies([0, 0, 0, 1]).tolist()
        [4.0, 0.0]
        """
        if self.noise_parameter == 1.0:
            raise _validate.out_of_domain("noise_parameter", "below 1 to estimate anything", self.noise_parameter)
        seen = np.asarray(answers).ravel()
        if seen.size and seen.dtype.kind not in "biu":
            raise InvalidArrayType(f"answers must be integers or truth values, got {seen.dtype}")
        if seen.size and not 0 <= seen.min() <= seen.max() < self.num_categories:
            raise InvalidArray(f"answers must be from 0 to {self.num_categories - 1}")
        _validate.fits_in_memory("num_categories", 24 * self.num_categories)
        counts = np.bincount(seen.astype(np.int64), minlength=self.num_categories)
        share = self.noise_parameter / self.num_categories
        return np.asarray((counts - seen.size * share) / (1.0 - self.noise_parameter))
