"""Accountant based on privacy loss distributions, with certified bounds from both sides."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from ferrodp._base import _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting._solve import questions, solver
from ferrodp.accounting._solve.answers import CertifiedAnswer
from ferrodp.accounting._solve.curve_points import Array, solve_many
from ferrodp.accounting._solve.methods import check_interval
from ferrodp.accounting.accountants.base import PrivacyAccountant
from ferrodp.accounting.explanation import Explanation
from ferrodp.events import NeighboringRelation


class PldAccountant(PrivacyAccountant):
    """Accountant based on privacy loss distributions: the tightest proven interval around the exact ε.

    It accepts noise, sampled or not, randomized response, and mechanisms described by an (ε, δ). The releases may be
    chosen adaptively; their parameters may not depend on earlier results (the filters allow that).

    Parameters
    ----------
    value_discretization_interval : float, optional
        Distance of neighboring privacy losses on the grid, in units of ε; from 1e-12 to 1e3. By default it is chosen
        and refined until the certified interval is narrower than 1e-4 of ε. A given one is used as it is, on the grid
        alone; it is made larger where memory would not suffice.
    neighboring_relation : NeighboringRelation
        Which datasets a guarantee tells apart. All sensitivities behind the events have to be stated for it.

    Raises
    ------
    InvalidParameter, InvalidType
        If `value_discretization_interval` is outside its domain, or a parameter is of another type.

    Notes
    -----
    Each bound is an upper bound, so that the least of them answers; `explain` names it:

    ================================  =================================================================================
    Gaussians                         the closed form, exact to the last float
    Gaussians, Poisson sampled        an integral along a contour, whose cost does not grow with the number of steps
    anything with a pair of laws      privacy losses on a grid: an upper law (connect the dots) and a lower one (merged
                                      outcomes), convolved by a tilted transform
    a Rényi curve, but no pair        an upper bound only: the least of what other measures say of all events, and of
                                      the grid with these as one (ε₀, δ₀); random allocations alone by laws of their own
    a single release                  its curve
    where these stay wide             the sum of all ε, zCDP and Rényi divergences, converted; ε at a smaller δ, δ at
                                      ε = 0; more releases; for δ the curves of the single steps
    ================================  =================================================================================

    A stated δ is a probability of failure, and failures compose: 1 − ∏(1 − δᵢ), never more than the sum.

    An answer does a limited amount of work: each grid about half a second's of one core for up to 32 different events,
    more in proportion for more. It depends on the events alone, never on the clock, and what it leaves wide stays
    proven. An interval that is given lifts the limit. All together an answer is meant to take at most a second
    (measured: https://ferrodp.github.io/ferrodp/limits.html). `remaining_count` and the calibrations ask some tens of
    such questions, most of them for a sixteenth or a quarter of the work.

    Every upper end is proven, whatever its neighbors are. Where an interval is narrow, upper ends fall as δ or ε grows
    and rise with the counts, up to the width of the interval. Where it is wide (rarely sampled steps, δ far below
    1e-16, δ next to 1, nearly all mass at one loss), an end is compared with those at fixed anchors; this is not a
    proof that the ends are monotone.

    Rounding, truncation, wrap-around and discretization are part of the bounds, each with a derivation beside the code.
    Both directions are composed, and the worse one counts. `lower` is 0 where an event is only dominated by its pair
    of laws: samples of fixed size, the exponential mechanism, noise other than Gaussian sampled under REPLACE_ONE. With
    events that have no pair of laws it is that of the others alone.

    ``delta=0`` is allowed: the answer is the largest privacy loss, infinite for most noise.

    References
    ----------
    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the dots: tighter discrete approximations of privacy loss
    distributions", PETS 2022. Zhu, Dong, Wang, "Optimal accounting of differential privacy via characteristic
    function", AISTATS 2022. Lebeda, Regehr, Kamath, Steinke, "Avoiding pitfalls for privacy accounting of subsampled
    mechanisms under composition", 2024.

    Examples
    --------
    >>> from ferrodp.accounting import LaplaceEvent, PldAccountant, PoissonSampledEvent
    >>> accountant = PldAccountant()
    >>> step = PoissonSampledEvent(sampling_probability=0.01, event=LaplaceEvent(noise_multiplier=1.0))
    >>> accountant.compose(step, count=1000)
    >>> bounds = accountant.epsilon_bounds(delta=1e-5)
    >>> print(f"{bounds.upper:.3f}, {(bounds.upper - bounds.lower) / bounds.upper < 1e-4}")
    1.124, True
    >>> accountant.has_contour(), accountant.at_effort(0.25).epsilon(delta=1e-5) >= bounds.lower
    (False, True)
    """

    kind: ClassVar[str] = "pld"
    _rule = staticmethod(solver.pairs_or_curve)
    _allows_zero_delta: ClassVar[bool] = True
    _answers_quickly: ClassVar[bool] = True

    def __init__(
        self,
        *,
        value_discretization_interval: Real | None = None,
        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> None:
        super().__init__(neighboring_relation=neighboring_relation)
        self._interval = check_interval(value_discretization_interval)
        self._effort = 1.0
        self._last: tuple[object, object, CertifiedAnswer] | None = None

    @property
    def value_discretization_interval(self) -> float | None:
        """The grid's interval if one was given."""
        return self._interval

    def _settings(self) -> dict[str, Any]:
        return {"value_discretization_interval": self._interval}

    def at_effort(self, effort: float) -> Self:
        """Limit the work of all further answers, which may become wider.

        Parameters
        ----------
        effort : float
            Share of the work that an answer may cost by default; in (0, 1].

        Returns
        -------
        PldAccountant
            This accountant.

        Raises
        ------
        InvalidParameter, InvalidType
            If `effort` is outside its domain or no real number.
        """
        if _validate.positive("effort", effort) > 1.0:
            raise _validate.out_of_domain("effort", "in (0, 1]", effort)
        self._effort = effort
        return self

    def has_contour(self) -> bool:
        """Return whether the closed form or the contour integral answers for the events, where they can.

        Returns
        -------
        bool
            True if all events are Gaussian, sampled or not, and the relation is not `REPLACE_ONE`.
        """
        return questions.has_contour(self.events, self.neighboring_relation)

    def _solve(self, quantity: questions.Quantity, at: float) -> CertifiedAnswer:
        """Return the answer; the last one is kept, as an explanation asks for it again."""
        events, question = self.events, (quantity, at, self._effort)
        if self._last is None or self._last[0] is not events or self._last[1] != question:
            work = self._effort * questions.MAX_WORK
            found = solver.solve(quantity, at, events, self.neighboring_relation, self._interval, work)
            self._last = (events, question, found)
            return found
        return self._last[2]

    def _over(self, epsilon: float, delta: float, effort: float) -> float:
        self._effort = effort
        upper = self.epsilon_bounds(delta).upper
        is_within = upper <= epsilon
        if not (epsilon > 0.0 and 0.0 < upper < math.inf):
            return -1.0 if is_within else 1.0
        distance = math.log(upper) - math.log(epsilon)
        return min(distance, 0.0) if is_within else max(distance, math.ulp(0.0))

    def _epsilon_bounds(self, delta: float) -> Bounds:
        return self._solve("epsilon", delta).bounds

    def _delta_bounds(self, epsilon: float) -> Bounds:
        return self._solve("delta", epsilon).bounds

    def _curve(self, quantity: questions.Quantity, points: Array) -> tuple[Array, Array]:
        work = self._effort * questions.MAX_WORK
        return solve_many(quantity, points, self.events, self.neighboring_relation, self._interval, work)

    def _explanation(self, delta: float) -> Explanation:
        found = self._solve("epsilon", delta)
        lower, upper = found.bounds
        return self._explained(
            delta,
            found.bounds,
            found.method,
            found.direction,
            "Samples are drawn as the events say, and stay secret.",
            "No event's parameters were chosen in view of earlier results.",
            slack=upper - lower if lower < upper else 0.0,
            **found.parameters,
        )
