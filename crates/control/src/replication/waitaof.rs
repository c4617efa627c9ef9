//! The replies of WAITAOF.

use sluice_commands::CmdError;
use sluice_resp::Reply;

/// The error of WAITAOF if it requires this server's own append-only file, which is off.
pub const AOF_IS_OFF: CmdError =
    CmdError::text("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");

/// Writes the reply of WAITAOF: whether the write is on disk here, and the number of replicas that have
/// it on disk.
pub fn reply_waitaof(reply: &mut Reply<'_>, is_durable: bool, replicas: i64) {
    reply.array(2);
    reply.int(i64::from(is_durable));
    reply.int(replicas);
}
