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
from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp._numerics.intervals import Arithmetic, Interval, float_up, point, tight
from ferrodp.errors import CalibrationError
from ferrodp.events.base import settle
from ferrodp.mechanisms import _answers

__all__ = ["SubsetResponse"]

_WORDS = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetResponse(_answers.BitResponse):
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

    _useful: ClassVar[str] = "below 2^64*(k - d)/k"

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
    def _shares(self) -> tuple[float, float]:
        """The probabilities p and r that a set has a category that is the answer, and one that is not."""
        lie, others = self.weight / _WORDS, self.num_categories - 1
        return 1.0 - lie, ((1.0 - lie) * (self.size - 1) + lie * self.size) / others

    def _draw(self, answers: npt.NDArray[np.int64], into: _answers.Rows, key: Any, threads: int | None) -> None:
        _native.subset_responses(answers, into, self.weight, self.size, self.num_categories, key, threads)
