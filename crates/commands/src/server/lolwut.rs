//! LOLWUT: a picture of water, and the version.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_base::version;

const COLUMNS_MAX: i64 = 1000;
const ROWS_MAX: i64 = 500;
const SYNTAX: CmdError = CmdError::text("ERR Syntax error. Use: LOLWUT [columns rows] [real imaginary]");

/// The arguments that a picture accepts. They are those of the reference's pictures, because clients may send
/// them.
enum Picture {
    /// Any number of arguments, of which the first ones, up to this number, must be integers.
    Loose(usize),
    /// No argument, a size, or a size and two floats.
    Strict,
    /// Arguments are ignored; the reply is only the version.
    None,
}

/// Draws ripples on water: `LOLWUT [VERSION n] [columns] [rows]`. Versions 5, 6 and 9 and a call without
/// VERSION draw the same picture, and accept the arguments that the reference's picture of that version
/// accepts; any other version is replied to without a picture.
pub(super) fn lolwut(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (picture, at) = picture(args)?;
    match picture {
        Picture::Loose(integers) => {
            (at..args.len().min(at + integers)).try_for_each(|index| args.int(index).map(drop))?;
        }
        Picture::Strict => {
            if !matches!(args.len() - at, 0 | 2 | 4) {
                return Err(SYNTAX);
            }
            (at..args.len().min(at + 2)).try_for_each(|index| args.int(index).map(drop))?;
            let float = |word| sluice_base::num::parse_f64(word).filter(|float| !float.is_nan());
            if !args.iter_from(at + 2).all(|word| float(word).is_some()) {
                return Err(CmdError::NotFloat);
            }
        }
        Picture::None => {
            let (name, version) = signature(ctx);
            ctx.reply.verbatim(b"txt", format!("{name} ver.{version}\n").as_bytes());
            return Ok(Outcome::Done);
        }
    }
    let size = |index, default, max: i64| -> Result<i64, CmdError> {
        if args.len() > index { Ok(args.int(index)?.clamp(1, max)) } else { Ok(default) }
    };
    let (columns, rows) = (size(at, 66, COLUMNS_MAX)?, size(at + 1, 16, ROWS_MAX)?);
    draw(ctx, columns, rows);
    Ok(Outcome::Done)
}

/// The requested picture, and the position of its first argument.
fn picture(args: Args<'_>) -> Result<(Picture, usize), CmdError> {
    if !args.is(1, "VERSION") {
        return Ok((Picture::Strict, 1));
    }
    if args.len() < 3 {
        return Err(SYNTAX);
    }
    // The reference keeps only 32 bits of the number.
    let picture = match args.int(2)? as u32 {
        5 => Picture::Loose(3),
        6 => Picture::Loose(2),
        9 => Picture::Strict,
        _ => Picture::None,
    };
    Ok((picture, 3))
}

fn signature(ctx: &ReadCtx<'_>) -> (&'static str, &'static str) {
    if ctx.limits.redis_names {
        ("Redis", version::REDIS_COMPATIBLE)
    } else {
        ("Valkey", version::COMPATIBLE)
    }
}

fn draw(ctx: &mut ReadCtx<'_>, columns: i64, rows: i64) {
    let mut text = String::with_capacity(((columns + 1) * rows + 64) as usize);
    let (x, y) = (ctx.rng.below(columns as u64) as i64, ctx.rng.below(rows as u64) as i64);
    for row in 0..rows {
        for column in 0..columns {
            text.push(ripple(column - x, row - y));
        }
        text.push('\n');
    }
    let (name, version) = signature(ctx);
    text.push_str(&format!("\nWater finds its way. {name} ver. {version}\n"));
    ctx.reply.verbatim(b"txt", text.as_bytes());
}

/// The character of the surface at a distance from a drop; characters are twice as high as wide.
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
