//! Who a client is. What follows from that, such as what a client may send before AUTH, is derived here and
//! nowhere else.

use crate::session::Caller;
use sluice_acl::{User, Users};
use sluice_commands::Limits;
use sluice_resp::Admission;
use std::sync::Arc;

/// In whose name a client acts: what a session takes up as its user.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user, as it is defined now.
    pub(crate) user: Arc<User>,
    /// The client has proved who it is, or came when nobody had to. Otherwise the user is `default`, and the
    /// client may act as that only while `default` is open.
    pub(crate) is_authenticated: bool,
}

impl Identity {
    /// A client that has given no name: the default user, where that is open.
    pub(crate) fn of_newcomer(users: &Users) -> Identity {
        let user = users.default_user();
        Identity { user: Arc::clone(user), is_authenticated: is_open(user) }
    }

    /// A client that has proved who it is.
    pub(crate) fn authenticated(user: Arc<User>) -> Identity {
        Identity { user, is_authenticated: true }
    }

    /// A client whose user was deleted.
    pub(crate) fn of_nobody(users: &Users) -> Identity {
        Identity { user: Arc::clone(users.default_user()), is_authenticated: false }
    }
}

/// Who a client is, and what follows from that.
impl Caller {
    /// The client acts in this name from now on.
    pub(crate) fn act_as(&mut self, identity: Identity) {
        self.flags.authenticated = identity.is_authenticated;
        self.flags.ever_authenticated |= identity.is_authenticated;
        self.user = identity.user;
    }

    /// Its user, as defined now: `users/steps.rs` renews it when users change.
    #[inline]
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Its user has a new form.
    pub(crate) fn renew_user(&mut self, user: &Arc<User>) {
        self.user = Arc::clone(user);
    }

    /// Name of its user.
    pub fn user_name(&self) -> &[u8] {
        self.user.name()
    }

    /// Whether the client must give a name and a password before anything else.
    pub(crate) fn must_authenticate(&self, limits: &Limits) -> bool {
        limits.admission(self.admission()) == Admission::Unauthenticated
    }

    /// What the client may send, for itself. [`Limits::admission`] decides with what the default user asks
    /// for.
    pub(crate) fn admission(&self) -> Admission {
        match self.flags.authenticated {
            false => Admission::Unauthenticated,
            true => Admission::Authenticated,
        }
    }
}

/// Whether whoever connects may act as this user, which is the default user.
pub(crate) fn is_open(default_user: &User) -> bool {
    default_user.is_nopass() && default_user.is_enabled()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_given_no_name_is_the_default_user_where_that_is_open() {
        let mut users = Users::new(false);
        assert!(Identity::of_newcomer(&users).is_authenticated);
        users.set_default_password(Some(b"secret"));
        assert!(!Identity::of_newcomer(&users).is_authenticated);
        users.set_default_password(None);
        users.set_user(b"default", [&b"off"[..]].into_iter()).expect("a rule");
        assert!(!Identity::of_newcomer(&users).is_authenticated, "a disabled one lets nobody in");
    }
}
