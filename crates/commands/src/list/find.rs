//! LPOS.

use crate::args::{Args, int_from};
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::list::common::{int_with_magnitude, list_of};
use crate::outcome::{Outcome, Run};

/// The options of LPOS.
struct PosOptions {
    /// Number of the first match to return, counted from 1; if negative, matches are counted from the end.
    rank: i64,
    /// Number of matches to return, 0 for all. With `None`, one match is returned, without an array.
    count: Option<usize>,
    /// Number of elements to compare; 0 for all.
    len_max: usize,
}

impl PosOptions {
    fn parse(args: Args<'_>) -> Result<PosOptions, CmdError> {
        let mut options = PosOptions { rank: 1, count: None, len_max: 0 };
        let mut at = 3;
        while at < args.len() {
            let has_value = at + 1 < args.len();
            if has_value && args.is(at, "RANK") {
                options.rank = int_with_magnitude(args, at + 1)?;
                if options.rank == 0 {
                    return Err(CmdError::text(ZERO_RANK));
                }
            } else if has_value && args.is(at, "COUNT") {
                options.count = Some(int_from(args, at + 1, 0, "ERR COUNT can't be negative")?);
            } else if has_value && args.is(at, "MAXLEN") {
                options.len_max = int_from(args, at + 1, 0, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(CmdError::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }
}

const ZERO_RANK: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
     start from the end of the list";

pub(super) fn lpos(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let options = PosOptions::parse(args)?;
    let Some(entry) = ctx.db.get(args.key(1)) else {
        match options.count {
            Some(_) => ctx.reply.array(0),
            None => ctx.reply.null(),
        }
        return Ok(Outcome::Done);
    };
    let list = list_of(entry)?;
    let seen = match options.len_max {
        0 => list.len(),
        len => len.min(list.len()),
    };
    let mut iter =
        if options.rank > 0 { list.iter(0..seen) } else { list.iter_rev(list.len() - seen..list.len()) };
    let mut skip = options.rank.unsigned_abs() - 1;
    let mut next = || loop {
        let index = iter.find_equal(args.at(2))?;
        if skip == 0 {
            return Some(index);
        }
        skip -= 1;
    };
    match options.count {
        None => match next() {
            Some(index) => ctx.reply.int(index as i64),
            None => ctx.reply.null(),
        },
        Some(count) => {
            let deferred = ctx.reply.defer();
            let mut found = 0;
            while (count == 0 || found < count)
                && let Some(index) = next()
            {
                ctx.reply.int(index as i64);
                found += 1;
            }
            ctx.reply.end_array(deferred, found);
        }
    }
    Ok(Outcome::Done)
}
