//! Benches of the kernels.
fn main() {}
