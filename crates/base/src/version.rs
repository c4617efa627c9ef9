//! The versions that the server reports.

/// The version of Valkey whose behaviour this server reproduces.
pub const COMPATIBLE: &str = "9.1.2";
/// The version of Redis that INFO and HELLO report, for clients that know only Redis.
pub const REDIS_COMPATIBLE: &str = "7.2.4";
