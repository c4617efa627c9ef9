//! The end of a command, for all kinds of ends.
//!
//! A command's run ends in one of the ways of [`CommandEnding`], and each ending takes some of the steps
//! of [`ENDING_STEPS`], in the order of that table. A test prints the table. A new way to end is a new
//! column; new work at the end of a command is a new row.
//!
//! Invariants: (1) no other code commits a command, counts it, logs it or shows it to MONITOR; (2) an
//! ending that is a constant at compile time costs its own steps, and no test for the other endings.

use crate::core::Core;
use crate::exec::unit::Unit;
use crate::observe::hot_keys::forget_flushed_hot_keys;
use crate::observe::logging::Loggable;
use sluice_base::Now;
use sluice_command::Spec;
use sluice_commands::{Args, Limits, ReplyMode};
use sluice_control::process::Process;
use sluice_resp::Mark;
use sluice_session::Session;

/// How the run of a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnding {
    /// The reply is written.
    Done,
    /// The reply is an error, and output that the handler had written before is discarded; or the handler has
    /// written a reply that contains an error.
    Failed,
    /// The session waits with the command. MONITOR shows the command now, and not when it runs again.
    Blocked,
    /// The session waits for another thread. The command has no effect yet, and runs again from the
    /// beginning.
    Deferred,
    /// The command has taken effect, and another thread produces its reply.
    Producing,
    /// The last piece of the reply that another thread has produced has arrived.
    Produced,
    /// The client whose reply was being produced is gone.
    Lost,
    /// The command's wait was ended with a reply, without running the command again: for example by a
    /// timeout, acknowledgements, CLIENT UNBLOCK, or the end of a load.
    Answered,
    /// The command was read from an append-only file.
    Replayed,
    /// The run, an EXEC or a script, is suspended and goes on in a later iteration.
    Yields,
}

/// A command that has ended, as the steps see it.
pub(crate) struct Ended<'a> {
    /// The execution unit of the command: for a command of a transaction or script, the unit of that
    /// transaction or script.
    pub unit: &'a mut Unit,
    /// Specification of the command.
    pub spec: &'static Spec,
    /// Arguments of the command, its name first.
    pub args: Args<'a>,
    /// The database of the command.
    pub db: usize,
    /// Bytes of the command's request.
    pub request_bytes: usize,
    /// Where the reply begins in the session's outbox.
    pub mark: Mark,
    /// Bytes of the reply that did not pass through the outbox.
    pub produced_bytes: usize,
    /// Time of earlier slices of a suspended run, ns.
    pub earlier_ns: u64,
    /// Time of the whole command, ns. For a run that ends now the step `take_time` sets it.
    pub duration_ns: u64,
    /// The part of `duration_ns` on the main thread, for which all clients waited.
    pub executing_ns: u64,
}

/// The cost of a command, as it is counted for a slot of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandCost {
    /// Bytes of the command's request.
    pub request_bytes: usize,
    /// Bytes of the reply that are sent to the client.
    pub reply_bytes: usize,
    /// Time of the command, ns.
    pub duration_ns: u64,
}

impl<'a> Ended<'a> {
    /// A command whose time is not taken yet and whose reply is in the outbox.
    #[inline(always)]
    pub(crate) fn new(
        unit: &'a mut Unit,
        spec: &'static Spec,
        args: Args<'a>,
        db: usize,
        request_bytes: usize,
        mark: Mark,
    ) -> Ended<'a> {
        Ended {
            unit,
            spec,
            args,
            db,
            request_bytes,
            mark,
            produced_bytes: 0,
            earlier_ns: 0,
            duration_ns: 0,
            executing_ns: 0,
        }
    }
}

