//! What expiry and eviction remember between two slices.

pub mod evict;
pub mod expire;
mod holds;
