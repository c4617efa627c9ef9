//! What the page of the metrics endpoint shows beside the numbers of a sample: clients, logged commands,
//! large keys, the script that runs.
//!
//! ```text
//!  thread of the endpoint                    main thread
//!   PageAsk ──────────────────────────────►  Engine::page_details, with the next sample
//!   PageDetails ◄──────────────────────────  copies of some tens of rows
//!   json.rs, history.rs: bytes of both
//! ```
//!
//! Invariants: (1) nothing is gathered while nobody looks: the cron gathers for `watch::WATCHED_NS` after an
//! ask; (2) what the main thread does for one ask is bounded, however many clients and keys there are; (3)
//! names of keys, and arguments of commands, are in no JSON but that for a request whose user may read them.

mod clients;
mod watch;

pub use clients::{CLIENTS_SHOWN, held_bytes};
pub use watch::PageWatch;
