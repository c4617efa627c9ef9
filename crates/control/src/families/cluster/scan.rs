//! CLUSTERSCAN: a walk over the keys of all nodes (section 9 of the specification of the slots).
//!
//! A cursor is `<table>-{<tag>}-<number>`. The tag hashes to the slot where the walk is, so a client finds
//! the node for a cursor in the way in which it finds the node for a key. The number is the position in the
//! tables of the node that issued the cursor; the first part is that node's mark, or `0` in a cursor at the
//! beginning of its slot. For any other node the cursor means the beginning of the slot.

use super::change::slot;
use sluice_base::{key_slot, slot_tag};
use sluice_cluster::{SLOT_COUNT, SlotMap};
use sluice_commands::{Args, CmdError, KeyWalk, Outcome, ReadCtx, Run, slot_of_cursor};
use sluice_keyspace::KeyHasher;

/// The error for a cursor that no node issues.
const NO_CURSOR: CmdError = CmdError::text("ERR Invalid cursor");
/// The mark of a cursor at the beginning of its slot.
const NO_TABLE: &[u8] = b"0";

/// The parts of a cursor other than `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScanCursor<'a> {
    table: &'a [u8],
    slot: u16,
    number: u64,
}

impl<'a> ScanCursor<'a> {
    fn parse(text: &'a [u8]) -> Option<ScanCursor<'a>> {
        let (table, rest) = split(text, b'-')?;
        let (braced, number) = split(rest, b'-')?;
        let tag = braced.strip_prefix(b"{")?.strip_suffix(b"}")?;
        let is_tag = (1..=3).contains(&tag.len()) && tag.iter().all(u8::is_ascii_alphanumeric);
        // A mark must not contain a brace, because the cursor's slot would then be that of another tag.
        let is_mark = table.len() == MARK_BYTES && table.iter().all(|byte| MARK_FROM_TO.contains(byte));
        let is_table = table == NO_TABLE || is_mark;
        if !is_tag || !is_table || number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(ScanCursor { table, slot: key_slot(tag), number })
    }

    /// The position at which the walk continues in this node's tables; `mine` is this node's mark. A cursor
    /// of another node, or a number that belongs to another slot than the tag, means the beginning of the
    /// tag's slot.
    fn number_here(&self, mine: &[u8]) -> u64 {
        let is_mine = self.table == mine && slot_of_cursor(self.number) == self.slot;
        if is_mine { self.number } else { u64::from(self.slot) }
    }
}

/// The parts of `text` before and after the first `at`.
fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = text.iter().position(|byte| *byte == at)?;
    Some((&text[..position], &text[position + 1..]))
}

/// Length of a node's mark.
const MARK_BYTES: usize = 6;
/// The range of bytes in a mark.
const MARK_FROM_TO: std::ops::RangeInclusive<u8> = b'0'..=b'0' + 63;

/// The mark of a node in its cursors: 32 bits of the keyed hash of a constant, six bits a character. A Valkey
/// node computes its mark in another way, from the seed alone. So a Valkey node and a Sluice node with the
/// same `hash-seed` do not accept the numbers in each other's cursors (N-8).
fn mark(hasher: KeyHasher) -> [u8; MARK_BYTES] {
    let bits = (hasher.hash(b"CLUSTERSCAN") as u32).max(1);
    std::array::from_fn(|at| b'0' + (bits.unbounded_shr(6 * (MARK_BYTES - 1 - at) as u32) & 63) as u8)
}

/// The last slot of the run of slots from `slot` on with the same owner (N-7).
fn end_of_run(map: &SlotMap, slot: u16) -> u16 {
    let owner = |slot: u16| map.owners.get(usize::from(slot));
    (slot..SLOT_COUNT).take_while(|other| owner(*other) == owner(slot)).last().unwrap_or(slot)
}

/// The cursor at the beginning of a slot; for the number after the last slot `0`, which ends the scan.
fn beginning_of(slot: u16) -> Vec<u8> {
    match slot < SLOT_COUNT {
        true => [NO_TABLE, b"-{", &slot_tag(slot), b"}-0"].concat(),
        false => b"0".to_vec(),
    }
}

