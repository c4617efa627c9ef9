//! Consequences of changes of users for clients, and the log of refusals.

use crate::core::Core;
use crate::exec::gate;
use crate::exec::gate::Gate;
use crate::waiting::ending::WaitEnds;
use sluice_acl::{Denial, Refusal, RefusalContext, RevokedChannels, User, Users};
use sluice_base::{LogLevel, Now, SessionKey};
use sluice_command::Spec;
use sluice_commands::Args;
use sluice_control::families::users::put_in_force;
use sluice_control::process::Process;
use sluice_control::users::load::JudgedUsers;
use sluice_control::users::refusals::{LoggedRefusal, line_of};
use sluice_control::users::rights;
use sluice_control::{ClientRelations, Control};
use sluice_session::identity::{Identity, is_open};
use sluice_session::line::LineSources;
use sluice_session::{Closing, Session};
use sluice_subscriptions::registry::{PubSub, Subscribed};
use std::sync::Arc;

/// Steps after a change of users, and the log of refusals.
pub(crate) struct UserUpdates<'a> {
    core: &'a mut Core,
}

impl<'a> UserUpdates<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> UserUpdates<'a> {
        UserUpdates { core }
    }
}

impl UserUpdates<'_> {
    /// As [`Engine::install_users`](crate::engine::Engine::install_users).
    pub(crate) fn install_users(&mut self, users: Users) {
        self.core.control.clients.users.replace(users);
        self.apply_users(None);
    }

    pub(crate) fn put_load_in_force(
        &mut self,
        client: SessionKey,
        judged: JudgedUsers,
        process: &mut dyn Process,
    ) {
        let result =
            put_in_force(&mut self.core.control.clients.users, judged, &mut self.core.actions, process);
        // If the client's own user is gone, the client is closed after its reply.
        let mut own = self.core.sessions.take(client);
        self.apply_users(own.as_deref_mut());
        own.into_iter().for_each(|own| self.core.sessions.put_back(own));
        if let Err(error) = &result {
            self.core.stats.count_error(&error.wire());
        }
        WaitEnds::of(self.core).end_wait(client, process, |reply| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(&error.wire()),
        });
    }

    /// As [`Engine::log_in_by_certificate`](crate::engine::Engine::log_in_by_certificate).
    pub(crate) fn log_in_by_certificate(
        &mut self,
        key: SessionKey,
        names: &[Vec<u8>],
        process: &mut dyn Process,
    ) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let ClientRelations { users: state, watching, tracking, .. } = &mut self.core.control.clients;
        let named = names.iter().find_map(|name| state.users().get(name).filter(|user| user.is_enabled()));
        if let Some(user) = named {
            let user = Arc::clone(user);
            let name = String::from_utf8_lossy(user.name()).into_owned();
            process.log(LogLevel::Verbose, &format!("TLS: Auto-authenticated client as {name}"));
            session.caller.act_as(Identity::authenticated(user));
            session.mask = self.core.gate.session_mask(session);
        } else {
            let name = names.first().map_or(&b""[..], Vec::as_slice);
            let refused =
                LoggedRefusal { refusal: Refusal::TlsCert, context: RefusalContext::Toplevel, object: b"" };
            let line = line_of(session, LineSources { watching, tracking }, process.now());
            let counts = &mut self.core.stats.failures.refused;
            state.note(refused, name, &line, counts, &self.core.control.config, process.now());
        }
    }

    /// Applies a change of users to every session: new rights, or the end of the session if the user is gone
    /// or a subscription is no longer allowed. `own` is the session whose command is being executed; if it
    /// has to end, it ends after its reply. To be called after every possible change of users, so that
    /// between two commands no session has a stale user. Cost: a look at each session if users have changed,
    /// otherwise one branch.
    pub(crate) fn apply_users(&mut self, own: Option<&mut Session>) {
        if self.core.control.clients.users.has_changed() {
            self.notify_sessions(own);
        }
    }

    #[cold]
    fn notify_sessions(&mut self, own: Option<&mut Session>) {
        let ClientRelations { users: state, pubsub, to_close, .. } = &mut self.core.control.clients;
        let revoked = state.take_revoked();
        for session in self.core.sessions.iter_mut() {
            if !session.caller.user().is_stale() {
                continue;
            }
            if tell(session, state.users(), &revoked, pubsub, &self.core.gate) == UserChange::Ends {
                if session.caller.closing != Closing::Now {
                    session.caller.closing = Closing::Now;
                    to_close.push(session.key);
                }
                end_subscriptions(session, pubsub);
            }
        }
        if let Some(own) = own
            && own.caller.user().is_stale()
            && tell(own, state.users(), &revoked, pubsub, &self.core.gate) == UserChange::Ends
        {
            own.caller.closing = Closing::AfterReply;
        }
        if is_open(state.users().default_user()) != self.core.control.limits.default_user_is_open {
            self.core.control.apply_limits();
        }
    }

    /// Counts and logs a refused request.
    #[cold]
    pub(crate) fn note_denial(
        &mut self,
        session: &Session,
        denial: Denial,
        context: RefusalContext,
        spec: &'static Spec,
        args: Args<'_>,
        now: Now,
    ) {
        let slices: Vec<&[u8]> = args.iter_from(0).collect();
        // If a script calls a command and no argument names the refused database, the reference logs the
        // command's name as the script wrote it.
        let is_nested = matches!(context, RefusalContext::Lua | RefusalContext::Script);
        let object = match denial.reason {
            sluice_acl::Reason::Database if is_nested => args.at(denial.position),
            _ => denial.object(spec, &slices),
        };
        let ClientRelations { users, watching, tracking, .. } = &mut self.core.control.clients;
        let sources = LineSources { watching, tracking };
        let refused = LoggedRefusal { refusal: Refusal::Request(denial.reason), context, object };
        let (counts, config) = (&mut self.core.stats.failures.refused, &self.core.control.config);
        users.note(refused, session.caller.user_name(), &line_of(session, sources, now), counts, config, now);
    }
}

