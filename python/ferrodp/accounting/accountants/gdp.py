"""The exact accountant for compositions of Gaussian releases."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ferrodp import _validate
from ferrodp._numerics.intervals import ZERO, Bounds, Interval, arithmetic, exact, first, point
from ferrodp._validate import Real
from ferrodp.accounting._solve import gaussian_curve as curve
from ferrodp.accounting._solve.alternatives import advice
from ferrodp.accounting.explanation import Explanation
from ferrodp.errors import InvalidParameter, InvalidType, UnsupportedEventError
from ferrodp.events import GaussianEvent, NeighboringRelation, NonPrivateEvent, PrivacyEvent, decompose

FORMAT_VERSION = 1


class GdpAccountant:
    r"""Add up Gaussian releases about one dataset, without any loss.

    The releases may be chosen adaptively, each after seeing the ones before. The answers are those of the composition
    itself, not of a bound on it: `epsilon` is the smallest float no smaller than the exact ε, and `delta` likewise.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        The relation in which the sensitivities behind the events were stated. A label: the answers hold for that one.

    Notes
    -----
    A Gaussian release with noise multiplier z is 1/z-GDP, and the composition of μᵢ-GDP releases is √Σμᵢ²-GDP, both
    with equality (Dong, Roth, Su, "Gaussian differential privacy", JRSS B 2022, Theorem 2.7 and Corollary 3.3); full
    adaptivity: Smith, Thakurta, "Fully adaptive composition for Gaussian differential privacy", 2022. Σ1/zᵢ² is kept
    between two decimals of 120 digits, so the order of 10⁶ events does not show in a result.

    Nothing here is a central limit approximation. Events that are not Gaussian are refused.

    Examples
    --------
    >>> accountant = GdpAccountant()
    >>> accountant.compose(GaussianEvent(noise_multiplier=10.0), count=100)
    >>> accountant.epsilon(delta=1e-5)
    4.377178095681225
    >>> accountant.remaining_count(GaussianEvent(noise_multiplier=10.0), epsilon=8.0, delta=1e-5)
    177
    """

    __slots__ = ("_lock", "_neighboring_relation", "_non_private", "_squared_mu")

    def __init__(self, *, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        if not isinstance(neighboring_relation, NeighboringRelation):
            found = type(neighboring_relation).__name__
            raise InvalidType(f"neighboring_relation must be a NeighboringRelation, got {found}")
        self._neighboring_relation = neighboring_relation
        self._squared_mu = point(0)
        self._non_private = False
        self._lock = threading.Lock()

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation in which the sensitivities were stated."""
        return self._neighboring_relation

    @property
    def mu(self) -> float:
        """The μ of the composition, √Σ1/zᵢ², rounded up; `inf` after a release without protection."""
        if self._non_private:
            return math.inf
        return arithmetic(curve.DIGITS_OF_MU).sqrt(self._squared_mu).floats().upper if self._squared_mu.upper else 0.0

    def compose(self, event: PrivacyEvent, count: int = 1) -> None:
        """Add `count` times `event`.

        Raises
        ------
        UnsupportedEventError
            If anything in it is not Gaussian; nothing was added then.
        """
        added, non_private = _cost(event, _validate.count("count", count, minimum=0), self._neighboring_relation)
        with self._lock:
            self._squared_mu = _sum(self._squared_mu, added)
            self._non_private |= non_private

    def epsilon(self, delta: Real) -> float:
        """Return the smallest ε ≥ 0 for which all of it is (ε, δ)-DP, rounded up; `delta` in (0, 1)."""
        return self.epsilon_bounds(delta).upper

    def epsilon_bounds(self, delta: Real) -> Bounds:
        """Return the two floats around the exact ε(δ)."""
        checked = _validate.delta(delta)
        return Bounds(math.inf, math.inf) if self._non_private else curve.epsilon(exact(checked), self._squared_mu)

    def delta(self, epsilon: Real) -> float:
        """Return the smallest δ for which all of it is (ε, δ)-DP, rounded up; `epsilon` ≥ 0."""
        return self.delta_bounds(epsilon).upper

    def delta_bounds(self, epsilon: Real) -> Bounds:
        """Return the two floats around the exact δ(ε)."""
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        return Bounds(1.0, 1.0) if self._non_private else curve.delta(exact(checked), self._squared_mu).floats()

    def log_delta(self, epsilon: Real) -> float:
        """Return ln δ(ε), rounded up, for δ below the range of floats; −∞ if nothing was released."""
        checked = _validate.non_negative("epsilon", epsilon, toward="down")
        if self._non_private:
            return 0.0
        logarithm = curve.log_delta(exact(checked), self._squared_mu)
        return -math.inf if logarithm is None else logarithm.floats().upper

    def would_exceed(self, event: PrivacyEvent, *, epsilon: Real, delta: Real, count: int = 1) -> bool:
        """Return whether (ε, δ) would not be proven any more once `count` times `event` were added. Adds nothing."""
        added, non_private = _cost(event, _validate.count("count", count, minimum=0), self._neighboring_relation)
        budget = _budget(epsilon, delta)
        return self._non_private or non_private or not _within(_sum(self._squared_mu, added), budget)

    def remaining_count(self, event: PrivacyEvent, *, epsilon: Real, delta: Real) -> int:
        """Return how often `event` can still be added within (ε, δ): the last count that is safe, never one more.

        2⁶³ − 1 stands for no limit: an event without loss.
        """
        added, non_private = _cost(event, 1, self._neighboring_relation)
        budget = _budget(epsilon, delta)
        spent = self._squared_mu
        if self._non_private or non_private or not _within(spent, budget):
            return 0
        if not added.upper:
            return _validate.MAX_COUNT
        return _last_safe_count(spent, added, budget)

    def explain(self, delta: Real) -> Explanation:
        """Return `epsilon(delta)` with how it was found and what it rests on; printed, it is plain words."""
        bounds = self.epsilon_bounds(delta)
        return Explanation(
            quantity="epsilon",
            value=bounds.upper,
            lower=bounds.lower,
            method=(
                "the exact privacy curve of a composition of Gaussian releases (Dong, Roth, Su 2022, Corollary 3.3; "
                "Balle, Wang 2018, Theorem 8), in decimal interval arithmetic"
            ),
            direction="symmetric",
            parameters={"delta": _validate.delta(delta), "mu": self.mu},
            slack=bounds.upper - bounds.lower if bounds.upper < math.inf else math.inf,
            assumptions=(
                f"the sensitivities were stated for the relation {self._neighboring_relation.name}",
                "all releases are about the same dataset, and all of them were added",
            ),
        )

    def merge(self, other: GdpAccountant) -> None:
        """Add everything that `other` was told, about the same dataset; `other` stays as it is."""
        if type(other) is not type(self):
            raise InvalidType(f"other must be a {type(self).__name__}, got {type(other).__name__}")
        if other._neighboring_relation is not self._neighboring_relation:
            here, there = self._neighboring_relation.name, other._neighboring_relation.name
            raise InvalidParameter(f"other must have the neighboring_relation {here}, got {there}")
        added, non_private = other._squared_mu, other._non_private
        with self._lock:
            self._squared_mu = _sum(self._squared_mu, added)
            self._non_private |= non_private

    def copy(self) -> GdpAccountant:
        """Return an accountant that was told the same, and goes its own way."""
        return type(self).from_state_dict(self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON data from which `from_state_dict` makes an equal accountant."""
        return {
            "version": FORMAT_VERSION,
            "accountant": "gdp",
            "neighboring_relation": self._neighboring_relation.value,
            "squared_mu": [str(end) for end in self._squared_mu],
            "non_private": self._non_private,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> GdpAccountant:
        """Return the accountant whose `state_dict` this is; refuse anything that no accountant wrote."""
        if not isinstance(state, Mapping):
            raise InvalidType(f"state must be a mapping, got {type(state).__name__}")
        fields = {"version", "accountant", "neighboring_relation", "squared_mu", "non_private"}
        if state.keys() != fields or state["version"] != FORMAT_VERSION or state["accountant"] != "gdp":
            raise InvalidParameter(f"state must be that of a gdp accountant, version {FORMAT_VERSION}")
        relations = {relation.value: relation for relation in NeighboringRelation}
        if not isinstance(state["neighboring_relation"], str) or state["neighboring_relation"] not in relations:
            raise InvalidParameter(f"neighboring_relation must be one of {sorted(relations)}")
        if not isinstance(state["non_private"], bool):
            raise InvalidType(f"non_private must be a bool, got {type(state['non_private']).__name__}")
        accountant = cls(neighboring_relation=relations[state["neighboring_relation"]])
        accountant._squared_mu = _read_squared_mu(state["squared_mu"])
        accountant._non_private = state["non_private"]
        return accountant

    def __reduce__(self) -> tuple[Any, ...]:
        return (GdpAccountant.from_state_dict, (self.state_dict(),))

    def __repr__(self) -> str:
        return f"GdpAccountant(mu={self.mu!r}, neighboring_relation={self._neighboring_relation})"


def _cost(event: PrivacyEvent, count: int, relation: NeighboringRelation) -> tuple[Interval, bool]:
    """Return the Σ1/z² of an event, and whether it holds a release without protection."""
    r = arithmetic(curve.DIGITS_OF_MU)
    if type(event) is GaussianEvent and count == 1:  # what a ledger adds a million times
        return curve.squared_mu(event.noise_multiplier), False
    total, non_private = point(0), False
    for part, times in decompose(event, count):
        if isinstance(part, GaussianEvent):
            if times:
                total = r.add(total, r.mul(point(times), curve.squared_mu(part.noise_multiplier)))
        elif isinstance(part, NonPrivateEvent):
            non_private |= times > 0
        else:
            way_out = advice(part, relation, "GdpAccountant")
            raise UnsupportedEventError(
                f"GdpAccountant adds up Gaussian events only, got {type(part).__name__}{way_out}"
            )
    return total, non_private


def _sum(x: Interval, y: Interval) -> Interval:
    return arithmetic(curve.DIGITS_OF_MU).add(x, y)


def _budget(epsilon: Real, delta: Real) -> tuple[Decimal, Decimal]:
    checked = _validate.non_negative("epsilon", epsilon, toward="down"), _validate.delta(delta)
    return exact(checked[0]), exact(checked[1])


def _within(squared_mu: Interval, budget: tuple[Decimal, Decimal]) -> bool:
    epsilon, delta = budget
    return curve.delta(epsilon, squared_mu).upper <= delta


def _last_safe_count(spent: Interval, added: Interval, budget: tuple[Decimal, Decimal]) -> int:
    """Return the largest n for which spent + n·added is proven to be within the budget: guess, then prove."""
    r = arithmetic(curve.DIGITS_OF_MU)

    def too_often(n: int) -> bool:
        return not _within(r.add(spent, r.mul(point(n), added)), budget)

    epsilon, delta = budget
    mu = curve.largest_mu(delta, epsilon)
    left = r.down.subtract(r.down.multiply(mu, mu), spent.upper)
    guess = r.down.divide(max(left, ZERO), added.upper)
    limit = _validate.MAX_COUNT + 1
    return first(too_often, limit if guess > limit else int(guess) + 1, 1, limit) - 1


def _read_squared_mu(ends: object) -> Interval:
    if (
        isinstance(ends, (list, tuple))
        and len(ends) == 2
        and all(isinstance(end, str) and len(end) < 200 for end in ends)
    ):
        try:
            lower, upper = Decimal(ends[0]), Decimal(ends[1])
        except ArithmeticError:
            lower = upper = Decimal("NaN")
        if lower.is_finite() and upper.is_finite() and ZERO <= lower <= upper and abs(upper.adjusted()) < 10**5:
            return Interval(lower, upper)
    raise InvalidParameter("squared_mu must be two decimal numbers in order, as text")
