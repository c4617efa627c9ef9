//! Batches: parsed requests of one session, prepared together and executed in order.
//!
//! Times: the batch begins at the last reading of the clock, which is read again after each command; a
//! command starts when its predecessor has ended.

use crate::cluster::driving::notice_standstill;
use crate::engine::Engine;
use crate::exec::request::Next;
use crate::waiting::ending::WaitEnds;
use sluice_base::Now;
use sluice_base::SessionKey;
use sluice_commands::{Args, Prepared, PreparedBatch, Preparer, WaitFor};
use sluice_control::process::Process;
use sluice_resp::{AuthState, OwnedRequests, Request, Requests};
use sluice_session::{Authentication, Closing, Session};

/// The result of submitting a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Number of requests executed, queued, rejected, or kept because they wait; the input up to the end of
    /// the last of them is used up.
    pub executed: usize,
    /// Whether the session goes on with its next request.
    pub flow: Flow,
    /// What the client may send from now on, as far as its own authentication
    /// decides: see [`sluice_commands::Limits::admission`].
    pub admission: AuthState,
}

/// Whether a session goes on with its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The session goes on with its next request.
    Continue,
    /// The last request waits and is kept in the session.
    /// [`Action::Resume`](sluice_control::action::Action::Resume) will report the end of the wait.
    Waiting,
    /// The session ends: no more input is to be read.
    Closing,
}

/// A batch under way.
struct BatchRun<'a> {
    input: &'a [u8],
    requests: &'a Requests,
    executed: usize,
    flow: Flow,
    /// Time at which the last command ended, which is the start of the next.
    now: Now,
}

impl Engine {
    /// Executes requests of a session in order, up to the first that waits or ends the session. If the
    /// session waits already, none is executed; while its script is debugged, they are the debugger's
    /// commands. `requests` are ranges of `input`.
    pub fn submit(
        &mut self,
        key: SessionKey,
        input: &[u8],
        requests: &Requests,
        process: &mut dyn Process,
    ) -> Submitted {
        let Some(mut session) = self.begin(key, process) else {
            return Submitted { executed: 0, flow: Flow::Closing, admission: AuthState::Unauthenticated };
        };
        let mut batch =
            BatchRun { input, requests, executed: 0, flow: flow_of(&session), now: process.recent() };
        if batch.flow == Flow::Waiting && self.debugs(key) {
            return self.submit_debugged(session, batch, process);
        }
        let batch_max = self.core.control.limits.prefetch_batch;
        let mut prepared = self.preparing.batch.take().unwrap_or_default();
        while batch.flow == Flow::Continue && batch.executed < requests.len() {
            let end = (batch.executed + batch_max).min(requests.len());
            self.prepare(session.caller.db, input, requests, batch.executed..end, &mut prepared);
            session = self.execute(session, &mut batch, &prepared, process);
        }
        self.preparing.batch = Some(prepared);
        self.finish(session, batch, process)
    }

    /// Submits requests that were all prepared by an I/O thread, and whose keys were
    /// prefetched ([`Engine::prefetch_buckets`], [`Engine::prefetch_entries`]).
    pub fn submit_prepared(
        &mut self,
        key: SessionKey,
        input: &[u8],
        requests: &Requests,
        prepared: &PreparedBatch,
        process: &mut dyn Process,
    ) -> Submitted {
        let Some(mut session) = self.begin(key, process) else {
            return Submitted { executed: 0, flow: Flow::Closing, admission: AuthState::Unauthenticated };
        };
        let mut batch =
            BatchRun { input, requests, executed: 0, flow: flow_of(&session), now: process.recent() };
        if batch.flow == Flow::Waiting && self.debugs(key) {
            return self.submit_debugged(session, batch, process);
        }
        if batch.flow == Flow::Continue {
            let db = self.core.keyspace.db(session.caller.db);
            prepared.prefetch_members(db, |at| requests.at(at, input));
            session = self.execute(session, &mut batch, prepared, process);
        }
        self.finish(session, batch, process)
    }

    /// The preparer that I/O threads use for requests; to be renewed when [`Engine::limits`]
    /// returns another snapshot.
    pub fn preparer(&self) -> Preparer {
        self.preparing.preparer.clone()
    }

    /// Prefetches the hash table buckets of prepared requests, before [`Engine::prefetch_entries`].
    pub fn prefetch_buckets(&self, key: SessionKey, prepared: &PreparedBatch) {
        let Some(session) = self.core.sessions.get(key) else { return };
        let db = self.core.keyspace.db(session.caller.db);
        prepared.prefetch_buckets(db);
    }

    /// Prefetches the entries of prepared requests, before [`Engine::submit_prepared`].
    pub fn prefetch_entries(&mut self, key: SessionKey, prepared: &PreparedBatch) {
        let Some(session) = self.core.sessions.get(key) else { return };
        let db = self.core.keyspace.db(session.caller.db);
        prepared.prefetch_entries(db);
        self.core.stats.prefetch.entries += prepared.hashes_len();
    }

