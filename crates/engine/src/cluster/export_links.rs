//! Connections of the moves of slots (slot migrations) from this node. Orders of the node's state machine (in
//! short, the machine) about them are carried out by the exports (`exports.rs`), by the process, which
//! connects, and by the session of the target.

use super::exports;
use crate::core::Core;
use crate::replication::maintenance::Notices;
use sluice_base::SessionKey;
use sluice_base::mistake::{Mistake, is_made};
use sluice_cluster::{
    ClusterInput, ExportInput, JobName, MigrationInput, MigrationOrder, SlotSet, SyncMessage,
};
use sluice_commands::ReplyMode;
use sluice_config::param;
use sluice_control::Control;
use sluice_control::action::Action;
use sluice_control::cluster::exports::{ExportNews, ExportStream};
use sluice_control::cluster::mode::ClusterMode;
use sluice_control::cluster::slot_moves::{ExportLink, ExportTarget};
use sluice_control::process::Process;
use sluice_resp::command::push_command;
use sluice_session::identity::Identity;
use sluice_session::{ClientAddress, ClientKind, Closing, Session, Sessions};

/// Nothing is queued for a target's session while at least this many bytes of its output wait; the rest stays
/// in the stream, which can be spooled to disk.
const WINDOW_BYTES: usize = 1 << 20;

/// Carries out an order of the machine about a move from this node; other orders have no effect here.
pub(super) fn carry_out(core: &mut Core, order: &MigrationOrder, process: &mut dyn Process) {
    match order {
        MigrationOrder::Connect { job, ip, port } => connect(core, *job, ip, *port),
        MigrationOrder::Stream { job } => begin_stream(core, *job, process),
        MigrationOrder::Hold { job } => {
            let limit = core.control.config.int(param::SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES);
            if let Some(id) = link_of(core, *job).and_then(|link| link.stream) {
                exports::request_pause(core, id, u64::try_from(limit).ok());
            }
        }
        MigrationOrder::EndExport { job } => end(core, *job, process),
        MigrationOrder::Say { .. }
        | MigrationOrder::Close { .. }
        | MigrationOrder::Refuse { .. }
        | MigrationOrder::CleanUp { .. }
        | MigrationOrder::Show { .. } => {}
    }
}

fn link_of(core: &mut Core, job: JobName) -> Option<&mut ExportLink> {
    core.control.cluster.as_deref_mut()?.moves.export(job)
}

/// Asks the process to connect to the target of a move.
fn connect(core: &mut Core, job: JobName, ip: &str, port: u16) {
    let Control { cluster, config, .. } = &mut core.control;
    let Some(mode) = cluster.as_deref_mut() else { return };
    let me = mode.id();
    let Some(row) = mode.machine.migrations().find(|row| row.name == job) else { return };
    let Some((target, _)) = row.nodes else { return };
    // CLUSTER SYNCSLOTS takes each range as two numbers.
    let ranges = row.slot_ranges.replace('-', " ");
    let shown_slots = shown(&row.slot_ranges);
    let mut words: Vec<&[u8]> =
        [&b"CLUSTER"[..], b"SYNCSLOTS", b"ESTABLISH", b"SOURCE", me.as_bytes(), b"NAME", &job.0].to_vec();
    words.push(b"SLOTSRANGE");
    words.extend(ranges.split(' ').map(str::as_bytes));
    let mut establish = Vec::new();
    push_command(&mut establish, words.into_iter());
    let (user, password) = (config.bytes(param::PRIMARYUSER), config.bytes(param::PRIMARYAUTH));
    let auth = (!password.is_empty()).then(|| {
        let words = [&b"AUTH"[..], user, password];
        let mut out = Vec::new();
        push_command(
            &mut out,
            words.iter().copied().filter(|word| !word.is_empty()).collect::<Vec<_>>().into_iter(),
        );
        out
    });
    mode.moves.exports.push(ExportLink::new(job, target, shown_slots));
    core.actions.push(Action::ConnectExport(Box::new(ExportTarget {
        job,
        host: ip.to_owned(),
        port,
        auth,
        establish,
    })));
}

