//! Payloads of DUMP and RESTORE: one value without its key.
//!
//! | bytes | meaning |
//! |---|---|
//! | u8 | type |
//! | – | value, as its type says |
//! | u16, little endian | version |
//! | u64, little endian | CRC-64 of everything before |
//!
//! Invariant: every command can work on a value that [`restore`] accepts; a payload that it refuses
//! costs no more memory than the payload's size allows.

use super::crc::Sum;
use super::cursor::InputCursor;
use super::decoder::{DecodeStep, Decoder, VERSION_VALKEY, VERSIONS_VALKEY};
use super::error::{LoadError, Problem};
use super::foreign::ForeignType;
use super::kind::{Dialect, ForeignForm, ValueKind};
use super::writer::{Writer, set_kind};
use super::{Compression, Item, Loaded, LoadedEntry, ReadOptions, Text, Unknown, Version, WriteOptions, op};
use sluice_value::{HashRef, ListRef, Pages, SetRef, Stream, ZsetRef};
use std::borrow::Cow;

/// A value to be dumped.
#[derive(Clone, Copy, Debug)]
pub enum Dumped<'a> {
    /// A string in one piece, or an integer.
    Str(Text<'a>),
    /// A string in pages.
    Pages(&'a Pages),
    /// A list, which is cut into nodes by the setting `list-max-listpack-size`.
    List(ListRef<'a>, i32),
    /// A hash, with or without expiries.
    Hash(HashRef<'a>),
    /// A stream, with its consumer groups.
    Stream(&'a Stream),
    /// A sorted set of any size.
    Zset(ZsetRef<'a>),
    /// A set of any size.
    Set(SetRef<'a>),
}

/// The reason why a payload was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// The payload is too short, its version is not supported, or its checksum is wrong.
    Footer,
    /// A type number that Redis 7.4 and Valkey use differently, in a payload of Redis 7.4 or later.
    Foreign(u8),
    /// A path hash, which this server lacks. A module's value gives [`PayloadError::Bad`].
    Unsupported(ForeignType),
    /// The value is malformed. Offsets count from the beginning of the payload.
    Bad(LoadError),
}

/// The payload of a value. With `compression` its longer strings are compressed. Cost: O(size of the value).
pub fn dump(value: Dumped<'_>, compression: bool) -> Vec<u8> {
    let compression = Compression::of_strings(compression);
    let options = WriteOptions { version: Version::Valkey, compression, checksum: false };
    let kind = match value {
        Dumped::Str(_) | Dumped::Pages(_) => op::TYPE_STRING,
        Dumped::List(..) => op::TYPE_LIST_QUICKLIST_2,
        Dumped::Hash(hash) => Writer::new(options).hash_kind(hash),
        Dumped::Stream(_) => op::TYPE_STREAM_3,
        Dumped::Zset(zset) if super::zset::is_listpack(zset) => op::TYPE_ZSET_LISTPACK,
        Dumped::Zset(_) => op::TYPE_ZSET_2,
        Dumped::Set(set) => set_kind(set),
    };
    let mut writer = Writer::of_value(kind, options);
    let mut payload = Vec::new();
    let mut give = |piece: sluice_base::Bytes| payload.extend_from_slice(&piece);
    match value {
        Dumped::Str(text) => writer.text(text),
        Dumped::Pages(pages) => writer.value_pages(pages, &mut give),
        Dumped::List(list, max_listpack_size) => writer.value_list(list, max_listpack_size, &mut give),
        Dumped::Hash(hash) => writer.value_hash(hash, &mut give),
        Dumped::Stream(stream) => writer.value_stream(stream, &mut give),
        Dumped::Zset(zset) => writer.value_zset(zset, &mut give),
        Dumped::Set(set) => writer.value_set(set, &mut give),
    }
    if payload.is_empty() {
        payload = writer.take();
    } else {
        payload.append(&mut writer.take());
    }
    push_footer(&mut payload);
    payload
}

impl Loaded<'_> {
    /// The value for [`dump`]. A list is cut by the setting `list-max-listpack-size`.
    pub fn dumped(&self, max_listpack_size: i32) -> Dumped<'_> {
        match self {
            Loaded::Str(text) => Dumped::Str(Text::Bytes(text)),
            Loaded::Pages(pages) => Dumped::Pages(pages),
            Loaded::List(list) => Dumped::List(list.view(), max_listpack_size),
            Loaded::Hash(hash) => Dumped::Hash(hash.view()),
            Loaded::Stream(stream) => Dumped::Stream(stream),
            Loaded::Zset(zset) => Dumped::Zset(zset.view()),
            Loaded::Set(set) => Dumped::Set(set.view()),
        }
    }
}

/// Whether Valkey 9.1 builds the same value from a payload that [`restore`] accepts and whose checksum is
/// right. The version must be supported by 9.1. The type must be a string, or a form of large collections
/// that stores elements one by one, none of them twice, or the nodes of a list with verified counts. In
/// other forms the order or counts may be wrong; this reader repairs them, but Valkey 9.1 does not. O(1).
pub fn is_same_for_valkey(payload: &[u8]) -> bool {
    let version = version_of(payload);
    let is_taken = |version| version == VERSION_VALKEY || (1..=VERSION_COMMON_MAX).contains(&version);
    version.is_some_and(is_taken) && payload.first().is_some_and(|kind| SAME_FOR_VALKEY.contains(kind))
}

/// The types for which [`is_same_for_valkey`] is true.
const SAME_FOR_VALKEY: [u8; 5] =
    [op::TYPE_STRING, op::TYPE_SET, op::TYPE_HASH, op::TYPE_ZSET_2, op::TYPE_LIST_QUICKLIST_2];

fn version_of(payload: &[u8]) -> Option<u32> {
    let (rest, _) = payload.split_last_chunk::<8>()?;
    let (_, version) = rest.split_last_chunk::<2>()?;
    Some(u32::from(u16::from_le_bytes(*version)))
}

fn push_footer(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&(VERSION_VALKEY as u16).to_le_bytes());
    let sum = sum(payload);
    payload.extend_from_slice(&sum.to_le_bytes());
}

/// The payload of FUNCTION DUMP: the code of each library as a record of a snapshot file, and the
/// footer. With `compression` the code is compressed. Cost: O(length of all code).
pub fn dump_functions<'a>(libraries: impl Iterator<Item = &'a [u8]>, compression: bool) -> Vec<u8> {
    let compression = Compression::of_strings(compression);
    let mut writer = Writer::records(WriteOptions { version: Version::Valkey, compression, checksum: false });
    libraries.for_each(|code| writer.function(code));
    let mut payload = writer.take();
    push_footer(&mut payload);
    payload
}

/// The reason why a payload of FUNCTION RESTORE was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionsError {
    /// The payload is too short, its version is not supported, or its checksum is wrong.
    Footer,
    /// The payload has a library in the format of the 7.0 release candidates.
    Old,
    /// The payload has a record that is no function library.
    NotFunction,
    /// A record is truncated, or its text is malformed.
    Bad,
}

