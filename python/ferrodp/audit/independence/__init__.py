"""Test whether outputs of one call, and of two calls, are independent of each other."""

from ferrodp.audit.independence.report import IndependenceReport
from ferrodp.audit.independence.run import audit_independence

__all__ = ["IndependenceReport", "audit_independence"]
