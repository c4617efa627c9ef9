//! What clients hear of: subscriptions, messages for many of them, keys that are watched or cached.
//!
//! A client is its [`SessionKey`](sluice_base::SessionKey) here. The engine above knows what a session is,
//! and how a message reaches its socket.
//!
//! Invariants: (1) no session: what is told to whom comes back as a value, or as a list; (2) a client that
//! goes costs what the client had, not what all have; (3) lists that the gate draws conclusions from advance
//! their epoch.
#![forbid(unsafe_code)]

pub mod multicast;
pub mod registry;
pub mod tracking;
pub mod watch;
