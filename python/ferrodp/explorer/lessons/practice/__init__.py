"""Lessons 11 and 12: many parties, and the choice of a guarantee."""
