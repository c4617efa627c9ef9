//! Slot migrations for the metrics endpoint and its page: the row of each migration (job) in the node's state
//! machine, and its progress in keys and bytes.

use crate::cluster::mode::ClusterMode;
use sluice_cluster::{JobName, MigrationRow, SlotSet};
use sluice_keyspace::Keyspace;
use sluice_session::Sessions;

/// A slot migration, for lists that have the newest migration first.
#[derive(Clone, Debug)]
pub struct ShownMove<'a> {
    /// The row of CLUSTER GETSLOTMIGRATIONS.
    pub row: MigrationRow<'a>,
    /// Progress; `None` if the migration has ended or is carried out by other nodes.
    pub progress: Option<MoveProgress>,
}

/// The progress of a slot migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// For an export, keys appended to the stream by the walk over the slots, without keys that clients wrote
    /// during the walk; for an import, keys present here.
    pub keys: u64,
    /// For an export, keys in the slots whose walk has not begun.
    pub keys_left: u64,
    /// Bytes sent or received so far.
    pub bytes: u64,
    /// Bytes of an export that have not left this node: `remaining_repl_size`.
    pub bytes_left: u64,
    /// Whether writers of the slots are held.
    pub holds_writers: bool,
    /// Whether writers of the slots are slowed down, because the other node receives data more slowly than
    /// they write.
    pub is_braked: bool,
}

/// All migrations that the node remembers. Cost: O(slots of migrations in progress · databases with keys).
pub fn shown_moves<'a>(
    mode: &'a ClusterMode,
    keyspace: &'a Keyspace,
    sessions: &'a Sessions,
) -> impl Iterator<Item = ShownMove<'a>> {
    mode.machine.migrations().map(move |row| {
        let progress =
            sent(mode, keyspace, row.name).or_else(|| received(mode, keyspace, sessions, row.name));
        ShownMove { row, progress }
    })
}

fn sent(mode: &ClusterMode, keyspace: &Keyspace, job: JobName) -> Option<MoveProgress> {
    let link = mode.moves.exports.iter().find(|link| link.job == job)?;
    let Some(export) = link.stream.and_then(|id| mode.exports().of(id)) else {
        return Some(MoveProgress::default());
    };
    Some(MoveProgress {
        keys: export.keys,
        keys_left: keys_of(keyspace, export.slots_left()),
        bytes: export.sent_bytes(),
        bytes_left: export.unsent_bytes(),
        holds_writers: export.holds_writers(),
        is_braked: export.is_braked(),
    })
}

fn received(
    mode: &ClusterMode,
    keyspace: &Keyspace,
    sessions: &Sessions,
    job: JobName,
) -> Option<MoveProgress> {
    let link = mode.moves.links.iter().find(|link| link.job == job)?;
    let bytes = sessions.get(link.session).map_or(0, |session| session.caller.traffic.net_in);
    Some(MoveProgress { keys: keys_of(keyspace, &link.slots), bytes, ..MoveProgress::default() })
}

fn keys_of(keyspace: &Keyspace, slots: &SlotSet) -> u64 {
    let databases = keyspace.iter().filter(|(_, db)| !db.is_empty());
    databases.map(|(_, db)| slots.iter().map(|slot| db.slot_len(slot.number()) as u64).sum::<u64>()).sum()
}
