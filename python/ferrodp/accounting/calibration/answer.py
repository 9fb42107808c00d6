"""What a calibration returns: a number that is proven to be enough, and how much better it could at most be."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting.explanation import Explanation

Cost: TypeAlias = tuple[Bounds, Bounds, Explanation]


class _Calibrated:
    """What both kinds of answers hold besides their number."""

    limit: Any
    gap: float
    epsilon_bounds: Bounds
    delta_bounds: Bounds
    _explanation: Explanation

    def __new__(cls, value: float, limit: float | None, gap: float, cost: Cost) -> Self:
        """Return the number with its certificate."""
        self = super().__new__(cls, value)  # type: ignore[call-arg]  # float or int, which come next
        self.limit, self.gap = limit, gap
        self.epsilon_bounds, self.delta_bounds, self._explanation = cost
        return self

    def explain(self) -> Explanation:
        """Return how the cost of this number was bounded.

        Returns
        -------
        Explanation
            Of ε at the target's δ.
        """
        return self._explanation

    def __reduce__(self) -> tuple[Any, ...]:
        cost = (self.epsilon_bounds, self.delta_bounds, self._explanation)
        return (type(self), (+self, self.limit, self.gap, cost))  # type: ignore[operator]  # the plain number


class CalibratedValue(_Calibrated, float):
    """A calibrated parameter: a float that is proven to keep the target, with what is known about better ones.

    It behaves as a float; arithmetic returns plain floats.

    Attributes
    ----------
    limit : float or None
        The nearest value that is proven *not* to keep the target; the best possible one lies between. None if there is
        none in the range that was searched, or if the accountant has no lower bounds.
    gap : float
        ``|value − limit|``: the calibration could be improved by at most that. 0 if the value is the end of the range;
        infinite if the accountant has no lower bounds.
    epsilon_bounds, delta_bounds : Bounds
        Certified ε at the target's δ, and δ at the target's ε, of this value.

    Examples
    --------
    >>> from ferrodp.accounting import calibrate_noise_multiplier
    >>> noise = calibrate_noise_multiplier(target_epsilon=1.0, target_delta=1e-5)
    >>> round(noise, 4), noise.limit < noise, noise.explain().value <= 1.0
    (3.7306, True, True)
    """


class CalibratedCount(_Calibrated, int):
    """A calibrated number of repetitions: an int that is proven to keep the target.

    Attributes
    ----------
    limit : int or None
        The smallest larger count known to be proven *not* to keep the target; value + 1 if the answer is the best
        possible. None if there is none, or if the accountant has no lower bounds.
    gap : float
        limit − value − 1: how many more repetitions might be possible. 0 if the value is the end of the range; infinite
        if the accountant has no lower bounds.
    epsilon_bounds, delta_bounds : Bounds
        Certified ε at the target's δ, and δ at the target's ε, of this count.

    Examples
    --------
    >>> from ferrodp.accounting import GaussianEvent, calibrate_count
    >>> count = calibrate_count(GaussianEvent(noise_multiplier=10.0), target_epsilon=1.0, target_delta=1e-5)
    >>> count, count.limit, count.explain().value <= 1.0
    (7, 8, True)
    """
