//! Clients that wait, for example for keys (BLPOP and the like), for replicas (WAIT), or for the end of a
//! pause.
//!
//! ```text
//!  running ──Wait──► park ──► waiting ──key ready, replica's acks, end of the pause──► run again ──► resumed
//!                                 └────deadline, CLIENT UNBLOCK──► reply ──────────────────────────► resumed
//! ```
//!
//! Invariants: (1) a session's `waiting` is the wait of the session; a wait that has a list here, or a
//! deadline, is listed exactly while `waiting` is set (a wait that is ended by a message naming its client
//! has no list); (2) clients of one key are served in the order in which they began to wait; (3) a client is
//! served between execution units (commands or transactions), before any client's next command, by running
//! its own command again.

use sluice_base::Epoch;
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_commands::{BlockOn, Prepared, WaitFor};
use sluice_keyspace::KeyMap;
use sluice_resp::OwnedRequests;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A command that waits, with its request.
#[derive(Debug)]
pub struct Waiting {
    /// The request that waits, which is the only element.
    pub request: OwnedRequests,
    /// Command, keys and hashes of the request.
    pub prepared: Prepared,
    /// The condition that ends the wait.
    pub on: WaitFor,
    /// Number of the wait. Clients of a key are served in ascending order of these numbers.
    pub order: u64,
    /// How CLIENT UNBLOCK ends this wait; `None` if no CLIENT UNBLOCK has named the client.
    pub unblock: Option<Unblock>,
}

/// How CLIENT UNBLOCK ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// The command replies as after its timeout.
    Timeout,
    /// The command replies with an error.
    Error,
}

/// The lists of all clients that wait.
#[derive(Debug, Default)]
pub struct Blocking {
    /// Advanced when changes of keys, or deletions, begin to matter to any waiting client, or cease to
    /// matter to all of them.
    epoch: Epoch,
    keys: KeyMap<Waiters>,
    deadlines: BTreeSet<(u64, SessionKey)>,
    /// Clients that wait for acknowledgements of replicas (WAIT, WAITAOF, or a command that replicas must
    /// acknowledge first), in the order in which they began to wait.
    replicas: BTreeMap<u64, SessionKey>,
    /// Clients whose requests the checks before execution (the gate) have postponed, because of a pause, an
    /// execution unit that is suspended, or another reason, in the order in which they began to wait.
    paused: BTreeMap<u64, SessionKey>,
    /// Clients whose scripts wait for their turn, in the order in which they began to wait.
    scripts: BTreeMap<u64, SessionKey>,
    /// Clients whose slow reads wait for a thread, in the order in which they began to wait.
    slow_reads: BTreeMap<u64, SessionKey>,
    /// Clients whose loads of users wait for earlier loads, in the order in which they began to wait.
    user_loads: BTreeMap<u64, SessionKey>,
    /// Whether a load of users has ended while clients wait to begin their loads.
    may_load_users: bool,
    /// Whether a thread has become free while slow reads wait for a thread.
    has_free_thread: bool,
    /// Keys that may now have a value for which a client waits, with their databases.
    ready: VecDeque<(usize, Box<[u8]>)>,
    /// Clients that were on [`Blocking::paused`] and whose requests are to run again.
    resumed: BTreeMap<u64, SessionKey>,
    /// Clients whose waits CLIENT UNBLOCK ends.
    unblocked: VecDeque<SessionKey>,
    /// Whether a replica has acknowledged more since the clients in `replicas` were last checked.
    acknowledged: bool,
    /// Whether a command was given to the cluster's state machine, whose decisions are to be carried out.
    node_has_decided: bool,
    /// Whether one of the fields above may hold work for [`Blocking::next_due`].
    due: bool,
    next_order: u64,
    count: usize,
    /// Number of clients whose wait for a key also ends when the key is deleted.
    until_gone: usize,
    /// Keys with clients whose wait also ends when the key is deleted.
    keys_until_gone: usize,
    /// Positions and new bytes of those arguments of the command that begins to wait that must be replaced
    /// before the command runs again. Empty if no argument must be replaced.
    pub replaced_args: Vec<(usize, Vec<u8>)>,
}

/// The clients that wait for one key.
#[derive(Debug, Default)]
struct Waiters {
    /// The clients, by the order in which they began to wait.
    clients: BTreeMap<u64, SessionKey>,
    /// Whether the key is in [`Blocking::ready`].
    is_ready: bool,
    /// Number of clients whose wait also ends when the key is deleted.
    until_gone: usize,
}

