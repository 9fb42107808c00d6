"""Statistics that are ranks: quantiles, minima and maxima, bounds, and the public candidates they choose among."""
