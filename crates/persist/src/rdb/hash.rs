//! Hashes in files: their forms, and building a hash while it is read.

use sluice_base::num::IntBuffer;
use sluice_collections::listpack::{self, Element};
use sluice_value::{Hash, HashContext, HashExpiry, HashField, HashLimits, HashRef, ListItem};

use super::ziplist;

/// The form of a hash in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashForm {
    Pairs,
    /// Fields and values, each pair with its expiry.
    Volatile,
    Zipmap,
    Ziplist,
    Listpack,
    /// Fields that expire, as Redis writes them: the earliest expiry, ms since the epoch; then for each
    /// field a number, the field and the value. The number is 0, or the field's expiry counted from one
    /// millisecond before the earliest.
    RedisPairs,
    /// The earliest expiry and one listpack: field, value, expiry in ms since the epoch or 0.
    RedisListpack,
    /// Fields as release candidates of Redis 7.4 wrote them: each field's expiry in ms since the epoch
    /// or 0, with field and value.
    DraftPairs,
    /// One listpack as in [`HashForm::RedisListpack`], without the earliest expiry in front.
    DraftListpack,
}

impl HashForm {
    /// Whether the fields are stored one by one.
    pub(super) fn is_counted(self) -> bool {
        match self {
            HashForm::Pairs | HashForm::Volatile | HashForm::RedisPairs | HashForm::DraftPairs => true,
            HashForm::Zipmap
            | HashForm::Ziplist
            | HashForm::Listpack
            | HashForm::RedisListpack
            | HashForm::DraftListpack => false,
        }
    }

    /// Whether the earliest expiry of the fields comes first.
    pub(super) fn begins_with_expiry(self) -> bool {
        matches!(self, HashForm::RedisPairs | HashForm::RedisListpack)
    }

    /// Whether fields may expire.
    fn is_volatile(self) -> bool {
        match self {
            HashForm::Volatile
            | HashForm::RedisPairs
            | HashForm::RedisListpack
            | HashForm::DraftPairs
            | HashForm::DraftListpack => true,
            HashForm::Pairs | HashForm::Zipmap | HashForm::Ziplist | HashForm::Listpack => false,
        }
    }
}

/// A hash that is being loaded.
#[derive(Debug)]
pub(super) struct HashBuilder {
    hash: Hash,
    context: HashContext,
    /// The earliest expiry of the fields, ms since the epoch, for [`HashForm::RedisPairs`]; 1 for
    /// [`HashForm::DraftPairs`]; not used for other forms.
    first_expiry_ms: i64,
}

impl HashBuilder {
    /// An empty hash with these thresholds, which will have `count` fields.
    pub(super) fn new(form: HashForm, first_expiry_ms: i64, count: u64, limits: HashLimits) -> HashBuilder {
        let mut hash = Hash::new();
        if form.is_volatile() || count > limits.max_entries as u64 {
            hash.convert(limits);
        }
        HashBuilder { hash, context: HashContext { limits, garbage: Vec::new() }, first_expiry_ms }
    }

    /// The expiry of a field in the form of Redis, `None` if the field has none. Errors: the number is no
    /// valid expiry.
    pub(super) fn expiry_of(&self, counted: u64) -> Result<Option<i64>, ()> {
        let Some(behind) = counted.checked_sub(1) else { return Ok(None) };
        let at = i64::try_from(behind).ok().and_then(|behind| self.first_expiry_ms.checked_add(behind));
        at.filter(|at| *at >= 0).map(Some).ok_or(())
    }

    /// Adds a field; `false` if the hash already has one of that name.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8], expiry: Option<i64>) -> bool {
        let expiry = expiry.map_or(HashExpiry::Clear, HashExpiry::At);
        self.hash.set(name, value, expiry, &mut self.context)
    }

    /// The hash; `None` if it has no field.
    pub(super) fn finish(self) -> Option<Hash> {
        if self.hash.is_empty() { None } else { Some(self.hash) }
    }
}

