//! The numbers that DEBUG OBJECT reports about a value: its address, and its length in a snapshot.

use sluice_base::Bytes;
use sluice_keyspace::{Entry, Str, ValueRef};
use sluice_persist::rdb::{Compression, Usage, Version, WriteOptions, Writer};
use sluice_value::{HashRef, ListRef, SetRef, ZsetRef};

/// Address of the value in memory (of the key, if the value is an integer); only for display.
pub fn address_of(entry: Entry<'_>) -> *const u8 {
    match entry.value() {
        ValueRef::Str(Str::Inline(bytes)) => bytes.as_ptr(),
        ValueRef::Str(Str::Shared(bytes)) => bytes.as_ptr(),
        ValueRef::Str(Str::Pages(pages)) => std::ptr::from_ref(pages).cast(),
        ValueRef::Str(Str::Int(_)) => entry.key().as_ptr(),
        ValueRef::List(ListRef::Inline { bytes, .. }) => bytes.as_ptr(),
        ValueRef::List(ListRef::Value(list)) => std::ptr::from_ref(list).cast(),
        ValueRef::Hash(HashRef::Inline { bytes, .. }) => bytes.as_ptr(),
        ValueRef::Hash(HashRef::Value(hash)) => std::ptr::from_ref(hash).cast(),
        ValueRef::Stream(stream) => std::ptr::from_ref(stream).cast(),
        ValueRef::Set(SetRef::Inline { bytes, .. }) => bytes.as_ptr(),
        ValueRef::Set(SetRef::Value(set)) => std::ptr::from_ref(set).cast(),
        ValueRef::Zset(ZsetRef::Inline { bytes, .. }) => bytes.as_ptr(),
        ValueRef::Zset(ZsetRef::Value(zset)) => std::ptr::from_ref(zset).cast(),
    }
}

/// Uncompressed length of a value in a snapshot, in bytes; `list_fill` is
/// `list-max-listpack-size`. Cost: O(value).
pub fn serialized_len(value: ValueRef<'_>, list_fill: i32) -> usize {
    match value {
        ValueRef::Str(text) => str_len(text),
        ValueRef::List(list) => {
            serialized_bytes(|writer, give| writer.list(b"", list, list_fill, None, Usage::Absent, give))
        }
        ValueRef::Hash(hash) => {
            serialized_bytes(|writer, mut give| writer.hash(b"", hash, None, Usage::Absent, &mut give))
        }
        ValueRef::Stream(stream) => {
            serialized_bytes(|writer, mut give| writer.stream(b"", stream, None, Usage::Absent, &mut give))
        }
        ValueRef::Set(set) => {
            serialized_bytes(|writer, mut give| writer.set(b"", set, None, Usage::Absent, &mut give))
        }
        ValueRef::Zset(zset) => {
            serialized_bytes(|writer, give| writer.zset(b"", zset, None, Usage::Absent, give))
        }
    }
}

/// Uncompressed length of a string in a snapshot: a number that fits 32 bits has the smallest width that
/// holds it; any other string has a length of 1, 2 or 5 bytes in front.
fn str_len(value: Str<'_>) -> usize {
    let as_int = match value {
        Str::Int(n) => Some(n),
        Str::Inline(bytes) if bytes.len() <= 11 => sluice_base::num::parse_i64(bytes),
        Str::Inline(_) | Str::Shared(_) | Str::Pages(_) => None,
    };
    match as_int {
        Some(n) if i8::try_from(n).is_ok() => 2,
        Some(n) if i16::try_from(n).is_ok() => 3,
        Some(n) if i32::try_from(n).is_ok() => 5,
        _ => len_of_len(value.len()) + value.len(),
    }
}

/// Length of the value that `write` writes for an entry with an empty key.
fn serialized_bytes(write: impl FnOnce(&mut Writer, &mut dyn FnMut(Bytes))) -> usize {
    let mut writer = Writer::new(WriteOptions {
        version: Version::Valkey,
        compression: Compression::None,
        checksum: false,
    });
    let before = writer.pending();
    let mut given = 0;
    write(&mut writer, &mut |piece| given += piece.len());
    // The type and the empty key, one byte each, are not counted.
    given + writer.pending() - before - 2
}

fn len_of_len(len: usize) -> usize {
    match len {
        0..=63 => 1,
        64..=16_383 => 2,
        _ => 5,
    }
}
