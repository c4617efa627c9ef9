//! Atomic moves of slots as the metrics endpoint and its page show them: what the node's machine says of a
//! job, and how far its keys and bytes are.

use crate::cluster::mode::ClusterMode;
use sluice_cluster::{JobName, MigrationRow, SlotSet};
use sluice_keyspace::Keyspace;
use sluice_session::Sessions;

/// A move, the newest first where there are several.
#[derive(Clone, Debug)]
pub struct ShownMove<'a> {
    /// As CLUSTER GETSLOTMIGRATIONS shows it.
    pub row: MigrationRow<'a>,
    /// How far it is; none where it has ended, or is not this node's to carry out.
    pub progress: Option<MoveProgress>,
}

/// How far a move is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// Keys that were given to the stream, those that were written meanwhile apart; of a move to this node
    /// the keys that are here.
    pub keys: u64,
    /// Keys of slots that a move from this node has not come to.
    pub keys_left: u64,
    /// Bytes that were sent, or have come.
    pub bytes: u64,
    /// Bytes of a move from this node that have not left: `remaining_repl_size`.
    pub bytes_left: u64,
    /// Writers of the slots wait.
    pub holds_writers: bool,
    /// Writers of the slots are let in more slowly than they come, because the other node takes less.
    pub is_braked: bool,
}

/// All moves that the node remembers. Cost: O(slots of the moves under way · databases with keys).
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
