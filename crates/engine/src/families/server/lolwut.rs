//! LOLWUT: water, and the version.

use crate::args::Args;
use crate::ctx::{Outcome, ReadCtx, Run};
use crate::error::CmdError;
use crate::version;

const COLUMNS_MAX: i64 = 1000;
const ROWS_MAX: i64 = 500;

/// Draws ripples on water: `LOLWUT [VERSION n] [columns] [rows]`. Every version has the same picture.
pub(super) fn lolwut(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut at = 1;
    if args.is(1, "VERSION") {
        if args.len() < 3 {
            return Err(CmdError::text("ERR Syntax error. Use: LOLWUT [columns rows] [real imaginary]"));
        }
        args.int(2)?;
        at = 3;
    }
    let size = |index, default, max: i64| -> Result<i64, CmdError> {
        if args.len() > index { Ok(args.int(index)?.clamp(1, max)) } else { Ok(default) }
    };
    let (columns, rows) = (size(at, 66, COLUMNS_MAX)?, size(at + 1, 16, ROWS_MAX)?);
    let mut text = String::with_capacity(((columns + 1) * rows + 64) as usize);
    let (x, y) = (ctx.rng.below(columns as u64) as i64, ctx.rng.below(rows as u64) as i64);
    for row in 0..rows {
        for column in 0..columns {
            text.push(ripple(column - x, row - y));
        }
        text.push('\n');
    }
    let (name, version) = match ctx.limits.redis_names {
        true => ("Redis", version::REDIS_COMPATIBLE),
        false => ("Valkey", version::COMPATIBLE),
    };
    text.push_str(&format!("\nWater finds its way. {name} ver. {version}\n"));
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

/// The surface at a distance from where a drop fell; characters are twice as high as wide.
fn ripple(dx: i64, dy: i64) -> char {
    let distance = ((dx * dx + 4 * dy * dy) as f64).sqrt();
    let height = (distance * 0.9).cos() / (1.0 + distance * 0.05);
    match height {
        h if h > 0.6 => 'O',
        h if h > 0.3 => 'o',
        h if h > 0.1 => '~',
        h if h > -0.1 => '-',
        _ => ' ',
    }
}
