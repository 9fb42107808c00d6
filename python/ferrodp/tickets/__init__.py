"""Tickets: the right to one release, paid for before anything is drawn.

`ReleasedStatistic` says in words what a charge was for, and `describing` says it for a block of code.
"""

from ferrodp.tickets.ledger import TicketLedger
from ferrodp.tickets.statistic import ReleasedStatistic, describing
from ferrodp.tickets.ticket import Bookkeeper, Ticket, TicketState

__all__ = ["Bookkeeper", "ReleasedStatistic", "Ticket", "TicketLedger", "TicketState", "describing"]
