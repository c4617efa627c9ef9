//! Keys that this node loses: those of slots that another node owns now, and all of them where the node
//! begins anew.
//!
//! The keys of a slot are hidden at once, and deleted in slices between units, each key by a unit of its own
//! (G-21): replicas and the append-only file are told, as are clients that watch or cache the key; no
//! notification is published. Snapshots have the keys that are left: the stream deletes them. Where the slot
//! must be empty sooner, all that is left goes as a whole (G-22).
//!
//! Invariant: the keyspace hides the slots that are being emptied, as leaving, and no others.

use crate::cluster::driver::ClusterDriver;
use crate::persistence::saving::Saves;
use crate::scripting::garbage::free_functions;
use sluice_base::LogLevel;
use sluice_cluster::{HashSlot, LostSlots, SlotMap, SlotSet};
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_keyspace::{Access, AccessUpdate, Event, ExpiryMode};

/// How long one slice of deletions may take, ns.
const SLICE_NS: u64 = 500_000;
/// Buckets whose keys are deleted between two looks at the clock.
const BUCKETS_AT_ONCE: usize = 4;

/// The access by which the cluster deletes keys, whatever their expiry.
fn access(process: &mut dyn Process) -> Access {
    let now = process.recent();
    Access { now, touch: AccessUpdate::No { fresh: 0 }, expiry: ExpiryMode::Ignore, is_decided: false }
}

impl ClusterDriver<'_> {
    /// Has the keys of these slots deleted from now on. Ahead of the first deletion of keys that were loaded
    /// at the start, the files that were loaded get a second name; where they do not, the keys stay, and
    /// nobody is served them. Whether they go.
    pub(super) fn empty_slots(&mut self, slots: &SlotSet, why: LostSlots, process: &mut dyn Process) -> bool {
        if why == LostSlots::FoundAtStart && !self.keep_loaded_files(slots, process) {
            return false;
        }
        let Some(mode) = &mut self.core.control.cluster else { return false };
        let databases = 0..self.core.keyspace.databases();
        let (mut dirty, mut keys) = (SlotSet::EMPTY, 0);
        for slot in slots.iter() {
            let lengths =
                databases.clone().map(|number| self.core.keyspace.db(number).slot_len(slot.number()));
            let len: usize = lengths.sum();
            if len > 0 {
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

    /// A slot is empty, or keeps its keys.
    fn end_emptying_of(&mut self, slot: HashSlot) {
        if let Some(mode) = &mut self.core.control.cluster {
            mode.emptying.remove(slot);
            self.core.keyspace.show_slots(std::iter::once(slot.number()));
        }
    }

    /// Has what is left of a slot go at once: replicas and the append-only file are told to empty the slot,
    /// and the keys are freed later.
    fn take_out(&mut self, slot: HashSlot, process: &mut dyn Process) {
        let access = access(process);
        let words =
            || vec![b"CLUSTER".to_vec(), b"FLUSHSLOT".to_vec(), slot.number().to_string().into_bytes()];
        if self.core.keyspace.dataset(access, &mut self.core.effects).detach_slot(slot.number()) > 0 {
            self.core.effects.rewrite(words);
            self.core.commit_unasked_in(0, access.now);
        }
    }

    /// A map is about to be put in force. Slots that are this node's again keep their keys, and a replica
    /// deletes nothing. Where some of a slot's keys are gone already, or a slot is about to come here
    /// key by key, what is left of the old keys goes at once: later they could not be told from new ones
    /// (G-22). O(1) for each slot.
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
        let begun = mode.emptying.begun;
        let comes = |slot: &HashSlot| map.importing.iter().any(|(importing, _)| importing == slot);
        for slot in mode.emptying.slots.clone().iter() {
            // Keys that an import has brought are nobody's, whoever the slot belongs to.
            let mut imports = self.core.keyspace.imports().iter();
            let stays_without_owner = !imports.any(|import| import.has(slot.number()));
            let is_back = map.owner(slot).map_or(stays_without_owner, |owner| owner.is_myself);
            if comes(&slot) || is_back && begun == Some(slot) {
                self.take_out(slot, process);
            }
            if is_back || comes(&slot) {
                self.end_emptying_of(slot);
            }
        }
    }

    /// Keeps the files that were loaded at the start, once; whether they are kept.
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
                format!("{keys} keys of {} slots of other nodes are deleted", slots.len())
            }
            Ok(names) => format!(
                "{keys} keys of {} slots of other nodes are deleted; the data as they were loaded are kept as {}",
                slots.len(),
                names.join(", ")
            ),
            Err(reason) => format!(
                "{keys} keys of {} slots of other nodes stay, because the files that were loaded cannot be kept: {reason}",
                slots.len()
            ),
        };
        process.log(LogLevel::Warning, &line);
        kept.is_ok()
    }

    /// Deletes keys of foreign slots for about half a millisecond, if there are any.
    pub(super) fn advance_emptying(&mut self, process: &mut dyn Process) {
        let began_ns = process.recent().mono_ns;
        loop {
            let next = self.core.control.cluster.as_ref().and_then(|mode| mode.emptying.next());
            let Some(slot) = next else { return };
            if !self.core.control.between_units(BetweenUnits::Cluster) {
                return;
            }
            let is_done = !self.delete_some_of(slot, process);
            let Some(mode) = &mut self.core.control.cluster else { return };
            mode.emptying.begun = Some(slot);
            if is_done {
                self.end_emptying_of(slot);
            }
            if process.now().mono_ns.saturating_sub(began_ns) > SLICE_NS {
                return;
            }
        }
    }

    /// Deletes the keys of a few buckets of a slot's table; whether there were any keys.
    fn delete_some_of(&mut self, slot: HashSlot, process: &mut dyn Process) -> bool {
        let access = access(process);
        let verb: &[u8] = if self.core.control.limits.lazy_server_del { b"UNLINK" } else { b"DEL" };
        for number in 0..self.core.keyspace.databases() {
            if self.core.keyspace.db(number).slot_len(slot.number()) == 0 {
                continue;
            }
            let Some(mode) = &mut self.core.control.cluster else { return false };
            let (cursor, mut names) = (&mut mode.emptying.cursor, Vec::new());
            for _ in 0..BUCKETS_AT_ONCE {
                *cursor = self.core.keyspace.walk_slot(number, slot.number(), *cursor, |entry| {
                    names.push(entry.key().to_vec());
                });
                if *cursor == 0 {
                    break;
                }
            }
            for name in names {
                let key = self.core.keyspace.key(&name);
                self.core.control.persistence.aof.note_key(key.hash);
                if self.core.keyspace.write(number, access, &mut self.core.effects).remove(key, Event::Silent)
                {
                    self.core.effects.rewrite_as(|| vec![vec![verb.to_vec(), name]]);
                }
                self.core.commit_unasked_in(number, access.now);
            }
            return true;
        }
        false
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
