//! Why a rule is refused.

/// Why a rule is refused; the words are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// Neither a word that is known nor a pattern that is allowed.
    Syntax,
    /// No such command, subcommand or category.
    Unknown,
    /// A key pattern beside all keys.
    KeyAfterAll,
    /// A channel pattern beside all channels.
    ChannelAfterAll,
    /// The password to remove is none of the user's.
    NoSuchPassword,
    /// Not 64 hexadecimal digits in lower case.
    BadHash,
    /// A user stands twice in the configuration file.
    Duplicate,
    /// A role stands twice in the configuration file.
    DuplicateRole,
    /// A first argument of a subcommand.
    FirstArgOfSubcommand,
    /// The number of a database is negative or above 2³¹ - 1.
    DatabaseOutOfRange,
    /// A parenthesis that nothing closes.
    Unmatched,
    /// A user cannot hold a role that is not there.
    NoSuchRole,
}

impl RuleError {
    /// The words that follow the rule in an error reply.
    pub const fn text(self) -> &'static str {
        match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::KeyAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::Duplicate => "Duplicate user found. A user can only be defined once in config files",
            RuleError::DuplicateRole => {
                "Duplicate role found. A role can only be defined once in config files"
            }
            RuleError::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::DatabaseOutOfRange => "The provided database ID is out of range",
            RuleError::Unmatched => "Wrong format",
            RuleError::NoSuchRole => "The specified role does not exist",
        }
    }
}
