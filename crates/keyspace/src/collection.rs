//! Collections: what the keyspace must know about a type whose values lie inside the block of their
//! entry while they are small, and outside otherwise.
//!
//! Code that opens, changes, closes and moves a collection is written once, for a [`Collection`], and
//! compiled for each type. A stream is not a [`Collection`]: its values always lie outside their entry.

use crate::entry::{Form, FormKind, corrupt_entry};
use sluice_base::HashSeed;
use sluice_value::{Hash, HashContext, HashEncoding, HashLimits};
use sluice_value::{List, ListContext, ListEncoding, ListLimits};
use sluice_value::{Set, SetContext, SetEncoding, SetLimits};
use sluice_value::{Stream, Value, Zset, ZsetContext, ZsetEncoding, ZsetLimits};

/// The content of one variant of [`Value`]. Access to a value of another variant panics, because an entry's
/// form determines the variant, so a wrong variant means that memory is corrupt.
pub trait Variant: Sized {
    /// Borrows the content of the value.
    fn of(value: &Value) -> &Self;
    /// Borrows the content of the value for a change.
    fn of_mut(value: &mut Value) -> &mut Self;
    /// The value with this content.
    fn into_value(self) -> Value;
}

/// A collection that lies inside the block of its entry or outside.
pub trait Collection: Variant + Default {
    /// The encodings that OBJECT ENCODING distinguishes.
    type Encoding: Copy + PartialEq;
    /// The thresholds between the encodings.
    type Limits;
    /// Settings that changes read (limits, hash seed), and the values that they leave to be freed.
    type Context;
    /// The form of an entry whose collection lies outside.
    const OUTSIDE: Form;

    /// The encoding of a form: `Some(Some(…))` if the block holds the collection; `Some(None)` if the
    /// collection lies outside and itself knows its encoding; `None` for a form of another type.
    fn encoding_in(form: Form) -> Option<Option<Self::Encoding>>;
    /// The form of an entry whose block holds a collection of that encoding.
    fn inline_form(encoding: Self::Encoding) -> Form;
    /// The scratch collection of this type; `None` while it is in use, and before its first use.
    fn scratch(kept: &mut Scratch) -> &mut Option<Self>;
    /// The context of a change. `seed` hashes the members of large sorted sets; the other types do not use
    /// it.
    fn context(limits: Self::Limits, seed: HashSeed) -> Self::Context;

    /// Number of elements: fields, members or list elements.
    fn len(&self) -> usize;
    /// Whether there are no elements.
    fn is_empty(&self) -> bool;
    /// The encoding to report.
    fn encoding(&self) -> Self::Encoding;
    /// Bytes that the collection has allocated. O(1).
    fn heap_bytes(&self) -> usize;
    /// Number of bytes that [`Collection::write_inline`] writes; `None` if the collection cannot be inside a
    /// block, for example because it is too large.
    fn inline_len(&self) -> Option<usize>;
    /// Writes the inline form into `out`, whose length is [`Collection::inline_len`].
    fn write_inline(&self, out: &mut [u8]);
    /// Replaces the contents of this collection, in its existing memory, with the collection that
    /// [`Collection::write_inline`] wrote.
    fn load_inline(&mut self, bytes: &[u8], encoding: Self::Encoding);
    /// The collection that [`Collection::write_inline`] wrote.
    fn from_inline(bytes: &[u8], encoding: Self::Encoding) -> Self;

    /// Whether the collection's memory is worth keeping for reuse: it is small and not shared.
    #[inline]
    fn is_scratch(&self) -> bool {
        true
    }
    /// The earliest expiry of an element, in ms; `None` if no element expires.
    #[inline]
    fn earliest(&self) -> Option<i64> {
        None
    }
    /// Whether the collection holds memory of removed elements, which compaction clears.
    #[inline]
    fn has_remains(&self) -> bool {
        false
    }
}

/// A spare collection of each type, whose memory is reused. The spare collection is filled with an inline
/// collection while that one is changed, and takes the place of an outside collection while that one is
/// changed. Otherwise its elements are meaningless.
#[derive(Default)]
pub struct Scratch {
    list: Option<List>,
    hash: Option<Hash>,
    zset: Option<Zset>,
    set: Option<Set>,
}

impl Scratch {
    /// Bytes that all scratch collections have allocated. O(1).
    pub(crate) fn heap_bytes(&self) -> usize {
        self.list.as_ref().map_or(0, List::heap_bytes)
            + self.hash.as_ref().map_or(0, Hash::heap_bytes)
            + self.zset.as_ref().map_or(0, Zset::heap_bytes)
            + self.set.as_ref().map_or(0, Set::heap_bytes)
    }
}

macro_rules! variants {
    ($($variant:ident)+) => { $(
        impl Variant for $variant {
            #[inline]
            fn of(value: &Value) -> &$variant {
                let Value::$variant(held) = value else { corrupt_entry() };
                held
            }
            #[inline]
            fn of_mut(value: &mut Value) -> &mut $variant {
                let Value::$variant(held) = value else { corrupt_entry() };
                held
            }
            #[inline]
            fn into_value(self) -> Value {
                Value::$variant(self)
            }
        }
    )+ };
}

variants! { List Hash Zset Set Stream }