/// Ranges of slots in the form that clients receive: separated by commas, with a range of one slot shown as a
/// single number.
fn shown(ranges: &str) -> String {
    let shown = ranges.split(' ').map(|range| match range.split_once('-') {
        Some((first, last)) if first == last => first,
        _ => range,
    });
    shown.collect::<Vec<_>>().join(",")
}

/// Reports an event of a move's connection or stream to the machine. The caller carries out
/// the machine's outputs.
pub(crate) fn tell(core: &mut Core, job: JobName, input: ExportInput<'_>, process: &mut dyn Process) {
    let Some(mode) = core.control.cluster.as_deref_mut() else { return };
    mode.machine.step(process.recent(), &ClusterInput::Migration(MigrationInput::Export { job, input }));
}

/// Adds a session for the connection with a target.
pub(crate) fn connect_target(
    core: &mut Core,
    connection: ClientAddress,
    process: &mut dyn Process,
) -> SessionKey {
    let now_s = process.now().unix_s();
    let Core { sessions, gate, control, .. } = core;
    let identity = Identity::authenticated(control.clients.users.users().default_user().clone());
    sessions.add(|key, id| {
        let mut session = Session::new(key, id, connection, now_s, identity);
        // From the first byte on, the connection carries messages about moves and nothing else.
        session.caller.kind = ClientKind::SlotExport;
        session.caller.reply = ReplyMode::Off;
        gate.masked(session)
    })
}

/// Whether a move from this node waits for its connection.
pub(crate) fn is_wanted(core: &mut Core, job: JobName) -> bool {
    link_of(core, job).is_some_and(|link| link.session.is_none())
}

/// Notes that the target has agreed: this session is the move's connection from now on.
pub(crate) fn begin(core: &mut Core, job: JobName, session: SessionKey, process: &mut dyn Process) {
    if let Some(link) = link_of(core, job) {
        link.session = Some(session);
        tell(core, job, ExportInput::Established, process);
    }
}

fn begin_stream(core: &mut Core, job: JobName, process: &mut dyn Process) {
    let Some(mode) = core.control.cluster.as_deref() else { return };
    let mut slots = SlotSet::EMPTY;
    mode.machine.slots_of_export(job).for_each(|slot| {
        slots.insert(slot);
    });
    let stream = exports::begin_export(core, &slots);
    if let Some(link) = link_of(core, job) {
        link.stream = stream;
    }
    let exports = core.control.cluster.as_mut().map(|mode| mode.exports_mut());
    if let Some(export) = exports.zip(stream).and_then(|(exports, id)| exports.job(id)) {
        export.owner = Some(job);
    }
    match stream {
        Some(_) => Notices::of(core, None, process).tell_slots_leave(job),
        None => tell(core, job, ExportInput::StreamBroke("Failed to start snapshot"), process),
    }
}

/// Sends a message to the target of a move: in the stream between two whole commands or, before the stream
/// has begun, on the connection. `false` if the job is no move from this node.
pub(super) fn say(core: &mut Core, job: JobName, word: SyncMessage) -> bool {
    let Some(link) = link_of(core, job) else { return false };
    let (session, stream) = (link.session, link.stream);
    if let Some(id) = stream {
        exports::say(core, id, word.text().as_bytes());
        if word == SyncMessage::FailoverGranted && is_made(Mistake::HoldEndsAtGrant) {
            // Bytes of the export that are not sent yet are queued first, because the end of the export
            // drops them.
            feed(core);
            exports::end_export(core, id);
        } else if word == SyncMessage::FailoverGranted {
            exports::grant(core, id);
        }
    } else if let Some(session) = session.and_then(|key| core.sessions.get_mut(key)) {
        let mut bytes = Vec::new();
        push_command(&mut bytes, ["CLUSTER", "SYNCSLOTS", word.text()].iter().map(|word| word.as_bytes()));
        session.outbox.push(&bytes);
        session.note_output(&mut core.control.clients.ready);
    }
    true
}

