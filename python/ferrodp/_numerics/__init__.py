"""Arithmetic with proven directions of rounding, for events, accounting and whatever reports a bound."""
