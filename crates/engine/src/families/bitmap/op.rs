//! BITOP.

use crate::args::Args;
use crate::ctx::{Outcome, Run, WriteCtx};
use crate::error::CmdError;
use sluice_keyspace::{Event, NewValue, SetExpiry, Str};
use sluice_value::{PAGE_BYTES, Pages, Type};

#[derive(Clone, Copy, PartialEq, Eq)]
enum BitOp {
    And,
    Or,
    Xor,
    Not,
}

impl BitOp {
    fn parse(args: Args<'_>) -> Result<BitOp, CmdError> {
        let named = [("AND", BitOp::And), ("OR", BitOp::Or), ("XOR", BitOp::Xor), ("NOT", BitOp::Not)];
        let op = named.iter().find(|(name, _)| args.is(1, name)).map(|(_, op)| *op);
        match op {
            Some(BitOp::Not) if args.len() != 4 => {
                Err(CmdError::text("ERR BITOP NOT must be called with a single source key."))
            }
            Some(op) => Ok(op),
            None => Err(CmdError::Syntax),
        }
    }
}

pub(super) fn bitop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let op = BitOp::parse(args)?;
    let mut texts = Vec::with_capacity(args.len() - 3);
    let mut db = ctx.db.as_read_of((3..args.len()).map(|at| args.key(at)), Some(Type::String));
    for at in 3..args.len() {
        texts.push(match db.get(args.key(at)) {
            Some(entry) => entry.as_str()?,
            None => Str::Inline(b""),
        });
    }
    let len = texts.iter().map(|text| text.len()).max().unwrap_or(0);
    let target = args.key(2);
    if len == 0 {
        ctx.db.remove_stored(target, Event::Del);
    } else {
        let result = combine(op, &texts, len);
        ctx.db.set(target, result, SetExpiry::Clear, Event::Set);
    }
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

/// The strings combined, shorter ones as if zeros followed them to `len`.
fn combine(op: BitOp, texts: &[Str<'_>], len: usize) -> NewValue<'static> {
    let mut window = vec![0; len.min(PAGE_BYTES)];
    if len <= PAGE_BYTES {
        combine_at(op, texts, 0, &mut window);
        return NewValue::RawOwned(window);
    }
    let mut pages = Pages::new();
    for at in (0..len).step_by(PAGE_BYTES) {
        let window = &mut window[..PAGE_BYTES.min(len - at)];
        combine_at(op, texts, at, window);
        // Pages of zeros take no memory as long as they are not written.
        if window.iter().any(|byte| *byte != 0) {
            pages.write_at(at, window);
        }
    }
    pages.write_at(len, b"");
    NewValue::Pages(pages)
}

/// The same of the bytes from `at` on.
fn combine_at(op: BitOp, texts: &[Str<'_>], at: usize, window: &mut [u8]) {
    let Some((first, others)) = texts.split_first() else { return };
    first.copy_at(at, window);
    if op == BitOp::Not {
        window.iter_mut().for_each(|byte| *byte = !*byte);
    }
    for text in others {
        let mut done = 0;
        text.for_each_piece(at..at + window.len(), |piece| {
            let bytes = piece.bytes();
            combine_bytes(op, &mut window[done..done + bytes.len()], bytes);
            done += bytes.len();
        });
        if op == BitOp::And {
            window[done..].fill(0);
        }
    }
}

/// Plain loops over bytes of two slices of one length: the compiler makes wide instructions of them.
fn combine_bytes(op: BitOp, target: &mut [u8], bytes: &[u8]) {
    let pairs = target.iter_mut().zip(bytes);
    match op {
        BitOp::And => pairs.for_each(|(target, byte)| *target &= byte),
        BitOp::Or => pairs.for_each(|(target, byte)| *target |= byte),
        BitOp::Xor => pairs.for_each(|(target, byte)| *target ^= byte),
        BitOp::Not => {}
    }
}
