"""Events that a test may use: what is seen of outputs, and which sets of outputs one is chosen among."""
