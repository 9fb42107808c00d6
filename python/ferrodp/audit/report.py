"""What a test of a privacy claim found."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What a test of an (ε, δ) claim found, and what it could have found.

    Attributes
    ----------
    claim : str
        What was tested.
    epsilon, delta : float
        The claim.
    neighbors : tuple of str
        The two values that were released.
    draws : int
        On each side, those for choosing the region included.
    counted : int
        On each side, those that were counted.
    region : str
        The event that shows the most, chosen on draws of its own.
    likelier : str
        For which of the neighbors it is likelier: "first" or "second".
    hits : tuple of int
        How often it happened for the likelier neighbor, and for the other one.
    rates : tuple of tuple of float
        Bounds on the probabilities of both, each right with confidence 95 % in all.
    epsilon_lower_bound : float
        ε is at least this with confidence 95 %, if δ is as claimed: by the event, by that of the other direction, or
        by both together.
    epsilon_lower_bound_999 : float
        The same with confidence 99.9 %.
    violation : bool
        Whether the claim is contradicted with the confidence that was requested.
    power : float
        About the least true ε that so many draws could have shown to be a violation, with probability 90 %; see
        `smallest_violation`.
    e_value : float
        Evidence against the claim: if the claim is true, it exceeds x with probability 1/x at most. E-values of tests
        on new draws multiply.
    log_e_value : float
        Its natural logarithm, which does not overflow.
    curve : tuple of tuple of float
        Pairs (δ, ε lower bound at 95 %) of the same events.
    multiplicity : int
        How many events were counted; bounds allow for all of them.
    roc : tuple of tuple of float
        Rates of false and true alarms of tests by a threshold, on the draws that chose the event; for pictures.
    law_holds : bool or None
        Whether the noise had the stated law in a test of its tails with the same confidence as `violation`; None where
        no law was stated.
    confidence : float
        Of `violation` and `law_holds`.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.audit import audit_callable
    >>> rng = np.random.default_rng(1)
    >>> report = audit_callable(lambda x: x + rng.laplace(), neighbors=(0.0, 1.0), epsilon=1.0, delta=0.0, draws=4000)
    >>> report.violation, report.epsilon_lower_bound > 3
    (True, True)
    >>> report.to_dict()["draws"], report.to_json()[:9]
    (4000, '{"claim":')
    """

    claim: str
    epsilon: float
    delta: float
    neighbors: tuple[str, str]
    draws: int
    counted: int
    region: str
    likelier: str
    hits: tuple[int, int]
    rates: tuple[tuple[float, float], tuple[float, float]]
    epsilon_lower_bound: float
    epsilon_lower_bound_999: float
    violation: bool
    power: float
    log_e_value: float
    curve: tuple[tuple[float, float], ...]
    multiplicity: int
    roc: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 1.0))
    law_holds: bool | None = None
    confidence: float = 0.999

    @property
    def e_value(self) -> float:
        """Evidence against the claim; infinite where it is beyond the range of floats."""
        return math.exp(self.log_e_value) if self.log_e_value < 709.0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data; infinite numbers are the text "inf"."""
        found = dataclasses.asdict(self) | {"e_value": self.e_value}
        return {name: plain(value) for name, value in found.items()}

    def to_json(self) -> str:
        """Return the data as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violation else "not contradicted"
        percent = f"{100 * self.confidence:.12g}"
        (low, high), (other_low, other_high) = self.rates
        lines = [
            f"claim            {self.claim}: ({self.epsilon:g}, {self.delta:g})",
            f"verdict          {verdict} at confidence {percent} %",
            f"neighbors        {self.neighbors[0]} and {self.neighbors[1]}",
            f"draws            {self.draws} on each side, {self.counted} of them counted",
            f"event            {self.region}, likelier for the {self.likelier}",
            f"rates            {self.hits[0]} hits: {low:.4g} to {high:.4g}; {self.hits[1]}: {other_low:.4g} to "
            f"{other_high:.4g}",
            f"epsilon          at least {self.epsilon_lower_bound:.4g} (95 %), "
            f"{self.epsilon_lower_bound_999:.4g} (99.9 %)",
            f"power            {self.power:.4g} would have been seen with probability 90 %, at best",
            f"e-value          {self.e_value:.4g} (logarithm {self.log_e_value:.4g})",
        ]
        if self.law_holds is not None:
            lines.append(
                f"law of the noise {'as stated' if self.law_holds else 'NOT AS STATED'} (confidence {percent} %)"
            )
        return "\n".join(lines)


def plain(value: Any) -> Any:
    """Return JSON data: lists for tuples, texts for infinite numbers."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf"
    return value
