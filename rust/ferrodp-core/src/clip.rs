//! Norms, scaling, quantised rows and integer sums.
