//! State about the interests of clients: subscriptions, watched keys, cached keys, and messages
//! for many clients.
//!
//! A client is only a [`SessionKey`](sluice_base::SessionKey) here. The engine knows sessions and sends
//! the messages to sockets.
//!
//! Invariants: (1) this crate has only the keys of sessions, never the sessions: functions return receivers
//! as keys or lists of keys; (2) removing a client costs O(its own subscriptions and keys), not O(all); (3) a
//! change on which the checks before a command (the gate) depend advances the epoch of the list that changes.
#![forbid(unsafe_code)]

pub mod multicast;
pub mod registry;
pub mod tracking;
pub mod watch;
