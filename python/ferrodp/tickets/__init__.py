"""Tickets: the right to one release, paid for before anything is drawn."""

from ferrodp.tickets.ledger import TicketLedger
from ferrodp.tickets.ticket import Bookkeeper, Ticket, TicketState

__all__ = ["Bookkeeper", "Ticket", "TicketLedger", "TicketState"]
