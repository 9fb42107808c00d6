"""What can be asked of an accountant: bounds, curves, explanations. Nothing here adds an event."""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ferrodp._base import _html, _validate
from ferrodp._base._validate import Real
from ferrodp._numerics.intervals import Bounds
from ferrodp.accounting import _arrays
from ferrodp.accounting._arrays import Array
from ferrodp.accounting.accountants._releases import Parts
from ferrodp.accounting.curve import Curve
from ferrodp.accounting.explanation import Explanation
from ferrodp.errors import InvalidParameter
from ferrodp.events import NeighboringRelation, NonPrivateEvent, PrivacyEvent

Quantity: TypeAlias = Literal["epsilon", "delta"]


class AccountantReader(abc.ABC):
    """The reading side of a `PrivacyAccountant`, which is one: questions about the events that it holds."""

    _allows_zero_delta: ClassVar[bool] = False
    """Whether δ = 0 has an answer; without, it is refused."""
    _neighboring_relation: NeighboringRelation
    _told: Any

    # what a subclass says

    @abc.abstractmethod
    def _epsilon_bounds(self, delta: float) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 for `delta` in (0, 1), or [0, 1) with `_allows_zero_delta`."""

    @abc.abstractmethod
    def _delta_bounds(self, epsilon: float) -> Bounds:
        """Return bounds on the smallest δ for a finite `epsilon` ≥ 0."""

    @abc.abstractmethod
    def _explanation(self, delta: float) -> Explanation:
        """Return the explanation of `epsilon(delta)`."""

    def _curve(self, quantity: Quantity, points: Array) -> tuple[Array, Array]:
        """Return bounds on ε at falling δ, or on δ at rising ε; a subclass shares work among the points."""
        ask = self._epsilon_bounds if quantity == "epsilon" else self._delta_bounds
        each = np.array([ask(at) for at in points.tolist()]).reshape(-1, 2)
        return each[:, 0], each[:, 1]

    def _settings(self) -> dict[str, Any]:
        """Return the other arguments of the constructor as plain JSON data."""
        return {}

    # what everybody asks

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation in which the sensitivities were stated."""
        return self._neighboring_relation

    @property
    def events(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """The simple events and how often each happened, in the order in which they first did."""
        events: Parts = self._told.events
        return events

    def epsilon(self, delta: Real) -> float:
        """Return an upper bound on the smallest ε ≥ 0 for which all of it is (ε, δ)-DP.

        Parameters
        ----------
        delta : float
            In (0, 1), or [0, 1) for accountants of pure bounds. Rounded down if not exactly representable.

        Returns
        -------
        float
            Infinite if no finite ε is proven.

        Raises
        ------
        InvalidParameter, InvalidType
            If `delta` is outside its domain or no real number.
        """
        return self.epsilon_bounds(delta).upper

    def epsilon_bounds(self, delta: Real) -> Bounds:
        """Return bounds on the smallest ε ≥ 0 for which all of it is (ε, δ)-DP.

        Parameters
        ----------
        delta : float
            As for `epsilon`.

        Returns
        -------
        Bounds
            `lower` is 0 where no lower bound is known.

        Raises
        ------
        InvalidParameter, InvalidType
            As for `epsilon`.
        """
        checked = _validate.delta(delta, zero=self._allows_zero_delta)
        events = self.events
        if non_private(events):
            return Bounds(math.inf, math.inf)
        return self._epsilon_bounds(checked) if events else Bounds(0.0, 0.0)

    def delta(self, epsilon: Real) -> float:
        """Return an upper bound on the smallest δ for which all of it is (ε, δ)-DP.

        Parameters
        ----------
        epsilon : float
            Finite, ≥ 0. Rounded down if not exactly representable.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilon` is outside its domain or no real number.
        """
        return self.delta_bounds(epsilon).upper

    def delta_bounds(self, epsilon: Real) -> Bounds:
        """Return bounds on the smallest δ for which all of it is (ε, δ)-DP.

        Parameters
        ----------
        epsilon : float
            As for `delta`.

        Returns
        -------
        Bounds
            `lower` is 0 where no lower bound is known.

        Raises
        ------
        InvalidParameter, InvalidType
            As for `delta`.
        """
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        events = self.events
        if non_private(events):
            return Bounds(1.0, 1.0)
        return self._delta_bounds(checked) if events else Bounds(0.0, 0.0)

    def epsilon_curve(self, deltas: npt.ArrayLike) -> Curve:
        """Return bounds on ε at many δ, for little more than a few answers cost.

        Parameters
        ----------
        deltas : array_like
            One-dimensional, in any order; each in the domain of `delta` of `epsilon`.

        Returns
        -------
        Curve
            The δ, and lower and upper bounds on the ε at each.

        Raises
        ------
        InvalidParameter, InvalidType
            If `deltas` are outside their domain, no real numbers, or not one-dimensional.

        Notes
        -----
        As certified as single answers. Points share contours (500 of them cost some 2 to 5 ms for Gaussian noise,
        sampled or not), compositions on a grid, and the orders of Rényi divergences; they differ from single answers
        by no more than the width of these or 10⁻⁵ of the value. Where single answers are wide or expensive, at most
        24 of them are made, and chords lie between them, as δ is a convex function of e^ε: bounds all the same, but
        looser ones. A δ of sampled Gaussian noise was up to 25 % above the single answer; ask for that where it
        matters.

        Examples
        --------
        >>> from ferrodp.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent
        >>> accountant = PldAccountant()
        >>> step = PoissonSampledEvent(sampling_probability=0.01, event=GaussianEvent(noise_multiplier=1.0))
        >>> accountant.compose(step, count=1000)
        >>> accountant.epsilon_curve([1e-6, 1e-5, 1e-4]).upper.round(4).tolist()
        [2.1245, 1.8282, 1.5127]
        """
        return self._bounds_at("epsilon", "deltas", deltas)

    def delta_curve(self, epsilons: npt.ArrayLike) -> Curve:
        """Return bounds on δ at many ε, for little more than a few answers cost.

        Parameters
        ----------
        epsilons : array_like
            One-dimensional, in any order; each finite and ≥ 0.

        Returns
        -------
        Curve
            The ε, and lower and upper bounds on the δ at each.

        Raises
        ------
        InvalidParameter, InvalidType
            If `epsilons` are outside their domain, no real numbers, or not one-dimensional.

        Notes
        -----
        As for `epsilon_curve`.

        Examples
        --------
        >>> from ferrodp.accounting import GaussianEvent, PldAccountant
        >>> accountant = PldAccountant()
        >>> accountant.compose(GaussianEvent(noise_multiplier=2.0))
        >>> accountant.delta_curve([1.0, 0.0]).upper.round(4).tolist()
        [0.0068, 0.1974]
        """
        return self._bounds_at("delta", "epsilons", epsilons)

    def explain(self, delta: Real) -> Explanation:
        """Return `epsilon(delta)` with the method and the assumptions behind it.

        Parameters
        ----------
        delta : float
            As for `epsilon`.

        Returns
        -------
        Explanation
            A record; `print` shows it as sentences.

        Raises
        ------
        InvalidParameter, InvalidType
            As for `epsilon`.
        """
        checked = _validate.delta(delta, zero=self._allows_zero_delta)
        events = self.events
        given = {"delta": checked}
        if non_private(events):
            reason = "a release without protection is among the events"
            return Explanation(quantity="epsilon", value=math.inf, lower=math.inf, method=reason, parameters=given)
        if not events:
            nothing = "nothing was released"
            return Explanation(quantity="epsilon", value=0.0, method=nothing, parameters=given, slack=0.0)
        return self._explanation(checked)

    def __repr__(self) -> str:
        settings = {**self._settings(), "neighboring_relation": self._neighboring_relation.name}
        shown = ", ".join(f"{name}={_validate.shown(value)}" for name, value in settings.items())
        return f"<{type(self).__name__} of {len(self.events)} different events, {shown}>"

    def _repr_html_(self) -> str:
        rows = [(str(event), count) for event, count in self.events]
        caption = f"{type(self).__name__}, {self._neighboring_relation.value}"
        return _html.table(caption, ("event", "times"), rows or [("nothing was released", "")], more="events")

    def _bounds_at(self, quantity: Quantity, name: str, points: npt.ArrayLike) -> Curve:
        """Return bounds at points in any order, which are checked."""
        if quantity == "delta":
            at = _arrays.checked(name, points, "finite and >= 0", lambda x: (x >= 0.0) & (x < math.inf)) + 0.0
        elif self._allows_zero_delta:
            at = _arrays.checked(name, points, "in [0, 1)", lambda x: (x >= 0.0) & (x < 1.0)) + 0.0
        else:
            at = _arrays.checked(name, points, "in (0, 1)", lambda x: (x > 0.0) & (x < 1.0))
        if at.ndim != 1:
            raise InvalidParameter(f"{name} must be one-dimensional, got the shape {at.shape}; {name}.ravel() is")
        events = self.events
        if non_private(events) or not events or not at.size:
            worst = math.inf if quantity == "epsilon" else 1.0
            value = np.full(at.shape, worst if non_private(events) else 0.0)
            return Curve(at, value, value.copy())
        order = np.argsort(-at if quantity == "epsilon" else at, kind="stable")
        lower, upper = np.empty_like(at), np.empty_like(at)
        # mutant: curve-in-the-order-of-its-sorting
        lower[order], upper[order] = self._curve(quantity, np.ascontiguousarray(at[order]))
        return Curve(at, lower, upper)

    def _explained(
        self,
        delta: float,
        bounds: Bounds,
        method: str,
        direction: str,
        *assumptions: str,
        slack: float = math.inf,
        **parameters: Any,
    ) -> Explanation:
        """Return an explanation of bounds on ε; whatever the accountant, it assumes the relation of sensitivities."""
        relation = f"Sensitivities were stated for the relation {self._neighboring_relation.value}."
        return Explanation(
            quantity="epsilon",
            value=bounds.upper,
            lower=bounds.lower,
            method=method,
            direction=direction,
            parameters={"delta": delta, **parameters},
            slack=slack,
            assumptions=(relation, *assumptions),
        )


def non_private(events: Parts) -> bool:
    """Return whether a release without protection is among the events."""
    return any(times and type(event) is NonPrivateEvent for event, times in events)
