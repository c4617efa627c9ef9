//! Output limits: a client that reads its replies too slowly is closed before its output exhausts the memory.
//!
//! A reply beyond the hard limit is not sent at all: the client is closed instead.

use crate::core::Core;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_commands::{Limits, OutputLimit};
use sluice_control::process::Process;
use sluice_numbers::stats::Stats;
use sluice_session::{Authentication, Caller, ClientKind, Closing, Session};

impl Core {
    /// Closes the client of an executing session if its output is beyond the limit, which is smaller for
    /// clients that have never authenticated.
    #[cold]
    pub(crate) fn limit_output(&mut self, session: &mut Session, process: &mut dyn Process) {
        let now = process.recent();
        let unauthenticated = session.caller.flags.authentication == Authentication::Never
            && !self.control.limits.default_user_is_open;
        // The reference counts only output that does not fit a client's first buffer, which DEBUG
        // can take away.
        let allowed = if self.control.debug.enforce_reply_list { 0 } else { UNAUTHENTICATED_OUTPUT_MAX };
        let over = is_over_limit(session, &self.control.limits, now)
            || unauthenticated && session.output_bytes() > allowed;
        if !over || session.caller.closing == Closing::Now {
            return;
        }
        session.caller.closing = Closing::Now;
        self.control.clients.to_close.push(session.key);
        self.log_output_limit(session, process);
    }

    /// Counts and logs a client that is closed because of its output limit.
    #[cold]
    pub(crate) fn log_output_limit(&mut self, session: &Session, process: &mut dyn Process) {
        self.stats.disconnections.output_buffer += 1;
        let mut text = String::from("Client ");
        session.push_line(process.recent().unix_s(), self.control.clients.line_sources(), None, &mut text);
        text.push_str(" scheduled to be closed ASAP for overcoming of output buffer limits.");
        process.log(LogLevel::Warning, &text);
    }

    /// Closes a session that sent an HTTP request, and sends it nothing, because a web page may have made a
    /// browser connect to this port. The headers of the request must not be run as commands. This is logged
    /// at most once a minute.
    #[cold]
    pub(crate) fn end_http(&mut self, session: &mut Session, now_s: i64, process: &mut dyn Process) {
        session.caller.closing = Closing::Now;
        self.control.clients.to_close.push(session.key);
        if now_s - self.upkeep.cron.http_said_s < HTTP_SAID_EVERY_S {
            return;
        }
        self.upkeep.cron.http_said_s = now_s;
        let line = format!(
            "Possible SECURITY ATTACK: a client sent POST or Host:, which are words of HTTP and not \
             commands. A web browser may be in use to reach this server. The connection from {} was closed.",
            session.caller.origin.addr
        );
        process.log(LogLevel::Warning, &line);
    }
}

/// Whether a client's output is beyond its limit; notes since when it is beyond the soft limit. Replicas
/// are checked by `ReplicaFeeds::limit_replicas`.
pub(crate) fn is_over_limit(session: &mut Session, limits: &Limits, now: Now) -> bool {
    let limit = match session.caller.kind {
        ClientKind::Normal if session.caller.subscribed.is_any() => limits.output[2],
        ClientKind::Normal | ClientKind::SlotImport => limits.output[0],
        ClientKind::Replica => return false,
        // A primary gets one line a second and a log nothing, so their output needs no limit.
        ClientKind::Primary | ClientKind::Log => return false,
        // Output is queued only as fast as the socket takes it (`export_links.rs`); the rest stays in the
        // stream.
        ClientKind::SlotExport => return false,
    };
    exceeds(session.output_bytes(), limit, &mut session.caller, now)
}

/// Whether `bytes` have reached the hard limit, or the soft limit for longer than its seconds. Notes since
/// when they have reached the soft limit.
pub(crate) fn exceeds(bytes: usize, limit: OutputLimit, caller: &mut Caller, now: Now) -> bool {
    let second = u32::try_from(now.mono_ns / 1_000_000_000).unwrap_or(u32::MAX);
    let above_soft = limit.soft > 0 && bytes >= limit.soft;
    let since = &mut caller.traffic.soft_limit_since_s;
    if !above_soft {
        *since = 0;
    } else if *since == 0 {
        *since = second.max(1);
    }
    limit.hard > 0 && bytes >= limit.hard
        || above_soft && u64::from(second.saturating_sub(*since)) > limit.soft_seconds
}

/// Counts and logs a client that is closed because its unfinished request is too large.
pub(crate) fn note_query_buffer_disconnection(stats: &mut Stats, addr: &str, process: &mut dyn Process) {
    stats.disconnections.query_buffer += 1;
    let text = format!("Closing client that reached max query buffer length: {addr}");
    process.log(sluice_base::LogLevel::Warning, &text);
}

/// Seconds between two log lines about HTTP.
const HTTP_SAID_EVERY_S: i64 = 60;

/// Maximum bytes of replies that may wait for a client that has never authenticated: as in the reference,
/// where 1,024 bytes may follow a first buffer of 16 KiB.
const UNAUTHENTICATED_OUTPUT_MAX: usize = 16 * 1024 + 1024;
