//! BITFIELD and BITFIELD_RO.

use crate::args::Args;
use crate::bitmap::common::{BAD_OFFSET, checked_offset};
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_base::num::parse_i64;
use sluice_collections::bits;
use sluice_keyspace::{Event, Str, StrEdit};
use sluice_resp::Reply;

/// An integer inside a string.
#[derive(Clone, Copy)]
struct BitField {
    is_signed: bool,
    /// Width in bits: up to 64 if signed, 63 if unsigned.
    width: u32,
    /// Offset of the first bit in the string.
    offset: usize,
}

/// Treatment of a result that does not fit its field.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum FieldAction {
    Get,
    Set(i64, Overflow),
    IncrBy(i64, Overflow),
}

#[derive(Clone, Copy)]
struct FieldOperation {
    field: BitField,
    action: FieldAction,
}

/// Largest number of bytes over which a field can extend.
const FIELD_BYTES_MAX: usize = 9;

impl BitField {
    fn parse(kind: &[u8], offset: &[u8], bytes_max: usize) -> Result<BitField, CmdError> {
        let (is_signed, width) = match kind.split_first() {
            Some((b'i', width)) => (true, width),
            Some((b'u', width)) => (false, width),
            _ => return Err(BAD_TYPE),
        };
        let width_max = if is_signed { 64 } else { 63 };
        let width = parse_i64(width).filter(|width| (1..=width_max).contains(width)).ok_or(BAD_TYPE)? as u32;
        let offset = match offset.strip_prefix(b"#") {
            Some(index) => parse_i64(index).and_then(|index| index.checked_mul(i64::from(width))),
            None => parse_i64(offset),
        };
        // An index (`#n`) whose product with the width is too large gives the error of an invalid offset,
        // too.
        let offset = checked_offset(offset, bytes_max).map_err(|_| BAD_OFFSET)?;
        Ok(BitField { is_signed, width, offset })
    }

    /// Length in bytes that a string needs to contain the field.
    fn end(self) -> usize {
        (self.offset + self.width as usize).div_ceil(8)
    }

    fn read(self, text: Str<'_>) -> i64 {
        let mut bytes = [0; FIELD_BYTES_MAX];
        text.copy_at(self.offset / 8, &mut bytes);
        self.value_of(bits::field(&bytes, self.offset % 8, self.width))
    }

    /// The number that the bits of a field represent.
    fn value_of(self, field: u64) -> i64 {
        let unused = 64 - self.width;
        if self.is_signed { (field << unused) as i64 >> unused } else { field as i64 }
    }

    fn write(self, edit: &mut StrEdit<'_, '_>, value: i64) {
        let (first, mut bytes) = (self.offset / 8, [0; FIELD_BYTES_MAX]);
        let bytes = &mut bytes[..self.end() - first];
        edit.text().copy_at(first, bytes);
        bits::set_field(bytes, self.offset % 8, self.width, value as u64);
        edit.write(first, bytes);
    }

    /// The value that the field stores for `value`; `None` if it does not fit and `overflow` is `Fail`.
    fn fitted(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = if self.is_signed {
            (-(1_i128 << (self.width - 1)), (1 << (self.width - 1)) - 1)
        } else {
            (0, (1_i128 << self.width) - 1)
        };
        if (min..=max).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.value_of(value as u64 & (u64::MAX >> (64 - self.width)))),
            Overflow::Saturate => Some(value.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }
}

const BAD_TYPE: CmdError = CmdError::text(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);

/// The operations of a call, in order.
fn parse(args: Args<'_>, bytes_max: usize) -> Result<Vec<FieldOperation>, CmdError> {
    let mut operations = Vec::with_capacity(args.len() / 3);
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < args.len() {
        let behind = args.len() - at - 1;
        if args.is(at, "OVERFLOW") && behind >= 1 {
            overflow = match () {
                () if args.is(at + 1, "WRAP") => Overflow::Wrap,
                () if args.is(at + 1, "SAT") => Overflow::Saturate,
                () if args.is(at + 1, "FAIL") => Overflow::Fail,
                () => return Err(CmdError::text("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let len = match () {
            () if args.is(at, "GET") && behind >= 2 => 3,
            () if (args.is(at, "SET") || args.is(at, "INCRBY")) && behind >= 3 => 4,
            () => return Err(CmdError::Syntax),
        };
        let field = BitField::parse(args.at(at + 1), args.at(at + 2), bytes_max)?;
        let action = match len {
            3 => FieldAction::Get,
            _ if args.is(at, "SET") => FieldAction::Set(args.int(at + 3)?, overflow),
            _ => FieldAction::IncrBy(args.int(at + 3)?, overflow),
        };
        operations.push(FieldOperation { field, action });
        at += len;
    }
    Ok(operations)
}

fn is_read(operation: &FieldOperation) -> bool {
    matches!(operation.action, FieldAction::Get)
}

pub(super) fn bitfield_ro(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let operations = parse(args, ctx.limits.proto_max_bulk_len)?;
    if !operations.iter().all(is_read) {
        return Err(CmdError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let text = match ctx.db.get(args.key(1)) {
        Some(entry) => entry.as_str()?,
        None => Str::Inline(b""),
    };
    reply_fields(&mut ctx.reply, &operations, text);
    Ok(Outcome::Done)
}

fn reply_fields(reply: &mut Reply<'_>, operations: &[FieldOperation], text: Str<'_>) {
    reply.array(operations.len());
    operations.iter().for_each(|operation| reply.int(operation.field.read(text)));
}

pub(super) fn bitfield(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let operations = parse(args, ctx.string_bytes_max())?;
    let written = operations.iter().filter(|operation| !is_read(operation));
    let Some(len_min) = written.map(|operation| operation.field.end()).max() else {
        let text = match ctx.db.get(args.key(1)) {
            Some(entry) => entry.as_str()?,
            None => Str::Inline(b""),
        };
        reply_fields(&mut ctx.reply, &operations, text);
        return Ok(Outcome::Done);
    };
    let mut edit = ctx.db.edit_str(args.key(1), len_min)?;
    let mut changes = 0;
    ctx.reply.array(operations.len());
    for FieldOperation { field, action } in operations {
        let before = field.read(edit.text());
        let (after, is_new_shown) = match action {
            FieldAction::Get => {
                ctx.reply.int(before);
                continue;
            }
            // An unsigned field interprets the bits of a negative number as a large one.
            FieldAction::Set(value, overflow) if field.is_signed => {
                (field.fitted(value.into(), overflow), false)
            }
            FieldAction::Set(value, overflow) => (field.fitted((value as u64).into(), overflow), false),
            FieldAction::IncrBy(amount, overflow) => {
                (field.fitted(i128::from(before) + i128::from(amount), overflow), true)
            }
        };
        let Some(after) = after else {
            ctx.reply.null();
            continue;
        };
        ctx.reply.int(if is_new_shown { after } else { before });
        // If any write of the call has made the string longer, each write counts as a change, as in the
        // reference.
        if before != after || edit.grew() {
            field.write(&mut edit, after);
            changes += 1;
        }
    }
    match changes {
        0 => edit.unchanged(),
        changes => edit.done(Event::SetBit, changes),
    }
    Ok(Outcome::Done)
}