/// One piece of work for the clients that wait.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadyWork {
    /// Carry out the decisions of the cluster's state machine.
    NodeDecisions,
    /// Serve the clients of a key, given by database and name.
    Key(usize, Box<[u8]>),
    /// Run the postponed request of a client again.
    Resumed(SessionKey),
    /// End the wait of a client that CLIENT UNBLOCK named.
    Unblocked(SessionKey),
    /// Check the clients that wait for acknowledgements of replicas.
    Acknowledged,
    /// Begin the next load of users.
    UserLoads,
    /// Begin slow reads that waited for a thread.
    SlowReads,
}

impl Blocking {
    /// A value without waiting clients. `epoch` is advanced when the first wait for a key begins or the last
    /// such wait ends, and also when the first or last wait that ends with the deletion of its key begins or
    /// ends.
    pub fn new(epoch: Epoch) -> Blocking {
        Blocking { epoch, ..Blocking::default() }
    }

    /// Heap bytes of the lists, without `replaced_args`. O(keys for which clients wait).
    pub fn footprint(&self) -> usize {
        let waiters = |of: &Waiters| heap::tree::<u64, SessionKey>(of.clients.len());
        let keys = self.keys.footprint() + self.keys.values().map(waiters).sum::<usize>();
        let ready: usize = self.ready.iter().map(|(_, key)| heap::block(key.len())).sum();
        let lists = [&self.replicas, &self.paused, &self.resumed, &self.slow_reads, &self.scripts];
        let clients = lists.map(BTreeMap::len);
        let user_loads = heap::tree::<u64, SessionKey>(self.user_loads.len());
        keys + heap::tree::<(u64, SessionKey), ()>(self.deadlines.len())
            + clients.map(heap::tree::<u64, SessionKey>).iter().sum::<usize>()
            + user_loads
            + heap::deque(&self.ready)
            + ready
            + heap::deque(&self.unblocked)
    }

    /// Number of clients that are blocked, as INFO counts them.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of clients whose wait has a deadline.
    pub fn with_deadline(&self) -> usize {
        self.deadlines.len()
    }

    /// Number of keys for which clients wait.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Whether a client waits for a key, so that every changed key must be looked up here.
    #[inline]
    pub fn wants_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Number of keys with clients whose wait also ends when the key is deleted.
    pub fn keys_until_gone(&self) -> usize {
        self.keys_until_gone
    }

    /// Whether deleting a key can end a client's wait.
    #[inline]
    pub fn wants_removals(&self) -> bool {
        self.until_gone > 0
    }

    /// A new order number, higher than those of all clients that wait.
    pub fn next_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    /// Lists a client that begins to wait. Cost: O(log n) for each key.
    pub fn add(&mut self, client: SessionKey, waiting: &Waiting) {
        let before = self.wants();
        self.list(client, waiting);
        self.note_wants(before);
    }

    fn list(&mut self, client: SessionKey, waiting: &Waiting) {
        self.count += usize::from(waiting.on.is_blocked());
        match waiting.on {
            WaitFor::Pause | WaitFor::Held => drop(self.paused.insert(waiting.order, client)),
            WaitFor::Turn => drop(self.scripts.insert(waiting.order, client)),
            WaitFor::SlowRead { .. } => drop(self.slow_reads.insert(waiting.order, client)),
            WaitFor::UserLoads => drop(self.user_loads.insert(waiting.order, client)),
            // A message that names the client ends each of these waits.
            WaitFor::Load
            | WaitFor::Users
            | WaitFor::Shutdown
            | WaitFor::Reply
            | WaitFor::Unit
            | WaitFor::Migration(_)
            | WaitFor::Cluster(_) => {}
            WaitFor::Replicas { .. } | WaitFor::ReplicasFirst { .. } => {
                self.replicas.insert(waiting.order, client);
            }
            WaitFor::Keys(on) => {
                self.until_gone += usize::from(on.ends_without_key);
                for key in waiting.keys(on) {
                    let waiters = self.keys.entry(on.db, key);
                    // A client may name a key twice.
                    let is_new = waiters.clients.insert(waiting.order, client).is_none();
                    if is_new && on.ends_without_key {
                        self.keys_until_gone += usize::from(waiters.until_gone == 0);
                        waiters.until_gone += 1;
                    }
                }
            }
        }
        if waiting.on.deadline_ms() > 0 {
            self.deadlines.insert((waiting.on.deadline_ms(), client));
        }
    }

