//! A move to this node. This file handles the source's messages, the takeover of the slots, and failures
//!

use super::contested;
use super::export;
use super::job::{ImportJob, ImportState, Takeover};
use super::{
    ImportFault, JobName, MOVE_TIMED_OUT, MigrationInput, MigrationOrder, ReportSource, SlotMove, SyncMessage,
};
use crate::epochs;
use crate::health;
use crate::machine::{ClusterMachine, ManualFailover, log};
use crate::node::{Ms, NodeIx};
use crate::output::ClusterOutput;
use crate::settings::Switch;
use crate::slots::SlotSet;
use sluice_base::mistake::{Mistake, is_made};
use std::borrow::Cow;

/// Milliseconds between two ACKs of this node.
const ACK_MS: u64 = 1_000;
/// A grant counts only within this time after this node's request for the slots, ms. The source holds
/// writes back for two seconds from its grant on, and the grant follows the request. A grant that is
/// read later, for example because this process was suspended, may come from a source that executes writes
/// again.
const GRANT_COUNTS_MS: u64 = 1_500;

/// Handles an event of a move.
pub(crate) fn handle(m: &mut ClusterMachine, input: MigrationInput<'_>) {
    match input {
        MigrationInput::Established(job) => establish(m, job),
        MigrationInput::Said { job, word } => {
            if !export::said(m, job, word) {
                said(m, job, word);
            }
        }
        MigrationInput::Begin { client, groups } => export::begin(m, client, groups),
        MigrationInput::Cancel { client } => export::cancel(m, client),
        MigrationInput::Export { job, input } => export::handle(m, job, input),
        MigrationInput::Faulted { job, fault } => faulted(m, job, fault),
        MigrationInput::Heard { job, at } => heard(m, job, at),
        MigrationInput::LinkLost { job } => {
            if !export::link_lost(m, job) {
                fail(
                    m,
                    job,
                    "Connection lost to source. Check CLUSTER GETSLOTMIGRATIONS on the source node for more \
                     information.",
                );
            }
        }
        MigrationInput::Flushed => {
            export::flushed(m);
            for name in m.keys.moves.open() {
                fail(m, name, "Data was flushed");
            }
        }
        MigrationInput::SlotFlushed(slot) => {
            for name in m.keys.moves.open() {
                if m.keys.moves.unfinished(name).is_some_and(|job| job.slots.contains(slot)) {
                    fail(m, name, "Data was flushed");
                }
            }
        }
        MigrationInput::DataReplaced => forget_all(m),
        MigrationInput::Reported { job, from } => reported(m, job, from),
        MigrationInput::ReportedEnd { job, success, message } => {
            let state = if success { ImportState::Success } else { ImportState::Failed };
            end(m, job, state, String::from_utf8_lossy(message).into_owned().into());
        }
        MigrationInput::Abandoned { job, why } => abandon(m, job, why),
        MigrationInput::CleanedUp { job } => {
            let message = m.keys.moves.unfinished(job).map(|job| job.message.clone());
            if let Some(message) = message {
                end(m, job, ImportState::Failed, message);
            }
        }
    }
}

fn establish(m: &mut ClusterMachine, job: &SlotMove) {
    let source = job.source.and_then(|source| m.table.find(&source));
    let labels = source.map(|source| &m.table.node(source).place.labels);
    let import = ImportJob::new(job, ImportState::WaitingForAck, labels, m.time.now, m.time.wall_ms / 1_000);
    log!(m, Notice, "New slot import job created: {}.", import.described);
    m.keys.moves.add(import);
}

