//! The content of the metrics endpoint's page in addition to the numbers of a sample: clients, logged
//! commands, large keys, the running script.
//!
//! ```text
//!  thread of the endpoint                    main thread
//!   PageAsk ──────────────────────────────►  Engine::page_details, with the next sample
//!   PageDetails ◄──────────────────────────  copies of some tens of rows
//!   json.rs, history.rs: bytes of both
//! ```
//!
//! Invariants: (1) the cron gathers only for some time after a request (`watch.rs`); (2) the main thread's
//! work for a request is bounded, however many clients and keys there are; (3) names of keys and arguments of
//! commands appear only in the JSON for a request whose user may read them.

mod clients;
mod watch;

pub use clients::{CLIENTS_SHOWN, held_bytes};
pub use watch::PageWatch;
