//! Loops over tiles of `f32` and `f64`. A kernel never chooses a route, and knows no strides but those of a matrix.

pub(super) mod add_rows;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(super) mod fused_measure;
pub(super) mod lanes;
pub(super) mod measure;
mod panel_squares;
pub(super) mod panels;
pub(super) mod prefetch;
pub(super) mod transpose;
#[cfg(target_arch = "x86_64")]
mod transpose_avx512;
