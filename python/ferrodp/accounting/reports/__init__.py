"""Answers for people and other programs: comparisons, trade-offs, plots, estimates, imports."""