    /// Removes a client from the lists. Cost: O(log n) for each key.
    pub fn remove(&mut self, client: SessionKey, waiting: &Waiting) {
        let before = self.wants();
        self.unlist(client, waiting);
        self.note_wants(before);
    }

    /// Whether any change of a key matters to a client, and whether deletions do.
    fn wants(&self) -> (bool, bool) {
        (self.wants_keys(), self.wants_removals())
    }

    fn note_wants(&mut self, before: (bool, bool)) {
        if self.wants() != before {
            self.epoch.advance();
        }
    }

    fn unlist(&mut self, client: SessionKey, waiting: &Waiting) {
        self.count -= usize::from(waiting.on.is_blocked());
        match waiting.on {
            WaitFor::Pause | WaitFor::Held => {
                self.paused.remove(&waiting.order);
                self.resumed.remove(&waiting.order);
            }
            WaitFor::Turn => drop(self.scripts.remove(&waiting.order)),
            WaitFor::SlowRead { .. } => drop(self.slow_reads.remove(&waiting.order)),
            WaitFor::UserLoads => drop(self.user_loads.remove(&waiting.order)),
            WaitFor::Load
            | WaitFor::Users
            | WaitFor::Shutdown
            | WaitFor::Reply
            | WaitFor::Unit
            | WaitFor::Migration(_)
            | WaitFor::Cluster(_) => {}
            WaitFor::Replicas { .. } | WaitFor::ReplicasFirst { .. } => {
                self.replicas.remove(&waiting.order);
            }
            WaitFor::Keys(on) => {
                self.until_gone -= usize::from(on.ends_without_key);
                for key in waiting.keys(on) {
                    let Some(waiters) = self.keys.get_mut(on.db, key) else { continue };
                    let was_there = waiters.clients.remove(&waiting.order).is_some();
                    if was_there && on.ends_without_key {
                        waiters.until_gone -= 1;
                        self.keys_until_gone -= usize::from(waiters.until_gone == 0);
                    }
                    if waiters.clients.is_empty() {
                        self.keys.remove(on.db, key);
                    }
                }
            }
        }
        self.deadlines.remove(&(waiting.on.deadline_ms(), client));
    }

    /// Records that a key has changed, so that the clients that wait for it are served at the end of the
    /// execution unit.
    #[inline]
    pub fn key_changed(&mut self, db: usize, key: &[u8]) {
        if let Some(waiters) = self.keys.get_mut(db, key)
            && !std::mem::replace(&mut waiters.is_ready, true)
        {
            self.ready.push_back((db, key.into()));
            self.due = true;
        }
    }

    /// Records that a database was exchanged, so that each of its keys for which a client waits may exist
    /// now.
    pub fn database_changed(&mut self, db: usize) {
        let keys: Vec<Box<[u8]>> = self.keys.of_db(db).map(|(key, _)| key.into()).collect();
        keys.iter().for_each(|key| self.key_changed(db, key));
    }

    /// Records that a replica has acknowledged more bytes of the replication stream.
    pub fn replica_acknowledged(&mut self) {
        self.acknowledged = !self.replicas.is_empty();
        self.due |= self.acknowledged;
    }

    /// Records that a command was given to the cluster's state machine. The machine's decisions take
    /// effect before the next command of any client.
    pub fn node_has_decided(&mut self) {
        self.node_has_decided = true;
        self.due = true;
    }

    /// The clients that wait for acknowledgements of replicas, in the order in which they began to wait.
    pub fn waiting_for_replicas(&self) -> Vec<SessionKey> {
        self.replicas.values().copied().collect()
    }

    /// Makes all postponed requests run again, in their order. Called when a reason for postponing ends,
    /// such as a pause or a suspended execution unit. If another reason still applies to a request, the
    /// gate postpones the request again.
    pub fn release_postponed(&mut self) {
        self.resumed.append(&mut self.paused);
        self.due |= !self.resumed.is_empty();
    }

    /// The clients whose requests are postponed, followed by the clients whose scripts wait for their turn.
    pub fn postponed(&self) -> Vec<SessionKey> {
        self.paused.values().chain(self.scripts.values()).copied().collect()
    }

    /// Number of scripts that wait for their turn.
    #[inline]
    pub fn scripts(&self) -> usize {
        self.scripts.len()
    }

