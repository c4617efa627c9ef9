//! Keys that this node loses: the keys of slots that another node owns now, the keys of failed imports of
//! slots, or all keys if the node becomes an empty primary.
//!
//! The keys of a slot are hidden at once. They are deleted in short slices while no command or transaction is
//! in progress, and each deletion is committed and propagated on its own (G-21). Replicas and the append-only
//! file get the deletions, and clients that watch or cache the key are notified; no keyspace notification is
//! published. No key is deleted before `nodes.conf` is saved without the slot (E-53), because a server that
//! ended in between would restart as the slot's owner without keys. Snapshots contain the keys that are not
//! deleted yet, because their deletions follow in the stream. If the slot must be empty sooner, all remaining
//! keys are removed at once (G-22). Keys of a slot that was open for a manual move (MIGRATING) are kept for
//! 30 s, because the node that claims the slot may have only a part of them.
//!
//! Invariant: the slots that the keyspace marks as leaving, and therefore hides, are exactly the slots that
//! are being emptied.

use crate::cluster::driver::ClusterDriver;
use crate::cluster::lost_keys::{LostKeySteps, access};
use crate::persistence::saving::Saves;
use crate::scripting::garbage::free_functions;
use sluice_base::LogLevel;
use sluice_cluster::{HashSlot, LostSlots, SlotMap, SlotSet};
use sluice_control::between_units::BetweenUnits;
use sluice_control::cluster::mode::Emptying;
use sluice_control::process::Process;

/// Nanoseconds that one slice of deletions may take.
const SLICE_NS: u64 = 500_000;
/// Nanoseconds for which keys of an open slot are kept after another node has claimed it.
const KEPT_NS: u64 = 30_000_000_000;