fn reply_no_keys(ctx: &mut ReadCtx<'_>, cursor: &[u8]) -> Run {
    ctx.reply.array(2);
    ctx.reply.bulk(cursor);
    ctx.reply.array(0);
    Ok(Outcome::Done)
}

pub(super) fn clusterscan(ctx: &mut ReadCtx<'_>, map: &SlotMap, args: Args<'_>) -> Run {
    let mut wanted = None;
    let walk = KeyWalk::parse(args, |at| {
        if !args.is(at, "SLOT") || at + 1 == args.len() {
            return Ok(false);
        }
        if wanted.is_some() {
            return Err(CmdError::text("ERR SLOT option can only be specified once"));
        }
        wanted = Some(slot(args, at + 1)?.number());
        Ok(true)
    })?;
    let of_pattern = walk.slot();
    if args.at(1) == b"0" {
        return match (wanted, of_pattern) {
            (Some(wanted), Some(other)) if wanted != other => reply_no_keys(ctx, b"0"),
            _ => reply_no_keys(ctx, &beginning_of(wanted.or(of_pattern).unwrap_or(0))),
        };
    }
    let cursor = ScanCursor::parse(args.at(1)).ok_or(NO_CURSOR)?;
    if wanted.is_some_and(|wanted| wanted != cursor.slot) {
        return Err(CmdError::text("ERR Cursor slot mismatch with SLOT argument"));
    }
    match of_pattern {
        // The pattern matches only names in a slot that is not scanned here, so no name can match.
        Some(other) if wanted.is_some() && other != cursor.slot => return reply_no_keys(ctx, b"0"),
        Some(other) if other > cursor.slot => return reply_no_keys(ctx, &beginning_of(other)),
        Some(other) if other < cursor.slot => return reply_no_keys(ctx, b"0"),
        Some(_) | None => {}
    }
    let is_alone = wanted.or(of_pattern).is_some();
    let last = if is_alone { cursor.slot } else { end_of_run(map, cursor.slot) };
    let mine = mark(ctx.db.hasher());
    walk.reply(ctx, cursor.number_here(&mine), Some(last), |ctx, next| {
        let text = match next {
            0 if is_alone => b"0".to_vec(),
            0 => beginning_of(last + 1),
            next => {
                let number = next.to_string();
                [&mine, b"-{".as_slice(), &slot_tag(slot_of_cursor(next)), b"}-", number.as_bytes()].concat()
            }
        };
        ctx.reply.array(2);
        ctx.reply.bulk(&text);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_n3_cursors_that_no_node_gives_are_none() {
        let cursor = ScanCursor { table: b"0", slot: 13_907, number: 0 };
        assert_eq!(ScanCursor::parse(b"0-{0}-0"), Some(cursor));
        let cursor = ScanCursor { table: b"abcdef", slot: 0, number: u64::MAX };
        assert_eq!(ScanCursor::parse(b"abcdef-{06S}-18446744073709551615"), Some(cursor));
        for text in [
            "",
            "0",
            "1",
            "abc",
            "0-0-0",
            "0-{}-0",
            "0-{!}-0",
            "0-{0000}-0",
            "abcdefg-{0}-0",
            "0-{0}-",
            "0-{0}",
            "0-{0}-x",
            "0-{0}--1",
            "0-{0}-+1",
            "0-{0}-18446744073709551616",
            "-{0}-0",
            "0-{0-0",
            "ab{cd}-{0}-0",
        ] {
            assert_eq!(ScanCursor::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn cb_n8_numbers_of_others_and_of_nobody_mean_the_beginning_of_the_slot() {
        let cursor = |text: &'static str| ScanCursor::parse(text.as_bytes()).unwrap();
        let within = (5 << 14) + 13_907;
        let text: &'static str = format!("abcdef-{{0}}-{within}").leak();
        assert_eq!(cursor(text).number_here(b"abcdef"), within);
        assert_eq!(cursor(text).number_here(b"abcdeg"), 13_907);
        assert_eq!(cursor("abcdef-{0}-7").number_here(b"abcdef"), 13_907, "a number of slot 7");
    }

    #[test]
    fn cb_n8_a_mark_is_six_printable_characters_without_a_hyphen() {
        let mark = mark(KeyHasher::default());
        assert!(mark.iter().all(|byte| (0x30..=0x6f).contains(byte)), "{mark:?}");
    }
}
