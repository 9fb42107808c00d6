//! Noise with exactly the stated law, on a grid.
