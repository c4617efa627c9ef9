//! BITOP.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::item_commands::is_told_by_result;
use crate::outcome::{Outcome, Run};
use sluice_keyspace::{Event, NewValue, SetExpiry, Str};
use sluice_value::{PAGE_BYTES, Pages, Type};
use std::ops::Range;

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
    if is_told_by_result(&ctx.db) {
        let stored = ctx.db.look(target).and_then(|entry| Some(entry.as_str().ok()?.to_vec()));
        ctx.db.effects.rewrite(|| match stored {
            Some(text) => vec![b"SET".to_vec(), target.bytes.to_vec(), text],
            None => vec![b"DEL".to_vec(), target.bytes.to_vec()],
        });
    }
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

/// The combined strings; shorter ones count as filled with zeros up to `len`.
fn combine(op: BitOp, texts: &[Str<'_>], len: usize) -> NewValue<'static> {
    if len <= PAGE_BYTES {
        let mut all = Vec::with_capacity(len);
        combine_into(op, texts, 0..len, &mut all);
        return NewValue::RawOwned(all);
    }
    let mut pages = Pages::new();
    let mut spare = None;
    for at in (0..len).step_by(PAGE_BYTES) {
        let mut page = spare.take().unwrap_or_else(|| Vec::with_capacity(PAGE_BYTES));
        combine_into(op, texts, at..len.min(at + PAGE_BYTES), &mut page);
        spare = pages.push_page(page);
    }
    NewValue::Pages(pages)
}

/// Writes the combination of a byte range of these strings into `page`.
fn combine_into(op: BitOp, texts: &[Str<'_>], range: Range<usize>, page: &mut Vec<u8>) {
    page.clear();
    let Some((first, mut others)) = texts.split_first() else { return };
    match (whole(*first, &range), others.first().and_then(|second| whole(*second, &range))) {
        (Some(first), _) if op == BitOp::Not => page.extend(first.iter().map(|byte| !byte)),
        (Some(first), Some(second)) => {
            // The first two strings are combined in one loop, so the page is written only once for both.
            let pairs = first.iter().zip(second);
            match op {
                BitOp::And => page.extend(pairs.map(|(one, other)| one & other)),
                BitOp::Or => page.extend(pairs.map(|(one, other)| one | other)),
                BitOp::Xor | BitOp::Not => page.extend(pairs.map(|(one, other)| one ^ other)),
            }
            others = &others[1..];
        }
        (Some(first), None) => page.extend_from_slice(first),
        (None, _) => {
            page.resize(range.len(), 0);
            first.copy_at(range.start, page);
            if op == BitOp::Not {
                page.iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
    }
    for text in others {
        let mut done = 0;
        text.for_each_piece(range.clone(), |piece| {
            let bytes = piece.bytes();
            combine_bytes(op, &mut page[done..done + bytes.len()], bytes);
            done += bytes.len();
        });
        if op == BitOp::And {
            page[done..].fill(0);
        }
    }
}

/// The bytes of a range if the string has all of them, in one piece.
fn whole<'t>(text: Str<'t>, range: &Range<usize>) -> Option<&'t [u8]> {
    match text {
        Str::Int(_) => None,
        Str::Inline(bytes) => bytes.get(range.clone()),
        Str::Shared(bytes) => bytes.get(range.clone()),
        Str::Pages(pages) => pages.slices(range.clone()).next().filter(|slice| slice.len() == range.len()),
    }
}

/// Plain loops over two slices of the same length, which the compiler vectorises.
fn combine_bytes(op: BitOp, target: &mut [u8], bytes: &[u8]) {
    let pairs = target.iter_mut().zip(bytes);
    match op {
        BitOp::And => pairs.for_each(|(target, byte)| *target &= byte),
        BitOp::Or => pairs.for_each(|(target, byte)| *target |= byte),
        BitOp::Xor => pairs.for_each(|(target, byte)| *target ^= byte),
        BitOp::Not => {}
    }
}
