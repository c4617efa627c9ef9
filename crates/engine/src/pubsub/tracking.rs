//! Client-side caching (CLIENT TRACKING): reads are remembered when their command ends, and changes are
//! reported at their commit or at the end of the iteration. The memory of clients that have ended is
//! freed in slices.
//!
//! A change is reported to the tracking client itself if it uses RESP3. With REDIRECT, the change is
//! reported to the target of the redirection instead: by a push in RESP3, and in RESP2 by a message if the
//! target has subscribed to anything. These messages are sent like those of channels (`delivery.rs`), so
//! that they keep their position among replies.

mod broadcasts;

use crate::core::Core;
use crate::exec::finish::CommandEnding;
use crate::exec::standing::Standing;
use crate::exec::unit::Unit;
use crate::pubsub::delivery::Delivery;
use sluice_base::{Now, SessionKey};
use sluice_command::{Flags, Spec};
use sluice_commands::Args;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::aof::for_each_key;
use sluice_control::process::Process;
use sluice_keyspace::{Key, Keyspace};
use sluice_resp::{Outbox, Protocol, Reply};
use sluice_scripts::shebang::runs_script;
use sluice_session::{Closing, Session, Sessions};
use sluice_subscriptions::tracking::table::Row;
use sluice_subscriptions::tracking::{HeldBack, Redirect, TrackingMode};

/// Work for clients that track, once an iteration.
pub(crate) struct TrackingSteps<'a> {
    core: &'a mut Core,
}

impl<'a> TrackingSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> TrackingSteps<'a> {
        TrackingSteps { core }
    }
}

impl Core {
    /// Remembers the keys that a command of a tracking client has read, and ends the effect of CLIENT CACHING
    /// after the command. A separate function, because few clients track.
    #[cold]
    #[inline(never)]
    pub(crate) fn remember_reads(
        &mut self,
        session: &mut Session,
        spec: &'static Spec,
        args: Args<'_>,
        ending: CommandEnding,
        unit: &Unit,
    ) {
        let Core { keyspace, control, effects, .. } = self;
        let tracking = &mut control.clients.tracking;
        let Some(client) = tracking.client(session.key) else { return };
        // Channels are not keys, and a script's reads are those of the commands that it calls.
        let reads = spec.flags.has(Flags::READONLY) && !spec.flags.has(Flags::PUBSUB) && !runs_script(spec);
        if reads && ending != CommandEnding::Answered && client.remembers() {
            let (keyspace, filter) = (&*keyspace, effects.listened_keys());
            let db = session.caller.db;
            let before = tracking.load();
            for_each_key(spec, args, |key| {
                tracking.remember(session.key, key.hash, filter, || name_to_keep(keyspace, db, key));
            });
            if tracking.is_over(control.limits.tracked_keys_max) {
                let added = tracking.load() - before;
                let own = unit.client_proto.unwrap_or(session.caller.proto);
                self.evict_tracked(unit.now, own, added.saturating_mul(2).max(VICTIMS_AT_ONCE));
            }
        }
        let is_over = unit.standing == Standing::Client && ending != CommandEnding::Blocked;
        if is_over && spec.container() != Some("client") {
            self.control.end_caching(session);
        }
    }

    /// Evicts up to `victims_max` rows of the table while the table is over its bound: the clients of an
    /// evicted row drop their copies. A command may evict twice as many rows as it has added keys and
    /// items, so the table stays over its bound only after CONFIG SET has lowered the bound.
    fn evict_tracked(&mut self, now: Now, own: Protocol, victims_max: usize) {
        for _ in 0..victims_max {
            let control = &mut self.control;
            let tracking = &mut control.clients.tracking;
            if !tracking.is_over(control.limits.tracked_keys_max) {
                return;
            }
            let Some((hash, row)) = tracking.take_victim() else { return };
            self.send_row_of_hash(hash, &row, now, own);
        }
    }

    /// Asks the clients of a row that was taken from the table, by an eviction or with a lost slot, to drop
    /// their copies of the key. The name of the key is kept in the row, or found by the key's hash; if it is
    /// neither, the clients drop all copies.
    fn send_row_of_hash(&mut self, hash: u64, row: &Row, now: Now, own: Protocol) {
        let Core { keyspace, control, sessions, units, .. } = self;
        let searched = keyspace.databases().min(SEARCHED_DATABASES);
        let found = || (0..searched).find_map(|db| keyspace.db(db).key_of_hash(hash));
        let name = row.name().or_else(found);
        let spare = &mut units.spare_outboxes;
        Delivery { sessions, control, spare, now, own }.send_row(row, name, None);
    }
}

