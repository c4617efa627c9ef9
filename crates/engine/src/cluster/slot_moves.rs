//! Atomic moves of slots to this node: how a job begins, and how the orders of the cluster node's state
//! machine are carried out.
//!
//! A job begins between two commands or transactions, once its slots have no old keys. From then on, this
//! server executes the commands of the source as its own writes: replicas and the append-only file get them
//! between the messages that mark the start and the end of the move.

use crate::cluster::driver::ClusterDriver;
use crate::cluster::export_links;
use crate::cluster::imports::{clean_up, finish, tell};
use crate::core::Core;
use sluice_base::mistake::{Mistake, is_made};
use sluice_base::{LogLevel, Now, SessionKey};
use sluice_cluster::{
    AWAITED_NS_MAX, ClusterAnswer, ClusterInput, HashSlot, HeldAction, HeldMessage, ImportFault, JobName,
    LostSlots, MigrationInput, MigrationOrder, NodeId, ReportSource, SlotSet, SyncMessage, is_awaited,
};
use sluice_commands::{ReplyMode, WaitFor};
use sluice_control::between_units::BetweenUnits;
use sluice_control::cluster::mode::ClusterMode;
use sluice_control::cluster::slot_moves::{Establishing, ImportLink, import_of, move_of};
use sluice_control::process::Process;
use sluice_control::replication::acks::has_reached;
use sluice_resp::command::push_command;
use sluice_session::{ClientKind, Closing};

/// Begins the jobs whose slots are empty, deletes old keys of other jobs' slots, and replies to clients whose
/// job cannot begin any more. Also reports the moves that a snapshot contains, and checks the messages that
/// wait for replicas. Called once an iteration.
pub(super) fn begin_jobs(core: &mut Core, process: &mut dyn Process) {
    if !core.control.between_units(BetweenUnits::Cluster) {
        return;
    }
    let Some(mode) = &mut core.control.cluster else { return };
    for waiting in std::mem::take(&mut mode.moves.establishing) {
        begin_or_wait(core, waiting, process);
    }
    tell_of_snapshots(core, process.recent());
    go_on_with_kept(core, process);
}

fn begin_or_wait(core: &mut Core, waiting: Establishing, process: &mut dyn Process) {
    let is_there = core.sessions.get(waiting.client).and_then(|session| session.waiting.as_ref());
    let on = WaitFor::Cluster(waiting.ticket.0);
    let Some(mode) = core.control.cluster.as_deref_mut() else { return };
    if is_there.is_none_or(|waiting| waiting.on != on) {
        mode.waiting.remove(&waiting.ticket.0);
        return;
    }
    if let Err(error) = mode.machine.may_import(&waiting.job) {
        return ClusterDriver::of(core).answer_ticket(waiting.ticket, &ClusterAnswer::Error(error), process);
    }
    let databases = 0..core.keyspace.databases();
    let has_keys = |slot: &HashSlot| {
        databases.clone().any(|number| core.keyspace.db(number).slot_len(slot.number()) > 0)
    };
    let mut old = SlotSet::EMPTY;
    waiting.job.slots().filter(has_keys).for_each(|slot| {
        old.insert(slot);
    });
    if old.is_empty() {
        return begin(core, waiting, process);
    }
    // The job begins only when the old keys of its slots are deleted, because otherwise they would be taken
    // for keys of the source (G-16).
    let mut gone = SlotSet::EMPTY;
    for slot in old.iter() {
        mode.emptying.kept.remove(&slot);
        if !mode.emptying.slots.contains(slot) {
            gone.insert(slot);
        }
    }
    mode.moves.establishing.push(waiting);
    if !gone.is_empty() && !ClusterDriver::of(core).empty_slots(&gone, LostSlots::FoundAtStart, process) {
        // The reason why the keys stay has been logged already.
        let error = ClusterAnswer::Error(OLD_KEYS_STAY.to_owned());
        let mode = core.control.cluster.as_deref_mut();
        if let Some(waiting) = mode.and_then(|mode| mode.moves.establishing.pop()) {
            ClusterDriver::of(core).answer_ticket(waiting.ticket, &error, process);
        }
    }
}

/// Error of ESTABLISH if keys of an earlier owner cannot be deleted.
const OLD_KEYS_STAY: &str = "ERR Keys of an earlier owner of the slots cannot be deleted here";

