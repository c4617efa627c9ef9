//! Commit: the effects of commands are reported to watchers, tracking clients, waiting clients, subscribers,
//! replicas, other cluster nodes and the append-only file.
//!
//! Steps are at two levels, each in a fixed order that a test prints: [`COMMAND_STEPS`] after each
//! command, so that the next command of the same unit (a transaction or a script) sees the consequences;
//! [`UNIT_STEPS`] after the unit, when the other clients may see them. A macro makes both the list of names
//! and the calls from one list of words, so a test can print the order, and no step costs an indirect call.

use crate::cluster::exports::tap::{TappedCommand, tap, tells};
use crate::cluster::publishing::tell_other_nodes;
use crate::core::Core;
use crate::exec::unit::Unit;
use crate::pubsub::delivery::Delivery;
use crate::upkeep::promised::PROMISED_MAX;
use sluice_base::{Now, SessionKey, key_slot};
use sluice_commands::Args;
use sluice_control::action::Action;
use sluice_control::persistence::aof::hash_of;
use sluice_control::{Control, PersistenceState, ReplicationState};
use sluice_keyspace::{
    Access, AccessUpdate, Classes, Db, DbChange, Effects, Event, ExpiryMode, KeyRef, Keyspace, ModifiedKey,
    Propagation,
};
use sluice_replication::{Audience, Grouping, UnitCommands};
use sluice_resp::Protocol;
use sluice_session::Session;
use sluice_subscriptions::watch::{KeyPresence, WatchedChange};

/// The command whose effects are committed.
#[derive(Clone, Copy)]
pub(crate) struct CommitCommand<'a> {
    /// Database in which the command ran.
    pub db: usize,
    /// Arguments of the command; `None` for changes that no command makes, such as those of the cron.
    pub args: Option<&'a Args<'a>>,
    /// Time at which the unit happens.
    pub now: Now,
    /// Protocol of the client that runs the command.
    pub proto: Protocol,
    /// The client that runs the command; `None` for changes that no client asked for.
    pub client: Option<SessionKey>,
}

/// The client whose command is committed.
#[derive(Clone, Copy)]
pub(crate) struct Author {
    /// Protocol of the client's replies.
    pub proto: Protocol,
    /// Key of the client's session.
    pub client: SessionKey,
}

/// The unit whose commands are committed.
#[derive(Clone, Copy)]
pub(crate) struct CommitUnit<'a> {
    /// Commands for the replication stream and the append-only file.
    pub commands: &'a UnitCommands,
    /// How the commands are framed in the stream.
    pub grouping: Grouping,
    /// Time at which the unit happens.
    pub now: Now,
}

