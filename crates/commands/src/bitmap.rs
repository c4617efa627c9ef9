//! Bitmaps: strings as rows of bits.

mod common;
mod count;
mod field;
mod op;

use crate::args::Args;
use crate::bitmap::common::bit_offset;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, WriteCtx, route};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_base::num::parse_i64;
use sluice_command::specs::bitmap as specs;
use sluice_keyspace::Event;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::BITCOUNT, DataHandler::Read(count::bitcount)),
    route(&specs::BITFIELD, DataHandler::Write(field::bitfield)),
    route(&specs::BITFIELD_RO, DataHandler::Read(field::bitfield_ro)),
    route(&specs::BITOP, DataHandler::Write(op::bitop)),
    route(&specs::BITPOS, DataHandler::Read(count::bitpos)),
    route(&specs::GETBIT, DataHandler::Read(getbit)),
    route(&specs::SETBIT, DataHandler::Write(setbit)),
];

fn setbit(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let offset = bit_offset(args.at(2), ctx.string_bytes_max())?;
    let on = match parse_i64(args.at(3)) {
        Some(0) => false,
        Some(1) => true,
        Some(_) | None => return Err(CmdError::text("ERR bit is not an integer or out of range")),
    };
    let at = offset / 8;
    let mut edit = ctx.db.edit_str(args.key(1), at + 1)?;
    let mut byte = [0];
    edit.text().copy_at(at, &mut byte);
    let mask = 0x80 >> (offset % 8);
    let was_on = byte[0] & mask != 0;
    if was_on != on {
        edit.write(at, &[byte[0] ^ mask]);
    }
    if was_on != on || edit.grew() {
        edit.done(Event::SetBit, 1);
    } else {
        edit.unchanged();
    }
    ctx.reply.int(i64::from(was_on));
    Ok(Outcome::Done)
}

fn getbit(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let offset = bit_offset(args.at(2), ctx.limits.proto_max_bulk_len)?;
    let mut byte = [0];
    if let Some(entry) = ctx.db.get(args.key(1)) {
        entry.as_str()?.copy_at(offset / 8, &mut byte);
    }
    ctx.reply.int(i64::from(byte[0] >> (7 - offset % 8) & 1));
    Ok(Outcome::Done)
}