/// Ends a move: its stream ends, held writers continue, and its connection is closed. No key is deleted here:
/// if another node owns the slots now, the new map leads to the deletion, as after any claim.
fn end(core: &mut Core, job: JobName, process: &mut dyn Process) {
    let Some(mode) = core.control.cluster.as_deref_mut() else { return };
    let Some(at) = mode.moves.exports.iter().position(|link| link.job == job) else { return };
    let of_link = mode.moves.exports[at].session.and_then(|key| core.sessions.get_mut(key));
    if let Some(session) = of_link {
        mode.moves.note_sent(at, session);
        session.caller.closing = Closing::Now;
        core.control.clients.to_close.push(session.key);
    }
    let link = mode.moves.exports.swap_remove(at);
    mode.exports_mut().note_time(process.recent().mono_ns);
    if let Some(id) = link.stream {
        let slots = exports::end_export(core, id);
        Notices::of(core, None, process).tell_move_over(&link, &slots);
    }
    core.control.epoch.advance();
}

/// Bytes of memory of streams to targets of moves. They do not count for `maxmemory`, because a target
/// that reads nothing would cause evictions.
pub(crate) fn held_for_targets(core: &Core) -> usize {
    let Some(mode) = core.control.cluster.as_deref() else { return 0 };
    let sessions = mode.moves.exports.iter().filter_map(|link| core.sessions.get(link.session?));
    mode.exports().memory_bytes() + sessions.map(Session::output_bytes).sum::<usize>()
}

/// Continues the work on the connections, once an iteration, after the exports: handles events of streams,
/// and queues bytes for the targets.
pub(super) fn advance(core: &mut Core, process: &mut dyn Process) {
    if core.control.cluster.as_ref().is_none_or(|mode| mode.moves.exports.is_empty()) {
        return;
    }
    while let Some((id, news)) = exports::next_export_news(core) {
        let links = core.control.cluster.as_ref().map(|mode| &mode.moves.exports);
        let Some(job) = links.and_then(|links| links.iter().find(|link| link.stream == Some(id))) else {
            continue;
        };
        let job = job.job;
        match news {
            ExportNews::SnapshotBegan => tell(core, job, ExportInput::StreamBegan, process),
            ExportNews::SnapshotWhole => tell(core, job, ExportInput::ImageSent, process),
            ExportNews::Paused { unsent } => tell(core, job, ExportInput::Held { left: unsent }, process),
            ExportNews::Failed(why) => tell(core, job, ExportInput::StreamBroke(&why), process),
        }
    }
    feed(core);
}

/// Whether any target's session has room for bytes of its stream.
pub(crate) fn have_room(mode: &ClusterMode, sessions: &Sessions) -> bool {
    mode.moves.exports.iter().any(|link| {
        let session = link.session.and_then(|key| sessions.get(key));
        let stream = link.stream.and_then(|id| mode.exports().of(id)).map(|job| &job.stream);
        session.is_some_and(|session| session.output_bytes() < WINDOW_BYTES)
            && stream.is_some_and(ExportStream::may_be_taken)
    })
}

/// Queues bytes for the targets' sessions as far as they have room.
fn feed(core: &mut Core) {
    let Core { sessions, control, .. } = core;
    let Some(mode) = control.cluster.as_deref_mut() else { return };
    for at in 0..mode.moves.exports.len() {
        let ExportLink { session, stream, .. } = &mode.moves.exports[at];
        let (session, stream) = (*session, *stream);
        let Some((session, id)) = session.and_then(|key| sessions.get_mut(key)).zip(stream) else { continue };
        let Some(job) = mode.exports_mut().job(id) else { continue };
        let mut gave = false;
        while session.output_bytes() < WINDOW_BYTES
            && let Some(bytes) = job.stream.take()
        {
            session.outbox.push_shared(bytes);
            gave = true;
        }
        job.in_link = session.output_bytes() as u64;
        if gave {
            session.note_output(&mut control.clients.ready);
        }
    }
}
