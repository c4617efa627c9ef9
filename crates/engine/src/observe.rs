//! What operators see: INFO, counters, latencies, logs.

pub(crate) mod hot_keys {
    mod steps;
}
pub(crate) mod info;
pub(crate) mod logging;
pub(crate) mod memory_parts;
pub(crate) mod page;
pub(crate) mod progress {
    mod steps;
    pub(crate) mod under_way;
}
