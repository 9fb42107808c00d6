"""Budgets in a ledger, which no crash, race or restart makes forget what was spent.

A ledger holds *scopes*, each with a guarantee (ε, δ) about one collection of data. A release is reserved first, which
charges its cost and returns a *ticket*; the release is made with the ticket. An armed ticket is spent.

`PrivacyLedger` is the ledger; `ScopeReport`, `TicketReport`, `ReleaseReport` and `Reading` are what it tells, `Head`
identifies a state of it, and `Lease` hands out the tickets of a long training. `ReleasedStatistic` says in words what a
charge was for, and `describing` for a block of code. `import_ledger` and `migrate_ledger` restore and move ledgers, and
`grant` sets the rights of a server's roles. `plot_ledger` draws what was charged over time.

The package is also a function: ``with ferrodp.budget(epsilon=1.0):`` opens a budget for a block of code, a `Spending`,
which says in a `SpendingReport` what its releases cost.
"""

import sys

from ferrodp._base import _public
from ferrodp.budget.blocks import Spending, SpendingReport
from ferrodp.budget.lease import Lease
from ferrodp.budget.ledger import PrivacyLedger
from ferrodp.budget.records import Head
from ferrodp.budget.report import Reading, ReleaseReport, ScopeReport, TicketReport
from ferrodp.budget.stores.postgres.roles import grant
from ferrodp.budget.timeline import plot_ledger
from ferrodp.budget.transfer import import_ledger, migrate_ledger
from ferrodp.tickets import ReleasedStatistic, Ticket, TicketState, describing

__all__ = [
    "Head",
    "Lease",
    "PrivacyLedger",
    "Reading",
    "ReleaseReport",
    "ReleasedStatistic",
    "ScopeReport",
    "Spending",
    "SpendingReport",
    "Ticket",
    "TicketReport",
    "TicketState",
    "describing",
    "grant",
    "import_ledger",
    "migrate_ledger",
    "plot_ledger",
]


class BudgetPackage(_public.PublicPackage):
    """The package, called like `Spending`."""

    __call__ = staticmethod(Spending)


sys.modules[__name__].__class__ = BudgetPackage
