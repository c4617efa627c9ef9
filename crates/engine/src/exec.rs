//! Execution: from a batch of parsed requests to replies.
//!
//! 1. `prepare` looks up the command of every request and hashes the request's first 16 keys; the buckets
//!    and entries of these keys are prefetched.
//! 2. For each request in order: checks of existence and arity, the gate (all other checks), an execution
//!    unit that collects the effects, the handler with its context, and the commit of the effects; then the
//!    clients whose waits the effects may end are served.
//!
//! Batches are in `exec/batch.rs`, the run of one request in `exec/request.rs`, the contexts of handlers
//! in the crate `control` (`ctx.rs`), and the call of a handler with its context in `exec/dispatch.rs`.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod declared;
mod dispatch;
pub(crate) mod finish;
pub(crate) mod gate;
pub(crate) mod open_unit;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod standing;
mod transaction;
pub(crate) mod unit;
