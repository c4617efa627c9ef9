//! Serving the clients that wait; the lists are in `blocking.rs`.

use crate::cluster::driver::ClusterDriver;
use crate::engine::Engine;
use crate::exec::request::Next;
use crate::users::UserUpdates;
use crate::waiting::ending::WaitEnds;
use sluice_base::{LogLevel, Now, SessionKey};
use sluice_commands::{Args, BlockOn, Hashing, WaitFor};
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_control::replication::waitaof::{AOF_IS_OFF, reply_waitaof};
use sluice_control::users::load::EndedLoad;
use sluice_keyspace::Key;
use sluice_session::blocking::{ReadyWork, Waiting};
use sluice_session::{Closing, Session};

impl Engine {
    /// Serves the clients whose wait is over. Decisions of the cluster node are carried out first; then
    /// clients that wait for keys are served, in the order in which the keys became ready, and then all
    /// others. To be called when no command or transaction is being executed.
    #[inline]
    pub(crate) fn serve_waiting(&mut self, process: &mut dyn Process) {
        if self.core.control.clients.blocking.is_due() {
            self.serve_due(process);
        }
    }

    #[cold]
    fn serve_due(&mut self, process: &mut dyn Process) {
        if self.core.control.persistence.has_stopped {
            return;
        }
        // `between_units` is asked before each client, because the EXEC of a served client may be suspended,
        // and then the other clients have to wait.
        while self.core.control.between_units(BetweenUnits::Service)
            && let Some(due) = self.core.control.clients.blocking.next_due()
        {
            match due {
                ReadyWork::NodeDecisions => ClusterDriver::of(&mut self.core).take_cluster_outputs(process),
                ReadyWork::Key(db, key) => self.serve_key(db, &key, process),
                ReadyWork::Resumed(client) => self.run_waiting(client, process),
                ReadyWork::Unblocked(client) => WaitEnds::of(&mut self.core).end_by_request(client, process),
                ReadyWork::Acknowledged => self.serve_acknowledged(process),
                ReadyWork::UserLoads => self.serve_user_loads(process),
                ReadyWork::SlowReads => self.serve_slow_reads(process),
            }
        }
    }

    /// Serves the clients that wait for a key, in the order in which they began to wait, while the key has
    /// what they wait for. Clients that begin to wait during this call are served the next time.
    fn serve_key(&mut self, db: usize, name: &[u8], process: &mut dyn Process) {
        let last = self.core.control.clients.blocking.last_order();
        let mut after = 0;
        while let Some((order, client)) =
            self.core.control.clients.blocking.next_waiter(db, name, after, last)
        {
            after = order;
            let key = self.core.keyspace.key(name);
            let now = process.recent();
            let Some(session) = self.core.sessions.get(client) else { continue };
            // A client that is being closed is not served, because elements that it took would be lost.
            if session.caller.closing != Closing::No {
                continue;
            }
            // A client that CLIENT UNBLOCK named before the key became ready gets the reply
            // of the unblocking.
            let Some(Waiting { on: WaitFor::Keys(on), unblock: None, .. }) = session.waiting.as_deref()
            else {
                continue;
            };
            match self.live_type(db, key, now) {
                Some(found) if found == on.wanted => self.run_waiting(client, process),
                // The key is gone or has another type, so the command runs and replies with an error.
                Some(_) | None if on.ends_without_key => self.run_waiting(client, process),
                Some(_) | None => {}
            }
        }
    }

    /// The type of the value of a key; `None` if there is no key or it has expired. Changes no access time.
    fn live_type(&self, db: usize, key: Key<'_>, now: Now) -> Option<sluice_value::Type> {
        let db = self.core.keyspace.db(db);
        let found = db.find(key)?;
        let expired = db.expiry(found.handle).is_some_and(|at_ms| now.unix_ms() > at_ms);
        (!expired).then(|| db.entry(found.handle).type_of())
    }

