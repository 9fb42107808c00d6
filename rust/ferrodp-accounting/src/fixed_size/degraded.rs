//! Each term of the error budget, left out.
