"""Lessons 8 to 10: private training by hand, its parameters, and attacks on what was trained."""
