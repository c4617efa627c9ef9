//! Requests that wait, for example for a key, for other servers, or for a thread that produces their reply.

pub(crate) mod ending;
pub(crate) mod migration;
pub(crate) mod serve;
pub(crate) mod slow_reads;
