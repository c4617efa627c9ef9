//! Whether a client receives replies.

/// Mode of a client, set by CLIENT REPLY or by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every command is replied to.
    On,
    /// No command is replied to.
    Off,
    /// The next command gets no reply.
    SkipNext,
    /// The present command gets no reply.
    Skipping,
    /// The client is becoming a replica. The reply to this command is the last one that it receives.
    Attaching,
    /// The client is a replica. A reply in its stream would be read as a command, so any command with a
    /// reply closes the connection.
    Forbidden,
}

impl ReplyMode {
    /// The mode in which a command runs, if the previous command ended in this mode.
    #[inline]
    pub fn next(self) -> ReplyMode {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skipping,
            ReplyMode::Attaching => ReplyMode::Forbidden,
            other => other,
        }
    }
}
