//! Driver of the exports of slots (`control/cluster/exports.rs`): the walk over the keys, usually in slices
//! of a quarter of a millisecond an iteration, the holding of writers, and functions for the code of the link
//! to the other node (`export_links.rs`) and for tests.
//!
//! The code of the link calls [`begin_export`] once it has sent ACK, [`request_pause`] at REQUEST-PAUSE,
//! [`say`] for its messages, [`next_export_news`] once an iteration, and [`end_export`] when the other node
//! owns the slots, after the new map, or when the job has failed. It takes the bytes of the stream as
//! the session has room; tests take them by [`take_export_output`] and [`note_link_backlog`].

mod ending;
pub(crate) mod held;
pub(crate) mod tap;

use crate::core::Core;
use ending::{drop_export, exports_of, fail_export, fail_flushed};
use sluice_base::Bytes;
use sluice_cluster::{Convergence, ConvergenceStep, SlotSet};
use sluice_config::param;
use sluice_control::Control;
use sluice_control::between_units::BetweenUnits;
use sluice_control::cluster::exports::{ExportId, ExportNews, ExportWalk, SlotExports};
use sluice_control::process::Process;
use sluice_keyspace::Keyspace;

/// In one iteration the walk and the formatting usually take at most this many nanoseconds, during which
/// every client waits.
const SLICE_NS: u64 = 250_000;
/// A slice is longer by [`SLICE_NS`] for each multiple of this many bytes of changes that wait for the image
/// of a large value. The changes are in memory, so writers must not add them faster than the image is
/// formatted.
const CHANGES_A_SLICE: usize = 4 << 20;
/// A slice takes at most this many times [`SLICE_NS`].
const SLICES_MAX: u64 = 8;
/// Nanoseconds between two checks of the streams while writers may be held.
const LOOK_NS: u64 = 1_000_000;
/// Number of buckets that are walked between two readings of the clock.
const BUCKETS_PER_LOOK: usize = 4;

/// Begins to export slots that this node owns. `None` if one of them is in an export already, or
/// `slots` is empty.
pub(crate) fn begin_export(core: &mut Core, slots: &SlotSet) -> Option<ExportId> {
    let exchanges = core.keyspace.exchanges();
    core.control.cluster.as_mut()?.exports_mut().begin(slots, exchanges)
}

/// The next bytes of an export's stream; `None` if there are none now.
pub(crate) fn take_export_output(core: &mut Core, id: ExportId) -> Option<Bytes> {
    exports_of(&mut core.control)?.job(id)?.stream.take()
}

/// Notes how many of the taken bytes the link has not sent yet.
pub(crate) fn note_link_backlog(core: &mut Core, id: ExportId, bytes: u64) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.in_link = bytes;
    }
}

/// Appends a message for the other node to the stream.
pub(crate) fn say(core: &mut Core, id: ExportId, word: &[u8]) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.stream.say(word);
    }
}

/// Notes that the other node has all sent bytes and asks for the pause: from now on writers of the slots
/// are held as soon as at most `limit` bytes are left to send; `None` for any number.
pub(crate) fn request_pause(core: &mut Core, id: ExportId, limit: Option<u64>) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.convergence.get_or_insert_with(|| Convergence::new(limit));
        core.control.epoch.advance();
    }
}

/// The next event of an export, oldest first.
pub(crate) fn next_export_news(core: &mut Core) -> Option<(ExportId, ExportNews)> {
    exports_of(&mut core.control)?.next_news()
}

/// The exports, to be shown; `None` without cluster mode.
pub(crate) fn slot_exports(core: &mut Core) -> Option<&mut SlotExports> {
    exports_of(&mut core.control)
}

/// Notes that the other node may own the slots of an export from now on: writers are held until
/// [`end_export`], even if the stream fails.
pub(crate) fn grant(core: &mut Core, id: ExportId) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.grant();
    }
}

/// Ends an export and returns its slots; there are none if the export has ended before. The gate checks the
/// held writers again.
pub(crate) fn end_export(core: &mut Core, id: ExportId) -> SlotSet {
    let Core { keyspace, control, .. } = core;
    drop_export(keyspace, control, id).map_or(SlotSet::EMPTY, |job| job.slots().clone())
}

/// The time at which exports need an iteration even without an event, in ns of the monotonic clock.
pub(crate) fn deadline_ns(exports: &SlotExports, looked_ns: u64) -> u64 {
    let look_ns = if exports.may_hold() { looked_ns + LOOK_NS } else { u64::MAX };
    exports.work_ns().unwrap_or(u64::MAX).min(look_ns)
}

/// Continues all exports except for their walks, once an iteration.
pub(super) fn advance_exports(core: &mut Core, process: &mut dyn Process) {
    if !may_advance(core) {
        return;
    }
    let Core { keyspace, control, .. } = core;
    fail_flushed(keyspace, control);
    settle_streams(keyspace, control, process);
    converge(control, process);
}

