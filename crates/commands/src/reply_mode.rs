//! Whether a client is sent replies.

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    On,
    /// None is.
    Off,
    /// The command after this one gets none.
    SkipNext,
    /// This command gets none.
    Skipping,
    /// It becomes a replica: what this command replies is the last reply.
    Attaching,
    /// It is a replica: a reply in its stream would be read as a command, so whatever it gets a reply to ends
    /// it.
    Forbidden,
}

impl ReplyMode {
    /// The mode of the next command.
    #[inline]
    pub fn next(self) -> ReplyMode {
        match self {
            ReplyMode::SkipNext => ReplyMode::Skipping,
            ReplyMode::Attaching => ReplyMode::Forbidden,
            other => other,
        }
    }
}
