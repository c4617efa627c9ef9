//! The end of imports of slots that fail. Among them are imports that this server has learned of as a
//! replica, or has loaded, and that it cannot continue as a primary. Keys of their slots are
//! deleted, except in slots that this node owns by then; after that, replicas and the append-only
//! file get the command that ends the import, and the slots are shown again.
//!
//! A replica does nothing here: its primary's deletions and FINISH end the import. A full copy
//! replaces the imports by those of its primary, and so does any load.

use crate::cluster::driver::ClusterDriver;
use crate::core::Core;
use sluice_base::Now;
use sluice_base::mistake::{Mistake, is_made};
use sluice_cluster::{ClusterInput, HashSlot, JobName, MigrationInput, SlotMove};
use sluice_control::between_units::BetweenUnits;
use sluice_control::cluster::mode::FailedImport;
use sluice_control::cluster::slot_moves::move_of;
use sluice_control::process::Process;

/// Reason of a failed import: a replica that knew of it has become the primary.
pub(crate) const FAILED_OVER: &str = "A failover occurred during slot import";
/// Reason of a failed import: a primary has loaded an import whose end is not in the file.
pub(crate) const RESTARTED: &str = "Process restarted";
/// Reason of a failed import: DEBUG has loaded a file.
pub(crate) const LOADED: &str = "A new RDB is being loaded";

/// Fails the imports that this server still knows of and does not carry out, if it is a primary.
pub(crate) fn fail_imports(core: &mut Core, why: &'static str, process: &mut dyn Process) {
    if core.keyspace.imports().is_empty()
        || core.is_loading()
        || !core.control.between_units(BetweenUnits::Cluster)
    {
        return;
    }
    let replication = &core.control.replication;
    let is_primary = replication.replica.is_none() && replication.role_wanted.is_none();
    let Some(mode) = &mut core.control.cluster else { return };
    if !is_primary || mode.map.my_primary.is_some() {
        // A replica ends no imports, not even those that have failed here, because its primary does.
        mode.emptying.failed_imports.clear();
        return;
    }
    let imports = core.keyspace.imports().iter();
    let abandoned = imports.filter(|import| !mode.machine.carries_out(JobName(import.name)));
    let abandoned: Vec<SlotMove> = abandoned.map(move_of).collect();
    for job in &abandoned {
        let input = MigrationInput::Abandoned { job, why };
        mode.machine.step(process.recent(), &ClusterInput::Migration(input));
    }
    if !abandoned.is_empty() {
        ClusterDriver::of(core).take_cluster_outputs(process);
    }
}

/// Begins to delete the keys of a failed import.
pub(super) fn clean_up(core: &mut Core, job: JobName, why: &'static str, process: &mut dyn Process) {
    let Some(mode) = &mut core.control.cluster else { return };
    let imports = core.keyspace.imports();
    let Some(import) = imports.iter().find(|import| import.name == job.0) else {
        // A load has replaced the data, and the new data contain no such import.
        mode.machine.step(process.recent(), &ClusterInput::Migration(MigrationInput::CleanedUp { job }));
        return;
    };
    mode.emptying.failed_imports.push(FailedImport { name: import.name, why });
    let is_own = |slot: &HashSlot| mode.map.owner(*slot).is_some_and(|owner| owner.is_myself);
    let goes = |slot: &HashSlot| !is_own(slot);
    let slots: Vec<HashSlot> = import.slots().filter_map(HashSlot::new).filter(goes).collect();
    for slot in &slots {
        mode.emptying.slots.insert(*slot);
    }
    core.keyspace.hide_slots(slots.iter().map(|slot| slot.number()));
}

/// Forgets the failed imports whose keys are deleted, and reports their end.
pub(super) fn end_failed_imports(core: &mut Core, process: &mut dyn Process) {
    while let Some(mode) = &mut core.control.cluster
        && !mode.emptying.failed_imports.is_empty()
    {
        let imports = core.keyspace.imports();
        let slots = &mode.emptying.slots;
        let is_empty = |failed: &FailedImport| {
            let import = imports.iter().find(|import| import.name == failed.name);
            let mut own = import.into_iter().flat_map(|import| import.slots()).filter_map(HashSlot::new);
            is_made(Mistake::FinishAheadOfUnlinks) || !own.any(|slot| slots.contains(slot))
        };
        let Some(at) = mode.emptying.failed_imports.iter().position(is_empty) else { return };
        if !core.control.between_units(BetweenUnits::Cluster) {
            return;
        }
        let Some(mode) = &mut core.control.cluster else { return };
        let FailedImport { name, why } = mode.emptying.failed_imports.remove(at);
        let job = JobName(name);
        // A load may have replaced the data since the import failed.
        if core.keyspace.import_marks().end(&name).is_some() {
            tell(core, finish("failed", job, why), process.recent());
        }
        if let Some(mode) = &mut core.control.cluster {
            mode.machine.step(process.recent(), &ClusterInput::Migration(MigrationInput::CleanedUp { job }));
        }
        ClusterDriver::of(core).take_cluster_outputs(process);
    }
}

/// Sends a command about a move, which changes no key, to replicas and the append-only file.
pub(super) fn tell(core: &mut Core, words: Vec<Vec<u8>>, now: Now) {
    core.effects.rewrite_as(|| vec![words]);
    // A command without changes would not be propagated.
    core.effects.count_more_changes(1);
    core.commit_unasked_in(0, now);
}

/// Words of a FINISH that ends an import in this state, for replicas and the append-only file.
pub(super) fn finish(state: &str, job: JobName, message: &str) -> Vec<Vec<u8>> {
    let words = ["CLUSTER", "SYNCSLOTS", "FINISH", "STATE", state, "NAME"];
    let mut words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    words.push(job.0.to_vec());
    if !message.is_empty() {
        words.extend([b"MESSAGE".to_vec(), message.as_bytes().to_vec()]);
    }
    words
}
