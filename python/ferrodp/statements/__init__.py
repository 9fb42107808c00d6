"""Privacy statements: what a review board, or a registry of deployments, has to know about a release.

`statement` makes one of a plan, of a scope of a ledger, of a mechanism or of an event. It holds parameters and bounds,
nothing that was computed from data.
"""

from ferrodp.statements.statement import Statement
from ferrodp.statements.subjects import statement

__all__ = ["Statement", "statement"]
