//! Exports of slots to other nodes of a cluster: what the link to such a node drives. What each of these does
//! is in `cluster/exports.rs`, whose head says in which order they are called.

use crate::cluster::exports;
use crate::engine::Engine;
use sluice_base::Bytes;
use sluice_cluster::SlotSet;
use sluice_control::cluster::exports::{ExportEnd, ExportId, ExportNews, SlotExports};
use sluice_control::process::Process;

/// Begins to export slots, which this node owns. `None`: one of them is in an export already, or there is
/// none.
pub fn begin_export(engine: &mut Engine, slots: &SlotSet) -> Option<ExportId> {
    exports::begin_export(&mut engine.core, slots)
}

/// The next bytes of an export's stream; `None`: nothing now.
pub fn take_export_output(engine: &mut Engine, id: ExportId) -> Option<Bytes> {
    exports::take_export_output(&mut engine.core, id)
}

/// Notes how many of the bytes that were taken the link has not sent.
pub fn note_link_backlog(engine: &mut Engine, id: ExportId, bytes: u64) {
    exports::note_link_backlog(&mut engine.core, id, bytes);
}

/// Appends a word for the other node to the stream.
pub fn say(engine: &mut Engine, id: ExportId, word: &[u8]) {
    exports::say(&mut engine.core, id, word);
}

/// Has writers of the slots held as soon as little is left. `limit`: bytes that may be left; none: any number.
pub fn request_pause(engine: &mut Engine, id: ExportId, limit: Option<u64>) {
    exports::request_pause(&mut engine.core, id, limit);
}

/// What has happened to an export, oldest first.
pub fn next_export_news(engine: &mut Engine) -> Option<(ExportId, ExportNews)> {
    exports::next_export_news(&mut engine.core)
}

/// The exports, for what is shown of them.
pub fn slot_exports(engine: &mut Engine) -> Option<&mut SlotExports> {
    exports::slot_exports(&mut engine.core)
}

/// Ends an export. Writers that were held are asked anew.
pub fn end_export(engine: &mut Engine, id: ExportId, end: ExportEnd, process: &mut dyn Process) {
    exports::end_export(&mut engine.core, id, end, process);
}
