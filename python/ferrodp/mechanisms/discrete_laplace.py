"""The discrete Laplace mechanism.

Why a vector is no worse than one integer that moves by the whole L1 distance. Write r = e^(−1/b), and H_a(z) for δ at
z = e^ε where one coordinate moves by a. Its loss is (a − 2i)/b with i from 0 to a, so H_a is linear in z but for kinks
at z = r^−(a−2j), and there H_a = 1 − r^j: sum up 1/(1+r), r^i(1−r)/(1+r) for 0 < i < a, and r^a/(1+r).

Let two coordinates move by a ≤ c. Their curve has its kinks where H_{a+c} has them, z = r^−(a+c−2j). For j up to
(a + c)/2, so j ≤ c, it is there the sum of P[i]·(1 − r^(j−i)) over i < j, i ≤ a, which is 1 − r^j·f with
f = (2 + (m − 1)(1 − r))/(1 + r) ≥ 1, m = min(j, a): no more than 1 − r^j. Larger j follow, as for both curves
H(1/z) = 1 − 1/z + H(z)/z; and between kinks both are linear. So one coordinate that moves by a + c dominates, and
domination survives one more independent coordinate (Zhu, Dong, Wang, "Optimal accounting of differential privacy via
characteristic function", AISTATS 2022, Theorem 10): coordinates are merged one by one. Of moves by at most Δ in one
coordinate that by Δ is the worst, as the law is log-concave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._base._weak import warn_if_weak
from ferrodp.accounting.curves.discrete_laplace import discrete_laplace_delta, discrete_laplace_epsilon
from ferrodp.accounting.curves.hockey_stick import SMALLEST_DELTA
from ferrodp.events import DiscreteLaplaceEvent
from ferrodp.events.base import settle
from ferrodp.mechanisms._additive import IntegerMechanism, Law, discrete_scale

__all__ = ["DiscreteLaplaceMechanism"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplaceMechanism(IntegerMechanism):
    r"""Release integers with discrete Laplace (two-sided geometric) noise, weights :math:`e^{-|n|/b}`.

    A release is purely ε-differentially private, ε = `l1_sensitivity`/`scale`, for whatever unit of privacy and
    neighboring relation `l1_sensitivity` was stated in: a record or a client, added or removed or replaced. The
    distribution of the output is exactly the stated one, over all integers.

    Parameters
    ----------
    scale : float or Fraction
        b, in units of the integers; from 0.01 to 2⁵⁷. Taken exactly: 0.1 is the float, `Fraction(1, 10)` one tenth.
    l1_sensitivity : int
        Δ, the largest L1 distance between the integers of neighboring datasets; from 1 to 2⁵³. A bound on the L2
        distance is not enough.

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
    The mechanism is that of [GRS09]: between neighbors no probability changes by more than a factor of
    :math:`e^{\Delta/b}`. At δ > 0 the curve is that of the discrete law itself; the module docstring proves it for
    vectors.

    References
    ----------
    [GRS09] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = DiscreteLaplaceMechanism.calibrated(epsilon=0.5)
    >>> mechanism.scale, mechanism.epsilon(), mechanism.delta(0.5)
    (2.0, 0.5, 0.0)
    >>> type(mechanism.release(1234))
    <class 'int'>
    >>> mechanism.release(np.array([10, 0, 7], dtype=np.int32)).dtype
    dtype('int32')
    """

    _law: ClassVar[Law] = "laplace"

    l1_sensitivity: int = 1

    def __post_init__(self) -> None:
        scale = discrete_scale(self.scale)
        sensitivity = _validate.count("l1_sensitivity", self.l1_sensitivity, maximum=2**53)
        settle(self, scale=scale, l1_sensitivity=sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Real, l1_sensitivity: int = 1) -> DiscreteLaplaceMechanism:
        """Return the mechanism with the least noise that is purely ε-differentially private: b = Δ/ε, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, > 0. `Fraction` and `Decimal` are taken exactly.
        l1_sensitivity : int
            Largest L1 distance between the integers of neighboring datasets; from 1 to 2⁵³.

        Returns
        -------
        DiscreteLaplaceMechanism
            Its scale is rounded up; one below 0.01 becomes 0.01.

        Raises
        ------
        InvalidParameter, InvalidType
            If a parameter is out of its domain, or the scale would be above 2⁵⁷.

        Warns
        -----
        WeakPrivacyWarning
            If ε > 20.
        """
        _validate.positive("epsilon", epsilon)
        target = _validate.exact("epsilon", epsilon)
        sensitivity = _validate.count("l1_sensitivity", l1_sensitivity, maximum=2**53)
        # mutant: scale-of-two-sided-geometric-noise-rounded
        scale = max(_validate.rounded(sensitivity / target, "up"), 0.01)
        if scale > 2.0**57:
            rule = f"at least {sensitivity}/2^57 for l1_sensitivity={sensitivity}"
            raise _validate.out_of_domain("epsilon", rule, epsilon)
        mechanism = cls(scale=scale, l1_sensitivity=sensitivity)
        warn_if_weak(epsilon)
        return mechanism

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """What an accountant needs to know about one release; its scale is rounded down."""
        return DiscreteLaplaceEvent(scale=self.scale, l1_sensitivity=self.l1_sensitivity)  # type: ignore[arg-type]

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise, 1/(√2·sinh(1/2b)), within 1e-14 relatively."""
        return 1.0 / (math.sqrt(2.0) * math.sinh(0.5 / float(self.scale)))

    @property
    def _pure_epsilon(self) -> Fraction:
        # mutant: l1-distance-taken-for-one
        return self.l1_sensitivity / Fraction(self.scale)

    def epsilon(self, delta: Real = 0.0) -> float:
        """Return the smallest ε ≥ 0 for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1). One below 1e-300 counts as 0, which is safe.

        Returns
        -------
        float
            An upper bound on the exact ε.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is out of its domain.
        """
        checked = _validate.delta(delta, zero=True)
        pure = _validate.rounded(self._pure_epsilon, "up")
        if checked < SMALLEST_DELTA:
            return pure
        found = discrete_laplace_epsilon(delta=checked, scale=self.scale, l1_sensitivity=self.l1_sensitivity)
        return min(found, pure)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which one release is (ε, δ)-differentially private, rounded up.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            An upper bound on the exact δ.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is out of its domain.
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        if Fraction(checked) >= self._pure_epsilon:
            return 0.0
        return discrete_laplace_delta(epsilon=checked, scale=self.scale, l1_sensitivity=self.l1_sensitivity)
