//! A move from this node. This file handles operators' commands, the target's messages, the holding back of
//! writes, and the end of the job.
//!
//! Invariant: from [`ExportState::FailoverGranted`] on the target may own the slots. Then the end of the
//! connection, CANCELSLOTMIGRATIONS and a flush do not end the job. The job then ends when the map has
//! a new owner of the slots, when the pause ends, at a refusal or an unexpected message of the target, or
//! when other data are loaded here. In this state a manual failover to a replica of this node is refused,
//! because the replica would claim the same slots.

use super::contested;
use super::export_job::{ExportJob, ExportState};
use super::{
    ExportHandshake, ExportInput, JobName, MOVE_TIMED_OUT, MigrationOrder, SlotMove, SlotsToMove, SyncMessage,
};
use crate::id::{ID_LEN, NodeId};
use crate::machine::{ClusterMachine, ManualFailover, log};
use crate::node::NodeIx;
use crate::output::ClusterOutput;
use crate::settings::Switch;
use crate::slots::{HashSlot, SlotSet};
use sluice_base::mistake::{Mistake, is_made};
use std::borrow::Cow;

/// Milliseconds between two ACKs of this node.
const ACK_MS: u64 = 1_000;
/// The least time that a target has to claim granted slots, ms; writes stay held back for as long.
const GRANT_MS: u64 = 2_000;

/// Checks that slots of one owner may leave this node (A-10, rows 12 and 13).
///
/// # Errors
/// The error for the client.
pub(crate) fn check_slots(m: &ClusterMachine, slots: &SlotSet) -> Result<(), String> {
    if slots.iter().any(|slot| m.table.owner(slot) != Some(m.table.my_ix())) {
        return Err("ERR Slots are not served by this node.".to_owned());
    }
    let exported = m.keys.moves.exported();
    match slots.iter().find(|slot| exported.contains(*slot)) {
        Some(slot) => Err(format!("ERR I am already migrating slot {}.", slot.number())),
        None => Ok(()),
    }
}

/// The node that slots are to move to (A-10, rows 16 to 18).
///
/// # Errors
/// The error for the client.
pub(crate) fn target(m: &ClusterMachine, text: &[u8]) -> Result<NodeId, String> {
    let shown = String::from_utf8_lossy(text);
    if text.len() != ID_LEN {
        return Err(format!("ERR Invalid node name: {shown}"));
    }
    match NodeId::parse(text).and_then(|id| m.table.find(&id)) {
        None => Err(format!("ERR Unknown node name: {shown}")),
        Some(ix) if ix == m.table.my_ix() => Err("ERR Target node can not be this node.".to_owned()),
        Some(ix) => Ok(m.table.node(ix).id),
    }
}

/// Begins the jobs of a MIGRATESLOTS that has been checked; the list has them in the command's
/// order.
pub(crate) fn begin(m: &mut ClusterMachine, client: &str, groups: &[SlotsToMove]) {
    let mut names = Vec::new();
    for group in groups.iter().rev() {
        let Some(ix) = m.table.find(&group.target) else { continue };
        let job = SlotMove { name: new_name(m), source: None, ranges: group.ranges.clone() };
        let to = (group.target, &m.table.node(ix).place.labels);
        let export = ExportJob::new(job, to, m.time.now, m.time.wall_ms / 1_000);
        log!(
            m,
            Notice,
            "Slot migration initiated through CLUSTER MIGRATESLOTS command: {} (user request from '{client}')",
            export.described
        );
        names.push(export.name());
        m.keys.moves.add_export(export);
    }
    names.into_iter().rev().for_each(|name| connect(m, name));
}

/// Draws the name of a job: 40 hex digits.
fn new_name(m: &mut ClusterMachine) -> JobName {
    let digits = [(); ID_LEN].map(|()| b"0123456789abcdef"[m.rng.below(16) as usize]);
    JobName(digits)
}

/// Asks the host to connect to the target of a job.
fn connect(m: &mut ClusterMachine, name: JobName) {
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    let (target, described) = (job.target, job.described.clone());
    let Some(ix) = m.table.find(&target) else { return fail(m, name, NOT_FOUND) };
    let address = &m.table.node(ix).place.address;
    let port = match m.settings.migration.uses_tls {
        true => address.tls_port,
        false => address.tcp_port,
    };
    let ip = address.ip.clone();
    log!(m, Notice, "Connecting slot migration {described} (ip: {ip}, port {port})");
    order(m, MigrationOrder::Connect { job: name, ip, port });
}

