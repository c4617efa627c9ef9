//! What drives tracking: reads are remembered as their command ends, changes are told as they are committed
//! or at the end of the iteration, and what is left of clients that have ended is freed in slices.
//!
//! Whom a change is told: the client itself, if it speaks RESP3; or the client that it redirects to, which
//! is sent a push in RESP3, and in RESP2 a message if it has subscribed to anything. Messages go the way of
//! those of channels (`delivery.rs`), so that they keep their position among replies.

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

/// What is done for clients that track, once an iteration.
pub(crate) struct TrackingSteps<'a> {
    core: &'a mut Core,
}

impl<'a> TrackingSteps<'a> {
    /// Works on this core.
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> TrackingSteps<'a> {
        TrackingSteps { core }
    }
}

impl Core {
    /// Remembers what a command of a client that tracks has read. Out of line: few clients track.
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
        // Channels are no keys, and a script reads by the commands that it calls.
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
        let is_over = unit.standing == Standing::Client && ending != CommandEnding::Parked;
        if is_over && spec.container() != Some("client") {
            self.control.end_caching(session);
        }
    }

    /// Makes room in the table, for so many rows at most: those who lose a row drop their copies. A command
    /// may evict twice what it has added, so that the table stands above its bound only where CONFIG SET has
    /// lowered that.
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

    /// Tells the clients of a row that was taken to drop their copies, by the key's name where it is kept or
    /// found.
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
    /// Does what is done once an iteration: prefixes are told what has changed below them, and slices of work
    /// that is left.
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

    /// Whether invalidations have gathered that leave at the end of the iteration.
    fn has_gathered(&self) -> bool {
        let tracking = &self.core.control.clients.tracking;
        tracking.prefixes.has_changed()
            || !self.core.control.clients.tracking.broadcasts.is_idle()
            || tracking.is_over(self.core.control.limits.tracked_keys_max)
            || !tracking.releasing.is_empty()
            || tracking.has_orphaned()
            || tracking.has_lost()
    }

    /// Tells whoever has read keys of slots that have left this server, for a slice of time.
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

    /// Milliseconds until [`TrackingSteps::advance_tracking`] wants to go on. The end of a unit wakes by
    /// itself.
    pub(crate) fn tracking_wait_ms(&self) -> u64 {
        let tracking = &self.core.control.clients.tracking;
        let is_over = tracking.is_over(self.core.control.limits.tracked_keys_max);
        let is_telling = !self.core.control.clients.tracking.broadcasts.is_idle();
        let is_gathered = is_over || is_telling || tracking.has_orphaned() || tracking.has_lost();
        let is_behind = tracking.has_remains() || is_gathered && !self.core.has_open_unit();
        if is_behind { 1 } else { u64::MAX }
    }

    /// Has the clients drop all copies that were told in place of clients that have ended: nobody is told any
    /// more of what those have read.
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

    /// Tells what was held back for clients that redirect. What waits for the end of a slow read goes on
    /// waiting.
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
    /// Tells whoever may have a copy of a key that the key has changed: at once those who have read it, at
    /// the end of the iteration those who have asked for a prefix. `writer` is the client that has written
    /// the key.
    pub(crate) fn invalidate(&mut self, hash: u64, db: usize, name: &[u8], writer: Option<SessionKey>) {
        let tracking = &mut self.control.clients.tracking;
        tracking.prefixes.note_changed(hash, db, name, writer);
        if let Some(row) = tracking.take_row(hash) {
            self.send_row(&row, Some(name), writer);
        }
    }

    /// Tells the clients of a row. Without a name they drop all copies.
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

    /// Has every client that tracks drop all copies, and forgets what was tracked. O(clients).
    pub(crate) fn invalidate_all(&mut self) {
        self.control.clients.tracking.empty();
        self.drop_copies(|_| true);
    }

    /// Has the clients that track in such a mode drop all copies. O(clients).
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

    /// Tells one client of a key, or of all.
    fn send_to_client(&mut self, client: SessionKey, name: Option<&[u8]>) {
        if let Some(target) = self.target_of(client, &[name]) {
            self.send_names(&[target], name.as_slice(), name.is_none());
        }
    }

    /// Who is told in place of a client that tracks: itself, the client that it redirects to, or nobody. What
    /// is told to another client waits until the reply to an older read must have gone ahead: while a thread
    /// produces a reply, and for the client that runs a command, whose unit may come to stand still.
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
            // A slow read lists it at its end.
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

    /// Whether a client is there and stays.
    fn is_there(&self, key: SessionKey) -> bool {
        let closing = self.sessions.get(key).map_or(Closing::No, |session| session.caller.closing);
        self.sessions.is_live(key) && closing == Closing::No
    }

    /// Whether a client can be told: in RESP2 by a message, where it is told in place of another.
    fn hears(&self, key: SessionKey, in_place_of_another: bool) -> bool {
        match self.proto_of(key) {
            Protocol::Resp3 => true,
            Protocol::Resp2 => in_place_of_another && self.control.clients.pubsub.listens(key),
        }
    }

    /// The protocol of a client; one that is not among the others runs a command.
    fn proto_of(&self, key: SessionKey) -> Protocol {
        self.sessions.get(key).map_or(self.own, |session| session.caller.proto)
    }

    /// Tells a client that the one is gone that should be told in place of it.
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

/// An invalidation as its receivers are sent it: of these keys, or of all.
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

/// The name of a key that nobody would find by its hash: one that the reader's database does not hold, or
/// that stands in a database that is not searched. A key that is there stays findable: whatever takes the key
/// away, or moves it to another database, takes its row, and SWAPDB, FLUSHDB and loads, which do so to many
/// keys, take all rows. A long name is not kept: where such a row makes room, its clients drop all copies.
fn name_to_keep(keyspace: &Keyspace, db: usize, key: Key<'_>) -> Option<Box<[u8]>> {
    let is_found = || db < SEARCHED_DATABASES && keyspace.db(db).find(key).is_some();
    (key.bytes.len() <= KEPT_NAME_BYTES_MAX && !is_found()).then(|| key.bytes.into())
}

/// Bytes of a name that a row keeps. Names are charged, so that a longer one would make room for itself at
/// the cost of the rows of others.
const KEPT_NAME_BYTES_MAX: usize = 1024;

/// Databases in which the name of a row that makes room is looked for.
const SEARCHED_DATABASES: usize = 16;

/// Rows that make room between two looks at the clock where the bound was lowered.
const VICTIMS_AT_ONCE: usize = 64;

/// How long rows make room in an iteration where the bound was lowered, ns.
const EVICTION_SLICE_NS: u64 = 500_000;

/// How long a slice of freeing takes, ns.
const SLICE_NS: u64 = 50_000;
