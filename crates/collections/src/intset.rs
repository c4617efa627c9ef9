//! The intset: distinct integers in ascending order, in the format of snapshots. All integers have the same
//! width: that of the widest integer ever added. The width never shrinks.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | bytes of an integer, little endian: 2, 4 or 8 |
//! | 4 | 4 | number of integers, little endian |
//! | 8 | … | the integers, little endian |
//!
//! Invariant: functions that only read accept any bytes without a panic; their results are meaningless for
//! bytes that are not [`is_valid`]. Changes need valid bytes.

/// Bytes in front of the integers.
pub const HEADER_LEN: usize = 8;

/// An empty intset.
pub fn new() -> Vec<u8> {
    let mut intset = Vec::with_capacity(HEADER_LEN + 8);
    set_header(&mut intset, 2, 0);
    intset
}

/// Whether the bytes are a valid intset. Checks the width, the number and the order of the integers. Cost:
/// O(n).
pub fn is_valid(intset: &[u8]) -> bool {
    let Some((width, count)) = header(intset) else { return false };
    let is_width = matches!(width, 2 | 4 | 8);
    if !is_width || count.checked_mul(width).and_then(|len| len.checked_add(HEADER_LEN)) != Some(intset.len())
    {
        return false;
    }
    iter(intset).is_sorted_by(|a, b| a < b)
}

/// Number of integers. O(1).
pub fn len(intset: &[u8]) -> usize {
    header(intset).map_or(0, |(width, count)| count.min(numbers(intset).len() / width.max(1)))
}

/// The integer at `index`.
pub fn get(intset: &[u8], index: usize) -> Option<i64> {
    let (width, _) = header(intset)?;
    (index < len(intset)).then(|| read(numbers(intset), width, index))
}

/// The integers in ascending order.
pub fn iter(intset: &[u8]) -> Iter<'_> {
    let width = header(intset).map_or(2, |(width, _)| width);
    Iter { numbers: numbers(intset), width, at: 0, end: len(intset) }
}

/// Iterator over the integers of an intset, which can be read from both ends.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    numbers: &'a [u8],
    width: usize,
    at: usize,
    end: usize,
}

