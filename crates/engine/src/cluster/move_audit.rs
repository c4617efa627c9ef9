//! Checks that no state of a move of slots remains without its job (H-29). Builds with assertions check this
//! in each iteration, unless a transaction or script is suspended or data is being loaded. A flag that is
//! left over would hide keys, hold writers or fill a stream for ever.

use sluice_cluster::JobName;
use sluice_control::Control;
use sluice_control::cluster::mode::ClusterMode;
use sluice_keyspace::Keyspace;

/// Asserts that no state of a move remains without its job. A job that a load or a change of the role is
/// about to end is ignored.
pub(super) fn assert_whole(control: &Control, keyspace: &Keyspace) {
    let Some(mode) = control.cluster.as_deref() else { return };
    if mode.has_decisions() {
        return;
    }
    let is_primary = control.replication.replica.is_none() && control.replication.role_wanted.is_none();
    let faults = faults(mode, keyspace, is_primary && mode.map.my_primary.is_none());
    assert!(faults.is_empty(), "of moves of slots is left: {}", faults.join(", "));
}

/// The leftover state, as text. A primary (`is_primary`) ends an import at once if no job carries it out,
/// so there the mark of such an import counts as left over.
fn faults(mode: &ClusterMode, keyspace: &Keyspace, is_primary: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |job: JobName| String::from_utf8_lossy(&job.0).into_owned();
    // State of imports.
    let links = mode.moves.links.iter().filter(|link| !mode.machine.carries_out(link.job));
    faults.extend(links.map(|link| format!("the connection of the import {}", text(link.job))));
    let has_failed = |name: &[u8; 40]| mode.emptying.failed_imports.iter().any(|failed| failed.name == *name);
    let marks = keyspace.imports().iter().filter(|import| {
        is_primary && !has_failed(&import.name) && !mode.machine.has_import(JobName(import.name))
    });
    faults.extend(marks.map(|import| format!("the mark of the import {}", text(JobName(import.name)))));
    // State of exports. Held writers need no check, because the exports themselves are asked whose writers
    // are held.
    let ended =
        mode.moves.exports.iter().filter(|link| mode.machine.slots_of_export(link.job).next().is_none());
    faults.extend(ended.map(|link| format!("the connection of the export {}", text(link.job))));
    let tapped = mode.exports().tapped_without_job();
    faults.extend(tapped.map(|slot| format!("the tap of slot {}", slot.number())));
    for (id, job) in mode.exports().owners() {
        if !mode.moves.exports.iter().any(|link| link.job == job && link.stream == Some(id)) {
            faults.push(format!("the stream of the export {}", text(job)));
        }
    }
    // Slots that are being emptied.
    let emptied = || mode.emptying.slots.iter().map(|slot| slot.number());
    if !keyspace.leaving().eq(emptied()) {
        let (hidden, emptied): (Vec<u16>, Vec<u16>) = (keyspace.leaving().collect(), emptied().collect());
        faults.push(format!("the slots {hidden:?} are hidden, and {emptied:?} are being emptied"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::faults;
    use sluice_base::{HashSeed, Now, SessionKey};
    use sluice_cluster::{Cluster, ClusterSettings, HashSlot, JobName, SlotSet};
    use sluice_control::cluster::exports::ExportId;
    use sluice_control::cluster::mode::ClusterMode;
    use sluice_control::cluster::slot_moves::{ExportLink, ImportLink};
    use sluice_keyspace::{KeyHasher, Keyspace, Layout, SlotImport};

    const JOB: JobName = JobName([b'j'; 40]);

    /// The faults that the check finds after `leave` has left something without its job.
    fn left(leave: impl FnOnce(&mut ClusterMode, &mut Keyspace)) -> Vec<String> {
        let now = Now { mono_ns: 1, unix_us: 1 };
        let mut mode = ClusterMode::new(Cluster::new(now, ClusterSettings::default().into(), 1));
        let hasher = KeyHasher::new(HashSeed { k0: 1, k1: 2 }, Layout::PerSlot);
        let mut keyspace = Keyspace::new(1, hasher);
        leave(&mut mode, &mut keyspace);
        faults(&mode, &keyspace, true)
    }

    fn begin_export(mode: &mut ClusterMode) -> ExportId {
        let mut slots = SlotSet::EMPTY;
        slots.insert(HashSlot::new(7).unwrap());
        mode.exports_mut().begin(&slots, 0).unwrap()
    }

    #[test]
    fn cb_h29_nothing_of_a_move_is_left_without_its_job() {
        assert_eq!(left(|_, _| ()), Vec::<String>::new());
        let name = String::from_utf8_lossy(&JOB.0).into_owned();
        let import = left(|mode, _| {
            let session = SessionKey { slot: 1, generation: 1 };
            let slots = Box::new(SlotSet::EMPTY);
            mode.moves.links.push(ImportLink {
                session,
                job: JOB,
                slots,
                heard_bytes: 0,
                kept: None,
                in_sync: Vec::new(),
            });
        });
        assert_eq!(import, [format!("the connection of the import {name}")]);
        let mark = left(|_, keyspace| {
            keyspace.import_marks().begin(SlotImport { name: JOB.0, source: None, ranges: [(1, 2)].into() });
        });
        assert_eq!(mark, [format!("the mark of the import {name}")]);
        let export = left(|mode, _| {
            mode.moves.exports.push(ExportLink::new(JOB, mode.id(), "7".to_owned()));
        });
        assert_eq!(export, [format!("the connection of the export {name}")]);
        let stream = left(|mode, _| {
            let id = begin_export(mode);
            mode.exports_mut().job(id).unwrap().owner = Some(JOB);
        });
        assert_eq!(stream, [format!("the stream of the export {name}")]);
        let hidden = left(|_, keyspace| keyspace.hide_slots([5].into_iter()));
        assert_eq!(hidden, ["the slots [5] are hidden, and [] are being emptied"]);
    }
}