const NOT_FOUND: &str = "Unable to connect to target node: target node not found";

/// CANCELSLOTMIGRATIONS: ends all jobs whose slots are not granted yet.
pub(crate) fn cancel(m: &mut ClusterMachine, client: &str) {
    for name in m.keys.moves.unfinished_exports() {
        let is_granted = |job: &mut ExportJob| job.state == ExportState::FailoverGranted;
        if !m.keys.moves.unfinished_export(name).is_some_and(is_granted) {
            end(m, name, ExportState::Cancelled, "".into());
        }
    }
    log!(m, Notice, "Canceled all in progress slot migrations (user request from '{client}')");
}

/// Handles an event of a job's connection or stream.
pub(crate) fn handle(m: &mut ClusterMachine, name: JobName, input: ExportInput<'_>) {
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    let described = job.described.clone();
    match (input, job.state) {
        (ExportInput::Handshake(step), ExportState::Handshake(_)) => {
            if step == ExportHandshake::SendingEstablishCommand {
                log!(m, Notice, "Slot migration {described} connection established.");
            }
            change(m, name, ExportState::Handshake(step));
        }
        (ExportInput::NotConnected(why), ExportState::Handshake(_)) => fail(m, name, why.to_owned()),
        (ExportInput::Established, ExportState::Handshake(_)) => {
            change(m, name, ExportState::WaitingToSnapshot);
            order(m, MigrationOrder::Say { job: name, word: SyncMessage::Ack });
            order(m, MigrationOrder::Stream { job: name });
        }
        (ExportInput::StreamBegan, ExportState::WaitingToSnapshot) => {
            log!(m, Notice, "Beginning snapshot of slot migration {described}.");
            change(m, name, ExportState::Snapshotting);
        }
        (ExportInput::ImageSent, ExportState::Snapshotting) => image_sent(m, name),
        // The end of the stream does not matter, because all data were sent before the grant.
        (ExportInput::StreamBroke(_), ExportState::FailoverGranted) => {}
        (ExportInput::StreamBroke(why), _) => fail(m, name, why.to_owned()),
        (ExportInput::Held { left }, ExportState::WaitingToPause) => held(m, name, left),
        (
            ExportInput::Handshake(_)
            | ExportInput::NotConnected(_)
            | ExportInput::Established
            | ExportInput::StreamBegan
            | ExportInput::ImageSent
            | ExportInput::Held { .. },
            _,
        ) => {}
    }
}

fn image_sent(m: &mut ClusterMachine, name: JobName) {
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    let described = job.described.clone();
    log!(m, Notice, "Slot migration {described} snapshot finished, starting streaming.");
    change(m, name, ExportState::Replicating);
}

/// Called when writes to the job's slots are held back from now on; the stream has all earlier writes and
/// PAUSED.
fn held(m: &mut ClusterMachine, name: JobName, left: u64) {
    let unpauses = m.time.now.saturating_add(m.settings.manual_failover_timeout_ms.saturating_mul(2));
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    job.unpauses = Some(unpauses);
    let described = job.described.clone();
    log!(
        m,
        Notice,
        "Pausing writes (remaining_repl_size is {left}) to allow slot migration {described} to finalize failover."
    );
    change(m, name, ExportState::FailoverPaused);
}

/// Handles a message of the target; `false` if the job is no unfinished export of this node.
pub(crate) fn said(m: &mut ClusterMachine, name: JobName, word: SyncMessage) -> bool {
    let (now, now_s) = (m.time.now, m.time.wall_ms / 1_000);
    let Some(job) = m.keys.moves.unfinished_export(name) else { return false };
    if !job.state.is_established() {
        return true;
    }
    match (word, job.state) {
        (SyncMessage::Ack, _) => (job.acked, job.acked_s) = (now, now_s),
        // The target may have received the snapshot before this node is notified that it was sent.
        (SyncMessage::RequestPause, ExportState::Snapshotting | ExportState::Replicating) => {
            if job.state == ExportState::Snapshotting {
                change(m, name, ExportState::Replicating);
            }
            change(m, name, ExportState::WaitingToPause);
            converge(m, name);
        }
        (SyncMessage::RequestFailover, ExportState::FailoverPaused) => granted(m, name),
        (SyncMessage::Unknown, _) => fail(m, name, "Unknown SYNCSLOTS subcommand used"),
        // The target has given up the job, and claims no slots by the grant.
        (SyncMessage::Refused, _) => fail(
            m,
            name,
            "The target has refused the slots. Check CLUSTER GETSLOTMIGRATIONS on the target node for more information.",
        ),
        (
            SyncMessage::SnapshotEof
            | SyncMessage::RequestPause
            | SyncMessage::Paused
            | SyncMessage::RequestFailover
            | SyncMessage::FailoverGranted,
            _,
        ) => fail(m, name, "Unexpected state machine transition"),
    }
    true
}