/// Begins a job. The client that has asked for the job is the source of the move from now on.
fn begin(core: &mut Core, waiting: Establishing, process: &mut dyn Process) {
    let Establishing { ticket, client, job } = waiting;
    let now = process.recent();
    let Some(mode) = core.control.cluster.as_deref_mut() else { return };
    mode.machine.step(now, &ClusterInput::Migration(MigrationInput::Established(&job)));
    let mut slots = Box::new(SlotSet::EMPTY);
    job.slots().for_each(|slot| {
        slots.insert(slot);
    });
    let heard_bytes = core.sessions.get(client).map_or(0, |session| session.caller.traffic.net_in);
    mode.moves.links.push(ImportLink {
        session: client,
        job: job.name,
        slots,
        heard_bytes,
        kept: None,
        in_sync: Vec::new(),
    });
    core.control.epoch.advance();
    if !is_made(Mistake::ShownWhileImported) {
        core.keyspace.import_marks().begin(import_of(&job));
    }
    let mut words = vec![b"CLUSTER".to_vec(), b"SYNCSLOTS".to_vec(), b"ESTABLISH".to_vec()];
    if let Some(source) = job.source {
        words.extend([b"SOURCE".to_vec(), source.as_bytes().to_vec()]);
    }
    words.extend([b"NAME".to_vec(), job.name.0.to_vec(), b"SLOTSRANGE".to_vec()]);
    let bounds = job.ranges.iter().flat_map(|(first, last)| [first.number(), last.number()]);
    words.extend(bounds.map(|bound| bound.to_string().into_bytes()));
    tell(core, words, now);
    ClusterDriver::of(core).answer_ticket(ticket, &ClusterAnswer::Ok, process);
    if let Some(session) = core.sessions.get_mut(client) {
        session.caller.kind = ClientKind::SlotImport;
        session.caller.reply = ReplyMode::Off;
        session.mask = core.gate.session_mask(session);
    }
}

/// Carries out an order of the node's state machine about a move.
pub(super) fn carry_out(core: &mut Core, order: MigrationOrder, process: &mut dyn Process) {
    export_links::carry_out(core, &order, process);
    match order {
        MigrationOrder::Say { job, word } => {
            if !export_links::say(core, job, word) {
                say_or_keep(core, job, word, process);
            }
        }
        MigrationOrder::Connect { .. }
        | MigrationOrder::Stream { .. }
        | MigrationOrder::Hold { .. }
        | MigrationOrder::EndExport { .. } => {}
        MigrationOrder::Close { job } => close(core, job, Closing::Now),
        MigrationOrder::Refuse { job } => {
            say(core, job, SyncMessage::Refused);
            close(core, job, Closing::AfterReply);
        }
        MigrationOrder::CleanUp { job, why } => clean_up(core, job, why, process),
        MigrationOrder::Show { job } => {
            if core.keyspace.import_marks().end(&job.0).is_some() {
                tell(core, finish("success", job, ""), process.recent());
            }
        }
    }
}

fn session_of(core: &Core, job: JobName) -> Option<SessionKey> {
    let mode = core.control.cluster.as_ref()?;
    mode.moves.links.iter().find(|link| link.job == job).map(|link| link.session)
}

/// Sends a message to the source of a job. A message that asks the source to go on is sent only when the
/// replicas have the received data, because one of the replicas may be elected as soon as this node owns the
/// slots.
fn say_or_keep(core: &mut Core, job: JobName, word: SyncMessage, process: &mut dyn Process) {
    if word != SyncMessage::Ack
        && core.control.cluster.as_deref().is_some_and(|mode| awaited(mode, job, word).next().is_some())
    {
        let (offset, now_ns) = (core.control.replication.stream.offset, process.recent().mono_ns);
        let mode = core.control.cluster.as_deref_mut();
        if let Some(link) = mode.and_then(|mode| mode.moves.links.iter_mut().find(|link| link.job == job)) {
            link.kept = Some(HeldMessage { word, offset, asked_ns: now_ns, since_ns: now_ns });
            core.control.replication.ask_replicas = true;
            return;
        }
    }
    if word == SyncMessage::RequestPause {
        warn_of_replicas(core, &[], process);
    }
    say(core, job, word);
}

/// Logs how many replicas do not have the received data and are not waited for.
fn warn_of_replicas(core: &Core, in_sync: &[NodeId], process: &mut dyn Process) {
    let left_out = core.control.cluster.as_deref().map_or(0, |mode| mode.machine.other_replicas(in_sync));
    if left_out > 0 {
        let text = format!(
            "{left_out} replicas of this node are unreachable or lag by more than {} s: the slot migration does \
             not wait for them, and a failover to one of them would lose the new slots. Check these replicas.",
            AWAITED_NS_MAX / 1_000_000_000
        );
        process.log(LogLevel::Warning, &text);
    }
}

/// The replicas that a message waits for: those that may be elected in this node's place.
fn awaited(mode: &ClusterMode, job: JobName, word: SyncMessage) -> impl Iterator<Item = NodeId> + '_ {
    let link = mode.moves.links.iter().find(|link| link.job == job);
    let in_sync = link.map_or(&[][..], |link| &link.in_sync);
    mode.machine.electable_replicas().filter(move |id| is_awaited(word, in_sync, id))
}

/// Whether this replica has acknowledged the stream up to an offset.
fn has_acknowledged(core: &Core, replica: NodeId, offset: u64) -> bool {
    core.control.replication.stream.replicas.iter().filter_map(|key| core.sessions.get(*key)).any(|session| {
        let id =
            session.caller.origin.announced.as_deref().and_then(|announced| announced.node_id.as_deref());
        let state = session.caller.replica_state().filter(|state| state.is_online() && state.is_counted());
        id.is_some_and(|id| id.as_bytes() == replica.as_bytes())
            && state.is_some_and(|state| has_reached(state.acked, offset))
    })
}