impl Iterator for Iter<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.at == self.end {
            return None;
        }
        self.at += 1;
        Some(read(self.numbers, self.width, self.at - 1))
    }

    fn nth(&mut self, n: usize) -> Option<i64> {
        self.at = self.at.saturating_add(n).min(self.end);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.at, Some(self.end - self.at))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<i64> {
        if self.at == self.end {
            return None;
        }
        self.end -= 1;
        Some(read(self.numbers, self.width, self.end))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Whether the intset has an integer. Cost: O(log n).
pub fn contains(intset: &[u8], number: i64) -> bool {
    search(intset, number).is_ok()
}

/// Adds an integer; returns whether it is new. Cost: O(n).
pub fn insert(intset: &mut Vec<u8>, number: i64) -> bool {
    let Err(at) = search(intset, number) else { return false };
    let (width, count) = (header(intset).map_or(2, |(width, _)| width), len(intset));
    let wanted = width_of(number);
    if wanted > width {
        // The integer needs more bytes than the others have, so it is smaller or larger than all of them.
        let mut all: Vec<i64> = iter(intset).collect();
        all.insert(at, number);
        intset.clear();
        intset.reserve_exact(HEADER_LEN + all.len() * wanted);
        set_header(intset, wanted, all.len());
        all.iter().for_each(|number| intset.extend_from_slice(&number.to_le_bytes()[..wanted]));
        return true;
    }
    let offset = HEADER_LEN + at * width;
    intset.splice(offset..offset, number.to_le_bytes()[..width].iter().copied());
    set_header(intset, width, count + 1);
    true
}

/// Removes an integer; returns whether it existed. Cost: O(n).
pub fn remove(intset: &mut Vec<u8>, number: i64) -> bool {
    let Ok(at) = search(intset, number) else { return false };
    let (width, count) = (header(intset).map_or(2, |(width, _)| width), len(intset));
    let offset = HEADER_LEN + at * width;
    intset.drain(offset..offset + width);
    set_header(intset, width, count - 1);
    true
}

/// The position of the integer (`Ok`), or the position at which it would be inserted (`Err`).
fn search(intset: &[u8], number: i64) -> Result<usize, usize> {
    let Some((width, _)) = header(intset) else { return Err(0) };
    let numbers = numbers(intset);
    let (mut low, mut high) = (0, len(intset));
    while low < high {
        let middle = low.midpoint(high);
        match read(numbers, width, middle).cmp(&number) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Ok(middle),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

fn header(intset: &[u8]) -> Option<(usize, usize)> {
    let [a, b, c, d, e, f, g, h] = *intset.first_chunk::<HEADER_LEN>()?;
    Some((u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize))
}

fn numbers(intset: &[u8]) -> &[u8] {
    intset.get(HEADER_LEN..).unwrap_or_default()
}

/// The integer at an index, which must exist.
fn read(numbers: &[u8], width: usize, index: usize) -> i64 {
    let bytes = numbers.get(index * width..).unwrap_or_default();
    match width {
        2 => bytes.first_chunk().map_or(0, |bytes| i64::from(i16::from_le_bytes(*bytes))),
        4 => bytes.first_chunk().map_or(0, |bytes| i64::from(i32::from_le_bytes(*bytes))),
        _ => bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)),
    }
}

/// The smallest width that holds an integer: 2, 4 or 8 bytes.
fn width_of(number: i64) -> usize {
    match number {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}

fn set_header(intset: &mut Vec<u8>, width: usize, count: usize) {
    if intset.len() < HEADER_LEN {
        intset.resize(HEADER_LEN, 0);
    }
    intset[..4].copy_from_slice(&(width as u32).to_le_bytes());
    intset[4..HEADER_LEN].copy_from_slice(&(count as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_an_ordered_set() {
        let mut rng = Rng::new(1);
        for round in 0..60 {
            let (mut intset, mut naive) = (new(), BTreeSet::new());
            for _ in 0..300 {
                let wide =
                    rng.next_u64() as i64 >> [63, 55, 50, 40, 20, 0][rng.below(1 + round % 6) as usize];
                let number = if rng.below(2) == 0 { wide } else { rng.below(40) as i64 - 20 };
                if rng.below(3) < 2 {
                    assert_eq!(insert(&mut intset, number), naive.insert(number));
                } else {
                    assert_eq!(remove(&mut intset, number), naive.remove(&number));
                }
                assert_eq!(contains(&intset, number), naive.contains(&number));
                assert!(is_valid(&intset));
            }
            assert!(iter(&intset).eq(naive.iter().copied()));
            assert!(iter(&intset).rev().eq(naive.iter().rev().copied()));
            assert_eq!(len(&intset), naive.len());
            for (index, number) in naive.iter().enumerate() {
                assert_eq!(get(&intset, index), Some(*number));
                assert_eq!(iter(&intset).nth(index), Some(*number));
            }
            assert_eq!(get(&intset, naive.len()), None);
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_reference() {
        let mut intset = new();
        [5, -1, 1000].iter().for_each(|number| assert!(insert(&mut intset, *number)));
        assert_eq!(intset, b"\x02\0\0\0\x03\0\0\0\xff\xff\x05\0\xe8\x03");
        insert(&mut intset, 70_000);
        assert_eq!(intset, b"\x04\0\0\0\x04\0\0\0\xff\xff\xff\xff\x05\0\0\0\xe8\x03\0\0\x70\x11\x01\0");
        remove(&mut intset, 70_000);
        assert_eq!(intset, b"\x04\0\0\0\x03\0\0\0\xff\xff\xff\xff\x05\0\0\0\xe8\x03\0\0", "the width stays");
        insert(&mut intset, -0x8000_0001);
        assert_eq!(intset[..8], *b"\x08\0\0\0\x04\0\0\0");
        assert_eq!(get(&intset, 0), Some(-0x8000_0001));
    }

    #[test]
    fn what_is_no_intset_is_invalid_and_survived() {
        let mut good = new();
        [1, 2, 3].iter().for_each(|number| assert!(insert(&mut good, *number)));
        assert!(is_valid(&good));
        let mut rng = Rng::new(2);
        for bad in [
            &b""[..],
            b"\x02\0\0\0",
            b"\x03\0\0\0\0\0\0\0",
            b"\x02\0\0\0\xff\xff\xff\xff",
            b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0",
        ] {
            assert!(!is_valid(bad));
        }
        for _ in 0..5000 {
            let mut bytes = good.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
            bytes.truncate(rng.below(20) as usize);
            iter(&bytes).for_each(drop);
            contains(&bytes, 2);
            get(&bytes, 1);
        }
    }
}
