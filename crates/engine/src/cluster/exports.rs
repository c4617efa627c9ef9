//! What drives the exports of slots (`control/cluster/exports.rs`): the walk in slices of a quarter of a
//! millisecond an iteration, the holds of writers, and what whoever has the link to the other node asks for.
//!
//! For that caller: [`begin_export`] once ACK was said; [`take_export_output`] as the socket takes bytes, and
//! [`note_link_backlog`] how many of them it has not taken; [`request_pause`] at REQUEST-PAUSE; [`say`] for
//! ACK and FAILOVER-GRANTED; [`next_export_news`] once an iteration; [`end_export`] when the slots' owner is
//! the other node, after the new map, or for whatever reason the job has failed.

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

/// How long the work for exports may take in one iteration, ns: what everybody waits for it.
const SLICE_NS: u64 = 250_000;
/// Bytes of changes that wait for the image of a large value for which a slice is as long again: they are in
/// memory, and writers are not to be faster than the image is formatted.
const CHANGES_A_SLICE: usize = 4 << 20;
/// A slice is so many times as long at most.
const SLICES_MAX: u64 = 8;
/// While writers may be held, streams are looked at so often, ns.
const LOOK_NS: u64 = 1_000_000;
/// Buckets that are walked between two looks at the clock.
const BUCKETS_PER_LOOK: usize = 4;

/// Begins to export slots, which this node owns. `None`: one of them is in an export already, or there is
/// none.
pub(crate) fn begin_export(core: &mut Core, slots: &SlotSet) -> Option<ExportId> {
    let exchanges = core.keyspace.exchanges();
    core.control.cluster.as_mut()?.exports_mut().begin(slots, exchanges)
}

/// The next bytes of an export's stream; `None`: nothing now.
pub(crate) fn take_export_output(core: &mut Core, id: ExportId) -> Option<Bytes> {
    exports_of(&mut core.control)?.job(id)?.stream.take()
}

/// Notes how many of the bytes that were taken the link has not sent.
pub(crate) fn note_link_backlog(core: &mut Core, id: ExportId, bytes: u64) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.in_link = bytes;
    }
}

/// Appends a word for the other node to the stream.
pub(crate) fn say(core: &mut Core, id: ExportId, word: &[u8]) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.stream.say(word);
    }
}

/// The other node has everything that was sent and asks for the pause: from now on writers of the slots are
/// held as soon as little is left. `limit`: bytes that may be left; none: any number.
pub(crate) fn request_pause(core: &mut Core, id: ExportId, limit: Option<u64>) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.convergence.get_or_insert_with(|| Convergence::new(limit));
        core.control.epoch.advance();
    }
}

/// What has happened to an export, oldest first.
pub(crate) fn next_export_news(core: &mut Core) -> Option<(ExportId, ExportNews)> {
    exports_of(&mut core.control)?.next_news()
}

/// The exports, for what is shown of them.
pub(crate) fn slot_exports(core: &mut Core) -> Option<&mut SlotExports> {
    exports_of(&mut core.control)
}

/// The other node may own the slots of an export from now on: writers are held until [`end_export`], whatever
/// happens to the stream.
pub(crate) fn grant(core: &mut Core, id: ExportId) {
    if let Some(job) = exports_of(&mut core.control).and_then(|exports| exports.job(id)) {
        job.grant();
    }
}

/// Ends an export; its slots, none where it has ended before. Writers that were held are asked anew.
pub(crate) fn end_export(core: &mut Core, id: ExportId) -> SlotSet {
    let Core { keyspace, control, .. } = core;
    drop_export(keyspace, control, id).map_or(SlotSet::EMPTY, |job| job.slots().clone())
}

/// When an iteration is wanted for exports though nothing happens, monotonic ns.
pub(crate) fn deadline_ns(exports: &SlotExports, looked_ns: u64) -> u64 {
    let look_ns = if exports.may_hold() { looked_ns + LOOK_NS } else { u64::MAX };
    exports.work_ns().unwrap_or(u64::MAX).min(look_ns)
}

/// Goes on with all exports but for the walk, once an iteration.
pub(super) fn advance_exports(core: &mut Core, process: &mut dyn Process) {
    if !may_advance(core) {
        return;
    }
    let Core { keyspace, control, .. } = core;
    fail_flushed(keyspace, control);
    settle_streams(keyspace, control, process);
    converge(control, process);
}

/// Goes on with the walk of all exports, once an iteration, when the iteration's replies have gone. Whether
/// there was something to do.
pub(crate) fn walk_exports(core: &mut Core, process: &mut dyn Process) -> bool {
    if !may_advance(core) {
        return false;
    }
    let Core { keyspace, control, .. } = core;
    let (now_ns, exchanges) = (process.now().mono_ns, keyspace.exchanges());
    let Some(exports) = exports_of(control) else { return false };
    // An export of exchanged databases fails in the next iteration's end.
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

/// Formats and walks for about a quarter of a millisecond, for longer while many changes wait for an image.
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
                // Changes are to be told from now on.
                control.epoch.advance();
            }
        }
        if is_over() {
            return;
        }
    }
}

/// Has the process keep what is too much for memory; exports whose stream cannot go on fail.
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

/// Holds writers, lets them go, or begins the pause of an export. To be called when clients that wait have
/// been served: what they do is ahead of PAUSED.
fn converge(control: &mut Control, process: &mut dyn Process) {
    let now_ns = process.recent().mono_ns;
    let Some(exports) = exports_of(control) else { return };
    exports.note_time(now_ns);
    let (mut paused, mut ended, mut lets_go) = (Vec::new(), Vec::new(), false);
    for job in exports.jobs() {
        let (unsent, left) = (job.unsent_bytes(), job.stream.taken_bytes().saturating_sub(job.in_link));
        // Images have to stand ahead of PAUSED, whenever the other node asks.
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
