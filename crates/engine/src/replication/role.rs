//! Changes of this server's role, and the session of the link to a primary.

use crate::core::Core;
use crate::persistence::background::Jobs;
use crate::persistence::loading::under_way::Loads;
use crate::persistence::rewriting::Rewrites;
use crate::replication::full_sync::FullCopies;
use crate::replication::maintenance::Notices;
use crate::replication::replicas::ReplicaFeeds;
use crate::waiting::ending::WaitEnds;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_base::hex;
use sluice_base::mistake::{self, Mistake};
use sluice_command::{Flags, Named};
use sluice_commands::{CmdError, ReplyMode, WaitFor};
use sluice_config::param;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::loading::{LoadPlan, LoadPurpose, LoadSource, OldData};
use sluice_control::process::Process;
use sluice_control::replication::role::{DurablePoint, ReplicaRole, RoleWanted, SyncSource};
use sluice_replication::{HistoryPoint, Primary, ReplicaLink};
use sluice_session::identity::Identity;
use sluice_session::{ClientAddress, ClientKind, Closing, Session};
use sluice_snapshot::Duplicates;

/// Steps of changes of this server's role.
pub(crate) struct RoleChanges<'a> {
    core: &'a mut Core,
}

impl<'a> RoleChanges<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> RoleChanges<'a> {
        RoleChanges { core }
    }
}

