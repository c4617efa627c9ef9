//! The phases of an iteration: their order, and the reasons for which each of them runs.
//!
//! ```text
//!  wait ─► collect and execute ─► see what else is ─► ... ─► write ─► ... ─► wait
//!                                  │                    phases that have no reason to run are left out
//!                                  └ reasons: what stands (I/O threads run, a primary is followed)
//!                                             what passes (a thread woke the loop, the time has come)
//! ```
//!
//! Most iterations execute clients' plain commands and nothing else. Asking each phase whether it has work
//! would cost such an iteration an eighth of all instructions of a GET that arrives alone. The reasons of an
//! iteration are therefore bits of one word, and a phase runs if one of its reasons is in the word.
//!
//! Invariants: (1) only [`PHASES`] determines the order of the phases; (2) a phase that is left out has
//! nothing to do, which builds with debug assertions check (`IterationPhase::has_work`); (3) standing
//! reasons change only in iterations that have more reasons than [`Reasons::EACH`], or that end with
//! news, and such an iteration computes all standing reasons again at its end; (4) until such an
//! iteration the event loop's deadline stays the same, because nothing else makes any work due earlier.

use super::Server;
use super::agenda::Reasons;
use sluice_base::LogLevel;
use sluice_control::process::ProcessClock;
use sluice_engine::beside_commands;
use sluice_evloop::{Deadline, Iteration};

/// A phase of an iteration.
struct IterationPhase {
    /// The name, for the message of a failed debug assertion.
    name: &'static str,
    /// The reasons for which the phase runs; one of them suffices.
    waits_for: Reasons,
    /// Whether the phase has work to do. Called when the phase is left out, in builds with debug
    /// assertions.
    has_work: fn(&Server) -> bool,
    run: fn(&mut Server),
}

const fn phase(
    name: &'static str,
    waits_for: Reasons,
    has_work: fn(&Server) -> bool,
    run: fn(&mut Server),
) -> IterationPhase {
    IterationPhase { name, waits_for, has_work, run }
}

/// The reasons for a phase whose work begins with news and continues until it is done.
const GOES_ON: Reasons = Reasons::NEWS.or(Reasons::UNDER_WAY);

/// The phases of an iteration in order. Requests are executed as they are collected, and replies are sent
/// later, so that all replies to one client in an iteration are sent together.
const PHASES: &[IterationPhase] = &[
    phase("collect and execute", Reasons::EACH, always, Server::collect),
    phase("see what else is", Reasons::EACH, always, see_reasons),
    phase("go on with an open unit", GOES_ON, has_unit_due, Server::advance_unit),
    phase(
        "take what was loaded",
        GOES_ON,
        |server| server.host.incoming.load.is_some(),
        Server::advance_load,
    ),
    phase("follow the primary", Reasons::NEWS.or(Reasons::PRIMARY), has_link, Server::follow_primary),
    phase(
        "take pieces of slow reads",
        GOES_ON,
        |server| !server.slow_reads.is_idle(),
        Server::take_slow_reads,
    ),
    // This phase also runs when the cron is due, because idle connections that are kept must be closed in
    // time.
    phase("end migrations", GOES_ON.or(Reasons::TIME), has_migrations, Server::end_migrations),
    phase("end loads of users", GOES_ON, |server| server.user_loads.is_running(), Server::end_user_loads),
    phase(
        "take up connections of TLS",
        GOES_ON,
        |server| server.arrivals.have_handshakes(),
        Server::take_handshakes,
    ),
    phase("take up connections", GOES_ON, |server| !server.arrivals.waiting.is_empty(), Server::take_waiting),
    phase("cron", Reasons::TIME.or(Reasons::NEWS), |server| server.timing.cron_is_due(), Server::cron),
    phase("expire", GOES_ON.or(Reasons::TIME), is_expiring, Server::expire),
    // These two phases follow those above, which may request actions, and the cron, which may request moves
    // of connections.
    phase("act", Reasons::MORE, has_actions, Server::act),
    phase(
        "move connections",
        Reasons::MORE,
        |server| server.io_threads.moves.are_pending(),
        Server::move_connections,
    ),
    // Sockets are closed before replies are sent, so that the killed client's socket is closed when the
    // reply to CLIENT KILL arrives, unless the two clients belong to different I/O threads.
    phase("close", Reasons::EACH, always, Server::close),
    phase("write", Reasons::EACH, always, Server::write),
    phase("close who failed", Reasons::EACH, always, Server::close),
    // The bus comes after `write`, in which the engine ends its iteration, because the cron of a cluster
    // node runs at that end.
    phase("drive the bus", Reasons::CLUSTER, |server| server.bus.is_on(), Server::drive_bus),
    phase("flush to I/O threads", Reasons::MORE, |server| server.io_threads.pool.is_running(), Server::flush),
    phase(
        "walk slots that leave",
        Reasons::CLUSTER,
        |server| server.engine.node().is_some(),
        Server::walk_exports,
    ),
    // Saving comes after the phase `write`, because a full sync for a replica begins its job in that phase.
    phase("save", Reasons::EACH, always, Server::save),
    phase("sample", Reasons::MORE, |server| server.metrics.is_on(), Server::sample),
];

