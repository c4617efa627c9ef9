//! Checks whether a move may begin here. The arguments of ESTABLISH are checked in their order,
//! so there is one function for each.

use super::SlotMove;
use crate::id::NodeId;
use crate::machine::ClusterMachine;
use crate::node::NodeIx;
use crate::slots::HashSlot;

/// The owner of the slots in a command's ranges, as far as they are parsed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnersOfRanges(Option<NodeIx>);

impl OwnersOfRanges {
    /// Adds a range; all ranges must have one owner.
    ///
    /// # Errors
    /// The error for the client: a slot has no owner, or another owner than the earlier slots.
    pub(crate) fn add(&mut self, m: &ClusterMachine, first: HashSlot, last: HashSlot) -> Result<(), String> {
        for slot in (first.number()..=last.number()).filter_map(HashSlot::new) {
            let owner = m.table.owner(slot);
            let owner = owner.ok_or_else(|| format!("ERR Slot {} has no node served.", slot.number()))?;
            if *self.0.get_or_insert(owner) != owner {
                return Err("ERR Requested slots span multiple shards".to_owned());
            }
        }
        Ok(())
    }
}

/// Checks that this node can take part in an atomic move at all: as the target, or as the source of a new
/// one.
///
/// # Errors
/// The error for the client.
pub(crate) fn check_node(m: &ClusterMachine) -> Result<(), String> {
    let refusal = if !m.table.me().is_primary() {
        "ERR Slot migration can only be used on primary nodes."
    } else if !m.table.importing.is_empty() {
        "ERR Slots are being manually imported"
    } else if !m.table.migrating.is_empty() {
        "ERR Slots are being manually migrated"
    } else {
        return Ok(());
    };
    Err(refusal.to_owned())
}

/// The node that slots are to move from.
///
/// # Errors
/// The error for the client.
pub(crate) fn source(m: &ClusterMachine, text: &[u8]) -> Result<NodeId, String> {
    let known = NodeId::parse(text).and_then(|id| m.table.find(&id));
    match known {
        None => Err("ERR Target node does not know the source node".to_owned()),
        Some(ix) if ix == m.table.my_ix() => Err("ERR Source node is target node itself".to_owned()),
        Some(ix) => Ok(m.table.node(ix).id),
    }
}

/// Checks that these slots are in no unfinished move to this node.
///
/// # Errors
/// The error for the client.
pub(crate) fn check_free(
    m: &ClusterMachine,
    mut slots: impl Iterator<Item = HashSlot>,
) -> Result<(), String> {
    let imported = m.keys.moves.imported();
    match slots.any(|slot| imported.contains(slot)) {
        true => Err(TAKEN.to_owned()),
        false => Ok(()),
    }
}

/// Checks whether a move with valid arguments may begin now.
///
/// # Errors
/// The error for the client.
pub(crate) fn check(m: &ClusterMachine, job: &SlotMove) -> Result<(), String> {
    check_node(m)?;
    check_free(m, job.slots())?;
    let is_import = m.keys.moves.iter().any(|old| old.name() == job.name && !old.state.is_finished());
    if is_import || m.keys.moves.unfinished_exports().contains(&job.name) {
        return Err(TAKEN.to_owned());
    }
    let owns = |source: NodeId| {
        let ix = m.table.find(&source);
        ix.is_some_and(|ix| job.slots().all(|slot| m.table.owner(slot) == Some(ix)))
    };
    match !job.source.is_some_and(owns) {
        true => Err("ERR Target node does not agree about current slot ownership".to_owned()),
        false => Ok(()),
    }
}

/// The error if another job has a slot of the move, or has the move's name.
const TAKEN: &str = "ERR Slot is already being imported on the target by a different migration";
