//! The end of a MIGRATE, and its execution in transactions and scripts, which cannot wait.

use crate::core::Core;
use crate::exec::commit::Author;
use crate::waiting::ending::WaitEnds;
use sluice_base::Now;
use sluice_commands::{CmdError, WaitFor};
use sluice_commands::{Migration, MigrationOutcome};
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_keyspace::{Access, AccessUpdate, Event, ExpiryMode};
use sluice_resp::{Protocol, Reply};
use sluice_session::Session;
use sluice_session::migration::InFlight;

/// Steps at the end of a MIGRATE, without serving the clients that have waited.
pub(crate) struct MigrationEnds<'a> {
    core: &'a mut Core,
}

impl<'a> MigrationEnds<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> MigrationEnds<'a> {
        MigrationEnds { core }
    }
}

impl MigrationEnds<'_> {
    /// Moves keys to another server on the main thread, for MIGRATE inside a transaction or script, where no
    /// command can wait. The caller commits the command.
    #[cold]
    pub(crate) fn migrate_in_place(
        &mut self,
        session: &mut Session,
        migration: Migration,
        now: Now,
        process: &mut dyn Process,
    ) -> Result<(), CmdError> {
        let (keys, deletes) = (migration.held(), !migration.copies);
        let outcome = process.migrate(migration);
        if deletes {
            self.delete_migrated(session.caller.db, &keys, &outcome.taken, now);
        }
        match outcome.error {
            Some(error) => Err(CmdError::owned(error)),
            None => {
                Reply::new(&mut session.outbox, session.caller.proto).ok();
                Ok(())
            }
        }
    }

    /// Ends a migration, or defers its end while its keys must not be deleted. Does not serve the clients
    /// that waited for the keys.
    pub(crate) fn settle_migration(&mut self, id: u64, outcome: MigrationOutcome, process: &mut dyn Process) {
        let now = process.now();
        let is_paused = self.is_paused(now);
        let is_held = is_paused || !self.core.control.between_units(BetweenUnits::Migration);
        if is_held && self.core.control.clients.migrations.is_deleting(id) {
            self.core.control.clients.migrations.paused.push((id, outcome));
            return;
        }
        let Some(InFlight { client, db, keys, deletes }) = self.core.control.clients.migrations.end(id)
        else {
            return;
        };
        if deletes {
            self.core.refresh_derived();
            self.delete_migrated(db, &keys, &outcome.taken, now);
            // The session is taken out of the table, so that invalidations for its own keys are sent after
            // the reply.
            let own = self.core.sessions.take(client);
            let proto = own.as_ref().map_or(Protocol::Resp2, |session| session.caller.proto);
            self.core.commit_migrated(db, now, Author { proto, client });
            own.into_iter().for_each(|session| self.core.sessions.put_back(session));
        }
        let (written_at, durable_at) =
            (self.core.control.replication.stream.offset, self.core.control.persistence.aof.position());
        let waits = self.core.sessions.get_mut(client).filter(|session| {
            session.waiting.as_ref().is_some_and(|waiting| waiting.on == WaitFor::Migration(id))
        });
        if let Some(session) = waits {
            session.caller.write_offset = written_at;
            session.wait_until_durable(durable_at);
            if let Some(error) = &outcome.error {
                self.core.stats.count_error(error);
            }
            WaitEnds::of(self.core).end_wait(client, process, |reply| match &outcome.error {
                Some(error) => reply.error(error),
                None => reply.ok(),
            });
        }
        if self.core.control.clients.pubsub.outgoing.is_unfinished()
            && let Some(mut session) = self.core.sessions.take(client)
        {
            self.core.finish_delivery(&mut session, process);
            session.note_output(&mut self.core.control.clients.ready);
            self.core.sessions.put_back(session);
        }
        // Requests that waited for these keys can run now.
        self.core.control.clients.blocking.release_postponed();
    }

    /// Ends the migrations whose keys could not be deleted because of a pause or an open execution unit, if
    /// neither is in the way any more.
    pub(crate) fn end_paused_migrations(&mut self, process: &mut dyn Process) {
        if self.core.control.clients.migrations.paused.is_empty()
            || !self.core.control.between_units(BetweenUnits::Migration)
            || self.is_paused(process.now())
        {
            return;
        }
        for (id, outcome) in std::mem::take(&mut self.core.control.clients.migrations.paused) {
            self.settle_migration(id, outcome, process);
        }
    }

    /// Whether keys must not be deleted now, because CLIENT PAUSE is in force, the cluster holds writes for
    /// a failover, or writers of slots that are being moved are held.
    fn is_paused(&self, now: Now) -> bool {
        let control = &self.core.control;
        let holds_slots = control.cluster.as_ref().is_some_and(|mode| mode.exports().hold_any());
        holds_slots || control.clients.pause.active(now) || control.is_paused_by_cluster()
    }

    /// Deletes the keys that the other server has, and records the deletion for replicas.
    fn delete_migrated(&mut self, db: usize, keys: &[(u64, Box<[u8]>)], taken: &[usize], now: Now) {
        let access = Access {
            now,
            touch: AccessUpdate::No { fresh: 0 },
            expiry: ExpiryMode::Ignore,
            must_obey: false,
        };
        let mut argv = vec![b"DEL".to_vec()];
        for (hash, name) in taken.iter().filter_map(|number| keys.get(*number)) {
            let key = self.core.keyspace.key(name);
            self.core.control.persistence.aof.note_key(*hash);
            if self.core.keyspace.write(db, access, &mut self.core.effects).remove(key, Event::Del) {
                argv.push(name.to_vec());
            }
        }
        if argv.len() > 1 {
            self.core.effects.rewrite_as(|| vec![argv]);
        }
    }
}
