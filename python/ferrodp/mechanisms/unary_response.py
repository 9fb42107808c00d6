r"""Answers about many categories, each as one bit a category: optimal unary encoding [WBLJ17].

*Design.* The bit of the answer's own category is 1 with probability ½, each other bit with probability :math:`q =
m/2^t`, all independent.

*Privacy.* Let x and y be two answers. Bits of other categories have the same law for both, and are independent of the
bits of x and y. These two are (1, 0) with probability :math:`(1 - q)/2` under x and :math:`q/2` under y, (0, 1) the
other way around, (1, 1) with :math:`q/2` under both, and (0, 0) with :math:`(1 - q)/2` under both. So no message's
probabilities differ by more than the factor :math:`(1 - q)/q`, whose logarithm is ε, and :math:`\delta(\varepsilon) =
\max((1 - q)/2 - e^\varepsilon q/2, 0)`.

*Exact.* A bit is 1 where a number of t random bits is below m, an integer; the own bit is the first of these t bits.
`choice::respond::unary` in the core compares 64 such numbers at a time.
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

__all__ = ["UnaryResponse"]

_MOST_DIGITS = 63
_WASTE = 2.0**-10


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryResponse(_answers.BitResponse):
    r"""Release answers about many categories as one bit a category: little variance, long messages.

    Each answer is ε-differentially private for the unit that gave it, ε = ln((1 − q)/q), in the local model: the
    neighboring relation is that one unit's answer is replaced. A unit that gives several answers spends ε for each. The
    probabilities are dyadic numbers, and the draw has exactly these.

    Parameters
    ----------
    weight : int
        m: another category's bit is 1 with probability q = m/2ᵗ; from 1 to 2ᵗ⁻¹.
    num_categories : int
        k, from 2 to 2²⁴.
    digits : int
        t, the number of random bits of each bit, from 1 to 63.

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
    It is optimal unary encoding [WBLJ17] Section 4.3; the proof is in the docstring of this module. For n answers an
    estimated frequency has the variance :math:`q(1 - q) / (n (1/2 - q)^2)`, that is :math:`4e^\varepsilon / (n
    (e^\varepsilon - 1)^2)`, plus 1/n times the category's own share. `HadamardResponse` is within a percent of it at
    ε = 1 with messages of 12 bits for 1024 categories.

    References
    ----------
    [WBLJ17] Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security
    2017.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = UnaryResponse.calibrated(epsilon=1.0, num_categories=100)
    >>> messages = mechanism.release(np.repeat([3, 70], 100_000))
    >>> estimated = mechanism.estimate_frequencies(messages)
    >>> messages.shape, bool(abs(estimated[70] - 100_000) < 6_000), round(mechanism.variance(1), 2)
    ((200000, 2), True, 3.69)
    >>> mechanism.epsilon() <= 1.0
    True
    """

    _useful: ClassVar[str] = "below half of 2^digits"

    weight: int
    num_categories: int
    digits: int

    def __post_init__(self) -> None:
        digits = _validate.count("digits", self.digits, maximum=_MOST_DIGITS)
        weight = _validate.count("weight", self.weight, maximum=2 ** (digits - 1))
        categories = _validate.count("num_categories", self.num_categories, minimum=2, maximum=_answers.MOST_CATEGORIES)
        settle(self, weight=weight, num_categories=categories, digits=digits)

    @classmethod
    def calibrated(cls, *, epsilon: Real, num_categories: int) -> UnaryResponse:
        """Return the ε-differentially private mechanism: m = 2ᵗ/(e^ε + 1), rounded up, with the fewest bits that do.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        num_categories : int
            From 2 to 2²⁴.

        Returns
        -------
        UnaryResponse
            Its weight is rounded up. Its t is the least with which this costs at most 2⁻¹⁰ of ε.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain.
        CalibrationError
            If 63 bits are too few.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.

        Examples
        --------
        >>> mechanism = UnaryResponse.calibrated(epsilon=1.0, num_categories=100)
        >>> mechanism.weight, mechanism.digits
        (551, 11)
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        _validate.count("num_categories", num_categories, minimum=2, maximum=_answers.MOST_CATEGORIES)

        def enclose(r: Arithmetic) -> Interval:
            decay = r.exp(r.ratio(-target))
            return r.div(decay, r.add(point(1), decay))

        upper = Fraction(float_up(tight(enclose, _answers.DIGITS).upper))
        for digits in range(1, _MOST_DIGITS + 1):
            # mutant: weight-of-a-bit-rounded-down
            weight = min(math.ceil(upper * 2**digits), 2 ** (digits - 1))
            if math.log1p(float(Fraction(2**digits - 2 * weight, weight))) >= float(target) * (1.0 - _WASTE):
                warn_if_weak(epsilon)
                return cls(weight=weight, num_categories=num_categories, digits=digits)
        raise CalibrationError(f"epsilon={epsilon!r} needs probabilities of more than {_MOST_DIGITS} bits")

    @property
    def _laws(self) -> tuple[Fraction, Fraction]:
        """The probabilities that only the own one of two bits is 1, and that only the other one is."""
        share = Fraction(self.weight, 2**self.digits)
        # mutant: own-bit-as-unlikely-as-others-in-the-price
        return (1 - share) / 2, share / 2

    @property
    def _shares(self) -> tuple[float, float]:
        """The probabilities that the bit of the answer is 1, and that another one is: ½ and q."""
        return 0.5, self.weight / 2**self.digits

    def _draw(self, answers: npt.NDArray[np.int64], into: _answers.Rows, key: Any, threads: int | None) -> None:
        _native.unary_responses(answers, into, self.weight, self.digits, self.num_categories, key, threads)
