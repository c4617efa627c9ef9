//! Searches in bytes at the speed of memory: a byte, another byte, a text.

/// Bytes that are compared at a time; compilers make vector instructions of loops over so many.
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

/// How far a search for a text came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanProgress {
    /// The text begins here.
    Found(usize),
    /// The text is nowhere.
    Nothing,
    /// The fuel is used up: search on from here.
    OutOfFuel(usize),
}

/// Looks for `needle` in `text` from `from` on. Takes a unit of fuel for 16 bytes and for each comparison, so that texts made to
/// cost the product of both lengths end with the fuel.
pub(crate) fn find_text(text: &[u8], needle: &[u8], from: usize, fuel: &mut u64) -> ScanProgress {
    const WINDOW: usize = 4096;
    let Some((&first, rest)) = needle.split_first() else { return ScanProgress::Found(from) };
    let mut at = from;
    loop {
        if text.len() < needle.len() || at > text.len() - needle.len() {
            return ScanProgress::Nothing;
        }
        let last = text.len() - needle.len();
        if *fuel == 0 {
            return ScanProgress::OutOfFuel(at);
        }
        let window = &text[at..=last.min(at + WINDOW)];
        let Some(found) = find_byte(window, first) else {
            *fuel = fuel.saturating_sub((window.len() / 16 + 1) as u64);
            at += window.len();
            continue;
        };
        at += found;
        let compared = &text[at + 1..at + needle.len()];
        let cost = if rest.len() < 64 {
            found / 16 + 1
        } else {
            found / 16 + 1 + common_prefix(compared, rest) / 16
        };
        *fuel = fuel.saturating_sub(cost as u64);
        if compared == rest {
            return ScanProgress::Found(at);
        }
        at += 1;
    }
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let (left, _) = left.as_chunks::<LANE>();
    let (right, _) = right.as_chunks::<LANE>();
    left.iter().zip(right).take_while(|(left, right)| left == right).count() * LANE
}