impl TrackingSteps<'_> {
    /// Does the work of each iteration: reports changes to clients that track prefixes, and takes slices
    /// of other work.
    #[inline]
    pub(crate) fn advance_tracking(&mut self, process: &mut dyn Process) {
        let tracking = &self.core.control.clients.tracking;
        let is_telling = !self.core.control.clients.tracking.broadcasts.is_idle();
        if tracking.is_active() || tracking.has_remains() || tracking.has_orphaned() || is_telling {
            self.advance_tracking_under_way(process);
        }
    }

    #[cold]
    fn advance_tracking_under_way(&mut self, process: &mut dyn Process) {
        let now = process.recent();
        if self.has_gathered() && self.core.control.between_units(BetweenUnits::Invalidations) {
            let Core { control, sessions, units, .. } = self.core;
            let spare = &mut units.spare_outboxes;
            Delivery { sessions, control, spare, now, own: Protocol::Resp2 }.broadcast(process);
            let mut until = None;
            while self.core.control.clients.tracking.is_over(self.core.control.limits.tracked_keys_max) {
                self.core.evict_tracked(now, Protocol::Resp2, VICTIMS_AT_ONCE);
                let now_ns = process.now().mono_ns;
                if now_ns >= *until.get_or_insert(now.mono_ns.saturating_add(EVICTION_SLICE_NS)) {
                    break;
                }
            }
            self.tell_of_lost_slots(process);
            self.send_held(now);
            self.tell_orphaned_targets(now);
            self.core.log_disconnected(process);
        }
        let tracking = &mut self.core.control.clients.tracking;
        if !tracking.has_remains() && tracking.is_sweep_due(now.mono_ns) {
            tracking.sweep(self.core.effects.listened_keys());
        }
        let mut began = None;
        while self.core.control.clients.tracking.has_remains() {
            self.core.control.clients.tracking.free_some(self.core.effects.listened_keys());
            let now_ns = process.now().mono_ns;
            if now_ns.saturating_sub(*began.get_or_insert(now_ns)) >= SLICE_NS {
                break;
            }
        }
    }

    /// Whether invalidations wait to be sent at the end of the iteration.
    fn has_gathered(&self) -> bool {
        let tracking = &self.core.control.clients.tracking;
        tracking.prefixes.has_changed()
            || !self.core.control.clients.tracking.broadcasts.is_idle()
            || tracking.is_over(self.core.control.limits.tracked_keys_max)
            || !tracking.releasing.is_empty()
            || tracking.has_orphaned()
            || tracking.has_lost()
    }

    /// Sends invalidations to clients that have read keys of slots that have left this server, for a
    /// slice of time.
    fn tell_of_lost_slots(&mut self, process: &mut dyn Process) {
        let now = process.recent();
        while self.core.control.clients.tracking.has_lost() {
            for (hash, row) in self.core.control.clients.tracking.take_lost() {
                self.core.send_row_of_hash(hash, &row, now, Protocol::Resp2);
            }
            if process.now().mono_ns.saturating_sub(now.mono_ns) >= EVICTION_SLICE_NS {
                return;
            }
        }
    }

    /// Milliseconds until [`TrackingSteps::advance_tracking`] must run again. While a transaction or script
    /// is in progress, invalidations wait for its end, which needs no timer.
    pub(crate) fn tracking_wait_ms(&self) -> u64 {
        let tracking = &self.core.control.clients.tracking;
        let is_over = tracking.is_over(self.core.control.limits.tracked_keys_max);
        let is_telling = !self.core.control.clients.tracking.broadcasts.is_idle();
        let is_gathered = is_over || is_telling || tracking.has_orphaned() || tracking.has_lost();
        let is_behind = tracking.has_remains() || is_gathered && !self.core.has_open_unit();
        if is_behind { 1 } else { u64::MAX }
    }

    /// Makes clients drop all copies if they got invalidations for clients that have ended, because the keys
    /// that the ended clients have read are not tracked any more.
    fn tell_orphaned_targets(&mut self, now: Now) {
        let Core { control, sessions, units, .. } = self.core;
        let mut targets = std::mem::take(&mut control.clients.tracking.orphaned);
        targets.sort_unstable();
        targets.dedup();
        let spare = &mut units.spare_outboxes;
        let mut delivery = Delivery { sessions, control, spare, now, own: Protocol::Resp2 };
        targets.retain(|target| delivery.is_there(*target) && delivery.hears(*target, true));
        delivery.send_names(&targets, &[], true);
    }

    /// Sends the invalidations that were held back for clients that redirect. Invalidations that wait for
    /// the end of a slow read stay held.
    fn send_held(&mut self, now: Now) {
        let Core { control, sessions, units, .. } = self.core;
        for client in std::mem::take(&mut control.clients.tracking.releasing) {
            if is_producing(sessions, client) {
                continue;
            }
            let Some(own) = control.clients.tracking.client_mut(client) else { continue };
            let Some(held) = own.held.take() else { continue };
            let spare = &mut units.spare_outboxes;
            let mut delivery = Delivery { sessions, control, spare, now, own: Protocol::Resp2 };
            match held {
                HeldBack::All => delivery.send_to_client(client, None),
                HeldBack::Keys(names) => {
                    names.iter().for_each(|name| delivery.send_to_client(client, Some(name)))
                }
            }
        }
    }
}

