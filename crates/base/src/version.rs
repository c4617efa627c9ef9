//! The versions by which the server names itself.

/// The version of Valkey whose behaviour this server keeps.
pub const COMPATIBLE: &str = "9.1.2";
/// The version of Redis that INFO and HELLO report to clients of that age.
pub const REDIS_COMPATIBLE: &str = "7.2.4";
