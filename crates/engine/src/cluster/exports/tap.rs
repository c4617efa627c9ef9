//! The tap: at the commit of each command, its changes are added to the streams of the exports whose
//! slots they concern (A-32, H-20).
//!
//! The order is: entries that the keyspace has captured before the changes, deletions of expired and evicted
//! keys and of expired hash fields, the keys of a flushed slot, the command itself. The receiving node shows
//! none of the data before it has the whole stream, so MULTI and EXEC are left out. The stream also has the
//! writes that a script excludes from replication.

use super::ending::{exports_of, fail_export, fail_flushed};
use crate::cluster::redirect::{SlotRoute, route_of, slot_of_name};
use sluice_base::Now;
use sluice_base::mistake::{Mistake, is_made};
use sluice_cluster::HashSlot;
use sluice_command::derive::keys::routing_keys;
use sluice_command::{Spec, table};
use sluice_commands::Args;
use sluice_control::Control;
use sluice_control::cluster::exports::{ExportId, ExportWalk, SlotExports, WRITTEN_TO};
use sluice_control::persistence::aof::reads_beyond;
use sluice_keyspace::{Effects, EncodedCommands, Keyspace, Propagation};

/// The command that is being committed.
#[derive(Clone, Copy)]
pub(crate) struct TappedCommand<'a> {
    /// The database of the command.
    pub db: usize,
    /// Arguments of the command; `None` for work that no client asked for.
    pub args: Option<&'a Args<'a>>,
    /// Time of the command's execution.
    pub now: Now,
    /// Number of changes that the command has made.
    pub changes: u64,
}

/// Adds the changes of a command to the streams, in the order that the top of this file gives.
#[cold]
pub(crate) fn tap(
    keyspace: &mut Keyspace,
    effects: &mut Effects,
    control: &mut Control,
    command: TappedCommand<'_>,
) {
    let flushed = effects.flushed_keys.take();
    if fail_flushed(keyspace, control) {
        return;
    }
    let (lazy_expire, lazy_evict) = (control.limits.lazy_expire, control.limits.eviction.is_lazy);
    let lazy_flush = control.limits.lazy_user_flush;
    let Some(exports) = exports_of(control) else { return };
    let mut tap = Tap { keyspace, exports, now_ns: command.now.mono_ns, written_to: None };
    tap.captured();
    for (db, key) in effects.expired_by_write() {
        tap.deletion(*db, key, lazy_expire);
    }
    for (db, key) in effects.evicted() {
        tap.deletion(*db, key, lazy_evict);
    }
    for expired in effects.expired_fields() {
        let fields = expired.fields.iter().map(Vec::as_slice);
        let argv: Vec<&[u8]> = [&b"HDEL"[..], &expired.key].into_iter().chain(fields).collect();
        tap.lapse(slot_of_name(&expired.key), expired.db, &argv);
    }
    for (db, key) in &flushed {
        let verb: &[u8] = if lazy_flush { b"UNLINK" } else { b"DEL" };
        tap.command(slot_of_name(key), *db, &[verb, key]);
    }
    let is_forced = matches!(effects.propagation(), Propagation::Forced | Propagation::ToReplicas);
    if command.changes > 0 || is_forced {
        tap.propagation(effects.propagation(), command);
    }
    let written_to = tap.written_to.filter(|_| !is_made(Mistake::WrittenAfterPaused));
    if let Some(id) = written_to {
        fail_export(keyspace, control, id, WRITTEN_TO.to_owned());
    }
}

/// Whether the changes of a command are recorded. With replicas or an append-only file (`has_stream`) they
/// always are; for exports alone, only if the command concerns their slots. A command without a key may
/// have changed any slot.
#[inline]
pub(crate) fn tells(control: &Control, has_stream: bool, args: &Args<'_>) -> bool {
    let is_tapped = |hash| {
        let slot = u16::try_from(sluice_keyspace::slot_of(hash)).ok().and_then(HashSlot::new);
        let exports = control.cluster.as_deref().map(|mode| mode.exports());
        slot.zip(exports).is_none_or(|(slot, exports)| exports.tapped().contains(slot))
    };
    has_stream || args.first_hash().is_none_or(is_tapped)
}

struct Tap<'a> {
    keyspace: &'a mut Keyspace,
    exports: &'a mut SlotExports,
    now_ns: u64,
    /// An export whose slots were written to after PAUSED.
    written_to: Option<ExportId>,
}

