//! BITCOUNT and BITPOS.

mod slow;

use crate::args::Args;
use crate::ctx::{Outcome, ReadCtx, Run};
use crate::error::CmdError;
use sluice_collections::bits;
use sluice_keyspace::Str;
use sluice_value::Piece;
use std::ops::Range;

/// The part of a string that a command is about, as it was asked for.
#[derive(Clone, Copy)]
struct BitPart {
    start: i64,
    end: Option<i64>,
    /// Start and end are bits, not bytes.
    in_bits: bool,
}

impl BitPart {
    /// The arguments from `first` on: start, end and unit, each of which may be missing with those behind it.
    fn parse(args: Args<'_>, first: usize) -> Result<BitPart, CmdError> {
        let mut part = BitPart { start: 0, end: None, in_bits: false };
        if args.len() > first + 3 {
            return Err(CmdError::Syntax);
        }
        if args.len() > first {
            part.start = args.int(first)?;
        }
        if args.len() > first + 2 {
            part.in_bits = match () {
                () if args.is(first + 2, "BIT") => true,
                () if args.is(first + 2, "BYTE") => false,
                () => return Err(CmdError::Syntax),
            };
        }
        if args.len() > first + 1 {
            part.end = Some(args.int(first + 1)?);
        }
        Ok(part)
    }

    /// The bits of a string of `len` bytes; empty where start lies behind end.
    fn bits(self, len: usize) -> Range<usize> {
        let unit = if self.in_bits { 1 } else { 8 };
        let all = (len * 8 / unit) as i64;
        let end = self.end.unwrap_or(-1);
        // Both before the beginning, in the wrong order, select nothing even where both would be cut to the first.
        if self.start < 0 && end < 0 && self.start > end {
            return 0..0;
        }
        let from_end = |at: i64| if at < 0 { all.saturating_add(at).max(0) } else { at };
        let (start, end) = (from_end(self.start), from_end(end).min(all - 1));
        if start > end {
            return 0..0;
        }
        start as usize * unit..(end as usize + 1) * unit
    }
}

pub(super) fn bitcount(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let part = BitPart::parse(args, 2)?;
    let count = match ctx.db.get(args.key(1)) {
        Some(entry) => {
            let text = entry.as_str()?;
            let bits = part.bits(text.len());
            if ctx.slow.suits_bytes(bits.len() / 8) {
                return ctx.slow.begin(|| slow::bitcount(text, bits));
            }
            count_in(text, bits)
        }
        None => 0,
    };
    ctx.reply.int(count as i64);
    Ok(Outcome::Done)
}

/// How many bits of `range` are set.
fn count_in(text: Str<'_>, range: Range<usize>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let mut count = 0;
    text.for_each_piece(range.start / 8..range.end.div_ceil(8), |piece| match piece {
        Piece::Zeros(_) => {}
        Piece::Page(_) | Piece::Part(_) => count += bits::count(piece.bytes()),
    });
    // What was counted of the first and of the last byte beside the range.
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

pub(super) fn bitpos(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let wanted = match args.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(CmdError::text("ERR The bit argument must be 1 or 0.")),
    };
    let part = BitPart::parse(args, 3)?;
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.int(if wanted { -1 } else { 0 });
        return Ok(Outcome::Done);
    };
    let text = entry.as_str()?;
    let range = part.bits(text.len());
    // Without an end, zeros follow the string.
    let is_followed = !wanted && part.end.is_none() && !range.is_empty();
    let not_found = if is_followed { range.end as i64 } else { -1 };
    if ctx.slow.suits_bytes(range.len() / 8) {
        return ctx.slow.begin(|| slow::bitpos(text, range, wanted, not_found));
    }
    let position = position_in(text, range, wanted).map_or(not_found, |at| at as i64);
    ctx.reply.int(position);
    Ok(Outcome::Done)
}

/// The first bit of `range` that is `wanted`.
fn position_in(text: Str<'_>, range: Range<usize>, wanted: bool) -> Option<usize> {
    if range.is_empty() {
        return None;
    }
    // The first byte alone: its bits before the range are none of the wanted.
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