/// Makes the table of steps, and the function that takes the steps of an ending in the order of the table.
macro_rules! endings {
    ($($step:ident: $($ending:ident)+;)+) => {
        /// The steps, and the endings that take each.
        #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
        pub(crate) const ENDING_STEPS: &[(&str, &[CommandEnding])] =
            &[$((stringify!($step), &[$(CommandEnding::$ending),+])),+];

        impl Core {
            /// Takes the steps of an ending. Inlined, so that no code of the other endings remains if the
            /// ending is a constant.
            #[inline(always)]
            pub(crate) fn take_ending_steps(
                &mut self,
                ending: CommandEnding,
                mut ended: Ended<'_>,
                session: &mut Session,
                now: &mut Now,
                process: &mut dyn Process,
            ) -> u64 {
                $(if matches!(ending, $(CommandEnding::$ending)|+) {
                    self.$step(ending, &mut ended, session, now, process);
                })+
                ended.executing_ns
            }
        }
    };
}

endings! {
    commit:              Done Failed Blocked Deferred Producing Replayed;
    note_keys:           Done Failed Producing;
    track_reads:         Done Failed Blocked Producing Answered;
    take_time:           Done Failed Producing Yields;
    count:               Done Failed Produced Lost Answered;
    log:                 Done Failed Produced;
    show_monitors:       Done Failed Blocked Producing;
    apply_client_reply:  Done Failed Answered;
    count_slot:          Done Failed Producing Produced Lost Answered;
    bound_output:        Done Failed Produced Yields;
}

impl Core {
    /// Takes the steps of an ending; not inlined, for all callers except the usual path. Returns
    /// [`Ended::executing_ns`], which the step `take_time` sets for the endings that take it.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_command(
        &mut self,
        ending: CommandEnding,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> u64 {
        self.take_ending_steps(ending, ended, session, now, process)
    }

    /// Commits the effects of the command.
    #[inline(always)]
    fn commit(
        &mut self,
        _: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        _: &mut Now,
        _: &mut dyn Process,
    ) {
        self.commit_command(ended.unit, ended.db, ended.args, session);
    }

    /// Records keys for features that few servers use: a writable replica remembers keys to which its
    /// own clients give an expiry time, and accesses to keys are counted for HOTKEYS and the page of the
    /// metrics endpoint, until a command empties the database.
    #[inline(always)]
    fn note_keys(
        &mut self,
        ending: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        _: &mut dyn Process,
    ) {
        if self.derived.has_unusual_access {
            if ending != CommandEnding::Failed {
                self.note_local_expiries(session, ended.spec, ended.args, ended.db);
                forget_flushed_hot_keys(&mut self.control, ended.spec, ended.db, now.mono_ns);
            }
            self.count_hot_keys(session, ended.spec, ended.args, ended.db, now.mono_ns);
        }
    }

    /// Remembers the keys that a tracking client has read. This step follows the commit, which forgets the
    /// keys that the command itself has found expired.
    #[inline(always)]
    fn track_reads(
        &mut self,
        ending: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        _: &mut Now,
        _: &mut dyn Process,
    ) {
        if session.tracks_reads {
            self.remember_reads(session, ended.spec, ended.args, ending, ended.unit);
        }
    }

    /// Takes the time that the command has used since `now`, and sets `now` to the start of the next command.
    #[inline(always)]
    fn take_time(
        &mut self,
        _: CommandEnding,
        ended: &mut Ended<'_>,
        _: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) {
        let end = process.now();
        let spent_ns = end.mono_ns.saturating_sub(now.mono_ns);
        *now = end;
        self.stats.iteration.command_ns += spent_ns;
        ended.duration_ns = spent_ns + ended.earlier_ns;
        ended.executing_ns = ended.duration_ns;
    }

    /// Counts the command for INFO and for the client's line in CLIENT LIST.
    #[inline(always)]
    fn count(
        &mut self,
        ending: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        _: &mut Now,
        _: &mut dyn Process,
    ) {
        session.caller.traffic.commands += 1;
        let latency_tracking = self.control.limits.latency_tracking;
        self.stats.total_commands += 1;
        let stats = &mut self.stats.commands[ended.spec.id.0 as usize];
        stats.calls += 1;
        stats.spent_ns += ended.duration_ns;
        stats.failed += u64::from(ending == CommandEnding::Failed);
        if latency_tracking {
            stats.latency.get_or_insert_default().record(ended.duration_ns);
        }
    }

