"""The budget: a ledger on disk that no crash, race or restart can make forget what was spent.

A ledger holds *scopes*, each with a promise (ε, δ) about one collection of data. Whoever wants to release something
reserves its cost first and gets a *ticket*; with the ticket the release is made. What was armed is spent.
"""

from ferrodp.budget.lease import Lease
from ferrodp.budget.ledger import PrivacyLedger
from ferrodp.budget.log.records import Head
from ferrodp.budget.report import Reading, ScopeReport, TicketReport
from ferrodp.budget.stores.postgres.roles import grant
from ferrodp.budget.transfer import import_ledger, migrate_ledger
from ferrodp.tickets import Ticket, TicketState

__all__ = [
    "Head",
    "Lease",
    "PrivacyLedger",
    "Reading",
    "ScopeReport",
    "Ticket",
    "TicketReport",
    "TicketState",
    "grant",
    "import_ledger",
    "migrate_ledger",
]
