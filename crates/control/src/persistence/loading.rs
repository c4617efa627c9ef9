//! Loading: a keyspace is filled on a thread of its own, invisible to clients, and installed when complete.
//!
//! ```text
//!  main thread                                     the thread of the load
//!  begins ────────── Action::Load(LoadJob) ──────► LoadJob::run
//!    │  commands get -LOADING, INFO the numbers ◄─ LoadProgress, wake-up with each line of the log
//!    │  old data to the freeing thread ◄────────── the file is one that can be loaded: wake-up
//!  Engine::advance_load ◄───────────────────────── the keyspace, or why there is none: wake-up
//! ```
//!
//! Invariants: (1) only the load sees the keyspace being filled, and the main thread waits for nothing,
//! except for DEBUG RELOAD in a transaction; (2) expired keys of a snapshot are left out, except on a
//! replica; (3) loading has no effects: nothing is propagated, except the deletions of left-out keys after
//! the start, and no change is counted; watched keys count as changed if they are removed or added; (4)
//! besides the keyspace, a load needs memory for one piece of the file and the value being read; (5) the old
//! data is freed once the file is known to be loadable, before there is a second copy, except as described
//! below; a file can also be merged into the old data; (6) during a load the engine's keyspace is empty and
//! stays empty, or has old data that the load will replace: the gate refuses every command that could change
//! it, and nothing is saved or rewritten.
//!
//! # Other sources and other loads
//!
//! *A replica's full sync* is a [`SnapshotSource`](sluice_snapshot::SnapshotSource) whose `read` waits for
//! the bytes that the main thread receives and passes on by a channel, and fails when the other end of the
//! channel is gone. `open` returns 0 bytes if the primary does not announce the size. With
//! `repl-diskless-load swapdb` the old data stays: `OldData::Kept`. If the old data belongs to the same
//! history, the gate's check `loading` permits commands that read it.
//!
//! *The append-only file* is replayed by a second engine without clients, which [`LoadJob::run`] makes on the
//! load's thread: that engine receives the job's keyspace, runs the commands of the log on it, and returns
//! the keyspace (`loading/aof.rs`). The old data stays until then, so a damaged log does not destroy it.

pub mod aof;
mod job;
mod plan;
mod under_way;

pub use job::LoadJob;
pub use job::LoadSource;
pub use plan::{LoadPlan, LoadPurpose, OldData};
pub(crate) use under_way::NOT_RELOADED;
pub use under_way::{LoadEnded, LoadUnderWay, LoadedFrom};
