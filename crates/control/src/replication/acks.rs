//! How far replicas are: who counts for WAIT, WAITAOF and `min-replicas-to-write`.

use crate::Control;
use sluice_base::mistake::{self, Mistake};
use sluice_session::{ReplicaState, Sessions};

/// How many replicas have acknowledged an offset of the replication stream.
pub fn replicas_at(control: &Control, sessions: &Sessions, offset: u64) -> i64 {
    let has_it = |replica: &ReplicaState| {
        has_reached(replica.acked, offset) || mistake::is_made(Mistake::AckOfSent) && replica.next >= offset
    };
    counted_replicas(control, sessions).filter(has_it).count() as i64
}

/// How many replicas have said that what stands before an offset is in their append-only file, on disk.
pub fn aof_replicas_at(control: &Control, sessions: &Sessions, offset: u64) -> i64 {
    counted_replicas(control, sessions).filter(|replica| has_reached(replica.acked_aof, offset)).count()
        as i64
}

/// A replica that has said nothing yet has reached nothing: it may be loading its snapshot, which has what
/// was written before the history began, at offset 0.
pub fn has_reached(acked: i64, offset: u64) -> bool {
    let least = u64::from(!mistake::is_made(Mistake::SilentReplicaCounts));
    u64::try_from(acked).is_ok_and(|acked| acked >= offset.max(least))
}

/// The replicas that have the data, each once: see [`ReplicaState::is_counted`].
pub fn counted_replicas(control: &Control, sessions: &Sessions) -> impl Iterator<Item = ReplicaState> {
    online_replicas(control, sessions).filter(ReplicaState::is_counted)
}

/// The replicas that have the data.
pub fn online_replicas(control: &Control, sessions: &Sessions) -> impl Iterator<Item = ReplicaState> {
    let replicas = control.replication.stream.replicas.iter();
    replicas.filter_map(|key| sessions.get(*key)?.caller.replica_state()).filter(ReplicaState::is_online)
}
