//! Counting and logging of refusals.

use crate::users::UsersState;
use sluice_acl::{Refusal, RefusalContext};
use sluice_base::Now;
use sluice_config::{Config, param};
use sluice_numbers::stats::RefusalCounts;
use sluice_session::Session;
use sluice_session::line::LineSources;

/// A refusal to be logged.
pub struct LoggedRefusal<'a> {
    /// The kind of right that was missing, or failed authentication.
    pub refusal: Refusal,
    /// Where the request ran: directly, in a transaction or in a script.
    pub context: RefusalContext,
    /// The refused command, key, channel or database.
    pub object: &'a [u8],
}

/// The client's line for the log of refusals, as in CLIENT LIST.
pub fn line_of(session: &Session, sources: LineSources<'_>, now: Now) -> String {
    let mut line = String::new();
    session.push_line(now.unix_s(), sources, None, &mut line);
    line
}

impl UsersState {
    /// Counts and logs a refusal.
    pub fn note(
        &mut self,
        refused: LoggedRefusal<'_>,
        username: &[u8],
        client: &str,
        counts: &mut RefusalCounts,
        config: &Config,
        now: Now,
    ) {
        let LoggedRefusal { refusal, context, object } = refused;
        counts.add(refusal);
        let entries_max = entries_max(config);
        let line = client.as_bytes();
        self.log.add(refusal, context, object, username, line, now.unix_ms(), entries_max);
    }
}

/// Maximum number of entries in the log of refusals.
fn entries_max(config: &Config) -> usize {
    usize::try_from(config.int(param::ACLLOG_MAX_LEN)).unwrap_or(usize::MAX)
}
