//! What is counted and logged of refusals.

use crate::session::Session;
use crate::session::line::LineSources;
use crate::users::UsersState;
use sluice_acl::{Context, Reason, Refusal};
use sluice_base::Now;
use sluice_config::{Config, param};

/// What is refused, to be logged.
pub(crate) struct LoggedRefusal<'a> {
    /// What about.
    pub refusal: Refusal,
    /// Where the request has come from.
    pub context: Context,
    /// The command, key, channel or database.
    pub object: &'a [u8],
}

/// What was refused, by reason: INFO's `acl_access_denied_*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusalCounts {
    /// Attempts to authenticate.
    pub auth: u64,
    /// Commands.
    pub command: u64,
    /// Keys.
    pub key: u64,
    /// Channels.
    pub channel: u64,
    /// Certificates that name no user.
    pub tls_cert: u64,
    /// Databases.
    pub database: u64,
}

impl RefusalCounts {
    /// Counts one.
    pub(crate) fn add(&mut self, refusal: Refusal) {
        let count = match refusal {
            Refusal::Auth => &mut self.auth,
            Refusal::TlsCert => &mut self.tls_cert,
            Refusal::Request(Reason::Command) => &mut self.command,
            Refusal::Request(Reason::Key) => &mut self.key,
            Refusal::Request(Reason::Channel) => &mut self.channel,
            Refusal::Request(Reason::Database) => &mut self.database,
        };
        *count += 1;
    }
}

/// The client in the log of refusals, as CLIENT LIST shows it.
pub(crate) fn line_of(session: &Session, sources: LineSources<'_>, now: Now) -> String {
    let mut line = String::new();
    session.push_line(now.unix_s(), sources, None, &mut line);
    line
}

impl UsersState {
    /// Counts and logs a refusal.
    pub(crate) fn note(
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
        let entries_max = usize::try_from(config.int(param::ACLLOG_MAX_LEN)).unwrap_or(usize::MAX);
        let line = client.as_bytes();
        self.log.add(refusal, context, object, username, line, now.unix_ms(), entries_max);
    }
}
