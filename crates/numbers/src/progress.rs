//! Long work under way: loads, saves, rewrites, synchronisations, moves of slots, an end that waits. INFO,
//! the log and the process all show one list, which `under_way.rs` makes of what the engine knows of such
//! work anyhow, and nobody keeps.
//!
//! Invariants: (1) while nothing long is under way, a tick of the cron costs some comparisons, and a command
//! nothing; (2) work that ends within `LONG_NS` is shown by nothing but INFO; (3) the log has a line for
//! each piece of work every `SAID_EVERY_NS`.

use sluice_base::progress::WorkProgress;
use std::fmt;

/// A piece of long work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWork {
    /// What is done.
    pub kind: WorkKind,
    /// How far it is.
    pub progress: WorkProgress,
}

/// What is done that may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Data are loaded: at the start, for DEBUG, or from a snapshot of the primary.
    Loading,
    /// The data are written to the RDB file.
    Saving,
    /// The data are written to the RDB file for the end of the server.
    FinalSave,
    /// The append-only file is rewritten.
    Rewriting,
    /// A snapshot for replicas is made.
    Snapshot {
        /// How many replicas take the snapshot.
        replicas: usize,
    },
    /// A replica is sent a snapshot.
    Sending {
        /// The replica's address.
        ip: String,
        /// The replica's port.
        port: i32,
    },
    /// A snapshot of the primary is received.
    Receiving {
        /// The primary's host and port.
        primary: String,
    },
    /// Slots move to another node.
    Exporting(SlotWork),
    /// Slots come from another node.
    Importing(SlotWork),
    /// The end of the server waits.
    Ending(AwaitedAtEnd),
}

/// An atomic move of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotWork {
    /// Its name in CLUSTER GETSLOTMIGRATIONS.
    pub job: String,
    /// Ranges of slots, `a-b c-d`; some of them where they are many.
    pub slots: String,
    /// The other node's id; empty where it is unknown.
    pub node: String,
}

/// What an end of the server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedAtEnd {
    /// A script or a transaction that is under way.
    Unit,
    /// So many replicas that lack something.
    Replicas(usize),
    /// A replica that takes over.
    TakeOver,
    /// Clients that are sent away.
    Clients,
    /// Nothing any more.
    Nothing,
}

impl WorkKind {
    /// A word for it, as INFO and the metrics endpoint have it.
    pub fn word(&self) -> &'static str {
        match self {
            WorkKind::Loading => "loading",
            WorkKind::Saving => "saving",
            WorkKind::FinalSave => "final_save",
            WorkKind::Rewriting => "rewriting",
            WorkKind::Snapshot { .. } => "snapshot",
            WorkKind::Sending { .. } => "sending",
            WorkKind::Receiving { .. } => "receiving",
            WorkKind::Exporting(_) => "exporting",
            WorkKind::Importing(_) => "importing",
            WorkKind::Ending(_) => "ending",
        }
    }
}

/// As an operator reads it.
impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        match self {
            WorkKind::Loading => write!(f, "Loading"),
            WorkKind::Saving => write!(f, "Saving"),
            WorkKind::FinalSave => write!(f, "Saving before shutting down"),
            WorkKind::Rewriting => write!(f, "Rewriting the AOF"),
            WorkKind::Snapshot { replicas } => {
                write!(f, "Making a snapshot for {replicas} replica{}", plural(*replicas))
            }
            WorkKind::Sending { ip, port } => {
                write!(f, "Sending a full synchronization to replica {ip}:{port}")
            }
            WorkKind::Receiving { primary } => {
                write!(f, "Receiving a full synchronization from primary {primary}")
            }
            WorkKind::Exporting(SlotWork { slots, node, .. }) => {
                write!(f, "Moving slots {slots} to node {node}")
            }
            WorkKind::Importing(SlotWork { slots, node, .. }) => {
                write!(f, "Importing slots {slots} from node {node}")
            }
            WorkKind::Ending(awaited) => match awaited {
                AwaitedAtEnd::Unit => write!(f, "Waiting for a running script before shutting down"),
                AwaitedAtEnd::Replicas(count) => {
                    write!(f, "Waiting for {count} replica{} before shutting down", plural(*count))
                }
                AwaitedAtEnd::TakeOver => {
                    write!(f, "Waiting for a replica to take over before shutting down")
                }
                AwaitedAtEnd::Clients => write!(f, "Waiting for clients to leave before shutting down"),
                AwaitedAtEnd::Nothing => write!(f, "Shutting down"),
            },
        }
    }
}