fn always(_: &Server) -> bool {
    true
}

fn has_unit_due(server: &Server) -> bool {
    server.engine.next_unit_ns() <= server.host.clock.recent().mono_ns
}

fn has_link(server: &Server) -> bool {
    server.primary_link.replay.is_some() || beside_commands::has_link(&server.engine)
}

fn has_migrations(server: &Server) -> bool {
    !server.migrator.is_idle() || !server.exports.is_idle()
}

fn is_expiring(server: &Server) -> bool {
    server.engine.next_expiry_ns() != u64::MAX
}

fn has_more_slices(server: &Server) -> bool {
    beside_commands::has_more_slices(&server.engine)
}

fn has_actions(server: &Server) -> bool {
    server.host.settings.changed || beside_commands::has_news(&server.engine)
}

fn is_saving(server: &Server) -> bool {
    server.engine.has_job() || server.save.has_begun()
}

impl Server {
    /// Runs iterations until the server is to end, or its event loop fails; returns the process's exit
    /// status.
    pub fn run(&mut self) -> i32 {
        self.watch_signals();
        let mut now_ns = self.host.now().mono_ns;
        loop {
            now_ns = match iterate(self, now_ns) {
                Ok(now_ns) => now_ns,
                Err(error) => {
                    self.host
                        .note(LogLevel::Warning, &format!("The event loop failed: {error}. The server ends"));
                    return 1;
                }
            };
            if self.sums_memory {
                self.sum_memory();
            }
            if let Some(status) = self.ending {
                return if self.ends_at_once { status } else { self.shut_down(status) };
            }
        }
    }

    /// The deadline of the wait in the event loop; an I/O thread with a message ends the wait (T-6).
    /// Unlike I/O threads, the main thread makes no bounded waits in which more batches could arrive. In
    /// measurements, such waits made each request cost a quarter more.
    #[inline]
    fn wait_deadline(&mut self) -> Deadline {
        plan(self);
        // The wait must not block while there are requests that the engine has made after the phase `act`.
        let more_to_do = self.engine.has_more_to_do()
            || self.engine.has_ready()
            || self.sockets.kept_back != 0
            || stands_and_goes_on(self);
        if more_to_do { Deadline::PAST } else { Deadline::at_ns(self.agenda.next_ns) }
    }
}

/// Waits, and runs the phases of an iteration. Returns the time at the end of the iteration, monotonic
/// ns. Errors: the event loop is broken.
#[inline]
fn iterate(server: &mut Server, now_ns: u64) -> std::io::Result<u64> {
    let until = server.wait_deadline();
    let wait = match server.io_threads.spin_ns() {
        0 => server.sockets.event_loop.wait(now_ns, until),
        spin_ns => spin(server, now_ns, spin_ns, until),
    };
    server.timing.begin(server.host.now().mono_ns);
    if wait?.woken {
        server.agenda.note_news();
    }
    run(server);
    Ok(server.end_iteration())
}

