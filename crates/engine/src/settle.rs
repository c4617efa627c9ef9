//! Settle: effects become consequences, in this order.
//!
//! After each command: look-ups are counted; expired keys that a read met are deleted; expiries and changes are counted; what
//! happened to keys is told to those who listen; the unit is propagated; what is to be freed elsewhere is handed over. The
//! order is that of the statements of `settle_changes`: an array of steps would cost every write an indirect call per step.

use crate::action::Action;
use crate::args::Args;
use crate::engine::Engine;
use crate::stream::Stream;
use sluice_base::Now;
use sluice_command::{Flags, Spec};
use sluice_keyspace::{Access, Effects, ExpiryMode, KeyRef, Keyspace, ModifiedKey, Propagation, Touch};

impl Engine {
    /// Drains the effects of the command that just ran in database `db`.
    #[inline]
    pub(crate) fn settle(&mut self, db: usize, spec: &'static Spec, args: Args<'_>, now: Now) {
        let effects = &mut self.effects;
        let (hits, misses) = effects.take_lookups();
        self.stats.hits += hits;
        self.stats.misses += misses;
        if effects.take_recorded() {
            self.settle_changes(db, spec, args, now);
        }
    }

    fn settle_changes(&mut self, db: usize, spec: &'static Spec, args: Args<'_>, now: Now) {
        let Engine { keyspace, effects, control, stats, actions, events, .. } = self;
        if effects.has_expired_by_read() {
            delete_expired(keyspace, effects, now);
            effects.take_recorded();
        }
        stats.expired_keys += effects.expired_by_write().len() as u64;
        let changes = effects.take_changes();
        control.count_changes(changes);
        if effects.has_modified() {
            tell(events, effects, Some(args));
        }
        if effects.propagating {
            let forced = *effects.propagation() == Propagation::Forced;
            let own = if changes > 0 || forced { Some((db, args)) } else { None };
            let grouping = if spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS) {
                Grouping::Loose
            } else {
                Grouping::Transaction
            };
            propagate(&mut control.stream, effects, control.limits.lazy_expire, grouping, own);
        }
        effects.clear_expired_by_write();
        effects.reset_propagation();
        if effects.has_garbage() {
            actions.extend(effects.drain_garbage().map(Action::FreeValue));
            actions.extend(effects.drain_garbage_dbs().map(|db| Action::FreeDb(Box::new(db))));
        }
        self.deliver_stream();
    }

    /// Settles what the expiry cycle deleted: each key by itself, in no transaction.
    pub(crate) fn settle_cycle(&mut self) {
        let Engine { effects, control, stats, actions, events, .. } = self;
        effects.take_recorded();
        stats.expired_keys += effects.expired_by_write().len() as u64;
        control.count_changes(effects.take_changes());
        tell(events, effects, None);
        if effects.propagating {
            let lazy = control.limits.lazy_expire;
            for (db, key) in effects.expired_by_write() {
                propagate_deletion(&mut control.stream, *db, key, lazy);
            }
        }
        effects.clear_expired_by_write();
        actions.extend(effects.drain_garbage().map(Action::FreeValue));
        self.deliver_stream();
    }

    /// Hands the unit's bytes to the replicas.
    pub(crate) fn deliver_stream(&mut self) {
        if !self.control.stream.has_pending() {
            return;
        }
        let bytes = self.control.stream.take();
        let replicas = std::mem::take(&mut self.control.stream.replicas);
        for key in &replicas {
            if let Some(session) = self.sessions.get_mut(*key) {
                if session.caller.replica.is_some_and(|replica| replica.awaits_ack) {
                    session.held.extend_from_slice(&bytes);
                    continue;
                }
                session.outbox.push(&std::mem::take(&mut session.held));
                session.outbox.push(&bytes);
                self.stats.repl_output_bytes += bytes.len() as u64;
                if !session.queued {
                    session.queued = true;
                    self.control.ready.push(*key);
                }
            }
        }
        self.control.stream.replicas = replicas;
    }

    /// Sends what was held for replicas that have spoken since.
    pub(crate) fn release_held(&mut self) {
        for key in &self.control.stream.replicas {
            let Some(session) = self.sessions.get_mut(*key) else { continue };
            let awaits_ack = session.caller.replica.is_some_and(|replica| replica.awaits_ack);
            if !awaits_ack && !session.held.is_empty() {
                session.outbox.push(&std::mem::take(&mut session.held));
                if !session.queued {
                    session.queued = true;
                    self.control.ready.push(*key);
                }
            }
        }
    }
}

/// Tells those who listen what happened to which keys, in order. So far these are tests alone ([`Engine::record_events`]).
#[cold]
fn tell(events: &mut Vec<String>, effects: &mut Effects, args: Option<Args<'_>>) {
    for ModifiedKey { db, key, event } in effects.drain_modified() {
        let key = match &key {
            KeyRef::Arg(index) => args.map_or(&b""[..], |args| args.at(usize::from(*index))),
            KeyRef::Owned(key) => &key[..],
        };
        events.push(format!("{db}:{} {}", event.name(), key.escape_ascii()));
    }
    // Nobody waits for these yet.
    effects.drain_ready();
    effects.drain_databases();
}

/// Deletes the keys that a read met. One met twice by a command is deleted once, and one that has another value or life by
/// now stays.
fn delete_expired(keyspace: &mut Keyspace, effects: &mut Effects, now: Now) {
    let access = Access { now, touch: Touch::No { fresh: 0 }, expiry: ExpiryMode::Delete };
    for (db, name) in effects.take_expired_by_read() {
        let key = keyspace.key(&name);
        keyspace.write(db, access, effects).delete_if_expired(key);
    }
}

/// How a unit of several commands goes into the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grouping {
    /// In MULTI and EXEC.
    Transaction,
    /// One by one: what met these keys did so by chance.
    Loose,
}

/// Writes the unit into the stream: expired keys first, then the command.
fn propagate(
    stream: &mut Stream,
    effects: &mut Effects,
    lazy_expire: bool,
    grouping: Grouping,
    own: Option<(usize, Args<'_>)>,
) {
    let rewritten = match effects.propagation() {
        Propagation::Verbatim | Propagation::Forced => 1,
        Propagation::Rewritten(commands) => commands.len(),
    };
    let count = effects.expired_by_write().len() + if own.is_some() { rewritten } else { 0 };
    let wrap = count > 1 && grouping == Grouping::Transaction;
    if wrap {
        stream.multi();
    }
    for (db, key) in effects.expired_by_write() {
        propagate_deletion(stream, *db, key, lazy_expire);
    }
    if let Some((db, args)) = own {
        match effects.propagation() {
            Propagation::Verbatim | Propagation::Forced => stream.command(db, args.iter_from(0)),
            Propagation::Rewritten(commands) => commands.iter().for_each(|argv| stream.argv(db, argv)),
        }
    }
    if wrap {
        stream.exec();
    }
}

fn propagate_deletion(stream: &mut Stream, db: usize, key: &[u8], lazy: bool) {
    let name: &[u8] = if lazy { b"UNLINK" } else { b"DEL" };
    stream.command(db, [name, key].into_iter());
}
