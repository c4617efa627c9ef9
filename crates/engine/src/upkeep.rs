//! Work that no client asks for: the cron, expiry, eviction, compaction.

pub(crate) mod compaction;
pub(crate) mod cron;
pub(crate) mod detached;
pub(crate) mod evict;
pub(crate) mod expire;
pub(crate) mod promised;
