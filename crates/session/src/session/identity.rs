//! The user as which a client is to act, on the way to the client's session.

use sluice_acl::{User, Users};
use std::sync::Arc;

/// The user as which a client is to act; [`super::Caller::act_as`] puts it into the session.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user in its present definition.
    pub(crate) user: Arc<User>,
    /// The client has authenticated, or connected while no password was required. If not, then either the
    /// user is `default` and the client may act as it only while `default` is open, or the client's user was
    /// deleted.
    pub(crate) is_authenticated: bool,
}

impl Identity {
    /// Identity of a client that has not authenticated: the default user.
    pub fn of_newcomer(users: &Users) -> Identity {
        let user = users.default_user();
        Identity { user: Arc::clone(user), is_authenticated: is_open(user) }
    }

    /// Identity of a client that has authenticated.
    pub fn authenticated(user: Arc<User>) -> Identity {
        Identity { user, is_authenticated: true }
    }

    /// Identity of a client whose user was deleted. It has no rights for the rest of the running command or
    /// transaction even if `default` is open, because the client never was `default`.
    pub fn of_nobody(deleted: &User) -> Identity {
        Identity { user: Arc::new(deleted.without_rights()), is_authenticated: false }
    }
}

/// Whether any connection may act as the default user, because it is enabled and needs no password.
pub fn is_open(default_user: &User) -> bool {
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