/// A line for the log.
impl fmt::Display for LongWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.progress)
    }
}

impl LongWork {
    /// Whether the work has taken long enough to be shown to people.
    pub fn is_long(&self) -> bool {
        self.progress.spent_ns >= LONG_NS
    }
}

/// When long work was told of, from the moment at which it was seen first.
#[derive(Clone, Copy, Debug)]
pub struct ProgressClock {
    said_ns: u64,
    shown_ns: u64,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Neither the process nor the log is told.
    Nothing,
    /// The process is shown it.
    Show,
    /// The log too.
    Say,
}

impl ProgressClock {
    /// Work is seen.
    pub fn new(now_ns: u64) -> ProgressClock {
        ProgressClock { said_ns: now_ns, shown_ns: now_ns }
    }

    /// What is to be told now; it counts as told.
    pub fn tick(&mut self, now_ns: u64) -> Telling {
        if now_ns.saturating_sub(self.shown_ns) < SHOWN_EVERY_NS {
            return Telling::Nothing;
        }
        self.shown_ns = now_ns;
        if now_ns.saturating_sub(self.said_ns) < SAID_EVERY_NS {
            return Telling::Show;
        }
        self.said_ns = now_ns;
        Telling::Say
    }
}

/// Time between two lines of the log about a piece of work.
const SAID_EVERY_NS: u64 = 5_000_000_000;
/// Time between two looks of the process: a bar of a terminal moves.
const SHOWN_EVERY_NS: u64 = 100_000_000;
/// Work that takes longer is shown to people.
const LONG_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::progress::ProgressUnit;

    #[test]
    fn the_log_has_a_line_every_five_seconds_and_the_process_a_look_ten_times_a_second() {
        let mut clock = ProgressClock::new(0);
        assert_eq!(clock.tick(99_999_999), Telling::Nothing);
        assert_eq!(clock.tick(100_000_000), Telling::Show);
        assert_eq!(clock.tick(150_000_000), Telling::Nothing);
        assert_eq!(clock.tick(5_000_000_000), Telling::Say);
        assert_eq!(clock.tick(9_900_000_000), Telling::Show);
        assert_eq!(clock.tick(10_000_000_000), Telling::Say);
        assert_eq!(clock.tick(0), Telling::Nothing, "a clock that is set back");
    }

    #[test]
    fn a_line_says_what_is_done_and_how_far_it_is() {
        let progress = |unit| WorkProgress { done: 1000, total: Some(4000), unit, spent_ns: 2_000_000_000 };
        let (keys, ms) = (progress(ProgressUnit::Keys), progress(ProgressUnit::Milliseconds));
        let line = |kind, progress| LongWork { kind, progress }.to_string();
        assert_eq!(
            line(WorkKind::Rewriting, keys),
            "Rewriting the AOF: 25.0% of 4000 keys, 500 keys/s, 6 seconds left"
        );
        assert_eq!(
            line(WorkKind::Ending(AwaitedAtEnd::Replicas(1)), ms),
            "Waiting for 1 replica before shutting down: 1 second of 4 seconds at most"
        );
        assert_eq!(
            line(WorkKind::Ending(AwaitedAtEnd::TakeOver), ms),
            "Waiting for a replica to take over before shutting down: 1 second of 4 seconds at most"
        );
        let sending = WorkKind::Sending { ip: "10.0.0.5".to_owned(), port: 7001 };
        assert!(
            line(sending, keys).starts_with("Sending a full synchronization to replica 10.0.0.5:7001: 2")
        );
    }
}
