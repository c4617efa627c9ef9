//! Errors in an RDB file.

use super::foreign::ForeignType;
use std::fmt;

/// The reason why a file was refused, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Offset of the fault. For a fault in the contents of a compressed file, the offset in
    /// the decompressed contents.
    pub offset: u64,
    /// The fault at that offset.
    pub problem: Problem,
}

/// Faults of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file does not begin like an RDB file.
    Magic,
    /// The version is unknown.
    Version(u32),
    /// The head of a compressed file is unknown: its version, its compression method, or the kind of its
    /// contents.
    Envelope,
    /// The frame of a compressed file is malformed, or does not hold exactly one file; the text
    /// names the fault.
    Frame(&'static str),
    /// The file ends too early.
    CutOff,
    /// The type of a value, or the opcode, is unknown.
    Unknown(u8),
    /// A value of a type that this server lacks.
    Unsupported {
        /// Type of the value.
        kind: ForeignType,
        /// Key of the value.
        key: Vec<u8>,
    },
    /// A function library in the format of the 7.0 release candidates, a format that no release reads.
    OldFunction,
    /// The special encoding of a text where a length belongs, an unknown encoding of a text, or a length or
    /// slot out of range.
    Length,
    /// The name of a slot import does not have 40 bytes.
    ImportName,
    /// The range of a slot import is empty, exceeds the last slot, or overlaps another range.
    ImportRange {
        /// The first slot of the range.
        start: u64,
        /// The last slot of the range.
        end: u64,
    },
    /// A compressed text is malformed, or does not have the announced length.
    Compression,
    /// A part of a list is malformed: its container, listpack or ziplist is invalid, or an element that is
    /// stored as a node is empty.
    List,
    /// A hash is malformed: a field occurs twice or has an invalid expiry, or the listpack or ziplist is
    /// invalid.
    Hash,
    /// A zipmap is malformed or empty, or has a field twice.
    Zipmap,
    /// A part of a stream is malformed, or its parts contradict each other. The text names the fault; if the
    /// reference logs this fault, the text uses the reference's words.
    Stream(&'static str),
    /// A sorted set is malformed: its listpack or a score is invalid, or a member occurs twice. For an
    /// invalid ziplist, see [`Problem::ZsetZiplist`].
    Zset,
    /// A sorted set in a ziplist, the form of versions before 7, is malformed.
    ZsetZiplist,
    /// A set is malformed: its intset or listpack is invalid, or a member occurs twice.
    Set,
    /// A module's value is malformed.
    Module,
    /// The checksum does not match the contents.
    Checksum,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match &self.problem {
            Problem::Magic => f.write_str("wrong signature: not an RDB file"),
            Problem::Version(version) => write!(f, "RDB version {version} is not known"),
            Problem::Envelope => f.write_str("the file is compressed in a way that is not known"),
            Problem::Frame(reason) => write!(f, "{reason} at byte {offset}"),
            Problem::CutOff => write!(f, "unexpected end of file at byte {offset}"),
            Problem::Unknown(code) => write!(f, "unknown type or opcode {code} at byte {offset}"),
            Problem::Unsupported { kind, key } => write!(
                f,
                "key '{}' at byte {offset} holds a value of type {kind}, which this version cannot load",
                key.escape_ascii()
            ),
            Problem::OldFunction => {
                write!(f, "functions in the format of a 7.0 release candidate at byte {offset}")
            }
            Problem::Length => write!(f, "invalid length at byte {offset}"),
            Problem::ImportName => {
                write!(f, "Invalid slot import job name length in RDB at byte {offset}")
            }
            Problem::ImportRange { start, end } => {
                write!(f, "Invalid slot import range in RDB: start={start} end={end} at byte {offset}")
            }
            Problem::Compression => write!(f, "invalid compressed string at byte {offset}"),
            Problem::Stream(reason) => write!(f, "{reason} at byte {offset}"),
            Problem::List => write!(f, "integrity check failed for a node of a list at byte {offset}"),
            Problem::Zipmap => write!(f, "Zipmap integrity check failed at byte {offset}"),
            Problem::Hash => write!(f, "integrity check failed for a hash at byte {offset}"),
            Problem::Zset => write!(f, "integrity check failed for a sorted set at byte {offset}"),
            Problem::ZsetZiplist => write!(f, "Zset ziplist integrity check failed at byte {offset}"),
            Problem::Set => write!(f, "integrity check failed for a set at byte {offset}"),
            Problem::Module => write!(f, "invalid value of a module at byte {offset}"),
            Problem::Checksum => write!(f, "wrong checksum at byte {offset}"),
        }
    }
}

impl std::error::Error for LoadError {}