/// Asks the host to hold writes back as soon as few bytes are unsent, unless a debug switch prevents it.
fn converge(m: &mut ClusterMachine, name: JobName) {
    if m.settings.debug.pauses_of_exports == Switch::Runs {
        order(m, MigrationOrder::Hold { job: name });
    }
}

/// Handles a change of directives. Pauses that a debug switch has prevented so far begin now.
pub(crate) fn settings_changed(m: &mut ClusterMachine) {
    for name in m.keys.moves.unfinished_exports() {
        let is_waiting = |job: &mut ExportJob| job.state == ExportState::WaitingToPause;
        if m.keys.moves.unfinished_export(name).is_some_and(is_waiting) {
            converge(m, name);
        }
    }
}

/// Grants the slots to the target, which has all data and may claim the slots from now on. If the
/// grant would not be safe, the job fails instead.
fn granted(m: &mut ClusterMachine, name: JobName) {
    let now = m.time.now;
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    let Some(unpauses) = job.unpauses.filter(|at| *at >= now) else {
        return fail(m, name, "Unpaused before failover completed");
    };
    // No slots are granted during a manual failover, because the replica that is about to take over does not
    // know of the grant, and would claim these slots, too.
    if m.failover.paused != ManualFailover::Off {
        return fail(m, name, "A manual failover is in progress");
    }
    if now < m.failover.voted_until {
        return fail(m, name, "Slots are no longer owned by myself");
    }
    // A suspected target gets no slots, because a replica that may be elected in its place lacks the data
    // of this move.
    let is_suspected = m.table.find(&job.target).is_some_and(|target| !m.table.node(target).is_up());
    if is_suspected {
        return fail(m, name, "Target node is failing");
    }
    job.unpauses = Some(unpauses.max(now + GRANT_MS));
    let slots = job.slots.clone();
    contested::may_leave(m, &slots);
    m.durable.withhold(&slots);
    change(m, name, ExportState::FailoverGranted);
    order(m, MigrationOrder::Say { job: name, word: SyncMessage::FailoverGranted });
}

/// Handles the end of a job's connection; `false` if the job is no unfinished export of this node.
pub(crate) fn link_lost(m: &mut ClusterMachine, name: JobName) -> bool {
    let Some(job) = m.keys.moves.unfinished_export(name) else { return false };
    if job.state != ExportState::FailoverGranted || is_made(Mistake::LostLinkEndsGrant) {
        let described = job.described.clone();
        log!(m, Notice, "Slot migration {described} connection lost");
        fail(
            m,
            name,
            "Connection lost to target. Check CLUSTER GETSLOTMIGRATIONS on the target node for more information.",
        );
    }
    true
}

/// Fails all exports for one reason.
pub(crate) fn fail_all(m: &mut ClusterMachine, why: &'static str) {
    m.keys.moves.unfinished_exports().into_iter().for_each(|name| fail(m, name, why));
}

/// Called when a database was emptied. All exports fail, except those whose slots the target may own already.
/// If these failed, writes would continue here, and would be lost when the target claims the slots.
pub(crate) fn flushed(m: &mut ClusterMachine) {
    for name in m.keys.moves.unfinished_exports() {
        let is_granted = |job: &mut ExportJob| job.state == ExportState::FailoverGranted;
        if !m.keys.moves.unfinished_export(name).is_some_and(is_granted) {
            fail(m, name, "Data was flushed");
        }
    }
}

