//! The control plane's view of the primary and the replicas: whether there are enough replicas, and where
//! clients are redirected.

use crate::Control;
use crate::replication::failover::FailoverTarget;
use sluice_base::SessionKey;
use sluice_command::Flags;
use sluice_commands::CmdError;
use sluice_config::param;
use sluice_replication::Primary;
use sluice_session::{Caller, ClientKind, ReplicaState, Sessions};

impl Control {
    /// Whether fewer good replicas are online than `min-replicas-to-write` requires. Always false on a
    /// replica, and if `min-replicas-max-lag` is 0.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        let needed = self.config.int(param::MIN_REPLICAS_TO_WRITE);
        needed > 0
            && self.config.int(param::MIN_REPLICAS_MAX_LAG) > 0
            && !self.replication.stream.has_primary()
            && *self.replication.good_replicas < needed
    }

    /// All replicas: first those attached to the stream, then the others that wait for or receive a snapshot.
    pub fn replicas(&self) -> Vec<SessionKey> {
        let mut keys = self.replication.stream.replicas.clone();
        let syncs = &self.replication.full_syncs;
        for key in syncs.waiting().chain(syncs.readers.iter().copied()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The redirect to the primary, for a client that understands it (CLIENT CAPA) and a command that
    /// belongs there. Reads do not belong there after READONLY.
    pub fn redirection(&self, caller: &Caller, flags: Flags) -> Option<CmdError> {
        let role = self
            .replication
            .replica
            .as_ref()
            .filter(|_| caller.flags.capa_redirect && caller.kind == ClientKind::Normal)
            // In a cluster, redirects depend on slots, and other code makes them.
            .filter(|_| self.cluster.is_none())?;
        let belongs_there = flags.has(Flags::WRITE) || flags.has(Flags::READONLY) && !caller.flags.read_only;
        let Primary { host, port } = role.primary();
        belongs_there.then(|| CmdError::Redirect(format!("{host}:{port}").into()))
    }

    /// Whether the data may be outdated and `replica-serve-stale-data` forbids showing it.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.replication.replica.as_ref().is_some_and(|role| !role.is_up())
            && !self.config.bool(param::REPLICA_SERVE_STALE_DATA)
    }

    /// The replica connected from `target`, if any. If there are several, one that no later connection has
    /// superseded is preferred.
    pub fn replica_at(&self, target: &FailoverTarget, sessions: &Sessions) -> Option<ReplicaState> {
        let sessions = self.replicas().into_iter().filter_map(|key| sessions.get(key));
        let there = sessions.filter(|session| {
            let (ip, port) = session.caller.replica_address();
            ip.eq_ignore_ascii_case(&target.host) && i64::from(port) == target.port
        });
        let states = there.filter_map(|session| session.caller.replica_state());
        states.min_by_key(|replica| replica.superseded_at.is_some())
    }
}