/// The hash of a form that is one text. `None` if the bytes are malformed, a field occurs twice, a zipmap is
/// empty, or the form is not one text. A hash that is no zipmap may be empty.
pub(super) fn of_text(form: HashForm, bytes: &[u8], limits: HashLimits) -> Option<Hash> {
    match form {
        HashForm::Zipmap => of_zipmap(bytes, limits),
        HashForm::Ziplist => of_listpack(&ziplist::to_listpack(bytes)?, limits),
        HashForm::Listpack if listpack::is_valid(bytes) => of_listpack(bytes, limits),
        HashForm::RedisListpack | HashForm::DraftListpack if listpack::is_valid(bytes) => {
            of_triplets(bytes, limits)
        }
        HashForm::Listpack
        | HashForm::RedisListpack
        | HashForm::DraftListpack
        | HashForm::Pairs
        | HashForm::Volatile
        | HashForm::RedisPairs
        | HashForm::DraftPairs => None,
    }
}

/// The hash of a listpack of fields, values and expiries.
fn of_triplets(bytes: &[u8], limits: HashLimits) -> Option<Hash> {
    let text = |element: Element<'_>| match element {
        Element::Int(number) => number.to_string().into_bytes(),
        Element::Bytes(text) => text.to_vec(),
    };
    let mut builder = HashBuilder::new(HashForm::RedisListpack, 0, 0, limits);
    let mut elements = listpack::iter(bytes);
    while let Some(field) = elements.next() {
        let (value, expiry) = (elements.next()?, elements.next()?);
        let expiry = match expiry {
            Element::Int(at) if at >= 0 => Some(at).filter(|at| *at > 0),
            Element::Int(_) | Element::Bytes(_) => return None,
        };
        if !builder.add(&text(field), &text(value), expiry) {
            return None;
        }
    }
    Some(builder.hash)
}

fn of_listpack(bytes: &[u8], limits: HashLimits) -> Option<Hash> {
    let is_canonical = |element: Element<'_>| match element {
        Element::Int(_) => true,
        Element::Bytes(text) => Element::of(text) == element,
    };
    let mut hash = if listpack::iter(bytes).all(is_canonical) {
        Hash::from_row(listpack::entries(bytes))?
    } else {
        // Another server may have stored the digits of an integer as a string; each element is converted to
        // the form that this server would choose.
        let mut row = listpack::new();
        for element in listpack::iter(bytes) {
            let added = match element {
                Element::Int(number) => listpack::push_back(&mut row, number.to_string().as_bytes()),
                Element::Bytes(text) => listpack::push_back(&mut row, text),
            };
            if !added {
                return None;
            }
        }
        Hash::from_row(listpack::entries(&row))?
    };
    hash.convert_after_loading(limits);
    Some(hash)
}

/// The hash of a zipmap: the number of pairs, or `FE` if it does not fit in a byte, the pairs, `FF`. A
/// length is a byte up to 253, or `FE` and a u32, little endian. A byte between the length of a value
/// and the value is the number of unused bytes after the value.
fn of_zipmap(bytes: &[u8], limits: HashLimits) -> Option<Hash> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut builder = HashBuilder::new(HashForm::Pairs, 0, 0, limits);
    let mut pairs = 0;
    loop {
        if let [ZIPMAP_END] = rest {
            if count != ZIPMAP_LONG && usize::from(count) != pairs {
                return None;
            }
            // The reference neither writes nor reads a zipmap without fields.
            return builder.finish();
        }
        let (name, behind) = zipmap_text(rest, false)?;
        let (value, behind) = zipmap_text(behind, true)?;
        if !builder.add(name, value, None) {
            return None;
        }
        rest = behind;
        pairs += 1;
    }
}

