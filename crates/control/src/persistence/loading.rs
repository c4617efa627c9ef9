//! Loading: a keyspace is filled on a thread of its own, where no client sees it, and handed over whole.
//!
//! ```text
//!  main thread                                     the thread of the load
//!  begins ────────── Action::Load(LoadJob) ──────► LoadJob::run
//!    │  commands get -LOADING, INFO the numbers ◄─ LoadProgress, wake-up with each line of the log
//!    │  old data to the freeing thread ◄────────── the file is one that can be loaded: wake-up
//!  Engine::advance_load ◄───────────────────────── the keyspace, or why there is none: wake-up
//! ```
//!
//! Invariants: (1) nobody but the load sees the keyspace that is filled, and the main thread waits for
//! nothing; (2) keys that have expired are left out; (3) nothing of it is an effect: nothing is propagated,
//! no change is counted; clients that watch keys learn that the old ones are gone and the new ones came; (4)
//! memory beside the keyspace: one piece, and the value that is read; (5) the old data go when the load
//! begins, before there is a second copy, except where the file is merged into them: then they are what the
//! load fills; (6) while a load is under way the engine's keyspace is empty and stays empty, or is what an
//! append-only file will replace: the gate lets no command pass that could change it, and nothing is saved or
//! rewritten.
//!
//! # Other sources and other loads
//!
//! *A replica's full sync* is a [`SnapshotSource`](sluice_snapshot::SnapshotSource) whose `read` waits for
//! the bytes that the main thread receives and passes on by a channel, and fails when the channel's other end
//! is gone. `open` answers 0 bytes where the primary does not say how many come. With `swapdb` the old data
//! stay: `OldData::Kept`. Where they are those of the same history, the check `loading` of the gate lets
//! commands pass that read them.
//!
//! *The append-only file* is replayed by a second engine without clients, which [`LoadJob::run`] makes on the
//! load's thread: the engine is given the job's keyspace, runs the commands of the log by it, and gives the
//! keyspace back (`loading/aof.rs`). The old data stay until then: no log that turns out to be damaged takes
//! them.

pub mod aof;
mod job;
mod plan;
mod under_way;

pub use job::LoadJob;
pub use job::LoadSource;
pub use plan::{LoadPlan, LoadPurpose, OldData};
pub(crate) use under_way::NOT_RELOADED;
pub use under_way::{LoadEnded, LoadUnderWay, LoadedFrom};
