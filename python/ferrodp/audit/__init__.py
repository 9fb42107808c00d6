"""Statistical tests of privacy claims: whether some event contradicts (ε, δ).

A test can show that a claim is false; it cannot show that it is true. Each report says how small a violation so many
draws could have shown, and `smallest_violation` says it before anything is drawn.

==========================================  ===========================================================================
what is tested                              what to use
==========================================  ===========================================================================
any function of a value, of any library     `audit_callable`
a mechanism of this library, at its speed   `audit_mechanism`; on the command line ``ferrodp audit mechanism``
a whole training, in one run                `audit_canaries`; ``audit_canaries=`` of `PrivacyPlan.start` and of `train`
the code around releases                    `audit_code`; ``ferrodp audit code``
whether outputs are independent             `audit_independence`
the evidence of many runs                   `keep_evidence`
a picture                                   `plot_roc`
how many draws or canaries are needed       `smallest_violation`, `smallest_canary_violation`
==========================================  ===========================================================================
"""

from ferrodp.audit.callables import audit_callable
from ferrodp.audit.canaries import CanaryReport, audit_canaries, smallest_canary_violation
from ferrodp.audit.code import CodeReport, Finding, audit_code
from ferrodp.audit.evidence import Evidence, keep_evidence
from ferrodp.audit.independence import IndependenceReport, audit_independence
from ferrodp.audit.mechanisms import audit_mechanism
from ferrodp.audit.plots import plot_roc
from ferrodp.audit.power import smallest_violation
from ferrodp.audit.report import AuditReport

__all__ = [
    "AuditReport",
    "CanaryReport",
    "CodeReport",
    "Evidence",
    "Finding",
    "IndependenceReport",
    "audit_callable",
    "audit_canaries",
    "audit_code",
    "audit_independence",
    "audit_mechanism",
    "keep_evidence",
    "plot_roc",
    "smallest_canary_violation",
    "smallest_violation",
]