/// Looks at each message that waits for replicas: the message goes on waiting or is sent, the replicas are
/// asked again, or the job fails.
fn go_on_with_kept(core: &mut Core, process: &mut dyn Process) {
    let Some(mode) = core.control.cluster.as_deref() else { return };
    let waiting = mode.moves.links.iter().filter_map(|link| Some((link.job, link.kept?)));
    let waiting: Vec<(JobName, HeldMessage)> = waiting.collect();
    let now_ns = process.recent().mono_ns;
    for (job, kept) in waiting {
        let Some(mode) = core.control.cluster.as_deref() else { return };
        let mut in_sync: Vec<NodeId> = awaited(mode, job, kept.word).collect();
        let wanted = in_sync.len();
        in_sync.retain(|id| has_acknowledged(core, *id, kept.offset));
        let lag = wanted - in_sync.len();
        let step = kept.step(lag, now_ns);
        let offset = core.control.replication.stream.offset;
        let Some(mode) = core.control.cluster.as_deref_mut() else { return };
        let Some(link) = mode.moves.links.iter_mut().find(|link| link.job == job) else { continue };
        match step {
            HeldAction::Wait => {}
            HeldAction::AskAnew => {
                link.kept = Some(HeldMessage { offset, asked_ns: now_ns, ..kept });
                core.control.replication.ask_replicas = true;
            }
            HeldAction::Send => {
                (link.kept, link.in_sync) = (None, in_sync.clone());
                if kept.word == SyncMessage::RequestPause {
                    warn_of_replicas(core, &in_sync, process);
                }
                say(core, job, kept.word);
            }
            HeldAction::Fail => {
                link.kept = None;
                let input = MigrationInput::Faulted { job, fault: ImportFault::ReplicasBehind };
                ClusterDriver::of(core).take_cluster_step(&ClusterInput::Migration(input), process);
            }
        }
    }
}

/// Sends a message to the source of a job. A message that asks the source to go on waits until all
/// received data are as durable as replies to clients are (H-27).
fn say(core: &mut Core, job: JobName, word: SyncMessage) {
    let Some(session) = session_of(core, job).and_then(|key| core.sessions.get_mut(key)) else { return };
    if session.caller.closing != Closing::No {
        return;
    }
    let mut bytes = Vec::new();
    push_command(&mut bytes, ["CLUSTER", "SYNCSLOTS", word.text()].iter().map(|word| word.as_bytes()));
    session.outbox.push(&bytes);
    if ![SyncMessage::Ack, SyncMessage::Refused].contains(&word) && core.control.persistence.aof.is_strict() {
        session.wait_until_durable(core.control.persistence.aof.position());
    }
    session.note_output(&mut core.control.clients.ready);
}

/// Closes the connection of a job: at once, or after the queued output is sent.
fn close(core: &mut Core, job: JobName, how: Closing) {
    let Some(mode) = core.control.cluster.as_deref_mut() else { return };
    let Some(at) = mode.moves.links.iter().position(|link| link.job == job) else { return };
    if let Some(session) = core.sessions.get_mut(mode.moves.links[at].session) {
        mode.moves.note_heard(at, session);
        session.caller.closing = how;
        if how == Closing::Now {
            core.control.clients.to_close.push(session.key);
        }
    }
    mode.moves.links.remove(at);
    core.control.epoch.advance();
}

/// Reports to the node's state machine when each source last sent something, before the time is passed to the
/// state machine, and counts the bytes that connections have carried.
pub(super) fn tell_heard(core: &mut Core, now: Now) {
    let Some(mode) = core.control.cluster.as_deref_mut() else { return };
    for at in 0..mode.moves.links.len() {
        let ImportLink { session, job, .. } = mode.moves.links[at];
        let Some(session) = core.sessions.get(session) else { continue };
        // A source was heard if its connection has carried bytes since the last call. The time of its last
        // input is not used, because it is that of the wall clock, which may be set.
        if mode.moves.note_heard(at, session) {
            let input = MigrationInput::Heard { job, at: now.mono_ns / 1_000_000 };
            mode.machine.step(now, &ClusterInput::Migration(input));
        }
    }
    for at in 0..mode.moves.exports.len() {
        let session = mode.moves.exports[at].session.and_then(|key| core.sessions.get(key));
        if let Some(session) = session {
            mode.moves.note_sent(at, session);
        }
    }
}

/// Reports to a replica's state machine the moves that a snapshot contains. On a primary this does nothing,
/// because a primary gives such moves up.
fn tell_of_snapshots(core: &mut Core, now: Now) {
    let imports = core.keyspace.imports();
    if imports.is_empty() || core.is_loading() {
        return;
    }
    let Some(mode) = core.control.cluster.as_deref_mut().filter(|mode| mode.map.my_primary.is_some()) else {
        return;
    };
    for import in imports {
        if mode.machine.has_import(JobName(import.name)) {
            continue;
        }
        let input = MigrationInput::Reported { job: &move_of(import), from: ReportSource::Snapshot };
        mode.machine.step(now, &ClusterInput::Migration(input));
    }
}
