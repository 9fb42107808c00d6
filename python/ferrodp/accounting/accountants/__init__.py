"""Accountants: lists of events, and what they cost together."""
