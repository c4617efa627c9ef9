//! Deletion of keys of lost slots; `emptying.rs` decides which slots are lost.

use crate::core::Core;
use sluice_cluster::HashSlot;
use sluice_control::process::Process;
use sluice_keyspace::{Access, AccessUpdate, EncodedCommands, Event, ExpiryMode, Keyspace};
use sluice_resp::command::{push_argument, push_command_head};
use std::iter::once;

/// Buckets whose keys are deleted between two readings of the clock.
const BUCKETS_AT_ONCE: usize = 4;
/// One command deletes about this many keys when a slot is taken out at once.
const KEYS_PER_COMMAND: usize = 64;

/// Access with which the cluster deletes keys, expired or not.
pub(super) fn access(process: &mut dyn Process) -> Access {
    let now = process.recent();
    Access { now, touch: AccessUpdate::No { fresh: 0 }, expiry: ExpiryMode::Ignore, must_obey: false }
}

/// Steps that delete keys of lost slots.
pub(crate) struct LostKeySteps<'a> {
    core: &'a mut Core,
}

impl<'a> LostKeySteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> LostKeySteps<'a> {
        LostKeySteps { core }
    }
}

impl LostKeySteps<'_> {
    /// Whether keys of a lost slot are to be deleted now.
    pub(super) fn are_due(&self, process: &mut dyn Process) -> bool {
        self.next(process).is_some()
    }

    fn next(&self, process: &mut dyn Process) -> Option<HashSlot> {
        let now_ns = process.recent().mono_ns;
        self.core.control.cluster.as_ref().and_then(|mode| mode.next_to_empty(now_ns))
    }

    /// Deletes the keys of a few buckets of the next lost slot, and commits each deletion on its own. Returns
    /// whether there was a lost slot with keys to delete. To be called while no command or transaction is in
    /// progress.
    pub(crate) fn delete_some(&mut self, process: &mut dyn Process) -> bool {
        let next = self.next(process);
        let Some(slot) = next else { return false };
        let is_done = !self.delete_some_of(slot, process);
        if let Some(mode) = &mut self.core.control.cluster {
            mode.emptying.begun = Some(slot);
        }
        if is_done {
            self.end(slot);
        }
        true
    }

    /// Ends the deletion in a slot, because the slot is empty or its keys are kept.
    pub(super) fn end(&mut self, slot: HashSlot) {
        if let Some(mode) = &mut self.core.control.cluster {
            mode.emptying.remove(slot);
            self.core.keyspace.show_slots(once(slot.number()));
        }
    }

    /// Removes the remaining keys of a slot at once, to be freed later. Replicas and the append-only file get
    /// deletions of the single keys, because replicas of versions before 9 do not know FLUSHSLOT. Cost:
    /// O(databases), and with replicas or a log one step for each key.
    pub(super) fn take_out(&mut self, slot: HashSlot, process: &mut dyn Process) {
        let (access, slot) = (access(process), slot.number());
        self.core.refresh_derived();
        let verb = self.verb();
        for number in 0..self.core.keyspace.databases() {
            let Core { keyspace, effects, .. } = &mut *self.core;
            let told = effects.propagating.then(|| deletions(keyspace, number, slot, verb));
            if keyspace.dataset(access, effects).detach_slot_of(number, slot) > 0 {
                effects.rewrite_encoded(|| told.unwrap_or_default());
                self.core.commit_unasked_in(number, access.now);
            }
        }
    }

    /// Name of the command by which the node's own deletions are propagated.
    fn verb(&self) -> &'static [u8] {
        if self.core.control.limits.lazy_server_del { b"UNLINK" } else { b"DEL" }
    }

    /// Deletes the keys of a few buckets of a slot's table. Returns whether there were any keys.
    fn delete_some_of(&mut self, slot: HashSlot, process: &mut dyn Process) -> bool {
        let (access, verb) = (access(process), self.verb());
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
}

/// The commands that delete the keys of a slot in a database.
fn deletions(keyspace: &Keyspace, number: usize, slot: u16, verb: &[u8]) -> EncodedCommands {
    let (mut commands, mut names, mut cursor) = (EncodedCommands::default(), Vec::new(), 0);
    loop {
        cursor = keyspace.walk_slot(number, slot, cursor, |entry| names.push(entry.key().to_vec()));
        if names.len() >= KEYS_PER_COMMAND || cursor == 0 && !names.is_empty() {
            push_command_head(&mut commands.bytes, 1 + names.len());
            push_argument(&mut commands.bytes, verb);
            names.drain(..).for_each(|name: Vec<u8>| push_argument(&mut commands.bytes, &name));
            commands.count += 1;
        }
        if cursor == 0 {
            return commands;
        }
    }
}