    /// Runs a waiting client's command again.
    pub(crate) fn run_waiting(&mut self, client: SessionKey, process: &mut dyn Process) {
        let Some(mut session) = self.core.sessions.take(client) else { return };
        let Some(waiting) = self.core.control.unpark(&mut session) else {
            return self.core.sessions.put_back(session);
        };
        // A client that is being closed runs nothing more.
        if session.caller.closing != Closing::No {
            return self.core.sessions.put_back(session);
        }
        let Waiting { request, prepared, on, .. } = *waiting;
        let began = process.recent();
        let mut now = began;
        let again = {
            let request = request.at(0);
            let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
            let args = Args::new(&request, &prepared, &hashing);
            session.is_rerun = matches!(on, WaitFor::Keys(_) | WaitFor::ReplicasFirst { .. });
            session.was_postponed = matches!(on, WaitFor::Pause);
            let next = self.process_again(&mut session, &prepared, args, request, &mut now, process);
            (session.is_rerun, session.was_postponed) = (false, false);
            self.note_slow_read_waited(on, &next, began);
            if next == Next::Done && session.caller.is_primary() {
                self.core.control.note_applied(&mut session, &request);
            }
            next
        };
        match again {
            Next::Done => WaitEnds::of(&mut self.core).resume(&mut session, process),
            Next::Wait(again) => {
                let on = match (*again, on) {
                    // The timeout still counts from the first wait.
                    (WaitFor::Keys(again), WaitFor::Keys(first)) => {
                        WaitFor::Keys(BlockOn { deadline_ms: first.deadline_ms, ..again })
                    }
                    (WaitFor::SlowRead { .. }, first @ WaitFor::SlowRead { .. }) => first,
                    (again, _) => again,
                };
                self.core.control.park(&mut session, request, prepared, on);
            }
        }
        self.core.sessions.put_back(session);
    }

    /// Replies to the clients of WAIT and WAITAOF for which enough replicas have acknowledged (or, if the
    /// append-only file is off, with an error to those that wait for it), and runs the commands that had to
    /// wait for such acknowledgements first.
    fn serve_acknowledged(&mut self, process: &mut dyn Process) {
        for client in self.core.control.clients.blocking.waiting_for_replicas() {
            let Some(session) = self.core.sessions.get(client) else { continue };
            match session.waiting.as_ref().map(|waiting| waiting.on) {
                Some(WaitFor::Replicas { count, offset, local: None, .. }) => {
                    let acknowledged = self.replicas_at(offset);
                    if acknowledged >= count {
                        WaitEnds::of(&mut self.core)
                            .end_wait(client, process, |reply| reply.int(acknowledged));
                    }
                }
                Some(WaitFor::Replicas { local: Some(local), .. })
                    if local.is_awaited && !self.core.control.wants_aof() =>
                {
                    WaitEnds::of(&mut self.core)
                        .end_wait(client, process, |reply| reply.error(&AOF_IS_OFF.wire()));
                }
                Some(WaitFor::Replicas { count, offset, local: Some(local), .. }) => {
                    let is_durable = self.core.control.is_kept(local.position);
                    let acknowledged = self.aof_replicas_at(offset);
                    if (is_durable || !local.is_awaited) && acknowledged >= count {
                        WaitEnds::of(&mut self.core).end_wait(client, process, |reply| {
                            reply_waitaof(reply, is_durable, acknowledged)
                        });
                    }
                }
                Some(WaitFor::ReplicasFirst { count, offset, .. }) => {
                    if self.replicas_at(offset) >= count {
                        self.run_waiting(client, process);
                    }
                }
                Some(
                    WaitFor::Keys(_)
                    | WaitFor::Pause
                    | WaitFor::Load
                    | WaitFor::Users
                    | WaitFor::UserLoads
                    | WaitFor::Shutdown
                    | WaitFor::SlowRead { .. }
                    | WaitFor::Reply
                    | WaitFor::Unit
                    | WaitFor::Held
                    | WaitFor::Turn
                    | WaitFor::Migration(_)
                    | WaitFor::Cluster(_),
                )
                | None => {}
            }
        }
    }

