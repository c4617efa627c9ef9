//! Commands that walk a database: KEYS, SCAN, RANDOMKEY.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::error::{CmdError, until_zero};
use crate::name_filter::NameFilter;
use crate::outcome::{Outcome, Run};
use sluice_base::crc16::SLOT_COUNT;
use sluice_base::num::IntBuffer;
use sluice_base::pattern_slot;
use sluice_keyspace::Entry;
use sluice_resp::Reply;
use std::cmp::Ordering;

pub(super) fn keys(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let pattern = args.at(1);
    let mut filter = NameFilter::new((pattern != b"*").then_some(pattern));
    let start = ctx.reply.outbox().mark();
    let array = ctx.reply.defer();
    let names = ctx.reply.outbox().mark();
    let mut count = 0;
    let reply = &mut ctx.reply;
    let visit = |entry: Entry<'_>| {
        let key = entry.key();
        if filter.passes(key) && !filter.left_last_undecided() {
            reply.bulk(key);
            count += 1;
        }
    };
    match pattern_slot(pattern).filter(|_| ctx.limits.is_cluster) {
        Some(slot) => ctx.db.for_each_in_slot(slot, visit),
        None => ctx.db.for_each(visit),
    }
    if filter.has_undecided() {
        let found = ctx.reply.outbox().split_off(names);
        ctx.reply.outbox().rewind(start);
        return filter.reply_names(ctx, found, count);
    }
    ctx.reply.end_array(array, count);
    Ok(Outcome::Done)
}

