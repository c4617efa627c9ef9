//! In whose name a client acts, until its session has taken that up.

use sluice_acl::{User, Users};
use std::sync::Arc;

/// In whose name a client acts: what a session takes up as its user.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The user, as it is defined now.
    pub(crate) user: Arc<User>,
    /// The client has proved who it is, or came when nobody had to. Otherwise the user is `default`, and the
    /// client may act as that only while `default` is open; or the client's user was deleted.
    pub(crate) is_authenticated: bool,
}

impl Identity {
    /// A client that has given no name: the default user, where that is open.
    pub fn of_newcomer(users: &Users) -> Identity {
        let user = users.default_user();
        Identity { user: Arc::clone(user), is_authenticated: is_open(user) }
    }

    /// A client that has proved who it is.
    pub fn authenticated(user: Arc<User>) -> Identity {
        Identity { user, is_authenticated: true }
    }

    /// A client whose user was deleted: without any right for what is left of its unit, also where `default`
    /// is open, which the client never was.
    pub fn of_nobody(deleted: &User) -> Identity {
        Identity { user: Arc::new(deleted.without_rights()), is_authenticated: false }
    }
}

/// Whether whoever connects may act as this user, which is the default user.
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
