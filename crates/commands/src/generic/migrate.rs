//! Reads the keys and the destination of MIGRATE. The engine's `migration.rs` does the rest.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::{CmdError, until_zero};
use crate::migration::{MigratedKey, Migration, MigrationCredentials};
use crate::outcome::{Outcome, Run};
use crate::production::root_of;
use std::ops::Range;

/// The options after the timeout, and the keys.
struct MigrateOptions {
    copies: bool,
    replaces: bool,
    credentials: Option<MigrationCredentials>,
    /// Positions of the keys among the arguments.
    keys: Range<usize>,
}

pub(super) fn migrate(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let MigrateOptions { copies, replaces, credentials, keys } = parse(args)?;
    let timeout = args.int(5)?;
    let db = args.int(4)?;
    // A timeout of 0 or less stands for a second, as in the reference.
    let timeout_ms = u64::try_from(timeout).ok().filter(|ms| *ms > 0).unwrap_or(1000);
    let now_ms = ctx.db.access.now.unix_ms();
    let mut found = Vec::new();
    for index in keys {
        let key = args.key(index);
        let Some(entry) = ctx.db.get(key) else { continue };
        let ttl_ms = entry.expiry().map_or(0, |at_ms| u64::try_from(at_ms - now_ms).unwrap_or(0).max(1));
        let root = root_of(entry.value());
        found.push(MigratedKey { name: key.bytes.to_vec(), hash: key.hash, ttl_ms, root });
    }
    if found.is_empty() {
        ctx.reply.simple(b"NOKEY");
        return Ok(Outcome::Done);
    }
    let port = std::str::from_utf8(args.at(2)).ok().and_then(|text| text.parse().ok());
    Ok(Outcome::Migrate(Box::new(Migration {
        id: 0,
        host: String::from_utf8_lossy(until_zero(args.at(1))).into_owned(),
        port: port.unwrap_or(0),
        db,
        timeout_ms,
        credentials,
        replaces,
        copies,
        is_between_nodes: ctx.limits.is_cluster,
        list_fill: ctx.limits.list.max_listpack_size,
        compress: ctx.limits.rdb_compression,
        keys: found,
    })))
}

fn parse(args: Args<'_>) -> Result<MigrateOptions, CmdError> {
    let mut options = MigrateOptions { copies: false, replaces: false, credentials: None, keys: 3..4 };
    let mut i = 6;
    while i < args.len() {
        let more = args.len() - 1 - i;
        if args.is(i, "COPY") {
            options.copies = true;
        } else if args.is(i, "REPLACE") {
            options.replaces = true;
        } else if args.is(i, "AUTH") && more >= 1 {
            let password = args.at(i + 1).to_vec();
            options.credentials = Some(MigrationCredentials { user: None, password });
            i += 1;
        } else if args.is(i, "AUTH2") && more >= 2 {
            let (user, password) = (Some(args.at(i + 1).to_vec()), args.at(i + 2).to_vec());
            options.credentials = Some(MigrationCredentials { user, password });
            i += 2;
        } else if args.is(i, "KEYS") {
            if !args.at(3).is_empty() {
                return Err(CmdError::text(KEY_AND_KEYS));
            }
            options.keys = i + 1..args.len();
            break;
        } else {
            return Err(CmdError::Syntax);
        }
        i += 1;
    }
    Ok(options)
}

const KEY_AND_KEYS: &str =
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
