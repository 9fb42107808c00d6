"""What a test of independence found."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from ferrodp.audit.report import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependenceReport:
    """Whether outputs of one call, and of two calls, tell anything of each other.

    Attributes
    ----------
    claim : str
        What was tested.
    draws : int
        Outputs of the two calls together.
    confidence : float
        If outputs are independent, `violation` is false with at least this probability.
    tests : int
        How many tables of pairs were looked at; p-values allow for all of them.
    stretch : int
        No stretch of so many outputs should have occurred twice.
    p_value : float
        The least of all tables, times how many there are; at most 1.
    findings : tuple of str
        What contradicts independence, the strongest first; at most ten.

    Examples
    --------
    >>> import numpy as np
    >>> from ferrodp.audit import audit_independence
    >>> rng = np.random.default_rng(1)
    >>> report = audit_independence(lambda n: np.repeat(rng.normal(size=n // 2), 2), draws=4096)
    >>> report.violation, report.to_dict()["draws"], report.to_json()[:9]
    (True, 4096, '{"claim":')
    """

    claim: str
    draws: int
    confidence: float
    tests: int
    stretch: int
    p_value: float
    findings: tuple[str, ...]

    @property
    def violation(self) -> bool:
        """Whether anything was found."""
        return bool(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        found = dataclasses.asdict(self) | {"violation": self.violation}
        return {name: plain(value) for name, value in found.items()}

    def to_json(self) -> str:
        """Return the data as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        verdict = "NOT INDEPENDENT" if self.findings else "nothing found"
        lines = [
            f"claim            {self.claim}: outputs are independent of each other",
            f"verdict          {verdict}, at confidence {100 * self.confidence:.9g} %",
            f"draws            {self.draws} of two calls",
            f"tests            {self.tests}, the least p-value of all {self.p_value:.3g}",
        ]
        return "\n".join([*lines, *(f"finding          {each}" for each in self.findings)])
