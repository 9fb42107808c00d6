"""Lessons 5 to 7: what releases cost, one after the other and about samples."""
