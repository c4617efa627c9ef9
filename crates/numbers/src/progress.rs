//! Long work in progress: loads, saves, rewrites, synchronisations, moves of slots, a pending shutdown.
//! INFO, the metrics endpoint, the log, the progress bar and the status for systemd show the same list. The
//! control plane's `under_way.rs` derives the list from the state each time; no list is stored.
//!
//! Invariants: (1) without long work, a tick of the cron costs a few comparisons, and a command costs
//! nothing; (2) work that ends within `LONG_NS` appears only in INFO and at the metrics endpoint; (3) the log
//! has a line for each longer piece of work every `LOGGED_EVERY_NS`.

use sluice_base::progress::WorkProgress;
use std::fmt;

/// A piece of work that may take long, with its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWork {
    /// The kind of work, with its details.
    pub kind: WorkKind,
    /// Amounts done and left, and the time taken.
    pub progress: WorkProgress,
}

/// Kinds of work that may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Data is loaded: at the start, for DEBUG, or from a snapshot of the primary.
    Loading,
    /// The data is written to the RDB file.
    Saving,
    /// The data is written to the RDB file before the server ends.
    FinalSave,
    /// The append-only file is rewritten.
    Rewriting,
    /// A snapshot for replicas is being made.
    Snapshot {
        /// Number of replicas that take the snapshot.
        replicas: usize,
    },
    /// A snapshot is sent to a replica.
    Sending {
        /// Address of the replica.
        ip: String,
        /// Port of the replica.
        port: i32,
    },
    /// A snapshot of the primary is received.
    Receiving {
        /// The primary's host and port.
        primary: String,
    },
    /// Slots are moved to another node.
    Exporting(SlotWork),
    /// Slots are received from another node.
    Importing(SlotWork),
    /// A shutdown waits before the server ends.
    Ending(AwaitedAtEnd),
}

/// An atomic migration of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotWork {
    /// Id of the job in CLUSTER GETSLOTMIGRATIONS.
    pub job: String,
    /// Ranges of slots, `a-b c-d`; only the first ones if there are many.
    pub slots: String,
    /// The other node's id; empty if unknown.
    pub node: String,
}

/// The condition that a shutdown waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedAtEnd {
    /// The end of a script or transaction in progress.
    Unit,
    /// The number of replicas that have not yet received the whole stream.
    Replicas(usize),
    /// The replica that takes over as primary.
    TakeOver,
    /// Clients that are redirected to another node and have not left yet.
    Clients,
    /// The shutdown waits no longer.
    Nothing,
}

impl WorkKind {
    /// A word for the kind, used by INFO and the metrics endpoint.
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

/// The description for operators.
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

/// The line for the log: the work and its progress.
impl fmt::Display for LongWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.progress)
    }
}

impl LongWork {
    /// Whether the work has taken `LONG_NS` or longer, so that the log and the progress bar show it.
    pub fn is_long(&self) -> bool {
        self.progress.spent_ns >= LONG_NS
    }
}

/// The times at which work was last logged and last shown; initially the time at which it was first seen.
#[derive(Clone, Copy, Debug)]
pub struct ProgressClock {
    said_ns: u64,
    shown_ns: u64,
}

/// The parties to inform of the work's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressOutput {
    /// Neither the process nor the log.
    Nothing,
    /// Only the process, which may draw a progress bar.
    Process,
    /// The process and the log.
    ProcessAndLog,
}

impl ProgressClock {
    /// A clock for work that was first seen at `now_ns`.
    pub fn new(now_ns: u64) -> ProgressClock {
        ProgressClock { said_ns: now_ns, shown_ns: now_ns }
    }

    /// Returns the parties to inform now, and counts them as informed.
    pub fn tick(&mut self, now_ns: u64) -> ProgressOutput {
        if now_ns.saturating_sub(self.shown_ns) < SHOWN_EVERY_NS {
            return ProgressOutput::Nothing;
        }
        self.shown_ns = now_ns;
        if now_ns.saturating_sub(self.said_ns) < LOGGED_EVERY_NS {
            return ProgressOutput::Process;
        }
        self.said_ns = now_ns;
        ProgressOutput::ProcessAndLog
    }
}

/// Time between two log lines about a piece of work, in ns.
const LOGGED_EVERY_NS: u64 = 5_000_000_000;
/// Time between two updates of the display by the process, in ns: short enough for a progress bar.
const SHOWN_EVERY_NS: u64 = 100_000_000;
/// Work that takes this long or longer, in ns, is also shown by the log and the progress bar.
const LONG_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::progress::ProgressUnit;

    #[test]
    fn the_log_has_a_line_every_five_seconds_and_the_process_a_look_ten_times_a_second() {
        let mut clock = ProgressClock::new(0);
        assert_eq!(clock.tick(99_999_999), ProgressOutput::Nothing);
        assert_eq!(clock.tick(100_000_000), ProgressOutput::Process);
        assert_eq!(clock.tick(150_000_000), ProgressOutput::Nothing);
        assert_eq!(clock.tick(5_000_000_000), ProgressOutput::ProcessAndLog);
        assert_eq!(clock.tick(9_900_000_000), ProgressOutput::Process);
        assert_eq!(clock.tick(10_000_000_000), ProgressOutput::ProcessAndLog);
        assert_eq!(clock.tick(0), ProgressOutput::Nothing, "a clock that is set back");
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
