//! LCS: the longest common subsequence of two strings.
//!
//! ```text
//!           m y n e w t e x t        length[i][j]: of the LCS of the first i and first j bytes
//!        0 0 0 0 0 0 0 0 0 0         where bytes agree:  length[i-1][j-1] + 1
//!     o  0 0 0 0 0 0 0 0 0 0         elsewhere: the larger of above and left;
//!     h  0 0 0 0 0 0 0 0 0 0         one bit says whether above is larger
//!     m  0 1 1 1 1 1 1 1 1 1
//!    ...
//! ```
//!
//! Tracing the subsequence back from the bottom right corner needs only these bits and the two strings. The
//! bits take 1/32 of the memory of a table of four-byte lengths, or more if the second string is short,
//! because each row is rounded up to whole 64-bit words. The size limit is still that of the full table,
//! because clients know it.

mod search;
mod slow;

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::lcs::search::{LcsOptions, LcsReply, Search, check_size};
use sluice_keyspace::{Entry, Str, WrongType};
use std::borrow::Cow;

pub(super) fn lcs(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (a, b) = (string_at(ctx, args, 1), string_at(ctx, args, 2));
    let (Ok(a), Ok(b)) = (a, b) else {
        return Err(CmdError::text("ERR The specified keys must contain string values"));
    };
    let options = parse(args)?;
    check_size(a.len(), b.len(), ctx.limits.proto_max_bulk_len)?;
    if ctx.slow.suits_bytes(a.len().saturating_mul(b.len())) {
        return ctx.slow.begin(|| slow::lcs(a, b, options));
    }
    let (a, b) = (in_one_piece(a), in_one_piece(b));
    let mut search = Search::new(&a, &b, options.asked)?;
    search.fill(&a, &b, usize::MAX);
    search.reply(&mut ctx.reply, &a, &b, &options);
    Ok(Outcome::Done)
}

/// The string of the key at `index`; empty if the key is absent.
fn string_at<'a>(ctx: &mut ReadCtx<'a>, args: Args<'_>, index: usize) -> Result<Str<'a>, WrongType> {
    ctx.db.get(args.key(index)).map_or(Ok(Str::Inline(b"")), Entry::as_str)
}

/// The bytes of a string. A string in pages is copied. The table of lengths that [`check_size`] has allowed
/// would have four bytes for each pair of positions, so the copies take at most a quarter of its size.
fn in_one_piece(value: Str<'_>) -> Cow<'_, [u8]> {
    match value {
        Str::Int(_) | Str::Pages(_) => Cow::Owned(value.to_vec()),
        Str::Inline(bytes) => Cow::Borrowed(bytes),
        Str::Shared(bytes) => Cow::Borrowed(&bytes[..]),
    }
}

fn parse(args: Args<'_>) -> Result<LcsOptions, CmdError> {
    let (mut len, mut idx) = (false, false);
    let mut options = LcsOptions { asked: LcsReply::Bytes, match_len_min: 0, with_match_len: false };
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "LEN") {
            len = true;
        } else if args.is(i, "IDX") {
            idx = true;
        } else if args.is(i, "WITHMATCHLEN") {
            options.with_match_len = true;
        } else if args.is(i, "MINMATCHLEN") && i + 1 < args.len() {
            options.match_len_min = args.int(i + 1)?;
            i += 1;
        } else {
            return Err(CmdError::Syntax);
        }
        i += 1;
    }
    options.asked = match (len, idx) {
        (false, false) => LcsReply::Bytes,
        (true, false) => LcsReply::Length,
        (false, true) => LcsReply::Matches,
        (true, true) => {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(CmdError::text(text));
        }
    };
    Ok(options)
}
