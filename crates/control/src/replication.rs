//! Replication in both directions: this server's role, its failover, and the offsets of its replicas.

pub mod acks;
pub mod applied;
pub mod failover;
mod link;
pub mod local_expiry;
pub mod maintenance;
mod replicas;
pub mod role;
pub mod waitaof;
