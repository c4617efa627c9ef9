//! The execution unit: commands that take effect at one moment for all other clients. A unit is a command, an
//! EXEC, the service of a client that waited, or a change that no client asked for, such as a deletion by the
//! cron. `exec/unit/lifecycle.rs` opens and closes units.

mod lifecycle;

use crate::exec::standing::Standing;
use sluice_base::Now;
use sluice_cluster::HashSlot;
use sluice_replication::{Audience, UnitCommands};
use sluice_resp::Protocol;
use sluice_scripts::run::ScriptRun;
use sluice_session::transaction::Transaction;

/// An execution unit under way, with the commands that it has recorded so far. A suspended run
/// keeps its unit.
#[derive(Debug)]
#[must_use = "a unit that is not closed loses what its commands have done"]
pub(crate) struct Unit {
    /// The time at which the unit happens: keys expire by it.
    pub now: Now,
    /// The standing of the command that runs now.
    pub standing: Standing,
    /// Recorded commands for the replication stream and the append-only file; `None` before the first.
    pub commands: Option<Box<UnitCommands>>,
    /// Receivers of the recorded commands; `None` if a script has turned propagation off.
    pub audience: Option<Audience>,
    /// Protocol of the client itself, set while a script's call runs, because the reply to that call is for
    /// the script and may be in another protocol.
    pub client_proto: Option<Protocol>,
    /// Time that TIME replies with, if it differs from `now`.
    pub told_now: Option<Now>,
    /// Slot of a cluster for which the client's command counts.
    pub counts_for: CountedSlot,
    /// Where the run was just suspended; the code that leaves the unit open takes this value.
    pub suspended: Option<Box<Suspension>>,
}

/// Slot of a cluster for which a client's command counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedSlot {
    /// The slot of the keys that the command names, if all are in one slot.
    OfKeys,
    /// The slot of the keys of the queued commands, or of the keys of the script's calls.
    Of(HashSlot),
    /// No slot: a script has called a command whose keys are in several slots, or a script that may cross
    /// slots has called a command with keys.
    None,
}

/// Where a run is suspended.
#[derive(Debug)]
pub(crate) struct Suspension {
    /// The transaction that is suspended; `None` if the script is no part of one.
    pub transaction: Option<TransactionPosition>,
    /// The script that is suspended; `None` between two commands of a transaction.
    pub script: Option<Box<ScriptRun>>,
    /// When the run goes on, ns of the monotonic clock.
    pub until_ns: u64,
}

/// Position in an EXEC that is suspended.
#[derive(Debug)]
pub(crate) struct TransactionPosition {
    /// The commands of the transaction.
    pub transaction: Box<Transaction>,
    /// Index of the command that is next, or whose script is suspended.
    pub next: usize,
}

impl Unit {
    /// A unit without commands, which happens at `now` for the command of a client.
    #[inline]
    pub(crate) fn new(now: Now) -> Unit {
        Unit {
            now,
            standing: Standing::Client,
            commands: None,
            audience: Some(Audience::All),
            client_proto: None,
            told_now: None,
            counts_for: CountedSlot::OfKeys,
            suspended: None,
        }
    }
}
