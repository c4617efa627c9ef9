//! Exports of slots to other nodes of a cluster: what the link to such a node drives. What each of these does
//! is in `cluster/exports.rs`, whose head says in which order they are called.

use crate::cluster::exports;
use crate::engine::Engine;
use sluice_base::Bytes;
use sluice_cluster::SlotSet;
use sluice_control::cluster::exports::{ExportId, ExportNews, SlotExports};

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

/// Has writers of the slots held as soon as little is left. `limit`: bytes that may be left; none: any
/// number.
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
pub fn end_export(engine: &mut Engine, id: ExportId) {
    exports::end_export(&mut engine.core, id);
}

/// What the process tells of the connections of moves from this node.
pub mod links {
    use crate::cluster::driver::ClusterDriver;
    use crate::cluster::export_links;
    use crate::engine::Engine;
    use sluice_base::SessionKey;
    use sluice_cluster::{ExportInput, JobName};
    use sluice_control::process::Process;
    use sluice_session::ClientAddress;

    /// The connection of a move is so far, or there is none.
    pub fn tell(engine: &mut Engine, job: JobName, input: ExportInput<'_>, process: &mut dyn Process) {
        export_links::tell(&mut engine.core, job, input, process);
        ClusterDriver::of(&mut engine.core).take_cluster_outputs(process);
    }

    /// A session for the connection with a target, which may say words about moves and nothing else.
    pub fn connect(engine: &mut Engine, connection: ClientAddress, process: &mut dyn Process) -> SessionKey {
        export_links::connect_target(&mut engine.core, connection, process)
    }

    /// Whether a move waits for its connection: one that has ended meanwhile wants none.
    pub fn is_wanted(engine: &mut Engine, job: JobName) -> bool {
        export_links::is_wanted(&mut engine.core, job)
    }

    /// The target has agreed, and this session is its connection from now on.
    pub fn begin(engine: &mut Engine, job: JobName, session: SessionKey, process: &mut dyn Process) {
        export_links::begin(&mut engine.core, job, session, process);
        ClusterDriver::of(&mut engine.core).take_cluster_outputs(process);
    }
}
