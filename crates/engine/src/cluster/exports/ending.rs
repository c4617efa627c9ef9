//! How an export ends early, for reasons found by the walk, the taps or the code that has begun it.

use sluice_control::Control;
use sluice_control::cluster::exports::{ExportId, ExportWalk, FLUSHED, SlotExport, SlotExports};
use sluice_keyspace::Keyspace;

pub(super) fn exports_of(control: &mut Control) -> Option<&mut SlotExports> {
    control.cluster.as_deref_mut().map(|mode| mode.exports_mut())
}

/// Removes an export, with its walk; writers that it held continue.
pub(super) fn drop_export(
    keyspace: &mut Keyspace,
    control: &mut Control,
    id: ExportId,
) -> Option<SlotExport> {
    let job = exports_of(control)?.remove(id)?;
    if matches!(job.walk, ExportWalk::In(_)) {
        keyspace.end_slot_walk();
    }
    control.epoch.advance();
    if job.convergence.is_some() {
        control.clients.blocking.release_postponed();
    }
    Some(job)
}

/// Ends an export that cannot go on. An export whose slots the other node may own by now continues, and its
/// writers stay held, because that node has all data, and new writes on this node would be lost.
pub(super) fn fail_export(keyspace: &mut Keyspace, control: &mut Control, id: ExportId, why: String) {
    if exports_of(control).and_then(|exports| exports.job(id)).is_some_and(|job| job.is_granted()) {
        return;
    }
    end_early(keyspace, control, id, why);
}

fn end_early(keyspace: &mut Keyspace, control: &mut Control, id: ExportId, why: String) {
    if drop_export(keyspace, control, id).is_some()
        && let Some(exports) = exports_of(control)
    {
        exports.tell_failure(id, why);
    }
}

/// Ends the exports during which a database was emptied or exchanged, except granted ones. Returns whether
/// there was one.
pub(super) fn fail_flushed(keyspace: &mut Keyspace, control: &mut Control) -> bool {
    let exchanges = keyspace.exchanges();
    let mut any = false;
    while let Some(exports) = exports_of(control)
        && let Some(id) = exports.begun_ahead_of(exchanges)
    {
        end_early(keyspace, control, id, FLUSHED.to_owned());
        any = true;
    }
    any
}
