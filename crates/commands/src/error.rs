//! Errors whose fault is the client's. [`CmdError::wire`] alone has their texts.

use sluice_keyspace::WrongType;
use std::borrow::Cow;

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmdError {
    /// The key holds another type.
    WrongType,
    /// The arguments do not follow the command's syntax.
    Syntax,
    /// An argument or value is no 64-bit integer.
    NotInteger,
    /// An argument or value is no float.
    NotFloat,
    /// A number is outside its range.
    OutOfRange,
    /// The key must exist.
    NoSuchKey,
    /// The database's number is outside its range.
    DbIndex,
    /// The result would not fit `proto-max-bulk-len`.
    StringTooLong,
    /// An expiry that no time can express or that is not positive; with the command's name.
    InvalidExpire(&'static str),
    /// The command's name and a number of arguments that it does not accept.
    Arity(&'static str),
    /// Source and target are the same.
    SameObject,
    /// A payload of RESTORE is malformed. The log says what is wrong; the reply does not.
    BadData(Box<str>),
    /// Authentication is needed.
    NoAuth,
    /// The data are to be asked for there: host and port.
    Redirect(Box<str>),
    /// A node of a cluster does not answer for a slot: the whole text.
    Slot(Cow<'static, str>),
    /// Any other, with the error code that begins it.
    Text(Cow<'static, [u8]>),
}

impl From<WrongType> for CmdError {
    fn from(_: WrongType) -> CmdError {
        CmdError::WrongType
    }
}

impl CmdError {
    /// The data are being loaded.
    pub const LOADING: CmdError = CmdError::text("LOADING Valkey is loading the dataset in memory");
    /// The data are the primary's.
    pub const READ_ONLY_REPLICA: CmdError =
        CmdError::text("READONLY You can't write against a read only replica.");
    /// The primary is out of reach, and what it may have changed shall not be missed.
    pub const STALE_REPLICA: CmdError =
        CmdError::text("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
    /// This server is no node of a cluster.
    pub const NO_CLUSTER: CmdError = CmdError::text("ERR This instance has cluster support disabled");
    /// WAIT is for those whose writes are propagated.
    pub const WAIT_ON_REPLICA: CmdError = CmdError::text(
        "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured to be writable \
         (which is not the default) writes to replicas are just local and are not propagated.",
    );
    /// WAITAOF on a replica.
    pub const WAITAOF_ON_REPLICA: CmdError = CmdError::text(
        "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are \
         not propagated.",
    );
    /// A database has no room for more entries.
    pub const NO_ENTRY_SPACE: CmdError =
        CmdError::text("OOM command not allowed when a database has nearly as many entries as one can hold");

    /// An error from a fixed text that begins with its code, as in `ERR no such thing`.
    pub const fn text(text: &'static str) -> CmdError {
        CmdError::Text(Cow::Borrowed(text.as_bytes()))
    }

    /// An error from a text made for this case. Line breaks in it become spaces when it is written.
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

/// The part of a client's word that an error shows: up to a zero byte, as the reference's texts end there,
/// and at most `bytes_max` bytes.
pub fn shown(word: &[u8], bytes_max: usize) -> &[u8] {
    let word = until_zero(word);
    &word[..word.len().min(bytes_max)]
}

/// What comes before the first zero byte. The reference takes many words for texts that end there, and a
/// client that is answered otherwise could notice.
pub fn until_zero(word: &[u8]) -> &[u8] {
    memchr::memchr(0, word).map_or(word, |end| &word[..end])
}
