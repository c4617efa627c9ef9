//! The end of the server that waits for its replicas: writes are kept back, replicas are asked how far they
//! are, and the server ends when all have everything, or after `shutdown-timeout`.

pub mod begin;

use crate::persistence::saving::Ending;
use sluice_base::SessionKey;
use sluice_commands::CmdError;
use sluice_session::Session;

/// An end that waits.
#[derive(Debug)]
pub struct PendingEnd {
    /// What is saved.
    pub ending: Ending,
    /// SHUTDOWN FORCE: it ends whatever comes of the save.
    pub force: bool,
    /// Offset of the stream that replicas must have.
    pub offset: u64,
    /// When the wait began, monotonic ns.
    pub began_ns: u64,
    /// When it is not waited for any more, ms of the monotonic clock.
    pub deadline_ms: u64,
    /// Clients of SHUTDOWN.
    pub clients: Vec<SessionKey>,
    /// SHUTDOWN ABORT.
    pub is_aborted: bool,
    /// The server has been told to end: nothing is left to do, and commands that write wait until it has.
    pub is_over: bool,
}

impl PendingEnd {
    /// Whether a replica lacks something that it shall have.
    pub(crate) fn is_awaited(&self, session: &Session) -> bool {
        let state = session.caller.replica_state();
        state.is_some_and(|replica| !u64::try_from(replica.acked).is_ok_and(|acked| acked >= self.offset))
    }
}

/// The answer of SHUTDOWN that did not end the server.
pub const NOT_ENDED: CmdError = CmdError::text("ERR Errors trying to SHUTDOWN. Check logs.");
