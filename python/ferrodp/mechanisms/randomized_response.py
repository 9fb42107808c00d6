"""Randomized response over k categories: each unit randomizes its own answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from ferrodp import _native
from ferrodp._base import _arrays, _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, point, tight
from ferrodp._observer import drawn_in_place
from ferrodp.errors import CalibrationError, InvalidArray, InvalidArrayType, InvalidParameter
from ferrodp.events import NeighboringRelation, RandomizedResponseEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms._additive import source_of
from ferrodp.random import NoiseSource
from ferrodp.random.noise import source_or_default
from ferrodp.tickets import Ticket
from ferrodp.tickets.payer import payer_of

__all__ = ["RandomizedResponse"]

_DTYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.int32, np.int64))
_DIGITS = (40, 110)
_SMALLEST = 2.0**-64
Answer = TypeVar("Answer", np.bool_, np.uint8, np.int32, np.int64)


class ResponseOptions(TypedDict, total=False):
    """Keywords of a release of answers."""

    source: NoiseSource | None
    ticket: Ticket | None
    threads: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse:
    r"""Release answers, each of which is replaced by a uniformly random one with probability p = `noise_parameter`.

    Each answer is ε-differentially private for the unit that gave it, ε = ln(1 + k(1 − p)/p), in the local model: the
    neighboring relation is that one unit's answer is replaced. A unit that gives several answers spends ε for each. p
    is a float, hence a dyadic number, and the draw has exactly these probabilities.

    Parameters
    ----------
    noise_parameter : float
        p, from 2⁻⁶⁴ to 1. Rounded up if not exactly representable. An answer is unchanged with
        probability 1 − p + p/k.
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
    The mechanism is that of [War65]; for k categories, that of [KOV14]. Proof: category c comes out with probability
    1 − p + p/k if it is the truth, and p/k if it is not.

    References
    ----------
    [KOV14] Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", NeurIPS 2014.
    [War65] Warner, "Randomized response: a survey technique for eliminating evasive answer bias", JASA 1965.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_categories=4)
    >>> answers = mechanism.release(np.array([0, 1, 3, 3, 2]))
    >>> answers.shape, answers.dtype
    ((5,), dtype('int64'))
    >>> mechanism.epsilon() <= 1.0, mechanism.delta(1.0)
    (True, 0.0)
    """

    # mutant: mechanism-another-label-than-row
    guarantee: ClassVar[str] = "exact"

    noise_parameter: float
    num_categories: int = 2

    def __post_init__(self) -> None:
        parameter = _validate.probability("noise_parameter", self.noise_parameter)
        if parameter < _SMALLEST:
            raise _validate.out_of_domain("noise_parameter", "from 2^-64 to 1", self.noise_parameter)
        categories = _validate.count("num_categories", self.num_categories, minimum=2, maximum=2**31 - 1)
        settle(self, noise_parameter=parameter, num_categories=categories)

    @classmethod
    def calibrated(cls, *, epsilon: Real, num_categories: int = 2) -> RandomizedResponse:
        """Return the ε-differentially private mechanism with the least noise: p = k/(e^ε + k − 1), rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        num_categories : int
            From 2 to 2³¹ − 1.

        Returns
        -------
        RandomizedResponse
            Its noise parameter is rounded up.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If p would be below 2⁻⁶⁴, the smallest supported.

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
        warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> RandomizedResponseEvent:
        """What an accountant needs to know about one unit's answer."""
        return RandomizedResponseEvent(noise_parameter=self.noise_parameter, num_buckets=self.num_categories)

    @property
    def truth_probability(self) -> float:
        """Probability that an answer is unchanged, 1 − p + p/k, to the nearest float."""
        return float(1 - Fraction(self.noise_parameter) * Fraction(self.num_categories - 1, self.num_categories))

    def epsilon(self, delta: Real = 0.0) -> float:
        """Return the smallest ε ≥ 0 for which one answer is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1). Rounded down if not exactly representable.

        Returns
        -------
        float
            ln(1 + (1 − p − δ)·k/p), at least 0: the inverse of `delta`.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        allowed = 1 - Fraction(self.noise_parameter) - Fraction(_validate.delta(delta, zero=True))
        if allowed <= 0:
            return 0.0
        # mutant: truth-and-lie-told-apart-by-half
        ratio = 1 + allowed * self.num_categories / Fraction(self.noise_parameter)
        return float_up(tight(lambda r: r.ln(r.ratio(ratio)), _DIGITS).upper)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one answer is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            1 − p − (e^ε − 1)·p/k, at least 0: only the true answer is more likely than under another truth.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.
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

    @overload
    def release(self, answers: bool | np.bool_, **options: Unpack[ResponseOptions]) -> bool: ...
    @overload
    def release(self, answers: int | np.integer[Any], **options: Unpack[ResponseOptions]) -> int: ...
    @overload
    def release(self, answers: npt.NDArray[Answer], **options: Unpack[ResponseOptions]) -> npt.NDArray[Answer]: ...
    @overload
    def release(
        self, answers: npt.ArrayLike, **options: Unpack[ResponseOptions]
    ) -> npt.NDArray[np.integer[Any] | np.bool_]: ...
    @_arrays.quiet
    def release(
        self,
        answers: Any,
        *,
        source: NoiseSource | None = None,
        ticket: Ticket | None = None,
        threads: int | None = None,
    ) -> Any:
        """Return the answers, each randomized independently.

        Parameters
        ----------
        answers : int, bool, or array of bool, uint8, int32 or int64
            Categories from 0 to k − 1; for k = 2 also truth values. Never written to. Anything out of range counts as
            0: whether an answer is valid is data.
        source : NoiseSource, optional
            None, or a seeded source for tests.
        ticket : Ticket, optional
            What pays for the release: see `ferrodp.tickets`. It is armed after all checks, right before the first
            random bit, and counts as spent from then on. One pays for one answer of each unit. One under
            `REPLACE_SPECIAL` is refused, like an open budget: a null record's answer is uniformly random there, which
            no answer stands for here.
        threads : int, optional
            By default the library's choice; the result does not depend on it.

        Returns
        -------
        int, bool or ndarray
            Of the type, shape and dtype of `answers`; lists of integers give int64.

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
        more than 256 categories, uint8    refused: a random answer might not fit
        array of size 0                    an array of size 0
        =================================  =============================================================
        """
        _check_relation(source, ticket)
        what = f"answers among {self.num_categories} categories"
        # mutant: randomized-response-forgets-ticket
        drawn_from = source_of(self, source, ticket, (what, "answer", None))
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

        Returns
        -------
        (k,) float64 ndarray
            The estimated counts.

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


def _check_relation(source: object, ticket: object) -> None:
    """Refuse to release answers at a price that supposes null ones."""
    payer = payer_of(source_or_default(source)) if ticket is None else ticket if isinstance(ticket, Ticket) else None
    # mutant: null-answer-is-the-first-category
    if payer is not None and payer.neighboring_relation is NeighboringRelation.REPLACE_SPECIAL:
        raise InvalidParameter(
            f"{'an open budget' if ticket is None else 'ticket'} must not be under REPLACE_SPECIAL for randomized "
            "response: a null record gives a uniformly random answer there, and no answer stands for one; use "
            "REPLACE_ONE"
        )