/// Waits, but polls for work for `spin_ns` before it sleeps, so that I/O threads need not wake this thread.
fn spin(server: &mut Server, began_ns: u64, spin_ns: u64, until: Deadline) -> std::io::Result<Iteration> {
    let mut now_ns = began_ns;
    loop {
        // The rings are checked as well, because an I/O thread may be delayed between sending messages and
        // waking this thread.
        let is_at_hand = server.io_threads.pool.has_messages() || server.sockets.event_loop.is_due(now_ns);
        let may_sleep = Deadline::at_ns(now_ns) >= until || now_ns >= began_ns.saturating_add(spin_ns);
        if may_sleep && !is_at_hand {
            return server.sockets.event_loop.wait(now_ns, until);
        }
        let seen = server.sockets.event_loop.wait(now_ns, Deadline::PAST)?;
        if is_at_hand || seen.woken || seen.ready > 0 {
            return Ok(seen);
        }
        let before_ns = std::mem::replace(&mut now_ns, server.host.now().mono_ns);
        server.host.work.spun_ns += now_ns.saturating_sub(before_ns);
    }
}

/// Runs the phases that have a reason to run.
#[inline]
fn run(server: &mut Server) {
    for phase in PHASES {
        if phase.waits_for == Reasons::EACH || phase.waits_for.meets(server.agenda.reasons) {
            (phase.run)(server);
        } else {
            debug_assert!(!(phase.has_work)(server), "the phase '{}' was left out", phase.name);
        }
    }
}

/// Computes the reasons of the iteration, after its commands were executed.
fn see_reasons(server: &mut Server) {
    let epoch = beside_commands::epoch(&server.engine);
    let agenda = &mut server.agenda;
    let is_news = std::mem::take(&mut agenda.is_news)
        || agenda.epoch != epoch
        || server.host.settings.changed
        || beside_commands::has_news(&server.engine);
    let is_due = server.timing.began_ns >= agenda.next_ns;
    agenda.epoch = epoch;
    agenda.reasons =
        Reasons::EACH.or(agenda.standing).or(Reasons::NEWS.when(is_news)).or(Reasons::TIME.when(is_due));
}

/// Plans the next iteration, unless the inputs of the plan are unchanged. The end of the engine's
/// iteration may have made news, because it hands this server's role over and begins full syncs.
#[inline]
fn plan(server: &mut Server) {
    let is_plain = server.agenda.reasons == Reasons::EACH
        && server.agenda.epoch == beside_commands::epoch(&server.engine)
        && !beside_commands::has_news(&server.engine);
    if is_plain {
        debug_assert_eq!(server.agenda.standing, standing(server), "something begins without news");
        debug_assert!(server.agenda.next_ns <= next_deadline_ns(server), "a deadline comes earlier");
        return;
    }
    server.agenda.standing = standing(server);
    server.agenda.next_ns = next_deadline_ns(server);
}

/// Whether standing work must continue at once, without waiting for an event.
#[inline]
fn stands_and_goes_on(server: &Server) -> bool {
    server.agenda.standing.meets(Reasons::MORE) && goes_on(server)
}

fn goes_on(server: &Server) -> bool {
    let pool = &server.io_threads.pool;
    pool.has_messages()
        || pool.has_overflow()
        || server.io_threads.moves.are_pending()
        || server.arrivals.are_waiting()
        || server.bus.has_more_to_send()
}

/// The earliest deadline, monotonic ns.
fn next_deadline_ns(server: &Server) -> u64 {
    let engine = &server.engine;
    engine
        .next_unit_ns()
        .min(server.timing.next_cron_ns)
        .min(server.save.next_ns())
        .min(engine.cluster_deadline_ns())
        .min(engine.next_expiry_ns())
        .min(server.link_deadline_ns())
}

/// The reasons that the next iteration has, whatever happens.
fn standing(server: &Server) -> Reasons {
    let is_under_way = has_migrations(server)
        || server.host.incoming.load.is_some()
        || !server.slow_reads.is_idle()
        || server.user_loads.is_running()
        || server.arrivals.have_handshakes()
        || server.arrivals.are_waiting()
        || server.io_threads.moves.are_pending()
        || has_more_slices(server)
        || is_saving(server);
    let is_node = server.bus.is_on() || server.engine.node().is_some();
    Reasons::UNDER_WAY
        .when(is_under_way)
        .or(Reasons::IO_THREADS.when(server.io_threads.pool.is_running()))
        .or(Reasons::PRIMARY.when(has_link(server)))
        .or(Reasons::CLUSTER.when(is_node))
        .or(Reasons::METRICS.when(server.metrics.is_on()))
}

#[cfg(test)]
mod tests;
