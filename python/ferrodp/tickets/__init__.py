"""Tickets: the right to one release, paid for before anything is drawn."""

from ferrodp.tickets.ticket import Bookkeeper, Ticket, TicketState

__all__ = ["Bookkeeper", "Ticket", "TicketState"]