/// Handles a message of the source.
fn said(m: &mut ClusterMachine, name: JobName, word: SyncMessage) {
    let (now, now_s) = (m.time.now, m.time.wall_ms / 1_000);
    let Some(job) = m.keys.moves.unfinished(name).filter(|job| job.state.is_open()) else { return };
    let (next, answer) = match (word, job.state) {
        (SyncMessage::Ack, state) => {
            job.acked_s = now_s;
            if state != ImportState::WaitingForAck {
                return;
            }
            (ImportState::ReceivingSnapshot, None)
        }
        (SyncMessage::SnapshotEof, ImportState::ReceivingSnapshot) => {
            (ImportState::WaitingForPaused, Some(SyncMessage::RequestPause))
        }
        (SyncMessage::Paused, ImportState::WaitingForPaused) => {
            job.requested = Some(now);
            (ImportState::FailoverRequested, Some(SyncMessage::RequestFailover))
        }
        (SyncMessage::FailoverGranted, ImportState::FailoverRequested) => {
            let counts = job.requested.is_some_and(|at| now.saturating_sub(at) <= GRANT_COUNTS_MS);
            if !counts {
                return fail(m, name, "The grant came too late");
            }
            (ImportState::FailoverGranted(Takeover::Awaited), None)
        }
        (SyncMessage::Unknown, _) => return fail(m, name, "Unknown SYNCSLOTS subcommand used"),
        (
            SyncMessage::SnapshotEof
            | SyncMessage::RequestPause
            | SyncMessage::Paused
            | SyncMessage::RequestFailover
            | SyncMessage::FailoverGranted
            | SyncMessage::Refused,
            _,
        ) => return fail(m, name, "Unexpected state machine transition"),
    };
    if word == SyncMessage::SnapshotEof {
        let described = job.described.clone();
        log!(
            m,
            Notice,
            "Slot migration {described} successfully received slot snapshot. Beginning incremental stream..."
        );
    }
    change(m, name, next);
    if let Some(word) = answer {
        order(m, MigrationOrder::Say { job: name, word });
    }
}

fn faulted(m: &mut ClusterMachine, name: JobName, fault: ImportFault) {
    match fault {
        ImportFault::OutOfMemory => {
            if let Some(job) = m.keys.moves.unfinished(name) {
                let described = job.described.clone();
                log!(m, Warning, "Slot migration {described} failed due to OOM");
            }
            fail(m, name, "Ran out of memory (OOM) during slot import");
        }
        ImportFault::ReplicasBehind => {
            if let Some(job) = m.keys.moves.unfinished(name) {
                let described = job.described.clone();
                log!(
                    m,
                    Warning,
                    "Slot migration {described} failed: a replica of this node does not acknowledge the imported \
                     data while writes wait at the source. Check the replica, and start the migration again."
                );
            }
            fail(m, name, "A replica of the target did not acknowledge in time");
        }
        ImportFault::Refused => {
            fail(m, name, "Failed to process command during slot migration. Check logs for more information")
        }
    }
}

fn heard(m: &mut ClusterMachine, name: JobName, at: Ms) {
    if let Some(job) = m.keys.moves.unfinished(name) {
        job.heard = job.heard.max(at);
    }
}

/// Does the work of a tick: sends ACKs, fails jobs whose source is silent for too long, does the tick of the
/// exports, and limits the length of the list.
pub(crate) fn tick(m: &mut ClusterMachine) {
    let now = m.time.now;
    for name in m.keys.moves.open() {
        let Some(job) = m.keys.moves.find(name) else { continue };
        if now.saturating_sub(job.heard) > m.settings.migration.repl_timeout_ms {
            let described = job.described.clone();
            log!(m, Warning, "Timing out slot migration {described} after not receiving ack for too long");
            fail(m, name, MOVE_TIMED_OUT);
        } else if job.state != ImportState::WaitingForAck
            && job.said_ack.is_none_or(|at| now.saturating_sub(at) >= ACK_MS)
        {
            job.said_ack = Some(now);
            order(m, MigrationOrder::Say { job: name, word: SyncMessage::Ack });
        }
    }
    export::tick(m);
    m.keys.moves.trim(m.settings.migration.log_len_max);
}

