//! PFDEBUG and PFSELFTEST.

use crate::args::Args;
use crate::ctx::{StaticCtx, WriteCtx};
use crate::error::{CmdError, until_zero};
use crate::hyperloglog::common::read;
use crate::outcome::{Outcome, Run};
use sluice_base::Rng;
use sluice_keyspace::Event;
use sluice_value::hll::{Hll, HllEncoding, REGISTERS, RegisterMark};

pub(super) fn pfdebug(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    if args.is(1, "SIMD") {
        return simd(ctx, args);
    }
    let Some(entry) = ctx.db.get_uncounted(args.key(2)) else {
        return Err(CmdError::text("ERR The specified key does not exist"));
    };
    let hll = read(entry)?;
    match () {
        () if args.is(1, "GETREG") => {
            make_dense(ctx, args, hll.clone())?;
            let mut registers = [0; REGISTERS];
            hll.merge_into(&mut registers)?;
            ctx.reply.array(REGISTERS);
            registers.iter().for_each(|value| ctx.reply.int(i64::from(*value)));
        }
        () if args.is(1, "DECODE") => match hll.decoded() {
            Some(text) => ctx.reply.bulk(text.as_bytes()),
            None => return Err(CmdError::text("ERR HLL encoding is not sparse")),
        },
        () if args.is(1, "ENCODING") => ctx.reply.simple(match hll.encoding() {
            HllEncoding::Dense => b"dense",
            HllEncoding::Sparse => b"sparse",
        }),
        () if args.is(1, "TODENSE") => {
            let made = make_dense(ctx, args, hll)?;
            ctx.reply.int(i64::from(made));
        }
        () => {
            let name = until_zero(args.at(1)).escape_ascii();
            return Err(CmdError::owned(format!("ERR Unknown PFDEBUG subcommand '{name}'")));
        }
    }
    Ok(Outcome::Done)
}

/// Accepts the switch, which has no effect, because there is only one way to merge registers.
fn simd(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    match () {
        () if args.is(2, "ON") => ctx.reply.simple(b"enabled"),
        () if args.is(2, "OFF") => ctx.reply.simple(b"disabled"),
        () => return Err(CmdError::text("ERR Argument must be ON or OFF")),
    }
    Ok(Outcome::Done)
}

/// Converts a sparse HyperLogLog to the dense form; the result is whether it was sparse.
fn make_dense(ctx: &mut WriteCtx<'_>, args: Args<'_>, mut hll: Hll) -> Result<bool, CmdError> {
    let was_sparse = hll.encoding() == HllEncoding::Sparse;
    hll.make_dense()?;
    let mut edit = ctx.db.edit_str(args.key(2), 0)?;
    if was_sparse {
        edit.replace(hll.into_bytes());
        edit.done(Event::Silent, 1);
    } else {
        edit.unchanged();
    }
    Ok(was_sparse)
}

pub(super) fn pfselftest(ctx: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    let mut rng = Rng::new(ctx.now.mono_ns);
    test_estimates(&mut rng)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Adds elements to a sparse and to a dense HyperLogLog. At each power of ten, their estimates must agree and
/// be near the true count.
fn test_estimates(rng: &mut Rng) -> Result<(), CmdError> {
    let (mut sparse, mut dense) = (Hll::empty(), Hll::empty());
    dense.make_dense()?;
    let mut checked_at = 1;
    for count in 1..=TESTED_ELEMENTS {
        let mark = RegisterMark::of(&rng.next_u64().to_le_bytes());
        sparse.add(mark, SPARSE_BYTES_MAX)?;
        dense.add(mark, SPARSE_BYTES_MAX)?;
        if count == checked_at {
            let (estimate, other) = (dense.estimate()?, sparse.estimate()?);
            // The tolerated error is four standard errors, but at least ten elements.
            let tolerated = (4 * count * 104 / 12_800).max(10);
            if estimate != other || estimate.abs_diff(count) > tolerated {
                let text =
                    format!("TESTFAILED Too big error. card:{count} abserr:{}", estimate.abs_diff(count));
                return Err(CmdError::owned(text));
            }
            checked_at *= 10;
        }
    }
    Ok(())
}

const TESTED_ELEMENTS: u64 = 1_000_000;
/// The default of `hll-sparse-max-bytes`.
const SPARSE_BYTES_MAX: usize = 3000;
