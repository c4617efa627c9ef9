//! Records of commands in the command log and the latency monitor, and the feed of MONITOR.

use crate::core::Core;
use crate::exec::standing::Standing;
use sluice_base::Now;
use sluice_command::{Flags, Spec};
use sluice_commands::{Args, Renames, ReplyMode};
use sluice_numbers::commandlog;
use sluice_numbers::commandlog::{LogEntry, LogKind};
use sluice_numbers::redact;
use sluice_resp::Reply;
use sluice_session::{Medium, Session};

/// A command that may be recorded in a log.
#[derive(Clone, Copy)]
pub(crate) struct Loggable<'a> {
    /// Specification of the command.
    pub spec: &'static Spec,
    /// Arguments of the command, its name first.
    pub args: Args<'a>,
    /// Bytes of the command's request.
    pub request_bytes: usize,
    /// Bytes of the command's reply.
    pub reply_bytes: usize,
    /// Time of the command, ns.
    pub duration_ns: u64,
    /// The part of `duration_ns` on the main thread, for which all clients waited.
    pub executing_ns: u64,
}

impl Core {
    /// Adds a command to each command log whose threshold it has reached, unless its flags forbid that. Also
    /// reports its time on the main thread to the latency monitor.
    #[cold]
    pub(crate) fn log_command(&mut self, session: &Session, command: Loggable<'_>, now: Now) {
        let Loggable { spec, args, request_bytes, reply_bytes, duration_ns, executing_ns } = command;
        let event = if spec.flags.has(Flags::FAST) { "fast-command" } else { "command" };
        self.control.note_latency(event, now, executing_ns);
        if spec.flags.has(Flags::SKIP_COMMANDLOG) {
            return;
        }
        let limits = self.control.limits.clone();
        let wanted = [
            (LogKind::Slow, limits.slow_ns, duration_ns as i64, (duration_ns / 1000) as i64),
            (LogKind::LargeRequest, limits.large_request, request_bytes as i64, request_bytes as i64),
            (LogKind::LargeReply, limits.large_reply, reply_bytes as i64, reply_bytes as i64),
        ];
        for (kind, threshold, measured, value) in wanted {
            let max_len = self.control.log_entries_max(kind);
            if threshold < 0 || measured < threshold || max_len == 0 {
                continue;
            }
            let entry = LogEntry {
                id: 0,
                time_s: now.unix_s(),
                value,
                argv: commandlog::shorten(redact::shown(spec, args, &self.control.renames).into_iter()),
                peer: session.caller.origin.addr.clone(),
                name: commandlog::shorten_one(session.caller.name()).into(),
            };
            self.control.commandlog.push(kind, entry, max_len);
        }
    }

    /// Shows the sessions of MONITOR a command that has run, unless the command's flags forbid that. If the
    /// caller is itself in MONITOR, it gets the line for its command after the reply that the command has
    /// written.
    #[cold]
    pub(crate) fn feed_monitors(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        standing: Standing,
        now: Now,
    ) {
        if !spec.flags.has_any(Flags::SKIP_MONITOR.or(Flags::ADMIN)) {
            self.show_to_monitors(session, spec, args, standing, now);
        }
    }

    /// Shows a command to the sessions of MONITOR, whatever the command's flags.
    #[cold]
    pub(crate) fn show_to_monitors(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        standing: Standing,
        now: Now,
    ) {
        let line = monitor_line(session, spec, args, &self.control.renames, standing, now);
        let monitors = std::mem::take(&mut self.control.clients.monitors);
        for key in &monitors {
            let own = *key == session.key;
            let target = if own { Some(&mut *session) } else { self.sessions.get_mut(*key) };
            let Some(target) = target else { continue };
            // CLIENT REPLY of the caller itself is not checked here, because the line for its own command
            // is dropped with the command's reply.
            if !own && matches!(target.caller.reply, ReplyMode::Off | ReplyMode::Skipping) {
                continue;
            }
            Reply::new(&mut target.outbox, target.caller.proto).simple(&line);
            target.note_output(&mut self.control.clients.ready);
        }
        self.control.clients.monitors = monitors;
    }
}

fn monitor_line(
    session: &Session,
    spec: &'static Spec,
    args: Args<'_>,
    renames: &Renames,
    standing: Standing,
    now: Now,
) -> Vec<u8> {
    let caller = &session.caller;
    let mut line = Vec::with_capacity(64 + args.bytes());
    // Only the path of a Unix socket is shown, without the constant that follows it in `laddr` in place of a
    // port.
    let path = caller.origin.laddr.rsplit_once(':').map_or(&*caller.origin.laddr, |(path, _)| path);
    let (kind, address) = match (standing, caller.flags.medium == Medium::Unix) {
        (Standing::Script, _) => ("", "lua"),
        (_, true) => ("unix:", path),
        (_, false) => ("", &*caller.origin.addr),
    };
    let head = format!("{}.{:06} [{} {kind}{address}]", now.unix_s(), now.unix_us % 1_000_000, caller.db);
    line.extend_from_slice(head.as_bytes());
    for arg in redact::shown(spec, args, renames) {
        line.push(b' ');
        sluice_base::quote::push_quoted(&mut line, arg);
    }
    line
}
