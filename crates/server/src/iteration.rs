//! The server's main thread, which runs the iterations of the event loop: wait; execute the received
//! requests; do other work that is due; send replies; close sockets.
//!
//! Invariants: (1) requests are executed as they are received, in the event loop's buffer; the bytes of an
//! incomplete request are copied once, into the query buffer of the connection or, for a large argument, into
//! the future value; (2) the engine's output is taken and sent in the phase `write`, after all commands of
//! the iteration were executed; (3) until the end of the server, the main thread closes the sockets of
//! clients in the two phases of `Server::close` and nowhere else, apart from sockets that are in no event
//! loop; no output is sent to a client after it was closed there.

mod agenda;
mod aof;
mod arrivals;
mod batches;
mod bus;
mod exports;
mod main_channel;
mod main_thread;
mod moves;
mod phases;
mod replica;
mod save_pace;
mod shutdown;
mod timing;
mod turns;

use crate::arrivals::{ACCEPTS_PER_ITERATION, Arrivals};
use crate::bus::Bus;
use crate::clients::{Clients, SocketOwner};
use crate::connection::spare::SpareBuffers;
use crate::connection::{self, ConnectionHost};
use crate::host::Host;
use crate::iothreads::{MainSockets, Manager, ToIoThread};
use crate::lazyfree::Garbage;
use crate::listen::listeners::Listeners;
use crate::loader;
use crate::metrics::message::MetricsSettings;
use crate::metrics::{MetricsEndpoint, is_guarded};
use crate::migrate::{MigrationSource, Migrator};
use crate::net::Endpoint;
use crate::replica::PrimaryConnections;
use crate::slot_export::{ExportDialler, ExportSource};
use crate::slow_reads::SlowReadThreads;
use crate::test_switches;
use crate::users::loads::UserLoads;
use agenda::Agenda;
use batches::Batches;
use save_pace::SavePace;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_commands::SlowRead;
use sluice_config::choice::EventLoop;
use sluice_config::{Config, param};
use sluice_control::action::{Action, Crash};
use sluice_control::persistence::background::Slice;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::loading::{LoadEnded, LoadJob};
use sluice_control::process::ProcessClock;
use sluice_daemon::signals::{self, Signals};
use sluice_engine::{EndBegun, Engine};
use sluice_evloop::{AnyLoop, Backend, Event, GatherMode};
use sluice_resp::Requests;
use sluice_storage::aof::Folder;
use sluice_storage::plain_error;
use std::sync::Arc;
use std::time::Duration;
use timing::Timing;

/// The server: the engine, the process around it, and the parts that connect the engine with its clients.
pub struct Server {
    engine: Engine,
    host: Host,
    sockets: Sockets,
    listeners: Listeners,
    signals: Signals,
    /// A signal that ends the server, from its arrival until the cron handles it.
    waiting_end: Option<signals::EndSignal>,
    io_threads: Manager,
    batches: Batches,
    slow_reads: SlowReadThreads,
    /// The part that executes MIGRATE, which sends keys to other servers.
    migrator: Migrator,
    /// The part that makes the connections with the targets of slot moves.
    exports: ExportDialler,
    user_loads: UserLoads,
    /// Accepted connections that are not clients yet.
    arrivals: Arrivals,
    /// Connections with the other nodes of a cluster.
    bus: Bus,
    /// The HTTP endpoint that serves metrics.
    metrics: MetricsEndpoint,
    timing: Timing,
    /// The iteration's work other than clients' plain commands.
    agenda: Agenda,
    /// The connections of the link to the primary.
    primary_link: PrimaryConnections,
    /// The time at which the save under way continues, if it has more entries to capture and room for
    /// captured entries.
    save: SavePace,
    /// Whether the memory of each part of the server is measured at the end of each iteration.
    sums_memory: bool,
    /// The actions that the engine has requested, while they are carried out; empty otherwise.
    actions: Vec<Action>,
    /// The exit status; `Some` if the server is to end.
    ending: Option<i32>,
    /// Whether the server ends without the shutdown sequence, because it has never served its data.
    ends_at_once: bool,
    /// The folder of the append-only file that is opened after the load.
    folder_to_open: Option<Folder>,
}

