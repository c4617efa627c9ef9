//! Counters and their display: statistics, latencies, the command log and its hidden secrets, hot keys, the
//! progress of long work, the rows of INFO and of the metrics endpoint, samples of all numbers, and the
//! content of that endpoint's page.
//!
//! ```text
//!  counters, Facts ──sections (in the engine)──► Sink ──► lines of INFO
//!                                                  └────► MetricsSample ──text, JSON──► the endpoint
//! ```
//!
//! The crates that depend on this crate do the counting, and know the clients and keys that a number is
//! about. Facts about the process are passed in as values ([`facts`]); no code here queries the process.
//!
//! Invariants: (1) the crate has no access to sessions or to the control plane: shown clients are copies; (2)
//! a field of INFO has one row, which both renderers read; (3) all data kept for display is bounded, whatever
//! clients send.
#![forbid(unsafe_code)]

pub mod commandlog;
pub mod facts;
pub mod hot_keys;
pub mod info;
pub mod latency;
pub mod page;
pub mod progress;
pub mod redact;
pub mod stats;
