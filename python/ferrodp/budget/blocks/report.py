"""What was spent within a block."""

from __future__ import annotations

import html
from dataclasses import dataclass

from ferrodp.events import NeighboringRelation, PrivacyEvent

__all__ = ["SpendingReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingReport:
    """What the releases of a `Spending` cost, together.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    measure : {"pure", "zcdp", "gdp", "rdp"}
        The measure in which costs are added up.
    neighboring_relation : NeighboringRelation
        The relation between datasets that the guarantee is about.
    scope : str or None
        The scope of the ledger that was charged; None for a budget in memory.
    charges : tuple of PrivacyEvent
        What was charged, in order; releases that failed after their first random bit among them.
    epsilon_spent, delta_spent : float
        The smallest budget, at this δ, into which the charges fit. Rounded up.
    epsilon_certified, delta_certified : float
        Except with probability `delta_certified`, the privacy loss of the charges is at most `epsilon_certified`,
        also if the moment of this report was chosen in view of the results; see `PrivacyLedger.odometer`.
    parts, parts_left : int or None
        Into how many parts the budget is split, and how many are left; None if it is not split.

    Examples
    --------
    >>> import ferrodp as fd
    >>> with fd.budget(epsilon=1.0, parts=4) as spending:
    ...     count = fd.private_count([True, False])
    >>> report = spending.report()
    >>> report.epsilon_spent, report.parts_left, report.scope
    (0.25, 3, None)
    >>> print(report)
    ε = 0.25 of 1 was spent in 1 release; 3 of 4 parts are left
    certified whenever it is read: ε ≤ 0.25; add_or_remove_one, costs add up in "pure"
    """

    epsilon: float
    delta: float
    measure: str
    neighboring_relation: NeighboringRelation
    scope: str | None
    charges: tuple[PrivacyEvent, ...]
    epsilon_spent: float
    delta_spent: float
    epsilon_certified: float
    delta_certified: float
    parts: int | None
    parts_left: int | None

    def __str__(self) -> str:
        number = len(self.charges)
        delta = f" at δ = {self.delta_spent:g} of {self.delta:g}" if self.delta else ""
        releases = f"{number} release{'' if number == 1 else 's'}"
        parts = "" if self.parts is None else f"; {self.parts_left} of {self.parts} parts are left"
        certified = f"ε ≤ {self.epsilon_certified:.6g}"
        if self.delta_certified:
            certified += f" except with probability {self.delta_certified:g}"
        where = "" if self.scope is None else f"\ncharged to scope {self.scope!r} of a ledger"
        return (
            f"ε = {self.epsilon_spent:.6g} of {self.epsilon:g}{delta} was spent in {releases}{parts}\n"
            f"certified whenever it is read: {certified}; {self.neighboring_relation.value}, costs add up in "
            f'"{self.measure}"{where}'
        )

    def _repr_html_(self) -> str:
        """Return the text for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"