/// The main thread's event loop and the sockets' state.
struct Sockets {
    event_loop: AnyLoop,
    clients: Clients,
    spare: SpareBuffers,
    /// The server's address as the client that connected last sees it.
    laddr: Arc<str>,
    /// The requests of the receive that is being executed.
    requests: Requests,
    /// Clients to which the phase `write` sends their output, if they have any.
    ready: Vec<SessionKey>,
    /// Number of bytes that the present phase `write` has handed to the kernel.
    sent_bytes: usize,
    /// Number of clients at the front of `ready` that had no turn in the last iteration, because the
    /// phase `write` had reached `SENT_BYTES_MAX`.
    kept_back: usize,
    /// Clients whose sockets are to be closed at the end of the iteration.
    to_close: Vec<SessionKey>,
}

/// Maximum number of bytes that the phase `write` hands to the kernel in one iteration; the last client's
/// output and short outputs may exceed this bound. Copying this many bytes takes about a millisecond.
/// Clients that had no turn get one in a later iteration, and requests of other clients are executed in
/// between.
const SENT_BYTES_MAX: usize = 4 << 20;
/// An output of up to this many bytes is sent without waiting for a turn.
const SHORT_OUTPUT: usize = 16 << 10;

/// How long after the start the memory of the parts is first measured.
const SUMS_FROM_NS: u64 = 200_000_000;

impl Server {
    /// A server made of these parts, whose listeners begin to accept.
    pub fn new(mut engine: Engine, mut host: Host, mut event_loop: AnyLoop, mut signals: Signals) -> Server {
        host.waker = Some(event_loop.waker());
        if let Some(fd) = signals.take_descriptor() {
            signals.source = Some(event_loop.attach(fd, Endpoint::Signal.token()));
        }
        let backend = backend_of(engine.config());
        let ring = test_switches::number(test_switches::RING).unwrap_or(0) as usize;
        let io_threads = Manager::new(&engine, event_loop.waker(), backend, ring);
        let threads = engine.config().int(param::SLOW_READ_THREADS);
        let slow_reads = SlowReadThreads::new(usize::try_from(threads).unwrap_or(0), event_loop.waker());
        engine.set_slow_read_threads(slow_reads.threads());
        let migrator = Migrator::new(host.kept_links.clone(), event_loop.waker());
        let exports = ExportDialler::new(event_loop.waker());
        let user_loads = UserLoads::new(host.storage.clone(), event_loop.waker());
        let sockets = Sockets {
            event_loop,
            clients: Clients::default(),
            spare: SpareBuffers::default(),
            laddr: "".into(),
            requests: Requests::new(),
            ready: Vec::new(),
            sent_bytes: 0,
            kept_back: 0,
            to_close: Vec::new(),
        };
        let mut server = Server {
            engine,
            host,
            sockets,
            listeners: Listeners::default(),
            signals,
            waiting_end: None,
            io_threads,
            batches: Batches::default(),
            slow_reads,
            migrator,
            exports,
            user_loads,
            arrivals: Arrivals::default(),
            bus: Bus::new(),
            metrics: MetricsEndpoint::default(),
            timing: Timing::default(),
            agenda: Agenda::default(),
            primary_link: PrimaryConnections::new(),
            save: SavePace::default(),
            sums_memory: test_switches::number(test_switches::PARTS).is_some(),
            actions: Vec::new(),
            ending: None,
            ends_at_once: false,
            folder_to_open: None,
        };
        server.configure();
        server
    }

