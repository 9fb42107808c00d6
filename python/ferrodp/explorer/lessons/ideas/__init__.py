"""Lessons 1 to 4: what differential privacy says, and what noise has to be."""
