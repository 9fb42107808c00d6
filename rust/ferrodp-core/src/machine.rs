//! What the processor and the operating system give, or may refuse: memory, threads, forks.
//!
//! [`memory`]: vectors whose length an argument decides; [`hashing`]: maps without a random key; [`blocks`]: fixed blocks of a
//! buffer, shared among scoped threads; [`fork`]: the generation of this process; `wiped`: memory that no child inherits;
//! `residue`: erases keys and keystream after each call.

pub mod blocks;
pub mod fork;
pub mod hashing;
pub mod memory;
pub(crate) mod residue;
pub(crate) mod wiped;
