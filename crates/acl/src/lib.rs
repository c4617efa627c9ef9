//! Users, roles and their rights: rules, the canonical text of rules, the check of a request, files of
//! users, the log of refusals.
//!
//! Invariants: (1) time, randomness and texts of files are arguments; (2) a rule that fails changes no
//! user; (3) the text of a user, applied to a new user while its roles exist, gives the same rights and the
//! same text.

#![forbid(unsafe_code)]

mod check;
mod file;
mod genpass;
mod log;
mod password;
mod rights;
mod role;
mod rule;
mod selector;
mod text;
mod user;
mod users;

pub use check::{Call, CallChannel, CallKey, Denial, Reason, channels};
pub use file::{ConfigUsers, LineFault};
pub use genpass::{GENPASS_BITS_DEFAULT, genpass, random_bytes_for};
pub use log::{Refusal, RefusalContext, RefusalEntry, RefusalLog};
pub use password::Digest;
pub use rights::Rights;
pub use role::{Role, Roles, SetRoleError};
pub use rule::RuleError;
pub use selector::{Selector, SelectorView};
pub use user::{RevokedChannels, SetUserError, User, UserText};
pub use users::{AuthError, UserChanges, Users};