    /// Measures the memory of each part of the server for INFO's `memory_` lines.
    #[cold]
    fn sum_memory(&mut self) {
        // The first measurement waits until all threads run, because the allocator's caches that threads
        // create belong to no part.
        let is_started = self.host.recent().mono_ns > self.host.clock.started_ns() + SUMS_FROM_NS;
        // During a load nothing is measured, because the memory of the load belongs to no part.
        let is_settled = is_started && self.host.incoming.load.is_none();
        let Some(io_threads) = self.io_threads.pool.footprint().filter(|_| is_settled) else { return };
        // This figure is read first, because the allocator's figures below come from this reading.
        let used = self.host.allocated_now(self.engine.keyspace());
        let sockets = &self.sockets;
        let lists = heap::vec(&sockets.ready) + heap::vec(&sockets.to_close) + heap::vec(&self.actions);
        let mut parts = self.engine.memory_parts();
        parts.extend([
            ("connections", sockets.clients.footprint() + self.arrivals.footprint()),
            ("spare_query_buffers", sockets.spare.footprint()),
            ("requests", sockets.requests.footprint() + lists),
            ("event_loop", sockets.event_loop.footprint()),
            ("bus", self.bus.footprint()),
            ("batches", self.batches.footprint()),
            ("io_threads", io_threads),
            ("stream_buffer", self.stream_buffer_footprint()),
            ("aof_thread", self.host.aof.open.as_ref().map_or(0, |aof| aof.shared().footprint())),
            // `allocated` includes the cached memory, but `used_memory` does not.
            ("allocator_cache", self.host.allocator.cached()),
        ]);
        self.host.shown.parts.learn(used, parts);
    }

    fn end_iteration(&mut self) -> u64 {
        let now_ns = self.host.now().mono_ns;
        let command_ns = self.engine.take_command_ns();
        if let Some(spent_ns) = self.timing.end(now_ns, command_ns, &mut self.host.work) {
            self.batches.count_service(spent_ns, &mut self.host);
            let is_deep = self.timing.learn_depth(self.engine.commands_executed(), self.host.work.reads);
            self.sockets.event_loop.gather(match is_deep {
                true => GatherMode::Wanted,
                false => GatherMode::Unwanted,
            });
        }
        now_ns
    }

    /// Applies the configuration, at the start and after a change that the event loop must apply.
    fn configure(&mut self) {
        let config = self.engine.config();
        let event_loop = &mut self.sockets.event_loop;
        event_loop.set_accepts_per_iteration(ACCEPTS_PER_ITERATION);
        self.arrivals.configure(config);
        event_loop.set_batch_wait(config.int(param::EVENT_LOOP_BATCH_WAIT_US) as u32);
        event_loop.gather(GatherMode::Unwanted);
        self.timing.gather_depth = config.uint(param::EVENT_LOOP_BATCH_WAIT_DEPTH);
        if let Some(wanted) = self.host.settings.take_listeners() {
            self.listeners.replace(event_loop, wanted);
        }
        self.listeners.tune(config);
        if std::mem::take(&mut self.host.settings.metrics_changed) {
            self.configure_metrics();
        }
        self.configure_aof();
        let (now_ns, slots) = (self.timing.began_ns, self.sockets.clients.slots());
        self.io_threads.configure(&mut self.engine, &mut self.host, now_ns, slots);
    }

    fn collect(&mut self) {
        while let Some(event) = self.sockets.event_loop.next_event(self.timing.began_ns) {
            self.timing.is_busy = true;
            match Endpoint::of(event.token()) {
                Some(Endpoint::Client(key)) => connection::handle(self, key, event),
                Some(other) => take_other_event(self, other, event),
                None => {}
            }
        }
        if self.io_threads.pool.is_running() {
            self.collect_from_io_threads();
        }
    }