/// Implements the part of [`Collection`] in which the types differ by names alone: the type, its encodings
/// with the form that each has inside the block, the form outside the block, and the field of `Scratch`.
macro_rules! by_name {
    ($type:ident, $encoding:ident { $($name:ident => $form:ident),+ }, $outside:ident, $scratch:ident) => {
        type Encoding = $encoding;
        const OUTSIDE: Form = Form::$outside;

        #[inline]
        fn encoding_in(form: Form) -> Option<Option<$encoding>> {
            let FormKind::$type(encoding) = form.kind() else { return None };
            Some(encoding)
        }
        #[inline]
        fn inline_form(encoding: $encoding) -> Form {
            match encoding {
                $($encoding::$name => Form::$form,)+
            }
        }
        #[inline]
        fn scratch(kept: &mut Scratch) -> &mut Option<$type> {
            &mut kept.$scratch
        }
        #[inline]
        fn len(&self) -> usize {
            $type::len(self)
        }
        #[inline]
        fn is_empty(&self) -> bool {
            $type::is_empty(self)
        }
        #[inline]
        fn encoding(&self) -> $encoding {
            $type::encoding(self)
        }
        #[inline]
        fn heap_bytes(&self) -> usize {
            $type::heap_bytes(self)
        }
        #[inline]
        fn inline_len(&self) -> Option<usize> {
            $type::inline_len(self)
        }
        #[inline]
        fn write_inline(&self, out: &mut [u8]) {
            $type::write_inline(self, out);
        }
        #[inline]
        fn load_inline(&mut self, bytes: &[u8], encoding: $encoding) {
            $type::load_inline(self, bytes, encoding);
        }
        #[inline]
        fn from_inline(bytes: &[u8], encoding: $encoding) -> $type {
            $type::from_inline(bytes, encoding)
        }
    };
}

impl Collection for List {
    by_name! {
        List, ListEncoding { Listpack => ListInlineListpack, Quicklist => ListInlineQuicklist }, ListOutside, list
    }
    type Limits = ListLimits;
    type Context = ListContext;

    #[inline]
    fn context(limits: ListLimits, _: HashSeed) -> ListContext {
        ListContext { limits, ..ListContext::default() }
    }
}

impl Collection for Hash {
    by_name! {
        Hash, HashEncoding { Listpack => HashInlineListpack, Hashtable => HashInlineHashtable }, HashOutside, hash
    }
    type Limits = HashLimits;
    type Context = HashContext;

    #[inline]
    fn context(limits: HashLimits, _: HashSeed) -> HashContext {
        HashContext { limits, ..HashContext::default() }
    }

    #[inline]
    fn is_scratch(&self) -> bool {
        Hash::is_scratch(self)
    }

    #[inline]
    fn earliest(&self) -> Option<i64> {
        self.view().earliest()
    }
}

impl Collection for Zset {
    by_name! {
        Zset, ZsetEncoding { Listpack => ZsetInlineListpack, Skiplist => ZsetInlineSkiplist }, ZsetOutside, zset
    }
    type Limits = ZsetLimits;
    type Context = ZsetContext;

    #[inline]
    fn context(limits: ZsetLimits, seed: HashSeed) -> ZsetContext {
        ZsetContext::new(limits, seed)
    }

    #[inline]
    fn has_remains(&self) -> bool {
        Zset::has_remains(self)
    }
}

impl Collection for Set {
    by_name! {
        Set,
        SetEncoding { Intset => SetInlineIntset, Listpack => SetInlineListpack, Hashtable => SetInlineHashtable },
        SetOutside,
        set
    }
    type Limits = SetLimits;
    type Context = SetContext;

    #[inline]
    fn context(limits: SetLimits, _: HashSeed) -> SetContext {
        SetContext { limits, ..SetContext::default() }
    }

    #[inline]
    fn is_scratch(&self) -> bool {
        Set::is_scratch(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Checks every encoding that a type's forms have, and that the type recognises its own form outside the
    /// block but none of the `others`.
    fn check<C: Collection<Encoding: Debug>>(encodings: &[C::Encoding], others: &[Form]) {
        for encoding in encodings {
            assert_eq!(C::encoding_in(C::inline_form(*encoding)), Some(Some(*encoding)));
            assert!(!C::inline_form(*encoding).is_outside());
        }
        assert_eq!(C::encoding_in(C::OUTSIDE), Some(None));
        assert!(C::OUTSIDE.is_outside());
        for other in others {
            assert_eq!(C::encoding_in(*other), None, "{other:?} is of another type");
        }
    }

    #[test]
    fn forms_and_encodings_name_each_other() {
        let list =
            [Form::HashInlineListpack, Form::SetInlineListpack, Form::ZsetOutside, Form::StreamOutside];
        check::<List>(&[ListEncoding::Listpack, ListEncoding::Quicklist], &list);
        let hash = [Form::ListInlineListpack, Form::SetInlineHashtable, Form::SetOutside, Form::StrInline];
        check::<Hash>(&[HashEncoding::Listpack, HashEncoding::Hashtable], &hash);
        let zset = [Form::SetInlineListpack, Form::ListOutside, Form::StrOutside];
        check::<Zset>(&[ZsetEncoding::Listpack, ZsetEncoding::Skiplist], &zset);
        let set = [Form::HashInlineHashtable, Form::ZsetInlineListpack, Form::HashOutside, Form::StrInt];
        check::<Set>(&[SetEncoding::Intset, SetEncoding::Listpack, SetEncoding::Hashtable], &set);
    }
}
