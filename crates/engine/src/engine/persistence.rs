//! Calls of the process about the files: the append-only file, snapshots, loads, and the end of the server. A
//! *unit* is a command, transaction or script with its effects.

use crate::engine::Engine;
use crate::persistence::aof::{Appending, bound_of, receives_pushes};
use crate::persistence::background::Jobs;
use crate::persistence::ending::{EndBegun, ServerEnd};
use crate::persistence::loading::under_way::Loads;
use crate::persistence::rewriting::Rewrites;
use crate::persistence::saving::Saves;
use crate::replication::link::LinkSteps;
use sluice_base::mistake::Mistake;
use sluice_base::{LogLevel, SessionKey, mistake};
use sluice_cluster::ClusterInput;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::background::Slice;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::loading::LoadEnded;
use sluice_control::persistence::saving::Ending;
use sluice_control::process::{AofBacklog, AofFiles, Process};
use sluice_persist::rdb::Version;
use sluice_resp::Outbox;
use sluice_session::Closing;
use sluice_snapshot::{NotLoaded, RdbAux};
use std::ops::{ControlFlow, Range};

impl Engine {
    /// Begins to append, from the next unit on, to a file that is empty or ends with a whole unit. To be
    /// called between units.
    pub fn begin_aof(&mut self) {
        Appending::of(&mut self.core).begin_aof()
    }

    /// Ends the appending of units. Bytes that are pending can still be taken.
    pub fn end_aof(&mut self) {
        Appending::of(&mut self.core).end_aof()
    }

    /// Makes the next unit the first of another file. To be called between units, after [`Engine::take_aof`].
    pub fn begin_aof_file(&mut self) {
        Appending::of(&mut self.core).begin_aof_file()
    }

    /// Whether output waits until the append-only file is on disk: `appendfsync always`.
    pub fn is_aof_strict(&self) -> bool {
        self.core.control.persistence.aof.is_strict()
    }

    /// Position of the end of the last unit that was appended.
    pub fn aof_position(&self) -> u64 {
        self.core.control.persistence.aof.position()
    }

    /// Takes the bytes of the units that have closed since the last call, with the range of their
    /// positions. `buffer` is exchanged for them and must be empty. `None` if there are none.
    pub fn take_aof(&mut self, buffer: &mut Vec<u8>) -> Option<Range<u64>> {
        Appending::of(&mut self.core).take_aof(buffer)
    }

    /// As [`Engine::take_aof`], once an iteration, but only up to the first promised bytes that are not
    /// made yet. `buffer` is called if there is something to take.
    #[inline]
    pub fn take_made_aof(&mut self, buffer: impl FnOnce() -> Vec<u8>) -> Option<(Vec<u8>, Range<u64>)> {
        Appending::of(&mut self.core).take_made_aof(buffer)
    }

    /// Notes that the file is on disk up to this position.
    #[inline]
    pub fn report_aof_durable(&mut self, position: u64, process: &mut dyn Process) {
        if Appending::of(&mut self.core).note_durable(position) {
            self.serve_waiting(process);
        }
    }

    /// Notes that nothing can be written now, with the reason that the system gave, or with `None` that
    /// writing works again.
    pub fn report_aof_fault(&mut self, fault: Option<String>) {
        Appending::of(&mut self.core).report_aof_fault(fault)
    }

    /// The backlog that [`Engine::report_aof_backlog`] reported last.
    pub fn aof_backlog(&self) -> AofBacklog {
        self.core.control.persistence.aof.report().backlog
    }

    /// Notes how much is not on disk yet: commands that write wait until the backlog is [`AofBacklog::Fine`]
    /// again.
    #[inline]
    pub fn report_aof_backlog(&mut self, backlog: AofBacklog, process: &mut dyn Process) {
        if backlog != self.core.control.persistence.aof.report().backlog {
            Appending::of(&mut self.core).note_backlog(backlog, process);
            self.serve_waiting(process);
        }
    }

    /// Records for the latency monitor how long an event of the process took.
    pub fn report_latency(&mut self, event: &'static str, nanos: u64, process: &mut dyn Process) {
        let now = process.recent();
        self.core.control.note_latency(event, now, nanos);
    }

