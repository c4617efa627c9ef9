//! DEBUG PROTOCOL: one value of each type of the protocol.

use crate::ctx::DebugCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_resp::Protocol;

pub(super) fn protocol(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let reply = &mut ctx.reply;
    let name = args.at(2).to_ascii_lowercase();
    match name.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(SOME_DOUBLE),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            // An attribute precedes a reply, so a reply must follow.
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err(CmdError::text("ERR RESP2 is not supported by this command"));
            }
            // A push is not a reply, so a reply must follow for clients that discard pushes.
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(CmdError::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(Outcome::Done)
}

/// The value that clients' tests expect; not an approximation of any constant.
#[allow(clippy::approx_constant)]
const SOME_DOUBLE: f64 = 3.141;