impl Delivery<'_> {
    /// Reports a change of a key: at once to the clients that have read the key, and at the end of the
    /// iteration to those that track its prefix. `writer` is the client that has written the key.
    pub(crate) fn invalidate(&mut self, hash: u64, db: usize, name: &[u8], writer: Option<SessionKey>) {
        let tracking = &mut self.control.clients.tracking;
        tracking.prefixes.note_changed(hash, db, name, writer);
        if let Some(row) = tracking.take_row(hash) {
            self.send_row(&row, Some(name), writer);
        }
    }

    /// Sends an invalidation to the clients of a row. Without a name, the clients drop all copies.
    pub(super) fn send_row(&mut self, row: &Row, name: Option<&[u8]>, writer: Option<SessionKey>) {
        let mut targets = std::mem::take(&mut self.control.clients.tracking.targets);
        for tracker in row.clients() {
            let Some(client) = self.control.clients.tracking.live(*tracker) else { continue };
            let key = client.key;
            if client.options.no_loop && writer == Some(key) {
                continue;
            }
            targets.extend(self.target_of(key, std::slice::from_ref(&name)));
        }
        self.send_names(&targets, name.as_slice(), name.is_none());
        targets.clear();
        self.control.clients.tracking.targets = targets;
    }

    /// Makes every tracking client drop all copies, and forgets what was tracked. O(clients).
    pub(crate) fn invalidate_all(&mut self) {
        self.control.clients.tracking.empty();
        self.drop_copies(|_| true);
    }

    /// Makes the clients that track in a mode for which `concerns` is true drop all copies. O(clients).
    pub(crate) fn drop_copies(&mut self, concerns: impl Fn(TrackingMode) -> bool) {
        let clients = self.control.clients.tracking.clients.iter().flatten();
        let clients = clients.filter(|client| concerns(client.options.mode)).map(|client| client.key);
        let clients: Vec<SessionKey> = clients.collect();
        let mut targets = Vec::with_capacity(clients.len());
        for client in clients {
            targets.extend(self.target_of(client, &[None]));
        }
        self.send_names(&targets, &[], true);
    }

    /// Sends a client the invalidation of one key, or of all.
    fn send_to_client(&mut self, client: SessionKey, name: Option<&[u8]>) {
        if let Some(target) = self.target_of(client, &[name]) {
            self.send_names(&[target], name.as_slice(), name.is_none());
        }
    }

    /// The receiver of invalidations for a tracking client: the client itself, the client that it redirects
    /// to, or `None`. An invalidation that goes to another client is held while the reply to an older read
    /// of the tracking client may still be unsent: while a thread produces a reply for that client, and while
    /// that client runs a command, transaction or script, which may be suspended.
    pub(super) fn target_of(&mut self, client: SessionKey, told: &[Option<&[u8]>]) -> Option<SessionKey> {
        let tracking = &mut self.control.clients.tracking;
        let redirect = tracking.client(client)?.options.redirect;
        let Some(redirect) = redirect.filter(|redirect| redirect.key != client) else {
            return self.hears(client, redirect.is_some()).then_some(client);
        };
        let runs = self.sessions.get(client).is_none();
        if runs || is_producing(self.sessions, client) {
            let own = tracking.client_mut(client)?;
            let is_first = own.held.is_none();
            told.iter().for_each(|name| own.hold(*name));
            // A slow read releases the held invalidations at its end.
            if runs && is_first {
                tracking.release_held(client);
            }
            return None;
        }
        if !self.is_there(redirect.key) {
            self.send_redirect_broken(client, redirect);
            return None;
        }
        self.hears(redirect.key, true).then_some(redirect.key)
    }

    /// Whether a client exists and is not to be closed.
    fn is_there(&self, key: SessionKey) -> bool {
        let closing = self.sessions.get(key).map_or(Closing::No, |session| session.caller.closing);
        self.sessions.is_live(key) && closing == Closing::No
    }

    /// Whether a client can receive invalidations: in RESP2 only as messages, redirected from another client.
    fn hears(&self, key: SessionKey, in_place_of_another: bool) -> bool {
        match self.proto_of(key) {
            Protocol::Resp3 => true,
            Protocol::Resp2 => in_place_of_another && self.control.clients.pubsub.listens(key),
        }
    }

    /// Protocol of a client. A client that is not in the table runs a command.
    fn proto_of(&self, key: SessionKey) -> Protocol {
        self.sessions.get(key).map_or(self.own, |session| session.caller.proto)
    }

    /// Reports to a client that the client it redirects to is gone.
    #[cold]
    fn send_redirect_broken(&mut self, client: SessionKey, redirect: Redirect) {
        if let Some(client) = self.control.clients.tracking.client_mut(client) {
            client.is_broken = true;
        }
        if self.proto_of(client) == Protocol::Resp3 {
            self.send_all(&[client], |proto, buffer| {
                let mut outbox = Outbox::from_buffer(buffer);
                let mut reply = Reply::new(&mut outbox, proto);
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.int(redirect.id.0 as i64);
                outbox.into_parts().0
            });
        }
    }

    pub(super) fn send_names(&mut self, targets: &[SessionKey], names: &[&[u8]], are_all: bool) {
        if !targets.is_empty() {
            self.send_all(targets, |proto, buffer| encode(names, are_all, proto, buffer));
        }
    }
}