    /// Writes the data as the base of an append-only file, piece by piece. Errors: those that `give`
    /// returns.
    pub fn write_aof_base(
        &mut self,
        give: &mut dyn FnMut(&[u8]) -> Result<(), String>,
        process: &mut dyn Process,
    ) -> Result<(), String> {
        let used_memory = process.used_memory(&self.core.keyspace);
        let about = RdbAux {
            now: process.now(),
            used_memory,
            stream: None,
            slot_states: None,
            imports: self.core.keyspace.imports(),
            is_aof_base: true,
        };
        let config = &self.core.control.config;
        let mut result = Ok(());
        sluice_snapshot::write(
            &self.core.keyspace,
            config,
            sluice_snapshot::options(config, Version::Valkey),
            &about,
            self.core.control.libraries(),
            &mut || {},
            &mut |piece| {
                result = give(&piece);
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        result
    }

    /// Position of the append-only file up to which output may be sent: the durable position if replies
    /// wait for the disk.
    #[inline]
    pub fn output_bound(&self) -> u64 {
        bound_of(&self.core.control)
    }

    /// Defers output that must wait until the append-only file is durable, and returns the output of the
    /// session that may be sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn defer_output(
        &mut self,
        key: SessionKey,
        output: Outbox,
        durable: u64,
    ) -> Option<(Outbox, Closing)> {
        let needs = self.output_position(key);
        let session = self.core.sessions.get_mut(key)?;
        if needs <= durable && !session.has_deferred_output() {
            return Some((output, session.caller.closing));
        }
        let front = session.front.get_or_insert_default();
        if front.push(needs, output) && needs > durable {
            self.core.control.persistence.aof.await_durable(needs, key);
        }
        let output = front.take(durable);
        // The connection is not closed before the deferred output is sent.
        let closing = if front.has_deferred_output() { Closing::No } else { session.caller.closing };
        session.front.take_if(|front| front.is_empty());
        Some((output, closing))
    }

    /// Position that must be durable before a session's output, as it is now, is sent. Never falls.
    pub fn output_position(&mut self, key: SessionKey) -> u64 {
        let newest = self.core.control.persistence.aof.position();
        if mistake::is_made(Mistake::AnsweredEarly) {
            return 0;
        }
        let Some(session) = self.core.sessions.get_mut(key) else { return 0 };
        if std::mem::take(&mut session.was_pushed) || receives_pushes(&session.caller) {
            session.wait_until_durable(newest);
        }
        session.durable_at
    }

    /// Goes on with the background job (a save, a rewrite or a snapshot for replicas) for about `budget_ns`.
    /// To be called between units, once an iteration.
    pub fn save_slice(&mut self, budget_ns: u64, process: &mut dyn Process) -> Slice {
        Jobs::of(&mut self.core).save_slice(budget_ns, process)
    }

    /// Whether a background job is under way.
    #[inline]
    pub fn has_job(&self) -> bool {
        self.core.has_job()
    }

    /// Whether the job's threads have written everything that was captured so far.
    #[inline]
    pub fn job_is_starved(&self) -> bool {
        self.core.job.as_ref().is_some_and(|job| job.writing.weight() == 0)
    }

    /// Whether the end that a signal asks for waits until DEBUG PAUSE-CRON lets the cron go on. Until
    /// then SHUTDOWN ABORT can prevent it, by
    /// [`Action::KeepRunning`](sluice_control::action::Action::KeepRunning). The end also waits for an
    /// open unit; a script that has written nothing is ended so that the server can end.
    pub fn end_waits_for_cron(&mut self, process: &mut dyn Process) -> bool {
        Saves::of(&mut self.core).end_waits_for_cron(process)
    }

    /// Prepares the end of the server: saves the data if that is wanted. `false` if the server must not
    /// end, because it would lose data; the log says why.
    pub fn prepare_end(&mut self, order: &EndOrder, process: &mut dyn Process) -> bool {
        Saves::of(&mut self.core).prepare_end(order, process)
    }

    /// Saves the changes made since the data were saved for the end of the server, because the iteration may
    /// have executed other commands after SHUTDOWN. Nothing may be executed after this.
    pub fn save_rest(&mut self, process: &mut dyn Process) {
        Saves::of(&mut self.core).save_rest(process)
    }

    /// Whether the RDB file is about to become the base of the append-only file. Until then no other file may
    /// be renamed to its name, because the log after the base would repeat commands whose effects that file
    /// has already.
    pub fn is_snapshot_wanted(&mut self, process: &mut dyn Process) -> bool {
        Rewrites::of(&mut self.core).is_snapshot_wanted(process)
    }

    /// Notes that the process has put the new base in force, or could not.
    pub fn report_aof_rewrite(&mut self, is_in_force: bool, process: &mut dyn Process) {
        Rewrites::of(&mut self.core).note_rewrite(is_in_force, process);
        self.serve_waiting(process);
    }

    /// Notes that the append-only file for the units after the start of a rewrite could not be made, so the
    /// rewrite is of no use. If the base is written already, the process refuses the base, and reports that
    /// by [`Engine::report_aof_rewrite`].
    pub fn report_aof_cut_failed(&mut self, process: &mut dyn Process) {
        Rewrites::of(&mut self.core).report_aof_cut_failed(process)
    }

    /// Begins to load the snapshot file, by `Action::Load`, before the first client is served. `false` if
    /// there is no file. Errors: the log has said why.
    pub fn begin_load_at_start(&mut self, process: &mut dyn Process) -> Result<bool, NotLoaded> {
        Loads::of(&mut self.core).begin_load_at_start(process)
    }

    /// Begins to load an append-only file, by `Action::Load`, before the first client is served.
    pub fn begin_aof_load_at_start(&mut self, files: Box<dyn AofFiles>, process: &mut dyn Process) {
        Loads::of(&mut self.core).begin_aof_load_at_start(files, process)
    }

    /// Notes that the snapshot file was not loaded and holds data, so that nothing is saved in its place.
    pub fn keep_unloaded_snapshot(&mut self) {
        self.core.control.persistence.partly_loaded.snapshot = Some(self.core.control.snapshot_file());
    }

    /// Whether a load is under way.
    pub fn is_loading(&self) -> bool {
        self.core.is_loading()
    }

    /// Takes up the results of a load on the main thread, between units: to be called when the load has
    /// woken the thread.
    pub fn advance_load(&mut self, process: &mut dyn Process) -> Option<LoadEnded> {
        let (ended, open_slots) = Loads::of(&mut self.core).advance_load_under_way(process)?;
        if let Some(open_slots) = open_slots {
            self.step_cluster(&ClusterInput::OpenSlots(&open_slots), process);
        }
        self.serve_waiting(process);
        if let LoadEnded::Sync(result) = ended {
            LinkSteps::of(&mut self.core).tell_link_of_load(result, process);
        }
        Some(ended)
    }

    /// Begins the end of the server that a signal asks for.
    pub fn begin_end(&mut self, order: &EndOrder, process: &mut dyn Process) -> EndBegun {
        ServerEnd::of(&mut self.core).begin_end(order, process)
    }

    /// Stops execution: from now on no command runs and no wait ends, because the files are about to be
    /// closed and later changes would be lost. Replicas still get the rest of the stream.
    pub fn stop(&mut self) {
        self.core.control.persistence.has_stopped = true;
        self.core.derived.plain_end = None;
    }

    /// Ends the server when the condition of a pending shutdown holds, or the time for it is over.
    #[inline]
    pub(crate) fn advance_end(&mut self, process: &mut dyn Process) {
        let Some(pending) = self.core.control.persistence.pending_end.as_deref() else { return };
        // SHUTDOWN NOSAVE ends a server whose script never ends, and saves nothing of that script.
        let breaks_off = pending.order.ending == Ending::NoSave && *self.core.control.scripts.is_busy;
        if breaks_off || self.core.control.between_units(BetweenUnits::End) {
            ServerEnd::of(&mut self.core).advance_pending_end(breaks_off, process);
            self.serve_waiting(process);
        } else if process.recent().mono_ns / 1_000_000 >= pending.deadline_ms
            && let Some(line) = self.core.control.scripts.end_for_server()
        {
            // The time is over, and a script still runs: a read-only script may have begun while clients
            // were being redirected.
            process.log(LogLevel::Warning, &line);
        }
    }
}