/// Does the work of a tick: sends ACKs, and ends jobs whose target is silent for too long or whose pause is
/// over.
pub(crate) fn tick(m: &mut ClusterMachine) {
    let now = m.time.now;
    for name in m.keys.moves.unfinished_exports() {
        let Some(job) = m.keys.moves.unfinished_export(name) else { continue };
        let (state, described) = (job.state, job.described.clone());
        let is_over = job.unpauses.is_some_and(|at| now > at);
        if state == ExportState::FailoverGranted {
            if is_over {
                log!(
                    m,
                    Warning,
                    "Write loss risk! During slot migration {described}, new owner did not broadcast ownership \
                     before we unpaused ourselves. Any writes we have recorded since unpausing may be lost!"
                );
                fail(
                    m,
                    name,
                    "Unpaused before migration completed (migration may have succeeded with lost writes)",
                );
            }
        } else if is_over {
            log!(m, Warning, "Slot migration {described} timed out during slot failover.");
            fail(m, name, "Timed out before streaming completed");
        } else if now.saturating_sub(job.acked) > m.settings.migration.repl_timeout_ms {
            log!(m, Warning, "Timing out slot migration {described} after not receiving ack for too long");
            fail(m, name, MOVE_TIMED_OUT);
        } else if state.is_established() && job.said_ack.is_none_or(|at| now.saturating_sub(at) >= ACK_MS) {
            job.said_ack = Some(now);
            order(m, MigrationOrder::Say { job: name, word: SyncMessage::Ack });
        }
    }
}

/// Runs at the end of a step: checks the owners of each job's slots in the map.
pub(crate) fn advance(m: &mut ClusterMachine) {
    for name in m.keys.moves.unfinished_exports() {
        let Some(job) = m.keys.moves.unfinished_export(name) else { continue };
        let (slots, state, described) = (job.slots.clone(), job.state, job.described.clone());
        let target = m.table.find(&job.target);
        let my_ix = m.table.my_ix();
        let are_all = |owner: NodeIx| slots.iter().all(|slot| m.table.owner(slot) == Some(owner));
        if are_all(my_ix) {
            // A target that was forgotten during the move cannot take the slots over.
            if target.is_none() && state < ExportState::FailoverGranted {
                fail(m, name, NOT_FOUND);
            }
        } else if state == ExportState::FailoverGranted && target.is_some_and(are_all) {
            log!(m, Notice, "Slot migration {described} slots are now owned by target node.");
            end(m, name, ExportState::Success, "".into());
        } else {
            log!(
                m,
                Warning,
                "Slot migration {described} contains slots that are no longer all owned by myself"
            );
            fail(m, name, "Slots are no longer owned by myself");
        }
    }
}

/// Whether a target may claim slots of this node, or has claimed them without this node's knowledge.
pub(crate) fn has_granted(m: &ClusterMachine) -> bool {
    m.keys.moves.exports().any(|job| job.state == ExportState::FailoverGranted)
}

/// Whether a claim of `to` for a slot of this node counts no matter what the epochs are, because the slot was
/// granted to `to`.
pub(crate) fn is_granted(m: &ClusterMachine, slot: HashSlot, to: NodeIx) -> bool {
    m.keys.moves.exports().any(|job| {
        job.state == ExportState::FailoverGranted
            && job.slots.contains(slot)
            && m.table.find(&job.target) == Some(to)
    })
}

fn fail(m: &mut ClusterMachine, name: JobName, why: impl Into<Cow<'static, str>>) {
    end(m, name, ExportState::Failed, why.into());
}

/// Ends a job. Its connection closes, and writes that were held back are executed here or redirected,
/// depending on the map at that moment.
fn end(m: &mut ClusterMachine, name: JobName, state: ExportState, message: Cow<'static, str>) {
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    if job.state == ExportState::FailoverGranted && state != ExportState::Success {
        // The next write of the file puts the slots back into the claim that is sent to other nodes.
        m.save();
    }
    change(m, name, state);
    let Some(job) = m.keys.moves.export(name) else { return };
    job.message = message;
    let (described, message) = (job.described.clone(), job.message.clone());
    let shown = if message.is_empty() { "none" } else { &message };
    let text = format!("Slot migration {described} finished. State: {}, Message: {shown}", state.text());
    if state == ExportState::Failed {
        log!(m, Warning, "{text}");
    } else {
        log!(m, Notice, "{text}");
    }
    m.keys.moves.ended.push(name);
}

fn change(m: &mut ClusterMachine, name: JobName, state: ExportState) {
    let now_s = m.time.wall_ms / 1_000;
    let Some(job) = m.keys.moves.unfinished_export(name) else { return };
    let before = std::mem::replace(&mut job.state, state);
    job.updated_s = now_s;
    let described = job.described.clone();
    m.keys.moves.wants_look = true;
    if before != state {
        log!(m, Notice, "Slot migration {described} state transition: {} -> {}", before.text(), state.text());
    }
}

fn order(m: &mut ClusterMachine, order: MigrationOrder) {
    m.out.push_back(ClusterOutput::Migration(order));
}
