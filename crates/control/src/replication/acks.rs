//! Acknowledgements of replicas: counting for WAIT, WAITAOF and `min-replicas-to-write`.

use crate::Control;
use sluice_base::mistake::{self, Mistake};
use sluice_session::{ReplicaState, Sessions};

/// Number of replicas that have acknowledged an offset of the replication stream.
pub fn replicas_at(control: &Control, sessions: &Sessions, offset: u64) -> i64 {
    let has_it = |replica: &ReplicaState| {
        has_reached(replica.acked, offset) || mistake::is_made(Mistake::AckOfSent) && replica.next >= offset
    };
    counted_replicas(control, sessions).filter(has_it).count() as i64
}

/// Number of replicas that have everything before an offset on disk in their append-only file.
pub fn aof_replicas_at(control: &Control, sessions: &Sessions, offset: u64) -> i64 {
    counted_replicas(control, sessions).filter(|replica| has_reached(replica.acked_aof, offset)).count()
        as i64
}

/// Whether an acknowledgement reaches `offset`. A replica without an acknowledgement has reached nothing, not
/// even offset 0, because it may still be loading the snapshot with the data written before the history
/// began.
pub fn has_reached(acked: i64, offset: u64) -> bool {
    let least = u64::from(!mistake::is_made(Mistake::SilentReplicaCounts));
    u64::try_from(acked).is_ok_and(|acked| acked >= offset.max(least))
}

/// The replicas that have the data, each once: see [`ReplicaState::is_counted`].
pub fn counted_replicas(control: &Control, sessions: &Sessions) -> impl Iterator<Item = ReplicaState> {
    online_replicas(control, sessions).filter(ReplicaState::is_counted)
}

/// The replicas that have the data; one that has reconnected may appear twice.
pub fn online_replicas(control: &Control, sessions: &Sessions) -> impl Iterator<Item = ReplicaState> {
    let replicas = control.replication.stream.replicas.iter();
    replicas.filter_map(|key| sessions.get(*key)?.caller.replica_state()).filter(ReplicaState::is_online)
}
