//! The phases of an iteration: their order, and what each of them waits for.
//!
//! ```text
//!  wait ─► collect and execute ─► see what else is ─► ... ─► write ─► ... ─► wait
//!                                  │                    phases that have no reason to run are left out
//!                                  └ reasons: what stands (I/O threads run, a primary is followed)
//!                                             what passes (a thread woke the loop, the time has come)
//! ```
//!
//! Most iterations execute clients' plain commands and nothing else. Asking each phase whether it has
//! something to do cost such an iteration an eighth of all instructions of a GET that comes alone. So the
//! reasons of an iteration are one word, and a phase runs where one of its reasons is in the word.
//!
//! Invariants: (1) [`PHASES`] is the one place that orders the phases; (2) a phase that is left out has
//! nothing to do: builds with debug assertions ask each of them (`Phase::has_work`); (3) what stands changes
//! in iterations that have more reasons than [`Reasons::EACH`] alone, or end with news: these look at all of
//! it at their end; (4) until such an iteration the time until which the event loop may wait stays what it
//! is, since nothing else makes anything due earlier.

use super::Server;
use sluice_engine::beside_commands;

/// Reasons for phases to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reasons(u16);

impl Reasons {
    /// The iteration itself.
    pub(super) const EACH: Reasons = Reasons(1);
    /// Something happened that is no plain command of a client: another event, a wake-up by another thread, a
    /// change of the control plane, a request of the engine.
    pub(super) const NEWS: Reasons = Reasons(1 << 1);
    /// A deadline has come.
    pub(super) const TIME: Reasons = Reasons(1 << 2);
    /// Something goes on in each iteration until it is over: what another thread does for this one, work in
    /// slices, connections that wait or move.
    pub(super) const UNDER_WAY: Reasons = Reasons(1 << 3);
    /// I/O threads run.
    pub(super) const IO_THREADS: Reasons = Reasons(1 << 4);
    /// This server follows a primary, or is about to.
    pub(super) const PRIMARY: Reasons = Reasons(1 << 5);
    /// This server is a node of a cluster.
    pub(super) const CLUSTER: Reasons = Reasons(1 << 6);
    /// The metrics endpoint may want a sample.
    pub(super) const METRICS: Reasons = Reasons(1 << 7);
    /// Whatever makes an iteration more than clients' plain commands.
    const MORE: Reasons = Reasons(u16::MAX & !Reasons::EACH.0);

    #[inline]
    pub(super) const fn or(self, other: Reasons) -> Reasons {
        Reasons(self.0 | other.0)
    }

    #[inline]
    const fn meets(self, other: Reasons) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    const fn when(self, holds: bool) -> Reasons {
        if holds { self } else { Reasons(0) }
    }
}

/// What an iteration has to do beside clients' plain commands.
#[derive(Debug)]
pub(super) struct Agenda {
    /// Of the iteration under way.
    reasons: Reasons,
    /// Those that stand: as of the end of the last iteration that was not plain.
    standing: Reasons,
    /// Until when the event loop may wait: as of then.
    next_ns: u64,
    /// The epoch of the control plane that was seen last.
    epoch: u32,
    /// Something has happened that is no plain command, and that this thread alone knows of.
    is_news: bool,
}

impl Default for Agenda {
    /// Nothing is planned, and the first iteration has news.
    fn default() -> Agenda {
        Agenda { reasons: Reasons::MORE, standing: Reasons::MORE, next_ns: 0, epoch: 0, is_news: true }
    }
}

impl Agenda {
    /// Something has happened that is no plain command of a client.
    #[inline]
    pub(super) fn note_news(&mut self) {
        self.is_news = true;
    }

    /// Until when the event loop may wait, for what is due by the clock.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }
}

/// A phase of an iteration.
pub(super) struct Phase {
    /// What the phase does.
    name: &'static str,
    /// The phase runs where the iteration has one of these reasons.
    waits_for: Reasons,
    /// Whether the phase has something to do: asked where the phase is left out, in builds with debug
    /// assertions.
    has_work: fn(&Server) -> bool,
    run: fn(&mut Server),
}

const fn phase(
    name: &'static str,
    waits_for: Reasons,
    has_work: fn(&Server) -> bool,
    run: fn(&mut Server),
) -> Phase {
    Phase { name, waits_for, has_work, run }
}

/// The reasons of what begins by news and goes on until it is over.
const GOES_ON: Reasons = Reasons::NEWS.or(Reasons::UNDER_WAY);

/// The phases of an iteration in order. Input is executed as it is collected; replies are sent after that, so
/// that an iteration's replies of one client leave together.
pub(super) const PHASES: &[Phase] = &[
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
    // Behind the cron's time, too: connections that are kept grow older.
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
    // The phases so far may ask for actions, and the cron for moves of connections.
    phase("act", Reasons::MORE, has_actions, Server::act),
    phase(
        "move connections",
        Reasons::MORE,
        |server| server.io_threads.moves.are_pending(),
        Server::move_connections,
    ),
    // Before anybody is told: who has killed a client finds that client's socket closed when the reply comes,
    // unless the two belong to different I/O threads.
    phase("close", Reasons::EACH, always, Server::close),
    phase("write", Reasons::EACH, always, Server::write),
    phase("close who failed", Reasons::EACH, always, Server::close),
    // Behind the end of the engine's iteration, in which the cron of a cluster's node runs.
    phase("drive the bus", Reasons::CLUSTER, |server| server.bus.is_on(), Server::drive_bus),
    phase("flush to I/O threads", Reasons::MORE, |server| server.io_threads.pool.is_running(), Server::flush),
    phase(
        "walk slots that leave",
        Reasons::CLUSTER,
        |server| server.engine.node().is_some(),
        Server::walk_exports,
    ),
    // A full copy for a replica begins its job in the phase `write`.
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
    server.follower.replay.is_some() || beside_commands::has_link(&server.engine)
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

/// Runs the phases that have a reason to run.
#[inline]
pub(super) fn run(server: &mut Server) {
    for phase in PHASES {
        if phase.waits_for == Reasons::EACH || phase.waits_for.meets(server.agenda.reasons) {
            (phase.run)(server);
        } else {
            debug_assert!(!(phase.has_work)(server), "the phase '{}' was left out", phase.name);
        }
    }
}

/// Sees, behind the commands of the iteration, which reasons it has.
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

/// Plans the next iteration, unless nothing has changed that the plan is made of. The end of the engine's
/// iteration may have made news: it hands this server's role over, and begins full copies.
#[inline]
pub(super) fn plan(server: &mut Server) {
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

/// Whether the next iteration has more to do at once of what stands.
#[inline]
pub(super) fn stands_and_goes_on(server: &Server) -> bool {
    server.agenda.standing.meets(Reasons::MORE) && goes_on(server)
}

fn goes_on(server: &Server) -> bool {
    let pool = &server.io_threads.pool;
    pool.has_messages()
        || pool.is_behind()
        || server.io_threads.moves.are_pending()
        || server.arrivals.are_waiting()
        || server.bus.has_more_to_send()
}

/// When something is due by the clock, monotonic ns.
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
