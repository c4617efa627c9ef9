//! Work that no client asks for, such as the cron, expiry, eviction and compaction.

pub(crate) mod compaction;
pub(crate) mod cron;
pub(crate) mod detached;
pub(crate) mod evict;
pub(crate) mod expire;
pub(crate) mod promised;