    fn cron(&mut self) {
        if !self.timing.cron_is_due() {
            return;
        }
        if let Some(signal) = self.waiting_end.take_if(|_| !self.engine.end_waits_for_cron(&mut self.host)) {
            self.end_by(signal);
        }
        let wait_ms = self.engine.cron(&mut self.host);
        self.timing.plan_cron(wait_ms);
        if self.timing.sample_is_due() {
            self.host.sample(&self.sockets.event_loop.metrics(), &self.engine);
        }
        let clients = &self.sockets.clients;
        let sockets = MainSockets {
            slots: clients.slots(),
            leaving: clients.leaving(),
            bound: usize::from(self.primary_link.session().is_some()),
        };
        self.io_threads.manage(&mut self.engine, &mut self.host, self.timing.began_ns, sockets);
        let waker = self.sockets.event_loop.waker();
        self.host.look_at_certificates(self.engine.config(), waker);
    }

    /// Continues the expiry cycle that is under way. Runs before the phases `act` and `write`, so that the
    /// deletions of this slice of the cycle are propagated in the same iteration.
    fn expire(&mut self) {
        self.timing.is_busy |= self.engine.expire_slice(&mut self.host);
    }

    /// Continues the walk over the hash slots that move to other nodes. Runs after this iteration's replies
    /// were sent.
    fn walk_exports(&mut self) {
        self.timing.is_busy |= self.engine.walk_exports(&mut self.host);
    }

    /// Continues the save that is under way. Runs after replies are sent, so that replies do not wait for the
    /// save.
    fn save(&mut self) {
        if !self.engine.has_job() {
            if self.save.has_begun() {
                self.save = SavePace::default();
            }
            return;
        }
        let now_ns = self.host.now().mono_ns;
        let commands = self.engine.commands_executed();
        let is_starved = self.engine.job_is_starved();
        let Some(budget_ns) = self.save.budget(now_ns, commands, is_starved) else { return };
        let has_more = self.engine.save_slice(budget_ns, &mut self.host) == Slice::More;
        self.save.end(now_ns, self.host.now().mono_ns, has_more);
        self.timing.is_busy = true;
    }

    /// Makes a sample for the metrics endpoint. Runs last, because only the endpoint waits for the sample.
    fn sample(&mut self) {
        if self.metrics.wants_sample() {
            self.make_sample();
        }
    }

    #[cold]
    fn make_sample(&mut self) {
        let began_ns = self.host.now().mono_ns;
        let mut sample = self.engine.metrics_sample(&mut self.host);
        let details = self.metrics.take_ask().map(|ask| self.engine.page_details(&ask, &mut self.host));
        sample.took(self.host.now().mono_ns.saturating_sub(began_ns));
        self.metrics.give(sample, details);
    }

    /// Applies the configuration of the metrics endpoint.
    #[cold]
    fn configure_metrics(&mut self) {
        let config = self.engine.config();
        // Drops the main thread's references to retired listeners. The endpoint's thread, whose event loop
        // has the sockets, then closes the sockets.
        let _ = self.host.settings.metrics.take_change();
        let listeners = self.host.settings.metrics.active().to_vec();
        let tls = self.host.settings.tls.context().cloned().filter(|_| config.bool(param::METRICS_TLS));
        let token = config.text(param::METRICS_TOKEN).map(Into::into);
        let settings = MetricsSettings { listeners, token, tls, is_guarded: is_guarded(config) };
        if let Err(text) = self.metrics.apply(settings, self.sockets.event_loop.waker()) {
            self.host.note(LogLevel::Warning, &text);
        }
    }

