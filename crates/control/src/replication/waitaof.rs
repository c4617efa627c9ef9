//! The replies of WAITAOF.

use sluice_commands::CmdError;
use sluice_resp::Reply;

/// WAITAOF waits for this server's own file, which there is not, or is not any more.
pub const AOF_IS_OFF: CmdError =
    CmdError::text("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

/// What WAITAOF answers: whether it is on disk here, and at how many replicas.
pub fn reply_waitaof(reply: &mut Reply<'_>, is_durable: bool, replicas: i64) {
    reply.array(2);
    reply.int(i64::from(is_durable));
    reply.int(replicas);
}