/// Runs at the end of a step: checks each job against the map and the role, and claims granted slots.
pub(crate) fn advance(m: &mut ClusterMachine) {
    if !std::mem::take(&mut m.keys.moves.wants_look) && !m.todo.map {
        return;
    }
    export::advance(m);
    if !m.table.me().is_primary() {
        return m.keys.moves.of_this_node().into_iter().for_each(|name| hand_over(m, name));
    }
    for name in m.keys.moves.open() {
        let Some(job) = m.keys.moves.find(name) else { continue };
        let source = job.job.source.and_then(|source| m.table.find(&source));
        let (slots, state) = (job.slots.clone(), job.state);
        if slots.iter().any(|slot| m.table.owner(slot) == Some(m.table.my_ix())) {
            fail(m, name, "Slots were unexpectedly assigned to myself during import");
        } else if source.is_none() || slots.iter().any(|slot| m.table.owner(slot) != source) {
            fail(m, name, "Slots are no longer owned by source node");
        } else if state == ImportState::FailoverGranted(Takeover::Awaited)
            && m.settings.debug.takeover_of_imports == Switch::Runs
        {
            claim(m, name, &slots, source);
        }
    }
}

/// The reason why this node must not claim slots now, for example that another node may have taken this
/// node's place; `None` if it may claim slots.
fn obstacle(m: &ClusterMachine) -> Option<&'static str> {
    // No slots are claimed while a replica of this node is about to take over, because the claim's new epoch
    // would outbid the replica's.
    if m.failover.paused != ManualFailover::Off || m.time.now < m.failover.voted_until {
        return Some("A manual failover is in progress");
    }
    health::is_apart(m).then_some("The target does not hear a majority of the primaries")
}

/// Takes the slots of a job for this node, without asking for votes. If there is an obstacle, the job
/// fails instead.
fn claim(m: &mut ClusterMachine, name: JobName, slots: &SlotSet, source: Option<NodeIx>) {
    if let Some(why) = obstacle(m) {
        return fail(m, name, why);
    }
    m.grow_sure();
    let my_ix = m.table.my_ix();
    let is_new_voter = !m.table.me().is_voter();
    for slot in slots.iter() {
        m.table.unbind(slot);
        m.table.bind(slot, my_ix);
        m.keys.strays.remove(slot);
    }
    if let Some(source) = source {
        contested::claimed(m, slots, source);
    }
    m.channels_gone(slots.clone());
    // `save` precedes the announcement, because the announcement waits for the file with this change.
    m.save();
    if is_made(Mistake::ClaimedByEpochOfSource)
        && let Some(source) = source
    {
        m.table.me_mut().config_epoch = m.table.node(source).config_epoch;
        m.announce();
    } else if is_made(Mistake::ClaimedWithoutEpoch) || epochs::bump(m).is_none() {
        m.announce();
    }
    if is_new_voter {
        epochs::takes_seat(m);
    }
    m.reconsider();
    m.durable.hold(crate::durable::Withheld::Takeover { job: name });
    if let Some(job) = m.keys.moves.find(name) {
        job.state = ImportState::FailoverGranted(Takeover::Claimed);
    }
}

/// Called when the claim of a job is durable. Returns the source, to which the caller sends a PING so that it
/// answers with a header; the claim itself is a PONG and gets no answer.
pub(crate) fn taken_over(m: &mut ClusterMachine, name: JobName) -> Option<NodeIx> {
    let my_ix = m.table.my_ix();
    let is_claimed = |job: &&mut ImportJob| job.state == ImportState::FailoverGranted(Takeover::Claimed);
    let job = m.keys.moves.unfinished(name).filter(is_claimed)?;
    let (described, slots, source) = (job.described.clone(), job.slots.clone(), job.job.source);
    // An operator, or a claim with a higher epoch, may have taken the slots while the file was written.
    if slots.iter().any(|slot| m.table.owner(slot) != Some(my_ix)) {
        clean_up(m, name, "Slots are no longer owned by source node");
        return None;
    }
    log!(
        m,
        Notice,
        "Slot migration {described} completed successfully. This node is now the owner of the slots"
    );
    order(m, MigrationOrder::Show { job: name });
    order(m, MigrationOrder::Close { job: name });
    end(m, name, ImportState::Success, "".into());
    source.and_then(|source| m.table.find(&source))
}

/// Makes a job of this node, which is a replica now, a job of its primary, so that this node no longer
/// deletes keys for the job.
fn hand_over(m: &mut ClusterMachine, name: JobName) {
    order(m, MigrationOrder::Close { job: name });
    change(m, name, ImportState::OccurringOnPrimary);
    if let Some(job) = m.keys.moves.find(name) {
        job.job.source = None;
    }
}