    fn act(&mut self) {
        let configured = std::mem::take(&mut self.host.settings.changed);
        if configured {
            self.configure();
        }
        self.io_threads.send_settings(&self.engine, configured);
        if !self.engine.has_more_to_do() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        self.engine.take_actions(&mut actions);
        for action in actions.drain(..) {
            match action {
                Action::FreeValue(value) => self.free_value(value),
                Action::FreeDb(db) => self.free(Garbage::Db(db)),
                Action::FreeUsers(garbage) => self.free(Garbage::Users(garbage)),
                Action::FreeScripts(garbage) => self.free(Garbage::Scripts(garbage)),
                Action::FreeCaptured(pieces) => self.free(Garbage::Captured(pieces)),
                Action::Resume(keys) => keys.into_iter().for_each(|key| self.resume(key)),
                Action::TrimInput { key, idle_s } => self.trim_input(key, idle_s),
                Action::FillPackets(key) => self.fill_packets(key),
                Action::Load(job) => self.begin_load(*job),
                Action::Produce(key, read) => self.begin_slow_read(key, read),
                Action::Migrate(migration) => {
                    let source = self.engine.config().str(param::BIND_SOURCE_ADDR).into_owned();
                    let tls = self.host.settings.tls.context_of_migrations();
                    self.migrator.begin(*migration, MigrationSource { address: source, tls });
                }
                Action::ConnectExport(target) => {
                    self.exports.begin(*target, ExportSource::of(&self.engine, &self.host))
                }
                Action::LoadUsers(load) => self.user_loads.begin(*load),
                Action::DelayAof(microseconds) => {
                    self.host.aof.set_delay(Duration::from_micros(microseconds))
                }
                Action::Shutdown => self.ending = Some(0),
                Action::Restart(delay_ms) => {
                    self.host.restart_after(delay_ms);
                    self.ending = Some(0);
                }
                Action::Crash(Crash::Recover(delay_ms)) => {
                    self.host.restart_after(delay_ms);
                    self.host.start_again();
                    end_badly(Crash::Exit);
                }
                Action::KeepRunning => {
                    self.waiting_end = None;
                    self.signals.refuse();
                }
                Action::Crash(how) => end_badly(how),
            }
        }
        self.actions = actions;
    }

    fn begin_load(&mut self, job: LoadJob) {
        self.host.incoming.load = Some(job.progress());
        let bio = self.engine.config().str(param::BIO_CPULIST).into_owned();
        if let Err(error) = loader::start(job, self.sockets.event_loop.waker(), &bio) {
            let text = format!(
                "No thread to load the data: {}; the main thread loaded them, and clients waited. Raise the limit of threads",
                plain_error(&error)
            );
            self.host.note(LogLevel::Warning, &text);
        }
    }

    /// Processes the main thread's share of a load that is under way, and the end of the load.
    fn advance_load(&mut self) {
        if self.host.incoming.load.is_none() {
            return;
        }
        let Some(ended) = self.engine.advance_load(&mut self.host) else { return };
        self.host.incoming.load = None;
        self.host.read_memory(self.engine.keyspace());
        match ended {
            LoadEnded::Start(Ok(())) => {
                self.open_bus();
                if self.serve_loaded().is_err() {
                    self.end_without_data();
                }
            }
            LoadEnded::Start(Err(_)) => {
                self.host.note(LogLevel::Warning, loader::NOT_LOADED);
                self.end_without_data();
            }
            LoadEnded::Debug => {}
            LoadEnded::Sync(_) => self.sync_loaded(),
        }
    }

    fn begin_slow_read(&mut self, key: SessionKey, read: Box<SlowRead>) {
        if let Err(error) = self.slow_reads.begin(key, read) {
            let text = format!(
                "No thread for a slow read: {}; the main thread ran the read, and clients waited. Raise the limit of threads",
                plain_error(&error)
            );
            self.host.note(LogLevel::Warning, &text);
            self.engine.slow_thread_is_free(&mut self.host);
        }
    }

    /// Continues an open execution unit.
    fn advance_unit(&mut self) {
        self.engine.advance_unit(&mut self.host);
    }

    /// Takes the results of the slow-read threads.
    fn take_slow_reads(&mut self) {
        if !self.slow_reads.is_idle() {
            self.slow_reads.advance(&mut self.engine, &mut self.host);
        }
    }

    /// Ends a server that cannot load its data, or cannot write its append-only file.
    fn end_without_data(&mut self) {
        self.host.remove_files_silently();
        if let Some(file) = &mut self.bus.file {
            file.close();
        }
        self.ends_at_once = true;
        self.ending = Some(1);
    }

