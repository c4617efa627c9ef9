//! Exports of slots to other nodes of a cluster: the calls that the link to such a node makes. The
//! header of `cluster/exports.rs` says what they do, and in which order they are called.

use crate::cluster::exports;
use crate::engine::Engine;
use sluice_base::Bytes;
use sluice_cluster::SlotSet;
use sluice_control::cluster::exports::{ExportId, ExportNews, SlotExports};

/// Begins to export slots that this node owns. `None` if one of them is in an export already, `slots` is
/// empty, or this server is no cluster node.
pub fn begin_export(engine: &mut Engine, slots: &SlotSet) -> Option<ExportId> {
    exports::begin_export(&mut engine.core, slots)
}

/// The next bytes of an export's stream; `None` if there are none now, or the export has ended.
pub fn take_export_output(engine: &mut Engine, id: ExportId) -> Option<Bytes> {
    exports::take_export_output(&mut engine.core, id)
}

/// Notes how many of the taken bytes the link has not sent yet.
pub fn note_link_backlog(engine: &mut Engine, id: ExportId, bytes: u64) {
    exports::note_link_backlog(&mut engine.core, id, bytes);
}

/// Appends a message for the other node to the stream.
pub fn say(engine: &mut Engine, id: ExportId, word: &[u8]) {
    exports::say(&mut engine.core, id, word);
}

/// Asks that writers of the slots be held once no more than `limit` bytes are left to send; with `None`, at
/// once.
pub fn request_pause(engine: &mut Engine, id: ExportId, limit: Option<u64>) {
    exports::request_pause(&mut engine.core, id, limit);
}

/// The next event of an export, oldest first.
pub fn next_export_news(engine: &mut Engine) -> Option<(ExportId, ExportNews)> {
    exports::next_export_news(&mut engine.core)
}

/// The exports, for INFO and CLUSTER commands; `None` without cluster mode.
pub fn slot_exports(engine: &mut Engine) -> Option<&mut SlotExports> {
    exports::slot_exports(&mut engine.core)
}

/// Ends an export. The gate checks the held writers again.
pub fn end_export(engine: &mut Engine, id: ExportId) {
    exports::end_export(&mut engine.core, id);
}

/// Reports of the process about the connections of moves from this node.
pub mod links {
    use crate::cluster::driver::ClusterDriver;
    use crate::cluster::export_links;
    use crate::engine::Engine;
    use sluice_base::SessionKey;
    use sluice_cluster::{ExportInput, JobName};
    use sluice_control::process::Process;
    use sluice_session::ClientAddress;

    /// Reports an event of a move's connection, or that there is no connection.
    pub fn tell(engine: &mut Engine, job: JobName, input: ExportInput<'_>, process: &mut dyn Process) {
        export_links::tell(&mut engine.core, job, input, process);
        ClusterDriver::of(&mut engine.core).take_cluster_outputs(process);
    }

    /// Adds a session for the connection with a target. The target may send messages about moves and nothing
    /// else.
    pub fn connect(engine: &mut Engine, connection: ClientAddress, process: &mut dyn Process) -> SessionKey {
        export_links::connect_target(&mut engine.core, connection, process)
    }

    /// Whether a move has not ended and still waits for its connection.
    pub fn is_wanted(engine: &mut Engine, job: JobName) -> bool {
        export_links::is_wanted(&mut engine.core, job)
    }

    /// Notes that the target has agreed: this session is the move's connection from now on.
    pub fn begin(engine: &mut Engine, job: JobName, session: SessionKey, process: &mut dyn Process) {
        export_links::begin(&mut engine.core, job, session, process);
        ClusterDriver::of(&mut engine.core).take_cluster_outputs(process);
    }
}
