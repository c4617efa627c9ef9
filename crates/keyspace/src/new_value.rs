//! Values to be stored in an entry.

use crate::Str;
use crate::collection::Collection;
use crate::entry::{self, Form, FormKind};
use sluice_base::Bytes;
use sluice_value::{Hash, List, PAGE_BYTES, Pages, Set, Stream, Value, Zset};

/// A value to be stored under a key.
#[derive(Debug)]
pub enum NewValue<'a> {
    /// A string in its canonical encoding, which is an integer if the bytes are the decimal form of one.
    Str(&'a [u8]),
    /// A string whose bytes other owners may share. They become the value without a copy if they are too
    /// long for the entry.
    StrShared(&'a Bytes),
    /// A string that is the decimal form of an integer.
    Int(i64),
    /// A string that is stored as bytes even if they are the decimal form of an integer, such as the result
    /// of INCRBYFLOAT.
    Plain(&'a [u8]),
    /// A string marked `raw`, whose bytes are copied.
    Raw(&'a [u8]),
    /// A string marked `raw`, such as the result of APPEND; its bytes become the value without a copy if they
    /// are too long for the entry.
    RawOwned(Vec<u8>),
    /// A string in pages, longer than one page.
    Pages(Pages),
    /// A list, which must not be empty.
    List(List),
    /// A hash, which must not be empty.
    Hash(Hash),
    /// A stream, which may be empty.
    Stream(Stream),
    /// A sorted set, which must not be empty.
    Zset(Zset),
    /// A set, which must not be empty.
    Set(Set),
}

impl NewValue<'_> {
    /// The string `text` with `bytes` written at `offset`; zeros fill any gap after its end.
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

/// Length in bytes above which a string is stored in pages if it is written as a whole and has to be copied
/// for that.
const WHOLE_BYTES_MAX: usize = 1 << 20;

/// A value whose location is decided: either the payload that the block holds, or a value that goes outside.
pub(crate) enum Payload<'a> {
    /// The payload of [`Form::StrInt`]; made here, because an integer has no bytes yet.
    Int([u8; 8]),
    /// The payload of a form, borrowed.
    Borrowed(Form, &'a [u8]),
    /// The payload of a form, owned here until it is written into the block.
    Owned(Form, Vec<u8>),
    /// A value whose index becomes the payload of a form.
    Outside(Form, Value),
}

impl<'a> Payload<'a> {
    /// Decides the location of `value` in an entry with a key of `key_len` bytes.
    #[inline]
    pub fn of(key_len: usize, has_expiry: bool, value: NewValue<'a>) -> Payload<'a> {
        let inside_or_large = |form, bytes: &'a [u8]| {
            if entry::fits_string(key_len, has_expiry, bytes.len()) {
                Payload::Borrowed(form, bytes)
            } else {
                Payload::large_string(bytes)
            }
        };
        match value {
            NewValue::Str(bytes) => match sluice_base::num::parse_i64(bytes) {
                Some(n) => Payload::Int(n.to_le_bytes()),
                None => inside_or_large(Form::StrInline, bytes),
            },
            NewValue::StrShared(bytes) => match sluice_base::num::parse_i64(bytes) {
                Some(n) => Payload::Int(n.to_le_bytes()),
                None if entry::fits_string(key_len, has_expiry, bytes.len()) => {
                    Payload::Borrowed(Form::StrInline, bytes)
                }
                None => Payload::string_outside(bytes.clone()),
            },
            NewValue::Int(n) => Payload::Int(n.to_le_bytes()),
            NewValue::Plain(bytes) => inside_or_large(Form::StrInline, bytes),
            NewValue::Raw(bytes) => inside_or_large(Form::StrInlineRaw, bytes),
            NewValue::Pages(pages) => Payload::Outside(Form::StrOutside, Value::Pages(pages)),
            NewValue::List(list) => Payload::collection(key_len, has_expiry, list),
            NewValue::Set(set) => Payload::collection(key_len, has_expiry, set),
            NewValue::Hash(hash) => Payload::collection(key_len, has_expiry, hash),
            NewValue::Stream(stream) => Payload::Outside(Form::StreamOutside, Value::Stream(stream)),
            NewValue::Zset(zset) => Payload::collection(key_len, has_expiry, zset),
            NewValue::RawOwned(bytes) => Payload::moved(key_len, has_expiry, Form::StrInlineRaw, bytes),
        }
    }

    /// The payload of an entry that moves to another block; a value that does not fit the new
    /// block goes outside.
    pub fn moved(key_len: usize, has_expiry: bool, form: Form, bytes: Vec<u8>) -> Payload<'a> {
        let is_string = form == Form::StrInline || form == Form::StrInlineRaw;
        let fits = if is_string { entry::fits_string } else { entry::fits_inside };
        if fits(key_len, has_expiry, bytes.len()) {
            return Payload::Owned(form, bytes);
        }
        match form.kind() {
            FormKind::Str if is_string => Payload::string_outside(Bytes::from_vec(bytes)),
            FormKind::List(Some(encoding)) => Payload::outside(List::from_inline(&bytes, encoding)),
            FormKind::Hash(Some(encoding)) => Payload::outside(Hash::from_inline(&bytes, encoding)),
            FormKind::Zset(Some(encoding)) => Payload::outside(Zset::from_inline(&bytes, encoding)),
            FormKind::Set(Some(encoding)) => Payload::outside(Set::from_inline(&bytes, encoding)),
            // These payloads have eight bytes (an integer) or four (an index outside), which fit
            // beside every key.
            FormKind::Str
            | FormKind::List(None)
            | FormKind::Hash(None)
            | FormKind::Zset(None)
            | FormKind::Set(None)
            | FormKind::Stream => Payload::Owned(form, bytes),
        }
    }

    fn collection<C: Collection>(key_len: usize, has_expiry: bool, value: C) -> Payload<'a> {
        match value.inline_len() {
            Some(len) if entry::fits_inside(key_len, has_expiry, len) => {
                let mut bytes = vec![0; len];
                value.write_inline(&mut bytes);
                Payload::Owned(C::inline_form(value.encoding()), bytes)
            }
            Some(_) | None => Payload::outside(value),
        }
    }

    /// The payload of a collection outside its entry.
    pub(crate) fn outside<C: Collection>(value: C) -> Payload<'a> {
        Payload::Outside(C::OUTSIDE, value.into_value())
    }

    /// The payload of a string that does not fit the block. The string is copied, into pages if it is very
    /// long.
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

    /// The form and bytes of a payload that needs nothing outside the block.
    #[inline]
    pub fn inside(&self) -> Option<(Form, &[u8])> {
        match self {
            Payload::Int(bytes) => Some((Form::StrInt, bytes)),
            Payload::Borrowed(form, bytes) => Some((*form, bytes)),
            Payload::Owned(form, bytes) => Some((*form, bytes)),
            Payload::Outside(..) => None,
        }
    }

    /// The payload with another form, which must keep the value in the same location; an integer stays as it
    /// is.
    pub(crate) fn with_form(self, form: Form) -> Payload<'a> {
        match self {
            Payload::Int(_) => self,
            Payload::Borrowed(_, bytes) => Payload::Borrowed(form, bytes),
            Payload::Owned(_, bytes) => Payload::Owned(form, bytes),
            Payload::Outside(_, value) => Payload::Outside(form, value),
        }
    }
}
