"""Handwritten digits over hospitals that keep their images."""