pub(super) fn randomkey(ctx: &mut ReadCtx<'_>, _: Args<'_>) -> Run {
    match ctx.db.random(ctx.rng) {
        Some(entry) => ctx.reply.bulk(entry.key()),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

/// The options of a walk over the keys of a database: a filter, and the number of keys that each call is to
/// visit.
pub struct KeyWalk<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
    count: u64,
}

pub(super) fn scan(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut cursor = parse_cursor(args.at(1)).ok_or(CmdError::text("ERR invalid cursor"))?;
    let walk = KeyWalk::parse(args, |_| Ok(false))?;
    // If the pattern matches only keys of one slot, the walk visits no other slot.
    let only = walk.slot().filter(|_| ctx.limits.is_cluster);
    if let Some(slot) = only {
        match slot_of_cursor(cursor).cmp(&slot) {
            Ordering::Less => cursor = u64::from(slot),
            Ordering::Equal => {}
            Ordering::Greater => {
                reply_scan_cursor(ctx, 0);
                ctx.reply.array(0);
                return Ok(Outcome::Done);
            }
        }
    }
    walk.reply(ctx, cursor, only, reply_scan_cursor)
}

/// The slot that a cursor over a keyspace with slots has reached.
pub fn slot_of_cursor(cursor: u64) -> u16 {
    (cursor % u64::from(SLOT_COUNT)) as u16
}

/// Writes the head of the reply of a SCAN command; an array must follow.
pub(crate) fn reply_scan_cursor(ctx: &mut ReadCtx<'_>, cursor: u64) {
    ctx.reply.array(2);
    reply_cursor(ctx, cursor);
}

fn reply_cursor(ctx: &mut ReadCtx<'_>, cursor: u64) {
    match i64::try_from(cursor) {
        Ok(small) => ctx.reply.bulk(IntBuffer::new().format(small)),
        Err(_) => ctx.reply.bulk(cursor.to_string().as_bytes()),
    }
}

impl<'a> KeyWalk<'a> {
    /// The options of a command whose cursor is its first argument. `own` reads options that not every
    /// command has. It returns whether there is such an option at this position; the next argument is then
    /// the option's value.
    ///
    /// # Errors
    /// The error for the client.
    pub fn parse(
        args: Args<'a>,
        mut own: impl FnMut(usize) -> Result<bool, CmdError>,
    ) -> Result<KeyWalk<'a>, CmdError> {
        let mut walk = KeyWalk { pattern: None, type_name: None, count: 10 };
        let mut i = 2;
        while i < args.len() {
            let value = args.get(i + 1);
            if args.is(i, "COUNT") && value.is_some() {
                let count = args.int(i + 1)?;
                walk.count = u64::try_from(count).ok().filter(|n| *n > 0).ok_or(CmdError::Syntax)?;
            } else if args.is(i, "MATCH") && value.is_some() {
                walk.pattern = value.filter(|pattern| *pattern != b"*");
            } else if args.is(i, "TYPE")
                && let Some(name) = value
            {
                walk.type_name = Some(known_type(name)?);
            } else if args.is(i, "NOVALUES") {
                return Err(CmdError::text("ERR NOVALUES option can only be used in HSCAN"));
            } else if args.is(i, "NOSCORES") {
                return Err(CmdError::text("ERR NOSCORES option can only be used in ZSCAN"));
            } else if !own(i)? {
                return Err(CmdError::Syntax);
            }
            i += 2;
        }
        Ok(walk)
    }

    /// The slot of all keys that the pattern matches, if the pattern alone determines it.
    pub fn slot(&self) -> Option<u16> {
        self.pattern.and_then(pattern_slot)
    }

    /// Visits keys from `cursor` on, but none after the slot `last`, if given. The reply consists of the
    /// part that `head` writes for the next cursor (0 if no key is left), and the keys.
    ///
    /// # Errors
    /// Never fails; the result has this type because all handlers have it.
    pub fn reply(
        self,
        ctx: &mut ReadCtx<'_>,
        mut cursor: u64,
        last: Option<u16>,
        head: impl FnOnce(&mut ReadCtx<'_>, u64),
    ) -> Run {
        let mut filter = NameFilter::new(self.pattern);
        // The cursor comes first in the reply but is known last, so references to the keys are collected
        // first.
        let mut found = Vec::new();
        let mut seen = 0u64;
        let mut steps = self.count.saturating_mul(STEPS_PER_KEY);
        loop {
            if let Some(last) = last {
                let slot = slot_of_cursor(cursor);
                match ctx.db.next_slot_with_keys(slot) {
                    Some(next) if next == slot => {}
                    Some(next) if next <= last => cursor = u64::from(next),
                    Some(_) | None => {
                        cursor = 0;
                        break;
                    }
                }
            }
            cursor = ctx.db.scan(
                cursor,
                |entry| {
                    seen += 1;
                    self.has_type(entry) && filter.passes(entry.key())
                },
                |entry| found.push(entry.key()),
            );
            if last.is_some_and(|last| last < slot_of_cursor(cursor)) {
                cursor = 0;
            }
            steps -= 1;
            if cursor == 0 || seen >= self.count || steps == 0 || filter.has_undecided() {
                break;
            }
        }
        let items = found.into_iter().map(|key| move |reply: &mut Reply<'_>| reply.bulk(key));
        filter.reply(ctx, |ctx| head(ctx, cursor), 1, items)
    }

    fn has_type(&self, entry: Entry<'_>) -> bool {
        self.type_name.is_none_or(|name| name.eq_ignore_ascii_case(entry.type_of().name().as_bytes()))
    }
}

fn known_type(name: &[u8]) -> Result<&[u8], CmdError> {
    let name = until_zero(name);
    if TYPES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        return Ok(name);
    }
    Err(CmdError::owned([b"ERR unknown type name '", name, b"'"].concat()))
}

/// Parses a cursor as C's `strtoull` does, which the reference uses: white space and a sign may precede the
/// digits, a negative number wraps, and the text ends at a zero byte. But a negative number that is the
/// canonical form of a 64-bit integer is refused.
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    if let Some(number) = sluice_base::num::parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let text = until_zero(text);
    let start = text.iter().position(|byte| !is_space(byte))?;
    let (sign, digits) = match &text[start..] {
        [sign @ (b'+' | b'-'), digits @ ..] => (*sign, digits),
        digits => (b'+', digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if sign == b'-' { number.wrapping_neg() } else { number })
}

/// The names of types that the option TYPE accepts.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];
/// One call visits at most this many buckets for each requested key. The limit bounds the time of a call in a
/// sparse table.
const STEPS_PER_KEY: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_the_reference_reads_them() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("00", Some(0)),
            ("+0", Some(0)),
            (" 0", Some(0)),
            ("-0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-18446744073709551615", Some(1)),
            ("18446744073709551616", None),
            ("-1", None),
            ("0 ", None),
            ("1\0x", Some(1)),
            ("\0", None),
            ("+ 0", None),
            ("0x10", None),
            ("", None),
            (" ", None),
            ("1\0", Some(1)),
            ("-1\0x", Some(u64::MAX)),
            ("\0", None),
            ("-", None),
            ("abc", None),
        ];
        for (text, cursor) in cases {
            assert_eq!(parse_cursor(text.as_bytes()), *cursor, "{text:?}");
        }
    }
}
