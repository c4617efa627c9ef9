//! Observation by operators: INFO, counters, latencies, logs.

pub(crate) mod hot_keys;
pub(crate) mod logging;
pub(crate) mod page;
pub(crate) mod progress;
