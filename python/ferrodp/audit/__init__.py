"""Statistical tests of privacy claims: whether some event contradicts (ε, δ).

A test can show that a claim is false; it cannot show that it is true. Each report says how small a violation so many
draws could have shown, and `smallest_violation` says it before anything is drawn.

==========================================  ===========================================================================
what is tested                              what to use
==========================================  ===========================================================================
any function of a value, of any library     `audit_callable`
a mechanism of this library, at its speed   `audit_mechanism`; on the command line ``ferrodp audit mechanism``
how many draws are needed                   `smallest_violation`
==========================================  ===========================================================================
"""

from ferrodp.audit.callables import audit_callable
from ferrodp.audit.mechanisms import audit_mechanism
from ferrodp.audit.power import smallest_violation
from ferrodp.audit.report import AuditReport

__all__ = ["AuditReport", "audit_callable", "audit_mechanism", "smallest_violation"]