    /// Records the command in the command log and the latency monitor.
    #[inline(always)]
    fn log(
        &mut self,
        _: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        _: &mut dyn Process,
    ) {
        let limits: &Limits = &self.control.limits;
        let reply_bytes = session.outbox.len_since(ended.mark) + ended.produced_bytes;
        let is_loggable = ended.duration_ns as i64 >= limits.note_ns
            || ended.request_bytes as i64 >= limits.large_request
            || reply_bytes as i64 >= limits.large_reply;
        if is_loggable {
            // The fields are taken by value, because a reference would make the compiler write the whole of
            // `ended` to memory for every command.
            let Ended { spec, args, request_bytes, duration_ns, executing_ns, .. } = *ended;
            let command = Loggable { spec, args, request_bytes, reply_bytes, duration_ns, executing_ns };
            self.log_command(session, command, *now);
        }
    }

    /// Shows the command to clients of MONITOR. A command that runs again was shown the first time.
    #[inline(always)]
    fn show_monitors(
        &mut self,
        _: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        _: &mut dyn Process,
    ) {
        if !self.control.clients.monitors.is_empty()
            && !session.is_rerun
            && ended.unit.standing.row().is_monitored
        {
            self.feed_monitors(session, ended.spec, ended.args, ended.unit.standing, *now);
        }
    }

    /// Applies the mode of CLIENT REPLY, which may discard the reply.
    #[inline(always)]
    fn apply_client_reply(
        &mut self,
        _: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        _: &mut Now,
        process: &mut dyn Process,
    ) {
        if session.caller.reply != ReplyMode::On && ended.unit.standing.row().ends_reply {
            self.control.apply_reply_mode(session, ended.mark, process);
        }
    }

    /// Counts the command for its slot of a cluster. This step follows that of CLIENT REPLY, which may
    /// discard the reply.
    #[inline(always)]
    fn count_slot(
        &mut self,
        ending: CommandEnding,
        ended: &mut Ended<'_>,
        session: &mut Session,
        _: &mut Now,
        _: &mut dyn Process,
    ) {
        if self.derived.counts_slots && ended.unit.standing.row().counts_request {
            // The fields are taken by value, for the same reason as in `log`.
            let Ended { spec, args, request_bytes, duration_ns, .. } = *ended;
            let reply_bytes = session.outbox.len_since(ended.mark) + ended.produced_bytes;
            let cost = CommandCost { request_bytes, reply_bytes, duration_ns };
            self.count_in_slot(ending, ended.unit, spec, args, cost);
        }
    }

    /// Enforces the limits on a client's output.
    #[inline(always)]
    fn bound_output(
        &mut self,
        _: CommandEnding,
        _: &mut Ended<'_>,
        session: &mut Session,
        _: &mut Now,
        process: &mut dyn Process,
    ) {
        if session.output_bytes() >= self.control.limits.output_floor {
            self.limit_output(session, process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_takes_these_steps() {
        let endings = [
            "Done",
            "Failed",
            "Blocked",
            "Deferred",
            "Producing",
            "Produced",
            "Lost",
            "Answered",
            "Replayed",
            "Yields",
        ];
        let mut table = String::new();
        for wanted in endings {
            let takes =
                |row: &&(&str, &[CommandEnding])| row.1.iter().any(|ending| format!("{ending:?}") == wanted);
            let steps: Vec<&str> = ENDING_STEPS.iter().filter(takes).map(|row| row.0).collect();
            table += &format!("{wanted}: {}\n", steps.join(", "));
        }
        assert_eq!(
            table,
            "Done: commit, note_keys, track_reads, take_time, count, log, show_monitors, apply_client_reply, count_slot, bound_output\n\
             Failed: commit, note_keys, track_reads, take_time, count, log, show_monitors, apply_client_reply, count_slot, bound_output\n\
             Blocked: commit, track_reads, show_monitors\n\
             Deferred: commit\n\
             Producing: commit, note_keys, track_reads, take_time, show_monitors, count_slot\n\
             Produced: count, log, count_slot, bound_output\n\
             Lost: count, count_slot\n\
             Answered: track_reads, count, apply_client_reply, count_slot\n\
             Replayed: commit\n\
             Yields: take_time, bound_output\n"
        );
    }
}