fn zipmap_text(bytes: &[u8], has_free: bool) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (len, rest) = match first {
        ZIPMAP_END => return None,
        ZIPMAP_LONG => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            let len = u32::from_le_bytes(*len) as usize;
            // A length that fits in a byte must be stored in a byte.
            if len < usize::from(ZIPMAP_LONG) {
                return None;
            }
            (len, rest)
        }
        len => (usize::from(len), rest),
    };
    let (free, rest) =
        if has_free { rest.split_first().map(|(free, rest)| (usize::from(*free), rest))? } else { (0, rest) };
    let (text, rest) = rest.split_at_checked(len)?;
    Some((text, rest.get(free..)?))
}

/// Fields with values and expiries, sorted by name; for tests and fuzzing.
pub(super) fn parts(hash: HashRef<'_>) -> Vec<Vec<u8>> {
    let text = |item: ListItem<'_>| item.bytes(&mut IntBuffer::new()).to_vec();
    let each = |field: HashField<'_>| {
        let expiry = field.expiry.map_or(String::new(), |at| at.to_string());
        [text(field.name), text(field.value), expiry.into_bytes()]
    };
    let mut all: Vec<[Vec<u8>; 3]> = hash.iter().map(each).collect();
    all.sort();
    all.into_iter().flatten().collect()
}

const ZIPMAP_END: u8 = 0xff;
const ZIPMAP_LONG: u8 = 0xfe;

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(hash: &Hash) -> Vec<(Vec<u8>, Vec<u8>)> {
        let text = |item: sluice_value::ListItem<'_>| item.bytes(&mut IntBuffer::new()).to_vec();
        hash.view().iter().map(|field| (text(field.name), text(field.value))).collect()
    }

    const ZIPMAP: &[u8] = b"\x02\x01a\x02\x01xy_\x03foo\x01\x00z\xff";

    #[test]
    fn a_zipmap_is_read() {
        let hash = of_text(HashForm::Zipmap, ZIPMAP, HashLimits::default()).expect("it is one");
        assert_eq!(pairs(&hash), [(b"a".to_vec(), b"xy".to_vec()), (b"foo".to_vec(), b"z".to_vec())]);
        let long = [&b"\x01\xfe\x2c\x01\0\0"[..], &[b'n'; 300], b"\x01\x00z\xff"].concat();
        let hash = of_text(HashForm::Zipmap, &long, HashLimits::default()).expect("it is one");
        assert_eq!(pairs(&hash), [(vec![b'n'; 300], b"z".to_vec())]);
    }

    #[test]
    fn what_is_no_zipmap_is_refused() {
        for cut in 0..ZIPMAP.len() {
            assert!(of_text(HashForm::Zipmap, &ZIPMAP[..cut], HashLimits::default()).is_none(), "{cut}");
        }
        for bad in [
            &b"\x02\x01a\x01\x00x\x01a\x01\x00y\xff"[..],
            b"\0\xff",
            b"\x02\xfe\x03\0\0\0foo\x01\x00z\xff",
            b"\x01\xfe\xff\xff\xff\xffab\x01\x00x\xff",
            b"\x01\x01a\x01\xffx\xff",
        ] {
            assert!(of_text(HashForm::Zipmap, bad, HashLimits::default()).is_none());
        }
    }

    #[test]
    fn digits_written_as_a_string_are_an_integer_to_every_reader() {
        // `12` as a string, which the writer of a listpack never produces.
        let listpack = b"\x0e\0\0\0\x02\0\x8212\x03\x81v\x02\xff";
        let hash = of_text(HashForm::Listpack, listpack, HashLimits::default()).expect("it is a listpack");
        assert!(hash.view().get(b"12").is_some());
        let twice = b"\x13\0\0\0\x04\0\x8212\x03\x81v\x02\x0c\x01\x81v\x02\xff";
        assert!(of_text(HashForm::Listpack, twice, HashLimits::default()).is_none(), "a field stands twice");
    }
}
