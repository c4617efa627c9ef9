//! Replication both ways: this server's role and link to its primary, and its own replicas with their stream.

pub(crate) mod failover;
pub(crate) mod full_sync;
pub(crate) mod link;
pub(crate) mod local_expiry;
pub(crate) mod maintenance;
pub(crate) mod replicas;
pub(crate) mod role;
pub(crate) mod transport;
