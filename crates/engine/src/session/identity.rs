//! Who a client is. What follows from that, such as what a client may send before AUTH, is derived here and
//! nowhere else.

use sluice_commands::Limits;
use sluice_resp::Admission;

/// The user in whose name a client acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Nobody yet. Where no password is set, the client acts as the default user all the same.
    #[default]
    Anonymous,
    /// The default user: by AUTH or HELLO, or because no password was set when the client came.
    DefaultUser,
}

impl Identity {
    /// What a client that has given no name is: the default user where no password is set.
    pub(crate) fn of_newcomer(limits: &Limits) -> Identity {
        match limits.password.is_empty() {
            true => Identity::DefaultUser,
            false => Identity::Anonymous,
        }
    }

    /// What a client of this identity may send, for itself. [`Limits::admission`] decides with the password.
    pub fn admission(self) -> Admission {
        match self {
            Identity::Anonymous => Admission::Unauthenticated,
            Identity::DefaultUser => Admission::Authenticated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::{Config, param};

    #[test]
    fn who_has_given_no_name_is_the_default_user_without_a_password() {
        let mut config = Config::default();
        assert_eq!(Identity::of_newcomer(&Limits::new(&config)), Identity::DefaultUser);
        config.assign(param::REQUIREPASS, &[b"secret"]).expect("any text is a password");
        assert_eq!(Identity::of_newcomer(&Limits::new(&config)), Identity::Anonymous);
    }
}