/// Makes a list of step names and a function that takes the steps in that order.
macro_rules! steps {
    ($(#[$doc:meta])* $list:ident, $run:ident($($of:ident: $kind:ty),+): $($step:ident),+ $(,)?) => {
        $(#[$doc])*
        #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
        pub(crate) const $list: &[&str] = &[$(stringify!($step)),+];

        impl Core {
            pub(crate) fn $run(&mut self, $($of: $kind),+) {
                steps!(@take self ($($of),+) $($step)+);
            }
        }
    };
    (@take $self:ident $of:tt $($step:ident)+) => { $(steps!(@one $self $step $of);)+ };
    (@one $self:ident $step:ident ($($of:ident),+)) => { $self.$step($($of),+) };
}

steps! {
    /// The steps after each command that has left effects.
    COMMAND_STEPS, commit_changes(unit: &mut Unit, command: CommitCommand<'_>):
    delete_expired_keys,
    count_changes,
    announce_modified_keys,
    send_message,
    propagate,
    hand_over_garbage,
}

steps! {
    /// The steps after each unit that has commands for the replication stream or the append-only file.
    /// Clients that wait are served after these steps, each in a unit of its own (`Engine::serve_waiting`).
    UNIT_STEPS, commit_unit(unit: CommitUnit<'_>):
    close_stream_unit,
}

impl Core {
    /// Commits the command that just ran.
    #[inline]
    pub(crate) fn commit_command(&mut self, unit: &mut Unit, db: usize, args: Args<'_>, session: &Session) {
        let (hits, misses) = self.effects.take_lookups();
        self.stats.lookups.hits += hits;
        self.stats.lookups.misses += misses;
        let changes = self.effects.changes();
        let is_told =
            changes > 0 && self.effects.propagating && tells(&self.control, self.derived.has_stream, &args);
        if self.effects.take_recorded() || is_told {
            self.commit_effects(unit, db, args, session);
        } else if changes > 0 {
            // Nothing was recorded, because no client, replica or file needs the changes. This is the most
            // frequent case.
            self.effects.take_changes();
            self.control.count_changes(changes);
        }
    }

    // This is a separate function, so that most commands, which do not call it, neither move their
    // arguments nor read session fields that few commands need.
    #[inline(never)]
    fn commit_effects(&mut self, unit: &mut Unit, db: usize, args: Args<'_>, session: &Session) {
        let (now, proto, client) = (unit.now, session.caller.proto, session.key);
        // Messages to the client itself have the client's protocol, even if a script runs the command.
        let proto = unit.client_proto.unwrap_or(proto);
        self.commit_changes(unit, CommitCommand { db, args: Some(&args), now, proto, client: Some(client) });
    }

    /// Deletes expired keys that a read has found. A key that a command has found expired twice is deleted
    /// once, and a key that has another value or expiry time by now stays.
    #[inline]
    fn delete_expired_keys(&mut self, _: &mut Unit, command: CommitCommand<'_>) {
        let Core { keyspace, effects, .. } = self;
        if !effects.has_expired_by_read() {
            return;
        }
        let access = Access {
            now: command.now,
            touch: AccessUpdate::No { fresh: 0 },
            expiry: ExpiryMode::Delete,
            must_obey: false,
        };
        let before = effects.modified_len();
        for (db, name) in effects.take_expired_by_read() {
            let key = keyspace.key(&name);
            keyspace.write(db, access, effects).delete_if_expired(key);
        }
        if effects.records_misses() {
            effects.record_expiry_before_miss(before, |key| bytes_of(key, command).into());
        }
        // The remaining steps handle these deletions.
        effects.take_recorded();
    }

    #[inline]
    fn count_changes(&mut self, _: &mut Unit, _: CommitCommand<'_>) {
        self.stats.expiry.keys += self.effects.expired_by_write().len() as u64;
        self.stats.eviction.keys += self.effects.take_evicted_keys();
        self.stats.expiry.fields += self.effects.take_fields_deleted();
        self.units.changes = self.effects.take_changes();
        self.control.count_changes(self.units.changes);
    }

    /// Reports modified keys to the transactions that watch them, to tracking clients and subscribers,
    /// and to the clients that wait for them.
    #[inline]
    fn announce_modified_keys(&mut self, _: &mut Unit, command: CommitCommand<'_>) {
        if self.effects.is_listening() || self.effects.blocked_listening {
            self.announce(command);
        }
    }

    #[cold]
    fn announce(&mut self, command: CommitCommand<'_>) {
        let Core { keyspace, effects, control, events, sessions, units, .. } = self;
        let spare = &mut units.spare_outboxes;
        let databases = effects.take_databases();
        if control.clients.tracking.is_active() && databases.iter().any(|change| change.changes_keys()) {
            let (now, own) = (command.now, command.proto);
            Delivery { sessions, control, spare, now, own }.invalidate_all();
            // All recorded keys were handled.
            effects.listened_keys().clear();
        }
        for change in databases {
            announce_database(keyspace, effects, control, change, command.now);
        }
        let notify = control.limits.notify;
        for ModifiedKey { db, key, event, is_change } in effects.drain_modified() {
            let hash =
                if control.clients.tracking.is_active() { hash_of_key(keyspace, &key, command) } else { 0 };
            let key = bytes_of(&key, command);
            if is_change && control.clients.tracking.is_active() {
                let (now, own) = (command.now, command.proto);
                // An expiry or eviction has no writer, so the client whose command caused it is notified,
                // too, because that client may hold a copy.
                let is_written = !matches!(event, Event::Expired | Event::Evicted);
                let writer = command.client.filter(|_| is_written);
                Delivery { sessions, control, spare, now, own }.invalidate(hash, db, key, writer);
            }
            let is_wanted = notify.classes.has(event.class()) && event.is_published();
            if is_wanted && control.clients.pubsub.has_listeners() {
                let (now, own) = (command.now, command.proto);
                Delivery { sessions, control, spare, now, own }.notify(notify, db, key, event);
            }
            // A deletion by DEL is reported like an expiry, because a deletion changes nothing for a client
            // that began to watch the key after the key had expired: for that client the key was absent.
            let is_gone = || keyspace.db(db).find(keyspace.key(key)).is_none();
            let is_deleted = event == Event::Del && !control.clients.watching.is_empty() && is_gone();
            let change = match event == Event::Expired || is_deleted {
                true => WatchedChange::Expired,
                false => WatchedChange::Modified,
            };
            // A key of a flushed slot is not reported when it is freed, because it was reported to its
            // watchers at the flush, and may exist again.
            if is_change && event != Event::Freed {
                control.clients.watching.changed(db, key, change);
            }
            let is_told = Classes::CHANGES.has(event.class()) && event.is_published();
            if let Some(events) = events.as_mut().filter(|_| is_told) {
                events.push(format!("{db}:{} {}", event.name(), key.escape_ascii()));
            }
        }
        for (db, key) in effects.drain_ready() {
            control.clients.blocking.key_changed(db, bytes_of(&key, command));
        }
    }

    /// Adds commands for replicas and the append-only file to the unit: first the deletions of expired keys,
    /// evicted keys and expired fields, then the command. Exports of slots get the changes here, too.
    #[inline]
    fn propagate(&mut self, unit: &mut Unit, command: CommitCommand<'_>) {
        let Core { keyspace, effects, control, units, derived, .. } = self;
        if derived.taps_exports {
            let CommitCommand { db, args, now, .. } = command;
            tap(keyspace, effects, control, TappedCommand { db, args, now, changes: units.changes });
        }
        if derived.has_stream {
            let Control {
                replication: ReplicationState { stream, .. },
                persistence: PersistenceState { aof, .. },
                limits,
                ..
            } = control;
            let audience = unit.audience;
            let unit = unit.commands.get_or_insert_with(|| units.spare_commands.take().unwrap_or_default());
            for (db, key) in effects.expired_by_write() {
                propagate_deletion(unit, *db, key, limits.lazy_expire);
                if aof.is_strict() {
                    aof.note_key(hash_of(keyspace, key));
                }
            }
            for (db, key) in effects.evicted() {
                propagate_deletion(unit, *db, key, limits.eviction.is_lazy);
                if aof.is_strict() {
                    aof.note_key(hash_of(keyspace, key));
                }
            }
            let forced = matches!(effects.propagation(), Propagation::Forced | Propagation::ToReplicas);
            for expired in effects.expired_fields() {
                let fields = expired.fields.iter().map(Vec::as_slice);
                let argv: Vec<&[u8]> = [&b"HDEL"[..], &expired.key].into_iter().chain(fields).collect();
                unit.command(expired.db, Audience::All, argv.into_iter());
                if aof.is_strict() {
                    aof.note_key(hash_of(keyspace, &expired.key));
                }
            }
            if let Some(audience) = audience.filter(|_| units.changes > 0 || forced) {
                match (effects.propagation(), command.args) {
                    (Propagation::Verbatim | Propagation::Forced, Some(args)) => {
                        unit.command(command.db, audience, args.iter_from(0));
                    }
                    (Propagation::ToReplicas, Some(args)) if audience != Audience::File => {
                        unit.command(command.db, Audience::Replicas, args.iter_from(0));
                    }
                    (Propagation::Rewritten(commands), _) => {
                        commands.iter().for_each(|argv| unit.argv(command.db, audience, argv));
                    }
                    (Propagation::Encoded(commands), _) => unit.encoded(command.db, audience, commands),
                    (Propagation::Promised(commands), _)
                        if stream.promised_left().max(aof.promised_left()) < PROMISED_MAX =>
                    {
                        unit.promised(command.db, audience, commands);
                    }
                    (Propagation::Promised(commands), _) => {
                        unit.encoded(command.db, audience, &commands.encoded());
                    }
                    // The command is only for replicas and its script excludes them, or there is none.
                    (Propagation::ToReplicas, Some(_))
                    | (Propagation::Verbatim | Propagation::Forced | Propagation::ToReplicas, None) => {}
                }
                if let Some(args) = command.args.filter(|_| aof.is_strict()) {
                    aof.note_command(args);
                }
            }
        }
        effects.clear_expired_by_write();
        effects.clear_evicted();
        effects.clear_expired_fields();
        effects.reset_propagation();
    }

    /// Sends the message of a PUBLISH or SPUBLISH: to the other nodes of a cluster, and to subscribers here.
    #[inline]
    fn send_message(&mut self, _: &mut Unit, command: CommitCommand<'_>) {
        if let Some(args) = command.args
            && std::mem::take(&mut self.effects.published)
        {
            if let Some(mode) = self.control.cluster.as_deref_mut() {
                tell_other_nodes(mode, *args, command.now);
            }
            if !self.control.clients.pubsub.outgoing.targets.is_empty() {
                self.send_published(args, command.now, command.proto);
            }
        }
    }

    /// Passes large values and emptied databases to other threads, which free them, unless a snapshot still
    /// needs the database.
    #[inline]
    fn hand_over_garbage(&mut self, _: &mut Unit, _: CommitCommand<'_>) {
        if self.effects.has_garbage() {
            self.actions.extend(self.effects.drain_garbage().map(Action::FreeValue));
            let dbs: Vec<Db> = self.effects.drain_garbage_dbs().collect();
            for db in dbs {
                let free = self.keep_emptied_db_for_cut(db).map(|db| Action::FreeDb(Box::new(db)));
                self.actions.extend(free);
            }
        }
    }

    fn close_stream_unit(&mut self, unit: CommitUnit<'_>) {
        let Control {
            replication: ReplicationState { stream, .. },
            persistence: PersistenceState { aof, .. },
            limits,
            ..
        } = &mut self.control;
        stream.add_unit(unit.commands, unit.grouping);
        aof.add_unit(unit.commands, unit.grouping, limits.aof_timestamps.then_some(unit.now));
    }

    /// Commits changes that no command asked for, each on its own and in no transaction: for example the
    /// deletions of the expiry cycle, and databases that a load has exchanged.
    pub(crate) fn commit_unasked(&mut self, now: Now) {
        self.commit_unasked_before(now, Protocol::Resp2);
    }

    /// Commits the deletions of a migration in one database. Their effects name the commands for replicas.
    /// The deletions count as the work of the client whose MIGRATE ran before.
    pub(crate) fn commit_migrated(&mut self, db: usize, now: Now, caller: Author) {
        self.refresh_derived();
        let mut unit = self.begin_unit(now);
        self.effects.take_recorded();
        let (proto, client) = (caller.proto, Some(caller.client));
        self.commit_changes(&mut unit, CommitCommand { db, args: None, now, proto, client });
        self.close_own_unit(unit);
    }

    /// Commits changes in one database that no client asked for, and whose effects name the
    /// commands for replicas.
    pub(crate) fn commit_unasked_in(&mut self, db: usize, now: Now) {
        self.refresh_derived();
        let mut unit = self.begin_unit(now);
        self.effects.take_recorded();
        let proto = Protocol::Resp2;
        self.commit_changes(&mut unit, CommitCommand { db, args: None, now, proto, client: None });
        self.close_own_unit(unit);
    }

    /// Commits changes that no client asked for, before a command of a client whose session is taken out
    /// of the table.
    pub(crate) fn commit_unasked_before(&mut self, now: Now, proto: Protocol) {
        self.refresh_derived();
        let mut unit = self.begin_unit(now);
        self.effects.take_recorded();
        self.commit_changes(&mut unit, CommitCommand { db: 0, args: None, now, proto, client: None });
        self.close_own_unit(unit);
    }

    /// Reports all existing keys to their watchers, because a load has brought them, and forgets what was
    /// recorded of the earlier keys: their local expiry times, and counts of hot keys.
    pub(crate) fn announce_loaded(&mut self, now: Now) {
        let Core { keyspace, control, .. } = self;
        control.replication.local_expiries.clear();
        control.clients.hot_keys.forget(now.mono_ns);
        for number in 0..keyspace.databases() {
            control
                .clients
                .watching
                .database_exchanged(number, |key| (false, found(keyspace, number, key, now)));
        }
    }
}

/// Name of a modified key: one of the command's arguments, or a copy.
fn bytes_of<'a>(key: &'a KeyRef, command: CommitCommand<'a>) -> &'a [u8] {
    match key {
        KeyRef::Arg(index) => command.args.map_or(&b""[..], |args| args.at(usize::from(*index))),
        KeyRef::Owned(key) => key,
    }
}

/// Hash of a modified key.
fn hash_of_key(keyspace: &Keyspace, key: &KeyRef, command: CommitCommand<'_>) -> u64 {
    match (key, command.args) {
        (KeyRef::Arg(index), Some(args)) => args.key(usize::from(*index)).hash,
        (KeyRef::Arg(_), None) => hash_of(keyspace, b""),
        (KeyRef::Owned(key), _) => hash_of(keyspace, key),
    }
}

/// Reports that a database or one of its slots was emptied, or that two databases were swapped, to the
/// transactions that watch its keys, and to the clients that wait for one of them.
fn announce_database(
    keyspace: &Keyspace,
    effects: &Effects,
    control: &mut Control,
    change: DbChange,
    now: Now,
) {
    let holds = |db: &Db, key: &[u8]| db.find(keyspace.key(key)).is_some();
    match change {
        DbChange::Flushed(number) => {
            if let Some(removed) = effects.removed_from(number) {
                control.clients.watching.database_emptied(number, |key| holds(removed, key));
            }
            // Clients whose wait ends when a key is deleted are served.
            if control.clients.blocking.wants_removals() {
                control.clients.blocking.database_changed(number);
            }
        }
        DbChange::SlotFlushed(number, slot) => {
            // Keys of another slot that was flushed earlier may not be freed yet. Their watchers were
            // notified at that flush, so only keys of this slot count.
            let held = |key: &[u8]| key_slot(key) == slot && keyspace.was_detached(number, keyspace.key(key));
            control.clients.watching.database_emptied(number, held);
            if control.clients.blocking.wants_removals() {
                control.clients.blocking.database_changed(number);
            }
        }
        DbChange::Swapped(a, b) if a == b => {}
        DbChange::Swapped(a, b) => {
            for (number, other) in [(a, b), (b, a)] {
                // The two databases have exchanged their contents.
                control.clients.watching.database_exchanged(number, |key| {
                    (holds(keyspace.db(other), key), found(keyspace, number, key, now))
                });
                control.clients.blocking.database_changed(number);
            }
        }
    }
}

/// The state of a key in a database: absent, expired or live.
fn found(keyspace: &Keyspace, db: usize, key: &[u8], now: Now) -> KeyPresence {
    let db = keyspace.db(db);
    match db.find(keyspace.key(key)) {
        None => KeyPresence::Absent,
        Some(entry) if db.expiry(entry.handle).is_some_and(|at_ms| now.unix_ms() > at_ms) => {
            KeyPresence::Expired
        }
        Some(_) => KeyPresence::Live,
    }
}

fn propagate_deletion(unit: &mut UnitCommands, db: usize, key: &[u8], lazy: bool) {
    let name: &[u8] = if lazy { b"UNLINK" } else { b"DEL" };
    unit.command(db, Audience::All, [name, key].into_iter());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_steps_is_this() {
        assert_eq!(
            COMMAND_STEPS,
            [
                "delete_expired_keys",
                "count_changes",
                "announce_modified_keys",
                "send_message",
                "propagate",
                "hand_over_garbage"
            ]
        );
        assert_eq!(UNIT_STEPS, ["close_stream_unit"]);
    }
}