/// Iterator over the libraries of a FUNCTION DUMP payload: see [`restore_functions`].
#[derive(Clone, Debug)]
pub struct FunctionRecords<'a> {
    payload: &'a [u8],
    at: usize,
}

/// The libraries of a FUNCTION DUMP payload, one by one. The caller has to limit the memory of the texts
/// that it keeps, because compressed text expands up to 88 times.
///
/// # Errors
/// [`FunctionsError::Footer`].
pub fn restore_functions(
    payload: &[u8],
    options: ReadOptions,
) -> Result<FunctionRecords<'_>, FunctionsError> {
    footer_version(payload, options).ok_or(FunctionsError::Footer)?;
    Ok(FunctionRecords { payload, at: 0 })
}

impl<'a> Iterator for FunctionRecords<'a> {
    /// The code of a library, or the reason why it cannot be read; nothing follows an error.
    type Item = Result<Cow<'a, [u8]>, FunctionsError>;

    fn next(&mut self) -> Option<Self::Item> {
        // As in the reference, a text may reach into the footer.
        if self.at + FOOTER_BYTES >= self.payload.len() {
            return None;
        }
        let (kind, record) = (self.payload[self.at], &self.payload[self.at + 1..]);
        let result = match kind {
            op::FUNCTION => {
                let mut cursor = InputCursor::new(record, self.at as u64 + 1);
                let code = cursor.text().map_err(|_| FunctionsError::Bad);
                self.at += 1 + cursor.at();
                code
            }
            op::FUNCTION_OLD => Err(FunctionsError::Old),
            _ => Err(FunctionsError::NotFunction),
        };
        if result.is_err() {
            self.at = self.payload.len();
        }
        Some(result)
    }
}

/// Length in bytes of the version and the checksum.
const FOOTER_BYTES: usize = 10;

/// The version of a payload, if it is supported and the checksum is right.
fn footer_version(payload: &[u8], options: ReadOptions) -> Option<u32> {
    let (rest, sum_bytes) = payload.split_last_chunk::<8>()?;
    let version = version_of(payload)?;
    let is_taken = (1..=VERSION_COMMON_MAX).contains(&version)
        || VERSIONS_VALKEY.contains(&version)
        || version != 0 && options.unknown == Unknown::Skip;
    let is_right = is_taken && (!options.checksum || u64::from_le_bytes(*sum_bytes) == sum(rest));
    is_right.then_some(version)
}

/// The value of a payload. With [`Unknown::Skip`] any version but 0 is accepted. As in the reference,
/// bytes after the value are ignored, and a value may end inside the footer.
///
/// # Errors
/// The reason why the payload was refused.
pub fn restore(payload: &[u8], options: ReadOptions) -> Result<Loaded<'_>, PayloadError> {
    restore_entry(payload, options).map(|entry| entry.value)
}

