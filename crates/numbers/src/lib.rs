//! What is counted and shown: statistics, latencies, logs of slow commands, hot keys, the rows of INFO and
//! of the metrics endpoint, samples of all numbers, what the page of that endpoint shows.
//!
//! ```text
//!  counters, Facts ──sections (in the engine)──► Sink ──► lines of INFO
//!                                                  └────► MetricsSample ──text, JSON──► the endpoint
//! ```
//!
//! Who counts, and which clients and keys a number is about, is known above. Facts about the process come in
//! as values ([`facts`]): nothing here asks for one.
//!
//! Invariants: (1) no session and no control plane: what is shown of a client is a copy; (2) a field of INFO
//! has one row, which both renderers read; (3) what is kept for display is bounded, whatever clients send.
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
