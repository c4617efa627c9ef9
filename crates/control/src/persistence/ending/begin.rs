//! What SHUTDOWN asks and begins.

use crate::Control;
use crate::persistence::ending::PendingEnd;
use crate::persistence::saving::Ending;
use crate::process::Process;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_config::param;
use sluice_session::Sessions;

/// Whether all replicas have acknowledged an offset of the stream, those included that have no data yet.
pub fn are_replicas_at(control: &Control, sessions: &Sessions, offset: u64) -> bool {
    let states = control.replicas().into_iter().filter_map(|key| sessions.get(key)?.caller.replica_state());
    states.into_iter().all(|replica| u64::try_from(replica.acked).is_ok_and(|acked| acked >= offset))
}

/// Begins to wait.
pub fn begin(pending: PendingEnd, control: &mut Control, process: &mut dyn Process) {
    process.log(LogLevel::Notice, "Waiting for replicas before shutting down.");
    *control.persistence.pending_end = Some(Box::new(pending));
    control.replication.ask_replicas = true;
}

impl PendingEnd {
    /// SHUTDOWN NOSAVE has come while a script is busy: the end does not wait for that script any more.
    /// `now`: nor for replicas.
    pub(crate) fn give_up_saving(&mut self, now: Option<Now>) {
        self.ending = Ending::NoSave;
        if let Some(now) = now {
            self.deadline_ms = self.deadline_ms.min(now.mono_ns / 1_000_000);
        }
    }

    /// An end that begins to wait now.
    pub fn new(ending: Ending, force: bool, control: &Control, now: Now) -> PendingEnd {
        let timeout_s = u64::try_from(control.config.int(param::SHUTDOWN_TIMEOUT)).unwrap_or(0);
        PendingEnd {
            ending,
            force,
            offset: control.replication.stream.offset,
            began_ns: now.mono_ns,
            deadline_ms: now.mono_ns / 1_000_000 + timeout_s * 1000,
            clients: Vec::new(),
            is_aborted: false,
            is_over: false,
        }
    }
}