/// The value of a payload, as [`restore`] returns it, with the repair that was made in the value, if any. The
/// key of the entry is empty.
///
/// # Errors
/// The errors of [`restore`].
pub fn restore_entry(payload: &[u8], options: ReadOptions) -> Result<LoadedEntry<'_>, PayloadError> {
    let version = footer_version(payload, options).ok_or(PayloadError::Footer)?;
    let bad = |offset, problem| PayloadError::Bad(LoadError { offset, problem });
    let (&number, value) = payload.split_first().ok_or(PayloadError::Footer)?;
    let is_foreign = (VERSION_COMMON_MAX + 1..VERSION_VALKEY).contains(&version);
    if is_foreign && number == FIRST_FOREIGN_TYPE {
        return Err(PayloadError::Foreign(number));
    }
    let dialect = if is_foreign { Dialect::Redis } else { Dialect::Valkey };
    let kind = match ValueKind::of(number, dialect) {
        // Module types are never available here.
        None | Some(ValueKind::Foreign(ForeignForm::OldModule | ForeignForm::Module)) => {
            return Err(bad(0, Problem::Unknown(number)));
        }
        Some(ValueKind::Foreign(ForeignForm::PathHash)) => {
            return Err(PayloadError::Unsupported(ForeignType::PathHash));
        }
        Some(kind) => kind,
    };
    let (_, step) = Decoder::of_value(kind, 1, options).step(value).map_err(PayloadError::Bad)?;
    match step {
        DecodeStep::Item(Item::LoadedEntry(entry)) => Ok(entry),
        DecodeStep::Item(_) | DecodeStep::End => Err(bad(0, Problem::Length)),
        DecodeStep::Need { offset, .. } => Err(bad(offset, Problem::CutOff)),
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let mut sum = Sum::new();
    sum.add(bytes);
    sum.value()
}

/// Entry point of the fuzzer: restores any bytes, with and without a check of version and checksum. A value
/// accepted without that check must be the same after it is dumped and restored.
pub fn fuzz_payload(data: &[u8]) {
    let options = ReadOptions { unknown: Unknown::Skip, checksum: false, ..ReadOptions::default() };
    // Both calls of `restore` must return without a panic.
    drop(restore(data, ReadOptions::default()));
    let Ok(value) = restore(data, options) else { return };
    let again = |dumped: Dumped<'_>| {
        let payload = dump(dumped, data.len().is_multiple_of(2));
        match restore(&payload, ReadOptions::default()) {
            Ok(Loaded::Str(text)) => vec![text.into_owned()],
            Ok(Loaded::Pages(pages)) => vec![pages.to_vec()],
            Ok(Loaded::List(list)) => super::list::elements(list.view()),
            Ok(Loaded::Hash(hash)) => super::hash::parts(hash.view()),
            Ok(Loaded::Stream(stream)) => super::stream::elements(&stream),
            Ok(Loaded::Zset(zset)) => super::zset::elements(zset.view()),
            Ok(Loaded::Set(set)) => super::set::members(set.view()),
            Err(error) => panic!("a value's own payload was refused: {error:?}"),
        }
    };
    let wanted = match &value {
        Loaded::Str(text) => vec![text.to_vec()],
        Loaded::Pages(pages) => vec![pages.to_vec()],
        Loaded::List(list) => super::list::elements(list.view()),
        Loaded::Hash(hash) => super::hash::parts(hash.view()),
        Loaded::Stream(stream) => super::stream::elements(stream),
        Loaded::Set(set) => super::set::members(set.view()),
        Loaded::Zset(zset) => super::zset::elements(zset.view()),
    };
    let found = again(value.dumped(-2));
    assert!(wanted == found);
}

/// Entry point of the fuzzer: reads any bytes as libraries, with and without a check of version and checksum.
/// Libraries accepted without that check must be the same after they are dumped and restored.
pub fn fuzz_functions(data: &[u8]) {
    let read = |payload: &[u8], options| -> Result<Vec<Vec<u8>>, FunctionsError> {
        restore_functions(payload, options)?.map(|code| code.map(Cow::into_owned)).collect()
    };
    drop(read(data, ReadOptions::default()));
    let options = ReadOptions { unknown: Unknown::Skip, checksum: false, ..ReadOptions::default() };
    let Ok(records) = restore_functions(data, options) else { return };
    let (mut codes, mut has_failed) = (Vec::new(), false);
    for code in records {
        assert!(!has_failed, "nothing comes behind an error");
        match code {
            Ok(code) => {
                // Decompression expands a text at most 88 times.
                assert!(code.len() <= data.len() * 88 + 88, "{} of {}", code.len(), data.len());
                codes.push(code.into_owned());
            }
            Err(_) => has_failed = true,
        }
    }
    let payload = dump_functions(codes.iter().map(Vec::as_slice), data.len().is_multiple_of(2));
    assert!(read(&payload, ReadOptions::default()) == Ok(codes), "libraries' own payload brings others");
}

/// The last version with the same numbering in Redis and Valkey.
const VERSION_COMMON_MAX: u32 = 11;
/// The first type whose number has different meanings in Redis and Valkey.
const FIRST_FOREIGN_TYPE: u8 = 22;

#[cfg(test)]
mod tests;
