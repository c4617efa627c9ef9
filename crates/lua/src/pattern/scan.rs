//! Searches in bytes at memory speed: for a byte, for any other byte, for a text.

/// Bytes compared at a time; compilers turn loops of this length into vector instructions.
const LANE: usize = 32;

/// Index of the first `byte`.
#[inline]
pub(crate) fn find_byte(text: &[u8], byte: u8) -> Option<usize> {
    find_lane(text, |other| other == byte)
}

/// Index of the first byte that is not `byte`.
#[inline]
pub(crate) fn find_other(text: &[u8], byte: u8) -> Option<usize> {
    find_lane(text, |other| other != byte)
}

#[inline]
fn find_lane(text: &[u8], is_wanted: impl Fn(u8) -> bool + Copy) -> Option<usize> {
    let (lanes, rest) = text.as_chunks::<LANE>();
    for (index, lane) in lanes.iter().enumerate() {
        let hit = lane.iter().fold(0u8, |hit, &byte| hit | u8::from(is_wanted(byte)));
        if hit != 0 {
            let inside = lane.iter().position(|&byte| is_wanted(byte)).unwrap_or(0);
            return Some(index * LANE + inside);
        }
    }
    rest.iter().position(|&byte| is_wanted(byte)).map(|index| lanes.len() * LANE + index)
}

/// The result of a search for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanProgress {
    /// The text begins at this index.
    Found(usize),
    /// The text does not occur.
    Nothing,
    /// The fuel is used up: continue the search at this index.
    OutOfFuel(usize),
}

/// Searches `text` for `needle`, from `from` on. Uses a unit of fuel for 16 bytes and for each comparison,
/// so that a search whose time grows with the product of both lengths stops when the fuel is used up.
pub(crate) fn find_text(text: &[u8], needle: &[u8], from: usize, fuel: &mut u64) -> ScanProgress {
    const WINDOW: usize = 4096;
    let (Some(&first), Some(&last)) = (needle.first(), needle.last()) else {
        return ScanProgress::Found(from);
    };
    let mut at = from;
    loop {
        if text.len() < needle.len() || at > text.len() - needle.len() {
            return ScanProgress::Nothing;
        }
        if *fuel == 0 {
            return ScanProgress::OutOfFuel(at);
        }
        // The search looks for positions with the needle's first byte that also have its last byte at the
        // right distance.
        let count = (text.len() - needle.len() + 1 - at).min(WINDOW);
        let begins = &text[at..at + count];
        let ends = &text[at + needle.len() - 1..][..count];
        let found = find_pair(begins, ends, first, last);
        *fuel = fuel.saturating_sub((found.unwrap_or(count) / 16 + 1) as u64);
        let Some(found) = found else {
            at += count;
            continue;
        };
        at += found;
        let candidate = &text[at..at + needle.len()];
        if needle.len() >= 64 {
            *fuel = fuel.saturating_sub((common_prefix(candidate, needle) / 16) as u64);
        }
        if candidate == needle {
            return ScanProgress::Found(at);
        }
        at += 1;
    }
}

/// The first index at which `begins` holds `first` and `ends`, of the same length, holds `last`.
#[inline]
fn find_pair(begins: &[u8], ends: &[u8], first: u8, last: u8) -> Option<usize> {
    let (lanes, rest) = begins.as_chunks::<LANE>();
    let (end_lanes, end_rest) = ends.as_chunks::<LANE>();
    for (index, (lane, end_lane)) in lanes.iter().zip(end_lanes).enumerate() {
        let mut hit = 0u8;
        for (begin, end) in lane.iter().zip(end_lane) {
            hit |= u8::from(*begin == first) & u8::from(*end == last);
        }
        if hit != 0 {
            let mut pairs = lane.iter().zip(end_lane);
            let inside = pairs.position(|(begin, end)| *begin == first && *end == last).unwrap_or(0);
            return Some(index * LANE + inside);
        }
    }
    let mut pairs = rest.iter().zip(end_rest);
    let inside = pairs.position(|(begin, end)| *begin == first && *end == last)?;
    Some(lanes.len() * LANE + inside)
}

/// The number of equal bytes at the beginning of `left` and `right`, counted in whole lanes.
pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let (left, _) = left.as_chunks::<LANE>();
    let (right, _) = right.as_chunks::<LANE>();
    left.iter().zip(right).take_while(|(left, right)| left == right).count() * LANE
}