/// Why the session's user may not run the command in database `db`; `None` if the user may run it. Cost:
/// one AND if the user may run everything.
#[inline(always)]
pub(crate) fn denied(
    control: &Control,
    session: &Session,
    spec: &'static Spec,
    args: Args<'_>,
    db: usize,
) -> Option<Denial> {
    if session.mask & gate::RIGHTS == 0 { None } else { denied_by_rules(control, session, spec, args, db) }
}

#[cold]
fn denied_by_rules(
    control: &Control,
    session: &Session,
    spec: &'static Spec,
    args: Args<'_>,
    db: usize,
) -> Option<Denial> {
    rights::check(&session.caller, spec, args, db, control.limits.databases).err()
}

/// Whether a session goes on after a change of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserChange {
    Stays,
    Ends,
}

fn tell(
    session: &mut Session,
    users: &Users,
    revoked: &[(Arc<User>, RevokedChannels)],
    pubsub: &PubSub,
    gate: &Gate,
) -> UserChange {
    let Some(user) = users.renew(session.caller.user()) else {
        let nobody = Identity::of_nobody(session.caller.user());
        session.caller.act_as(nobody);
        session.mask = gate.session_mask(session);
        return UserChange::Ends;
    };
    session.caller.renew_user(user);
    let left = revoked.iter().find(|(renewed, _)| Arc::ptr_eq(renewed, user)).map(|(_, left)| left);
    session.mask = gate.session_mask(session);
    let is_lost = left.is_some_and(|left| {
        session.caller.subscribed.is_any()
            && pubsub.names(session.key).any(|(name, is_pattern)| !left.allows(name, is_pattern))
    });
    if is_lost { UserChange::Ends } else { UserChange::Stays }
}

/// Ends the subscriptions, so that the next published message does not count this receiver.
fn end_subscriptions(session: &mut Session, pubsub: &mut PubSub) {
    if session.caller.subscribed.is_any() {
        pubsub.forget(session.key);
        session.caller.subscribed = Subscribed::default();
    }
}
