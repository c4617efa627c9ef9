//! Reasons for which a rule is refused.

/// The reason why a rule is refused. [`RuleError::text`] has the words of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The rule is no known word, or its pattern, first argument or list is malformed.
    Syntax,
    /// The command, subcommand or category does not exist.
    Unknown,
    /// A key pattern after `allkeys`.
    KeyAfterAll,
    /// A channel pattern after `allchannels`.
    ChannelAfterAll,
    /// The user does not have the password to remove.
    NoSuchPassword,
    /// The hash does not consist of 64 hexadecimal digits in lower case.
    BadHash,
    /// The configuration file defines the user twice.
    Duplicate,
    /// The configuration file defines the role twice.
    DuplicateRole,
    /// A rule names a first argument after a subcommand; rules may name first arguments only of commands.
    FirstArgOfSubcommand,
    /// The number of a database is negative or above 2³¹ - 1.
    DatabaseOutOfRange,
    /// A parenthesis is not closed, or a line of the configuration file has no name after `user` or `role`.
    Unmatched,
    /// `role=` names a role that does not exist.
    NoSuchRole,
}

impl RuleError {
    /// The words after the rule in an error reply.
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
