//! What operators see: INFO, counters, latencies, logs.

pub(crate) mod hot_keys {
    mod steps;
}
pub(crate) mod info {
    mod steps;
}
pub(crate) mod logging;
pub(crate) mod memory_parts;
pub(crate) mod page {
    mod steps;
}
pub(crate) mod progress {
    mod steps;
}
