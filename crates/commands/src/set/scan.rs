//! SSCAN.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::element::reply_item;
use crate::error::CmdError;
use crate::generic::{parse_cursor, reply_scan_cursor};
use crate::name_filter::NameFilter;
use crate::outcome::{Outcome, Run};
use crate::set::common::set_of;
use sluice_base::num::IntBuffer;
use sluice_resp::Reply;
use sluice_value::ListItem;

/// The options of SSCAN.
struct SetScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
}

impl<'a> SetScanOptions<'a> {
    fn parse(args: Args<'a>) -> Result<SetScanOptions<'a>, CmdError> {
        let mut options = SetScanOptions { pattern: None, count: 10 };
        let mut at = 3;
        while at < args.len() {
            let value = args.get(at + 1);
            if args.is(at, "COUNT") && value.is_some() {
                let count = usize::try_from(args.int(at + 1)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(CmdError::Syntax)?;
            } else if args.is(at, "MATCH") && value.is_some() {
                options.pattern = value.filter(|pattern| *pattern != b"*");
            } else if args.is(at, "NOVALUES") {
                return Err(CmdError::text("ERR NOVALUES option can only be used in HSCAN"));
            } else if args.is(at, "NOSCORES") {
                return Err(CmdError::text("ERR NOSCORES option can only be used in ZSCAN"));
            } else {
                return Err(CmdError::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }
}

pub(super) fn sscan(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let cursor = parse_cursor(args.at(2)).ok_or(CmdError::text("ERR invalid cursor"))?;
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(2);
        ctx.reply.bulk(b"0");
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let set = set_of(entry)?;
    let options = SetScanOptions::parse(args)?;
    // The cursor comes first in the reply but is known last, so the members are collected first.
    let mut filter = NameFilter::new(options.pattern);
    let mut members = Vec::new();
    let next = set.scan(cursor, options.count, |member| {
        let mut digits = IntBuffer::new();
        let bytes = member.bytes(&mut digits);
        if filter.passes(bytes) {
            members.push(bytes.to_vec());
        }
    });
    let items =
        members.iter().map(|member| |reply: &mut Reply<'_>| reply_item(reply, ListItem::Bytes(member)));
    filter.reply(ctx, |ctx| reply_scan_cursor(ctx, next), 1, items)
}