/// Continues the walk of all exports, once an iteration, after the iteration's replies were sent. Returns
/// whether a walk was due.
pub(crate) fn walk_exports(core: &mut Core, process: &mut dyn Process) -> bool {
    if !may_advance(core) {
        return false;
    }
    let Core { keyspace, control, .. } = core;
    let (now_ns, exchanges) = (process.now().mono_ns, keyspace.exchanges());
    let Some(exports) = exports_of(control) else { return false };
    // Nothing is walked if a database was emptied or exchanged since an export began, because that export
    // fails at the end of the next iteration.
    let is_due = exports.work_ns().is_some_and(|due_ns| due_ns <= now_ns);
    if is_due && exports.begun_ahead_of(exchanges).is_none() {
        walk_slice(keyspace, control, now_ns, process);
    }
    is_due
}

fn may_advance(core: &mut Core) -> bool {
    let exchanges = core.keyspace.exchanges();
    exports_of(&mut core.control).is_some_and(|exports| !exports.are_idle(exchanges))
        && core.control.between_units(BetweenUnits::Cluster)
}

/// Formats and walks for about a quarter of a millisecond, or longer while many changes wait for an image.
fn walk_slice(keyspace: &mut Keyspace, control: &mut Control, began_ns: u64, process: &mut dyn Process) {
    let delay = control.config.int(param::RDB_KEY_SAVE_DELAY);
    let waiting = exports_of(control)
        .map_or(0, |exports| exports.jobs().map(|job| job.stream.changes_that_wait()).sum::<usize>());
    let slice_ns = SLICE_NS * (1 + (waiting / CHANGES_A_SLICE) as u64).min(SLICES_MAX);
    let mut is_over = || process.now().mono_ns.saturating_sub(began_ns) >= slice_ns;
    loop {
        let Some(exports) = exports_of(control) else { return };
        for job in exports.jobs() {
            if job.stream.make(&mut is_over) {
                return;
            }
        }
        if !exports.may_walk(began_ns) {
            return;
        }
        if exports.walk_waits() {
            return;
        }
        if let Some(job) = exports.walking() {
            let buckets = if delay == 0 { BUCKETS_PER_LOOK } else { 1 };
            let has_more = (0..buckets).all(|_| keyspace.advance_slot_walk());
            let mut keys = 0;
            while let Some(piece) = keyspace.take_walked() {
                keys += piece.len();
                job.keys += piece.len() as u64;
                job.stream.append_images(piece);
            }
            exports.slow_down(delay, keys, began_ns);
            if !has_more {
                keyspace.end_slot_walk();
                exports.end_walk();
            }
        } else {
            let is_first = exports.tapped().is_empty();
            let Some(slot) = exports.next_walk() else { return };
            keyspace.begin_slot_walk(slot.number());
            if is_first {
                // The new epoch makes the engine record changes for exports from now on.
                control.epoch.advance();
            }
        }
        if is_over() {
            return;
        }
    }
}

/// Spools streams that are too large for memory, and fails exports whose stream cannot continue.
fn settle_streams(keyspace: &mut Keyspace, control: &mut Control, process: &mut dyn Process) {
    let Some(exports) = exports_of(control) else { return };
    let mut failed = Vec::new();
    for job in exports.jobs() {
        job.stream.settle(process);
        failed.extend(job.stream.take_failure().map(|why| (job.id, why)));
    }
    for (id, why) in failed {
        fail_export(keyspace, control, id, why);
    }
}

/// Holds writers, releases them, or begins the pause of an export. To be called after clients that wait were
/// served, because the commands of these clients must precede PAUSED in the stream.
fn converge(control: &mut Control, process: &mut dyn Process) {
    let now_ns = process.recent().mono_ns;
    let Some(exports) = exports_of(control) else { return };
    exports.note_time(now_ns);
    let (mut paused, mut ended, mut lets_go) = (Vec::new(), Vec::new(), false);
    for job in exports.jobs() {
        let (unsent, left) = (job.unsent_bytes(), job.stream.taken_bytes().saturating_sub(job.in_link));
        // All images must be in the stream before PAUSED, no matter when the other node requests the pause.
        if job.walk != ExportWalk::Done {
            continue;
        }
        let Some(convergence) = &mut job.convergence else { continue };
        let held_since_ns = convergence.holds_since_ns();
        let step = convergence.step(now_ns, unsent, left);
        ended.extend(held_since_ns.filter(|_| convergence.holds_since_ns().is_none()));
        match step {
            ConvergenceStep::Stay => {}
            ConvergenceStep::LetGo => lets_go = true,
            ConvergenceStep::Pause => paused.push(job.id),
        }
    }
    paused.into_iter().for_each(|id| exports.pause(id));
    ended.into_iter().for_each(|since_ns| exports.note_hold(since_ns));
    if lets_go {
        control.clients.blocking.release_postponed();
    }
}
