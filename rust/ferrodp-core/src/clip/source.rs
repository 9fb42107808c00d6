//! How elements get to the tiles that kernels compute with. Nothing in here knows a norm.

pub(super) mod copy;
pub(super) mod difference;
pub(super) mod element;
pub(super) mod leaf;
pub(super) mod plain;