    /// Number of replicas that have acknowledged an offset.
    pub(crate) fn replicas_at(&self, offset: u64) -> i64 {
        sluice_control::replication::acks::replicas_at(&self.core.control, &self.core.sessions, offset)
    }

    /// Number of replicas that have the stream up to an offset on their disks.
    fn aof_replicas_at(&self, offset: u64) -> i64 {
        sluice_control::replication::acks::aof_replicas_at(&self.core.control, &self.core.sessions, offset)
    }

    /// Forgets the wait and the watched keys of a session that ends.
    pub(crate) fn forget_waits(&mut self, session: &mut Session, process: &mut dyn Process) {
        WaitEnds::of(&mut self.core).end_lost_read(session, process);
        if let Some(waiting) = self.core.control.unpark(session)
            && let Some(open) = self.open.as_mut().filter(|_| waiting.on == WaitFor::Unit)
        {
            open.request = Some(waiting);
        }
        self.core.control.clients.watching.forget(session.key);
    }

    /// Ends the ACL LOAD whose file was checked, if there is one and no transaction or script is suspended.
    pub(crate) fn apply_user_load(&mut self, process: &mut dyn Process) {
        if self.core.control.clients.users.loading.is_judged()
            && self.core.control.between_units(BetweenUnits::Users)
        {
            self.end_judged_load(process);
        }
    }

    #[cold]
    fn end_judged_load(&mut self, process: &mut dyn Process) {
        let Some(ended) = self.core.control.clients.users.loading.take_judged() else { return };
        let EndedLoad { client, judged, is_overtaken } = ended;
        // A faulty file changes nothing, so it need not be read again.
        match (judged, is_overtaken) {
            (Ok(_), true) => self.repeat_user_load(client, process),
            (judged, _) => UserUpdates::of(&mut self.core).put_load_in_force(client, judged, process),
        }
        let loading = &mut self.core.control.clients.users.loading;
        if !loading.is_under_way() {
            loading.forget_overtaken();
            self.core.control.clients.blocking.user_load_ended();
        }
    }

    /// Runs a load of users again, because users have changed during the load. The load precedes the loads
    /// that wait, and runs only if the client may still load users.
    fn repeat_user_load(&mut self, client: SessionKey, process: &mut dyn Process) {
        if self.core.sessions.get(client).is_none_or(|session| session.caller.closing != Closing::No) {
            let text = "ACL LOAD was stopped: users changed meanwhile, and its client has disconnected";
            process.log(LogLevel::Notice, text);
        }
        self.core.control.clients.users.loading.note_overtaken();
        self.run_waiting(client, process);
    }

    /// Runs the loads of users that wait, until one is under way.
    pub(crate) fn serve_user_loads(&mut self, process: &mut dyn Process) {
        while !self.core.control.clients.users.loading.is_under_way()
            && let Some(client) = self.core.control.clients.blocking.next_user_load()
        {
            self.run_waiting(client, process);
        }
    }

    /// Begins the slow reads (`waiting/slow_reads.rs`) that wait, in the order in which they began to wait,
    /// while a thread is free.
    pub(crate) fn serve_slow_reads(&mut self, process: &mut dyn Process) {
        while self.core.control.clients.slow_reads.has_free_thread()
            && let Some(client) = self.core.control.clients.blocking.next_slow_read()
        {
            self.run_waiting(client, process);
        }
    }

    /// Records for LATENCY how long a slow read has waited for a thread, unless it waits again.
    pub(crate) fn note_slow_read_waited(&mut self, on: WaitFor, next: &Next, now: Now) {
        let still_waits = matches!(next, Next::Wait(again) if matches!(**again, WaitFor::SlowRead { .. }));
        if let WaitFor::SlowRead { since_ns } = on
            && !still_waits
        {
            self.core.control.note_latency("slow-read-wait", now, now.mono_ns.saturating_sub(since_ns));
        }
    }
}
