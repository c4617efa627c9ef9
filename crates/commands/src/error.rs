//! Errors with which commands are refused. Their texts are in [`CmdError::wire`].

use sluice_keyspace::WrongType;
use std::borrow::Cow;

/// The reason why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmdError {
    /// The key holds another type.
    WrongType,
    /// The arguments do not follow the command's syntax.
    Syntax,
    /// An argument or value is not a 64-bit integer.
    NotInteger,
    /// An argument or value is not a float.
    NotFloat,
    /// A number is outside its range.
    OutOfRange,
    /// The key must exist.
    NoSuchKey,
    /// The number of a database is outside its range.
    DbIndex,
    /// The result would not fit `proto-max-bulk-len`.
    StringTooLong,
    /// An expiry that cannot be represented or is not positive; with the command's name.
    InvalidExpire(&'static str),
    /// The number of arguments does not fit the arity; with the command's name.
    Arity(&'static str),
    /// Source and target are the same.
    SameObject,
    /// A payload of RESTORE is malformed. The text says what is wrong; it is logged, but not replied.
    BadData(Box<str>),
    /// The client must authenticate first.
    NoAuth,
    /// Another server has the data; the text is its host and port.
    Redirect(Box<str>),
    /// This node of a cluster does not serve the slot; the text is the whole error.
    Slot(Cow<'static, str>),
    /// Any other error: its text, which begins with the error code.
    Text(Cow<'static, [u8]>),
}

impl From<WrongType> for CmdError {
    fn from(_: WrongType) -> CmdError {
        CmdError::WrongType
    }
}

impl CmdError {
    /// The data set is being loaded.
    pub const LOADING: CmdError = CmdError::text("LOADING Valkey is loading the dataset in memory");
    /// A replica refuses writes of its clients.
    pub const READ_ONLY_REPLICA: CmdError =
        CmdError::text("READONLY You can't write against a read only replica.");
    /// The link to the primary is down, so the data may be stale.
    pub const STALE_REPLICA: CmdError =
        CmdError::text("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
    /// This server is not a node of a cluster.
    pub const NO_CLUSTER: CmdError = CmdError::text("ERR This instance has cluster support disabled");
    /// WAIT was sent to a replica, which propagates no writes of its own.
    pub const WAIT_ON_REPLICA: CmdError = CmdError::text(
        "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured to be writable \
         (which is not the default) writes to replicas are just local and are not propagated.",
    );
    /// WAITAOF was sent to a replica, which propagates no writes of its own.
    pub const WAITAOF_ON_REPLICA: CmdError = CmdError::text(
        "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
         not propagated.",
    );
    /// A database has no room for more entries.
    pub const NO_ENTRY_SPACE: CmdError =
        CmdError::text("OOM command not allowed when a database has nearly as many entries as one can hold");

    /// An error with a fixed text that begins with its code, as in `ERR no such thing`.
    pub const fn text(text: &'static str) -> CmdError {
        CmdError::Text(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a text made for this case. Line breaks in the text become spaces in the reply.
    pub fn owned(text: impl Into<Vec<u8>>) -> CmdError {
        CmdError::Text(Cow::Owned(text.into()))
    }

    /// The text on the wire, without the leading `-`.
    pub fn wire(&self) -> Cow<'_, [u8]> {
        let text: &str = match self {
            CmdError::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            CmdError::Syntax => "ERR syntax error",
            CmdError::NotInteger => "ERR value is not an integer or out of range",
            CmdError::NotFloat => "ERR value is not a valid float",
            CmdError::OutOfRange => "ERR index out of range",
            CmdError::NoSuchKey => "ERR no such key",
            CmdError::DbIndex => "ERR DB index is out of range",
            CmdError::StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            CmdError::InvalidExpire(name) => {
                return Cow::Owned(format!("ERR invalid expire time in '{name}' command").into_bytes());
            }
            CmdError::Arity(name) => {
                return Cow::Owned(
                    format!("ERR wrong number of arguments for '{name}' command").into_bytes(),
                );
            }
            CmdError::SameObject => "ERR source and destination objects are the same",
            CmdError::BadData(_) => "ERR Bad data format",
            CmdError::NoAuth => "NOAUTH Authentication required.",
            CmdError::Redirect(address) => return Cow::Owned(format!("REDIRECT {address}").into_bytes()),
            CmdError::Slot(text) => text,
            CmdError::Text(text) => return Cow::Borrowed(text),
        };
        Cow::Borrowed(text.as_bytes())
    }
}

/// The part of a client's word that an error shows: at most `bytes_max` bytes, up to a zero byte,
/// because the reference's texts end there.
pub fn shown(word: &[u8], bytes_max: usize) -> &[u8] {
    let word = until_zero(word);
    &word[..word.len().min(bytes_max)]
}

/// The part of a word before its first zero byte. The reference ends many words there, and a client
/// could notice a difference.
pub fn until_zero(word: &[u8]) -> &[u8] {
    memchr::memchr(0, word).map_or(word, |end| &word[..end])
}