impl RoleChanges<'_> {
    /// Carries out a requested change of the role, unless it has to wait: for a transaction or script in
    /// progress, or for the end of a load, even of one that is about to begin.
    #[inline]
    pub(crate) fn apply_role(&mut self, process: &mut dyn Process) {
        if self.core.control.replication.role_wanted.is_some()
            && self.core.control.between_units(BetweenUnits::Role)
        {
            self.change_role(process);
        }
    }

    #[cold]
    pub(crate) fn change_role(&mut self, process: &mut dyn Process) {
        if self.core.is_loading() || self.core.control.awaits_sync_file() {
            return;
        }
        let Some(RoleWanted { primary, by, keeps_data }) = self.core.control.replication.role_wanted.take()
        else {
            return;
        };
        let was_primary = self.core.control.replication.replica.is_none();
        match primary {
            Some(primary) => self.follow(primary, &by, keeps_data, process),
            None => self.promote(&by, process),
        }
        // During a failover, clients continue to wait until the new primary has taken over, because the
        // failover may fail.
        if was_primary && self.core.control.replication.failover.is_none() {
            Notices::of(self.core, None, process).tell_moving(None);
            self.unblock_for_role(process);
        }
    }

    fn follow(&mut self, primary: Primary, by: &str, keeps_data: bool, process: &mut dyn Process) {
        let port = primary.port.to_string();
        let words = [primary.host.as_bytes(), port.as_bytes()];
        // `replicaof` is not set in a cluster, because a node's primary is in `nodes.conf`. The handler has
        // checked that the words are valid in the configuration file.
        if self.core.control.cluster.is_none() {
            let _ = self.core.control.config.assign(param::REPLICAOF, &words);
        }
        let (host, port) = (primary.host.clone(), primary.port);
        let old = self.core.control.replication.replica.take();
        if let Some(old) = &old {
            self.core.control.replication.give_link_up(&old.link);
        }
        let mut role = ReplicaRole::new(self.new_link(primary));
        match old {
            Some(old) => {
                (role.can_resume, role.db) = (old.can_resume, old.db);
                role.earlier_contact_s = old.contact_at_end_s(old.is_up(), process.recent().unix_s());
                self.end_link_session(old.session);
            }
            None => {
                // Without replicas or a backlog the stream was not counted, and the offset does not
                // describe the data.
                role.can_resume = self.core.control.replication.stream.point().is_some();
                if role.can_resume {
                    process.log(LogLevel::Notice, SELF_CACHED);
                }
            }
        }
        role.can_resume &= keeps_data;
        if !role.can_resume {
            role.earlier_contact_s = 0;
        }
        ReplicaFeeds::of(self.core).close_replicas();
        self.core.control.clients.migrations.keep_all();
        self.core.control.replication.stream.set_has_primary(true);
        *self.core.control.replication.replica = Some(Box::new(role));
        process.set_role(true);
        if !by.is_empty() {
            process.log(LogLevel::Notice, &format!("REPLICAOF {host}:{port} enabled ({by})"));
        }
    }

    fn promote(&mut self, by: &str, process: &mut dyn Process) {
        let Some(role) = self.core.control.replication.replica.take() else { return };
        process.set_role(false);
        self.core.control.replication.give_link_up(&role.link);
        // This cannot fail, because the words are valid for the directive.
        let _ = self.core.control.config.assign(param::REPLICAOF, &[b"no", b"one"]);
        self.end_link_session(role.session);
        process.log(LogLevel::Notice, "Discarding previously cached primary state.");
        let mut replid = hex(&process.entropy());
        let stream = &mut self.core.control.replication.stream;
        if mistake::is_made(Mistake::KeptReplid) {
            replid.clone_from(&stream.replid);
        }
        stream.set_has_primary(false);
        stream.shift_history(replid);
        if let Some((old, offset)) = &stream.earlier {
            let text = format!(
                "Setting secondary replication ID to {old}, valid up to offset: {offset}. New replication ID is {}",
                stream.replid
            );
            process.log(LogLevel::Notice, &text);
        }
        ReplicaFeeds::of(self.core).close_replicas();
        if !by.is_empty() {
            process.log(LogLevel::Notice, &format!("PRIMARY MODE enabled ({by})"));
        }
    }

    /// Ends waits that cannot end on a replica.
    pub(crate) fn unblock_for_role(&mut self, process: &mut dyn Process) {
        // In a cluster the map of slots decides which clients may continue to wait for keys.
        let is_cluster = self.core.control.cluster.is_some();
        let is_blocked = |session: &Session| match session.waiting.as_ref().map(|waiting| waiting.on) {
            Some(WaitFor::Keys(_)) => !is_cluster,
            on => matches!(
                on,
                Some(WaitFor::Replicas { .. } | WaitFor::ReplicasFirst { .. } | WaitFor::Migration(_))
            ),
        };
        let blocked: Vec<SessionKey> = self
            .core
            .sessions
            .iter()
            .filter(|session| is_blocked(session))
            .map(|session| session.key)
            .collect();
        for client in blocked {
            let Some((caller, spec)) = self.core.sessions.get(client).and_then(|session| {
                let named = session.waiting.as_ref().map(|waiting| waiting.prepared.named);
                let Some(Named::Command(spec)) = named else { return None };
                Some((&session.caller, spec))
            }) else {
                continue;
            };
            // Clients whose command a replica may answer continue to wait.
            if caller.flags.read_only && spec.flags.has(Flags::READONLY) {
                continue;
            }
            let redirection = self.core.control.redirection(caller, spec.flags);
            let is_redirected = redirection.is_some();
            let error = redirection.unwrap_or(ROLE_CHANGED);
            self.core.stats.count_error(&error.wire());
            self.core.stats.commands[spec.id.0 as usize].rejected += 1;
            WaitEnds::of(self.core).end_wait(client, process, |reply| reply.error(&error.wire()));
            if let Some(session) = self.core.sessions.get_mut(client).filter(|_| !is_redirected) {
                session.caller.closing = Closing::AfterReply;
            }
        }
    }

    fn end_link_session(&mut self, session: Option<SessionKey>) {
        let Some(session) = session.and_then(|key| self.core.sessions.get_mut(key)) else { return };
        if session.caller.closing != Closing::Now {
            session.caller.closing = Closing::Now;
            self.core.control.clients.to_close.push(session.key);
        }
    }

    /// As [`Engine::begin_sync_load`](crate::engine::Engine::begin_sync_load), without serving the
    /// clients whose wait ends.
    pub(crate) fn replace_data(&mut self, from: SyncSource, process: &mut dyn Process) {
        Jobs::of(self.core).break_off_save(process);
        FullCopies::of(self.core).break_off_full_sync(process);
        Rewrites::of(self.core).break_off_rewrite(process);
        if self.core.control.persistence.aof.is_on() {
            Rewrites::of(self.core).leave_aof(process);
        }
        ReplicaFeeds::of(self.core).close_replicas();
        let is_of_file = matches!(from, SyncSource::File);
        let (source, old, serves_old) = match from {
            SyncSource::File => {
                let name = self.core.control.config.bytes(param::DBFILENAME).to_vec();
                (process.snapshot_source(&name), OldData::Freed, false)
            }
            SyncSource::Stream(source) => (source, OldData::Freed, false),
            SyncSource::Exchanged(source, replid) => {
                // Data of another history are not served during the load.
                let is_same =
                    self.core.control.replication.resume_point().is_some_and(|point| point.replid == replid);
                (source, OldData::Kept, is_same)
            }
        };
        if old == OldData::Freed {
            if let Some(role) = self.core.control.replication.replica.as_mut() {
                role.can_resume = false;
            }
            process.log(LogLevel::Notice, "Discarding previously cached primary state.");
        }
        let plan =
            LoadPlan { serves_old, is_of_file, ..LoadPlan::new(LoadPurpose::Sync, old, Duplicates::Refused) };
        Loads::of(self.core).begin_load_of(LoadSource::Snapshot(source), plan, process.now());
    }

    /// As [`Engine::adopt_history`](crate::engine::Engine::adopt_history).
    pub(crate) fn adopt_history(&mut self, point: HistoryPoint, process: &mut dyn Process) {
        let HistoryPoint { replid, offset } = point;
        let replid = if replid.is_empty() { hex(&process.entropy()) } else { replid };
        self.core.control.replication.stream.adopt_history(replid, offset);
        let db = self.core.control.replication.loaded_stream_db.take().unwrap_or(0);
        if let Some(role) = self.core.control.replication.replica.as_mut() {
            role.can_resume = true;
            role.db = db;
            role.durable = DurablePoint::default();
        }
        if !Rewrites::of(self.core).begin_aof_with_snapshot(process) {
            Rewrites::of(self.core).begin_aof_again();
        }
        self.core.control.persistence.dirty = 0;
    }

    /// As [`Engine::connect_primary`](crate::engine::Engine::connect_primary).
    pub(crate) fn connect_primary(
        &mut self,
        connection: ClientAddress,
        process: &mut dyn Process,
    ) -> SessionKey {
        let now_s = process.now().unix_s();
        let (gate, databases) = (&self.core.gate, self.core.control.limits.databases);
        let mut db = self.core.control.replication.replica.as_ref().map_or(0, |role| role.db);
        if mistake::is_made(Mistake::LinkOfDbZero) {
            db = 0;
        }
        let identity =
            Identity::authenticated(self.core.control.clients.users.users().default_user().clone());
        let key = self.core.sessions.add(|key, id| {
            let mut session = Session::new(key, id, connection, now_s, identity);
            session.caller.kind = ClientKind::Primary;
            session.caller.reply = ReplyMode::Off;
            session.caller.db = db.min(databases - 1);
            gate.masked(session)
        });
        if let Some(role) = self.core.control.replication.replica.quietly().as_mut() {
            role.session = Some(key);
            role.uncounted.clear();
            role.is_cut = false;
        }
        self.core.control.replication.stream.relay_selects(db);
        // The link is cut if the database that the stream had selected at the resume point does not exist
        // here.
        if db >= databases
            && let Some(mut session) = self.core.sessions.take(key)
        {
            self.core.control.cut_link(&mut session, "select", process);
            self.core.sessions.put_back(session);
        }
        key
    }

    /// As [`Engine::acknowledge`](crate::engine::Engine::acknowledge).
    pub(crate) fn acknowledge(&mut self) {
        let Some(key) = self.core.control.replication.replica.as_ref().and_then(|role| role.session) else {
            return;
        };
        let Some(mut session) = self.core.sessions.take(key) else { return };
        if session.caller.closing == Closing::No {
            self.core.control.push_ack(&mut session);
            session.note_output(&mut self.core.control.clients.ready);
        }
        self.core.sessions.put_back(session);
    }

    /// A new link to this primary; the next tick connects it.
    fn new_link(&mut self, primary: Primary) -> ReplicaLink {
        let link =
            ReplicaLink::new(primary, self.core.rng.next_u64(), self.core.control.replication.link_attempts);
        let failover = self.core.control.replication.failover.as_ref();
        match failover.is_some_and(|failover| failover.is_in_progress) {
            true => link.handing_over(),
            false => link,
        }
    }
}

const SELF_CACHED: &str = "Before turning into a replica, using my own primary parameters to synthesize a cached primary: I \
                           may be able to synchronize with the new primary with just a partial transfer.";

/// Error for a client that waited when this server became a replica.
const ROLE_CHANGED: CmdError = CmdError::text(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);
