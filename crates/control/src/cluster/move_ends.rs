//! Events outside of the node's state machine that end slot migrations: a refused command, an unexpected
//! message, a flush, a load, a closed connection.

use crate::Control;
use crate::cluster::mode::ClusterMode;
use crate::process::Process;
use sluice_base::{LogLevel, Now, SessionKey};
use sluice_cluster::{ClusterInput, HashSlot, ImportFault, MigrationInput, SyncMessage};
use sluice_commands::CmdError;
use sluice_session::Session;

/// Fails an import because a command from its source failed here.
#[cold]
pub fn fail_import_of(control: &mut Control, session: &Session, error: &CmdError, process: &mut dyn Process) {
    let Some(mode) = control.cluster.as_deref_mut() else { return };
    let Some(job) = mode.moves.link(session.key).map(|link| link.job) else { return };
    let text = error.wire();
    let line = format!(
        "== CRITICAL == This slot-import-target is sending an error to its slot-import-source: '{}' after processing the \
         command '{}'",
        text[..text.len().min(ERROR_SHOWN_BYTES)].escape_ascii(),
        session.caller.last_command.map_or("<unknown>", |spec| spec.full_name)
    );
    process.log(LogLevel::Warning, &line);
    let fault = if text.starts_with(b"OOM ") { ImportFault::OutOfMemory } else { ImportFault::Refused };
    let input = MigrationInput::Faulted { job, fault };
    mode.machine.step(process.recent(), &ClusterInput::Migration(input));
    control.clients.blocking.node_has_decided();
}

/// Fails an export because its target sent something unexpected.
#[cold]
pub fn fail_export_of(control: &mut Control, session: SessionKey, process: &mut dyn Process) {
    let Some(mode) = control.cluster.as_deref_mut() else { return };
    let Some(job) = mode.moves.export_of(session).map(|link| link.job) else { return };
    let input = MigrationInput::Said { job, word: SyncMessage::Unknown };
    mode.machine.step(process.recent(), &ClusterInput::Migration(input));
    control.clients.blocking.node_has_decided();
}

/// Fails all migrations because a database was emptied and their keys are gone.
pub fn fail_flushed_moves(control: &mut Control, now: Now) {
    let is_moving = |mode: &&mut ClusterMode| !mode.moves.links.is_empty() || !mode.moves.exports.is_empty();
    let Some(mode) = control.cluster.as_deref_mut().filter(is_moving) else { return };
    mode.machine.step(now, &ClusterInput::Migration(MigrationInput::Flushed));
    control.clients.blocking.node_has_decided();
}

/// Fails the imports of the slot whose number is the argument `slot`, because a client has deleted the slot's
/// keys.
pub fn fail_moves_of_flushed_slot(control: &mut Control, slot: &[u8], now: Now) {
    let has_imports = |mode: &&mut ClusterMode| !mode.moves.links.is_empty();
    let Some(mode) = control.cluster.as_deref_mut().filter(has_imports) else { return };
    let number = std::str::from_utf8(slot).ok().and_then(|text| text.parse().ok());
    let Some(slot) = number.and_then(HashSlot::new) else { return };
    mode.machine.step(now, &ClusterInput::Migration(MigrationInput::SlotFlushed(slot)));
    control.clients.blocking.node_has_decided();
}

/// Ends all migrations because other data replaces the present data.
pub(crate) fn forget_slot_moves(control: &mut Control, now: Now) {
    let Some(mode) = control.cluster.as_deref_mut() else { return };
    mode.machine.step(now, &ClusterInput::Migration(MigrationInput::DataReplaced));
    mode.emptying.failed_imports.clear();
    control.clients.blocking.node_has_decided();
}

/// Reports to the machine that the connection of an export has closed.
pub fn lose_export_link(control: &mut Control, session: &Session, process: &mut dyn Process) {
    let Some(mode) = control.cluster.as_deref_mut() else { return };
    let lost = mode.moves.exports.iter().position(|link| link.session == Some(session.key));
    let Some(at) = lost else { return };
    mode.moves.note_sent(at, session);
    let link = &mut mode.moves.exports[at];
    link.session = None;
    let input = MigrationInput::LinkLost { job: link.job };
    mode.machine.step(process.recent(), &ClusterInput::Migration(input));
    control.clients.blocking.node_has_decided();
}

/// Reports to the machine that the connection of an import has closed.
pub fn lose_import_link(control: &mut Control, session: &Session, process: &mut dyn Process) {
    let Some(mode) = control.cluster.as_deref_mut() else { return };
    let Some(at) = mode.moves.links.iter().position(|link| link.session == session.key) else { return };
    mode.moves.note_heard(at, session);
    let job = mode.moves.links.swap_remove(at).job;
    control.epoch.advance();
    let input = MigrationInput::LinkLost { job };
    mode.machine.step(process.recent(), &ClusterInput::Migration(input));
    control.clients.blocking.node_has_decided();
}

/// At most this many bytes of an error's text are logged.
const ERROR_SHOWN_BYTES: usize = 4096;
