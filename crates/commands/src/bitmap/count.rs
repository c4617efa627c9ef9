//! BITCOUNT and BITPOS.

mod scan;
mod slow;

use crate::args::Args;
use crate::bitmap::count::scan::{count_in, position_in};
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use std::ops::Range;

/// The part of a string that a command works on, as the arguments give it.
#[derive(Clone, Copy)]
struct BitPart {
    start: i64,
    end: Option<i64>,
    /// Whether start and end count bits, not bytes.
    in_bits: bool,
}

impl BitPart {
    /// Reads start, end and unit from the arguments from `first` on; the later arguments may be missing.
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

    /// The selected bits of a string of `len` bytes; the range is empty if the start is after the end.
    fn bits(self, len: usize) -> Range<usize> {
        let unit = if self.in_bits { 1 } else { 8 };
        let all = (len * 8 / unit) as i64;
        let end = self.end.unwrap_or(-1);
        let from_end = |at: i64| if at < 0 { all.saturating_add(at).max(0) } else { at };
        let (start, end) = (from_end(self.start), from_end(end).min(all - 1));
        if start > end {
            return 0..0;
        }
        start as usize * unit..(end as usize + 1) * unit
    }

    /// The bits that BITCOUNT counts. If both ends count from the end of the string and are in the wrong
    /// order, nothing is selected, even if clamping would move both to the first unit.
    fn counted_bits(self, len: usize) -> Range<usize> {
        let end = self.end.unwrap_or(-1);
        if self.start < 0 && end < 0 && self.start > end { 0..0 } else { self.bits(len) }
    }
}

pub(super) fn bitcount(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let part = BitPart::parse(args, 2)?;
    let count = match ctx.db.get(args.key(1)) {
        Some(entry) => {
            let text = entry.as_str()?;
            let bits = part.counted_bits(text.len());
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
    // If BITPOS searches a zero without a given end, the string counts as followed by zeros.
    let is_followed = !wanted && part.end.is_none() && !range.is_empty();
    let not_found = if is_followed { range.end as i64 } else { -1 };
    if ctx.slow.suits_bytes(range.len() / 8) {
        return ctx.slow.begin(|| slow::bitpos(text, range, wanted, not_found));
    }
    let position = position_in(text, range, wanted).map_or(not_found, |at| at as i64);
    ctx.reply.int(position);
    Ok(Outcome::Done)
}