    /// Counts a group of requests whose keys were prefetched together.
    pub fn count_prefetch_group(&mut self) {
        self.core.stats.prefetch.batches += 1;
    }

    #[inline]
    fn begin(&mut self, key: SessionKey, process: &mut dyn Process) -> Option<Box<Session>> {
        if self.core.control.cluster.is_some() {
            notice_standstill(&mut self.core, process);
        }
        let mut session = self.core.sessions.take(key)?;
        session.caller.traffic.last_s = process.recent().unix_s();
        if session.outbox.capacity_bytes() == 0
            && let Some(spare) = self.core.units.spare_outboxes.pop()
        {
            // `forget` saves a call, because an outbox without memory has nothing to drop.
            std::mem::forget(std::mem::replace(&mut session.outbox, spare));
        }
        Some(session)
    }

    /// Executes prepared requests, up to the first that waits or ends the session. Returns the session.
    #[inline]
    fn execute(
        &mut self,
        mut session: Box<Session>,
        batch: &mut BatchRun<'_>,
        prepared: &PreparedBatch,
        process: &mut dyn Process,
    ) -> Box<Session> {
        if self.core.keyspace.is_nearly_full(session.caller.db) != *self.core.control.nearly_full {
            self.check_entry_space(process);
        }
        let (first_keys, _) = prepared.hashes();
        self.core.effects.prefetch_listened(first_keys);
        let numbers = batch.executed..batch.executed + prepared.len();
        let (mut requests, mut now) = (batch.requests.range(numbers, batch.input), batch.now);
        for item in prepared.items() {
            let Some(request) = requests.next() else { break };
            let args = Args::new(&request, item, &prepared.hashing);
            let next = self.process_request(&mut session, item, args, request, &mut now, process);
            match next {
                Next::Wait(on) => self.park_request(&mut session, request, *item, *on),
                Next::Done if session.caller.is_primary() => {
                    self.core.control.note_applied(&mut session, &request)
                }
                Next::Done => {}
            }
            if self.core.control.clients.blocking.is_due() {
                session = self.serve_between(session, process);
            }
            if session.caller.closing != Closing::No || session.waiting.is_some() {
                batch.flow = flow_of(&session);
                break;
            }
        }
        batch.executed += prepared.len() - requests.len();
        batch.now = now;
        session
    }

    /// Submits a batch of a client whose script is debugged: the requests are the debugger's commands.
    #[cold]
    fn submit_debugged(
        &mut self,
        session: Box<Session>,
        mut batch: BatchRun<'_>,
        process: &mut dyn Process,
    ) -> Submitted {
        let (session, executed, flow) =
            self.submit_to_debugger(session, batch.input, batch.requests, process);
        (batch.executed, batch.flow) = (executed, flow);
        self.finish(session, batch, process)
    }

    /// Stores a request that must wait, in the client's session.
    #[cold]
    fn park_request(&mut self, session: &mut Session, request: Request<'_>, item: Prepared, on: WaitFor) {
        self.core.control.park(session, OwnedRequests::of(&request), item, on);
    }

    /// Serves the clients that wait, between two requests of a session. During that time the session is in
    /// the table, so that commands of other sessions can reach it.
    #[cold]
    fn serve_between(&mut self, session: Box<Session>, process: &mut dyn Process) -> Box<Session> {
        let key = session.key;
        self.core.sessions.put_back(session);
        self.serve_waiting(process);
        self.core.sessions.take(key).expect("only the server ends sessions, between batches")
    }

    #[inline]
    fn finish(
        &mut self,
        mut session: Box<Session>,
        batch: BatchRun<'_>,
        process: &mut dyn Process,
    ) -> Submitted {
        session.note_output(&mut self.core.control.clients.ready);
        if session.caller.flags.authentication == Authentication::Never || batch.flow == Flow::Closing {
            WaitEnds::of(&mut self.core).after_batch(&mut session, process);
        }
        let admission = session.caller.admission();
        self.core.sessions.put_back(session);
        Submitted { executed: batch.executed, flow: batch.flow, admission }
    }

    fn prepare(
        &mut self,
        db: usize,
        input: &[u8],
        requests: &Requests,
        batch: std::ops::Range<usize>,
        out: &mut PreparedBatch,
    ) {
        out.clear();
        self.preparing.preparer.prepare_all(requests.range(batch.clone(), input), out);
        if out.keys() > 1 {
            let db = self.core.keyspace.db(db);
            out.prefetch_buckets(db);
            out.prefetch_entries(db);
            out.prefetch_members(db, |at| requests.at(batch.start + at, input));
            let keys = out.hashes_len();
            if keys > 1 {
                self.core.stats.prefetch.batches += 1;
                self.core.stats.prefetch.entries += keys;
            }
        }
    }
}

/// How a session goes on after a request.
pub(crate) fn flow_of(session: &Session) -> Flow {
    match session.caller.closing {
        Closing::No if session.waiting.is_some() => Flow::Waiting,
        Closing::No => Flow::Continue,
        Closing::AfterReply | Closing::Now => Flow::Closing,
    }
}