impl ClusterDriver<'_> {
    /// Begins to delete the keys of these slots. Before the first deletion of keys that were loaded at
    /// the start, the loaded files get a second name. If that fails, the keys stay, and their slots are not
    /// hidden; requests for these keys are still redirected to the slots' owners. Returns `false` if the keys
    /// stay for that reason.
    pub(super) fn empty_slots(&mut self, slots: &SlotSet, why: LostSlots, process: &mut dyn Process) -> bool {
        if why == LostSlots::FoundAtStart && !self.keep_loaded_files(slots, process) {
            return false;
        }
        let until_ns = process.recent().mono_ns.saturating_add(KEPT_NS);
        let Some(mode) = &mut self.core.control.cluster else { return false };
        let databases = 0..self.core.keyspace.databases();
        let (mut dirty, mut keys) = (SlotSet::EMPTY, 0);
        for slot in slots.iter() {
            let lengths =
                databases.clone().map(|number| self.core.keyspace.db(number).slot_len(slot.number()));
            let len: usize = lengths.sum();
            if len > 0
                && why == LostSlots::TakenOver
                && mode.map.migrating.iter().any(|(open, _)| *open == slot)
            {
                mode.emptying.kept.insert(slot, until_ns);
                let line = format!(
                    "Slot {} was lost to another node while it was open: its keys are kept for {} s, for CLUSTER SETSLOT IMPORTING",
                    slot.number(),
                    KEPT_NS / 1_000_000_000
                );
                process.log(LogLevel::Warning, &line);
            } else if len > 0 {
                dirty.insert(slot);
                keys += len;
            }
            mode.emptying.slots.insert(slot);
        }
        if keys > 0 {
            process.log(LogLevel::Notice, &format!("Deleting keys in dirty {}: {keys} keys", dirty.named()));
        }
        self.core.keyspace.hide_slots(slots.iter().map(HashSlot::number));
        true
    }

    /// Adapts the emptying to a map that is about to be put in force: slots that this node owns again keep
    /// their keys, and a replica deletes nothing. If some of a slot's keys are gone already, or a slot
    /// is about to be imported key by key, the rest of the old keys is removed at once, because later they
    /// could not be distinguished from new keys (G-22).
    pub(super) fn keep_returning_slots(&mut self, map: &SlotMap, process: &mut dyn Process) {
        let Some(mode) = &mut self.core.control.cluster else { return };
        if mode.emptying.slots.is_empty() {
            return;
        }
        if map.my_primary.is_some() {
            let emptying = std::mem::take(&mut mode.emptying);
            self.core.keyspace.show_slots(emptying.slots.iter().map(HashSlot::number));
            return;
        }
        let Emptying { slots, begun, .. } = mode.emptying.clone();
        // Slots whose keys may not be deleted yet are left out, because requests to them wait until
        // `nodes.conf` is saved without the slot, and then this function is called again with the next map.
        let importing = map.importing.iter().map(|(slot, _)| *slot);
        let comes: Vec<HashSlot> = importing.filter(|slot| mode.machine.may_delete_keys_of(*slot)).collect();
        for slot in slots.iter() {
            // A slot without an owner keeps its keys, unless an import of the slot is under way.
            let mut imports = self.core.keyspace.imports().iter();
            let stays_without_owner = !imports.any(|import| import.has(slot.number()));
            let is_back = map.owner(slot).map_or(stays_without_owner, |owner| owner.is_myself);
            let keeps = self.core.control.cluster.as_ref().is_some_and(|mode| mode.emptying.keeps(slot));
            let comes = comes.contains(&slot);
            if comes && !keeps || is_back && begun == Some(slot) {
                LostKeySteps::of(self.core).take_out(slot, process);
            }
            if is_back || comes {
                LostKeySteps::of(self.core).end(slot);
            }
        }
    }

    /// Gives the files that were loaded at the start a second name, so that their data are not lost; does so
    /// once. Returns whether they have a second name.
    fn keep_loaded_files(&mut self, slots: &SlotSet, process: &mut dyn Process) -> bool {
        let Some(mode) = &mut self.core.control.cluster else { return false };
        if mode.has_kept_files {
            return true;
        }
        let ending = format!("before-slots-{}", process.now().unix_s());
        let kept = process.keep_data_files(&self.core.control.config, &ending);
        mode.has_kept_files = kept.is_ok();
        let databases = 0..self.core.keyspace.databases();
        let keys: usize = databases
            .map(|number| {
                let db = self.core.keyspace.db(number);
                slots.iter().map(|slot| db.slot_len(slot.number())).sum::<usize>()
            })
            .sum();
        let line = match &kept {
            Ok(names) if names.is_empty() => {
                format!("{keys} keys of {} slots that belong to other nodes are deleted", slots.len())
            }
            Ok(names) => format!(
                "{keys} keys of {} slots that belong to other nodes are deleted; the loaded files are kept as {}",
                slots.len(),
                names.join(", ")
            ),
            Err(reason) => format!(
                "{keys} keys of {} slots that belong to other nodes stay, because the loaded files cannot be kept: {reason}",
                slots.len()
            ),
        };
        process.log(LogLevel::Warning, &line);
        kept.is_ok()
    }

    /// Spends about half a millisecond on deleting keys of the slots that are being emptied, if there are
    /// any.
    pub(super) fn advance_emptying(&mut self, process: &mut dyn Process) {
        let began_ns = process.recent().mono_ns;
        if !LostKeySteps::of(self.core).are_due(process)
            || !self.core.control.between_units(BetweenUnits::Cluster)
        {
            return;
        }
        while LostKeySteps::of(self.core).delete_some(process) {
            if process.now().mono_ns.saturating_sub(began_ns) > SLICE_NS {
                return;
            }
        }
    }

    /// Drops all keys and all functions: a replica becomes an empty primary (R3, M21).
    pub(super) fn drop_all_data(&mut self, process: &mut dyn Process) {
        let access = access(process);
        let mut data = self.core.keyspace.dataset(access, &mut self.core.effects);
        for number in 0..data.databases() {
            data.flush(number);
        }
        self.core
            .effects
            .rewrite_as(|| vec![vec![b"FLUSHALL".to_vec()], vec![b"FUNCTION".to_vec(), b"FLUSH".to_vec()]]);
        self.core.commit_unasked_in(0, access.now);
        let functions = std::mem::take(&mut self.core.control.functions);
        free_functions(&mut self.core.actions, functions, self.core.control.limits.lazy_user_flush);
        Saves::of(self.core).save_emptiness(process);
    }
}