    /// Takes over a users file that a thread has read and validated.
    fn end_user_loads(&mut self) {
        if let Some(judged) = self.user_loads.ended() {
            self.engine.end_user_load(judged, &mut self.host);
        }
    }

    /// Takes the results of migrations and of connections for slot moves, and lets the migrator close
    /// connections that were idle for too long.
    fn end_migrations(&mut self) {
        self.poll_exports();
        while let Some((id, outcome)) = self.migrator.ended() {
            self.engine.end_migration(id, outcome, &mut self.host);
        }
        self.migrator.tick(self.host.recent().mono_ns / 1_000_000_000);
    }

    /// Frees garbage on the lazy free thread, or here if there is no such thread.
    fn free(&mut self, garbage: Garbage) {
        match &self.host.bio {
            Some(bio) => bio.free(garbage),
            None => drop(garbage),
        }
    }

    /// Executes the requests after a client's deferred request, which has ended.
    fn resume(&mut self, key: SessionKey) {
        match self.sockets.clients.owner(key) {
            Some(SocketOwner::IoThread(id) | SocketOwner::LeavingIoThread(id)) => {
                self.io_threads.pool.send(*id, ToIoThread::Resume(key, self.engine.authentication(key)));
            }
            Some(SocketOwner::Main(_)) => {
                if let Some(mut connection) = self.take(key) {
                    // The deferred request may have been AUTH.
                    connection.authentication = self.engine.authentication(key);
                    match connection.input.resume() {
                        true => connection::resume(self, connection),
                        false => self.put(connection),
                    }
                }
            }
            Some(SocketOwner::InHand) | None => {}
        }
    }

    /// Frees memory of a client's query buffer that the client does not need.
    fn trim_input(&mut self, key: SessionKey, idle_s: i64) {
        match self.sockets.clients.owner(key) {
            Some(SocketOwner::IoThread(id)) => {
                // The I/O thread has the input. It trims the buffer, and reports the buffer's usage
                // afterwards.
                let idle_s = u32::try_from(idle_s).unwrap_or(0);
                self.io_threads.pool.send(*id, ToIoThread::Trim(key, idle_s));
            }
            Some(SocketOwner::Main(_)) => connection::trim(self, key, idle_s),
            Some(SocketOwner::LeavingIoThread(_) | SocketOwner::InHand) | None => {}
        }
    }

    fn fill_packets(&mut self, key: SessionKey) {
        match self.sockets.clients.owner(key) {
            Some(SocketOwner::IoThread(id)) => {
                self.io_threads.pool.send(*id, ToIoThread::FillPackets(key));
            }
            Some(SocketOwner::Main(_)) => connection::fill_packets(self, key),
            // The option is left unchanged while the connection moves, because it only saves packets.
            Some(SocketOwner::LeavingIoThread(_) | SocketOwner::InHand) | None => {}
        }
    }

    fn write(&mut self) {
        self.engine.end_iteration(&mut self.host);
        if self.host.aof.open.is_some() {
            self.feed_aof();
        }
        self.send_multicasts();
        // Output for a replica may be queued while this phase sends. Such output is sent in the next
        // iteration, which begins without waiting, so that other clients have their turn first.
        self.return_batches();
        let mut ready = std::mem::take(&mut self.sockets.ready);
        self.engine.take_ready(&mut ready);
        self.sockets.sent_bytes = 0;
        let kept_back = self.sockets.kept_back;
        turns::send_in_turns(self, &mut ready, kept_back);
        // Clients that are kept back, and clients that were added during this phase, are served in the next
        // iteration.
        self.sockets.kept_back = ready.len();
        ready.append(&mut self.sockets.ready);
        self.sockets.ready = ready;
    }

    fn close(&mut self) {
        if self.sockets.to_close.is_empty() && !self.engine.has_to_close() {
            return;
        }
        self.close_marked();
    }

