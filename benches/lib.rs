//! Holds no code: the benches beside it are run with `cargo bench -p ferrodp-benches`.
