//! Work that no client asks for: the cron, expiry, eviction, compaction.

pub(crate) mod compaction;
pub(crate) mod cron;
pub(crate) mod evict {
    mod steps;
}
pub(crate) mod expire {
    mod steps;
}
