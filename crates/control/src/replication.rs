//! Replication both ways: this server's role, its failover, and how far its replicas are.

pub mod acks;
pub mod applied;
pub mod failover;
mod link;
pub mod local_expiry;
pub mod maintenance;
mod replicas;
pub mod role;
pub mod waitaof;
