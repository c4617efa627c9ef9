//! What can be wrong with a file.

use super::foreign::ForeignType;
use std::fmt;

/// Why a file was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Bytes before the mistake; in a compressed file, for what is wrong with its contents, bytes of the
    /// contents.
    pub offset: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file does not begin as an RDB file does.
    Magic,
    /// The file has this version, which is not known.
    Version(u32),
    /// The file is compressed, in a way that is not known.
    Envelope,
    /// The frame of a compressed file is malformed, or does not hold exactly a file: what is wrong.
    Frame(&'static str),
    /// The file ends too early.
    CutOff,
    /// A type of value, or an opcode, that is not known.
    Unknown(u8),
    /// A value of a type that the server does not have, and the value's key.
    Unsupported {
        /// The type.
        kind: ForeignType,
        /// The key.
        key: Vec<u8>,
    },
    /// A library of functions in the form of a release candidate of 7.0, which no release reads.
    OldFunction,
    /// A length was found where a text was expected, or vice versa, or is out of range.
    Length,
    /// The name of an import of slots has another length than 40.
    ImportName,
    /// A range of an import of slots, which is none.
    ImportRange {
        /// The first slot.
        start: u64,
        /// The last slot.
        end: u64,
    },
    /// A compressed text does not decompress to the announced length.
    Compression,
    /// A part of a list is malformed: its container, its listpack or its ziplist.
    List,
    /// A hash is malformed: a field stands twice, or its listpack or ziplist is none.
    Hash,
    /// A zipmap is none, or holds nothing.
    Zipmap,
    /// A part of a stream is malformed, or its parts contradict each other: what is wrong, in the words of
    /// the reference's log where it has some.
    Stream(&'static str),
    /// A sorted set is malformed: its listpack, its ziplist, a score, or a member that appears twice.
    Zset,
    /// A sorted set in the form of versions before 7, which is not in order.
    ZsetZiplist,
    /// A set is malformed: its intset or its listpack, or a member is there twice.
    Set,
    /// A value of a module is malformed.
    Module,
    /// The checksum is not that of the contents.
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
