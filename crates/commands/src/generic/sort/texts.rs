//! The elements to be sorted, in one piece of memory, because an allocation for each element would cost as
//! much as sorting.

use sluice_base::num::IntBuffer;
use sluice_value::ListItem;
use std::cmp::Ordering;

/// The bytes of the elements, and of the values that GET found, concatenated.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
}

/// An element: an integer, or its range in the bytes of [`Texts`].
#[derive(Clone, Copy, Debug)]
pub(super) enum SortText {
    Int(i64),
    Bytes { at: usize, len: usize },
}

impl Texts {
    /// Keeps a copy of an element.
    #[inline]
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) -> SortText {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        SortText::Bytes { at, len: bytes.len() }
    }

    /// The element, to read.
    #[inline]
    pub(super) fn item(&self, text: SortText) -> ListItem<'_> {
        match text {
            SortText::Int(number) => ListItem::Int(number),
            SortText::Bytes { at, len } => ListItem::Bytes(&self.bytes[at..at + len]),
        }
    }

    /// Appends the bytes of an element.
    pub(super) fn append_to(&self, text: SortText, out: &mut Vec<u8>) {
        out.extend_from_slice(self.item(text).bytes(&mut IntBuffer::new()));
    }

    /// Compares the bytes of two elements.
    pub(super) fn compare(&self, a: SortText, b: SortText) -> Ordering {
        match (self.item(a), self.item(b)) {
            (ListItem::Bytes(a), ListItem::Bytes(b)) => a.cmp(b),
            (a, b) => a.bytes(&mut IntBuffer::new()).cmp(b.bytes(&mut IntBuffer::new())),
        }
    }

    /// The first eight bytes of an element as an integer; these integers have the same order as the bytes. A
    /// shorter element is filled with zeros.
    pub(super) fn head(&self, text: SortText) -> u64 {
        let mut head = [0; 8];
        let (item, mut digits) = (self.item(text), IntBuffer::new());
        let bytes = item.bytes(&mut digits);
        let len = bytes.len().min(head.len());
        head[..len].copy_from_slice(&bytes[..len]);
        u64::from_be_bytes(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    #[test]
    fn heads_and_comparisons_agree_with_the_bytes() {
        let mut rng = Rng::new(4);
        let mut texts = Texts::default();
        let mut all: Vec<(SortText, Vec<u8>)> = Vec::new();
        for number in [0, 7, -7, 70, 700, i64::MIN, i64::MAX] {
            all.push((SortText::Int(number), number.to_string().into_bytes()));
        }
        for _ in 0..100 {
            let len = rng.below(12);
            let bytes: Vec<u8> = (0..len).map(|_| [0, b'0', b'7', 255][rng.below(4) as usize]).collect();
            all.push((texts.add_bytes(&bytes), bytes));
        }
        for (a, a_bytes) in &all {
            let mut copy = Vec::new();
            texts.append_to(*a, &mut copy);
            assert_eq!(&copy, a_bytes);
            for (b, b_bytes) in &all {
                let by_head = texts.head(*a).cmp(&texts.head(*b)).then_with(|| texts.compare(*a, *b));
                assert_eq!(by_head, a_bytes.cmp(b_bytes), "{a_bytes:?} {b_bytes:?}");
                assert_eq!(texts.compare(*a, *b), a_bytes.cmp(b_bytes));
            }
        }
    }
}
