//! The state of expiry and eviction between two slices.

pub mod evict;
pub mod expire;
mod holds;
