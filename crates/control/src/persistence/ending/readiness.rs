//! The next step of a pending shutdown, and the replicas that could take over.

use crate::Control;
use crate::persistence::ending::begin::are_replicas_at;
use crate::persistence::ending::{EndStage, PendingEnd};
use crate::process::Process;
use crate::replication::acks::has_reached;
use sluice_base::LogLevel;
use sluice_cluster::NodeId;
use sluice_session::{ReplicaState, Session, Sessions};

/// Replicas of this version and of later ones understand the order to take over (M10).
const TAKES_ORDERS: u32 = 9 << 16;

/// The next step of a pending shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStep {
    /// No shutdown is pending, or its condition does not hold yet.
    Wait,
    /// The transaction or script that was in progress has ended, or this node became a primary again in the
    /// last stage: the required offset is set to the present end of the stream.
    CountWrites,
    /// The wait for replicas is over: one takes over, or the server ends.
    PastReplicas,
    /// This node is now a replica, and its clients are to be redirected.
    Leave,
    /// The server ends now.
    End,
    /// The shutdown was aborted.
    GiveUp,
}

/// The next step of the pending shutdown. With `breaks_off`, the shutdown does not wait for the end of a busy
/// script.
pub fn next_step(control: &Control, sessions: &Sessions, breaks_off: bool, now_ms: u64) -> EndStep {
    let Some(pending) = control.persistence.pending_end.as_deref().filter(|pending| !pending.is_over) else {
        return EndStep::Wait;
    };
    let is_late = now_ms >= pending.deadline_ms;
    let if_ready = |is_ready: bool, step: EndStep| if is_ready { step } else { EndStep::Wait };
    match pending.stage {
        _ if pending.is_aborted => EndStep::GiveUp,
        EndStage::OpenUnit if !breaks_off => EndStep::CountWrites,
        EndStage::OpenUnit | EndStage::Replicas => {
            if_ready(is_late || have_replicas_enough(pending, control, sessions), EndStep::PastReplicas)
        }
        EndStage::TakingOver => match control.cluster.as_ref().map(|mode| &mode.machine) {
            Some(node) if !node.is_primary() => EndStep::Leave,
            Some(node) => if_ready(is_late || !node.is_handing_over(), EndStep::End),
            None => EndStep::End,
        },
        EndStage::Ready => EndStep::End,
        EndStage::Leaving { .. }
            if control.cluster.as_ref().is_some_and(|mode| mode.machine.is_primary()) =>
        {
            EndStep::CountWrites
        }
        EndStage::Leaving { earliest_ms, until_ms } => {
            let have_gone = now_ms >= earliest_ms && !has_clients(pending, control, sessions);
            if_ready(is_late || now_ms >= until_ms || have_gone, EndStep::End)
        }
    }
}

/// Whether the replicas have reached the required offset: all of them, or one if it is to take over; the
/// others continue with the new primary.
fn have_replicas_enough(pending: &PendingEnd, control: &Control, sessions: &Sessions) -> bool {
    are_replicas_at(control, sessions, pending.offset)
        || pending.order.in_cluster.hands_over && !successors(control, sessions, pending.offset).is_empty()
}

/// Replicas that can take over (M10): each has the stream up to `offset`, and has announced its node id.
/// Empty if some replica would not understand the order, which is sent to all.
pub fn successors(control: &Control, sessions: &Sessions, offset: u64) -> Vec<NodeId> {
    if has_legacy_replicas(control, sessions) {
        return Vec::new();
    }
    let ids = replicas(control, sessions).filter_map(|session| {
        let replica = session.caller.replica_state().filter(ReplicaState::is_online)?;
        let id = session.caller.origin.announced.as_deref()?.node_id.as_deref()?;
        NodeId::parse(id.as_bytes()).filter(|_| has_reached(replica.acked, offset))
    });
    ids.collect()
}

/// Whether some replica is too old to understand the order to take over.
pub fn has_legacy_replicas(control: &Control, sessions: &Sessions) -> bool {
    replicas(control, sessions).any(|session| {
        let announced = session.caller.origin.announced.as_deref();
        announced.is_none_or(|announced| announced.version < TAKES_ORDERS)
    })
}

fn replicas<'a>(control: &Control, sessions: &'a Sessions) -> impl Iterator<Item = &'a Session> {
    control.replicas().into_iter().filter_map(|key| sessions.get(key))
}

fn has_acknowledged(replica: &ReplicaState, offset: u64) -> bool {
    u64::try_from(replica.acked).is_ok_and(|acked| acked >= offset)
}

/// Whether any client is connected apart from those of SHUTDOWN, the replicas and the link to the primary.
fn has_clients(pending: &PendingEnd, control: &Control, sessions: &Sessions) -> bool {
    let role = control.replication.replica.as_ref();
    let links = control.replicas().len() + usize::from(role.is_some_and(|role| role.session.is_some()));
    let waiting = pending.clients.iter().filter(|key| sessions.get(**key).is_some()).count();
    sessions.len() > links + waiting
}

/// Logs the replicas that have not reached `offset`.
pub fn log_replicas(control: &Control, sessions: &Sessions, offset: u64, process: &mut dyn Process) {
    let (mut count, mut lagging) = (0, 0);
    for session in replicas(control, sessions) {
        let Some(replica) = session.caller.replica_state() else { continue };
        count += 1;
        if has_acknowledged(&replica, offset) {
            continue;
        }
        lagging += 1;
        let behind = i64::try_from(offset).unwrap_or(i64::MAX).saturating_sub(replica.acked.max(0));
        let lag = process.recent().unix_s() - replica.acked_s;
        let name = session.caller.replica_name();
        let text = format!(
            "Lagging replica {name} reported offset {behind} behind master, lag={lag}, state={:?}.",
            replica.stage
        );
        process.log(LogLevel::Notice, &text);
    }
    if count > 0 {
        let text = format!("{} of {count} replicas are in sync when shutting down.", count - lagging);
        process.log(LogLevel::Notice, &text);
    }
}
