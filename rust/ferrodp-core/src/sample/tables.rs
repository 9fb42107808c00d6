//! Piecewise polynomials and nodes, written by `tables/generate.py` and checked by `tables/verify.py`.

pub(super) mod mills;
pub(super) mod quantile;
pub(super) mod single;
