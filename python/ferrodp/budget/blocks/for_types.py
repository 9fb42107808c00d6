"""What type checkers take the package `ferrodp.budget` for, as they know no package that can be called.

At run time it is a package whose class has a `__call__`: see the end of ``ferrodp/budget/__init__.py``.
"""

from __future__ import annotations

from typing import TypeAlias

from ferrodp import tickets
from ferrodp.budget import lease, ledger, records, report, timeline, transfer
from ferrodp.budget.blocks import block
from ferrodp.budget.blocks import report as spent
from ferrodp.budget.stores.postgres import roles


class budget(block.Spending):  # noqa: N801  # the name of the package
    """The names of the package, and what a call of it returns."""

    Head: TypeAlias = records.Head
    Lease: TypeAlias = lease.Lease
    PrivacyLedger: TypeAlias = ledger.PrivacyLedger
    Reading: TypeAlias = report.Reading
    ReleaseReport: TypeAlias = report.ReleaseReport
    ReleasedStatistic: TypeAlias = tickets.ReleasedStatistic
    ScopeReport: TypeAlias = report.ScopeReport
    Spending: TypeAlias = block.Spending
    SpendingReport: TypeAlias = spent.SpendingReport
    Ticket: TypeAlias = tickets.Ticket
    TicketReport: TypeAlias = report.TicketReport
    TicketState: TypeAlias = tickets.TicketState
    describing = staticmethod(tickets.describing)
    grant = staticmethod(roles.grant)
    import_ledger = staticmethod(transfer.import_ledger)
    migrate_ledger = staticmethod(transfer.migrate_ledger)
    plot_ledger = staticmethod(timeline.plot_ledger)