impl Tap<'_> {
    /// Adds to the stream the entries that the keyspace has captured.
    fn captured(&mut self) {
        if is_made(Mistake::CommandAheadOfImage) {
            return;
        }
        if let Some(job) = self.exports.walking() {
            while let Some(piece) = self.keyspace.take_walked() {
                job.stream.append_images(piece);
            }
        }
    }

    /// Adds the deletion of an expired or evicted key.
    fn deletion(&mut self, db: usize, key: &[u8], is_lazy: bool) {
        let verb: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
        self.lapse(slot_of_name(key), db, &[verb, key]);
    }

    /// Adds the deletion of an expired or evicted key, or of expired hash fields, except after PAUSED: from
    /// then on the other node does not need it, because that node knows the expiry times, and a key that was
    /// evicted here does no harm there.
    fn lapse(&mut self, slot: HashSlot, db: usize, argv: &[&[u8]]) {
        if self.exports.job_of(slot).is_some_and(|job| !job.is_paused()) {
            self.command(slot, db, argv);
        }
    }

    fn command(&mut self, slot: HashSlot, db: usize, argv: &[&[u8]]) {
        let Some(job) = self.exports.job_of(slot) else { return };
        if job.is_paused() {
            self.written_to = Some(job.id);
            return;
        }
        let bytes = job.stream.append(db, argv.iter().copied());
        job.note_written(self.now_ns, bytes);
    }

    /// Adds an executed command. While the slot of the command is walked, the images of the keys that the
    /// command reads precede it. If a command reads keys whose names are only in the data, as SORT by a
    /// pattern does, the image of the result is added in place of the command.
    fn executed(&mut self, slot: HashSlot, db: usize, argv: &[&[u8]]) {
        let is_walked = self.exports.walking().is_some_and(|job| job.walk == ExportWalk::In(slot));
        let Some(spec) = spec_of(argv).filter(|_| is_walked) else { return self.command(slot, db, argv) };
        let mut found = Vec::new();
        routing_keys(spec, argv, &mut found);
        let keys: Vec<&[u8]> = found.iter().filter_map(|(at, _)| argv.get(*at).copied()).collect();
        keys.iter().for_each(|key| self.keyspace.capture_read(db, key));
        self.captured();
        match keys.last().filter(|_| reads_beyond(spec, argv)) {
            None => self.command(slot, db, argv),
            // SORT stores into its last key.
            Some(stored) => {
                self.command(slot, db, &[b"UNLINK", stored]);
                let image = self.keyspace.image_of(db, stored);
                if let (Some(image), Some(job)) = (image, self.exports.job_of(slot)) {
                    job.stream.append_images(image);
                }
            }
        }
    }

    /// Adds encoded commands whose keys are all in one slot.
    fn encoded(&mut self, slot: HashSlot, db: usize, commands: &EncodedCommands) {
        let Some(job) = self.exports.job_of(slot).filter(|_| commands.count > 0) else { return };
        if job.is_paused() {
            self.written_to = Some(job.id);
            return;
        }
        let bytes = job.stream.append_encoded(db, &commands.bytes);
        job.note_written(self.now_ns, bytes);
    }

    /// Adds the command in the form that the replication stream has, which may be several commands. The keys
    /// of each are all in one slot.
    fn propagation(&mut self, propagation: &Propagation, command: TappedCommand<'_>) {
        let named = command.args.and_then(|args| match args.spec().map(|spec| route_of(spec, *args)) {
            Some(SlotRoute::Slot(slot)) => Some(slot),
            Some(SlotRoute::Keyless | SlotRoute::Crosses) | None => None,
        });
        match (propagation, command.args, named) {
            (Propagation::Rewritten(commands), ..) => {
                for argv in commands {
                    let words: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
                    if let Some(slot) = named.or_else(|| slot_of(&words)) {
                        self.executed(slot, command.db, &words);
                    }
                }
            }
            // Encoded commands change keys that the call names, so they belong to the slot of the call.
            (Propagation::Encoded(commands), _, Some(slot)) => self.encoded(slot, command.db, commands),
            // The stream of an export has no promised bytes.
            (Propagation::Promised(commands), _, Some(slot)) if self.exports.tapped().contains(slot) => {
                self.encoded(slot, command.db, &commands.encoded());
            }
            (
                Propagation::Verbatim | Propagation::Forced | Propagation::ToReplicas,
                Some(args),
                Some(slot),
            ) if self.exports.tapped().contains(slot) => {
                let words: Vec<&[u8]> = args.iter_from(0).collect();
                self.executed(slot, command.db, &words);
            }
            // No key is in a slot that is exported.
            (Propagation::Encoded(_), _, None)
            | (Propagation::Promised(_), ..)
            | (Propagation::Verbatim | Propagation::Forced | Propagation::ToReplicas, ..) => {}
        }
    }
}

/// The slot of the keys of a command that no client has sent.
fn slot_of(argv: &[&[u8]]) -> Option<HashSlot> {
    let mut found = Vec::new();
    routing_keys(spec_of(argv)?, argv, &mut found);
    found.first().and_then(|(at, _)| argv.get(*at)).map(|key| slot_of_name(key))
}

/// Specification of the command that the words call.
fn spec_of(argv: &[&[u8]]) -> Option<&'static Spec> {
    let spec = table::lookup(argv.first()?)?;
    Some(argv.get(1).and_then(|name| table::lookup_sub(spec, name)).unwrap_or(spec))
}
