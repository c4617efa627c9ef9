//! Counts and searches bits in part of a value.

use sluice_collections::bits;
use sluice_keyspace::Str;
use sluice_value::Piece;
use std::ops::Range;

/// Number of bits of `range` that are set.
pub(crate) fn count_in(text: Str<'_>, range: Range<usize>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let mut count = 0;
    text.for_each_piece(range.start / 8..range.end.div_ceil(8), |piece| match piece {
        Piece::Zeros(_) => {}
        Piece::Page(_) | Piece::Part(_) => count += bits::count(piece.bytes()),
    });
    // Whole bytes were counted; the bits of the first and the last byte that lie outside the
    // range are subtracted.
    let before = byte_at(text, range.start / 8) & !(0xff >> (range.start % 8));
    let behind = if range.end.is_multiple_of(8) {
        0
    } else {
        byte_at(text, range.end / 8) & (0xff >> (range.end % 8))
    };
    count - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

fn byte_at(text: Str<'_>, at: usize) -> u8 {
    let mut byte = [0];
    text.copy_at(at, &mut byte);
    byte[0]
}

/// Position of the first bit of `range` with the value `wanted`.
pub(crate) fn position_in(text: Str<'_>, range: Range<usize>, wanted: bool) -> Option<usize> {
    if range.is_empty() {
        return None;
    }
    // The first byte is searched alone, with its bits before the range set to the other value.
    let outside = !(0xff >> (range.start % 8));
    let first = byte_at(text, range.start / 8);
    let first = if wanted { first & !outside } else { first | outside };
    let mut at = range.start / 8 * 8;
    let mut found = bits::position(&[first], wanted).map(|bit| at + bit);
    at += 8;
    if found.is_none() {
        text.for_each_piece(at / 8..range.end.div_ceil(8), |piece| {
            let is_skipped = found.is_some() || wanted && matches!(piece, Piece::Zeros(_));
            let bytes = piece.bytes();
            if !is_skipped {
                found = bits::position(bytes, wanted).map(|bit| at + bit);
            }
            at += bytes.len() * 8;
        });
    }
    found.filter(|at| *at < range.end)
}
