//! Values on their way into an entry.

use crate::Str;
use crate::entry::{self, Form};
use sluice_base::Bytes;
use sluice_value::{
    Hash, HashEncoding, List, ListEncoding, PAGE_BYTES, Pages, Set, SetEncoding, Stream, Value, Zset,
    ZsetEncoding,
};

/// What to store.
#[derive(Debug)]
pub enum NewValue<'a> {
    /// A string in its canonical encoding: an integer where the bytes are one.
    Str(&'a [u8]),
    /// The same, of bytes that others may hold too: they become the value without a copy where they are too many for the
    /// entry.
    StrShared(&'a Bytes),
    /// An integer.
    Int(i64),
    /// A string kept as bytes even where they are a number's: what INCRBYFLOAT makes.
    Plain(&'a [u8]),
    /// The same, marked `raw`: what APPEND and SETRANGE make.
    Raw(&'a [u8]),
    /// The same with bytes of its own, which become the value without a copy where they are too many for the entry.
    RawOwned(Vec<u8>),
    /// A string in pages, of more bytes than one page has.
    Pages(Pages),
    /// A list, which must not be empty.
    List(List),
    /// A hash, which must not be empty.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
    /// A sorted set, which must not be empty.
    Zset(Zset),
    /// A set, which must not be empty.
    Set(Set),
}

impl NewValue<'_> {
    /// The string `text` with `bytes` written at `offset`, behind zeros where it ended before.
    pub(crate) fn written(text: Str<'_>, offset: usize, bytes: &[u8]) -> NewValue<'static> {
        let end = text.len().max(offset + bytes.len());
        if end > PAGE_BYTES {
            let mut pages = Pages::new();
            text.for_each_slice(|slice| pages.append(slice));
            pages.write_at(offset, bytes);
            return NewValue::Pages(pages);
        }
        let mut value = text.to_vec_for(end);
        value.resize(end, 0);
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        NewValue::RawOwned(value)
    }
}

/// A string of more bytes than this is kept in pages, even if it is written whole.
const WHOLE_BYTES_MAX: usize = 1 << 20;

/// A value with its location decided: what the block holds, or a value that goes outside.
pub(crate) enum Payload<'a> {
    /// The payload of [`Form::StrInt`]; made here, since an integer comes without bytes.
    Int([u8; 8]),
    /// The payload of a form.
    Borrowed(Form, &'a [u8]),
    /// The same.
    Owned(Form, Vec<u8>),
    /// A value whose index becomes the payload of a form.
    Outside(Form, Value),
}

impl<'a> Payload<'a> {
    /// Decides about the location of `value` beside a key of that length.
    #[inline]
    pub fn of(key_len: usize, has_expiry: bool, value: NewValue<'a>) -> Payload<'a> {
        let placed = |form, bytes: &'a [u8]| {
            if entry::fits_inside(key_len, has_expiry, bytes.len()) {
                Payload::Borrowed(form, bytes)
            } else {
                Payload::large_string(bytes)
            }
        };
        match value {
            NewValue::Str(bytes) => match sluice_base::num::parse_i64(bytes) {
                Some(n) => Payload::Int(n.to_le_bytes()),
                None => placed(Form::StrInline, bytes),
            },
            NewValue::StrShared(bytes) => match sluice_base::num::parse_i64(bytes) {
                Some(n) => Payload::Int(n.to_le_bytes()),
                None if entry::fits_inside(key_len, has_expiry, bytes.len()) => {
                    Payload::Borrowed(Form::StrInline, bytes)
                }
                None => Payload::string_outside(bytes.clone()),
            },
            NewValue::Int(n) => Payload::Int(n.to_le_bytes()),
            NewValue::Plain(bytes) => placed(Form::StrInline, bytes),
            NewValue::Raw(bytes) => placed(Form::StrInlineRaw, bytes),
            NewValue::Pages(pages) => Payload::Outside(Form::StrOutside, Value::Pages(pages)),
            NewValue::List(list) => Payload::list(key_len, has_expiry, list),
            NewValue::Set(set) => Payload::set(key_len, has_expiry, set),
            NewValue::Hash(hash) => Payload::hash(key_len, has_expiry, hash),
            NewValue::Stream(stream) => Payload::Outside(Form::StreamOutside, Value::Stream(stream)),
            NewValue::Zset(zset) => Payload::zset(key_len, has_expiry, zset),
            NewValue::RawOwned(bytes) => Payload::moved(key_len, has_expiry, Form::StrInlineRaw, bytes),
        }
    }

    /// The payload of an entry that moves to another block; a value that does not fit the new one goes outside.
    pub fn moved(key_len: usize, has_expiry: bool, form: Form, bytes: Vec<u8>) -> Payload<'a> {
        if entry::fits_inside(key_len, has_expiry, bytes.len()) {
            return Payload::Owned(form, bytes);
        }
        match form {
            Form::StrInline | Form::StrInlineRaw => Payload::string_outside(Bytes::from_vec(bytes)),
            Form::ListInlineListpack => Payload::list_outside(&bytes, ListEncoding::Listpack),
            Form::ListInlineQuicklist => Payload::list_outside(&bytes, ListEncoding::Quicklist),
            Form::HashInlineListpack => Payload::hash_outside(&bytes, HashEncoding::Listpack),
            Form::HashInlineHashtable => Payload::hash_outside(&bytes, HashEncoding::Hashtable),
            Form::ZsetInlineListpack => Payload::zset_outside(&bytes, ZsetEncoding::Listpack),
            Form::ZsetInlineSkiplist => Payload::zset_outside(&bytes, ZsetEncoding::Skiplist),
            Form::SetInlineIntset => Payload::set_outside(&bytes, SetEncoding::Intset),
            Form::SetInlineListpack => Payload::set_outside(&bytes, SetEncoding::Listpack),
            Form::SetInlineHashtable => Payload::set_outside(&bytes, SetEncoding::Hashtable),
            // Eight bytes and four fit beside every name.
            Form::StrInt
            | Form::StrOutside
            | Form::ListOutside
            | Form::HashOutside
            | Form::StreamOutside
            | Form::ZsetOutside
            | Form::SetOutside => Payload::Owned(form, bytes),
        }
    }

    fn list(key_len: usize, has_expiry: bool, list: List) -> Payload<'a> {
        match list.inline_len() {
            Some(len) if entry::fits_inside(key_len, has_expiry, len) => {
                let mut bytes = vec![0; len];
                list.write_inline(&mut bytes);
                Payload::Owned(Form::list_inline(list.encoding()), bytes)
            }
            Some(_) | None => Payload::Outside(Form::ListOutside, Value::List(list)),
        }
    }

    fn list_outside(bytes: &[u8], encoding: ListEncoding) -> Payload<'a> {
        Payload::Outside(Form::ListOutside, Value::List(List::from_inline(bytes, encoding)))
    }

    fn hash(key_len: usize, has_expiry: bool, hash: Hash) -> Payload<'a> {
        match hash.inline_len() {
            Some(len) if entry::fits_inside(key_len, has_expiry, len) => {
                let mut bytes = vec![0; len];
                hash.write_inline(&mut bytes);
                Payload::Owned(Form::hash_inline(hash.encoding()), bytes)
            }
            Some(_) | None => Payload::Outside(Form::HashOutside, Value::Hash(hash)),
        }
    }

    fn hash_outside(bytes: &[u8], encoding: HashEncoding) -> Payload<'a> {
        Payload::Outside(Form::HashOutside, Value::Hash(Hash::from_inline(bytes, encoding)))
    }

    fn zset(key_len: usize, has_expiry: bool, zset: Zset) -> Payload<'a> {
        match zset.inline_len() {
            Some(len) if entry::fits_inside(key_len, has_expiry, len) => {
                let mut bytes = vec![0; len];
                zset.write_inline(&mut bytes);
                Payload::Owned(Form::zset_inline(zset.encoding()), bytes)
            }
            Some(_) | None => Payload::Outside(Form::ZsetOutside, Value::Zset(zset)),
        }
    }

    fn zset_outside(bytes: &[u8], encoding: ZsetEncoding) -> Payload<'a> {
        Payload::Outside(Form::ZsetOutside, Value::Zset(Zset::from_inline(bytes, encoding)))
    }

    fn set(key_len: usize, has_expiry: bool, set: Set) -> Payload<'a> {
        match set.inline_len() {
            Some(len) if entry::fits_inside(key_len, has_expiry, len) => {
                let mut bytes = vec![0; len];
                set.write_inline(&mut bytes);
                Payload::Owned(Form::set_inline(set.encoding()), bytes)
            }
            Some(_) | None => Payload::Outside(Form::SetOutside, Value::Set(set)),
        }
    }

    fn set_outside(bytes: &[u8], encoding: SetEncoding) -> Payload<'a> {
        Payload::Outside(Form::SetOutside, Value::Set(Set::from_inline(bytes, encoding)))
    }

    /// A string that was written whole.
    #[cold]
    fn large_string(bytes: &[u8]) -> Payload<'a> {
        if bytes.len() > WHOLE_BYTES_MAX {
            return Payload::Outside(Form::StrOutside, Value::Pages(Pages::copy_from(bytes)));
        }
        Payload::string_outside(Bytes::copy_from(bytes))
    }

    fn string_outside(bytes: Bytes) -> Payload<'a> {
        Payload::Outside(Form::StrOutside, Value::Str(bytes))
    }

    /// The form and bytes of a payload that needs nothing outside.
    #[inline]
    pub fn inside(&self) -> Option<(Form, &[u8])> {
        match self {
            Payload::Int(bytes) => Some((Form::StrInt, bytes)),
            Payload::Borrowed(form, bytes) => Some((*form, bytes)),
            Payload::Owned(form, bytes) => Some((*form, bytes)),
            Payload::Outside(..) => None,
        }
    }

    /// The same payload in the form `form`, which must keep its value in the same location.
    pub(crate) fn with_form(self, form: Form) -> Payload<'a> {
        match self {
            Payload::Int(_) => self,
            Payload::Borrowed(_, bytes) => Payload::Borrowed(form, bytes),
            Payload::Owned(_, bytes) => Payload::Owned(form, bytes),
            Payload::Outside(_, value) => Payload::Outside(form, value),
        }
    }
}