/// Whether another thread produces a client's reply.
fn is_producing(sessions: &Sessions, client: SessionKey) -> bool {
    sessions.get(client).is_some_and(|session| session.producing().is_some())
}

/// An invalidation as it is sent to its receivers: of these keys, or of all.
fn encode(names: &[&[u8]], are_all: bool, proto: Protocol, buffer: Vec<u8>) -> Vec<u8> {
    let mut outbox = Outbox::from_buffer(buffer);
    let mut reply = Reply::new(&mut outbox, proto);
    match proto {
        Protocol::Resp3 => {
            reply.push(2);
            reply.bulk(b"invalidate");
        }
        Protocol::Resp2 => {
            reply.push(3);
            reply.bulk(b"message");
            reply.bulk(b"__redis__:invalidate");
        }
    }
    if are_all {
        reply.null();
    } else {
        reply.array(names.len());
        names.iter().for_each(|name| reply.bulk(name));
    }
    outbox.into_parts().0
}

/// The name of a key that could not be found by its hash later, because the reader's database does not hold
/// the key, or is not searched. An existing key can be found as long as its row exists: a command that
/// deletes the key, or moves it to another database, removes the row, and SWAPDB, FLUSHDB and loads remove
/// all rows. A long name is not kept: when such a row is evicted, its clients drop all copies.
fn name_to_keep(keyspace: &Keyspace, db: usize, key: Key<'_>) -> Option<Box<[u8]>> {
    let is_found = || db < SEARCHED_DATABASES && keyspace.db(db).find(key).is_some();
    (key.bytes.len() <= KEPT_NAME_BYTES_MAX && !is_found()).then(|| key.bytes.into())
}

/// Maximum bytes of a name that a row keeps. Longer names are not kept, because names count against the bound
/// of the table, and a long one would evict rows of other clients.
const KEPT_NAME_BYTES_MAX: usize = 1024;

/// Number of databases in which the name of an evicted row is searched.
const SEARCHED_DATABASES: usize = 16;

/// Number of rows evicted between two readings of the clock after the bound was lowered. Every command may
/// evict at least as many.
const VICTIMS_AT_ONCE: usize = 64;

/// Nanoseconds of eviction in an iteration after the bound was lowered.
const EVICTION_SLICE_NS: u64 = 500_000;

/// Nanoseconds of a slice of freeing.
const SLICE_NS: u64 = 50_000;
