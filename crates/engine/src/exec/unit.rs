//! The execution unit: what happens at one moment for everybody else. A command, an EXEC, the service of a
//! client that waited, a deletion by the cron. `exec/unit/lifecycle.rs` opens and closes units.

mod lifecycle;

use crate::exec::standing::Standing;
use sluice_base::Now;
use sluice_cluster::HashSlot;
use sluice_replication::{Audience, UnitCommands};
use sluice_resp::Protocol;
use sluice_scripts::run::ScriptRun;
use sluice_session::transaction::Transaction;

/// An execution unit under way, and what its commands have done so far: a unit that stands still takes that
/// along.
#[derive(Debug)]
#[must_use = "a unit that is not closed loses what its commands have done"]
pub(crate) struct Unit {
    /// The time at which the unit happens: keys expire by it.
    pub now: Now,
    /// In whose name its commands run just now.
    pub standing: Standing,
    /// Its commands for the replication stream and the append-only file; nothing before the first one.
    pub commands: Option<Box<UnitCommands>>,
    /// Who is told of its commands' changes; nobody where a script has said so.
    pub audience: Option<Audience>,
    /// What its client speaks, while a command runs whose reply is a script's.
    pub client_proto: Option<Protocol>,
    /// What TIME tells, where that is another time.
    pub told_now: Option<Now>,
    /// The slot of a cluster for which its client's command counts.
    pub counts_for: CountedSlot,
    /// Where its run has just come to stand still, for whoever leaves the unit open.
    pub stood_still: Option<Box<StoodStill>>,
}

/// The slot of a cluster for which a client's command counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedSlot {
    /// The slot of the keys that the command names, if they are of one.
    OfKeys,
    /// The slot that its queued commands, or the calls of its script, have named.
    Of(HashSlot),
    /// None: a script that may cross slots has called a command with keys.
    None,
}

/// Where a run stands still.
#[derive(Debug)]
pub(crate) struct StoodStill {
    /// The transaction in whose middle it stands still.
    pub transaction: Option<TransactionPosition>,
    /// The script that stands still.
    pub script: Option<Box<ScriptRun>>,
    /// When it is to go on, ns of the monotonic clock.
    pub until_ns: u64,
}

/// Where an EXEC stands still.
#[derive(Debug)]
pub(crate) struct TransactionPosition {
    /// The commands of the transaction.
    pub transaction: Box<Transaction>,
    /// The command that is next, or whose script stands still.
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
            stood_still: None,
        }
    }
}
