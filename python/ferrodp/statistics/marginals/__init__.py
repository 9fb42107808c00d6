"""Contingency tables of a set of columns: measured once as integers, consistent with one another."""
