//! Queues between threads: bounded rings that never block, never allocate after they are made, and lose
//! nothing.
//!
//! | module | producers → consumers | for | cost of a value on the common path |
//! |---|---|---|---|
//! | [`spsc`] | one → one | a thread's private inbox | no read-modify-write, no line of the other side |
//! | [`spmc`] | one → many | a pool's shared queue, in no use yet | pop: one compare-and-swap a *batch* |
//! | [`lanes`] | many → one | responses: a ring and a bit for each worker | one read-modify-write a *batch* |
//!
//! Invariants of all queues: (1) nothing waits: an operation finishes in a bounded number of its own
//! steps, or (`spmc` only) loses a race that another thread wins; (2) a full queue gives the value back
//! in [`Full`]; (3) every pushed value is taken exactly once, or dropped with the queue exactly once; (4)
//! a consumer gets the values of one producer in the order in which they were pushed; (5) a role is a
//! type: a handle that must be unique cannot be cloned and works through `&mut self`; (6) indexes run
//! freely and wrap at `usize::MAX`, capacities are powers of two; (7) data that one side writes often and
//! the other reads are 128 bytes apart (adjacent lines are fetched in pairs, and some processors have
//! lines of 128); (8) a queue depends on neither its values nor threads nor clocks.
//!
//! An answer "empty" or "full" may be out of date when the caller reads it. A consumer that is about to
//! sleep announces its sleep, executes `fence(SeqCst)`, checks once more, and only then sleeps; a
//! producer that pushed executes `fence(SeqCst)` and then reads the announcement. `tests/loom_spmc.rs`
//! has this handshake as a model.
//!
//! # Checks
//!
//! Unit tests beside each module compare the queue with a simple model, from first indexes on both sides of
//! the wrap, and with capacities from 2. `cargo xtask loom` explores the interleavings of `tests/loom_*.rs`;
//! `cargo xtask deep loom-mutants` weakens each ordering that `primitive::edge` names and expects that a
//! model then fails. This command runs the tests under ThreadSanitizer:
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
//!     TSAN_OPTIONS="suppressions=tsan-suppressions" cargo test -p sluice-queue --lib \
//!     --target x86_64-unknown-linux-gnu --target-dir target/tsan
//! ```
//!
//! `cargo bench -p sluice-micro --bench queues` measures the speed; results are in `bench/record/`.

#![deny(unsafe_code)]

mod capacity;
mod padded;
mod primitive;
mod slot;
#[cfg(all(test, not(loom)))]
mod twin;

pub mod lanes;
pub mod spmc;
pub mod spsc;

pub use capacity::Capacity;
pub use lanes::Notified;
pub use padded::Padded;

/// The error of a queue without room. The caller gets the refused value back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);