    /// The client whose script has waited longest for its turn.
    pub fn next_script(&self) -> Option<SessionKey> {
        self.scripts.first_key_value().map(|(_, client)| *client)
    }

    /// Records that a thread is free for slow reads.
    pub fn thread_is_free(&mut self) {
        self.has_free_thread = !self.slow_reads.is_empty();
        self.due |= self.has_free_thread;
    }

    /// The client whose slow read has waited longest for a thread.
    pub fn next_slow_read(&self) -> Option<SessionKey> {
        self.slow_reads.first_key_value().map(|(_, client)| *client)
    }

    /// Number of slow reads that wait for a thread.
    #[inline]
    pub fn slow_reads(&self) -> usize {
        self.slow_reads.len()
    }

    /// Records that a load of users has ended, so that the next one may begin.
    pub fn user_load_ended(&mut self) {
        self.may_load_users = !self.user_loads.is_empty();
        self.due |= self.may_load_users;
    }

    /// The client whose load of users has waited longest for earlier loads.
    pub fn next_user_load(&self) -> Option<SessionKey> {
        self.user_loads.first_key_value().map(|(_, client)| *client)
    }

    /// Records that CLIENT UNBLOCK has named a client.
    pub fn unblock(&mut self, client: SessionKey) {
        self.unblocked.push_back(client);
        self.due = true;
    }

    /// Whether [`Blocking::next_due`] may return work.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Takes the next piece of work; `None` if nothing is due. The kinds of work have a fixed order.
    pub fn next_due(&mut self) -> Option<ReadyWork> {
        if std::mem::take(&mut self.node_has_decided) {
            return Some(ReadyWork::NodeDecisions);
        }
        if let Some((db, key)) = self.ready.pop_front() {
            if let Some(waiters) = self.keys.get_mut(db, &key) {
                waiters.is_ready = false;
            }
            return Some(ReadyWork::Key(db, key));
        }
        if let Some(client) = self.unblocked.pop_front() {
            return Some(ReadyWork::Unblocked(client));
        }
        if std::mem::take(&mut self.acknowledged) {
            return Some(ReadyWork::Acknowledged);
        }
        // Loads of users that wait begin before postponed requests run again, because a postponed ACL LOAD
        // is newer, and the load that begins last defines the users.
        if std::mem::take(&mut self.may_load_users) {
            return Some(ReadyWork::UserLoads);
        }
        if let Some((_, client)) = self.resumed.pop_first() {
            return Some(ReadyWork::Resumed(client));
        }
        if std::mem::take(&mut self.has_free_thread) {
            return Some(ReadyWork::SlowReads);
        }
        self.due = false;
        None
    }

    /// The first client that waits for the key and whose order is above `after` and at most `last`.
    pub fn next_waiter(&self, db: usize, key: &[u8], after: u64, last: u64) -> Option<(u64, SessionKey)> {
        let waiters = self.keys.get(db, key)?;
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Included(last));
        waiters.clients.range(range).next().map(|(order, client)| (*order, *client))
    }

    /// The highest order that was given to a wait so far.
    #[inline]
    pub fn last_order(&self) -> u64 {
        self.next_order
    }

    /// The client with the earliest deadline, if this deadline has passed.
    #[inline]
    pub fn next_expired(&self, now_ms: u64) -> Option<SessionKey> {
        self.deadlines.first().filter(|(at, _)| *at <= now_ms).map(|(_, client)| *client)
    }

    /// The next deadline, ms of the monotonic clock.
    #[inline]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

impl Waiting {
    /// The keys for which the client waits.
    pub fn keys(&self, on: BlockOn) -> impl Iterator<Item = &[u8]> {
        let request = self.request.at(0);
        (on.first..on.first + on.count).map(move |index| request.arg(index))
    }

    /// Total length in bytes of the request's arguments.
    pub(crate) fn args_bytes(&self) -> usize {
        self.request.args_bytes()
    }

    /// Number of bytes stored for the request: the bytes in which it arrived, plus the words of an inline
    /// request and the new values of replaced arguments.
    pub fn wire_bytes(&self) -> usize {
        self.request.bytes()
    }

    /// Heap bytes of the waiting command and its request.
    pub fn footprint(&self) -> usize {
        heap::boxed::<Waiting>() + self.request.footprint()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Waiting>() + self.request.heap_bytes()
    }
}