fn reported(m: &mut ClusterMachine, job: &SlotMove, from: ReportSource) {
    let job = SlotMove { source: None, ..job.clone() };
    let import =
        ImportJob::new(&job, ImportState::OccurringOnPrimary, None, m.time.now, m.time.wall_ms / 1_000);
    match from {
        ReportSource::Command => {
            log!(m, Notice, "New slot import job created: {}.", import.described);
            m.keys.moves.add(import);
        }
        ReportSource::Snapshot => m.keys.moves.add_oldest(import),
    }
}

/// Fails a job that was reported to this node and cannot continue. The host deletes its keys, and then the
/// job ends.
fn abandon(m: &mut ClusterMachine, job: &SlotMove, why: &'static str) {
    if m.keys.moves.unfinished(job.name).is_none() {
        reported(m, job, ReportSource::Snapshot);
    }
    clean_up(m, job.name, why);
}

/// Fails a job of this node, unless it has claimed its slots already.
fn fail(m: &mut ClusterMachine, name: JobName, why: &'static str) {
    let Some(state) = m.keys.moves.unfinished(name).map(|job| job.state).filter(|state| state.is_open())
    else {
        return;
    };
    // From FAILOVER-REQUESTED on, the source holds writes back; after its grant it would do so until the
    // pause ends (by default about ten seconds), because the end of the connection does not end the job
    // there.
    order(
        m,
        match state {
            ImportState::FailoverRequested | ImportState::FailoverGranted(_) => {
                MigrationOrder::Refuse { job: name }
            }
            _ => MigrationOrder::Close { job: name },
        },
    );
    clean_up(m, name, why);
}

/// Asks the host to delete the keys of a job.
fn clean_up(m: &mut ClusterMachine, name: JobName, why: &'static str) {
    change(m, name, ImportState::CleaningUp);
    if let Some(job) = m.keys.moves.find(name) {
        job.message = why.into();
        let described = job.described.clone();
        log!(m, Notice, "Cleaning up slot migration {described} after failed");
        order(m, MigrationOrder::CleanUp { job: name, why });
    }
}

/// Ends and forgets all jobs, because other data replace those of this node.
fn forget_all(m: &mut ClusterMachine) {
    if m.keys.moves.is_empty() {
        return;
    }
    log!(m, Notice, "Cleaning slot migration log in anticipation of a load operation.");
    export::fail_all(m, "A new RDB is being loaded");
    for name in m.keys.moves.open() {
        order(m, MigrationOrder::Close { job: name });
        end(m, name, ImportState::Failed, "A new RDB is being loaded".into());
    }
    m.keys.moves.clear();
}

/// Ends a job with this state, which the list shows with `message`.
fn end(m: &mut ClusterMachine, name: JobName, state: ImportState, message: Cow<'static, str>) {
    if m.keys.moves.unfinished(name).is_none() {
        return;
    }
    change(m, name, state);
    let Some(job) = m.keys.moves.find(name) else { return };
    job.message = message;
    let (described, message) = (job.described.clone(), job.message.clone());
    let shown = if message.is_empty() { "none" } else { &message };
    let text = format!("Slot migration {described} finished. State: {}, Message: {shown}", state.text());
    if state == ImportState::Failed {
        log!(m, Warning, "{text}");
    } else {
        log!(m, Notice, "{text}");
    }
}

fn change(m: &mut ClusterMachine, name: JobName, state: ImportState) {
    let now_s = m.time.wall_ms / 1_000;
    let Some(job) = m.keys.moves.unfinished(name) else { return };
    let before = std::mem::replace(&mut job.state, state);
    job.updated_s = now_s;
    let described = job.described.clone();
    m.keys.moves.wants_look = true;
    log!(m, Notice, "Slot migration {described} state transition: {} -> {}", before.text(), state.text());
}

fn order(m: &mut ClusterMachine, order: MigrationOrder) {
    m.out.push_back(ClusterOutput::Migration(order));
}