    #[cold]
    fn close_marked(&mut self) {
        let mut to_close = std::mem::take(&mut self.sockets.to_close);
        let have_gone = to_close.len();
        self.engine.take_to_close(&mut to_close);
        for (at, key) in to_close.drain(..).enumerate() {
            let Some(owner) = self.sockets.clients.remove(key) else { continue };
            match owner {
                SocketOwner::Main(mut connection) => {
                    if at >= have_gone {
                        connection.transport.end(&mut self.sockets.event_loop);
                    }
                    connection.transport.close(&mut self.sockets.event_loop);
                }
                SocketOwner::IoThread(id) | SocketOwner::LeavingIoThread(id) => {
                    self.io_threads.pool.send(id, ToIoThread::Close(key));
                    self.io_threads.pool.left(id);
                }
                SocketOwner::InHand => {}
            }
            self.engine.disconnect(key, &mut self.host);
            self.note_link_closed(key);
            self.batches.forget(key);
        }
        // Clients that were added during this phase are closed in the next iteration.
        to_close.append(&mut self.sockets.to_close);
        self.sockets.to_close = to_close;
    }

    fn flush(&mut self) {
        if self.io_threads.pool.is_running() {
            self.io_threads.pool.flush();
        }
    }

    fn watch_signals(&mut self) {
        if let Some(source) = self.signals.source {
            self.sockets.event_loop.watch(source, sluice_evloop::Interest::READABLE);
        }
    }

    #[cold]
    fn take_signal(&mut self) {
        let kind = self.signals.drain();
        self.watch_signals();
        let Some(signal) = kind else { return };
        if self.engine.is_loading() {
            self.host.note(LogLevel::Warning, "Received shutdown signal during loading, exiting now.");
            self.ending = Some(0);
            return;
        }
        self.host.note(LogLevel::Warning, &format!("Received {} scheduling shutdown...", signal.name()));
        match self.engine.end_waits_for_cron(&mut self.host) {
            true => self.waiting_end = Some(signal),
            false => self.end_by(signal),
        }
    }

    /// Ends the server as the configuration's shutdown flags for this signal specify.
    fn end_by(&mut self, signal: signals::EndSignal) {
        let order = EndOrder::of_flags(self.engine.config().flags(signal.shutdown_flags()));
        match self.engine.begin_end(&order, &mut self.host) {
            EndBegun::Waits => {}
            EndBegun::Ends => self.ending = Some(0),
            EndBegun::Refused => self.signals.refuse(),
        }
    }
}

/// Handles an event that belongs to no client. The function is not inlined into the loop over events,
/// because the compiler would compute addresses for it before the loop, in every iteration.
#[inline(never)]
fn take_other_event(server: &mut Server, endpoint: Endpoint, event: Event) {
    server.agenda.note_news();
    match endpoint {
        Endpoint::Client(_) => {}
        Endpoint::Listener { slot, generation } => server.listener_event(slot, generation, event),
        Endpoint::PrimaryLink { channel, attempt } => server.link_event(channel, attempt, event),
        Endpoint::Signal => server.take_signal(),
        Endpoint::BusLink(place) => server.bus_event(place, event),
    }
}

/// The event loop for which the configuration asks.
pub fn backend_of(config: &Config) -> Backend {
    match config.choice::<EventLoop>(param::EVENT_LOOP) {
        EventLoop::Auto => Backend::Auto,
        EventLoop::IoUring => Backend::IoUring,
        EventLoop::Epoll => Backend::Epoll,
        EventLoop::Poll => Backend::Poll,
    }
}

fn end_badly(how: Crash) {
    match how {
        Crash::Panic => panic!("called by DEBUG PANIC"),
        Crash::Assert => panic!("=== ASSERTION FAILED === called by DEBUG ASSERT"),
        // A process that cannot restart in place exits.
        Crash::Exit | Crash::Recover(_) => std::process::exit(1),
        Crash::Segfault => sluice_daemon::signals::raise_segfault(),
    }
}
