//! What follows for clients when users change, and for the log when something is refused.

use crate::control::ClientRelations;
use crate::engine::Engine;
use crate::exec::gate::{self, Gate};
use crate::families::users::put_in_force;
use crate::host::process::Process;
use crate::pubsub::registry::PubSub;
use crate::session::identity::{Identity, is_open};
use crate::session::line::LineSources;
use crate::session::{Closing, Session, Subscribed};
use crate::users::refusals::{LoggedRefusal, line_of};
use crate::users::rights;
use sluice_acl::{Context, Denial, Refusal, RevokedChannels, User, Users};
use sluice_base::{Now, SessionKey};
use sluice_command::Spec;
use sluice_commands::Args;
use std::sync::Arc;

impl Engine {
    /// Takes over the users of the configuration: at the start, ahead of the first client.
    pub fn install_users(&mut self, users: Users) {
        self.control.clients.users.replace(users);
        self.settle_users(None);
    }

    /// Puts the users of a file in force that another thread has judged, or tells the client what is wrong
    /// with them. To be called between units. Cost: the users, and a look at each session.
    pub fn end_user_load(
        &mut self,
        client: SessionKey,
        judged: Result<Users, Vec<u8>>,
        process: &mut dyn Process,
    ) {
        let result = put_in_force(&mut self.control.clients.users, judged, &mut self.actions, process);
        // Where the client's own user is gone, the client ends behind its reply.
        let mut own = self.sessions.take(client);
        self.settle_users(own.as_deref_mut());
        own.into_iter().for_each(|own| self.sessions.put_back(own));
        if let Err(error) = &result {
            self.stats.count_error(&error.wire());
        }
        self.end_wait(client, process, |reply| match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(&error.wire()),
        });
    }

    /// Whether the default user asks for no password, enabled or not: what `protected-mode` looks at.
    pub fn default_user_has_no_password(&self) -> bool {
        self.control.clients.users.users().default_user().is_nopass()
    }

    /// Has every session learn what has become of its user: new rights, or the end where the user is gone or
    /// a subscription is not allowed any more. `own`: the session that executes, which ends behind its reply.
    /// To be called behind whatever may have changed users, so that between two commands no session has a
    /// stale user. Cost: a look at each session, where users have changed; else one branch.
    pub(crate) fn settle_users(&mut self, own: Option<&mut Session>) {
        if self.control.clients.users.has_changed {
            self.tell_sessions(own);
        }
    }

    #[cold]
    fn tell_sessions(&mut self, own: Option<&mut Session>) {
        let ClientRelations { users: state, pubsub, to_close, .. } = &mut self.control.clients;
        let revoked = std::mem::take(&mut state.revoked);
        state.has_changed = false;
        for session in self.sessions.iter_mut() {
            if !session.caller.user().is_stale() {
                continue;
            }
            if tell(session, &state.users, &revoked, pubsub, &self.gate) == Told::Ends {
                if session.caller.closing != Closing::Now {
                    session.caller.closing = Closing::Now;
                    to_close.push(session.key);
                }
                end_subscriptions(session, pubsub);
            }
        }
        if let Some(own) = own
            && own.caller.user().is_stale()
            && tell(own, &state.users, &revoked, pubsub, &self.gate) == Told::Ends
        {
            own.caller.closing = Closing::AfterReply;
        }
        if is_open(state.users.default_user()) != self.control.limits.default_user_is_open {
            self.control.apply_limits();
        }
    }

    /// Why the session's user may not run the command in database `db`, if so. Cost: one AND where the user
    /// may run everything.
    #[inline(always)]
    pub(crate) fn denied(
        &self,
        session: &Session,
        spec: &'static Spec,
        args: Args<'_>,
        db: usize,
    ) -> Option<Denial> {
        if session.mask & gate::RIGHTS == 0 { None } else { self.denied_by_rules(session, spec, args, db) }
    }

    #[cold]
    fn denied_by_rules(
        &self,
        session: &Session,
        spec: &'static Spec,
        args: Args<'_>,
        db: usize,
    ) -> Option<Denial> {
        rights::check(&session.caller, spec, args, db, self.control.limits.databases).err()
    }

    /// Notes that a request was refused.
    #[cold]
    pub(crate) fn note_denial(
        &mut self,
        session: &Session,
        denial: Denial,
        context: Context,
        spec: &'static Spec,
        args: Args<'_>,
        now: Now,
    ) {
        let slices: Vec<&[u8]> = args.iter_from(0).collect();
        // The reference names a database that no argument names by the word that the script has used.
        let is_nested = matches!(context, Context::Lua | Context::Script);
        let object = match denial.reason {
            sluice_acl::Reason::Database if is_nested => args.at(denial.position),
            _ => denial.object(spec, &slices),
        };
        let ClientRelations { users, watching, tracking, .. } = &mut self.control.clients;
        let sources = LineSources { watching, tracking };
        let refused = LoggedRefusal { refusal: Refusal::Request(denial.reason), context, object };
        let (counts, config) = (&mut self.stats.failures.refused, &self.control.config);
        users.note(refused, session.caller.user_name(), &line_of(session, sources, now), counts, config, now);
    }
}

/// What a session does that has learnt what has become of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Stays,
    Ends,
}

fn tell(
    session: &mut Session,
    users: &Users,
    revoked: &[(Arc<User>, RevokedChannels)],
    pubsub: &PubSub,
    gate: &Gate,
) -> Told {
    let Some(user) = users.renew(session.caller.user()) else {
        session.caller.act_as(Identity::of_nobody(users));
        session.mask = gate.session_mask(session);
        return Told::Ends;
    };
    session.caller.renew_user(user);
    let left = revoked.iter().find(|(renewed, _)| Arc::ptr_eq(renewed, user)).map(|(_, left)| left);
    session.mask = gate.session_mask(session);
    let is_lost = left.is_some_and(|left| {
        session.caller.subscribed.is_any()
            && pubsub.names(session.key).any(|(name, is_pattern)| !left.allows(name, is_pattern))
    });
    if is_lost { Told::Ends } else { Told::Stays }
}

/// A message that is published next has one receiver less.
fn end_subscriptions(session: &mut Session, pubsub: &mut PubSub) {
    if session.caller.subscribed.is_any() {
        pubsub.forget(session.key);
        session.caller.subscribed = Subscribed::default();
    }
}
