//! What is recorded of commands: the command log and the feed of MONITOR.

use crate::args::Args;
use crate::commandlog::{self, LogEntry, LogKind};
use crate::engine::Engine;
use crate::session::Session;
use sluice_base::Now;
use sluice_command::{Flags, Spec};
use sluice_config::param;
use sluice_resp::Reply;

impl Engine {
    /// Adds a command to the logs whose thresholds it reached.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn log_command(
        &mut self,
        session: &Session,
        spec: &'static Spec,
        args: Args<'_>,
        nanos: u64,
        request_bytes: usize,
        reply_bytes: usize,
        now: Now,
    ) {
        let event = if spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
        self.note_latency(event, now, nanos);
        if spec.flags.has(Flags::SKIP_COMMANDLOG) {
            return;
        }
        let limits = self.control.limits.clone();
        let config = &self.control.config;
        let wanted = [
            (
                LogKind::Slow,
                limits.slow_nanos,
                nanos as i64,
                (nanos / 1000) as i64,
                param::COMMANDLOG_SLOW_EXECUTION_MAX_LEN,
            ),
            (
                LogKind::LargeRequest,
                limits.large_request,
                request_bytes as i64,
                request_bytes as i64,
                param::COMMANDLOG_LARGE_REQUEST_MAX_LEN,
            ),
            (
                LogKind::LargeReply,
                limits.large_reply,
                reply_bytes as i64,
                reply_bytes as i64,
                param::COMMANDLOG_LARGE_REPLY_MAX_LEN,
            ),
        ];
        for (kind, threshold, measured, value, max_len) in wanted {
            let max_len = config.int(max_len).max(0) as usize;
            if threshold < 0 || measured < threshold || max_len == 0 {
                continue;
            }
            let entry = LogEntry {
                id: 0,
                time_s: now.unix_s(),
                value,
                argv: commandlog::shorten(args.iter_from(0)),
                peer: session.caller.addr.clone(),
                name: session.caller.name.clone(),
            };
            self.control.commandlog.push(kind, entry, max_len);
        }
    }

    /// Shows a command to the sessions that asked for MONITOR.
    #[cold]
    pub(crate) fn feed_monitors(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        now: Now,
    ) {
        if spec.flags.has_any(Flags::SKIP_MONITOR.or(Flags::ADMIN)) {
            return;
        }
        let mut line = Vec::with_capacity(64 + args.bytes());
        let peer: &str = if session.caller.unix { "unix" } else { &session.caller.addr };
        let place = format!("{}.{:06} [{} ", now.unix_s(), now.unix_us % 1_000_000, session.caller.db);
        line.extend_from_slice(place.as_bytes());
        if session.caller.unix {
            line.extend_from_slice(b"unix:");
            line.extend_from_slice(session.caller.laddr.as_bytes());
        } else {
            line.extend_from_slice(peer.as_bytes());
        }
        line.push(b']');
        for arg in args.iter_from(0) {
            line.push(b' ');
            sluice_base::quote::push_quoted(&mut line, arg);
        }
        let monitors = std::mem::take(&mut self.control.monitors);
        for key in &monitors {
            let target = if *key == session.key { Some(&mut *session) } else { self.sessions.get_mut(*key) };
            let Some(target) = target else { continue };
            Reply::new(&mut target.outbox, target.caller.proto).simple(&line);
            if !target.queued {
                target.queued = true;
                self.control.ready.push(*key);
            }
        }
        self.control.monitors = monitors;
    }
}
